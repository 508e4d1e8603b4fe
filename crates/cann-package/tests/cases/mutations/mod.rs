//! Each way in which the files of a package may disagree, made in a package that agrees.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]
#![expect(clippy::unwrap_used, reason = "these tests are functions without `#[test]`")]

mod indexes;
mod kernels;
mod operators;

use std::fs;

use libtest_mimic::{Failed, Trial};
use opkeep_validator::Severity;
use serde_json::Value;

use crate::common::{Package, stem};

const UNIT: &str = "ascend910b";
const INFO: &str = "config/ascend910b/aic-ascend910b-ops-info.json";
const ADD: &str = "kernel/config/ascend910b/add_custom.json";
const BINARY: &str = "kernel/config/ascend910b/binary_info_config.json";
const PARTS: &str = "kernel/config/ascend910b/relocatable_kernel_info_config.json";

/// A change of a package, and the finding about it: file, severity, kind, and what its text has.
struct Mutation {
    name: &'static str,
    change: fn(&Package),
    file: fn() -> String,
    severity: Severity,
    kind: &'static str,
    texts: &'static [&'static str],
}

fn half() -> String {
    Package::add(UNIT, "float16")
}

fn half_json() -> String {
    format!("{}.json", half())
}

fn half_object() -> String {
    format!("{}.o", half())
}

fn fused(unit: &str, end: &str) -> String {
    format!("kernel/{unit}/fused_matmul/{}{end}", stem("FusedMatmul", "float16"))
}

const fn mutation(
    name: &'static str,
    change: fn(&Package),
    file: fn() -> String,
    (severity, kind): (Severity, &'static str),
    texts: &'static [&'static str],
) -> Mutation {
    Mutation { name, change, file, severity, kind, texts }
}

const ERROR: Severity = Severity::Error;
const WARNING: Severity = Severity::Warning;
const NOTE: Severity = Severity::Note;

fn info() -> String {
    INFO.to_owned()
}

fn add_index() -> String {
    ADD.to_owned()
}

fn binary_info() -> String {
    BINARY.to_owned()
}

/// Changes an entry of the index of `AddCustom`.
fn entry(package: &Package, change: impl FnOnce(&mut Value)) {
    package.edit(ADD, |index| change(&mut index["binList"][0]));
}

/// Changes an entry of the index of all kernels.
fn listed(package: &Package, change: impl FnOnce(&mut Value)) {
    package.edit(BINARY, |index| change(&mut index["AddCustom"]["binaryList"][0]));
}

fn rename(package: &Package, from: &str, to: &str) {
    fs::rename(package.file(from), package.file(to)).unwrap();
}

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![
        Trial::test("mutations::a_package_that_agrees_has_no_finding", a_package_that_agrees_has_no_finding),
        Trial::test("mutations::findings_are_about_their_unit", findings_are_about_their_unit),
    ];
    let all = [kernels::MUTATIONS, indexes::MUTATIONS, operators::MUTATIONS];
    trials.extend(all.into_iter().flatten().map(|mutation| {
        Trial::test(format!("mutations::{}", mutation.name.replace(' ', "_")), || found(mutation))
    }));
    trials
}

fn a_package_that_agrees_has_no_finding() -> Result<(), Failed> {
    let verified = Package::new().verify();
    assert_eq!((verified.findings.as_slice(), verified.more), (&[][..], 0));
    let counts: Vec<_> = verified
        .units
        .iter()
        .map(|unit| {
            (unit.name.as_str(), unit.kernels, unit.valid, unit.relocatable, unit.operators, unit.indexes)
        })
        .collect();
    assert_eq!(
        counts,
        [("ascend310p", 4, 4, 0, 2, 3), ("ascend910_93", 4, 4, 0, 2, 3), (UNIT, 6, 6, 2, 2, 4)]
    );
    Ok(())
}

fn found(mutation: &Mutation) -> Result<(), Failed> {
    let package = Package::new();
    (mutation.change)(&package);
    let findings = package.findings();
    let file = format!("op_impl/ai_core/tbe/{}", (mutation.file)());
    let is_it = |finding: &&opkeep_cann_package::Finding| {
        let text = finding.problem.to_string();
        finding.file.to_str() == Some(&file)
            && finding.problem.kind() == mutation.kind
            && finding.severity() == mutation.severity
            && mutation.texts.iter().all(|part| text.contains(part))
    };
    let texts: Vec<String> = findings
        .iter()
        .map(|it| format!("{} {} {}: {}", it.severity(), it.problem.kind(), it.file.display(), it.problem))
        .collect();
    assert!(findings.iter().any(|finding| is_it(&finding)), "{file} {texts:#?}");
    // An error is an error of the package, all else is not.
    let has_error = findings.iter().any(|finding| finding.severity() == Severity::Error);
    assert_eq!(package.verify().is_consistent(), !has_error);
    assert!(has_error || mutation.severity < Severity::Error);
    Ok(())
}

fn findings_are_about_their_unit() -> Result<(), Failed> {
    let package = Package::new();
    package.remove(&half_object());
    let verified = package.verify();
    assert!(verified.findings.iter().all(|finding| finding.unit == UNIT), "{verified:?}");
    let valid: Vec<usize> = verified.units.iter().map(|unit| unit.valid).collect();
    assert_eq!(valid, [4, 4, 5]);
    Ok(())
}
