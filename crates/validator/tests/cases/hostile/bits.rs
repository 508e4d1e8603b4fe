//! Files with one flipped bit.

use opkeep_digest::Digest;
use opkeep_testkit::ascend::{Chip, Kernel, Library, Pair, library, zoo};
use opkeep_validator::{Code, validate, validate_full};

use crate::hostile::{Files, beside_others, expect, is_blank};

/// Small files, so that each bit can be tried.
fn small() -> Vec<Pair> {
    let tiny = |chip| Kernel::new(chip, "a").code_bytes(4);
    vec![
        tiny(Chip::Ascend910).build(),
        tiny(Chip::Ascend910B).relocatable().build(),
        library(Library::AiCpu, "l", &["a"]),
    ]
}

fn flips(bytes: &[u8]) -> impl Iterator<Item = (usize, Vec<u8>)> {
    (0..bytes.len()).filter(|at| !is_blank(bytes, *at)).flat_map(|at| (0..8).map(move |bit| (at, bit))).map(
        |(at, bit)| {
            let mut flipped = bytes.to_vec();
            flipped[at] ^= 1 << bit;
            (at, flipped)
        },
    )
}

pub(super) fn a_flipped_bit_of_an_object_never_goes_unnoticed() {
    let _others = beside_others();
    for pair in small() {
        for (at, object) in flips(&pair.object) {
            let report = validate(&pair.json, &object, &expect());
            assert!(report.find(Code::SHA256).is_some() && !report.is_valid(), "{}: {at}", pair.stem);
        }
    }
}

/// With a matching digest, an object with a flipped bit is refused, or still has its kernel at the stated position.
pub(super) fn a_flipped_bit_of_an_object_is_no_surprise() {
    let _others = beside_others();
    for pair in small() {
        let digest = Digest::of(&pair.object).to_string();
        let json = String::from_utf8(pair.json).unwrap();
        let (mut accepted, mut refused) = (0, 0);
        for (at, object) in flips(&pair.object) {
            let json = json.replace(&digest, &Digest::of(&object).to_string()).into_bytes();
            let files = Files { json, object };
            files.ask();
            let report = files.validate();
            assert!(report.find(Code::SHA256).is_none());
            if !report.is_valid() {
                refused += 1;
                continue;
            }
            accepted += 1;
            // In a part, another symbol of that name may be left.
            let is_hidden = report.find(Code::NOT_VISIBLE).is_some();
            let meta = report.meta.unwrap();
            let kernels = report.object.unwrap().kernels;
            for name in meta.entry_names() {
                let is_there = kernels.iter().any(|kernel| kernel.name == name);
                assert!(is_there || is_hidden, "{at}: {name}");
            }
        }
        // Both cases occur: in the code no flip is noticed, in the tables many are.
        assert!(accepted > 100 && refused > 500, "{accepted} accepted, {refused} refused");
    }
}

pub(super) fn a_flipped_bit_of_a_description_is_no_surprise() {
    let _others = beside_others();
    for kind in ["910A static", "910B mix 1:2"] {
        let pair = zoo().into_iter().find(|(name, _)| *name == kind).unwrap().1;
        let digest = Digest::of(&pair.object).to_string();
        let place = pair.json.windows(64).position(|window| window == digest.as_bytes()).unwrap();
        for (at, json) in flips(&pair.json) {
            let report = validate_full(&json, &pair.object, &expect());
            report.findings.iter().for_each(|finding| drop(finding.to_string()));
            if (place..place + 64).contains(&at) {
                assert!(!report.is_valid(), "{kind}: {at}");
            }
        }
    }
}
