//! Good kernels of every kind are accepted; with one flaw, each has the finding of that flaw.

mod codes;
mod device;
mod holders;
mod json_flaws;
mod object;
mod table;

use std::collections::BTreeSet;

use self::table::{Change, Mutation, base, kinds, notes_of};
use opkeep_validator::{Code, Report, Severity, validate, validate_full, validate_object};

fn codes(report: &Report) -> BTreeSet<Code> {
    report.findings.iter().map(|finding| finding.code()).collect()
}

fn tables() -> impl Iterator<Item = &'static Mutation> {
    object::FILE
        .iter()
        .chain(object::TABLES)
        .chain(device::LAYOUT)
        .chain(device::METADATA)
        .chain(holders::HOLDERS)
        .chain(json_flaws::FIELDS)
}

#[test]
fn good_kernels_are_accepted() {
    for kind in kinds() {
        let (pair, expect) = base(kind);
        let report = validate_full(&pair.json, &pair.object, &expect);
        assert!(report.is_valid(), "{kind}: {:?}", report.findings);
        assert!(report.worst() <= Some(Severity::Note), "{kind}: {:?}", report.findings);
        assert!(report.cross_check.is_some(), "{kind}");
        assert_eq!(
            codes(&validate(&pair.json, &pair.object, &expect)),
            notes_of(kind).into_iter().collect(),
            "{kind}"
        );
        // Only the `.json` shows that a file holds several objects.
        let alone = if kind == "fat binary" { BTreeSet::from([Code::NOT_ELF]) } else { BTreeSet::new() };
        assert_eq!(codes(&validate_object(&pair.object, None)), alone, "{kind}");
    }
}

#[test]
fn each_flaw_has_its_code() {
    let mut wrong = String::new();
    for mutation in tables() {
        let (pair, expect) = base(mutation.of);
        let broken = mutation.apply(pair.clone());
        assert_ne!(broken, pair, "{}: {}: nothing is changed", mutation.of, mutation.name);
        let report = validate(&broken.json, &broken.object, &expect);
        // Exactly these codes: a flaw is neither hidden by other findings nor causes more.
        let expected: BTreeSet<Code> = mutation.codes.iter().copied().chain(notes_of(mutation.of)).collect();
        if codes(&report) != expected {
            let list =
                |codes: &BTreeSet<Code>| codes.iter().map(Code::to_string).collect::<Vec<_>>().join(" ");
            let (expected, found) = (list(&expected), list(&codes(&report)));
            wrong += &format!("{}: {}: expected {expected}, found {found}\n", mutation.of, mutation.name);
            report.findings.iter().for_each(|finding| wrong += &format!("    {finding}\n"));
        }
        let is_error = |code: &Code| code.rule().severity == Severity::Error;
        assert_eq!(report.is_valid(), !codes(&report).iter().any(is_error), "{}", mutation.name);
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// An object that was changed without its digest is detected, whatever else is wrong.
#[test]
fn a_changed_object_is_not_the_one_described() {
    for mutation in tables() {
        let Change::Object(change) = mutation.change else { continue };
        let (pair, expect) = base(mutation.of);
        let mut object = pair.object.clone();
        change(&mut object);
        let report = validate(&pair.json, &object, &expect);
        assert!(report.find(Code::SHA256).is_some() && !report.is_valid(), "{}", mutation.name);
    }
}

/// The second parser, which reads the objects that the first has read completely, agrees on all of these.
#[test]
fn two_parsers_agree_on_every_flaw() {
    for mutation in tables() {
        let (pair, expect) = base(mutation.of);
        let broken = mutation.apply(pair);
        let report = validate_full(&broken.json, &broken.object, &expect);
        for code in [Code::DISAGREE, Code::SECOND_PARSER] {
            assert_eq!(report.find(code), None, "{}: {}", mutation.of, mutation.name);
        }
    }
}
