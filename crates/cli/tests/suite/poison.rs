//! Entries and bundles in the remote cache that someone made who may write there: each is refused and reported once, its kernel is
//! compiled, and a host that may replace it does so.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use opkeep_bundle::{BundleReader, BundleWriter, Signer, entry_message};
use opkeep_digest::Digest;
use opkeep_fs::Fs;
use opkeep_kernel_entry::member::{JSON, OBJECT, SIGNATURES};
use opkeep_store::{Entry, EntryBuilder};
use opkeep_trust::{Signatures, SigningKey};

use crate::common::crowd::network;
use crate::common::{Place, Ran, files};

/// Enough for a bundle of the plan.
const KERNELS: usize = 18;

/// A shared directory with the entries and the bundle of a network, signed or not.
struct Scene {
    place: Place,
    /// That of the host that builds, which all hosts trust, and one that no host trusts.
    keys: Option<[Arc<SigningKey>; 2]>,
    target: String,
    right: BTreeMap<Digest, Entry>,
}

impl Scene {
    fn new(is_signed: bool) -> Self {
        let place = Place::new();
        network(&place, KERNELS);
        fs::create_dir(place.path("shared")).unwrap();
        let keys = is_signed.then(|| {
            ["builds", "stranger"].map(|name| {
                let made = place.run(&["key", "generate", name, "--out", name]).ended_with(0);
                place.write(&format!("{name}.pub"), made.stdout);
                Arc::new(SigningKey::read(&Fs::new(), &place.path(name)).unwrap())
            })
        });
        let mut scene = Self { place, keys, target: String::new(), right: BTreeMap::new() };
        assert_eq!(scene.build(&Place::new(), true).count("compiled"), KERNELS as u64);
        let entries = scene.objects("e");
        scene.target =
            entries[0].ancestors().nth(3).unwrap().file_name().unwrap().to_str().unwrap().to_owned();
        scene.right = entries
            .iter()
            .map(|path| Entry::decode(fs::read(path).unwrap(), None).unwrap())
            .map(|entry| (*entry.key(), entry))
            .collect();
        assert_eq!((scene.right.len(), scene.objects("b").len()), (KERNELS, 1));
        scene
    }

    /// The objects of a kind: `e` for entries, `b` for bundles.
    fn objects(&self, kind: &str) -> Vec<PathBuf> {
        let all = files(&self.place.path("shared")).into_iter();
        all.filter(|path| path.to_string_lossy().contains(&format!("/{kind}/+"))).collect()
    }

    fn entry_path(&self, key: &Digest) -> PathBuf {
        let is_its =
            |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(&key.to_string());
        self.objects("e").into_iter().find(is_its).unwrap()
    }

    fn remove_bundle(&self) {
        self.objects("b").iter().for_each(|path| fs::remove_file(path).unwrap());
    }

    /// Builds the network on a host that trusts the builder's key, if there are keys, and signs with it or not.
    fn build(&self, host: &Place, signs: bool) -> Ran {
        let path = |name: &str| self.place.path(name).to_str().unwrap().to_owned();
        let (net, remote) = (path("net"), format!("file://{}", path("shared")));
        let mut args =
            vec!["build", &net, "--target", "cpu", "--no-kernel-meta", "--format", "json", "--remote"];
        let (trusted, key) = (format!("@{}", path("builds.pub")), path("builds"));
        args.push(&remote);
        if self.keys.is_some() {
            args.extend(["--trusted-keys", &trusted]);
            args.extend(signs.then_some(["--sign-key", &key]).into_iter().flatten());
        }
        host.run_with(&args, &[("XDG_STATE_HOME", host.path("state").to_str().unwrap())]).ended_with(0)
    }

    fn signed(&self, entry: &Entry, key: &SigningKey) -> Entry {
        let signature = key.sign(&entry_message("default", &self.target, entry).unwrap());
        let signatures = [signature].into_iter().collect::<Signatures>().encode();
        changed(entry, &[(SIGNATURES, &signatures)])
    }

    /// Everything that is wrong in the place of `entry`, of which a bundle can hold the files that decode.
    fn poisons(&self, entry: &Entry, other: &Entry) -> Vec<(&'static str, Vec<u8>)> {
        let file = |entry: &Entry| entry.to_builder().encode(entry.key()).unwrap();
        let right = file(entry);
        let mut flipped = right.clone();
        flipped[right.len() / 2] ^= 1;
        let member = |name: &str| other.member(name).unwrap();
        let object = changed(entry, &[(OBJECT, member(OBJECT))]);
        let kernel = changed(entry, &[(OBJECT, member(OBJECT)), (JSON, member(JSON))]);
        let mut poisons = vec![
            ("a flipped bit", flipped),
            ("half a file", right[..right.len() / 2].to_vec()),
            ("the entry of another key", file(other)),
            ("the members of another entry", other.to_builder().encode(entry.key()).unwrap()),
            ("the object of another kernel", file(&object)),
            ("the object and the metadata of another kernel", file(&kernel)),
        ];
        if let Some([builds, stranger]) = &self.keys {
            let mut signature = entry.lazy_member(SIGNATURES).unwrap().unwrap().to_vec();
            let middle = signature.len() - 20;
            signature[middle] = if signature[middle] == b'A' { b'B' } else { b'A' };
            poisons.extend([
                ("no signature", file(&changed(entry, &[(SIGNATURES, b"")]))),
                ("another signature", file(&changed(entry, &[(SIGNATURES, &signature)]))),
                ("a stranger's signature", file(&self.signed(entry, stranger))),
                ("a signed object of another kernel", file(&self.signed(&object, builds))),
                ("a signed object with the metadata of another kernel", file(&self.signed(&kernel, builds))),
            ]);
        }
        poisons
    }

