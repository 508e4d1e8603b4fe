//! The reason for a compile, and the names of a kernel.
#![expect(clippy::disallowed_methods, reason = "tests look at what is on the disk")]

use crate::common::{Place, SQUARE, square_of};
use opkeep_digest::Digest;
use opkeep_kernel_entry::member::HEADER;
use opkeep_store::{BuildRecordKind, Entry, Store, StoreConfig};
use serde_json::{Value, json};

/// A descriptor of the descriptor crate's tests.
fn sample(name: &str) -> String {
    format!("{}/../descriptor/tests/suite/{name}.info", env!("CARGO_MANIFEST_DIR"))
}

/// The fields that `inspect` finds in one file.
fn fields(place: &Place, file: &str) -> Value {
    place.run(&["inspect", file, "--format", "json"]).ended_with(0).json()["files"][0]["fields"].clone()
}

#[test]
fn a_miss_is_explained_by_the_nearest_kernel() {
    let place = Place::new();
    place.run(&["explain", SQUARE]).ended_with(0).prints("1 miss: there is no store");
    assert!(!place.path("cache").exists(), "explaining makes no store");
    // What concerns the store, and not a kernel, is reported once.
    let five = place.write("five.info", square_of(5));
    let none = place.run(&["explain", SQUARE, five.to_str().unwrap()]).ended_with(0);
    assert_eq!(none.stdout.matches("there is no store at").count(), 1, "{none:?}");
    assert!(
        none.stdout.starts_with("2 misses: there is no store at `")
            && none.stdout.ends_with("\n2 kernels: 0 hit, 2 miss, 0 bypassed, 0 refused\n"),
        "{none:?}"
    );

    place.run(&["build", SQUARE]).ended_with(0);
    let hit = place.run(&["explain", SQUARE]).ended_with(0);
    assert!(hit.stdout.starts_with("hit ") && hit.stdout.contains("1 hit, 0 miss"), "{hit:?}");

    // A kernel of another shape is explained by the first one.
    let four = place.write("four.info", square_of(4));
    let four = four.to_str().unwrap();
    let miss = place.run(&["explain", four]).ended_with(0);
    assert!(miss.stdout.contains("      inputs[0].shape: [3] -> [4]\n"), "{miss:?}");
    let json = place.run(&["explain", four, "--format", "json"]).ended_with(0).json();
    let kernel = &json["kernels"][0];
    assert_eq!((&kernel["outcome"], &kernel["reason"]), (&json!("miss"), &json!("not in the store")));
    let change = json!({ "path": "ops[0].inputs[0].shape", "old": "[3]", "new": "[4]" });
    assert!(kernel["nearest"]["job"].as_array().unwrap().contains(&change), "{kernel}");
    assert_eq!((&kernel["nearest"]["toolchain"], &kernel["nearest"]["spec"]), (&json!([]), &json!([])));
    assert_eq!(place.entries().len(), 1, "explaining compiles nothing");

    // The same job, another compiler.
    let other = place.run_with(&["explain", SQUARE, "--format", "json"], &[("CC", "cc -O1")]).ended_with(0);
    let nearest = &other.json()["kernels"][0]["nearest"];
    assert_eq!(nearest["job"], json!([]));
    assert!(!nearest["toolchain"].as_array().unwrap().is_empty(), "{nearest}");

    // Of two, the nearer one is named.
    place.run(&["build", four]).ended_with(0);
    let json = place.run(&["explain", four, "--format", "json"]).ended_with(0).json();
    assert_eq!(json["kernels"][0]["outcome"], "hit");
    let again = place.run_with(&["explain", four, "--format", "json"], &[("CC", "cc -O1")]).ended_with(0);
    assert_eq!(again.json()["kernels"][0]["nearest"]["name"], json["kernels"][0]["name"]);
}

/// The compilers of an upgrade, and the beginning of what is said of it.
fn upgrade() -> (&'static str, &'static str, &'static str) {
    let exists = |name: &str| std::path::Path::new("/usr/bin").join(name).exists();
    match exists("gcc") && exists("clang") {
        true => ("gcc", "clang", "compiler gcc "),
        false => ("cc", "cc -O1", "arguments (none) -> -O1"),
    }
}

