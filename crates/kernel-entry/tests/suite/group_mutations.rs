//! Changed groups: none is valid.

use opkeep_digest::Digest;
use opkeep_kernel_entry::{EntryError, EntryVerdict};
use opkeep_store::Entry;
use serde_json::{Value, json};

use crate::{
    TARGET, bytes, entry, error_after, members, record, rules, unverifiable_after, verdict, verdict_after,
};

/// Changes the record of the group.
fn with_record(change: impl FnOnce(&mut Value)) -> impl FnOnce(&mut Vec<crate::NamedMember>) {
    |members| {
        let record = bytes(members, "group");
        let mut json = serde_json::from_slice(record).unwrap();
        change(&mut json);
        *record = json.to_string().into_bytes();
    }
}

#[test]
fn any_changed_byte_is_damage() {
    let record = record();
    let key = record.key.digest();
    let members = members(&record);
    let builder = members.iter().fold(opkeep_store::EntryBuilder::new(1), |entry, (name, bytes, eager)| {
        if *eager { entry.eager(name, bytes) } else { entry.lazy(name, bytes) }
    });
    let file = builder.encode(&key).unwrap();
    for at in 0..file.len() {
        let mut bad = file.clone();
        bad[at] ^= 0x10;
        let Ok(entry) = Entry::decode(bad, Some(&key)) else { continue };
        assert!(matches!(verdict(&entry), EntryVerdict::Invalid(_)), "byte {at}");
    }
}

#[test]
fn the_parts_of_the_key_cannot_be_changed() {
    let other = Digest::of(b"other").to_string();
    let changes: [(&str, Value); 7] = [
        ("framework", json!("jax")),
        ("target", json!("cuda-sm_80")),
        ("framework_key", json!(other)),
        ("name", json!("mul.json")),
        ("toolchain", json!([])),
        ("toolchain", json!([{ "name": "ptxas", "digest": other, "note": "12.8" }])),
        ("key", json!(other)),
    ];
    for (field, value) in changes {
        // The record's own key belongs to its parts, so the record cannot be read.
        let error = error_after(with_record(|record| record[field] = value.clone()));
        assert!(matches!(error, EntryError::Record), "{field}: {error}");
        // A record that another group could have.
        let mut other = record();
        match field {
            "framework" => other.key.framework = "jax".to_owned(),
            "target" => other.key.target = "cuda-sm_80".to_owned(),
            "name" => other.key.name = "mul.json".to_owned(),
            "toolchain" => other.key.toolchain.text("more", ""),
            _ => other.key.framework_key = Digest::of(b"other"),
        }
        let moved = verdict(&entry(&record().key.digest(), &members(&other)));
        let is_found = match &moved {
            EntryVerdict::Invalid(EntryError::KeyMismatch { .. }) => field != "target",
            EntryVerdict::Invalid(EntryError::HeaderMismatch { field: "target", .. }) => field == "target",
            _ => false,
        };
        assert!(is_found, "{field}: {moved:?}");
    }
}

#[test]
fn a_record_that_no_version_writes_is_invalid() {
    for field in [
        "schema",
        "key",
        "framework",
        "framework_version",
        "framework_key",
        "kernel",
        "target",
        "name",
        "toolchain",
        "local",
    ] {
        for value in [Value::Null, json!(-1), json!(["x"])] {
            let error = error_after(with_record(|record| record[field] = value.clone()));
            assert!(matches!(error, EntryError::Record), "{field} = {value}: {error}");
        }
    }
    for field in ["object", "metadata", "compile_us"] {
        let error = error_after(with_record(|record| record[field] = json!({})));
        assert!(matches!(error, EntryError::Record), "{field}: {error}");
    }
    for text in ["", "{}", "[]", "{", "null", r#"{"schema":0}"#] {
        let error = error_after(|members| *bytes(members, "group") = text.into());
        assert!(matches!(error, EntryError::Record), "{text}: {error}");
    }
}

/// A later version may write what this one cannot read, names of files included.
#[test]
fn a_record_of_a_later_version_is_unverifiable() {
    let why = unverifiable_after(with_record(|record| *record = json!({ "schema": 2 })));
    assert!(why.contains("later version"), "{why}");
    let why = unverifiable_after(|members| {
        with_record(|record| record["schema"] = json!(2))(members);
        members.push(("x/a+b".to_owned(), b"data".to_vec(), true));
        members.retain(|(name, ..)| name != "expectations");
    });
    assert!(why.contains("later version"), "{why}");
    let why = unverifiable_after(|members| members.push(("signature".to_owned(), b"data".to_vec(), false)));
    assert!(why.contains("`signature`"), "{why}");
}

