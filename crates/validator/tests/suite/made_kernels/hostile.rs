//! Mutated objects, and some unchanged ones.

use opkeep_cann_meta::targets;
use opkeep_validator::{Code, Report, fuzz, validate, validate_full, validate_object};

use crate::made_kernels::ascend::{Kernel, NOTE, Section, tlv};
use crate::made_kernels::codes;
use crate::made_kernels::made::{KERNEL, expect, meta, object, object_with};

/// Judges a mutated object with a description that has its digest, so that the digest does not hide other findings.
fn judge(object: &[u8]) -> Report {
    validate(meta(object).to_json().as_bytes(), object, &expect())
}

#[test]
fn every_truncation_is_refused() {
    let object = object_with(&[KERNEL, "other"]);
    assert_eq!(codes(&judge(&object)), []);
    for end in 0..object.len() {
        let cut = &object[..end];
        let report = judge(cut);
        let code = if end < 4 { Code::NOT_ELF } else { Code::MALFORMED };
        assert!(!report.is_valid() && report.find(code).is_some(), "{end}: {report:?}");
        assert_eq!(validate_object(cut, None).cross_check, None);
        // The digest alone would suffice.
        let report = validate(meta(&object).to_json().as_bytes(), cut, &expect());
        assert!(report.find(Code::SHA256).is_some(), "{end}: {report:?}");
    }
}

/// Invariants for any bytes: no panic, and no disagreement of the parsers without another error.
fn survives(object: &[u8], what: &dyn std::fmt::Display) -> bool {
    let json = meta(object).to_json();
    let quick = validate(json.as_bytes(), object, &expect());
    let mut verdict = codes(&quick);
    let report = validate_full(json.as_bytes(), object, &expect());
    let second = [Code::SECOND_PARSER, Code::FE_REFUSES, Code::FE_LINT, Code::MINDSPORE_LINT];
    let mut examined: Vec<Code> = codes(&report).into_iter().filter(|code| !second.contains(code)).collect();
    verdict.sort();
    examined.sort();
    assert_eq!(examined, verdict, "{what}");
    quick.is_valid()
}

#[test]
fn no_flip_of_a_bit_panics() {
    let base = object_with(&[KERNEL, "other"]);
    let mut refused = 0;
    for bit in 0..base.len() * 8 {
        let mut object = base.clone();
        object[bit / 8] ^= 1 << (bit % 8);
        refused += usize::from(!survives(&object, &format_args!("bit {bit}")));
    }
    // Some flips are harmless, such as those in the padding, but not those in the identification, in the kernel's name
    // and symbol, and in the sections' offsets.
    assert!(refused > 500, "{refused}");
}