/// A compiler upgrade hits each kernel of a network, and is one cause: for `explain`, and beside each compile of a build.
#[test]
fn an_upgrade_is_one_cause() {
    let place = Place::new();
    let network = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/networks/lenet");
    let (old, new, cause) = upgrade();
    let run = |args: &[&str], cc: &str| {
        place.run_with(&[args, &["--target", "cpu"]].concat(), &[("CC", cc)]).ended_with(0)
    };
    let built = run(&["build", network, "--no-kernel-meta", "--format", "json"], old);
    let count = built.count("compiled");
    assert!(built.json().get("causes").is_none(), "{built:?}");

    let explained = run(&["explain", network], new);
    let lines: Vec<&str> = explained.stdout.lines().collect();
    assert!(lines[0].starts_with(&format!("{count} misses: {cause}")) && lines.len() <= 15, "{lines:#?}");
    assert_eq!(lines.iter().filter(|line| line.contains("misses: ")).count(), 1, "{lines:#?}");
    let store = place.path("cache");
    assert_eq!(
        lines[lines.len() - 2..],
        [
            format!("the store {} has none of {count} kernels", store.display()),
            format!("{count} kernels: 0 hit, {count} miss, 0 bypassed, 0 refused")
        ]
    );
    let all = run(&["explain", network, "--all"], new).stdout;
    assert_eq!(all.lines().filter(|line| line.starts_with("miss ")).count() as u64, count, "{all}");
    let json = run(&["explain", network, "--format", "json"], new).json();
    let causes = json["causes"].as_array().unwrap();
    let indices: Vec<u64> = (0..count).collect();
    assert_eq!((causes.len(), &causes[0]["kernels"]), (1, &json!(indices)), "{json}");
    assert_eq!(
        (&causes[0]["cause"], &json["lookups"][0]["absent"]),
        (&json!("key-changed"), &json!(count)),
        "{json}"
    );
    assert!(json["kernels"].as_array().unwrap().iter().all(|kernel| kernel["nearest"]["same_job"] == true));

    // A build with the flag says the same, and nothing of a hit.
    let built = run(&["build", network, "--no-kernel-meta", "--explain"], new);
    let beside = built
        .stdout
        .lines()
        .filter(|line| line.starts_with("compiled  ") && line.contains(&format!("({cause}")));
    assert_eq!(beside.count() as u64, count, "{built:?}");
    let cause = lines[0];
    assert!(built.stdout.lines().any(|line| line == cause), "{built:?}");
    let last = format!("[{count}/{count}] compiled ");
    let last = built.stderr.lines().find(|line| line.starts_with(&last)).unwrap();
    assert!(last.contains(cause.split_once(": ").unwrap().1), "{built:?}");
    let warm = run(&["build", network, "--no-kernel-meta", "--explain", "--format", "json"], new);
    assert_eq!((warm.count("reused"), &warm.json()["causes"]), (count, &json!([])));
}

/// Where the result follows in the same file or pipe, the lines of the progress leave the causes to it.
#[test]
fn one_stream_has_a_cause_once() {
    let place = Place::new();
    let infos = [3, 4].map(|length| place.write(&format!("net/{length}.info"), square_of(length)));
    place.run_with(&["build", "net", "--no-kernel-meta"], &[("CC", "cc -O1")]).ended_with(0);
    let built = |redirection: &str| {
        let script = format!("\"$0\" build net --no-kernel-meta --explain {redirection}");
        let mut command = place.program("sh".as_ref(), &["-c", &script, env!("CARGO_BIN_EXE_opkeep")]);
        crate::common::ran(command.env("CC", "cc")).ended_with(0)
    };
    let forget = || place.entries().iter().for_each(|entry| std::fs::remove_file(entry).unwrap());
    let cause = "arguments -O1 -> (none)";
    for redirection in ["> log 2>&1; cat log", "2>&1 | cat", "> log 2> others; cat log; cat others >&2"] {
        let has_one = !redirection.contains("others");
        let built = built(redirection);
        let text = format!("{}{}", built.stdout, built.stderr);
        assert_eq!(text.matches("/2] compiled ").count(), infos.len(), "{redirection}: {text}");
        // Beside each kernel of the result, and in its summary.
        let counts =
            (text.matches(&format!("({cause})")).count(), text.matches(&format!(": {cause}\n")).count());
        assert_eq!(counts, (2, if has_one { 1 } else { 3 }), "{redirection}: {text}");
        forget();
        std::fs::remove_dir_all(place.path("cache/v1/.builds")).unwrap();
        place.run_with(&["build", "net", "--no-kernel-meta"], &[("CC", "cc -O1")]).ended_with(0);
    }
}

