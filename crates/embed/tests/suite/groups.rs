//! Groups that are published and found again.

use std::fs;

use opkeep_embed::{
    CacheMode, Digest, Expectations, FileCache, FileCacheConfig, FileKey, Fingerprint, GroupClaim,
    MemberHead, NewGroup, Options, StoreConfig, TargetFiles, encode_rules,
};
use opkeep_kernel_entry::{EntryVerdict, verify_entry};
use opkeep_store::{Overwrite, Store};
use opkeep_validator::Validator;

use crate::{cache, ticket};

const FILES: [(&str, &[u8]); 2] = [("add.json", br#"{"name":"add"}"#), ("add.ptx", b".version 8.0")];

#[test]
fn a_published_group_is_found_whole() {
    let dir = tempfile::tempdir().unwrap();
    let files = cache(&dir);
    let key = FileKey::new([1; 32]).with_name("add.json");
    assert!(files.get(&key).unwrap().is_none());
    let begun = ticket(files.get_or_begin(&key, &Options::default()).unwrap());
    assert!(
        begun
            .publish(&NewGroup::new(FILES).with_kernel("add").with_object("add.ptx", Some("add.json")))
            .unwrap()
    );

    // Another cache, as another process would open it.
    let group = cache(&dir).get(&key).unwrap().unwrap();
    assert_eq!(group.iter().collect::<Vec<_>>(), FILES);
    assert_eq!(group.digest("add.ptx"), Some(&Digest::of(b".version 8.0")));
    assert_eq!(group.get("x/add.ptx").or(group.get("add")).or(group.get("group")), None);
    let record = group.record().unwrap();
    assert_eq!((record.kernel.as_str(), record.object.as_deref()), ("add", Some("add.ptx")));
    assert_eq!(record.key.digest(), *group.key());
    assert_eq!(*group.key(), files.entry_key(&key));
    assert!(!record.is_local && record.compile_time.is_some());
}

/// A caller that has the files needs only the head of the entry, and what the head states is checked.
#[test]
fn files_that_are_placed_are_found_by_the_head() {
    let dir = tempfile::tempdir().unwrap();
    let files = cache(&dir);
    let key = FileKey::new([1; 32]);
    let placed = |files: &TargetFiles, is_placed: bool| {
        let names = |found: &mut dyn Iterator<Item = MemberHead<'_>>| {
            let expected =
                FILES.map(|(name, bytes)| (name.to_owned(), bytes.len() as u64, Digest::of(bytes)));
            let found: Vec<_> = found.map(|file| (file.name.to_owned(), file.bytes, *file.digest)).collect();
            assert_eq!(found, expected);
            is_placed.then_some(())
        };
        files.find_placed(&key, None, names).unwrap().is_some()
    };
    assert!(!placed(&files, true));
    ticket(files.get_or_begin(&key, &Options::default()).unwrap()).publish(&NewGroup::new(FILES)).unwrap();
    assert!(placed(&files, true));
    assert!(!placed(&files, false));
    for mode in [CacheMode::Force, CacheMode::Disable] {
        let mut config = FileCacheConfig::new(StoreConfig::new(dir.path().join("store")), "test");
        config.cache.mode = mode;
        assert!(!placed(&FileCache::open(config).unwrap().target("cuda-sm_90").unwrap(), true), "{mode:?}");
    }

    // A request with rules that did not judge the entry needs its bytes.
    let rules = encode_rules(opkeep_validator::device_formats::cubin("sm_90"));
    assert_eq!(files.find_placed(&key, Some(&rules), |_| Some(())).unwrap(), None);

    let target =
        Store::open(StoreConfig::new(dir.path().join("store"))).unwrap().target("cuda-sm_90").unwrap();
    let path = target.path(&files.entry_key(&key));
    let bytes = fs::read(&path).unwrap();
    let damage = |at: usize| {
        let mut bad = bytes.clone();
        bad[at] ^= 1;
        fs::write(&path, bad).unwrap();
    };
    damage(bytes.len() - 1);
    assert!(placed(&files, true), "nothing of the members is used");
    assert!(files.get(&key).unwrap().is_none(), "the entry is damaged");
    for at in [0, 50, 130, 200] {
        damage(at);
        assert!(!placed(&files, true), "byte {at}");
    }
}

#[test]
fn each_part_of_the_key_separates_groups() {
    let dir = tempfile::tempdir().unwrap();
    let config =
        |framework: &str| FileCacheConfig::new(StoreConfig::new(dir.path().join("store")), framework);
    let open =
        |framework: &str, target: &str| FileCache::open(config(framework)).unwrap().target(target).unwrap();
    let files = open("one", "cuda-sm_90");
    let key = FileKey::new([1; 32]);
    ticket(files.get_or_begin(&key, &Options::default()).unwrap()).publish(&NewGroup::new(FILES)).unwrap();
    assert!(files.get(&key).unwrap().is_some());

    let mut toolchain = Fingerprint::new();
    toolchain.text("ptxas", "13.0");
    for other in [FileKey::new([2; 32]), key.clone().with_name("n"), key.clone().with_toolchain(toolchain)] {
        assert!(files.get(&other).unwrap().is_none(), "{other:?}");
    }
    assert!(open("two", "cuda-sm_90").get(&key).unwrap().is_none());
    assert!(open("one", "cuda-sm_80").get(&key).unwrap().is_none());
}

#[test]
fn a_stored_group_verifies_under_its_own_key_only() {
    let dir = tempfile::tempdir().unwrap();
    let files = cache(&dir);
    let key = FileKey::new([1; 32]);
    ticket(files.get_or_begin(&key, &Options::default()).unwrap()).publish(&NewGroup::new(FILES)).unwrap();
    let store = opkeep_store::Store::open(StoreConfig::new(dir.path().join("store"))).unwrap();
    let target = store.target("cuda-sm_90").unwrap();
    let opkeep_store::Lookup::Hit(entry) = target.get(&files.entry_key(&key)) else { panic!("it is stored") };
    let judge = |entry: &_, target: &str| verify_entry(entry, target, &Validator::builtin());
    assert!(matches!(judge(&entry, "cuda-sm_90"), EntryVerdict::Valid));
    assert!(matches!(judge(&entry, "cuda-sm_80"), EntryVerdict::Invalid(_)));

    // The same content under the key of another group.
    let other = files.entry_key(&FileKey::new([2; 32]));
    target.put(&other, &entry.to_builder()).unwrap();
    let opkeep_store::Lookup::Hit(moved) = target.get(&other) else { panic!("it is stored") };
    let EntryVerdict::Invalid(error) = judge(&moved, "cuda-sm_90") else {
        panic!("it belongs to another key")
    };
    assert!(error.to_string().contains("expected"), "{error}");

    // An entry that no rules have judged, as one of another host: its record says that it belongs to another key.
    target.put_replacing(&other, &entry.to_builder().with_validation(0), Overwrite::Always).unwrap();
    let other = FileKey::new([2; 32]);
    assert!(files.get(&other).unwrap().is_none());
    assert!(matches!(files.get_or_begin(&other, &Options::default()).unwrap(), GroupClaim::Begin(_)));
    target.put_replacing(entry.key(), &entry.to_builder().with_validation(0), Overwrite::Always).unwrap();
    assert!(files.get(&key).unwrap().is_some());
    assert!(matches!(files.get_or_begin(&key, &Options::default()).unwrap(), GroupClaim::Hit(_)));
}

#[test]
fn a_kernel_that_other_rules_refuse_is_made_again() {
    use opkeep_artifact::{Format, MetadataRules, OpaqueRules};
    let dir = tempfile::tempdir().unwrap();
    let files = cache(&dir);
    let key = FileKey::new([1; 32]);
    let rules = |start: &[u8]| {
        let format = Format::Opaque(OpaqueRules::new(start, 1 << 20));
        encode_rules(Expectations::new("cuda-sm_90", format, MetadataRules::Json))
    };
    let (ptx, other) = (rules(b".version"), rules(b"//"));
    let group = NewGroup::new(FILES).with_object("add.ptx", Some("add.json"));
    let begun = ticket(files.get_or_begin(&key, &Options::default().with_expectations(&ptx)).unwrap());
    let refused = begun.publish(&group.clone().with_expectations(&other)).unwrap_err();
    assert!(refused.to_string().contains("not valid"), "{refused}");
    assert!(begun.is_held(), "the caller may correct the group");
    begun.publish(&group.with_expectations(&ptx)).unwrap();

    let hit = files.get_or_begin(&key, &Options::default().with_expectations(&ptx)).unwrap();
    assert!(matches!(hit, GroupClaim::Hit(_)));
    let again = ticket(files.get_or_begin(&key, &Options::default().with_expectations(&other)).unwrap());
    again
        .publish(
            &NewGroup::new([("add.ptx", &b"// ptx"[..]), FILES[0]])
                .with_object("add.ptx", Some("add.json"))
                .with_expectations(&other),
        )
        .unwrap();
    assert_eq!(files.get(&key).unwrap().unwrap().get("add.ptx"), Some(&b"// ptx"[..]));
}

#[test]
fn files_made_without_a_ticket_replace_those_that_are_there() {
    let dir = tempfile::tempdir().unwrap();
    let files = cache(&dir);
    let key = FileKey::new([1; 32]);
    for text in [&b"first"[..], b"second"] {
        assert!(files.publish(&key, &NewGroup::new([("file", text)])).unwrap());
        assert_eq!(files.get(&key).unwrap().unwrap().get("file"), Some(text));
    }
}

#[test]
fn a_store_that_is_not_written_shares_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let files = cache(&dir);
    let (key, absent) = (FileKey::new([1; 32]), FileKey::new([2; 32]));
    ticket(files.get_or_begin(&key, &Options::default()).unwrap()).publish(&NewGroup::new(FILES)).unwrap();
    let config = FileCacheConfig::new(StoreConfig::new(dir.path().join("store")), "test");
    let reader =
        FileCache::open(config.with_mode(CacheMode::ReadOnly)).unwrap().target("cuda-sm_90").unwrap();
    assert!(matches!(reader.get_or_begin(&key, &Options::default()).unwrap(), GroupClaim::Hit(_)));
    let GroupClaim::Unshared(made, _) = reader.get_or_begin(&absent, &Options::default()).unwrap() else {
        panic!("the store is only read")
    };
    assert!(!made.publish(&NewGroup::new(FILES)).unwrap());
    assert!(files.get(&absent).unwrap().is_none());
}

