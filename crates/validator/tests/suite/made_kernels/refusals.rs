//! Each rule, violated alone, gives its own finding.

use opkeep_cann_meta::{KernelEntry, KernelMeta, Magic, targets};
use opkeep_validator::{
    Code, DescriptionProblem, ElfType, Finding, KernelProblem, Linkage, Machine, ObjectProblem, Problem,
    Report, validate, validate_full, validate_object,
};

use crate::made_kernels::codes;
use crate::made_kernels::made::{
    KERNEL, NOT_KERNELS, expect, meta, object, object_with, section_header, word,
};

fn check(meta: &KernelMeta, object: &[u8]) -> Report {
    validate(meta.to_json().as_bytes(), object, &expect())
}

/// The object with `bytes` at `at`, judged with a description that has its digest.
fn patched(at: usize, bytes: &[u8]) -> Report {
    let mut object = object();
    object[at..at + bytes.len()].copy_from_slice(bytes);
    check(&meta(&object), &object)
}

/// The made object, judged after `change` to its description.
fn described(change: impl FnOnce(&mut KernelMeta)) -> Report {
    let object = object();
    let mut meta = meta(&object);
    change(&mut meta);
    check(&meta, &object)
}

/// The only problem.
#[track_caller]
fn only(report: &Report) -> &Problem {
    let [Finding { problem, .. }] = &report.findings[..] else { panic!("{:?}", report.findings) };
    problem
}

fn kernels(report: &Report) -> Vec<&str> {
    report.object.as_ref().unwrap().kernels.iter().map(|kernel| kernel.name.as_str()).collect()
}

fn entry(name: &str) -> KernelEntry {
    KernelEntry { kernel_name: name.into(), ..KernelEntry::default() }
}

#[test]
fn the_generated_kernel_is_accepted_and_reported() {
    let report = described(|_| {});
    assert!(report.is_valid() && report.findings.is_empty());
    assert_eq!(kernels(&report), [KERNEL]);
    assert_eq!(report.meta, Some(meta(&object())));
    let facts = report.object.unwrap();
    assert_eq!((facts.machine, facts.elf_type), (Machine(62), Some(ElfType::Relocatable)));
    assert_eq!((facts.flags, facts.architecture, facts.linkage), (0, None, Linkage::Part));
    // The null section, .text, .data, .symtab, .strtab, .shstrtab.
    assert_eq!(facts.sections, 6);
    let alone = validate_object(&object(), None);
    assert_eq!((alone.object, alone.sha256), (Some(facts), report.sha256));
}

#[test]
fn only_a_visible_global_function_with_code_is_a_kernel() {
    for name in NOT_KERNELS {
        let report = described(|meta| meta.kernel_name = Some(name.into()));
        let known = Problem::Kernel(KernelProblem::Kernel {
            field: "kernelName",
            expected: name.into(),
            kernels: 1,
            found: vec![KERNEL.into()],
        });
        assert_eq!(report.errors().next().unwrap().problem, known);
    }
    // The same object, but .text is not executable, or has no bytes in the file.
    let text = section_header(&object(), 1);
    for (at, byte) in [(text + 8, 2), (text + 4, 8)] {
        assert_eq!(codes(&patched(at, &[byte])), [Code::KERNEL, Code::NO_KERNEL]);
    }
}

#[test]
fn mix_suffixes_count() {
    for symbol in ["add_1_mix_aic", "add_1_mix_aiv", "add_1"] {
        let object = object_with(&[symbol]);
        let mut meta = meta(&object);
        meta.kernel_name = Some("add_1".into());
        assert_eq!(kernels(&check(&meta, &object)), [symbol]);
        assert!(check(&meta, &object).is_valid());
    }
    for symbol in ["add_1_mix_ai", "add_1_mix_aic_0", "add_1_aic", "_mix_aic"] {
        let object = object_with(&[symbol]);
        for name in ["add_1", ""] {
            let mut meta = meta(&object);
            meta.kernel_name = Some(name.into());
            assert!(check(&meta, &object).find(Code::KERNEL).is_some(), "{symbol} for {name}");
        }
    }
}