/// Of the kernels of several toolchains that are equally near, the ones that were used last explain a miss.
#[test]
fn the_toolchain_that_was_used_last_is_the_nearest() {
    let place = Place::new();
    let cause = || place.run_with(&["explain", SQUARE], &[("CC", "cc -O3")]).ended_with(0);
    let mut entries = Vec::new();
    for cc in ["cc -O2", "cc -O1"] {
        place.run_with(&["build", SQUARE, "--no-kernel-meta"], &[("CC", cc)]).ended_with(0);
        let new = place.entries().into_iter().find(|entry| !entries.contains(entry));
        entries.extend(new);
    }
    cause().prints("1 miss: arguments -O1 -> -O3\n");
    // As a hit does, after ten minutes.
    let used = std::time::SystemTime::now() + std::time::Duration::from_secs(2);
    std::fs::File::options().write(true).open(&entries[0]).unwrap().set_modified(used).unwrap();
    cause().prints("1 miss: arguments -O2 -> -O3\n");
}

/// Puts the entries of an earlier version, which generated other code, in place of those of a store.
fn age_by_a_version(place: &Place) {
    for file in place.entries() {
        let entry = Entry::decode(std::fs::read(&file).unwrap(), None).unwrap();
        let mut header: Value = serde_json::from_slice(entry.lazy_member(HEADER).unwrap().unwrap()).unwrap();
        header["made_by"] = "opkeep 0.0.9".into();
        let code = &mut header["parts"]["op_sources"]["parts"][0];
        assert_eq!(code["name"], "generated C");
        code["digest"] = Digest::of(b"other code").to_string().into();
        let header = header.to_string();
        let key = Digest::of(entry.key().to_string().as_bytes());
        let encoded = entry.to_builder().with_lazy(HEADER, header.as_bytes()).encode(&key).unwrap();
        let key = key.to_string();
        let directory = file.parent().unwrap().with_file_name(&key[..2]);
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join(format!("{key}.kern")), encoded).unwrap();
        std::fs::remove_file(&file).unwrap();
    }
    // The earlier version recorded its own keys.
    std::fs::remove_dir_all(place.path("cache/v1/.builds")).unwrap();
}

/// The code of each kernel differs in its own way after an upgrade of opkeep, which is one cause.
#[test]
fn another_version_is_one_cause() {
    let place = Place::new();
    let network = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/networks/lenet");
    let count = place
        .run(&["build", network, "--no-kernel-meta", "--format", "json"])
        .ended_with(0)
        .count("compiled");
    age_by_a_version(&place);
    let explained = place.run(&["explain", network]).ended_with(0);
    let version = env!("CARGO_PKG_VERSION");
    let first = format!("{count} misses: opkeep 0.0.9 -> opkeep {version}, source generated C");
    assert_eq!(
        (explained.stdout.lines().next(), explained.stdout.lines().count()),
        (Some(&*first), 4),
        "{explained:?}"
    );
}

