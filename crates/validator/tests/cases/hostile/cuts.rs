//! Truncated files, as after a full disk or a killed compiler.

use opkeep_testkit::ascend::{Chip, Kernel, Pair, split_mix, zoo};
use opkeep_validator::{Code, validate, validate_full, validate_json, validate_object};

use crate::hostile::{beside_others, expect, is_blank};

/// One small file of each kind.
fn small() -> Vec<(&'static str, Pair)> {
    let mut pairs = zoo();
    pairs.push(("910A, tiny", Kernel::new(Chip::Ascend910, "a").code_bytes(4).build()));
    pairs
}

/// The digest shows it. If the digest is adjusted, the truncation itself is refused, since the tables of all these
/// files are at their ends.
pub(super) fn a_cut_object_is_refused_twice() {
    let _others = beside_others();
    for (kind, pair) in small() {
        for end in (0..pair.object.len()).filter(|end| !is_blank(&pair.object, *end)) {
            let object = &pair.object[..end];
            let own = if end < 4 { Code::NOT_ELF } else { Code::MALFORMED };
            let report = validate(&pair.json, object, &expect());
            for code in [Code::SHA256, own] {
                assert!(report.find(code).is_some(), "{kind}: {end}: {:?}", report.findings);
            }
            assert!(!report.is_valid(), "{kind}: {end}");
        }
    }
}

/// The same with a matching digest, and for the object alone: fewer, since neither changes how the object is read.
pub(super) fn a_cut_object_with_its_own_digest_is_refused_too() {
    let _others = beside_others();
    for (kind, pair) in small() {
        for end in (0..pair.object.len()).step_by(11) {
            let pair = pair.clone().with_object(|object| object.truncate(end));
            for report in
                [validate_full(&pair.json, &pair.object, &expect()), validate_object(&pair.object, None)]
            {
                assert!(report.find(Code::SHA256).is_none() && !report.is_valid(), "{kind}: {end}");
            }
        }
    }
}

pub(super) fn a_truncated_description_is_refused() {
    let _others = beside_others();
    for (kind, pair) in small() {
        for end in 0..pair.json.len() {
            let report = validate(&pair.json[..end], &pair.object, &expect());
            let codes: Vec<Code> = report.errors().map(|finding| finding.code()).collect();
            assert_eq!(codes, [Code::JSON], "{kind}: {end}");
        }
    }
    let master = split_mix("m").master;
    for end in 0..master.len() {
        let report = validate_json(&master[..end], Some(&expect()));
        assert!(report.find(Code::JSON).is_some() && !report.is_valid(), "{end}");
    }
    assert!(validate_json(&master, Some(&expect())).is_valid());
}
