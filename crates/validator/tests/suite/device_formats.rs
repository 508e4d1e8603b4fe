//! Cubins and hsacos: good ones are accepted and described, and no damage hides that a kernel is gone.

use std::collections::BTreeMap;

use opkeep_artifact::{Artifact, Expectations, MetadataRules};
use opkeep_testkit::device::{CUBIN_USES, HSACO_USES, cubin, hsaco};
use opkeep_testkit::patch::{
    bytes_of, header, put, section, section_count, section_header, section_named, symbol, symbol_named,
};
use opkeep_validator::{
    CheckStatus, Code, RULES_VERSION, Report, Severity, Validator, device_formats, device_kernels,
};

const KERNEL: &str = "add_kernel";

struct Kind {
    object: Vec<u8>,
    expect: Expectations,
    /// The name of the section with the code.
    text: String,
}

fn kinds() -> [Kind; 2] {
    [
        Kind {
            object: cubin(KERNEL, 90),
            expect: device_formats::cubin("sm_90a"),
            text: format!(".text.{KERNEL}"),
        },
        Kind {
            object: hsaco(KERNEL, 0x4c),
            expect: device_formats::hsaco("gfx942:sramecc+:xnack-"),
            text: ".text".to_owned(),
        },
    ]
}

fn described(metadata: &str, object: &[u8], expect: &Expectations) -> Report {
    let artifact = Artifact { metadata: metadata.into(), object: object.to_vec(), extra: Vec::new() };
    Validator::builtin().validate(&artifact, expect)
}

