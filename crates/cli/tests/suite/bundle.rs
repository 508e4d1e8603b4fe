//! Bundles: kernels in one file, from one store to another.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;

use opkeep_bundle::BundleWriter;
use opkeep_digest::Digest;
use opkeep_kernel_entry::member::IMPORTED;
use opkeep_store::{Entry, EntryBuilder, Lookup, Overwrite, Store, StoreConfig, TargetStore};
use serde_json::Value;

use crate::common::{Place, Ran, SQUARE, ran, square_of};
use crate::groups::{Group, TRITON};

pub(crate) const NETWORK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/networks/lenet");
pub(crate) const BUILD: [&str; 5] = ["build", SQUARE, "--target", "cpu", "--no-kernel-meta"];

/// A bundle of all entries of a store, as they are.
pub(crate) fn of_stores(place: &Place) -> Vec<u8> {
    let store = Store::open(StoreConfig::new(place.path("cache"))).unwrap();
    let mut writer = BundleWriter::new(Vec::new(), None, None).unwrap();
    for name in store.targets().unwrap() {
        let target = store.target(&name).unwrap();
        for key in target.keys(usize::MAX) {
            let Lookup::Hit(entry) = target.peek(&key) else { panic!("{key} is damaged") };
            writer.add(&name, &entry).unwrap();
        }
    }
    writer.finish().unwrap().out
}

/// The store of a place, for the target of the CPU.
fn cpu(place: &Place) -> TargetStore {
    let store = Store::open(StoreConfig::new(place.path("cache"))).unwrap();
    let names = store.targets().unwrap();
    store.target(names.iter().find(|name| name.starts_with("cpu")).unwrap()).unwrap()
}

/// A place with the kernels of a small network and of an operator.
pub(crate) fn built() -> Place {
    let place = Place::new();
    place.run(&BUILD).ended_with(0);
    place.run(&["build", NETWORK, "--target", "cpu", "--no-kernel-meta"]).ended_with(0);
    place
}

fn json(place: &Place, args: &[&str], code: i32) -> Value {
    place.run(&[args, &["--format", "json"]].concat()).ended_with(code).json()
}

pub(crate) fn export(place: &Place, args: &[&str]) -> Ran {
    place.run(&[&["bundle", "export", "--output", "all.bundle"], args].concat())
}

/// Copies a bundle to another host, which has the same compiler.
fn carry(from: &Place, name: &str) -> Place {
    let to = Place::new();
    fs::copy(from.path(name), to.path(name)).unwrap();
    to
}

#[test]
fn another_host_compiles_nothing() {
    let place = built();
    let exported = json(&place, &["bundle", "export", "--output", "all.bundle"], 0);
    let kernels = place.entries().len();
    assert_eq!(exported["targets"][0]["kernels"], kernels, "{exported}");
    let other = carry(&place, "all.bundle");
    let imported = json(&other, &["bundle", "import", "all.bundle"], 0);
    assert_eq!(imported["files"][0]["imported"], kernels, "{imported}");
    for args in [&BUILD[..], &["build", NETWORK, "--target", "cpu", "--no-kernel-meta"]] {
        let args = [args, &["--cache-mode", "require"]].concat();
        other.run(&args).ended_with(0);
    }
    other.run(&["verify"]).ended_with(0);
    let again = json(&other, &["bundle", "import", "all.bundle"], 0);
    assert_eq!(
        (&again["files"][0]["imported"], &again["files"][0]["existing"]),
        (&0.into(), &kernels.into())
    );

    // The builds have judged the kernels and stored them again; the bundle of them is the same.
    export(&other, &[]).ended_with(0);
    let bytes = |place: &Place| fs::read(place.path("all.bundle")).unwrap();
    assert!(bytes(&place) == bytes(&other), "the same kernels give the same bytes");
    let text = place.run(&["bundle", "inspect", "all.bundle"]).ended_with(0).stdout;
    assert!(text.contains("not signed") && text.contains("(Conv2D)"), "{text}");
    assert_eq!(text.lines().count(), 2 + kernels, "{text}");
}