#[test]
fn files_must_be_those_of_a_group() {
    for name in ["x/..", "x/", "x/a/b", "x/../../etc", "x/a b"] {
        let error = error_after(|members| members.push((name.to_owned(), b"data".to_vec(), true)));
        assert!(matches!(error, EntryError::FileName { .. }), "{name}: {error}");
    }
    let error = error_after(|members| members.retain(|(name, ..)| !name.starts_with("x/")));
    assert!(matches!(error, EntryError::Incomplete { member: "x/" }), "{error}");
    for lost in ["add.ptx", "add.json"] {
        let error = error_after(|members| members.retain(|(name, ..)| *name != format!("x/{lost}")));
        assert!(matches!(&error, EntryError::MissingFile { name } if name == lost), "{error}");
    }
    // A hit returns eager members only.
    let error = error_after(|members| members.iter_mut().for_each(|(.., eager)| *eager = false));
    assert!(matches!(&error, EntryError::OtherMember { member } if member == "x/add.json"), "{error}");
    let error = error_after(|members| members.push(("x/add.ptx".to_owned(), b".version 1".to_vec(), true)));
    assert!(matches!(&error, EntryError::OtherMember { member } if member == "x/add.ptx"), "{error}");
}

#[test]
fn an_entry_holds_a_group_or_a_kernel() {
    for name in ["json", "object", "info", "header", "imported"] {
        for eager in [true, false] {
            let error = error_after(|members| members.push((name.to_owned(), b"{}".to_vec(), eager)));
            assert!(matches!(&error, EntryError::OtherMember { member } if member == name), "{error}");
        }
    }
    // Without its record, the group is nothing.
    let error = error_after(|members| members.retain(|(name, ..)| name != "group"));
    assert!(matches!(error, EntryError::Incomplete { member: "json" }), "{error}");
}

#[test]
fn the_kernel_is_judged_by_the_stored_rules() {
    let error = error_after(|members| *bytes(members, "x/add.ptx") = b"ELF".to_vec());
    assert!(matches!(error, EntryError::Invalid { .. }), "{error}");
    let error = error_after(|members| *bytes(members, "x/add.json") = b"{\"name\":".to_vec());
    assert!(matches!(error, EntryError::Invalid { .. }), "{error}");
    // The record names another file as the kernel.
    let error = error_after(with_record(|record| record["object"] = json!("add.ttir")));
    assert!(matches!(error, EntryError::Invalid { .. }), "{error}");
    let error = error_after(with_record(|record| record["object"] = json!("none.ptx")));
    assert!(matches!(&error, EntryError::MissingFile { name } if name == "none.ptx"), "{error}");
    let error = error_after(with_record(|record| record["object"] = Value::Null));
    assert!(matches!(error, EntryError::MissingFile { .. }), "{error}");
    let error = error_after(with_record(|record| record["metadata"] = Value::Null));
    assert!(matches!(error, EntryError::Invalid { .. }), "{error}");
}

#[test]
fn rules_that_are_lost_or_unknown_are_reported() {
    let with_rules = |rules: &'static [u8]| {
        move |members: &mut Vec<crate::NamedMember>| *bytes(members, "expectations") = rules.to_vec()
    };
    let why = unverifiable_after(|members| members.retain(|(name, ..)| name != "expectations"));
    assert!(why.contains("no rules") && why.contains("add.ptx"), "{why}");
    for unknown in [&b"not for us"[..], b"", b"{}"] {
        let verdict = verdict_after(with_rules(unknown));
        assert!(matches!(verdict, EntryVerdict::Unverifiable { .. }), "{verdict:?}");
    }
    let other = rules("cuda-sm_80").encode();
    let error = error_after(|members| *bytes(members, "expectations") = other);
    assert!(matches!(error, EntryError::HeaderMismatch { field: "target", .. }), "{error}");

    use opkeep_artifact::{CheckId, Expectations, Format, MetadataRules, OpaqueRules};
    let check = OpaqueRules::new(*b"", 1 << 20).with_check(CheckId::new("of-another-backend", 1));
    let other = Expectations::new(TARGET, Format::Opaque(check), MetadataRules::None).encode();
    let why = unverifiable_after(|members| *bytes(members, "expectations") = other);
    assert!(why.contains("of-another-backend"), "{why}");
}