/// Three kernels, each stored for two toolchains. Returns the arguments of their descriptors, and the entries of the second toolchain.
fn stored_for_two(place: &Place) -> (Vec<String>, Vec<std::path::PathBuf>) {
    let infos = [3, 4, 5].map(|elements| {
        let info = place.write(&format!("{elements}.info"), square_of(elements));
        info.to_str().unwrap().to_owned()
    });
    let mut entries = Vec::new();
    for cc in ["cc -O1", "cc"] {
        let args: Vec<&str> =
            ["build", "--no-kernel-meta"].into_iter().chain(infos.iter().map(String::as_str)).collect();
        place.run_with(&args, &[("CC", cc)]).ended_with(0);
        let before = std::mem::replace(&mut entries, place.entries());
        entries.retain(|entry| !before.contains(entry));
    }
    assert_eq!(entries.len(), 3);
    (infos.to_vec(), entries)
}

fn explain(place: &Place, infos: &[String], more: &[&str]) -> crate::common::Ran {
    let args: Vec<&str> =
        ["explain"].into_iter().chain(infos.iter().map(String::as_str)).chain(more.iter().copied()).collect();
    place.run_with(&args, &[("CC", "cc")]).ended_with(0)
}

/// What the records of builds and the quarantine state of an entry is the cause of its absence, and no toolchain of another entry of
/// the same job.
#[test]
fn a_removed_entry_is_explained_by_what_is_known_of_it() {
    let place = Place::new();
    let (infos, entries) = stored_for_two(&place);
    std::fs::remove_file(&entries[0]).unwrap();
    let explained = explain(&place, &infos, &[]);
    let lines: Vec<&str> = explained.stdout.lines().collect();
    let is_cause = |line: &&str| line.contains(" misses: ") || line.contains(" miss: ");
    let causes: Vec<&str> = lines.iter().copied().filter(is_cause).collect();
    assert_eq!(causes.len(), 1, "{lines:#?}");
    assert!(
        causes[0].starts_with("1 miss: compiled 2")
            && causes[0].ends_with(" UTC on this host, and no longer stored"),
        "{lines:#?}"
    );
    let gone = "    the file is gone: the counters of the store have no eviction and no `opkeep clear`";
    assert!(lines.contains(&gone), "{lines:#?}");
    assert!(!explained.stdout.contains("-O1"), "{lines:#?}");
    let json = explain(&place, &infos, &["--format", "json"]).json();
    let missed = json["causes"][0]["kernels"][0].as_u64().unwrap() as usize;
    let former = &json["kernels"][missed]["former"];
    assert_eq!(
        (&json["causes"][0]["cause"], &json["causes"][0]["evictions"]),
        (&json!("removed"), &json!(0))
    );
    assert_eq!((&former["state"], &former["compiled"]), (&json!("removed"), &json!(true)), "{former}");
    assert_eq!(json["kernels"][missed]["nearest"]["same_job"], true, "the nearest one is there as well");
    explain(&place, &infos, &["--all"])
        .prints(" UTC on this host, and no longer stored\n  the nearest stored kernel is ");

    // A build says the same.
    let build = |more: &[&str]| {
        let args: Vec<&str> = ["build", "--no-kernel-meta", "--explain"]
            .into_iter()
            .chain(infos.iter().map(String::as_str))
            .chain(more.iter().copied())
            .collect();
        place.run_with(&args, &[("CC", "cc")]).ended_with(0)
    };
    build(&[]).prints(", and no longer stored)").prints("\n1 miss: compiled ");

    // Evictions are counted.
    place.run(&["gc", "--older-than", "0s"]).ended_with(0);
    let explained = explain(&place, &infos, &[]);
    explained
        .prints("3 misses: compiled before (the last 2")
        .prints("    evicted or deleted: the store has counted 6 evictions\n");
    // A counter that a user resets proves no deletion.
    place.run(&["stats", "--zero"]).ended_with(0);
    explain(&place, &infos, &[]).prints(&format!("{gone}\n"));
}

