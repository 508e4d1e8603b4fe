//! Comparison of the metadata with the `.json`.

use opkeep_cann_meta::targets;
use opkeep_validator::{Code, KernelProblem, Problem, TaskRatio, validate};
use serde_json::json;

use crate::made_kernels::ascend::{Kernel, NOTE, Section, tlv};
use crate::made_kernels::codes;

fn judge(kernel: &Kernel) -> Vec<Code> {
    let target = if kernel.is_first_generation() { "Ascend910A" } else { "Ascend910B1" };
    let expect = targets::ascend(target);
    codes(&validate(kernel.json().as_bytes(), &kernel.object(), &expect))
}

/// The findings after `change` to a kernel without findings.
#[track_caller]
fn changed(mut kernel: Kernel, change: impl FnOnce(&mut Kernel)) -> Vec<Code> {
    assert_eq!(judge(&kernel), []);
    change(&mut kernel);
    judge(&kernel)
}

/// The findings if the kernel's entry in the list differs.
fn entry(field: &str, value: serde_json::Value) -> Vec<Code> {
    changed(Kernel::mixed(), |kernel| kernel.json["kernelList"][0][field] = value)
}

#[test]
fn the_kind_of_core_is_compared() {
    let core = |text: &str| {
        changed(Kernel::vector(1), |kernel| {
            kernel.json["coreType"] = text.into();
            kernel.json.as_object_mut().unwrap().remove("core_type");
            kernel.json["magic"] = "RT_DEV_BINARY_MAGIC_ELF".into();
        })
    };
    // Only mixed kernels have this magic on these chips.
    assert_eq!(core("VectorCore"), [Code::MAGIC_MISFIT]);
    assert_eq!(core("AiCore"), [Code::KERNEL_TYPE, Code::MAGIC_MISFIT]);
    assert_eq!(core("CubeCore"), [Code::KERNEL_TYPE, Code::MAGIC_MISFIT]);
    // A mixed binary may have a kernel for one side; an unknown word is compared with nothing.
    assert_eq!(core("MIX"), []);
    assert_eq!(core("QuantumCore"), [Code::UNKNOWN_CORE]);

    let kind = |number| {
        let section = move |kernel: &mut Kernel| kernel.section(".ascend.meta.add_0").bytes[4] = number;
        changed(Kernel::vector(1), section)
    };
    // Compilers for chips with one kind of core write 1, although the magic differs then.
    for (number, found) in [
        (1, vec![]),
        (2, vec![Code::MAGIC_MISFIT, Code::KERNEL_TYPE]),
        (3, vec![]),
        (4, vec![Code::MAGIC_MISFIT, Code::KERNEL_TYPE]),
        (7, vec![]),
        (8, vec![Code::METADATA]),
    ] {
        let mut codes = kind(number);
        codes.sort();
        assert_eq!(codes, found, "{number}");
    }
    // Two sides, two symbols.
    assert_eq!(entry("kernelType", json!("AIV")), [Code::KERNEL_TYPE; 2]);
    assert_eq!(entry("kernelType", json!("MIX_AIV")), []);
}

#[test]
fn magic_and_core_type_go_together() {
    for (magic, core, is_misfit) in [
        ("ELF_AIVEC", "AiCore", true),
        ("ELF_AICUBE", "VectorCore", true),
        ("ELF_AICUBE", "MIX", true),
        ("ELF", "VectorCore", false),
        ("ELF", "MIX", false),
        ("ELF_AICUBE", "AiCore", false),
    ] {
        let mut kernel = Kernel::first_generation();
        kernel.json["magic"] = format!("RT_DEV_BINARY_MAGIC_{magic}").into();
        kernel.json["coreType"] = core.into();
        assert_eq!(
            judge(&kernel),
            if is_misfit { vec![Code::MAGIC_MISFIT] } else { vec![] },
            "{magic} {core}"
        );
    }
    let contradiction = changed(Kernel::vector(1), |kernel| kernel.json["core_type"] = "AIC".into());
    assert_eq!(contradiction, [Code::CORE_TYPES]);
}

