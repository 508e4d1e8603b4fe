//! A limit on the size of files (`ulimit -f`) is a disk that is full for large files: every command continues or reports what
//! it could not write, is not killed, and leaves nothing broken.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{Place, Ran, square_of};
use opkeep_testkit::caches::{Rank, age, cann_kernel};

/// A compiler without the limit, which is a soft one; it notes whether the signal is ignored where it runs.
fn free_compiler(place: &Place) -> String {
    let log = place.path("signals.log");
    let body = format!(
        "ulimit -S -f unlimited\ngrep SigIgn /proc/self/status >> '{}'\nexec cc \"$@\"",
        log.display()
    );
    place.script("cc", &body).to_str().unwrap().to_owned()
}

/// Runs a command with a limit of `blocks` blocks of the shell on each file.
fn limited(place: &Place, blocks: u32, cc: &str, args: &[&str]) -> Ran {
    let plain = place.command(args);
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -S -f {blocks}; exec \"$0\" \"$@\"")]);
    command.arg(plain.get_program()).args(plain.get_args()).current_dir(place.dir.path());
    command.env_clear().envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command.env("CC", cc).stdin(Stdio::null()).output().unwrap();
    let ran = Ran {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    };
    assert!(
        matches!(ran.code, Some(0..=2)) && !ran.stderr.contains("panicked"),
        "{args:?}, {blocks} blocks: {ran:?}"
    );
    ran
}

/// The name of the limit.
const SAYS: &str = "the limit of this process on the size of files";

const LIMITS: [u32; 6] = [0, 1, 4, 8, 16, 64];

#[test]
fn a_build_continues_and_reports_kernels_that_are_not_stored() {
    let mut compiled_not_kept = 0;
    for blocks in LIMITS {
        let place = Place::new();
        let cc = free_compiler(&place);
        let info = place.write("square.info", square_of(3));
        let info = info.to_str().unwrap();
        let ran = limited(&place, blocks, &cc, &["build", info, "--format", "json"]);
        // If not even a source can be written, no compiler is usable.
        if ran.code == Some(2) {
            assert!(blocks < 8 && ran.stderr.contains(SAYS), "{blocks}: {ran:?}");
            continue;
        }
        // Written files are complete, and others cause a warning, also in JSON.
        let named = |ran: &Ran| {
            ran.json()["warnings"]
                .as_array()
                .unwrap()
                .iter()
                .any(|text| text.as_str().unwrap().contains(SAYS))
        };
        assert_eq!(ran.stderr.contains(SAYS), named(&ran), "{blocks}: {ran:?}");
        assert!(named(&ran) || blocks == 64, "{blocks}: {ran:?}");
        compiled_not_kept += usize::from(ran.count("compiled") == 1 && place.entries().is_empty());
        place.run(&["verify"]).ended_with(0);
        let again = place.run_with(&["build", info, "--format", "json"], &[("CC", &cc)]).ended_with(0);
        assert_eq!(again.count("failed"), 0);
        assert!(again.json()["warnings"].as_array().unwrap().is_empty(), "{again:?}");
        place.run(&["verify", "rank_0/kernel_meta"]).ended_with(0);
    }
    assert!(compiled_not_kept > 0, "no limit was between the compiler's files and ours");
}

/// The compiler runs as its author expects: the signal is not ignored where it runs.
#[test]
fn a_compiler_that_exceeds_the_limit_fails_with_the_name_of_the_limit() {
    let place = Place::new();
    let info = place.write("square.info", square_of(3));
    let cc = free_compiler(&place);
    limited(&place, 64, &cc, &["build", info.to_str().unwrap()]);
    let log = std::fs::read_to_string(place.path("signals.log")).unwrap();
    assert!(!log.is_empty());
    for line in log.lines() {
        let mask = u64::from_str_radix(line.split_whitespace().next_back().unwrap(), 16).unwrap();
        assert_eq!(mask & (1 << 24), 0, "SIGXFSZ is ignored: {line}");
    }
    // Kernels are small, but an object that is not stripped is large.
    let big = place.script(
        "big",
        "case \"$PWD\" in */probe-*) ulimit -S -f unlimited;; esac\n\
         case \"$PWD $*\" in */probe-*) ;; *kernel.c*) exec cc -g3 -fverbose-asm -save-temps=obj \"$@\";; esac\n\
         exec cc \"$@\"",
    );
    let ran = limited(
        &place,
        8,
        big.to_str().unwrap(),
        &["build", info.to_str().unwrap(), "--cache-mode", "force"],
    );
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.stdout.contains("(`ulimit -f`, RLIMIT_FSIZE)") && ran.stdout.contains("bytes at most"),
        "{ran:?}"
    );
}