/// Without `--explain` as well, a build with `-v` states what is known of an entry, and not what resembles it.
#[test]
fn a_build_states_the_removal_of_an_entry() {
    let place = Place::new();
    let (infos, entries) = stored_for_two(&place);
    std::fs::remove_file(&entries[0]).unwrap();
    let args: Vec<&str> =
        ["build", "--no-kernel-meta", "-v"].into_iter().chain(infos.iter().map(String::as_str)).collect();
    let built = place.run_with(&args, &[("CC", "cc")]).ended_with(0);
    let built =
        built.prints("(not in the store; compiled 2").prints(" UTC on this host, and no longer stored)");
    assert!(!built.stdout.contains("like ") && !built.stdout.contains("-O1"), "{built:?}");

    // The only kernel of its operators.
    let place = Place::new();
    let build = || place.run(&["build", SQUARE, "--no-kernel-meta", "-v"]).ended_with(0);
    build();
    std::fs::remove_file(&place.entries()[0]).unwrap();
    build().prints("(not in the store; compiled 2").prints(", and no longer stored)");
}

/// A kernel that could not be stored was not deleted.
#[test]
fn a_kernel_that_was_not_stored_is_a_cause_of_its_own() {
    let place = Place::new();
    place.run(&["build", SQUARE, "--no-kernel-meta"]).ended_with(0);
    std::fs::remove_dir_all(place.path("cache/v1/.builds")).unwrap();
    let shard = place.entries()[0].parent().unwrap().to_owned();
    std::fs::remove_dir_all(&shard).unwrap();
    std::fs::write(&shard, "a file").unwrap();
    place.run(&["build", SQUARE, "--no-kernel-meta"]).ended_with(0).says("kept");
    std::fs::remove_file(&shard).unwrap();
    place
        .run(&["explain", SQUARE])
        .ended_with(0)
        .prints("1 miss: compiled 2")
        .prints(" UTC on this host, and not stored\n    the warnings of that build state why\n");
    let json = place.run(&["explain", SQUARE, "--format", "json"]).ended_with(0).json();
    let former = &json["kernels"][0]["former"];
    assert_eq!((&json["causes"][0]["cause"], &former["state"]), (&json!("not-kept"), &json!("not-kept")));
    assert_eq!((&former["compiled"], &json["causes"][0]["evictions"]), (&json!(true), &Value::Null));

    // The last build counts.
    place.run(&["build", SQUARE, "--no-kernel-meta"]).ended_with(0);
    std::fs::remove_file(&place.entries()[0]).unwrap();
    place.run(&["explain", SQUARE]).ended_with(0).prints(", and no longer stored\n    the file is gone: ");
}

/// Removes a field of kernels from the records of builds, as earlier versions wrote them.
fn without_kept(place: &Place) {
    let store = Store::open(StoreConfig::new(place.path("cache"))).unwrap();
    let records = store.build_records(usize::MAX).unwrap().texts;
    assert!(!records.is_empty());
    std::fs::remove_dir_all(place.path("cache/v1/.builds")).unwrap();
    for text in records {
        let mut record: Value = serde_json::from_slice(&text).unwrap();
        for kernel in record["build"]["kernels"].as_array_mut().unwrap() {
            assert_eq!(kernel.as_object_mut().unwrap().remove("kept"), Some(json!(true)));
        }
        let began = record["build"]["began_ms"].as_u64().unwrap();
        let began = std::time::UNIX_EPOCH + std::time::Duration::from_millis(began);
        store.add_build_record(began, BuildRecordKind::Full, record.to_string().as_bytes()).unwrap();
    }
}

/// A record of an earlier version does not state whether an entry was stored: nothing is claimed of it, but the toolchain was in use.
#[test]
fn a_record_of_an_earlier_version_is_read() {
    let place = Place::new();
    let (infos, entries) = stored_for_two(&place);
    without_kept(&place);
    std::fs::remove_file(&entries[0]).unwrap();
    let cause = "no kernel of this job is stored for the same toolchain; the nearest differs in arguments -O1 -> (none)";
    explain(&place, &infos, &[]).prints(&format!("1 miss: {cause}\n"));
    place.run(&["report"]).ended_with(0);
}