    /// One poison for each of the first entries.
    fn one_each(&self) -> Vec<(Digest, &'static str, Vec<u8>)> {
        let entries: Vec<&Entry> = self.right.values().collect();
        let count = self.poisons(entries[0], entries[1]).len();
        assert!(count < KERNELS);
        let poison = |at: usize| {
            let (what, file) = self.poisons(entries[at], entries[at + 1]).swap_remove(at);
            (*entries[at].key(), what, file)
        };
        (0..count).map(poison).collect()
    }

    fn poison_entries(&self) -> Vec<(Digest, &'static str)> {
        let put = |(key, what, file): (Digest, &'static str, Vec<u8>)| {
            replace(&self.entry_path(&key), &file);
            (key, what)
        };
        self.one_each().into_iter().map(put).collect()
    }

    /// Puts those that decode into the bundle, whose list the builder signs. Returns their number.
    fn poison_bundle(&self) -> usize {
        let mut entries = self.right.clone();
        let mut count = 0;
        for (key, what, file) in self.one_each() {
            if let Ok(entry) = Entry::decode(file, Some(&key)) {
                assert!(entries.insert(key, entry).is_some(), "{what}");
                count += 1;
            }
        }
        self.write_bundle(&entries, self.keys.as_ref().map(|[builds, _]| builds));
        count
    }

    fn write_bundle(&self, entries: &BTreeMap<Digest, Entry>, signs: Option<&Arc<SigningKey>>) {
        let [path] = &self.objects("b")[..] else { panic!("there is one bundle") };
        let plan = *BundleReader::open(Cursor::new(fs::read(path).unwrap())).unwrap().index().plan().unwrap();
        let signer = signs.map(|key| Signer::new(Arc::clone(key), "default").of_index_only());
        let mut writer = BundleWriter::new(Vec::new(), Some(plan), signer).unwrap();
        entries.values().for_each(|entry| writer.add(&self.target, entry).unwrap());
        replace(path, &writer.finish().unwrap().out);
    }

    /// Asserts that other hosts take all kernels of the bundle, and without it all of the entries, and that they are right.
    fn is_healed(&self, what: &str) {
        let bundle = self.objects("b");
        for is_bundled in [true, false] {
            assert_eq!(bundle.len(), 1, "{what}");
            if !is_bundled {
                self.remove_bundle();
            }
            let host = Place::new();
            let ran = self.build(&host, false);
            assert_eq!((ran.count("from_remote"), warnings(&ran)), (KERNELS as u64, vec![]), "{what}");
            self.has_right_kernels(&host, what);
        }
    }

    fn has_right_kernels(&self, host: &Place, what: &str) {
        assert_eq!(host.entries().len(), KERNELS, "{what}");
        for (file, members) in host.members() {
            let key: Digest = file.file_stem().unwrap().to_str().unwrap().parse().unwrap();
            for name in [OBJECT, JSON] {
                assert!(members[name] == self.right[&key].member(name).unwrap(), "{what}: {name} of {key}");
            }
        }
    }
}

/// The entry with other bytes of some members.
fn changed(entry: &Entry, members: &[(&str, &[u8])]) -> Entry {
    let start = EntryBuilder::new(entry.validation()).created(entry.created()).cost(entry.cost());
    let builder = entry.members().fold(start, |builder, (name, bytes, is_eager)| {
        let bytes = members.iter().find(|(other, _)| *other == name).map_or(bytes, |(_, bytes)| bytes);
        if is_eager { builder.eager(name, bytes) } else { builder.lazy(name, bytes) }
    });
    Entry::decode(builder.encode(entry.key()).unwrap(), Some(entry.key())).unwrap()
}

/// Replaces a file, which cannot be written itself.
fn replace(path: &Path, bytes: &[u8]) {
    fs::remove_file(path).unwrap();
    fs::write(path, bytes).unwrap();
}

