//! Bytes that no compiler wrote, and some that one did.

use opbuild_validator::{CrossCheck, Refusal, cross_check, read_object, validate};

use crate::made::{KERNEL, expect, meta, object, object_with};

/// Judges an altered object with a description that has its digest, so that the digest does not hide the rest.
fn judge(object: &[u8]) -> Result<(), Refusal> {
    validate(meta(object).to_json().as_bytes(), object, &expect()).map(drop)
}

#[test]
fn every_truncation_is_refused() {
    let object = object_with(&[KERNEL, "other"]);
    assert_eq!(judge(&object), Ok(()));
    for end in 0..object.len() {
        let cut = &object[..end];
        let refusal = judge(cut).unwrap_err();
        match end {
            0..4 => assert_eq!(refusal, Refusal::NotElf { found: cut.to_vec() }),
            _ => assert!(
                matches!(refusal, Refusal::Malformed { bytes, .. } if bytes == end),
                "{end}: {refusal}"
            ),
        }
        assert_eq!(cross_check(cut), CrossCheck::Unreadable(refusal));
    }
}

/// What must hold for any bytes: no panic, and no quarrel between the parsers.
fn survives(object: &[u8], what: &dyn std::fmt::Display) -> Result<(), Refusal> {
    let verdict = judge(object);
    let second = cross_check(object);
    match &second {
        CrossCheck::Unreadable(refusal) => assert_eq!(verdict, Err(refusal.clone()), "{what}"),
        // goblin takes a count of 0 for 1, in a file without sections.
        CrossCheck::Disagree { what: "the number of sections", object, .. } if object == "0" => {
            assert!(verdict.is_err(), "{what}");
        }
        _ => assert!(!matches!(second, CrossCheck::Disagree { .. }), "{what}: {second}"),
    }
    verdict
}

#[test]
fn no_flip_of_a_bit_panics() {
    let base = object_with(&[KERNEL, "other"]);
    let mut refused = 0;
    for bit in 0..base.len() * 8 {
        let mut object = base.clone();
        object[bit / 8] ^= 1 << (bit % 8);
        refused += usize::from(survives(&object, &format_args!("bit {bit}")).is_err());
    }
    // Some flips are harmless, such as those in the padding, but not those in the identification, in the kernel's
    // name and symbol, and in where the sections are.
    assert!(refused > 500, "{refused}");
}

/// Numbers that are at the edge of something, written over several fields at once.
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
        accepted += usize::from(survives(&object, &format_args!("round {round}")).is_ok());
    }
    // Were all refused at the door, nothing would have been tried.
    assert!((1_000..19_000).contains(&accepted), "{accepted}");
}

/// An object may lie anywhere in memory: in the store it stands somewhere within an entry.
#[test]
fn alignment_does_not_matter() {
    let object = object();
    for shift in 0..16 {
        let mut bytes = vec![0; shift];
        bytes.extend(&object);
        assert_eq!(judge(&bytes[shift..]), Ok(()), "{shift}");
        assert!(matches!(cross_check(&bytes[shift..]), CrossCheck::Agree { kernels: 1, .. }), "{shift}");
    }
}

#[test]
fn a_name_that_is_no_text_is_only_goblins_problem() {
    let mut object = object_with(&[KERNEL, "odd?"]);
    let at = object.windows(4).position(|window| window == b"odd?").unwrap();
    object[at + 3] = 0xff;
    assert_eq!(judge(&object), Ok(()));
    assert_eq!(read_object(&object).unwrap().kernels, [KERNEL, "odd\u{fffd}"]);
    let second = cross_check(&object);
    assert!(matches!(second, CrossCheck::GoblinRefuses { .. }), "{second}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test may read its own program")]
#[cfg(all(target_os = "linux", target_pointer_width = "64", target_endian = "little"))]
fn this_program_is_read_alike_by_both_parsers() {
    let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let facts = read_object(&program).unwrap();
    assert!(facts.kernels.iter().any(|name| name == "main"), "{:?}", facts.kernels);
    let agree = CrossCheck::Agree {
        machine: facts.machine,
        elf_type: facts.elf_type,
        sections: facts.sections,
        kernels: facts.kernels.len(),
    };
    assert_eq!(cross_check(&program), agree);
}
