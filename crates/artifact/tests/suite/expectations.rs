//! Expectations are stored with kernels: they come back as they were, or decoding says why not.

use std::collections::BTreeMap;

use opkeep_artifact::{
    CheckId, DecodeError, ElfLayout, ElfRules, Expectations, Format, MetadataRules, OpaqueRules,
};
use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use serde_json::{Value, json};

fn check() -> impl Strategy<Value = CheckId> {
    (".*", any::<u32>()).prop_map(|(id, version)| CheckId::new(id, version))
}

fn layout() -> impl Strategy<Value = ElfLayout> {
    use ElfLayout::{AicpuObject, Contiguous, SharedObject, Unspecified};
    prop::sample::select(vec![AicpuObject, Contiguous, SharedObject, Unspecified])
}

fn elf() -> impl Strategy<Value = ElfRules> {
    let flags = of((any::<u32>(), vec(any::<u32>(), 0..4)));
    (vec(any::<u16>(), 0..4), layout(), flags).prop_map(|(machines, layout, flags)| {
        let rules = ElfRules::new(machines, layout);
        match flags {
            Some((mask, values)) => rules.with_flags(mask, values),
            None => rules,
        }
    })
}

fn opaque() -> impl Strategy<Value = OpaqueRules> {
    (vec(any::<u8>(), 0..8), any::<u64>(), of(check())).prop_map(|(starts_with, max_bytes, check)| {
        let rules = OpaqueRules::new(starts_with, max_bytes);
        match check {
            Some(check) => rules.with_check(check),
            None => rules,
        }
    })
}

fn metadata() -> impl Strategy<Value = MetadataRules> {
    let checked = (check(), btree_map(".*", ".*", 0..4));
    prop_oneof![
        Just(MetadataRules::None),
        Just(MetadataRules::Json),
        checked.prop_map(|(check, parameters)| MetadataRules::Checked { check, parameters }),
    ]
}

fn expectations() -> impl Strategy<Value = Expectations> {
    let format = prop_oneof![elf().prop_map(Format::Elf), opaque().prop_map(Format::Opaque)];
    (".*", format, metadata())
        .prop_map(|(target, format, metadata)| Expectations::new(target, format, metadata))
}

fn full() -> Expectations {
    let parameters = BTreeMap::from([("magics".to_owned(), "A B".to_owned())]);
    let rules = ElfRules::new([190], ElfLayout::Contiguous).with_flags(0xff, [0x90]);
    let metadata = MetadataRules::Checked { check: CheckId::new("c", 1), parameters };
    Expectations::new("t", Format::Elf(rules), metadata)
}

fn full_opaque() -> Expectations {
    let rules = OpaqueRules::new(*b"//", 9).with_check(CheckId::new("ptx", 1));
    Expectations::new("t", Format::Opaque(rules), MetadataRules::Json)
}

proptest! {
    #[test]
    fn they_come_back_as_they_were(expected in expectations()) {
        let bytes = expected.encode();
        prop_assert_eq!(&Expectations::decode(&bytes).unwrap(), &expected);
        // Their digest stands for them.
        prop_assert_eq!(Expectations::decode(&bytes).unwrap().encode(), bytes);
    }

    #[test]
    fn different_ones_have_different_bytes(one in expectations(), other in expectations()) {
        prop_assert_eq!(one.encode() == other.encode(), one == other);
    }

    #[test]
    fn what_is_cut_off_is_an_error(expected in expectations(), cut in any::<prop::sample::Index>()) {
        let bytes = expected.encode();
        let cut = cut.index(bytes.len());
        prop_assert!(Expectations::decode(&bytes[..cut]).is_err());
        let longer = [&bytes[..], b"}"].concat();
        prop_assert!(Expectations::decode(&longer).is_err());
    }

    #[test]
    fn a_changed_byte_is_an_error_or_stays_changed(
        expected in expectations(), at in any::<prop::sample::Index>(), change in 1u8..,
    ) {
        let mut bytes = expected.encode();
        let at = at.index(bytes.len());
        bytes[at] ^= change;
        if let Ok(decoded) = Expectations::decode(&bytes) {
            prop_assert_ne!(&decoded, &expected);
            prop_assert_eq!(decoded.encode(), bytes);
        }
    }

    #[test]
    fn any_bytes_have_an_answer(bytes in vec(any::<u8>(), 0..64)) {
        prop_assert!(Expectations::decode(&bytes).is_err());
    }

    #[test]
    fn any_text_of_tokens_has_an_answer(
        tokens in vec(
            prop::sample::select(vec![
                "{", "}", "[", "]", ",", ":", "\"version\":1", "\"target\":\"t\"", "\"format\":", "\"elf\"", "\"opaque\"",
                "\"machines\":[1]", "\"layout\":\"contiguous\"", "\"metadata\":\"none\"", "null", "1e9", "-1", "\"\\u0000\"",
            ]),
            0..16,
        )
    ) {
        let text = tokens.concat();
        if let Ok(decoded) = Expectations::decode(text.as_bytes()) {
            prop_assert_eq!(decoded.encode(), text.into_bytes());
        }
    }

    #[test]
    fn another_version_is_named(expected in expectations(), version in any::<u32>()) {
        prop_assume!(version != 1);
        let mut value: Value = serde_json::from_slice(&expected.encode()).unwrap();
        value["version"] = version.into();
        // What a later version adds is no reason to say anything else.
        value["added"] = json!({"by": "a later version"});
        let found = Expectations::decode(value.to_string().as_bytes());
        prop_assert!(matches!(found, Err(DecodeError::Version { found }) if found == version), "{found:?}");
    }
}