/// Boundary values, written over several fields at once.
#[test]
fn no_overwritten_field_panics() {
    let base = object();
    let mut seed = 1_u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    let mut accepted = 0;
    for round in 0..20_000 {
        let mut object = base.clone();
        for _ in 0..1 + random(4) {
            let at = 16 + random(object.len() - 16 - 8);
            let value = [0, 1, 2, 3, 8, 11, 255, base.len() as u64, 1 << 32, 1 << 63, u64::MAX][random(11)];
            let width = [1, 2, 4, 8][random(4)];
            object[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
        }
        accepted += usize::from(survives(&object, &format_args!("round {round}")));
    }
    // If all were refused at the header, nothing would have been tested.
    assert!((1_000..19_000).contains(&accepted), "{accepted}");
}

/// An object may have any alignment in memory: in the store it is somewhere within an entry.
#[test]
fn alignment_does_not_matter() {
    let object = object();
    for shift in 0..16 {
        let mut bytes = vec![0; shift];
        bytes.extend(&object);
        assert_eq!(codes(&judge(&bytes[shift..])), [], "{shift}");
        let cross_check = validate_object(&bytes[shift..], None).cross_check.unwrap();
        assert_eq!(cross_check.kernels, 1, "{shift}");
    }
}

#[test]
fn only_goblin_refuses_a_name_that_is_no_text() {
    let mut object = object_with(&[KERNEL, "odd?"]);
    let at = object.windows(4).position(|window| window == b"odd?").unwrap();
    object[at + 3] = 0xff;
    assert_eq!(codes(&judge(&object)), []);
    let report = validate_object(&object, None);
    assert_eq!(codes(&report), [Code::SECOND_PARSER]);
    assert_eq!(report.object.unwrap().kernels[1].name, "odd\u{fffd}");
}

/// The bits of a kernel with metadata, one by one: each flip is refused, reported, or has no meaning to any rule.
#[test]
fn no_flip_of_a_bit_of_a_device_kernel_panics() {
    let kernel = Kernel::mixed();
    let base = kernel.object();
    let (mut refused, mut message) = (0, 0);
    for bit in 0..base.len() * 8 {
        let mut object = base.clone();
        object[bit / 8] ^= 1 << (bit % 8);
        let report = validate(kernel.json_of(&object).as_bytes(), &object, &targets::ascend("Ascend"));
        refused += usize::from(!report.is_valid());
        message += usize::from(report.is_valid() && !report.findings.is_empty());
    }
    assert!(refused > 1000 && message > 300, "{refused} {message}");
}

#[test]
fn the_fuzz_targets_body_holds_for_generated_kernels() {
    for kernel in [Kernel::vector(2), Kernel::mixed(), Kernel::first_generation()] {
        let object = kernel.object();
        fuzz(&object);
        let both = [kernel.json_of(&object).as_bytes(), &[0], &object].concat();
        for end in (0..both.len()).step_by(7) {
            fuzz(&both[..end]);
        }
    }
    fuzz(b"");
    fuzz(br#"{"kernelName": "\u001b[31m", "binFileName": "\u0000", "magic": 1}"#);
    fuzz(&[b'['; 100_000]);
}

/// The least time that `work` takes in several runs.
fn quickest(work: impl Fn()) -> std::time::Duration {
    let time = |_| {
        let began = opkeep_testkit::CpuTime::start();
        work();
        began.elapsed()
    };
    (0..5).map(time).min().unwrap()
}

/// Ten times as many sections that share one name and one content do not take a hundred times as long.
#[test]
fn sections_that_share_bytes_take_linear_time() {
    let shared = |sections: usize| {
        let mut kernel = Kernel::vector(1);
        kernel.section(".ascend.meta.add_0").bytes = tlv(300, &[0; 60]).repeat(sections);
        let mut object = kernel.object();
        let count = kernel.sections.len() + 3;
        let headers = object.len() - 64 * count;
        let one = object[headers + 7 * 64..headers + 8 * 64].to_vec();
        object.extend(one.repeat(sections));
        object[60..62].copy_from_slice(&((count + sections) as u16).to_le_bytes());
        object
    };
    let (few, many) = (shared(600), shared(6000));
    let report = validate_object(&many, None);
    assert!(report.find(Code::MALFORMED).is_some(), "{report:?}");
    assert!(report.findings.len() < 30, "{}", report.findings.len());
    let (few, many) =
        (quickest(|| drop(validate_object(&few, None))), quickest(|| drop(validate_object(&many, None))));
    assert!(many < few * 40, "{few:?} {many:?}");
}

#[test]
fn a_million_symbols_are_read_in_time() {
    let mut kernel = Kernel::vector(1);
    let symbol = kernel.symbols[0].clone();
    for at in 0..1_000_000 {
        let mut symbol = symbol.clone();
        symbol.name = format!("k{at}");
        // Every other one exceeds `.text`: each would be a finding if all were kept.
        symbol.value = 4096 * (at % 2);
        kernel.symbols.push(symbol);
    }
    kernel.sections.retain(|section| section.name != "__CCE_KernelArgSize");
    let object = kernel.object();
    let began = opkeep_testkit::CpuTime::start();
    let report = validate_object(&object, None);
    assert!(began.elapsed() < std::time::Duration::from_secs(30), "{:?}", began.elapsed());
    assert_eq!(report.object.as_ref().unwrap().kernels.len(), 1_000_001);
    let out: Vec<_> = report.findings.iter().filter(|one| one.code() == Code::OTHER_RANGE).collect();
    assert_eq!((out.len(), out.last().unwrap().more), (8, 500_000 - 8));
}

/// A section whose fields overflow, and one that is longer than any file.
#[test]
fn huge_sections_are_refused() {
    let kernel = Kernel::vector(1);
    let base = kernel.object();
    let headers = base.len() - 64 * (kernel.sections.len() + 3);
    for (offset, size) in
        [(u64::MAX, 1), (u64::MAX, u64::MAX), (1, u64::MAX), (1 << 63, 1 << 63), (0, 1 << 40)]
    {
        for section in [1, 2, 7, kernel.sections.len() + 1, kernel.sections.len() + 2] {
            let mut object = base.clone();
            let at = headers + 64 * section + 24;
            object[at..at + 8].copy_from_slice(&offset.to_le_bytes());
            object[at + 8..at + 16].copy_from_slice(&size.to_le_bytes());
            let report = validate_object(&object, None);
            assert!(report.find(Code::MALFORMED).is_some(), "{section} {offset} {size}: {report:?}");
        }
    }
}

#[test]
fn text_from_files_is_harmless() {
    let mut kernel = Kernel::vector(1);
    kernel.sections.push(Section::new(".ascend.meta.\x1b[31m\n", NOTE, 0, &[]));
    kernel.json["coreType"] = "\u{1b}[31m".into();
    kernel.json["binFileName"] = "\u{1b}[31m\n/../x".into();
    kernel.json["kernelName"] = "add\u{0}".into();
    kernel.json.as_object_mut().unwrap().remove("kernelList");
    let report = validate(kernel.json().as_bytes(), &kernel.object(), &targets::ascend("Ascend"));
    assert!(report.findings.len() >= 4, "{report:?}");
    for finding in &report.findings {
        assert!(!finding.to_string().contains(|letter: char| letter.is_control()), "{finding:?}");
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test may read its own program")]
#[cfg(all(target_os = "linux", target_pointer_width = "64", target_endian = "little"))]
fn this_program_is_read_alike_by_both_parsers() {
    let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let report = validate_object(&program, None);
    assert_eq!(codes(&report), []);
    let (facts, cross_check) = (report.object.unwrap(), report.cross_check.unwrap());
    assert!(facts.kernels.iter().any(|kernel| kernel.name == "main"), "{:?}", facts.kernels);
    assert_eq!((cross_check.sections, cross_check.kernels), (facts.sections, facts.kernels.len()));
}
