//! Groups and names that are refused, with the ticket left as it was.

use opkeep_embed::{
    Digest, EmbedError, FileCache, FileCacheConfig, FileKey, Fingerprint, MAX_TEXT_BYTES,
    MAX_TOOLCHAIN_PARTS, NewGroup, Options, StoreConfig, encode_rules,
};

use crate::{cache, ticket};

#[test]
fn a_group_that_cannot_be_kept_is_an_error_and_the_ticket_stays() {
    let dir = tempfile::tempdir().unwrap();
    let files = cache(&dir);
    let key = FileKey::new([1; 32]);
    let begun = ticket(files.get_or_begin(&key, &Options::default()).unwrap());
    let error = |group: NewGroup<'_>| begun.publish(&group).unwrap_err();
    let data: &[u8] = b"data";

    assert!(matches!(error(NewGroup::new([])), EmbedError::NoFiles));
    assert!(matches!(error(NewGroup::new([("a", data), ("a", data)])), EmbedError::RepeatedName { .. }));
    assert!(matches!(error(NewGroup::new([("a", &[][..])])), EmbedError::EmptyFile { .. }));
    for name in ["", ".", "..", "a/b", "/a", "a\0", "a b", "a\n", &"a".repeat(201)] {
        assert!(matches!(error(NewGroup::new([(name, data)])), EmbedError::FileName { .. }), "{name:?}");
    }
    let names: Vec<String> = (0..61).map(|number| format!("f{number}")).collect();
    let many = NewGroup::new(names.iter().map(|name| (name.as_str(), data)));
    assert!(matches!(error(many), EmbedError::TooManyFiles { found: 61 }));
    let without = NewGroup::new([("a", data)]).with_object("b", None);
    assert!(matches!(error(without), EmbedError::MissingFile { .. }));
    let gib = vec![0_u8; 1 << 30];
    assert!(matches!(error(NewGroup::new([("a", &gib[..])])), EmbedError::TooLarge { .. }));

    assert!(begun.is_held());
    begun.publish(&NewGroup::new(names[..60].iter().map(|name| (name.as_str(), data)))).unwrap();
    assert_eq!(files.get(&key).unwrap().unwrap().names().count(), 60);
    assert!(matches!(error(NewGroup::new([("a", data)])), EmbedError::TicketEnded));
}

/// A report shows these texts, each in one line.
#[test]
fn texts_for_reports_have_a_limit() {
    let dir = tempfile::tempdir().unwrap();
    let files = cache(&dir);
    let (longest, long) = ("a".repeat(MAX_TEXT_BYTES), "a".repeat(MAX_TEXT_BYTES + 1));
    let keys = |text: &str| {
        let part = |name: &str, note: &str| {
            let mut toolchain = Fingerprint::new();
            toolchain.add(name, Digest::of(b"cc"), note);
            FileKey::new([1; 32]).with_toolchain(toolchain)
        };
        [FileKey::new([1; 32]).with_name(text), part(text, ""), part("cc", text)]
    };
    let group = NewGroup::new([("a", &b"data"[..])]);
    let groups = |text| {
        [group.clone().with_kernel(text), {
            let mut group = group.clone();
            group.framework_version = text;
            group
        }]
    };
    let is_too_long = |error| matches!(error, EmbedError::TextTooLong { found, .. } if found == long.len());

    for key in keys(&long) {
        // Before files are made.
        assert!(is_too_long(files.get_or_begin(&key, &Options::default()).unwrap_err()));
        assert!(is_too_long(files.publish(&key, &group).unwrap_err()));
        assert!(files.get(&key).unwrap().is_none());
    }
    let key = FileKey::new([1; 32]);
    let begun = ticket(files.get_or_begin(&key, &Options::default()).unwrap());
    for group in groups(&long) {
        assert!(is_too_long(begun.publish(&group).unwrap_err()));
        assert!(is_too_long(files.publish(&key, &group).unwrap_err()));
    }
    assert!(begun.is_held());
    for key in keys(&longest) {
        for group in groups(&longest) {
            assert!(files.publish(&key, &group).unwrap());
        }
    }
    let mut toolchain = Fingerprint::new();
    (0..=MAX_TOOLCHAIN_PARTS).for_each(|number| toolchain.add(number.to_string(), Digest::of(b""), ""));
    let key = key.with_toolchain(toolchain);
    assert!(matches!(files.publish(&key, &group), Err(EmbedError::TooManyParts { found: 257 })));
}

#[test]
fn rules_need_an_object() {
    use opkeep_artifact::{Expectations, Format, MetadataRules, OpaqueRules};
    let dir = tempfile::tempdir().unwrap();
    let text = Format::Opaque(OpaqueRules::new(*b"", 9));
    let rules = encode_rules(Expectations::new("cuda-sm_90", text, MetadataRules::None));
    let group = NewGroup::new([("object", &b"data"[..])]).with_expectations(&rules);
    let error = cache(&dir).publish(&FileKey::new([1; 32]), &group).unwrap_err();
    assert!(matches!(error, EmbedError::NoObject));
    assert!(cache(&dir).publish(&FileKey::new([1; 32]), &group.with_object("object", None)).unwrap());
}

#[test]
fn names_of_frameworks_and_targets_are_checked() {
    let dir = tempfile::tempdir().unwrap();
    let open = |name: &str| FileCache::open(FileCacheConfig::new(StoreConfig::new(dir.path()), name));
    for name in ["", ".x", "a/b", "a b", &"a".repeat(101)] {
        assert!(matches!(open(name), Err(EmbedError::FrameworkName { .. })), "{name:?}");
        assert!(matches!(open("ok").unwrap().target(name), Err(EmbedError::Cache(_))), "{name:?}");
    }
}

/// An entry whose rules are for another target is not valid where it is kept.
#[test]
fn rules_for_another_target_are_refused() {
    use opkeep_artifact::{Expectations, Format, MetadataRules, OpaqueRules};
    let dir = tempfile::tempdir().unwrap();
    let files = cache(&dir);
    let key = FileKey::new([1; 32]);
    let text = Format::Opaque(OpaqueRules::new(*b"", 9));
    let other = encode_rules(Expectations::new("sm_90", text, MetadataRules::None));
    let options = Options::default().with_expectations(&other);
    let is_refused = |error| matches!(error, EmbedError::RulesTarget { .. });
    assert!(is_refused(files.get_or_begin(&key, &options).unwrap_err()));
    let begun = ticket(files.get_or_begin(&key, &Options::default()).unwrap());
    let group = NewGroup::new([("a", &b"data"[..])]).with_object("a", None).with_expectations(&other);
    assert!(is_refused(begun.publish(&group).unwrap_err()));
    assert!(is_refused(files.publish(&key, &group).unwrap_err()));
    assert!(begun.is_held());
}