/// A compiler may exceed the limit in a probe or in a compile, itself or by a program that it starts.
#[test]
fn a_compiler_that_a_limit_kills_is_reported_with_the_limit() {
    let place = Place::new();
    let info = place.write("square.info", square_of(3));
    let info = info.to_str().unwrap();
    let mut failed = 0;
    for blocks in [1, 2, 4, 6] {
        let ran = limited(&place, blocks, "cc", &["build", info, "--cache-mode", "disable"]);
        let (all, bytes) = (format!("{}{}", ran.stdout, ran.stderr), format!("{} bytes", blocks * 1024));
        if ran.code != Some(0) {
            failed += 1;
            assert!(all.contains("size of files") || all.contains("files may have"), "{blocks}: {ran:?}");
            // Blocks of the shell have 512 or 1024 bytes.
            let half = format!("{} bytes", blocks * 512);
            assert!(all.contains(&bytes) || all.contains(&half), "{blocks}: {ran:?}");
            assert!(all.contains("`ulimit -f unlimited`"), "{blocks}: {ran:?}");
        }
    }
    assert!(failed > 1, "nothing met the limit");
    for (number, body) in
        ["kill -XFSZ $$", "/bin/sh -c 'kill -XFSZ $$'; exit $?", "/bin/sh -c 'kill -XFSZ $$'; exit 1"]
            .iter()
            .enumerate()
    {
        let cc = place.compiler(&format!("cc{number}"), body);
        let ran = limited(&place, 4096, cc.to_str().unwrap(), &["build", info, "--cache-mode", "disable"]);
        let says = ran.stdout.contains("RLIMIT_FSIZE") && ran.stdout.contains("`ulimit -f unlimited`");
        // A shell may hide how its program ended.
        assert!(ran.code == Some(1) && (says || number == 2), "{body}: {ran:?}");
    }
}

/// The same for processor time; a killed compiler is reported with the possible cause.
#[test]
fn other_limits_are_named_too() {
    let place = Place::new();
    let info = place.write("square.info", square_of(3));
    let build = |cc: &str, limit: &str| {
        let plain = place.command(&["build", info.to_str().unwrap(), "--cache-mode", "disable"]);
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("{limit}exec \"$0\" \"$@\"")])
            .arg(plain.get_program())
            .args(plain.get_args());
        command.env_clear().envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        crate::common::ran(command.current_dir(place.dir.path()).env("CC", cc)).ended_with(1)
    };
    let endless = place.compiler("endless", "while :; do :; done");
    let ran = build(endless.to_str().unwrap(), "ulimit -S -t 1; ");
    assert!(ran.stdout.contains("1 s of processor time") && ran.stdout.contains("RLIMIT_CPU"), "{ran:?}");
    let killed = place.compiler("killed", "kill -KILL $$");
    let ran = build(killed.to_str().unwrap(), "");
    assert!(ran.stdout.contains("signal: 9") && ran.stdout.contains("memory"), "{ran:?}");
}

#[test]
fn every_command_that_writes_reports_the_limit() {
    let built = |place: &Place| {
        let info = place.write("square.info", square_of(3));
        place.run_with(&["build", info.to_str().unwrap()], &[("CC", &free_compiler(place))]).ended_with(0);
    };
    type Prepare<'a> = &'a dyn Fn(&Place);
    let with_ranks = |place: &Place| {
        for rank in (0..2).map(Rank::new) {
            (1..=3).for_each(|n| rank.square(n).write(&rank.dir(&place.path("run"))).unwrap());
        }
        let rank = Rank::new(1);
        let damaged = rank.dir(&place.path("run")).join(format!("{}.json", rank.square(1).stem));
        std::fs::write(&damaged, "").unwrap();
        age(&damaged).unwrap();
    };
    let with_entry_damaged = |place: &Place| {
        built(place);
        std::fs::write(&place.entries()[0], "damaged").unwrap();
    };
    let quarantine_file = |place: &Place| {
        with_ranks(place);
        place.run(&["repair", "run"]).ended_with(0);
    };
    let with_kernel_cache = |place: &Place| {
        cann_kernel("Ascend910B2", 1).write(&place.path("kernel_cache/Ascend910B2")).unwrap();
    };
    let run = ["run", "square.info", "--input-values", "1,2,3", "--output", "out"];
    let cases: [(&[&str], Prepare<'_>); 10] = [
        (&run, &built),
        (&["import", "run"], &with_ranks),
        (&["gc", "--max-size", "1"], &built),
        (&["clear"], &built),
        (&["stats", "--zero"], &built),
        (&["repair"], &with_entry_damaged),
        (&["repair", "run"], &with_ranks),
        (&["repair", "--fill", "run"], &with_ranks),
        (&["repair", "--undo", "run"], &quarantine_file),
        (&["gc", "kernel_cache", "--max-size", "1"], &with_kernel_cache),
    ];
    for (args, prepare) in cases {
        for blocks in [0, 1] {
            let place = Place::new();
            prepare(&place);
            let ran = limited(&place, blocks, &free_compiler(&place), args);
            let failed = ran.stderr.contains("File too large") || ran.stdout.contains("File too large");
            assert!(!failed || ran.stderr.contains(SAYS), "{args:?}, {blocks} blocks: {ran:?}");
            if place.path("cache").exists() && args != ["repair"] {
                place.run(&["verify"]).ended_with(0);
            }
            no_part(place.dir.path());
        }
    }
    // If a requested file cannot be written, the error names the file and the limit.
    let place = Place::new();
    place.write("large.info", square_of(4096));
    let args = ["run", "large.info", "--input-fill", "ramp", "--output", "out"];
    let ran = limited(&place, 16, &free_compiler(&place), &args);
    assert!(
        ran.code == Some(2) && ran.stderr.contains("output_0.npy") && ran.stderr.contains(SAYS),
        "{ran:?}"
    );
    let place = Place::new();
    with_ranks(&place);
    let ran = limited(&place, 0, &free_compiler(&place), &["import", "run"]);
    assert!(ran.code != Some(0) && ran.stderr.contains(SAYS), "{ran:?}");
}

/// No incomplete file has a name that any program reads.
fn no_part(dir: &Path) {
    for file in crate::common::files(dir) {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        if name.ends_with(".kern") || name.ends_with(".npy") {
            assert_ne!(std::fs::metadata(&file).unwrap().len(), 0, "{file:?}");
        }
    }
}