#[test]
fn a_plan_or_a_list_of_keys_chooses_the_kernels() {
    let place = built();
    let all = place.entries().len();
    let of_plan = |args: &[&str], code: i32| {
        json(&place, &[&["bundle", "export", "--output", "plan.bundle"], args].concat(), code)
    };
    let one = of_plan(&["--plan", SQUARE, "--target", "cpu"], 0);
    assert_eq!((&one["targets"][0]["kernels"], &one["missing"]), (&1.into(), &Value::Array(vec![])), "{one}");
    let network = of_plan(&["--plan", NETWORK, "--target", "cpu"], 0);
    assert_eq!(network["targets"][0]["kernels"], all - 1, "{network}");
    let both = of_plan(&["--plan", NETWORK, "--plan", SQUARE, "--target", "cpu"], 0);
    assert_eq!(both["targets"][0]["kernels"], all, "{both}");
    // What is not there is missing, and the rest is exported.
    let five = place.write("five.info", square_of(5));
    let some = of_plan(&["--plan", five.to_str().unwrap(), "--plan", SQUARE, "--target", "cpu"], 1);
    assert_eq!((&some["targets"][0]["kernels"], some["missing"].as_array().unwrap().len()), (&1.into(), 1));
    let none = of_plan(&["--plan", five.to_str().unwrap(), "--target", "cpu"], 2);
    assert_eq!((&none["file"], &none["targets"]), (&Value::Null, &Value::Array(vec![])), "{none}");

    let keys: Vec<_> =
        place.entries().iter().map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    place.write("keys", format!("# two\n{}\n\n  {} # the last\n", keys[0], keys[1]));
    let two = of_plan(&["--keys", "keys"], 0);
    assert_eq!(two["targets"][0]["kernels"], 2, "{two}");
    place.write("keys", format!("{}\nnot a key\n", keys[0]));
    export(&place, &["--keys", "keys"]).ended_with(2).says("`keys`, line 2: expected a key");
    for target in ["cpu", two["targets"][0]["target"].as_str().unwrap()] {
        assert_eq!(of_plan(&["--target", target], 0)["targets"][0]["kernels"], all);
    }
    export(&place, &["--target", "Ascend910B1"])
        .ended_with(2)
        .says("the store has no kernels for `Ascend910B1`");
}

/// The kernels of frameworks, with and without rules by which they can be judged.
#[test]
fn groups_of_frameworks_are_carried_as_well() {
    let place = Place::new();
    TRITON.put(&place);
    let unjudged = Group { ptxas: "12.9", has_rules: false, ..TRITON }.put(&place);
    let exported = json(&place, &["bundle", "export", "--output", "all.bundle"], 0);
    assert_eq!(exported["left_out"][0]["reason"], "unverifiable", "{exported}");
    assert_eq!(exported["left_out"][0]["key"], unjudged.to_string(), "{exported}");
    place.run(&["key", "generate", "builds-1", "--out", "secret"]).ended_with(0);
    for sign in [&[][..], &["--sign-key", "secret"]] {
        export(&place, sign).ended_with(0);
        let other = carry(&place, "all.bundle");
        let imported = json(&other, &["bundle", "import", "all.bundle"], 0);
        assert_eq!(imported["files"][0]["imported"], 1, "{imported}");
        let stored = json(&other, &["verify"], 0);
        assert_eq!(stored["stores"][0]["targets"][0]["valid"], 1, "{stored}");
        assert!(other.run(&["bundle", "inspect", "all.bundle"]).ended_with(0).stdout.contains("add_kernel"));
    }
}

#[test]
fn kernels_of_unknown_toolchains_stay_here() {
    let place = Place::new();
    place.run(&BUILD).ended_with(0);
    let target = cpu(&place);
    let key = target.keys(1)[0];
    let Lookup::Hit(entry) = target.peek(&key) else { panic!("{key}") };
    let imported = entry.to_builder().eager(IMPORTED, b"{}");
    let imported = imported.encode(&key).unwrap();
    let imported = Entry::decode(imported, Some(&key)).unwrap();
    target.put_replacing(&key, &imported.to_builder(), Overwrite::Always).unwrap();
    let exported = json(&place, &["bundle", "export", "--output", "all.bundle"], 2);
    assert_eq!((&exported["file"], &exported["left_out"][0]["reason"]), (&Value::Null, &"imported".into()));
    // Nor does one come in.
    place.write("all.bundle", of_stores(&place));
    let other = carry(&place, "all.bundle");
    let refused = json(&other, &["bundle", "import", "all.bundle"], 1);
    assert_eq!(refused["files"][0]["refused"][0]["reason"], "imported", "{refused}");
    assert!(other.entries().is_empty());
}

