//! The cost of attacks.

use std::collections::BTreeSet;
use std::time::Duration;

use opkeep_testkit::most_bytes;
use opkeep_validator::{Code, Report, device_formats};

use crate::hostile::attacks::{ATTACKS, Attack, SIZE};
use crate::hostile::overlapping::OVERLAPPING;
use crate::hostile::{Files, alone, beside_others};

/// The bytes of memory for each byte of the files, plus a small constant.
const RATIO: usize = 12;
const LITTLE: usize = 256 << 10;

type Ask = fn(&Files) -> Report;

const ASKING: [(&str, Ask); 5] = [
    ("validate", Files::validate),
    ("validate_full", Files::validate_full),
    ("validate_object", Files::validate_object),
    ("cubin", |files| files.validate_device(190, &device_formats::cubin("any"))),
    ("hsaco", |files| files.validate_device(224, &device_formats::hsaco("any"))),
];

fn attacks() -> impl Iterator<Item = &'static Attack> {
    ATTACKS.iter().chain(&OVERLAPPING)
}

pub(super) fn the_smallest_attacks_are_attacks_too() {
    let _others = beside_others();
    for attack in attacks() {
        for bytes in [1 << 10, 4 << 10, SIZE] {
            let files = (attack.make)(bytes);
            files.ask();
            // A small constant amount in any case.
            let (least, most) = (bytes / 5, 5 * bytes + (70 << 10));
            assert!((least..most).contains(&files.bytes()), "{}: {} of {bytes}", attack.name, files.bytes());
        }
    }
}

pub(super) fn each_attack_has_its_findings() {
    let _others = beside_others();
    for attack in attacks() {
        let report = (attack.make)(SIZE).validate();
        let found: BTreeSet<Code> = report.findings.iter().map(|finding| finding.code()).collect();
        assert_eq!(found, attack.codes.iter().copied().collect(), "{}: {:?}", attack.name, report.findings);
        // A report stays readable for any number of findings.
        assert!(report.findings.len() <= 8 * found.len(), "{}: {}", attack.name, report.findings.len());
    }
}

pub(super) fn memory_is_bounded_by_the_files_size() {
    let _alone = alone();
    for attack in attacks() {
        let files = (attack.make)(4 << 20);
        for (name, ask) in ASKING {
            let (_, most) = most_bytes(|| ask(&files));
            let limit = RATIO * files.bytes() + LITTLE;
            assert!(most <= limit, "{name}, {}: {most} bytes for {}", attack.name, files.bytes());
        }
    }
}

/// The least of several times, since others use the machine, too.
fn least(mut run: impl FnMut()) -> Duration {
    let time = |_| {
        let start = opkeep_testkit::CpuTime::start();
        run();
        start.elapsed()
    };
    (0..4).map(time).min().unwrap()
}

/// An input of eight times the size takes about eight times as long; quadratic time would be 64 times.
pub(super) fn time_grows_with_the_files_size() {
    const FACTOR: usize = 8;
    const TOLERATED: u32 = 3 * FACTOR as u32;
    let _alone = alone();
    for attack in attacks() {
        let (small, large) = ((attack.make)(64 << 10), (attack.make)(FACTOR * (64 << 10)));
        for (name, ask) in ASKING {
            let few = least(|| drop(ask(&small))).max(Duration::from_micros(300));
            let many = least(|| drop(ask(&large)));
            assert!(many < few * TOLERATED, "{name}, {}: {few:?}, then {many:?}", attack.name);
        }
    }
}

pub(super) fn there_may_be_a_million_symbols_and_sixty_thousand_sections() {
    let _others = beside_others();
    let attack = |name: &str| attacks().find(|attack| attack.name == name).unwrap().make;
    let files = attack("symbols")(36_000_000);
    let report = files.validate();
    assert!(report.is_valid(), "{:?}", report.findings);
    assert_eq!(report.object.unwrap().kernels.len(), 1_000_000);

    let sections = attack("sections");
    let files = sections(70 * 60_000);
    let report = files.validate();
    assert!(report.is_valid(), "{:?}", report.findings);
    assert_eq!(report.object.unwrap().sections, 60_004);

    // More sections than a header can count: ELF stores their number elsewhere, where the Ascend runtime does not look.
    let files = sections(70 * 100_000);
    let report = files.validate();
    let codes: Vec<Code> = report.errors().map(|finding| finding.code()).collect();
    assert_eq!((codes, report.object.unwrap().sections), (vec![Code::NO_SECTIONS], 100_004));
}
