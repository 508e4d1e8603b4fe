//! Imported and compiled entries are not confused.

use std::sync::Arc;

use opkeep_cache::RemoteConfig;
use opkeep_digest::Digest;
use opkeep_kernel_entry::{EntryError, verify_entry};
use opkeep_store::{Entry, EntryBuilder, Lookup, Overwrite, TargetStore};
use opkeep_testkit::ascend::Chip;
use opkeep_testkit::caches::Rank;
use opkeep_testkit::remote::{FakeRemote, names};
use opkeep_validator::RULES_VERSION;
use opkeep_validator::Validator;

use super::{Place, TARGET, square};

fn entry(shelf: &TargetStore, key: &Digest) -> Entry {
    match shelf.peek(key) {
        Lookup::Hit(entry) => *entry,
        Lookup::Miss(miss) => unreachable!("{miss}"),
    }
}

/// A store with an imported and a compiled kernel of the same job, and their keys.
fn both() -> (Place, Digest, Digest) {
    let place = Place::with_squares(1);
    place.import();
    let imported = place.shelf().keys(9)[0];
    place.build(&place.engine(), &[square(1)]);
    let ours = place.shelf().keys(9).into_iter().find(|key| *key != imported).unwrap();
    (place, imported, ours)
}

/// Puts the members of `from`, changed by `change`, under `key`.
fn put(
    shelf: &TargetStore,
    key: &Digest,
    from: &Entry,
    validation: u32,
    change: impl Fn(&str, Vec<u8>) -> Option<Vec<u8>>,
) {
    let member = |name: &str| change(name, from.lazy_member(name).unwrap().unwrap().to_vec());
    let members: Vec<(String, Option<Vec<u8>>)> =
        from.names().map(|name| (name.to_owned(), member(name))).collect();
    let mut draft = EntryBuilder::new(validation);
    for (name, bytes) in &members {
        let Some(bytes) = bytes else { continue };
        draft = match from.member(name) {
            Some(_) => draft.eager(name, bytes),
            None => draft.lazy(name, bytes),
        };
    }
    shelf.put_replacing(key, &draft, Overwrite::Always).unwrap();
}

#[test]
fn both_kinds_pass_under_their_own_keys() {
    let (place, imported, ours) = both();
    for key in [imported, ours] {
        verify_entry(&entry(&place.shelf(), &key), TARGET, &Validator::builtin()).into_result().unwrap();
    }
    assert!(
        verify_entry(&entry(&place.shelf(), &imported), "Ascend910B1", &Validator::builtin())
            .into_result()
            .is_err()
    );
}

#[test]
fn an_imported_kernel_under_a_key_of_ours_is_refused_and_compiled_again() {
    let (place, imported, ours) = both();
    let shelf = place.shelf();
    put(&shelf, &ours, &entry(&shelf, &imported), RULES_VERSION, |_, bytes| Some(bytes));
    let error = verify_entry(&entry(&shelf, &ours), TARGET, &Validator::builtin()).into_result().unwrap_err();
    assert!(matches!(error, EntryError::HeaderMismatch { field: "key", .. }), "{error}");
    // With that key in its header, it is still the wrong kernel.
    let as_ours = |name: &str, bytes: Vec<u8>| {
        let text = String::from_utf8(bytes.clone()).unwrap_or_default();
        let text = text.replace(&imported.to_string(), &ours.to_string());
        Some(if name == "header" { text.into_bytes() } else { bytes })
    };
    put(&shelf, &ours, &entry(&shelf, &imported), RULES_VERSION, as_ours);
    let error = verify_entry(&entry(&shelf, &ours), TARGET, &Validator::builtin()).into_result().unwrap_err();
    assert!(matches!(error, EntryError::KeyMismatch { .. }), "{error}");
    // A build finds it under the key of a compiled kernel, and does not use it.
    assert_eq!(place.outcome(&place.engine(), &square(1)), ("compiled", false));
    assert_eq!(place.outcome(&place.engine(), &square(1)), ("reused", false));
    verify_entry(&entry(&shelf, &ours), TARGET, &Validator::builtin()).into_result().unwrap();
}

#[test]
fn a_kernel_of_ours_under_an_imported_key_is_refused() {
    let (place, imported, ours) = both();
    let shelf = place.shelf();
    put(&shelf, &imported, &entry(&shelf, &ours), RULES_VERSION, |_, bytes| Some(bytes));
    assert!(verify_entry(&entry(&shelf, &imported), TARGET, &Validator::builtin()).into_result().is_err());
    std::fs::remove_file(shelf.path(&ours)).unwrap();
    assert_eq!(place.outcome(&place.trusting(), &square(1)), ("compiled", false));
}