/// Files that work only on the machine that made them, such as a launcher.
#[test]
fn local_files_stay_here() {
    let place = Place::new();
    let local = Group { ptxas: "local", is_local: true, ..TRITON }.put(&place);
    let none = json(&place, &["bundle", "export", "--output", "all.bundle"], 2);
    assert_eq!((&none["file"], &none["left_out"][0]["reason"]), (&Value::Null, &"local".into()), "{none}");
    let shared = TRITON.put(&place);
    let exported = json(&place, &["bundle", "export", "--output", "all.bundle"], 0);
    assert_eq!(exported["left_out"].as_array().unwrap().len(), 1, "{exported}");
    assert_eq!(exported["left_out"][0]["key"], local.to_string(), "{exported}");
    // Nor does one come in.
    place.write("all.bundle", of_stores(&place));
    let other = carry(&place, "all.bundle");
    let refused = json(&other, &["bundle", "import", "all.bundle"], 1);
    assert_eq!(refused["files"][0]["refused"][0]["reason"], "local", "{refused}");
    assert_eq!(refused["files"][0]["imported"], 1, "{refused}");
    // Nor is one sent.
    fs::create_dir(place.path("shared")).unwrap();
    let url = format!("file://{}", place.path("shared").display());
    let pushed = json(&place, &["remote", "push", &url, "--all"], 0);
    assert_eq!((&pushed["targets"][0]["sent"], &pushed["targets"][0]["skipped"]), (&1.into(), &1.into()));
    let listed = json(&place, &["remote", "ls", &url, "--long"], 0);
    assert_eq!(listed["targets"][0]["entries"][0]["key"], shared.to_string(), "{listed}");
    assert_eq!(listed["targets"][0]["kernels"], 1, "{listed}");
}

/// An entry with right digests that holds the kernel of another key.
#[test]
fn a_wrong_kernel_is_not_taken() {
    let place = built();
    let target = cpu(&place);
    let keys = target.keys(2);
    let Lookup::Hit(entry) = target.peek(&keys[0]) else { panic!("{}", keys[0]) };
    let forged = |key: &Digest, builder: &EntryBuilder<'_>| {
        let entry = Entry::decode(builder.encode(key).unwrap(), Some(key)).unwrap();
        let mut writer = BundleWriter::new(Vec::new(), None, None).unwrap();
        writer.add(target.dir().file_name().unwrap().to_str().unwrap(), &entry).unwrap();
        writer.finish().unwrap().out
    };
    let wrong_object = {
        let members: Vec<_> = entry.members().collect();
        let builder = EntryBuilder::new(0);
        members.iter().fold(builder, |builder, (name, bytes, is_eager)| match *name {
            "object" => builder.eager(name, b"\x7fELF but no kernel"),
            _ if *is_eager => builder.eager(name, bytes),
            _ => builder.lazy(name, bytes),
        })
    };
    for bundle in [forged(&keys[1], &entry.to_builder()), forged(&keys[0], &wrong_object)] {
        let other = Place::new();
        other.write("all.bundle", bundle);
        let refused = json(&other, &["bundle", "import", "all.bundle"], 1);
        assert_eq!(refused["files"][0]["refused"][0]["reason"], "invalid", "{refused}");
        assert!(other.entries().is_empty());
        let inspected = json(&other, &["bundle", "inspect", "all.bundle"], 1);
        assert!(inspected["kernels"][0]["problem"].is_string(), "{inspected}");
    }
}

#[test]
fn damaged_and_incomplete_bundles_change_nothing() {
    let place = built();
    export(&place, &[]).ended_with(0);
    let bundle = fs::read(place.path("all.bundle")).unwrap();
    let other = Place::new();
    for (name, bytes, problem) in [
        ("cut", bundle[..bundle.len() - 7].to_vec(), "the bundle is incomplete"),
        ("empty", Vec::new(), "it is not a bundle"),
        ("longer", [&bundle[..], b"\n"].concat(), "the bundle is incomplete"),
        ("other", b"a note".to_vec(), "it is not a bundle"),
    ] {
        other.write(name, bytes);
        for command in ["import", "inspect"] {
            other.run(&["bundle", command, name]).ended_with(2).says(&format!("`{name}`: {problem}"));
        }
    }
    let mut damaged = bundle;
    damaged[100] ^= 1;
    other.write("damaged", damaged);
    let refused = json(&other, &["bundle", "import", "damaged"], 1);
    let list = refused["files"][0]["refused"].as_array().unwrap();
    assert_eq!((list.len(), &list[0]["reason"]), (place.entries().len(), &"damaged".into()));
    assert!(other.entries().is_empty());
    // One line for the reason, whatever the number of kernels.
    let refused = other.run(&["bundle", "import", "damaged"]).ended_with(1);
    let lines: Vec<_> = refused.stdout.lines().filter(|line| line.starts_with("  damaged ")).collect();
    let count = format!(" {} kernels: ", place.entries().len());
    assert!(
        matches!(lines[..], [line] if line.contains(&count) && line.contains(", ... of cpu-")),
        "{refused:?}"
    );
    other.run(&["bundle", "import", "missing"]).ended_with(2).says("cannot read `missing`");
    other.run(&["bundle", "import", "tmp"]).ended_with(2).says("cannot read `tmp`");
}

