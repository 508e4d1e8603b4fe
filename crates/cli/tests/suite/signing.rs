//! Builds with keys: what is signed, what is used, and what is never printed.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::common::{Place, Ran, SQUARE, files, square_of};

/// A directory that hosts share, and key pairs.
struct Cluster {
    place: Place,
}

impl Cluster {
    fn new(keys: &[&str]) -> Self {
        let place = Place::untouched();
        fs::create_dir_all(place.path("shared")).unwrap();
        for key in keys {
            let made = place.run(&["key", "generate", key, "--out", key]).ended_with(0);
            place.write(&format!("{key}.pub"), made.stdout);
        }
        Self { place }
    }

    fn path(&self, name: &str) -> String {
        self.place.path(name).to_str().unwrap().to_owned()
    }

    /// Builds on `host`, signing with the key `signs` and trusting the list `trusts`.
    fn build(&self, host: &Place, inputs: &[&str], signs: Option<&str>, trusts: Option<&str>) -> Ran {
        let remote = format!("file://{}", self.path("shared"));
        let mut args: Vec<_> = ["build", "--target", "cpu", "--format", "json", "--remote", &remote]
            .map(str::to_owned)
            .into_iter()
            .chain(inputs.iter().map(|input| (*input).to_owned()))
            .collect();
        args.extend(signs.iter().flat_map(|key| ["--sign-key".to_owned(), self.path(key)]));
        args.extend(
            trusts.iter().flat_map(|list| ["--trusted-keys".to_owned(), format!("@{}", self.path(list))]),
        );
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        host.run_with(&args, &[("XDG_STATE_HOME", host.path("state").to_str().unwrap())]).ended_with(0)
    }

    fn objects(&self) -> Vec<PathBuf> {
        let all = files(&self.place.path("shared")).into_iter();
        all.filter(|path| path.to_string_lossy().contains("/e/")).collect()
    }
}