#[test]
fn its_members_must_match_its_key() {
    let (place, imported, _) = both();
    let shelf = place.shelf();
    let genuine = entry(&shelf, &imported);
    let changed = |member: &str, from: &str, to: &str| {
        put(&shelf, &imported, &genuine, RULES_VERSION, |name, bytes| {
            if name != member {
                return Some(bytes);
            }
            let text = String::from_utf8(bytes).unwrap();
            assert!(text.contains(from), "{text}");
            Some(text.replace(from, to).into_bytes())
        });
        verify_entry(&entry(&shelf, &imported), TARGET, &Validator::builtin()).into_result()
    };
    changed("header", "compile_us", "compile_us").unwrap();
    let job = changed("info", "\"Square\"", "\"Squares\"").unwrap_err();
    assert!(matches!(job, EntryError::KeyMismatch { .. }), "{job}");
    let options = changed("header", r#""options":{}"#, r#""options":{"op_impl_mode":"high_precision"}"#);
    assert!(matches!(options.unwrap_err(), EntryError::KeyMismatch { .. }));
    let provenance = changed("header", r#""provenance":"imported""#, r#""provenance":"compiled""#);
    assert!(matches!(provenance.unwrap_err(), EntryError::HeaderMismatch { field: "provenance", .. }));
    let target = changed("header", r#""target":"Ascend910A""#, r#""target":"Ascend910B1""#);
    assert!(matches!(target.unwrap_err(), EntryError::HeaderMismatch { field: "target", .. }));
    // Without the member that marks it as imported, it is a kernel with another name.
    put(&shelf, &imported, &genuine, RULES_VERSION, |name, bytes| (name != "imported").then_some(bytes));
    let kind =
        verify_entry(&entry(&shelf, &imported), TARGET, &Validator::builtin()).into_result().unwrap_err();
    assert!(matches!(kind, EntryError::NameMismatch { .. }), "{kind}");
    let (outcome, is_imported) = place.outcome(&place.trusting(), &square(1));
    assert_eq!((outcome, is_imported), ("reused", false));
}

/// Earlier imports accepted kernels for other chips, with a warning. Those kernels are not used any more.
#[test]
fn one_for_another_chip_that_older_rules_let_in_is_refused() {
    let (place, imported, ours) = both();
    let shelf = place.shelf();
    std::fs::remove_file(shelf.path(&ours)).unwrap();
    let genuine = entry(&shelf, &imported);
    let other = Rank::new(0).square(1).compiled_for(Chip::Ascend910B);
    put(&shelf, &imported, &genuine, RULES_VERSION - 1, |name, bytes| {
        Some(match name {
            "object" => other.object.clone(),
            "json" => other.json.clone(),
            _ => bytes,
        })
    });
    let error = verify_entry(&entry(&shelf, &imported), TARGET, &Validator::builtin())
        .into_result()
        .unwrap_err()
        .to_string();
    assert!(error.contains("OPV031"), "{error}");
    assert_eq!(place.outcome(&place.trusting(), &square(1)), ("compiled", false));
}

/// An entry that older rules accepted is validated again before it is used.
#[test]
fn one_that_older_rules_let_in_is_validated_again() {
    let (place, imported, ours) = both();
    let shelf = place.shelf();
    std::fs::remove_file(shelf.path(&ours)).unwrap();
    let genuine = entry(&shelf, &imported);
    put(&shelf, &imported, &genuine, 0, |_, bytes| Some(bytes));
    assert_eq!(place.outcome(&place.trusting(), &square(1)), ("reused", true));
    assert_eq!(entry(&shelf, &imported).validation(), RULES_VERSION);
    put(&shelf, &imported, &genuine, 0, |name, bytes| {
        Some(if name == "object" { b"no kernel".to_vec() } else { bytes })
    });
    assert_eq!(place.outcome(&place.trusting(), &square(1)), ("compiled", false));
}

#[test]
fn an_imported_kernel_of_the_remote_tier_replaces_no_compiled_one() {
    let (place, imported, ours) = both();
    let (shelf, remote) = (place.shelf(), FakeRemote::new());
    let forged = entry(&shelf, &imported).to_builder().encode(&ours).unwrap();
    remote.set_object(&names(TARGET).entry(&ours), forged);
    let tier = RemoteConfig::new(Arc::new(remote.clone()));
    let trusting = place.trusting().with_config(|config| config.remote = Some(tier));
    assert_eq!(place.outcome(&trusting, &square(1)), ("reused", false));
    assert_eq!(remote.calls(), []);
    std::fs::write(shelf.path(&ours), "damaged").unwrap();
    assert_eq!(place.outcome(&trusting, &square(1)), ("compiled", false));
    verify_entry(&entry(&shelf, &ours), TARGET, &Validator::builtin()).into_result().unwrap();
}