fn judged(object: &[u8], expect: &Expectations) -> Report {
    described(&format!(r#"{{"shared": 0, "name": "{KERNEL}"}}"#), object, expect)
}

fn errors(report: &Report) -> Vec<Code> {
    report.errors().map(|finding| finding.code()).collect()
}

#[test]
fn good_objects_are_accepted_and_described() {
    for Kind { object, expect, .. } in kinds() {
        let report = judged(&object, &expect);
        assert_eq!(report.findings, []);
        assert_eq!(report.status, CheckStatus::Complete);
        assert_eq!(Validator::builtin().stamp(&expect), RULES_VERSION);
        assert_eq!(Expectations::decode(&expect.encode()).unwrap(), expect);
    }
    for (object, code_bytes, (registers, private, shared)) in
        [(cubin("k", 120), 0x100, CUBIN_USES), (hsaco("k", 0x3f), 0x80, HSACO_USES)]
    {
        let [kernel] = &device_kernels(&object)[..] else { panic!("{:?}", device_kernels(&object)) };
        assert_eq!((kernel.name.as_str(), kernel.code_bytes), ("k", code_bytes));
        assert_eq!(kernel.registers, Some(registers));
        assert_eq!(kernel.private_bytes, Some(private.into()));
        assert_eq!(kernel.static_shared_bytes, Some(shared));
    }
    // The unit of gfx908 is another, and that of an unknown processor unknown.
    for processor in [0x30, 0xff] {
        assert_eq!(device_kernels(&hsaco("k", processor))[0].registers, None);
    }
    assert_eq!(device_kernels(b"\x7fELF"), []);
}

/// The stored form may not change, since entries keep it.
#[test]
fn expectations_are_data() {
    let text = |expect: Expectations| String::from_utf8(expect.encode()).unwrap();
    assert_eq!(
        text(device_formats::cubin("sm_90")),
        r#"{"version":1,"target":"sm_90","format":{"elf":{"machines":[190],"layout":"unspecified"}},"metadata":{"checked":{"check":{"id":"kernel-symbols","version":1},"parameters":{"elf-type":"executable","flags":"51:0xff=0x5a 65:0xff00=0x5a00","name-field":"name","symbols":"{}:func:section=.text.{}"}}}}"#
    );
    assert_eq!(
        text(device_formats::hsaco("gfx942")),
        r#"{"version":1,"target":"gfx942","format":{"elf":{"machines":[224],"flags":{"mask":255,"values":[76]},"layout":"unspecified"}},"metadata":{"checked":{"check":{"id":"kernel-symbols","version":1},"parameters":{"elf-type":"shared","name-field":"name","symbols":"{}:func {}.kd:object:bytes=64"}}}}"#
    );
}

/// A store's target has `_` for letters that its names do not have: the processor is still checked.
#[test]
fn a_target_of_a_store_has_rules() {
    let judged_for = |target: &str, object: &[u8]| {
        let (suffix, rules) = device_formats::rules_of_target(target).unwrap();
        assert_eq!(rules.target, target);
        (suffix, errors(&judged(object, &rules)))
    };
    for target in ["hip-gfx942", "hip-gfx942_sramecc__xnack-"] {
        assert_eq!(judged_for(target, &hsaco(KERNEL, 0x4c)), ("hsaco", vec![]), "{target}");
        assert_eq!(judged_for(target, &hsaco(KERNEL, 0x3f)), ("hsaco", vec![Code::FLAGS]), "{target}");
    }
    assert_eq!(judged_for("cuda-sm_90", &cubin(KERNEL, 90)), ("cubin", vec![]));
    assert_eq!(judged_for("cuda-sm_90", &cubin(KERNEL, 80)), ("cubin", vec![Code::FLAGS]));
    for target in ["cuda", "npu-Ascend910B1", "host-x86_64", "unknown", ""] {
        assert_eq!(device_formats::rules_of_target(target), None, "{target}");
    }
}

/// The object of another kernel, another chip or another vendor, and metadata that name none.
#[test]
fn a_kernel_of_something_else_is_refused() {
    let [cuda, amd] = kinds();
    assert_eq!(errors(&judged(&cubin("mul_kernel", 90), &cuda.expect)), [Code::KERNEL]);
    assert_eq!(errors(&judged(&hsaco("mul_kernel", 0x4c), &amd.expect)), [Code::KERNEL, Code::KERNEL]);
    assert_eq!(errors(&judged(&cubin(KERNEL, 80), &cuda.expect)), [Code::FLAGS]);
    assert_eq!(errors(&judged(&hsaco(KERNEL, 0x3f), &amd.expect)), [Code::FLAGS]);
    assert_eq!(errors(&judged(&amd.object, &cuda.expect)), [Code::MACHINE]);
    assert_eq!(errors(&judged(&cuda.object, &amd.expect)), [Code::MACHINE]);
    for target in ["gfx000", "any"] {
        assert!(judged(&amd.object, &device_formats::hsaco(target)).is_valid());
        assert!(judged(&cuda.object, &device_formats::cubin(target)).is_valid());
    }
    // The older `EI_OSABI` has the SM in other bits; the place in an unknown one is unknown.
    for (os_abi, flags, valid) in
        [(51, 0x005a_055a_u32, true), (51, 0x0050_0550, false), (65, 0x005a_055a, false), (66, 0, true)]
    {
        let mut object = cuda.object.clone();
        object[7] = os_abi;
        put(&mut object, header::FLAGS, flags.to_le_bytes());
        assert_eq!(judged(&object, &cuda.expect).is_valid(), valid, "{os_abi} {flags:#x}");
    }
    for Kind { object, expect, .. } in kinds() {
        for (metadata, code) in [
            ("", Code::FIELD),
            ("{\"name\": \"add_kernel\"", Code::FIELD),
            ("{\"name\": 7}", Code::FIELD),
            ("{\"name\": \"\"}", Code::FIELD),
            ("{\"shared\": 0}", Code::MISSING),
            ("[]", Code::FIELD),
            ("{\"name\": \"add_kernel\"} {}", Code::FIELD),
            ("{\"name\": [\"add_kernel\"]}", Code::FIELD),
            ("{\"name\": \"add\"}", Code::KERNEL),
            ("{\"name\": \"add_kernel\\u0000\"}", Code::KERNEL),
            ("{\"name\": \"helper\"}", Code::KERNEL),
            ("{\"name\": \"{}\"}", Code::KERNEL),
        ] {
            assert_eq!(errors(&described(metadata, &object, &expect)).first(), Some(&code), "{metadata}");
        }
        for (bytes, code) in [(&b""[..], Code::NOT_ELF), (b"not ELF", Code::NOT_ELF)] {
            assert_eq!(errors(&judged(bytes, &expect)), [code]);
        }
    }
}

/// The symbol with its flaw in each table, and the code of the flaw.
#[test]
fn a_symbol_that_the_loader_cannot_use_is_refused() {
    type Flaw = (&'static str, fn(&mut [u8], usize), Code);
    const FLAWS: [Flaw; 8] = [
        ("undefined", |object, at| put(object, at + symbol::SECTION, [0, 0]), Code::KERNEL),
        ("absolute", |object, at| put(object, at + symbol::SECTION, [0xf1, 0xff]), Code::SYMBOL),
        ("local", |object, at| object[at + symbol::INFO] &= 0xf, Code::KERNEL),
        ("of another type", |object, at| object[at + symbol::INFO] ^= 3, Code::SYMBOL),
        ("hidden", |object, at| object[at + symbol::OTHER] |= 2, Code::SYMBOL),
        ("empty", |object, at| put(object, at + symbol::SIZE, [0; 8]), Code::SYMBOL),
        ("behind its section", |object, at| put(object, at + symbol::VALUE + 2, [1]), Code::KERNEL_RANGE),
        ("before its section", |object, at| put(object, at + symbol::VALUE, [0xff; 8]), Code::KERNEL_RANGE),
    ];
    for Kind { object, expect, .. } in kinds() {
        let places = symbols_named(&object, KERNEL);
        for (name, flaw, code) in FLAWS {
            let mut broken = object.clone();
            places.iter().for_each(|at| flaw(&mut broken, *at));
            let found = errors(&judged(&broken, &expect));
            assert!(found.contains(&code), "{}: {name}: {found:?}", expect.target);
            for at in &places {
                let mut broken = object.clone();
                flaw(&mut broken, *at);
                assert!(!judged(&broken, &expect).is_valid(), "{}: {name} in one table", expect.target);
            }
        }
    }
    let [_, Kind { object, expect, .. }] = kinds();
    let mut short = object;
    for at in symbols_named(&short, &format!("{KERNEL}.kd")) {
        put(&mut short, at + symbol::SIZE, [32]);
    }
    assert_eq!(errors(&judged(&short, &expect)), [Code::SYMBOL]);
}

#[test]
fn the_code_is_where_the_loader_looks_for_it() {
    for Kind { object, expect, text } in kinds() {
        let at = section_named(&object, &text);
        let mut flaws = vec![
            ("without instructions", at + section::FLAGS, vec![2], Code::SYMBOL),
            ("not loaded", at + section::FLAGS, vec![4], Code::SYMBOL),
            ("without bytes", at + section::TYPE, vec![8], Code::SYMBOL),
            ("emptied", at + section::SIZE, vec![0; 8], Code::KERNEL_RANGE),
            ("relocatable", header::TYPE, vec![1], Code::TYPE),
        ];
        if text != ".text" {
            let names = bytes_of(&object, section_header(&object, 1)).start;
            let own = object[names..].windows(text.len()).position(|name| name == text.as_bytes()).unwrap();
            flaws.push(("of another kernel", names + own + text.len() - 1, vec![b'x'], Code::SYMBOL));
        }
        for (name, at, bytes, code) in flaws {
            let mut broken = object.clone();
            put(&mut broken, at, bytes);
            let found = errors(&judged(&broken, &expect));
            assert!(found.contains(&code), "{}: {name}: {found:?}", expect.target);
        }
    }
    // A segment outside the file, which a dynamic loader would map.
    let [_, Kind { mut object, expect, .. }] = kinds();
    put(&mut object, 64 + 2 * 56 + 8, [0, 0, 1]);
    assert_eq!(errors(&judged(&object, &expect)), [Code::MALFORMED]);
}

#[test]
fn a_cut_object_is_refused() {
    for Kind { object, expect, .. } in kinds() {
        for end in 0..object.len() {
            assert!(!judged(&object[..end], &expect).is_valid(), "{}: {end}", expect.target);
            device_kernels(&object[..end]);
        }
    }
}

/// A flipped bit is refused, or the kernel is still defined, for the same chip.
#[test]
fn a_flipped_bit_never_hides_that_a_kernel_is_gone() {
    for Kind { object, expect, .. } in kinds() {
        let (mut accepted, mut refused) = (0, 0);
        for (at, bit) in (0..object.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut flipped = object.clone();
            flipped[at] ^= 1 << bit;
            device_kernels(&flipped);
            let report = judged(&flipped, &expect);
            if !report.is_valid() {
                refused += 1;
                continue;
            }
            accepted += 1;
            let facts = report.object.unwrap();
            let kernel = facts.kernels.iter().find(|kernel| kernel.name == KERNEL).unwrap();
            assert!(kernel.size > 0, "{at}");
        }
        // In code and in names of other things, no flip is noticed.
        assert!(accepted > 1000 && refused > 1000, "{accepted} accepted, {refused} refused");
    }
}

/// Parameters of a later version: nothing is reported as damaged, and the stamp asks for another validation.
#[test]
fn unknown_parameters_are_not_checked() {
    let changed = |change: fn(&mut BTreeMap<String, String>)| {
        let mut expect = device_formats::cubin("sm_90");
        let MetadataRules::Checked { parameters, .. } = &mut expect.metadata else { panic!() };
        change(parameters);
        expect
    };
    let changes: [fn(&mut BTreeMap<String, String>); 12] = [
        |it| drop(it.insert("linker".into(), "gold".into())),
        |it| drop(it.insert("symbols".into(), "{}:tls".into())),
        |it| drop(it.insert("symbols".into(), "{}:func:align=4".into())),
        |it| drop(it.insert("symbols".into(), "kernel:func".into())),
        |it| drop(it.insert("symbols".into(), "{}{}:func".into())),
        |it| drop(it.insert("symbols".into(), "{}:func:section={}{}".into())),
        |it| drop(it.insert("symbols".into(), ["{}:func"; 9].join(" "))),
        |it| drop(it.insert("symbols".into(), String::new())),
        |it| drop(it.insert("flags".into(), "51:ff=5a".into())),
        |it| drop(it.insert("elf-type".into(), "core".into())),
        |it| drop(it.remove("name-field")),
        |it| drop(it.remove("symbols")),
    ];
    for expect in changes.map(changed) {
        let report = judged(&cubin("other", 90), &expect);
        assert!(report.is_valid() && report.worst() == Some(Severity::Note), "{:?}", report.findings);
        assert!(matches!(report.status, CheckStatus::Unavailable(_)));
        assert_eq!(Validator::builtin().stamp(&expect), 0);
    }
}

/// The symbols in each table that are like the first called `name`.
fn symbols_named(object: &[u8], name: &str) -> Vec<usize> {
    let first = symbol_named(object, name);
    let own = &object[first + symbol::INFO..first + 24];
    let tables = (1..section_count(object)).map(|number| section_header(object, number));
    tables
        .filter(|at| matches!(object[at + section::TYPE], 2 | 11))
        .flat_map(|table| bytes_of(object, table).step_by(24))
        .filter(|at| object[at + symbol::INFO..at + 24] == *own)
        .collect()
}