/// Without records nothing is known of a deleted entry. A difference from a toolchain that came later is a comparison, not the cause:
/// the others of the missing one's toolchain were stored before.
#[test]
fn a_toolchain_that_was_in_use_before_is_no_cause() {
    let place = Place::new();
    let (infos, newer) = stored_for_two(&place);
    let older: Vec<_> = place.entries().into_iter().filter(|entry| !newer.contains(entry)).collect();
    std::fs::remove_dir_all(place.path("cache/v1/.builds")).unwrap();
    std::fs::remove_file(&older[0]).unwrap();
    let explain_with = |cc: &str, more: &[&str]| {
        let args: Vec<&str> = ["explain"]
            .into_iter()
            .chain(infos.iter().map(String::as_str))
            .chain(more.iter().copied())
            .collect();
        place.run_with(&args, &[("CC", cc)]).ended_with(0)
    };
    let cause = "no kernel of this job is stored for the same toolchain; the nearest differs in arguments (none) -> -O1";
    explain_with("cc -O1", &[]).prints(&format!("1 miss: {cause}\n"));
    let json = explain_with("cc -O1", &["--format", "json"]).json();
    assert_eq!(
        (&json["causes"][0]["cause"], &json["causes"][0]["comparison"]),
        (&json!("key-changed"), &json!(true))
    );
    // Without one of this toolchain, its change is the cause.
    older[1..].iter().for_each(|entry| std::fs::remove_file(entry).unwrap());
    explain_with("cc -O1", &[]).prints("3 misses: arguments (none) -> -O1\n");
}

/// An upgrade is the cause also while the kernels of the new compiler are being stored: after a build of some, and after an interrupted
/// one.
#[test]
fn an_upgrade_is_the_cause_of_what_is_still_missing() {
    let place = Place::new();
    let (infos, newer) = stored_for_two(&place);
    std::fs::remove_dir_all(place.path("cache/v1/.builds")).unwrap();
    for (index, entry) in newer.iter().enumerate() {
        std::fs::remove_file(entry).unwrap();
        let misses = if index == 0 { "1 miss".to_owned() } else { format!("{} misses", index + 1) };
        explain(&place, &infos, &[]).prints(&format!("{misses}: arguments -O1 -> (none)\n"));
    }
    // A kernel of another job, by the new compiler.
    let other = place.write("7.info", square_of(7));
    place.run(&["build", "--no-kernel-meta", other.to_str().unwrap()]).ended_with(0);
    let explained = explain(&place, &infos, &[]).prints("3 misses: arguments -O1 -> (none)\n");
    assert_eq!(explained.stdout.matches("miss").count(), 2, "one cause, and the totals: {explained:?}");
}

/// Damage of one kind is one cause, whatever the digests are: in the store, and in quarantine.
#[test]
fn damage_of_one_kind_is_one_cause() {
    let place = Place::new();
    let (infos, entries) = stored_for_two(&place);
    for entry in &entries {
        let mut bytes = std::fs::read(entry).unwrap();
        let object = bytes.windows(4).position(|bytes| bytes == b"\x7fELF").unwrap();
        bytes[object + 20] ^= 1;
        std::fs::write(entry, bytes).unwrap();
    }
    let kind = "damaged: member `object`: expected SHA-256 …, found …";
    let explained = explain(&place, &infos, &[]);
    let explained = explained
        .prints(&format!("3 misses: {kind}\n    for example damaged: member `object`: expected SHA-256 "));
    assert_eq!(explained.stdout.matches("found").count(), 2, "{explained:?}");
    let json = explain(&place, &infos, &["--format", "json"]).json();
    let reasons: std::collections::BTreeSet<&str> =
        json["kernels"].as_array().unwrap().iter().map(|kernel| kernel["reason"].as_str().unwrap()).collect();
    assert_eq!((reasons.len(), json["causes"].as_array().unwrap().len()), (3, 1), "{json}");
    assert_eq!((&json["causes"][0]["cause"], &json["causes"][0]["text"]), (&json!("damaged"), &json!(kind)));
    assert!(reasons.contains(json["causes"][0]["example"].as_str().unwrap()), "{json}");
    let all = explain(&place, &infos, &["--all"]);
    assert!(reasons.iter().all(|reason| all.stdout.contains(reason)), "{all:?}");

    place.run(&["repair"]).ended_with(0);
    let explained = explain(&place, &infos, &[]);
    let first = explained.stdout.lines().next().unwrap();
    assert!(first.starts_with("3 misses: quarantined 2") && first.contains(" UTC: "), "{explained:?}");
    let json = explain(&place, &infos, &["--format", "json"]).json();
    let former = &json["kernels"][0]["former"];
    assert_eq!((&former["state"], &former["host"]), (&json!("quarantined"), &Value::Null), "{former}");
    assert!(former["reason"].as_str().unwrap().contains("`object`"), "{former}");
}