/// The places of all objects whose fields are fixed.
const OBJECTS: [&[&str]; 9] = [
    &[],
    &["format"],
    &["format", "elf"],
    &["format", "elf", "flags"],
    &["format", "opaque"],
    &["format", "opaque", "check"],
    &["metadata"],
    &["metadata", "checked"],
    &["metadata", "checked", "check"],
];

#[test]
fn an_unknown_field_is_an_error_wherever_it_stands() {
    let mut tried = 0;
    for expected in [full(), full_opaque()] {
        for place in OBJECTS {
            let mut value: Value = serde_json::from_slice(&expected.encode()).unwrap();
            let at = place.iter().try_fold(&mut value, |value, name| value.get_mut(*name));
            let Some(Value::Object(object)) = at else { continue };
            object.insert("added".to_owned(), json!(1));
            let text = value.to_string();
            assert!(
                matches!(Expectations::decode(text.as_bytes()), Err(DecodeError::Syntax { .. })),
                "{text}"
            );
            tried += 1;
        }
    }
    assert_eq!(tried, 7 + 4, "every object of both kinds");
}

#[test]
fn a_missing_field_is_an_error_unless_it_is_optional() {
    for (expected, optional) in [(full(), &["flags", "parameters"][..]), (full_opaque(), &["check"])] {
        for place in OBJECTS {
            let value: Value = serde_json::from_slice(&expected.encode()).unwrap();
            let at = place.iter().try_fold(&value, |value, name| value.get(*name));
            let Some(Value::Object(object)) = at else { continue };
            for name in object.keys() {
                let mut without = value.clone();
                let at = place.iter().try_fold(&mut without, |value, name| value.get_mut(*name));
                let Some(Value::Object(object)) = at else { continue };
                object.remove(name);
                let decoded = Expectations::decode(without.to_string().as_bytes());
                let fits = !matches!(decoded, Err(DecodeError::Syntax { .. }));
                let is_optional = optional.contains(&name.as_str()) && place.len() >= 2;
                assert_eq!(fits, is_optional, "{place:?} without {name}: {decoded:?}");
            }
        }
    }
}

#[test]
fn nothing_is_lost_that_stands_twice_or_otherwise() {
    let text = String::from_utf8(full().encode()).unwrap();
    for (old, new) in [
        (r#""magics":"A B""#, r#""magics":"B","magics":"A B""#),
        (r#"{"version""#, r#"{ "version""#),
        (r#""A B""#, r#""\u0041 B""#),
    ] {
        let other = text.replace(old, new);
        assert_ne!(other, text);
        let found = Expectations::decode(other.as_bytes());
        let Err(DecodeError::NotCanonical { expected }) = found else { panic!("{other}: {found:?}") };
        assert_eq!(expected, text);
    }
    let twice = text.replace(r#""target":"t""#, r#""target":"s","target":"t""#);
    assert!(matches!(Expectations::decode(twice.as_bytes()), Err(DecodeError::Syntax { .. })));
}

#[test]
fn depth_is_no_danger() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let text = format!(r#"{{"version":1,"target":{}1{}}}"#, open.repeat(1 << 16), close.repeat(1 << 16));
        assert!(matches!(Expectations::decode(text.as_bytes()), Err(DecodeError::Syntax { .. })));
    }
}