fn warnings(ran: &Ran) -> Vec<String> {
    let warnings = ran.json()["warnings"].as_array().unwrap().clone();
    warnings.iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// The only file in a directory of entries.
fn only(mut paths: Vec<PathBuf>) -> PathBuf {
    assert_eq!(paths.len(), 1, "{paths:?}");
    paths.remove(0)
}

/// A script that exports the variable from one that it does not have must not turn off the verification.
#[test]
fn an_empty_variable_turns_no_verification_off() {
    let place = Place::new();
    fs::create_dir_all(place.path("shared")).unwrap();
    let url = format!("file://{}", place.path("shared").display());
    place.run(&["build", "--target", "cpu", SQUARE, "--remote", &url]).ended_with(0);
    place.run(&["bundle", "export", "--output", "kernels.okb"]).ended_with(0);
    let commands: [&[&str]; 5] = [
        &["build", "--target", "cpu", SQUARE, "--remote", &url],
        &["run", "--target", "cpu", SQUARE],
        &["explain", "--target", "cpu", SQUARE, "--remote", &url],
        &["bundle", "import", "kernels.okb"],
        &["remote", "push", &url, "--all"],
    ];
    for command in commands {
        for (name, problem) in [
            ("OPKEEP_TRUSTED_KEYS", "OPKEEP_TRUSTED_KEYS: there is no key"),
            ("OPKEEP_SIGN_KEY", "OPKEEP_SIGN_KEY is empty"),
            ("OPKEEP_REMOTE_NAMESPACE", "OPKEEP_REMOTE_NAMESPACE is ``"),
        ] {
            // Nothing is signed by what only reads.
            if name == "OPKEEP_SIGN_KEY" && command[0] == "bundle" {
                continue;
            }
            let ran = place.run_with(command, &[(name, "")]);
            assert!(ran.code == Some(2) && ran.stderr.contains(problem), "{command:?} {name}: {ran:?}");
        }
    }
    // An empty URL means that there is no remote cache.
    let none = place.run_with(&["build", "--target", "cpu", SQUARE], &[("OPKEEP_REMOTE", "")]);
    none.ended_with(0);
}

#[test]
fn a_consumer_uses_what_a_trusted_key_signed() {
    let cluster = Cluster::new(&["builds", "other"]);
    let (builder, consumer, stranger) = (Place::new(), Place::new(), Place::new());
    let built = cluster.build(&builder, &[SQUARE], Some("builds"), Some("builds.pub"));
    assert_eq!((built.count("compiled"), cluster.objects().len()), (1, 1));
    let taken = cluster.build(&consumer, &[SQUARE], None, Some("builds.pub"));
    assert_eq!((taken.count("from_remote"), warnings(&taken)), (1, vec![]));
    let again = cluster.build(&consumer, &[SQUARE], None, Some("builds.pub"));
    assert_eq!((again.count("reused"), again.count("from_remote")), (1, 0));
    // A host that trusts another key compiles, uses that again, and sends nothing.
    for outcome in ["compiled", "reused"] {
        let ran = cluster.build(&stranger, &[SQUARE], None, Some("other.pub"));
        assert_eq!((ran.count(outcome), warnings(&ran)), (1, vec![]));
    }
    assert_eq!(cluster.objects().len(), 1);
    // The key is retired: the consumer's kernel is refused, reported once, and compiled.
    let retired = cluster.build(&consumer, &[SQUARE], None, Some("other.pub"));
    let texts = warnings(&retired);
    assert_eq!(retired.count("compiled"), 1);
    assert!(matches!(&texts[..], [text] if text.contains("signed by `builds`")), "{texts:?}");
    let healed = cluster.build(&consumer, &[SQUARE], None, Some("other.pub"));
    assert_eq!((healed.count("reused"), warnings(&healed)), (1, vec![]));
}

/// The steps of `opkeep help key` and of SECURITY.md: a host that begins after them compiles nothing.
#[test]
fn a_key_is_replaced_without_a_compile() {
    let cluster = Cluster::new(&["builds-1", "builds-2"]);
    let key_of = |name: &str| fs::read_to_string(cluster.place.path(&format!("{name}.pub"))).unwrap();
    cluster.place.write("both.pub", key_of("builds-1") + &key_of("builds-2"));
    let builder = Place::new();
    let counts = |host: &Place, signs, trusts| {
        let ran = cluster.build(host, &[SQUARE], signs, Some(trusts));
        assert_eq!(warnings(&ran), Vec::<String>::new());
        ["compiled", "from_remote", "reused"].map(|outcome| ran.count(outcome))
    };
    assert_eq!(counts(&builder, Some("builds-1"), "builds-1.pub"), [1, 0, 0]);
    // The new key is in all lists, and then signs.
    assert_eq!(counts(&builder, Some("builds-2"), "both.pub"), [0, 0, 1]);
    let url = format!("file://{}", cluster.path("shared"));
    let (list, key) = (format!("@{}", cluster.path("both.pub")), cluster.path("builds-2"));
    let keys = [
        ("OPKEEP_SIGN_KEY", key.as_str()),
        ("OPKEEP_TRUSTED_KEYS", list.as_str()),
        ("OPKEEP_REMOTE", url.as_str()),
    ];
    let state = builder.path("state");
    let env = [&keys[..], &[("XDG_STATE_HOME", state.to_str().unwrap())]].concat();
    builder
        .run_with(&["remote", "push"], &env)
        .ended_with(0)
        .prints("--all signs and sends all of the store");
    assert_eq!(counts(&Place::new(), None, "builds-2.pub"), [1, 0, 0], "without the step");
    builder.run_with(&["remote", "push", "--all"], &env).ended_with(0).prints("sent 1 kernel");
    // The old key is removed.
    assert_eq!(counts(&Place::new(), None, "builds-2.pub"), [0, 1, 1]);
    let page = include_str!("../../../../SECURITY.md");
    let help = cluster.place.run(&["help", "key"]).ended_with(0);
    let words = help.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(page.contains("`opkeep remote push --all`") && words.contains("opkeep remote push --all"));
}

/// Two products build with one store and keys: each uses what the other one compiled, again and again.
#[test]
fn namespaces_share_a_store() {
    let cluster = Cluster::new(&["builds"]);
    let (builder, consumer) = (Place::new(), Place::new());
    let build = |host: &Place, namespace: &str, signs| {
        let inputs = [SQUARE, "--remote-namespace", namespace];
        let ran = cluster.build(host, &inputs, signs, Some("builds.pub"));
        (["compiled", "from_remote", "reused"].map(|outcome| ran.count(outcome)), warnings(&ran))
    };
    assert_eq!(build(&builder, "vision", Some("builds")).0, [1, 0, 0]);
    assert_eq!(build(&consumer, "vision", None).0[1], 1);
    for namespace in ["speech", "vision", "speech"] {
        assert_eq!(build(&builder, namespace, Some("builds")), ([0, 0, 1], vec![]), "{namespace}");
        assert_eq!(build(&consumer, namespace, None), ([0, 0, 1], vec![]), "{namespace}");
    }
    // What the consumer found is not signed for another namespace, and the push says why.
    let url = format!("file://{}", cluster.path("shared"));
    let list = format!("@{}", cluster.path("builds.pub"));
    let push = |host: &Place, namespace: &str| {
        let key = cluster.path("builds");
        let args = ["remote", "push", &url, "--all", "--remote-namespace", namespace, "--sign-key", &key];
        let state = host.path("state");
        let env = [("XDG_STATE_HOME", state.to_str().unwrap())];
        host.run_with(&[&args[..], &["--trusted-keys", &list]].concat(), &env).ended_with(0)
    };
    push(&consumer, "speech").prints("sent 0 kernels, 1 of another namespace and not compiled here");
    assert_eq!(cluster.objects().len(), 1);
    push(&builder, "speech").prints("sent 1 kernel");
    assert_eq!(cluster.objects().len(), 2);
}

/// A kernel of another key under this key, with digests that fit, and every kernel without a signature.
#[test]
fn forged_kernels_are_refused_compiled_and_replaced() {
    let cluster = Cluster::new(&["builds"]);
    let (builder, attacker) = (Place::new(), Place::new());
    let five = attacker.write("square.info", square_of(5));
    cluster.build(&builder, &[SQUARE], Some("builds"), Some("builds.pub"));
    let object = only(cluster.objects());
    let good = fs::read(&object).unwrap();
    // The attacker can write to the shared directory, and has no key.
    attacker.run(&["build", "--target", "cpu", five.to_str().unwrap()]).ended_with(0);
    attacker.run(&["build", "--target", "cpu", SQUARE]).ended_with(0);
    let own: Vec<_> = attacker.entries();
    assert_eq!(own.len(), 2);
    for forged in own.iter().map(|path| fs::read(path).unwrap()).chain([good[..good.len() - 1].to_vec()]) {
        fs::write(&object, &forged).unwrap();
        let consumer = Place::new();
        let ran = cluster.build(&consumer, &[SQUARE], None, Some("builds.pub"));
        let texts = warnings(&ran);
        assert_eq!((ran.count("compiled"), texts.len()), (1, 1), "{texts:?}");
        // A host that signs replaces it.
        let ran = cluster.build(&Place::new(), &[SQUARE], Some("builds"), Some("builds.pub"));
        assert_eq!(ran.count("compiled"), 1);
        let ran = cluster.build(&Place::new(), &[SQUARE], None, Some("builds.pub"));
        assert_eq!((ran.count("from_remote"), warnings(&ran)), (1, vec![]));
    }
    // In the store of a consumer.
    let consumer = Place::new();
    cluster.build(&consumer, &[SQUARE], None, Some("builds.pub"));
    let entry = only(consumer.entries());
    let name = entry.file_name().unwrap();
    let forged = own.iter().find(|path| path.file_name().unwrap() == name).unwrap();
    fs::copy(forged, &entry).unwrap();
    let ran = cluster.build(&consumer, &[SQUARE], None, Some("builds.pub"));
    assert_eq!((ran.count("from_remote"), warnings(&ran).len()), (1, 1));
    let ran = cluster.build(&consumer, &[SQUARE], None, Some("builds.pub"));
    assert_eq!((ran.count("reused"), ran.count("from_remote"), warnings(&ran)), (1, 0, vec![]));
}

#[test]
fn keys_come_from_the_environment_and_from_mounted_secrets() {
    let cluster = Cluster::new(&["builds"]);
    let (builder, consumer) = (Place::new(), Place::new());
    // As a secret is mounted into a container: a link to a link.
    fs::create_dir(cluster.place.path("..now")).unwrap();
    fs::rename(cluster.place.path("builds"), cluster.place.path("..now/key")).unwrap();
    symlink("..now", cluster.place.path("..data")).unwrap();
    symlink("..data/key", cluster.place.path("key")).unwrap();
    let public = fs::read_to_string(cluster.place.path("builds.pub")).unwrap();
    let public = public.split(' ').next().unwrap();
    let remote = format!("file://{}", cluster.path("shared"));
    let run = |host: &Place, env: &[(&str, &str)]| {
        let state = host.path("state");
        let env = [&[("OPKEEP_REMOTE", remote.as_str()), ("XDG_STATE_HOME", state.to_str().unwrap())], env]
            .concat();
        host.run_with(&["build", SQUARE, "--target", "cpu", "--format", "json"], &env).ended_with(0)
    };
    let key = cluster.path("key");
    assert_eq!(run(&builder, &[("OPKEEP_SIGN_KEY", &key)]).count("compiled"), 1);
    // Without trusted keys, no key of the host is made.
    assert!(!builder.path("state").exists());
    assert_eq!(run(&consumer, &[("OPKEEP_TRUSTED_KEYS", public)]).count("from_remote"), 1);
    let mode =
        |path: &Path| std::os::unix::fs::PermissionsExt::mode(&fs::metadata(path).unwrap().permissions());
    assert_eq!(mode(&consumer.path("state/opkeep/host-key")) & 0o7777, 0o600);
}

#[test]
fn wrong_keys_are_an_error_without_a_part_of_a_secret() {
    let cluster = Cluster::new(&["builds"]);
    let secret = fs::read_to_string(cluster.place.path("builds")).unwrap();
    let secret = secret.trim_end();
    let public = cluster.path("builds.pub");
    let host = Place::new();
    let (list, wrong) = (format!("@{}", cluster.path("builds")), format!("@{public}x"));
    let run = |args: &[&str], env: &[(&str, &str)], says: &str| {
        let ran = host.run_with(&[&["build", SQUARE, "--target", "cpu"], args].concat(), env).ended_with(2);
        let ran = ran.says(says);
        let seed = &secret.split_once(':').unwrap().1[..43];
        for at in 0..seed.len() - 8 {
            assert!(
                !ran.stdout.contains(&seed[at..at + 8]) && !ran.stderr.contains(&seed[at..at + 8]),
                "{ran:?}"
            );
        }
    };
    run(&["--sign-key", secret], &[], "--sign-key: this is the text of a secret key");
    run(&[], &[("OPKEEP_SIGN_KEY", secret)], "OPKEEP_SIGN_KEY: this is the text of a secret key");
    run(&["--sign-key", &public], &[], "--sign-key: ");
    run(&["--sign-key", "/nowhere"], &[], "--sign-key: cannot read `/nowhere`");
    run(&["--trusted-keys", secret], &[], "--trusted-keys: ");
    run(&["--trusted-keys", &list], &[], "found 64 bytes, as a secret key has");
    run(&["--trusted-keys", ""], &[], "--trusted-keys: there is no key");
    run(&["--trusted-keys", "# none"], &[], "there is no key");
    run(&["--trusted-keys", &wrong], &[], "--trusted-keys: cannot read");
    run(&[], &[("OPKEEP_TRUSTED_KEYS", "notes")], "OPKEEP_TRUSTED_KEYS: line 1: expected NAME:BASE64");
    assert!(host.entries().is_empty());
}

#[test]
fn imported_kernels_are_not_used_with_trusted_keys() {
    let cluster = Cluster::new(&["builds"]);
    let list = format!("@{}", cluster.path("builds.pub"));
    let host = Place::new();
    let args = ["build", SQUARE, "--target", "cpu", "--trust-imported", "--trusted-keys", &list];
    let env = [("XDG_STATE_HOME", host.path("state"))]
        .map(|(name, path)| (name, path.to_str().unwrap().to_owned()));
    let env: Vec<_> = env.iter().map(|(name, path)| (*name, path.as_str())).collect();
    host.run_with(&args, &env).ended_with(0).says("--trust-imported has no effect");
}

/// `explain` judges as a build does, makes no key of the host, and sends and stores nothing.
#[test]
fn explain_says_whether_a_signed_kernel_would_be_taken() {
    let cluster = Cluster::new(&["builds", "other"]);
    let (builder, consumer) = (Place::new(), Place::new());
    cluster.build(&builder, &[SQUARE], Some("builds"), Some("builds.pub"));
    let remote = format!("file://{}", cluster.path("shared"));
    let object = only(cluster.objects());
    let good = fs::read(&object).unwrap();
    let explain = |host: &Place, trusts: &str| {
        let list = format!("@{}", cluster.path(trusts));
        let args = ["explain", SQUARE, "--target", "cpu", "--format", "json", "--remote", &remote];
        let state = host.path("state");
        let args = [&args[..], &["--trusted-keys", &list]].concat();
        let before = files(&cluster.place.path("shared"));
        let ran = host.run_with(&args, &[("XDG_STATE_HOME", state.to_str().unwrap())]).ended_with(0);
        assert_eq!(files(&cluster.place.path("shared")), before);
        ran.json()["kernels"][0].clone()
    };
    let kernel = explain(&consumer, "builds.pub");
    assert_eq!((&kernel["outcome"], &kernel["remote"]["state"]), (&"miss".into(), &"available".into()));
    assert_eq!(kernel["remote"]["bytes"], good.len());
    // No host that it trusts has stored one.
    assert_eq!(explain(&consumer, "other.pub")["remote"]["state"], "absent");
    // Without a signature, and with one byte less.
    cluster.build(&builder, &[SQUARE], None, None);
    let attacker = Place::new();
    attacker.run(&["build", "--target", "cpu", SQUARE]).ended_with(0);
    let unsigned = fs::read(only(attacker.entries())).unwrap();
    for (content, refusal) in [(&unsigned[..], "unsigned"), (&good[1..], "damaged")] {
        fs::set_permissions(&object, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
        fs::write(&object, content).unwrap();
        let kernel = explain(&consumer, "builds.pub");
        let remote = &kernel["remote"];
        assert_eq!((&remote["state"], &remote["refusal"]), (&"refused".into(), &refusal.into()), "{kernel}");
        assert!(!remote["reason"].as_str().unwrap().is_empty());
    }
    assert!(!consumer.path("cache").exists() && !consumer.path("state").exists());
    // A kernel of the store whose key is retired is a miss, as for a build.
    fs::write(&object, &good).unwrap();
    cluster.build(&consumer, &[SQUARE], None, Some("builds.pub"));
    assert_eq!(explain(&consumer, "builds.pub")["outcome"], "hit");
    let retired = explain(&consumer, "other.pub");
    let reason = retired["reason"].as_str().unwrap();
    assert!(retired["outcome"] == "miss" && reason.contains("signed by `builds`"), "{retired}");
}