#[test]
fn skipped_lookups_are_reported() {
    let place = Place::new();
    let debug = place.run(&["explain", SQUARE, "--op_debug_level", "2", "--format", "json"]).ended_with(0);
    assert_eq!(debug.json()["kernels"][0]["outcome"], "bypassed");
    let refused = place.run(&["explain", &sample("composite"), "--format", "json"]).ended_with(0);
    let kernel = &refused.json()["kernels"][0];
    assert_eq!((&kernel["outcome"], &kernel["key"]), (&json!("refused"), &Value::Null));
    assert!(kernel["reason"].as_str().unwrap().len() > 10, "{kernel}");
    let twice = place.run(&["explain", SQUARE, SQUARE, "--format", "json"]).ended_with(0).json();
    assert_eq!(twice["kernels"].as_array().unwrap().len(), 1);
    assert_eq!(twice["kernels"][0]["operators"].as_array().unwrap().len(), 2);
    place.run(&["explain", "nothing.info"]).ended_with(2).says("nothing.info");
}

/// A framework looks for a hash of the fields: under the old name it would take the new kernel for the
/// old one.
#[test]
fn a_changed_descriptor_is_built_under_its_new_name() {
    let place = Place::new();
    let old = "square_12484080525657478220_2";
    let edited = place.write("edited.info", square_of(4).replace("square_4_2", old));
    let edited = edited.to_str().unwrap();
    let name = fields(&place, edited)["name of r1.5"].as_str().unwrap().to_owned();
    assert!(name.starts_with("square_") && name.ends_with("_2") && name != old, "{name}");
    place.run(&["build", edited]).ended_with(0);
    let built = |stem: &str, suffix: &str| place.path(&format!("rank_0/kernel_meta/{stem}.{suffix}"));
    assert!(built(&name, "o").exists() && !built(old, "o").exists());
    let info = std::fs::read_to_string(built(&name, "info")).unwrap();
    assert!(info.contains(&name) && !info.contains(old), "{info}");

    // A descriptor with its own name, or with a name from CANN, keeps it.
    place.run(&["build", SQUARE]).ended_with(0);
    assert!(built(old, "o").exists());
    let cann = format!("te_square_{}", "0123456789abcdef".repeat(4));
    let named = place.write("cann.info", square_of(5).replace("square_5_2", &cann));
    place.run(&["build", named.to_str().unwrap()]).ended_with(0);
    assert!(built(&cann, "o").exists());
}

#[test]
fn two_descriptors_are_compared() {
    let place = Place::new();
    let four = place.write("four.info", square_of(4));
    let four = four.to_str().unwrap();
    let same = place.run(&["explain", SQUARE, "--against", SQUARE]).ended_with(0);
    assert_eq!(same.stdout.trim(), "the jobs are the same");
    let elsewhere = std::fs::read_to_string(SQUARE).unwrap().replace("Ascend910A", "Ascend310P3");
    let elsewhere = place.write("elsewhere.info", elsewhere);
    let spec = place.run(&["explain", elsewhere.to_str().unwrap(), "--against", SQUARE]).ended_with(0);
    let expected = "the jobs are the same\ntarget: Ascend910A -> Ascend310P3";
    assert_eq!(spec.stdout, format!("{SQUARE} -> {}\n{expected}\n", elsewhere.display()));
    let different = place.run(&["explain", four, "--against", SQUARE]).ended_with(0);
    let lines: Vec<&str> = different.stdout.lines().collect();
    assert_eq!(lines[0], format!("{SQUARE} -> {four}"));
    assert!(lines.contains(&"ops[0].outputs[0].shape: [3] -> [4]"), "{lines:?}");
    let json = place.run(&["explain", four, "--against", SQUARE, "--format", "json"]).ended_with(0).json();
    assert_eq!(json["job"].as_array().unwrap().len(), lines.len() - 1);
    place.run(&["explain", four, four, "--against", SQUARE]).ended_with(2).says("one input");
    place.run(&["explain", four, "--against", "nothing.info"]).ended_with(2).says("nothing.info");
}

