//! Every code is found by some test, or a reason is given why none here can find it.

use std::collections::BTreeSet;

use opkeep_testkit::patch::{bytes_of, get, put, section_named, symbol, symbol_named};
use opkeep_validator::{Code, RULES, validate, validate_full};
use serde_json::json;

use crate::mutations::table::{base, kinds, notes_of};
use crate::mutations::tables;

/// Codes of findings beside the two files: added and tested by the crates that read files.
const OF_FILES: [Code; 4] = [Code::FILE_NAME, Code::NO_OBJECT, Code::NO_JSON, Code::PART];

/// Codes of the lints, which only `validate_full` gives: see the tests below.
const OF_EXAMINE: [Code; 4] = [Code::SECOND_PARSER, Code::FE_REFUSES, Code::FE_LINT, Code::MINDSPORE_LINT];

/// A code that depends only on the target: see `made_kernels/layout.rs`.
const OF_TARGETS: [Code; 1] = [Code::UNKNOWN_CHIP];

/// Codes of kernels without a CANN description: see `other_formats.rs` and `device_formats.rs`.
const OF_OTHER_FORMATS: [Code; 8] = [
    Code::SYMBOL,
    Code::FLAGS,
    Code::OPAQUE_START,
    Code::TOO_LONG,
    Code::CHECK_REFUSES,
    Code::CHECK_WARNS,
    Code::CHECK_NOTE,
    Code::UNVERIFIED,
];

/// No file is known that two parsers read differently.
const UNKNOWN: [Code; 1] = [Code::DISAGREE];

#[test]
fn every_code_is_found_somewhere() {
    let of_good_ones = kinds().filter_map(notes_of);
    let elsewhere = OF_FILES
        .into_iter()
        .chain(OF_EXAMINE)
        .chain(OF_TARGETS)
        .chain(OF_OTHER_FORMATS)
        .chain(UNKNOWN)
        .chain(of_good_ones);
    let found: BTreeSet<Code> =
        tables().flat_map(|mutation| mutation.codes).copied().chain(elsewhere).collect();
    let missing: Vec<Code> =
        RULES.iter().map(|rule| rule.code).filter(|code| !found.contains(code)).collect();
    assert_eq!(missing, []);
}

#[test]
fn the_second_parser_reads_only_text() {
    let (pair, expect) = base("910B vector");
    let pair = pair.with_object(|object| {
        let name = get(object, symbol_named(object, "g_vecTPipePtr") + symbol::NAME, 4);
        let strings = bytes_of(object, section_named(object, ".strtab")).start;
        put(object, strings + name, [0xff]);
    });
    let report = validate_full(&pair.json, &pair.object, &expect);
    assert!(report.is_valid() && report.find(Code::SECOND_PARSER).is_some(), "{:?}", report.findings);
    assert!(report.cross_check.is_none());
    assert_eq!(validate(&pair.json, &pair.object, &expect).findings, []);
}

/// A flaw for a vendor's reader that no rule here finds.
#[test]
fn lints_of_the_vendors_readers_are_found() {
    for (code, field, value) in [
        (Code::FE_REFUSES, "taskRation", json!("half")),
        (Code::FE_LINT, "schedule_mode", json!("fast")),
        (Code::MINDSPORE_LINT, "parameters", json!([null, 0])),
    ] {
        let (pair, expect) = base("910A static");
        assert_eq!(validate_full(&pair.json, &pair.object, &expect).find(code), None, "{code}");
        let pair = pair.with_field(field, value);
        let report = validate_full(&pair.json, &pair.object, &expect);
        assert!(report.find(code).is_some(), "{code}: {:?}", report.findings);
        assert!(report.is_valid(), "{:?}", report.findings);
        // A build does not ask for lints.
        assert_eq!(validate(&pair.json, &pair.object, &expect).findings, []);
    }
}
