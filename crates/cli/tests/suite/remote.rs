//! Hosts that share a cache through a directory, each with a store, a work directory and job tokens of its own.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::{Place, Ran, SQUARE, files, square_of};

const NETWORK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/networks/resnet18/model.onnx");

/// The URL of a directory of `place`.
fn url(place: &Place) -> String {
    fs::create_dir_all(place.path("shared")).unwrap();
    format!("file://{}", place.path("shared").display())
}

fn build(place: &Place, args: &[&str]) -> Ran {
    place.run(&[&["build", "--target", "cpu", "--format", "json"], args].concat()).ended_with(0)
}

/// The entries in the shared directory.
fn shared_entries(place: &Place) -> Vec<PathBuf> {
    let all = files(&place.path("shared")).into_iter();
    all.filter(|path| path.to_string_lossy().contains("/e/+")).collect()
}

fn warnings(ran: &Ran) -> Vec<String> {
    let warnings = ran.json()["warnings"].as_array().unwrap().clone();
    warnings.iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_second_host_compiles_nothing_and_has_the_same_kernels() {
    let (one, other) = (Place::new(), Place::new());
    let remote = url(&one);
    let first = build(&one, &[NETWORK, "--remote", &remote]);
    let kernels = first.count("kernels");
    assert_eq!((first.count("compiled"), first.count("from_remote")), (kernels, 0));
    let second = build(&other, &[NETWORK, "--remote", &remote]);
    assert_eq!((second.count("reused"), second.count("from_remote")), (kernels, kernels), "{second:?}");
    assert_eq!(second.json()["results"][0]["from_remote"], true);
    assert_eq!((warnings(&first), warnings(&second)), (vec![], vec![]));
    assert_eq!(one.members(), other.members());
    let stats = other.run(&["stats", "--format", "json"]).ended_with(0).json();
    assert_eq!(stats["targets"][0]["statistics"]["remote_hits"], kernels);
    // The store has them now.
    let third = build(&other, &[NETWORK, "--remote", &remote]);
    assert_eq!((third.count("reused"), third.count("from_remote")), (kernels, 0));
    let text = Place::new().run(&["build", NETWORK, "--target", "cpu", "--remote", &remote]);
    text.prints(&format!("\n{kernels} kernels: {kernels} from the remote cache ("));
    // A build that does nothing with it says nothing of it.
    let text = other.run(&["build", NETWORK, "--target", "cpu", "--remote", &remote]);
    assert!(!text.stdout.contains("remote cache"), "{text:?}");
}

/// `build` reports what it did, and `stats` what all builds did.
#[test]
fn builds_and_the_store_report_the_same_figures() {
    let (one, other) = (Place::new(), Place::new());
    let remote = url(&one);
    let cold = build(&one, &[SQUARE, "--remote", &remote]).json();
    let bytes = fs::metadata(&shared_entries(&one)[0]).unwrap().len();
    assert_eq!(
        (&cold["remote"]["sent"], &cold["remote"]["bytes_sent"]),
        (&1.into(), &bytes.into()),
        "{cold}"
    );
    let warm = build(&other, &[SQUARE, "--remote", &remote]).json();
    let (use_of, none) = (&warm["remote"], &Value::from(0));
    assert_eq!((&use_of["received"], &use_of["bytes_received"]), (&1.into(), &bytes.into()), "{warm}");
    for field in ["by_other_hosts", "sent", "uploads_refused", "uploads_unsent", "takeovers", "failed_calls"]
    {
        assert_eq!(&use_of[field], none, "{field}");
    }
    assert!(use_of["refused"].as_object().unwrap().values().all(|count| count == none), "{warm}");
    // A damaged entry, for a host that may not replace it.
    let object = &shared_entries(&one)[0];
    let file = fs::read(object).unwrap();
    fs::remove_file(object).unwrap();
    fs::write(object, &file[1..]).unwrap();
    let third = Place::new();
    let read = build(&third, &[SQUARE, "--remote", &remote, "--remote-mode", "read"]).json();
    assert_eq!((&read["remote"]["refused"]["damaged"], &read["remote"]["received"]), (&1.into(), none));
    let without = build(&Place::new(), &[SQUARE]).json();
    assert_eq!((&without["remote"], &without["lost"]["host_ms"]), (&Value::Null, &0.0.into()));
    let stats = |host: &Place| host.run(&["stats", "--format", "json"]).ended_with(0).json();
    let (first, second, refused) = (stats(&one), stats(&other), stats(&third));
    assert_eq!(
        (&first["total"]["remote_puts"], &first["total"]["remote_bytes_sent"]),
        (&1.into(), &bytes.into())
    );
    assert_eq!(
        (&second["total"], &second["targets"][0]["unsent"]),
        (&second["targets"][0]["statistics"], none)
    );
    assert_eq!(
        (&second["total"]["remote_hits"], &second["total"]["remote_bytes_received"]),
        (&1.into(), &bytes.into())
    );
    assert_eq!(refused["total"]["refused_damaged"], 1);
    other.run(&["stats"]).ended_with(0).prints("  remote    1 hit, ");
    third.run(&["stats"]).ended_with(0).prints("  refused   1 entry of the remote cache refused (1 damaged)");
}

/// A kernel that could not be sent counts, is still to be sent, and is sent by the next build.
#[test]
fn what_is_not_sent_is_reported_until_it_is_sent() {
    let place = Place::new();
    fs::create_dir(place.path("shared")).unwrap();
    // A file in place of the directory for temporary files: the cache can be read, so it is not paused before something is sent, and
    // takes nothing.
    place.write("shared/+tmp", "");
    let remote = format!("file://{}", place.path("shared").display());
    let ran = build(&place, &[SQUARE, "--remote", &remote]).json();
    let use_of = &ran["remote"];
    assert_eq!((&use_of["unsent"], &use_of["sent"]), (&1.into(), &0.into()), "{ran}");
    let failed = use_of["uploads_refused"].as_u64().unwrap() + use_of["uploads_unsent"].as_u64().unwrap();
    assert!(failed > 0 && use_of["failed_calls"].as_u64().unwrap() > 0, "{ran}");
    place.run(&["stats"]).ended_with(0).prints("1 still to be sent").prints("to the remote cache failed");
    fs::remove_file(place.path("shared/+tmp")).unwrap();
    let ran = build(&place, &[SQUARE, "--remote", &remote]).json();
    let use_of = &ran["remote"];
    assert_eq!(
        (&use_of["sent"], &use_of["unsent"], &ran["reused"]),
        (&1.into(), &0.into(), &1.into()),
        "{ran}"
    );
    let stats = place.run(&["stats", "--format", "json"]).ended_with(0).json();
    assert_eq!((&stats["targets"][0]["unsent"], &stats["total"]["remote_puts"]), (&0.into(), &1.into()));
}

/// Each kernel is tried again at the end of the build, and counts once.
#[test]
fn a_build_without_its_engine_has_each_kernel_still_to_be_sent() {
    let place = Place::new();
    // No server has this port.
    let args = [NETWORK, "--remote", "redis://127.0.0.1:1"];
    let ran = build(&place, &args).json();
    assert!(ran["compiled"].as_u64().unwrap() >= 8, "{ran}");
    assert_eq!((&ran["remote"]["unsent"], &ran["remote"]["sent"]), (&ran["compiled"], &0.into()), "{ran}");
    let again = place.run(&[&["build", "--target", "cpu"], &args[..]].concat()).ended_with(0);
    let expected = format!("; {} still to be sent", ran["compiled"]);
    again.prints(&expected);
    let only_read = build(&place, &[&args[..], &["--remote-mode", "read"]].concat()).json();
    assert_eq!(only_read["remote"]["unsent"], 0);
}

/// What a host lacks and the remote cache has, has not, or has wrongly; and a remote cache that is gone is a note.
#[test]
fn explain_asks_the_remote_cache() {
    let (one, other) = (Place::new(), Place::new());
    let remote = url(&one);
    build(&one, &[SQUARE, "--remote", &remote]);
    let before = files(&one.path("shared"));
    let five = other.write("five.info", square_of(5));
    let args = ["explain", SQUARE, five.to_str().unwrap(), "--target", "cpu", "--remote", &remote];
    let text = other.run(&args).ended_with(0);
    let found = text.stdout.lines().find(|line| line.starts_with("the remote cache")).unwrap();
    let place = format!("the remote cache {remote} (namespace `default`) has 1 of 2 missing kernels (");
    assert!(
        found.starts_with(&place) && text.stdout.starts_with("2 misses: there is no store at `"),
        "{text:?}"
    );
    let text = other.run(&[&args[..], &["--all"]].concat()).ended_with(0);
    let text = text
        .prints("  the remote cache has it (")
        .prints("  the remote cache has no unsigned copy of it in namespace `default`\n");
    let text = text.says("note: it is not known whether namespace `default` has signed copies");
    text.prints("; 1 of the misses would come from the remote cache\n");
    let gone =
        other.run(&["explain", SQUARE, "--target", "cpu", "--remote", "file:///nowhere"]).ended_with(0);
    let gone =
        gone.says("note: it is not known what the remote cache has: the remote cache cannot be reached");
    assert!(gone.stdout.contains("1 miss"), "{gone:?}");
    let gone = gone.prints("the remote cache file:///nowhere (namespace `default`) did not answer\n");
    assert!(!gone.stdout.contains("would come"), "{gone:?}");
    // Secrets of a URL are in no output.
    let secret =
        other.run(&["explain", SQUARE, "--target", "cpu", "--remote", "redis://me:hunter2@127.0.0.1:1"]);
    let secret =
        secret.ended_with(0).prints("the remote cache redis://127.0.0.1:1/0 (namespace `default`) did not");
    assert!(![&secret.stdout, &secret.stderr].iter().any(|text| text.contains("hunter2")), "{secret:?}");
    assert_eq!((files(&one.path("shared")), other.path("cache").exists()), (before, false));
    other.run(&["explain", SQUARE, "--remote", "ftp://host"]).ended_with(2).says("the unknown scheme `ftp`");
    let off = other.run(&[&args[..], &["--remote-mode", "off"]].concat()).ended_with(0);
    assert!(!off.stdout.contains("remote cache"), "{off:?}");
}

/// The entry of a kernel that was taken from the remote cache is known to have been stored.
#[test]
fn a_removed_entry_from_the_remote_cache_is_explained() {
    let (one, other) = (Place::new(), Place::new());
    let remote = url(&one);
    build(&one, &[SQUARE, "--remote", &remote]);
    build(&other, &[SQUARE, "--remote", &remote]);
    fs::remove_file(&other.entries()[0]).unwrap();
    let args = ["explain", SQUARE, "--target", "cpu", "--remote-mode", "off"];
    other
        .run(&args)
        .ended_with(0)
        .prints("1 miss: stored 2")
        .prints(" on this host, and no longer stored\n    the file is gone: ");
}

#[test]
fn the_environment_names_a_remote_cache_and_flags_override_it() {
    let (one, other) = (Place::new(), Place::new());
    let remote = url(&one);
    let run = |place: &Place, env: &[(&str, &str)], args: &[&str]| {
        let args = [&["build", SQUARE, "--target", "cpu", "--format", "json"], args].concat();
        place.run_with(&args, env).ended_with(0).count("from_remote")
    };
    assert_eq!(run(&one, &[("OPKEEP_REMOTE", &remote)], &[]), 0);
    assert_eq!(shared_entries(&one).len(), 1);
    let force = &["--cache-mode", "disable"][..];
    let named = ("OPKEEP_REMOTE", remote.as_str());
    for (env, args) in [
        (&[named, ("OPKEEP_REMOTE_MODE", "off")][..], &[][..]),
        (&[named], &["--remote-mode", "off"]),
        (&[named], force),
        (&[named, ("OPKEEP_REMOTE_NAMESPACE", "others")], &["--remote-mode", "read"]),
        (&[named], &["--remote-namespace", "others", "--remote-mode", "read"]),
    ] {
        assert_eq!(run(&Place::new(), env, args), 0, "{env:?} {args:?}");
    }
    assert_eq!(shared_entries(&one).len(), 1);
    let nowhere = format!("file://{}/nowhere", one.dir.path().display());
    assert_eq!(run(&other, &[("OPKEEP_REMOTE", &nowhere)], &["--remote", &remote]), 1);
    // `run` uses the remote cache as well.
    let third = Place::new();
    let args = ["run", SQUARE, "--input-values", "1,4,9", "--remote", &remote, "--format", "json"];
    assert_eq!(third.run(&args).ended_with(0).count("from_remote"), 1);
}

#[test]
fn a_host_that_only_reads_writes_nothing() {
    let (one, other) = (Place::new(), Place::new());
    let remote = url(&one);
    build(&one, &[SQUARE, "--remote", &remote]);
    let before = files(&one.path("shared"));
    let five = other.write("five.info", square_of(5));
    let args = [SQUARE, five.to_str().unwrap(), "--remote", &remote, "--remote-mode", "read"];
    let ran = build(&other, &args);
    assert_eq!((ran.count("from_remote"), ran.count("compiled")), (1, 1));
    assert_eq!((warnings(&ran), files(&one.path("shared"))), (vec![], before));
}

#[test]
fn debug_kernels_stay_on_their_host() {
    let place = Place::new();
    let ran = build(&place, &[SQUARE, "--remote", &url(&place), "--op_debug_level", "1"]);
    assert_eq!((ran.count("bypassed"), shared_entries(&place)), (1, vec![]));
}

#[test]
fn a_wrong_remote_cache_is_an_error_before_anything_is_compiled() {
    let place = Place::new();
    let run = |env: &[(&str, &str)], args: &[&str]| {
        let ran = place.run_with(&[&["build", SQUARE, "--target", "cpu"], args].concat(), env).ended_with(2);
        assert!(!ran.stderr.contains("secret"), "{ran:?}");
        ran
    };
    run(&[], &["--remote", "redis:/u:secret@host"]).says("--remote: the remote cache is not a URL");
    run(&[], &["--remote", "ftp://u:secret@host"]).says("the unknown scheme `ftp`");
    run(&[], &["--remote", "redis://u:secret@host:no"]).says("an invalid port");
    run(&[("OPKEEP_REMOTE", "file://secret/x")], &[]).says("OPKEEP_REMOTE: the `file://` URL");
    run(&[], &["--remote", "file:///x", "--remote-mode", "all"]).says("expected off, read or read-write");
    run(&[("OPKEEP_REMOTE_MODE", "all")], &["--remote", "file:///x"]).says("OPKEEP_REMOTE_MODE is `all`");
    run(&[], &["--remote", "file:///x", "--remote-namespace", "a/b"]).says("--remote-namespace");
    run(&[("OPKEEP_REMOTE_NAMESPACE", "a/b")], &["--remote", "file:///x"])
        .says("OPKEEP_REMOTE_NAMESPACE is `a/b`");
    let grpc = ["--remote", "grpcs://127.0.0.1:1"];
    for (env, expected) in [
        (&[("OPKEEP_REMOTE_HEADERS", "authorization=Bearer secret")][..], "OPKEEP_REMOTE_HEADERS: line 1"),
        (&[("OPKEEP_REMOTE_HEADERS", "x-key: secret\nte: x")], "line 2 of the headers sets `te`"),
        (
            &[("OPKEEP_REMOTE_HEADERS", "a: secret"), ("OPKEEP_REMOTE_HEADERS_FILE", "x")],
            "OPKEEP_REMOTE_HEADERS and OPKEEP_REMOTE_HEADERS_FILE are both set",
        ),
        (
            &[("OPKEEP_REMOTE_TLS_KEY", "key.pem")],
            "OPKEEP_REMOTE_TLS_KEY is set, and there is no certificate",
        ),
    ] {
        run(env, &grpc).says(expected);
    }
    assert_eq!(place.entries(), Vec::<PathBuf>::new());
}

#[test]
fn a_remote_cache_that_cannot_be_used_is_one_warning() {
    let place = Place::new();
    place.write("file", "");
    let unusable = format!("file://{}/below", place.path("file").display());
    let refused = "redis://127.0.0.1:1";
    for (at, remote) in [unusable.as_str(), refused].into_iter().enumerate() {
        let host = Place::new();
        let models: Vec<_> =
            (1..6).map(|length| host.write(&format!("net/{length}.info"), square_of(length + at))).collect();
        let models: Vec<&str> = models.iter().map(|path| path.to_str().unwrap()).collect();
        let ran = build(&host, &[&models[..], &["--remote", remote]].concat());
        assert_eq!(ran.count("compiled"), 5);
        let warnings = warnings(&ran);
        let [one] = &warnings[..] else { panic!("{warnings:?}") };
        assert!(one.contains("building without it"), "{one}");
    }
}

/// Damages a file; it has another one that is intact.
type Damage = fn(&Path, &Path);

/// An entry that is damaged, or that holds the kernel of another key, is refused, reported once, compiled, and replaced.
#[test]
fn a_wrong_entry_is_refused_and_replaced() {
    let damages: [(&str, Damage); 3] = [
        ("a flipped bit", |path, _| {
            let mut bytes = fs::read(path).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(path, bytes).unwrap();
        }),
        ("half a file", |path, _| {
            let bytes = fs::read(path).unwrap();
            fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
        }),
        ("another entry", |path, other| fs::write(path, fs::read(other).unwrap()).unwrap()),
    ];
    for (what, damage) in damages {
        let one = Place::new();
        let remote = url(&one);
        let five = one.write("five.info", square_of(5));
        let models = [SQUARE, five.to_str().unwrap()];
        build(&one, &[&models[..], &["--remote", &remote]].concat());
        let stored = shared_entries(&one);
        assert_eq!(stored.len(), 2);
        let good = fs::read(&stored[0]).unwrap();
        let mode = fs::metadata(&stored[0]).unwrap().permissions();
        let mut writable = mode.clone();
        std::os::unix::fs::PermissionsExt::set_mode(&mut writable, 0o644);
        fs::set_permissions(&stored[0], writable).unwrap();
        damage(&stored[0], &stored[1]);
        assert_ne!(fs::read(&stored[0]).unwrap(), good);
        let other = Place::new();
        let ran = build(&other, &[&models[..], &["--remote", &remote]].concat());
        assert_eq!((ran.count("from_remote"), ran.count("compiled")), (1, 1), "{what}");
        let warnings = warnings(&ran);
        let [warning] = &warnings[..] else { panic!("{what}: {warnings:?}") };
        assert!(
            warning.contains("of the remote cache") && !warning.contains("more like it"),
            "{what}: {warning}"
        );
        let third = build(&Place::new(), &[&models[..], &["--remote", &remote]].concat());
        assert_eq!(
            (third.count("from_remote"), third.json()["warnings"].clone()),
            (2, Value::Array(vec![])),
            "{what}"
        );
    }
}