/// An entry of another host that binds to its key, with the name of a file that leads out of a directory, or without files.
#[test]
fn an_unjudged_group_has_files_with_plain_names() {
    let dir = tempfile::tempdir().unwrap();
    let files = cache(&dir);
    let key = FileKey::new([1; 32]);
    files.publish(&key, &NewGroup::new(FILES)).unwrap();
    let store = opkeep_store::Store::open(StoreConfig::new(dir.path().join("store"))).unwrap();
    let target = store.target("cuda-sm_90").unwrap();
    let opkeep_store::Lookup::Hit(entry) = target.get(&files.entry_key(&key)) else { panic!("it is stored") };
    let record = entry.lazy_member("group").unwrap().unwrap();
    for hostile in [Some("x/../../add.json"), Some("x//etc/add.json"), Some("x/.."), None] {
        let mut builder = opkeep_store::EntryBuilder::new(0);
        if let Some(name) = hostile {
            builder = builder.eager("x/add.json", FILES[0].1).eager(name, b"data");
        }
        let builder = builder.lazy("group", record);
        target.put_replacing(entry.key(), &builder, Overwrite::Always).unwrap();
        assert!(files.get(&key).unwrap().is_none(), "{hostile:?}");
        let claim = files.get_or_begin(&key, &Options::default()).unwrap();
        assert!(matches!(claim, GroupClaim::Begin(_)), "{hostile:?}: {claim:?}");
    }
}

/// The record is not read at each hit. If other rules need it, the damaged entry is replaced, and the next request is a hit.
#[test]
fn a_group_with_a_damaged_record_is_replaced_when_other_rules_need_it() {
    use opkeep_artifact::{Format, MetadataRules, OpaqueRules};
    let dir = tempfile::tempdir().unwrap();
    let files = cache(&dir);
    let key = FileKey::new([1; 32]);
    let group = NewGroup::new(FILES).with_object("add.ptx", None);
    files.publish(&key, &group).unwrap();
    let store = opkeep_store::Store::open(StoreConfig::new(dir.path().join("store"))).unwrap();
    let path = store.target("cuda-sm_90").unwrap().path(&files.entry_key(&key));
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(9).position(|text| text == b"framework").unwrap();
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).unwrap();

    let format = Format::Opaque(OpaqueRules::new(*b".version", 1 << 20));
    let rules = encode_rules(Expectations::new("cuda-sm_90", format, MetadataRules::None));
    let request = || cache(&dir).get_or_begin(&key, &Options::default().with_expectations(&rules)).unwrap();
    ticket(request()).publish(&group.clone().with_expectations(&rules)).unwrap();
    assert!(matches!(request(), GroupClaim::Hit(_)));
}