/// A damaged kernel in the store is not shipped, and one on the other side is replaced.
#[test]
fn damaged_entries_are_left_out_and_healed() {
    let place = built();
    export(&place, &[]).ended_with(0);
    let other = carry(&place, "all.bundle");
    other.run(&["bundle", "import", "all.bundle"]).ended_with(0);
    let entry = other.entries().remove(0);
    let mut bytes = fs::read(&entry).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&entry, bytes).unwrap();
    let exported = json(&other, &["bundle", "export", "--output", "less.bundle"], 1);
    assert_eq!(exported["left_out"][0]["reason"], "damaged", "{exported}");
    let healed = json(&other, &["bundle", "import", "all.bundle"], 0);
    assert_eq!(healed["files"][0]["imported"], 1, "{healed}");
    other.run(&["verify"]).ended_with(0);
}

/// `require` only reads the store, so what came in a bundle is not marked as validated there: the push validates it.
#[test]
fn what_came_in_a_bundle_fills_a_remote_cache() {
    let place = built();
    let kernels = place.entries().len();
    export(&place, &[]).ended_with(0);
    let other = carry(&place, "all.bundle");
    other.run(&["bundle", "import", "all.bundle"]).ended_with(0);
    other.run(&[&BUILD[..], &["--cache-mode", "require"]].concat()).ended_with(0);
    fs::create_dir(other.path("shared")).unwrap();
    let url = format!("file://{}", other.path("shared").display());
    let push = ["remote", "push", &url, "--all"];
    let pushed = other.run(&push).ended_with(0);
    pushed.prints(&format!("sent {kernels} kernels\n"));
    // What is not valid is not sent.
    let invalid = carry(&place, "all.bundle");
    let store = Store::open(StoreConfig::new(invalid.path("cache"))).unwrap();
    let target = store.target("cpu-x86_64").unwrap();
    target.put(&Digest::of(b"x"), &EntryBuilder::new(0).eager("object", b"no kernel")).unwrap();
    invalid.run(&push).ended_with(0).prints("sent 0 kernels, 1 not for other hosts");
}