#[test]
fn each_item_of_a_kernel_list_must_exist() {
    let object = object_with(&["add_1_0", "add_1_1_mix_aic", "add_1_1_mix_aiv"]);
    let mut meta = meta(&object);
    meta.kernel_name = Some("add_1".into());
    meta.kernel_list = Some(vec![entry("add_1_0"), entry("add_1_1")]);
    let report = check(&meta, &object);
    assert!(report.findings.is_empty() && kernels(&report).len() == 3);

    // Each missing one is reported.
    meta.kernel_list = Some(vec![entry("add_1_0"), entry("add_1_2"), entry("add_1_3")]);
    let report = check(&meta, &object);
    let expected: Vec<_> = report
        .errors()
        .map(|finding| match &finding.problem {
            Problem::Kernel(KernelProblem::Kernel { field: "kernelList", expected, kernels: 3, found })
                if found.len() == 3 =>
            {
                expected
            }
            other => panic!("{other}"),
        })
        .collect();
    assert_eq!(expected, ["add_1_2", "add_1_3"]);
}

#[test]
fn at_most_five_kernels_are_named() {
    let names: Vec<String> = (0..9).map(|i| format!("add_1_{i}")).collect();
    let object = object_with(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let report = check(&meta(&object), &object);
    let Problem::Kernel(KernelProblem::Kernel { kernels: 9, found, .. }) = only(&report) else {
        panic!("{report:?}")
    };
    assert_eq!(found, &names[..5]);
}

#[test]
fn fields_that_are_missing_are_named() {
    type Change = fn(&mut KernelMeta);
    let changes: [(Change, &str); 3] = [
        (|meta| meta.sha256 = None, "sha256"),
        (|meta| meta.magic = None, "magic"),
        (|meta| meta.kernel_name = None, "kernelName"),
    ];
    for (change, field) in changes {
        assert_eq!(only(&described(change)), &Problem::Description(DescriptionProblem::Missing { field }));
    }
    // These two are optional.
    assert!(described(|meta| meta.bin_file_name = None).findings.is_empty());
    assert!(described(|meta| meta.bin_file_suffix = None).findings.is_empty());
}

#[test]
fn the_digest_is_of_the_object_and_in_lower_case() {
    let upper = |meta: &mut KernelMeta| meta.sha256 = meta.sha256.as_ref().map(|text| text.to_uppercase());
    let short = |meta: &mut KernelMeta| meta.sha256 = Some("00".into());
    for report in [described(upper), described(short)] {
        assert!(
            matches!(only(&report), Problem::Description(DescriptionProblem::Field { field: "sha256", .. })),
            "{report:?}"
        );
    }
    let meta = meta(&object());
    let mut other = object();
    *other.last_mut().unwrap() ^= 1;
    let report = check(&meta, &other);
    let sha256 = report.errors().find(|finding| finding.code() == Code::SHA256).unwrap();
    let Problem::Description(DescriptionProblem::Sha256 { field: "sha256", expected, found }) =
        &sha256.problem
    else {
        panic!("{sha256}")
    };
    assert_eq!(Some(expected.to_string()), meta.sha256);
    assert_eq!(Some(*found), report.sha256);
}

/// AKG's form for CPUs: no magic, and one digest for each of two objects.
#[test]
fn the_short_form_is_for_hosts_only() {
    let object = object();
    let digest = opkeep_digest::Digest::of(&object);
    let other = opkeep_digest::Digest::of(b"");
    let judge = |shared, relocatable, expect| {
        let json = format!(
            r#"{{"kernelName": "{KERNEL}", "objSha256": "{relocatable}", "sha256": "{shared}", "threadNumber": "null"}}"#
        );
        codes(&validate(json.as_bytes(), &object, &expect))
    };
    // This object is relocatable, but the one of the two that is loaded is not.
    assert_eq!(judge(digest, other, expect()), [Code::SHA256, Code::NO_MAGIC]);
    assert_eq!(judge(other, digest, expect()), [Code::NO_MAGIC]);
    assert_eq!(judge(other, other, expect()), [Code::SHA256, Code::NO_MAGIC]);
    let elsewhere = targets::cann_kernel(
        "x",
        [62],
        opkeep_artifact::ElfLayout::AicpuObject,
        &[opkeep_cann_meta::Magic::ElfAicpu],
    );
    assert_eq!(judge(digest, other, elsewhere)[0], Code::MISSING);
    // For a chip, the other digest has no reader.
    let device = crate::made_kernels::ascend::Kernel::first_generation();
    let json =
        format!(r#"{{"sha256": "{other}", "objSha256": "{}","#, opkeep_digest::Digest::of(&device.object()));
    let json = device.json.to_string().replacen('{', &json, 1);
    let ascend = targets::ascend("Ascend910A");
    assert_eq!(codes(&validate(json.as_bytes(), &device.object(), &ascend)), [Code::SHA256]);
    // Nor is it a shared object, as a file called `.so` should be.
    let json = format!(
        r#"{{"kernelName": "{KERNEL}", "objSha256": "{digest}", "sha256": "{other}", "threadNumber": "null"}}"#
    );
    let called = |name: &str| {
        let mut report = validate(json.as_bytes(), &object, &expect());
        report.compare_file_name(name);
        codes(&report)
    };
    assert_eq!(called("add_1.o"), [Code::NO_MAGIC]);
    assert_eq!(called("add_1.so"), [Code::TYPE, Code::NO_MAGIC]);
    // With file names it is the long form, which has a magic.
    let long = described(|meta| meta.magic = None);
    assert_eq!(only(&long), &Problem::Description(DescriptionProblem::Missing { field: "magic" }));
}

#[test]
fn all_problems_are_reported_the_most_severe_first() {
    let object = object();
    let mut meta = meta(&object);
    meta.magic = None;
    meta.bin_file_name = Some("../x".into());
    meta.kernel_name = Some("other".into());
    let found = codes(&check(&meta, &object[1..]));
    assert_eq!(found, [Code::UNSAFE_NAME, Code::MISSING, Code::SHA256, Code::NOT_ELF, Code::BIN_NAME]);
}

/// An empty file is reported as empty, without the finding about its digest, which follows from it.
#[test]
fn an_empty_object_is_called_empty_before_its_digest_is_called_wrong() {
    let report = check(&meta(&object()), b"");
    assert_eq!(codes(&report), [Code::NOT_ELF, Code::SHA256]);
    assert!(report.findings[0].message().ends_with("found an empty file"), "{:?}", report.findings);
}

#[test]
fn names_that_would_leave_the_directory_are_refused() {
    for name in ["../add_1", "/etc/passwd", ".", "a b", "add_1\n", "..", "a\0", "a\\b"] {
        let report = described(|meta| meta.bin_file_name = Some(name.into()));
        let refusal = report.errors().next().unwrap();
        assert!(
            matches!(
                refusal.problem,
                Problem::Description(DescriptionProblem::UnsafeName { field: "binFileName", .. })
            ),
            "{refusal}"
        );
        assert!(!refusal.to_string().contains('\n'));
    }
    // The suffix counts towards the limit of 255 bytes.
    let long = |bytes: usize| codes(&described(|meta| meta.bin_file_name = Some("a".repeat(bytes))));
    assert_eq!(long(253), [Code::BIN_NAME]);
    assert_eq!(long(254), [Code::UNSAFE_NAME, Code::BIN_NAME]);
    assert_eq!(codes(&described(|meta| meta.bin_file_name = Some(String::new()))), [Code::IGNORED_VALUE]);
    // A name that differs from the kernel's is a note.
    assert_eq!(codes(&described(|meta| meta.bin_file_name = Some("other".into()))), [Code::BIN_NAME]);
    assert!(described(|meta| meta.bin_file_suffix = Some(".so".into())).findings.is_empty());
    for (suffix, code) in
        [(".o/../x", Code::UNSAFE_NAME), ("..", Code::UNSAFE_NAME), (".om", Code::FIELD), ("", Code::FIELD)]
    {
        assert_eq!(codes(&described(|meta| meta.bin_file_suffix = Some(suffix.into()))), [code], "{suffix}");
    }
}

#[test]
fn a_renamed_file_is_noted() {
    let name = |file: &str| {
        let mut report = described(|_| {});
        report.compare_file_name(file);
        codes(&report)
    };
    assert_eq!(name("add_1.o"), []);
    assert_eq!(name("libadd_1.o"), []);
    assert_eq!(name("add_1_deterministic.o"), [Code::FILE_NAME]);
}

#[test]
fn the_magic_must_be_one_that_the_target_accepts() {
    let report = described(|meta| meta.magic = Some(Magic::ElfAivec.into()));
    let other = Problem::Description(DescriptionProblem::Magic {
        target: "cpu-x86_64".into(),
        expected: vec![Magic::Elf],
        found: Magic::ElfAivec,
    });
    assert_eq!(only(&report), &other);

    let json = meta(&object()).to_json().replace("_MAGIC_ELF", "_MAGIC_ELG");
    let report = validate(json.as_bytes(), &object(), &expect());
    assert_eq!(codes(&report), [Code::FIELD]);
    assert!(report.findings[0].to_string().contains("`magic`"));
}

#[test]
fn identification_bytes_are_judged_one_by_one() {
    assert_eq!(
        only(&patched(0, b"\x7fELG")),
        &Problem::Object(ObjectProblem::NotElf { found: b"\x7fELG".to_vec() })
    );
    assert_eq!(only(&patched(4, &[1])), &Problem::Object(ObjectProblem::Class { found: 1 }));
    assert_eq!(only(&patched(5, &[2])), &Problem::Object(ObjectProblem::Endianness { found: 2 }));
    assert!(only(&patched(6, &[0])).to_string().contains("EI_VERSION"));
    // Padding and OS ABI are free.
    assert!(patched(7, &[3, 9, 9]).findings.is_empty());
}

#[test]
fn machine_and_type_are_judged() {
    let machine = Problem::Object(ObjectProblem::Machine {
        target: "cpu-x86_64".into(),
        expected: vec![Machine(62)],
        found: Machine(0x1029),
    });
    assert_eq!(only(&patched(18, &[0x29, 0x10])), &machine);
    // A loader of libraries loads no program.
    for found in [2, 4] {
        let report = patched(16, &[found]);
        assert!(
            matches!(only(&report), Problem::Object(ObjectProblem::Type { found: it, .. }) if *it == u16::from(found))
        );
    }
    assert_eq!(patched(16, &[3]).object.unwrap().elf_type, Some(ElfType::Shared));
    assert_eq!(patched(48, &[0, 0, 0x93]).object.unwrap().flags, 0x93_0000);
}

#[test]
fn ai_cpus_accept_shared_objects() {
    let object = object_with(&["RunCpuKernel"]);
    let judge = |e_type: u8, machine: u8, magic: Magic| {
        let mut object = object.clone();
        (object[16], object[18]) = (e_type, machine);
        let mut meta = meta(&object);
        meta.magic = Some(magic.into());
        (meta.bin_file_name, meta.bin_file_suffix) = (None, Some(".so".into()));
        meta.kernel_name = Some("RunCpuKernel".into());
        let expect = targets::aicpu("AI CPU");
        codes(&validate(meta.to_json().as_bytes(), &object, &expect))
    };
    assert_eq!(judge(3, 183, Magic::ElfAicpu), []);
    assert_eq!(judge(1, 183, Magic::ElfAicpu), [Code::UNUSUAL_TYPE]);
    assert_eq!(judge(2, 183, Magic::ElfAicpu), [Code::TYPE]);
    assert_eq!(judge(3, 62, Magic::ElfAicpu), [Code::MACHINE]);
    assert_eq!(judge(3, 183, Magic::Elf), [Code::MAGIC]);
}

#[test]
fn a_stripped_shared_object_has_only_dynamic_symbols() {
    let symbols = section_header(&object(), 2);
    assert_eq!(kernels(&patched(symbols + 4, &[11])), [KERNEL]);
    // And without symbols at all, there is no kernel.
    assert_eq!(codes(&patched(symbols + 4, &[1])), [Code::KERNEL, Code::NO_KERNEL]);
}

#[test]
fn malformed_structures_are_named() {
    let base = object();
    let symbols = section_header(&base, 2);
    let structure = |at: usize, bytes: &[u8]| match only(&patched(at, bytes)) {
        Problem::Object(ObjectProblem::Malformed { structure, .. }) => structure.clone(),
        other => panic!("{other}"),
    };
    assert_eq!(structure(0x28, &[0xff; 8]), "section headers");
    assert_eq!(structure(0x3e, &[200]), "section headers");
    assert_eq!(only(&patched(0x3a, &[63])), &Problem::Object(ObjectProblem::EntrySize { found: 63 }));
    // The kernel's name, then its section.
    let last = word(&base, symbols + 24) + word(&base, symbols + 32) - 24;
    assert_eq!(structure(last, &[0xff; 4]), "symbol table");
    assert_eq!(structure(last + 6, &[77, 0]), "symbol table");
    // Its string table: no section, then not a string table. Without it the symbols cannot be read.
    let report = patched(symbols + 40, &[200]);
    assert_eq!(codes(&report), [Code::MALFORMED, Code::LINK]);
    assert_eq!(structure(symbols + 40, &[1]), "symbol table");
    // A section outside the file is reported as such, and so is the table in it.
    let report = patched(symbols + 24, &[0xff; 8]);
    let message: Vec<String> = report.errors().map(|finding| finding.problem.to_string()).collect();
    assert_eq!(message.len(), 2, "{message:?}");
    let bounds = format!("section 3: Invalid ELF section size or offset, in {} bytes", base.len());
    assert!(message[0].ends_with(&bounds), "{message:?}");
    assert!(message[1].contains("symbol table"), "{message:?}");
}

#[test]
fn offsets_of_empty_sections_do_not_matter() {
    // The null section's size may be the number of sections; its offset has no meaning.
    assert!(patched(word(&object(), 0x28) + 24, &[0xff; 16]).is_valid());
    // .data, emptied.
    let data = section_header(&object(), 1) + 64;
    assert!(patched(data + 24, &[[0xff; 8], [0; 8]].concat()).is_valid());
    // .symtab, emptied: there is no kernel, and goblin agrees.
    let mut object = object();
    let symbols = section_header(&object, 2);
    object[symbols + 24..symbols + 40].copy_from_slice(&[[0xff; 8], [0; 8]].concat());
    assert_eq!(codes(&check(&meta(&object), &object)), [Code::KERNEL, Code::NO_KERNEL]);
    let cross_check = validate_object(&object, None).cross_check.unwrap();
    assert_eq!((cross_check.sections, cross_check.kernels), (6, 0));
}

/// If there are more sections than a symbol can refer to, their numbers are in a separate table.
#[test]
fn extended_section_indexes_are_read() {
    let mut object = object();
    let symbols = section_header(&object, 2);
    let data = section_header(&object, 1) + 64;
    let count = word(&object, symbols + 32) / 24;
    let last = word(&object, symbols + 24) + 24 * (count - 1);
    object[last + 6..last + 8].copy_from_slice(&[0xff; 2]);
    let without = check(&meta(&object), &object);
    assert!(only(&without).to_string().contains("symbol table"), "{without:?}");

    // .data becomes that table: a number for each symbol, of which only the last, the kernel's, counts.
    let end = object.len();
    object[data + 4] = 18;
    object[data + 24..data + 32].copy_from_slice(&(end as u64).to_le_bytes());
    object[data + 32..data + 40].copy_from_slice(&(4 * count as u64).to_le_bytes());
    object[data + 40] = 3;
    object.resize(end + 4 * count, 0);
    object[end + 4 * (count - 1)] = 1;
    assert_eq!(kernels(&check(&meta(&object), &object)), [KERNEL]);
    let report = validate_full(meta(&object).to_json().as_bytes(), &object, &expect());
    assert!(report.is_valid() && report.find(Code::SECOND_PARSER).is_some(), "{report:?}");
}

/// Ten thousand names that are suffixes of one long name: reading each would take quadratic time.
#[test]
fn names_that_overlap_too_much_are_refused() {
    let long = "x".repeat(200_000);
    let names: Vec<String> = (0..10_000).map(|i| format!("k{i}")).chain([long.clone()]).collect();
    let mut object = object_with(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let header = section_header(&object, 2);
    let (start, end) = (word(&object, header + 24), word(&object, header + 24) + word(&object, header + 32));
    let strings = word(&object, section_header(&object, 3) + 24);
    let at = object.windows(long.len()).position(|window| window == long.as_bytes()).unwrap() - strings;
    for (i, symbol) in (start + 24..end).step_by(24).enumerate() {
        object[symbol..symbol + 4].copy_from_slice(&((at + i) as u32).to_le_bytes());
    }
    let report = check(&meta(&object), &object);
    let Problem::Object(ObjectProblem::Malformed { structure, problem, .. }) = only(&report) else {
        panic!("{report:?}")
    };
    assert_eq!(structure, "symbol table");
    assert!(problem.contains("exceed the length of the file"), "{problem}");
    assert_eq!(validate_object(&object, None).cross_check, None);
}

/// The vendors' lints are information, and decide nothing.
#[test]
fn lints_decide_nothing() {
    let device = crate::made_kernels::ascend::Kernel::first_generation();
    let expect = targets::ascend("Ascend910A");
    let judge = |json: serde_json::Value| {
        let kernel = crate::made_kernels::ascend::Kernel { json, ..device.clone() };
        let (json, object) = (kernel.json(), kernel.object());
        let quiet = validate(json.as_bytes(), &object, &expect);
        assert_eq!(codes(&quiet), []);
        codes(&validate_full(json.as_bytes(), &object, &expect))
    };
    assert_eq!(judge(device.json.clone()), []);
    let with = |field: &str, value: serde_json::Value| {
        let mut json = device.json.clone();
        json[field] = value;
        judge(json)
    };
    assert!(with("debugOptions", "printf".into()).contains(&Code::FE_REFUSES));
    assert_eq!(with("taskRation", "1:2".into()), [Code::MINDSPORE_LINT]);
    assert_eq!(with("oriOpParaSize", "a".into()), [Code::FE_LINT]);
    // No reader of CANN reads a kernel for the host.
    let object = object();
    let report =
        validate_full(meta(&object).to_json().as_bytes(), &object, &crate::made_kernels::made::expect());
    assert!(report.find(Code::FE_REFUSES).is_none() && report.find(Code::FE_LINT).is_none(), "{report:?}");
}

#[test]
fn a_repeated_field_is_reported() {
    let object = object();
    let json = meta(&object).to_json().replacen('{', "{\"kernelName\": \"other\",", 1);
    let report = validate(json.as_bytes(), &object, &expect());
    assert_eq!(
        only(&report),
        &Problem::Description(DescriptionProblem::Repeated { place: "kernelName".into() })
    );
}