#[test]
fn the_statements_of_an_entry_are_compared() {
    // Once for each side.
    assert_eq!(entry("taskRation", json!("1:1")), [Code::TASK_RATIO; 2]);
    assert_eq!(entry("crossCoreSync", json!(0)), [Code::CROSS_CORE_SYNC; 2]);
    assert_eq!(entry("deterministic", json!("false")), [Code::DETERMINISTIC; 2]);
    assert_eq!(entry("deterministic", json!("ignore")), []);
    // The name and the metadata of both sides state 3.
    assert_eq!(entry("tilingKey", json!(4)), [Code::TILING_KEY; 3]);
    // Without its own entry, a kernel has the properties of the whole.
    let whole = |text: &str| {
        changed(Kernel::mixed(), |kernel| {
            kernel.json["taskRation"] = text.into();
            kernel.json["kernelList"][0].as_object_mut().unwrap().remove("taskRation");
        })
    };
    assert_eq!(whole("1:2"), []);
    assert_eq!(whole("0:1"), [Code::TASK_RATIO; 2]);

    let mut kernel = Kernel::mixed();
    kernel.json["kernelList"][0]["taskRation"] = "1:1".into();
    let report = validate(kernel.json().as_bytes(), &kernel.object(), &targets::ascend("Ascend"));
    let problem = Problem::Kernel(KernelProblem::TaskRatio {
        kernel: "add_3_mix_aic".into(),
        expected: TaskRatio { cube: 1, vector: 1 },
        found: TaskRatio { cube: 1, vector: 2 },
    });
    assert_eq!(report.findings[0].problem, problem);
}

/// A key without its flag is ignored.
#[test]
fn keys_count_only_with_their_flag() {
    let key = |flag: u8| {
        changed(Kernel::mixed(), |kernel| {
            let value = [flag, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0];
            for side in ["aic", "aiv"] {
                let section = kernel.section(&format!(".ascend.meta.add_3_mix_{side}"));
                section.bytes = [tlv(1, &[4, 0, 0, 0]), tlv(14, &value)].concat();
            }
        })
    };
    assert_eq!(key(0), []);
    assert_eq!(key(0x80), [Code::TILING_KEY; 2]);
}

#[test]
fn truncated_stray_and_missing_sections_are_reported() {
    let truncated = |kernel: &mut Kernel| {
        kernel.section(".ascend.meta.add_0").bytes.pop();
    };
    assert_eq!(changed(Kernel::vector(1), truncated), [Code::METADATA]);
    let stray = |kernel: &mut Kernel| kernel.section(".ascend.meta.add_0").name.push('9');
    assert_eq!(changed(Kernel::vector(1), stray), [Code::STRAY_METADATA]);
    assert_eq!(changed(Kernel::vector(2), stray), [Code::STRAY_METADATA, Code::NO_METADATA]);
    let twice = |kernel: &mut Kernel| {
        let again = kernel.section(".ascend.meta.add_0").clone();
        kernel.sections.push(again);
    };
    assert_eq!(changed(Kernel::vector(1), twice), [Code::METADATA]);
    // Compilers of 2024 wrote none at all.
    let none = |kernel: &mut Kernel| kernel.sections.retain(|section| !section.name.contains(".meta."));
    assert_eq!(changed(Kernel::vector(2), none), []);
    let whole = |kernel: &mut Kernel| kernel.sections.push(Section::new(".ascend.meta", NOTE, 0, &[1, 0, 9]));
    assert_eq!(changed(Kernel::vector(1), whole), [Code::METADATA]);
}

#[test]
fn records_that_the_runtime_refuses_are_noted() {
    let record = |bytes: Vec<u8>| {
        changed(Kernel::vector(2), |kernel| kernel.section(".ascend.stack.size.record").bytes = bytes)
    };
    assert_eq!(record([16384_u64, 16384].iter().flat_map(|size| size.to_le_bytes()).collect()), []);
    for refused in [vec![], vec![0; 7], 4096_u64.to_le_bytes().to_vec()] {
        assert_eq!(record(refused), [Code::STACK_RECORD]);
    }
    let differ = [16384_u64, 32768].iter().flat_map(|size| size.to_le_bytes()).collect();
    assert_eq!(record(differ), [Code::STACK_RECORD]);
    let arguments = |kernel: &mut Kernel| kernel.section("__CCE_KernelArgSize").bytes.truncate(4);
    assert_eq!(changed(Kernel::vector(2), arguments), [Code::ARGUMENT_RECORD]);
}

#[test]
fn kernels_that_are_not_listed_are_noted() {
    let shorten = |kernel: &mut Kernel| {
        kernel.json["kernelList"].as_array_mut().unwrap().pop();
    };
    assert_eq!(changed(Kernel::vector(3), shorten), [Code::UNLISTED]);
}