/// The exporter vouches for what it signs, and learns how many kernels that are of others.
#[test]
fn the_exporter_learns_what_it_vouches_for() {
    let place = built();
    let kernels = place.entries().len();
    let key = place.run(&["key", "generate", "builds-1", "--out", "builds-1"]).ended_with(0).stdout;
    place.write("builds-1.list", key);
    let signed = export(&place, &["--sign-key", "builds-1"]).ended_with(0);
    signed.says(&format!("{kernels} kernels have no signature of `builds-1` or of this host"));
    let ran = json(&place, &["bundle", "export", "--output", "x", "--sign-key", "builds-1"], 0);
    assert_eq!(ran["vouched_for"], kernels, "{ran}");
    // What the key signed before is its own.
    let other = carry(&place, "all.bundle");
    for file in ["builds-1", "builds-1.list"] {
        fs::copy(place.path(file), other.path(file)).unwrap();
    }
    fs::set_permissions(other.path("builds-1"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    other.run(&["bundle", "import", "all.bundle", "--trusted-keys", "@builds-1.list"]).ended_with(0);
    let ran = json(&other, &["bundle", "export", "--output", "x", "--sign-key", "builds-1"], 0);
    assert_eq!(ran["vouched_for"], 0, "{ran}");
    // So is what this host built, which has the host's signature.
    let host = Place::new();
    let state = host.path("state");
    for file in ["builds-1", "builds-1.list"] {
        fs::copy(place.path(file), host.path(file)).unwrap();
    }
    let env = [("XDG_STATE_HOME", state.to_str().unwrap())];
    host.run_with(&[&BUILD[..], &["--trusted-keys", "@builds-1.list"]].concat(), &env).ended_with(0);
    let args = ["bundle", "export", "--output", "x", "--sign-key", "builds-1", "--format", "json"];
    let ran = host.run_with(&args, &env).ended_with(0).json();
    assert_eq!((&ran["vouched_for"], &ran["targets"][0]["kernels"]), (&0.into(), &1.into()), "{ran}");
}

#[test]
fn a_reader_with_trusted_keys_takes_nothing_unsigned() {
    let place = built();
    let kernels = place.entries().len();
    for name in ["builds-1", "builds-2"] {
        let line = place.run(&["key", "generate", name, "--out", name]).ended_with(0).stdout;
        place.write(&format!("{name}.list"), line);
    }
    export(&place, &[]).ended_with(0);
    let unsigned = carry(&place, "all.bundle");
    export(&place, &["--sign-key", "builds-1"]).ended_with(0);
    let other = carry(&place, "all.bundle");
    for list in ["builds-1.list", "builds-2.list"] {
        fs::copy(place.path(list), other.path(list)).unwrap();
        fs::copy(place.path(list), unsigned.path(list)).unwrap();
    }
    let trusted =
        |place: &Place, list: &str| place.run(&["bundle", "import", "all.bundle", "--trusted-keys", list]);
    trusted(&unsigned, "@builds-1.list").ended_with(2).says("it is not signed");
    trusted(&other, "@builds-2.list").ended_with(2).says("it is signed by `builds-1`, and no trusted key");
    let namespace = ["--trusted-keys", "@builds-1.list", "--remote-namespace", "team"];
    other
        .run(&[&["bundle", "import", "all.bundle"], &namespace[..]].concat())
        .ended_with(2)
        .says("is not that of")
        .says("in the namespace `team`");
    assert!(other.entries().is_empty());
    let inspected = json(&other, &["bundle", "inspect", "all.bundle", "--trusted-keys", "@builds-2.list"], 1);
    assert!(inspected["untrusted"].is_string(), "{inspected}");
    let inspected = json(&other, &["bundle", "inspect", "all.bundle", "--trusted-keys", "@builds-1.list"], 0);
    assert_eq!(inspected["signed_by"]["name"], "builds-1");

    // The environment counts as for a build.
    let env = [("OPKEEP_TRUSTED_KEYS", "@builds-1.list"), ("OPKEEP_REMOTE_NAMESPACE", "team")];
    other.run_with(&["bundle", "import", "all.bundle"], &env).ended_with(2).says("is not that of");
    assert!(other.entries().is_empty());

    // What is there without a signature is replaced by what is signed.
    unsigned.run(&["bundle", "import", "all.bundle"]).ended_with(0);
    fs::copy(place.path("all.bundle"), unsigned.path("all.bundle")).unwrap();
    let args = ["bundle", "import", "all.bundle", "--trusted-keys", "@builds-1.list"];
    let replaced = json(&unsigned, &args, 0);
    assert_eq!(
        (&replaced["files"][0]["replaced"], &replaced["files"][0]["signed_by"]["name"]),
        (&kernels.into(), &"builds-1".into())
    );
    assert_eq!(json(&unsigned, &args, 0)["files"][0]["existing"], kernels);

    // So is nothing of another namespace that a trusted key signed.
    let team = ["--remote-namespace", "team"];
    export(&place, &[&["--sign-key", "builds-1"], &team[..]].concat()).ended_with(0);
    fs::copy(place.path("all.bundle"), unsigned.path("team.bundle")).unwrap();
    let of_team = ["bundle", "import", "team.bundle", "--trusted-keys", "@builds-1.list"];
    let existing = json(&unsigned, &[&of_team[..], &team].concat(), 0);
    assert_eq!(existing["files"][0]["existing"], kernels, "{existing}");
    export(&place, &["--sign-key", "builds-1"]).ended_with(0);

    // The signatures go on with the kernels, and only signed ones do.
    let again =
        json(&unsigned, &["bundle", "export", "--output", "again", "--trusted-keys", "@builds-1.list"], 0);
    assert_eq!(again["targets"][0]["kernels"], kernels, "{again}");
    let none = json(&place, &["bundle", "export", "--output", "none", "--trusted-keys", "@builds-1.list"], 2);
    assert_eq!((&none["file"], &none["left_out"][0]["reason"]), (&Value::Null, &"untrusted".into()));
    // The signed bundle is the same on both hosts.
    fs::copy(place.path("builds-1"), unsigned.path("builds-1")).unwrap();
    let file = ["bundle", "export", "--output", "again", "--sign-key", "builds-1"];
    unsigned.run(&file).ended_with(0);
    assert!(fs::read(unsigned.path("again")).unwrap() == fs::read(place.path("all.bundle")).unwrap());
}

/// The text of a secret key, where the name of a file is expected, is in no message.
#[test]
fn a_secret_key_is_in_no_message() {
    let place = Place::new();
    place.run(&BUILD).ended_with(0);
    place.run(&["key", "generate", "builds-1", "--out", "secret"]).ended_with(0);
    let text = fs::read_to_string(place.path("secret")).unwrap();
    let text = text.trim_end();
    let half = &text[text.len() - 20..];
    for args in [
        &["bundle", "export", "--output", "all.bundle", "--sign-key", text][..],
        &["bundle", "export", "--output", "all.bundle", "--trusted-keys", text],
        &["bundle", "import", "all.bundle", "--trusted-keys", text],
        &["bundle", "inspect", "all.bundle", "--trusted-keys", text],
    ] {
        let ran = place.run(args).ended_with(2);
        assert!(!ran.stderr.contains(half) && !ran.stdout.contains(half), "{args:?}");
    }
}

/// The image of `docs/bundles.md` whose containers run as another user than root: its instructions, as this user if this one is not root.
#[test]
fn an_image_for_another_user_has_a_store_that_this_user_reads() {
    const USER: u32 = 65534;
    let page = include_str!("../../../../docs/bundles.md");
    let recipes: Vec<&str> = page.split("\n```dockerfile\n").skip(1).collect();
    let recipe = recipes
        .iter()
        .map(|rest| rest.split_once("\n```").unwrap().0)
        .find(|text| text.contains("USER "))
        .unwrap();
    let own = fs::metadata("/proc/self").unwrap().uid();
    let user = if own == 0 { USER } else { own };
    // The other user reaches nothing of this checkout.
    let image = Place::untouched();
    for dir in [image.dir.path(), &image.path("tmp")] {
        fs::set_permissions(dir, Permissions::from_mode(0o1777)).unwrap();
    }
    for (from, to) in [(env!("CARGO_BIN_EXE_opkeep"), "bin/opkeep"), (SQUARE, "square.info")] {
        fs::create_dir_all(image.path("bin")).unwrap();
        fs::copy(from, image.path(to)).unwrap();
    }
    image.run(&["build", "--target", "cpu", "square.info", "--no-kernel-meta"]).ended_with(0);
    image.run(&["bundle", "export", "--output", "lenet.bundle"]).ended_with(0);
    for dir in ["tmp", "cache"] {
        fs::remove_dir_all(image.path(dir)).unwrap();
    }
    fs::create_dir(image.path("tmp")).unwrap();
    fs::set_permissions(image.path("tmp"), Permissions::from_mode(0o1777)).unwrap();

    let root = image.path("kernels").to_str().unwrap().to_owned();
    let recipe = recipe.replace("/opt/kernels", &root).replace("65534", &user.to_string());
    let path = format!("{}:{}", image.path("bin").display(), std::env::var("PATH").unwrap());
    let (mut runs_as, mut variables) = (own, Vec::new());
    let run = |text: &str, runs_as: u32, variables: &[(String, String)]| {
        let mut command = image.program("/bin/sh".as_ref(), &["-euc", text]);
        command.env_remove("OPKEEP_CACHE_DIR").env("PATH", &path).envs(variables.iter().cloned());
        if runs_as != own {
            command.uid(runs_as).gid(runs_as);
        }
        ran(&mut command).ended_with(0)
    };
    for line in recipe.lines() {
        match line.split_once(' ').unwrap() {
            ("COPY", names) => {
                let (from, to) = names.split_once(' ').unwrap();
                fs::create_dir_all(to).unwrap();
                fs::set_permissions(to, Permissions::from_mode(0o755)).unwrap();
                fs::copy(image.path(from), format!("{to}/{from}")).unwrap();
            }
            ("RUN", text) => drop(run(text, runs_as, &variables)),
            ("USER", id) => runs_as = id.parse().unwrap(),
            ("ENV", text) => {
                let (name, value) = text.split_once('=').unwrap();
                variables.push((name.to_owned(), value.to_owned()));
            }
            (other, _) => panic!("{other}"),
        }
    }
    assert_eq!(runs_as, user);
    let build = "opkeep build square.info --target cpu --no-kernel-meta --cache-mode require --format json";
    assert_eq!(run(build, runs_as, &variables).count("reused"), 1);
}