#[test]
fn inspect_prints_the_names_of_every_generation() {
    let place = Place::new();
    let square = fields(&place, SQUARE);
    assert_eq!(square["generation"], "MindSpore r1.5 (job_content)");
    assert_eq!(square["name of r1.5"], "square_12484080525657478220_2");
    assert_eq!(square["name of r1.6"], "square_16124809792232096824_2");
    for borne in ["kernel name is", "file name is"] {
        assert_eq!(square[borne], "that of MindSpore r1.5 (job_content)", "{borne}");
    }
    assert!(square["name of AKG"].is_null(), "AKG does not name MindSpore's jobs: {square}");
    assert!(square["name of r2.1 and later"].as_str().unwrap().starts_with("none: "), "{square}");
    // Every field that counts, with defaults.
    assert_eq!(square["ops[0].inputs[0].range"], "[[3, 3]]");
    assert_eq!(square["ops[0].outputs[0].ori_format"], "NCHW");
    assert_eq!(square["l1_size"], "-1");

    let older = fields(&place, &sample("older"));
    assert_eq!(older["name of r1.2"], "ConcatDemo_5455824095052711778_5");
    assert!(older["kernel name is"].as_str().unwrap().contains("does not follow from the fields"), "{older}");
    assert_eq!(older["file name is"], "of no known form");
    assert!(
        fields(&place, &sample("oldest"))["name of r1.0 and r1.1"]
            .as_str()
            .unwrap()
            .contains("1656232355119978019")
    );
    let composite = fields(&place, &sample("composite"));
    assert_eq!(composite["name of AKG"], "Fused_Mul_AddN_ReduceSum_fusion_1982097573504421651");
    assert_eq!(composite["op 0 function"], "Mul");

    let cann = format!("te_square_{}.info", "0123456789abcdef".repeat(4));
    let renamed = place.write(&cann, std::fs::read(SQUARE).unwrap());
    assert!(fields(&place, renamed.to_str().unwrap())["file name is"].as_str().unwrap().contains("CANN"));
}

/// The same operator in the words of r1.2 is the same kernel, under the name that r1.2 looks for.
#[test]
fn an_older_descriptor_shares_the_kernel() {
    let place = Place::new();
    place.run(&["build", SQUARE]).ended_with(0);
    let tensor = |name: &str| {
        json!({ "dtype": "float32", "format": "ND", "name": name, "ori_format": "NCHW", "ori_shape": [3],
            "param_type": "required", "range": [[3, 3]], "shape": [3], "valid": true })
    };
    let older = json!({ "platform": "TBE", "SocInfo": { "socVersion": "Ascend910A" }, "op_info": {
        "Type": "Square", "name": "square", "module_name": "impl.square", "attrs": null, "kernel_name": "Square_1_7",
        "inputs": [[tensor("x_0")]], "outputs": [[tensor("y")]] } });
    let older = place.write("older.info", older.to_string());
    let built = place.run(&["build", older.to_str().unwrap(), "--format", "json"]).ended_with(0);
    assert_eq!((built.count("reused"), built.count("compiled")), (1, 0));
    let placed = place.path("rank_0/kernel_meta/Square_1_7.info");
    let placed: Value = serde_json::from_slice(&std::fs::read(placed).unwrap()).unwrap();
    assert_eq!(placed["op_info"]["kernel_name"], "Square_1_7");
}