fn warnings(ran: &Ran) -> Vec<String> {
    let warnings = ran.json()["warnings"].as_array().unwrap().clone();
    warnings.iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// Asserts that there is one warning, which stands for `count` of its kind.
#[track_caller]
fn warned_of(ran: &Ran, count: usize) {
    let warnings = warnings(ran);
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    let more = match count {
        1 => !warning.contains("more like it"),
        count => warning.contains(&format!("{} more like it", count - 1)),
    };
    assert!(warning.contains("of the remote cache") && more, "{count}: {warning}");
}

/// Asserts that the poisoned kernels were compiled, and that all others came from the remote cache.
#[track_caller]
fn compiled_poisoned(ran: &Ran, poisoned: &[(Digest, &'static str)]) {
    let json = ran.json();
    for result in json["results"].as_array().unwrap() {
        let key: Digest = result["key"].as_str().unwrap().parse().unwrap();
        let poison = poisoned.iter().find(|(poisoned, _)| *poisoned == key);
        let expected = if poison.is_some() { ("compiled", false) } else { ("reused", true) };
        let found = (result["outcome"].as_str().unwrap(), result["from_remote"].as_bool().unwrap());
        assert_eq!(found, expected, "{poison:?}");
    }
}

#[test]
fn a_poisoned_entry_is_refused_compiled_and_replaced() {
    for is_signed in [false, true] {
        let scene = Scene::new(is_signed);
        scene.remove_bundle();
        let poisoned = scene.poison_entries();
        let host = Place::new();
        let ran = scene.build(&host, true);
        compiled_poisoned(&ran, &poisoned);
        warned_of(&ran, poisoned.len());
        scene.has_right_kernels(&host, "the host that refused");
        scene.is_healed(&format!("signed: {is_signed}"));
    }
}

/// Each kernel comes from its own object instead.
#[test]
fn a_poisoned_entry_of_a_bundle_is_refused_and_replaced() {
    for is_signed in [false, true] {
        let scene = Scene::new(is_signed);
        assert!(scene.poison_bundle() >= 3);
        let host = Place::new();
        let ran = scene.build(&host, true);
        compiled_poisoned(&ran, &[]);
        // A bundle that is wrong is reported once, whatever is wrong in it.
        warned_of(&ran, 1);
        scene.has_right_kernels(&host, "the host that refused");
        scene.is_healed(&format!("signed: {is_signed}"));
    }
}

#[test]
fn a_bundle_that_is_wrong_as_a_whole_is_refused_and_replaced() {
    for is_signed in [false, true] {
        let scene = Scene::new(is_signed);
        let [path] = &scene.objects("b")[..] else { panic!("there is one bundle") };
        let right = fs::read(path).unwrap();
        let mut flipped = right.clone();
        flipped[right.len() / 3] ^= 1;
        let mut wrong = vec![("a flipped bit", flipped), ("half a file", right[..right.len() / 2].to_vec())];
        if let Some([_, stranger]) = &scene.keys {
            for (what, signs) in [("no signature", None), ("a stranger's signature", Some(stranger))] {
                scene.write_bundle(&scene.right, signs);
                wrong.push((what, fs::read(path).unwrap()));
            }
        }
        for (what, bytes) in wrong {
            replace(path, &bytes);
            let host = Place::new();
            let ran = scene.build(&host, true);
            compiled_poisoned(&ran, &[]);
            warned_of(&ran, 1);
            scene.has_right_kernels(&host, what);
            scene.is_healed(what);
            // The next one takes the place of this.
            fs::write(path, b"").unwrap();
        }
    }
}

#[test]
fn poison_in_an_entry_and_its_bundle_is_refused_compiled_and_replaced() {
    for is_signed in [false, true] {
        let scene = Scene::new(is_signed);
        scene.poison_bundle();
        let poisoned = scene.poison_entries();
        let host = Place::new();
        let ran = scene.build(&host, true);
        let in_bundle = |key: &Digest| {
            // Files that do not decode are in no bundle, so their kernels came from there.
            let is_its = |(poisoned, _, file): &&(Digest, &str, Vec<u8>)| {
                poisoned == key && Entry::decode(file.clone(), Some(key)).is_ok()
            };
            scene.one_each().iter().any(|poison| is_its(&poison))
        };
        let compiled: Vec<_> = poisoned.iter().filter(|(key, _)| in_bundle(key)).copied().collect();
        compiled_poisoned(&ran, &compiled);
        warned_of(&ran, 1 + compiled.len());
        scene.has_right_kernels(&host, "the host that refused");
        // An entry whose kernel came from the bundle was not looked up, so its own object heals later.
        for (key, what) in poisoned.iter().filter(|(key, _)| !in_bundle(key)) {
            assert!(fs::remove_file(scene.entry_path(key)).is_ok(), "{what}");
        }
        let late = Place::new();
        let ran = scene.build(&late, false);
        assert_eq!((ran.count("from_remote"), warnings(&ran)), (KERNELS as u64, vec![]));
        scene.has_right_kernels(&late, "a later host");
        let [path] = &scene.objects("b")[..] else { panic!("there is one bundle") };
        fs::remove_file(path).unwrap();
        let ran = scene.build(&Place::new(), false);
        assert_eq!(
            (ran.count("compiled"), warnings(&ran)),
            ((poisoned.len() - compiled.len()) as u64, vec![])
        );
    }
}
