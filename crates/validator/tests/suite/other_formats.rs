//! Kernels of other vendors: any ELF machine, or any bytes, judged by expectations that are data.

use std::sync::Arc;

use opkeep_artifact::{
    Artifact, ArtifactCheck, CheckId, CheckInput, ElfLayout, ElfRules, Expectations, Format, MetadataRules,
    OpaqueRules, Severity,
};
use opkeep_testkit::elf::host_object;
use opkeep_validator::{CheckStatus, Code, RULES_VERSION, Report, Validator};

/// Offsets of `e_machine` and `e_flags` in a 64-bit ELF header.
const MACHINE: usize = 18;
const FLAGS: usize = 48;

fn object(machine: u16, flags: u32) -> Artifact {
    let mut object = host_object(&["kernel"], "of a test");
    object[MACHINE..MACHINE + 2].copy_from_slice(&machine.to_le_bytes());
    object[FLAGS..FLAGS + 4].copy_from_slice(&flags.to_le_bytes());
    Artifact { metadata: Vec::new(), object, extra: Vec::new() }
}

fn text(object: &str) -> Artifact {
    Artifact { metadata: Vec::new(), object: object.into(), extra: Vec::new() }
}

fn elf(rules: ElfRules) -> Expectations {
    Expectations::new("device", Format::Elf(rules), MetadataRules::None)
}

fn codes(report: &Report) -> Vec<Code> {
    report.findings.iter().map(|finding| finding.code()).collect()
}

/// NVIDIA's and AMD's.
#[test]
fn any_elf_machine_is_judged_by_its_own_rules() {
    for machine in [190, 224] {
        let expected = elf(ElfRules::new([machine], ElfLayout::Unspecified));
        let validator = Validator::builtin();
        let report = validator.validate(&object(machine, 0x5a), &expected);
        assert!(report.is_valid() && report.status == CheckStatus::Complete, "{:?}", report.findings);
        assert_eq!(report.object.unwrap().machine.0, machine);
        assert_eq!(codes(&validator.validate(&object(62, 0), &expected)), [Code::MACHINE]);
        assert_eq!(validator.stamp(&expected), RULES_VERSION);

        let with_flags = elf(ElfRules::new([machine], ElfLayout::Unspecified).with_flags(0xff, [0x5a, 0x90]));
        assert!(validator.validate(&object(machine, 0x0105_5a5a), &with_flags).is_valid());
        let other = validator.validate(&object(machine, 0x5b), &with_flags);
        assert_eq!(codes(&other), [Code::FLAGS]);
        let message = other.findings[0].message();
        assert!(message.contains("0x5b") && message.contains("0x5a or 0x90"), "{message}");

        let mut truncated = object(machine, 0);
        truncated.object.truncate(100);
        assert!(!validator.validate(&truncated, &expected).is_valid());
        assert_eq!(codes(&validator.validate(&text("no ELF"), &expected)), [Code::NOT_ELF]);
    }
}

#[test]
fn a_layout_may_be_required_without_a_description() {
    let expected = elf(ElfRules::new([190], ElfLayout::AicpuObject));
    let report = Validator::builtin().validate(&object(190, 0), &expected);
    // It is relocatable.
    assert_eq!(codes(&report), [Code::UNUSUAL_TYPE]);
}

#[test]
fn opaque_bytes_have_a_beginning_and_a_size_limit() {
    let rules = OpaqueRules::new(*b".version", 40);
    let expected = Expectations::new("sm_90", Format::Opaque(rules), MetadataRules::None);
    let judged = |object: &str| codes(&Validator::builtin().validate(&text(object), &expected));
    assert_eq!(judged(".version 8.0\n.target sm_90\n"), []);
    assert_eq!(judged("// .version"), [Code::OPAQUE_START]);
    assert_eq!(judged(""), [Code::OPAQUE_START]);
    assert_eq!(judged(&format!(".version{}", " ".repeat(40))), [Code::TOO_LONG]);
}

#[test]
fn a_description_may_be_any_json() {
    let format = Format::Opaque(OpaqueRules::new(*b"", 40));
    let expected = Expectations::new("sm_90", format, MetadataRules::Json);
    let judged = |json: &str| {
        codes(&Validator::builtin().validate(&Artifact { metadata: json.into(), ..text("x") }, &expected))
    };
    assert_eq!(judged("{\"a\": [1, 2]}"), []);
    assert_eq!((judged("{"), judged("")), (vec![Code::FIELD], vec![Code::FIELD]));
}

/// Accepts objects that end in a line end, and warns about those with a tab.
struct Lines(u32);

impl ArtifactCheck for Lines {
    fn id(&self) -> CheckId {
        CheckId::new("lines", self.0)
    }

    fn check(&self, input: &CheckInput<'_>, found: &mut dyn FnMut(Severity, String)) {
        if input.artifact.object.last() != Some(&b'\n') {
            found(Severity::Error, format!("for {}, expected a line end", input.expectations.target));
        }
        if input.artifact.object.contains(&b'\t') {
            found(Severity::Warning, "found a tab\n".to_owned());
        }
    }
}

#[test]
fn a_known_check_of_a_backend_is_called() {
    let rules = OpaqueRules::new(*b"", 40).with_check(CheckId::new("lines", 2));
    let expected = Expectations::new("sm_90", Format::Opaque(rules), MetadataRules::None);
    let validator = Validator::builtin().with(Arc::new(Lines(2)));
    assert_eq!(codes(&validator.validate(&text("x\n"), &expected)), []);
    assert_eq!(
        codes(&validator.validate(&text("x\ty"), &expected)),
        [Code::CHECK_REFUSES, Code::CHECK_WARNS]
    );
    let message = validator.validate(&text("\t\n"), &expected).findings[0].message();
    assert_eq!(message, "lines (version 2): found a tab\\n");
    assert!(validator.stamp(&expected) > RULES_VERSION);

    // Without it, or with another version of it, no object is reported as damaged.
    for other in [Validator::builtin(), Validator::builtin().with(Arc::new(Lines(1)))] {
        let report = other.validate(&text("x"), &expected);
        assert_eq!(codes(&report), [Code::UNVERIFIED]);
        assert!(report.is_valid());
        assert_eq!(report.status, CheckStatus::Unavailable(CheckId::new("lines", 2)));
        assert_eq!(other.stamp(&expected), 0);
    }
}
