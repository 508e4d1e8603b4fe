//! Full disks, read-only disks and directories of other users: tests that need root, and are ignored without.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::crowd::{Build, LoggingCompiler, network};
use crate::common::{Place, SQUARE, square_of};
use libtest_mimic::{Failed, Trial};

type Test = fn() -> Result<(), Failed>;

pub(crate) fn trials() -> Vec<Trial> {
    let root = rustix::process::geteuid().is_root();
    let mounts = root && Mounted::new(&Place::untouched().path("probe"), "size=64k").is_some();
    let pseudo = root && Mounted::of("mqueue", &Place::untouched().path("probe")).is_some();
    let tests: [(&str, bool, Test); 13] = [
        ("a_store_on_a_full_disk_costs_one_warning", mounts, full_store),
        ("a_store_on_a_read_only_disk_costs_one_warning", mounts, read_only_store),
        ("a_full_temporary_directory_fails_the_kernel", mounts, full_temporary),
        ("without_a_writable_directory_the_way_out_is_tmpdir", mounts, nothing_writable),
        ("a_view_on_a_full_disk_is_a_problem", mounts, full_view),
        ("a_compiler_that_fills_the_disk_fails_alone", mounts, filling_compiler),
        ("another_users_store_is_not_trusted_unless_listed", root, foreign_store),
        ("another_users_temporary_directory_is_not_used", root, foreign_temporary),
        ("an_unreadable_directory_in_a_cache_is_reported_once", root, closed_in_cache),
        ("volumes_in_a_tree_are_entered_and_pseudo_file_systems_are_not", mounts && pseudo, pseudo_in_tree),
        ("a_closed_directory_is_reported_once", root, closed_in_tree),
        ("doctor_names_stores_that_cannot_be_used", mounts, unusable_stores),
        ("another_users_settings_do_not_count_unless_trusted", root, foreign_settings),
    ];
    let trials = tests.map(|(name, possible, test)| Trial::test(name, test).with_ignored_flag(!possible));
    trials.into()
}

/// A small file system in memory, unmounted on drop.
struct Mounted(PathBuf);

impl Mounted {
    fn new(at: &Path, options: &str) -> Option<Self> {
        std::fs::create_dir_all(at).ok()?;
        let mut mount = Command::new("mount");
        let status = mount
            .args(["-t", "tmpfs", "-o", &format!("mode=700,{options}"), "tmpfs"])
            .arg(at)
            .output()
            .ok()?
            .status;
        status.success().then(|| Self(at.to_owned()))
    }

    /// A pseudo file system.
    fn of(kind: &str, at: &Path) -> Option<Self> {
        std::fs::create_dir_all(at).ok()?;
        let output = Command::new("mount").args(["-t", kind, "none"]).arg(at).output().ok()?;
        output.status.success().then(|| Self(at.to_owned()))
    }

    fn remount(&self, options: &str) {
        let status = Command::new("mount").args(["-o", &format!("remount,{options}")]).arg(&self.0).status();
        assert!(status.unwrap().success());
    }

    /// Fills it up to `spare` bytes.
    fn fill(&self, spare: usize) {
        let mut filler = vec![0u8; 4 << 20];
        while std::fs::write(self.0.join("filler"), &filler).is_err() {
            filler.truncate(filler.len() - 4096);
        }
        filler.truncate(filler.len().saturating_sub(spare));
        std::fs::write(self.0.join("filler"), &filler).unwrap();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).output();
    }
}

fn full_store() -> Result<(), Failed> {
    let place = Place::untouched();
    let disk = Mounted::new(&place.path("cache"), "size=2m").ok_or("mount")?;
    let build = || place.run(&["build", SQUARE, "--format", "json"]);
    assert_eq!(build().ended_with(0).count("compiled"), 1);
    let other = place.write("other.info", square_of(7));
    disk.fill(0);
    let ran = place.run(&["build", other.to_str().unwrap(), "--format", "json"]).ended_with(0);
    assert_eq!((ran.count("compiled"), ran.stderr.matches("warning").count()), (1, 1), "{ran:?}");
    assert!(ran.stderr.contains("No space left"), "{ran:?}");
    // Earlier entries are still valid, and no incomplete file stays.
    assert_eq!(build().ended_with(0).count("reused"), 1);
    assert!(
        crate::common::files(&place.path("cache"))
            .iter()
            .all(|path| !path.to_string_lossy().contains("/put-"))
    );
    std::fs::remove_file(place.path("cache/filler")).unwrap();
    let again = place.run(&["build", other.to_str().unwrap(), "--format", "json"]).ended_with(0);
    assert_eq!(again.count("compiled"), 1);
    assert!(place.run(&["build", other.to_str().unwrap()]).stdout.contains("1 reused"));
    Ok(())
}

fn read_only_store() -> Result<(), Failed> {
    let place = Place::untouched();
    let disk = Mounted::new(&place.path("cache"), "size=2m").ok_or("mount")?;
    place.run(&["build", SQUARE]).ended_with(0);
    // Clean-up programs remove empty directories; the entries can still be read.
    let target = place.path(&format!("cache/v1/cpu-{}", std::env::consts::ARCH));
    std::fs::remove_dir(target.join("locks")).unwrap();
    disk.remount("ro");
    let other = place.write("other.info", square_of(7));
    let ran = place.run(&["build", other.to_str().unwrap(), SQUARE, "--format", "json"]).ended_with(0);
    assert_eq!(ran.stderr.matches("warning").count(), 1, "{ran:?}");
    // A store that cannot be written can still be read.
    assert_eq!((ran.count("compiled"), ran.count("reused"), ran.count("failed")), (1, 1, 0), "{ran:?}");
    let read = ["build", SQUARE, "--op_compiler_cache_mode", "read-only", "--format", "json"];
    assert_eq!(place.run(&read).ended_with(0).count("reused"), 1);
    Ok(())
}

fn full_temporary() -> Result<(), Failed> {
    let place = Place::untouched();
    let disk = Mounted::new(&place.path("tmp"), "size=256k").ok_or("mount")?;
    disk.fill(0);
    let ran = place.run(&["build", SQUARE, "--no-kernel-meta"]).ended_with(1);
    let reported = format!("{}{}", ran.stdout, ran.stderr);
    assert!(reported.contains("No space left") || reported.contains("no space left"), "{ran:?}");
    assert!(!reported.contains("panicked") && place.entries().is_empty());
    std::fs::remove_file(place.path("tmp/filler")).unwrap();
    place.run(&["build", SQUARE]).ended_with(0);
    Ok(())
}

fn full_view() -> Result<(), Failed> {
    let place = Place::untouched();
    let disk = Mounted::new(&place.path("view"), "size=64k").ok_or("mount")?;
    disk.fill(8192);
    let base = ("MS_COMPILER_CACHE_PATH", place.path("view"));
    let build =
        || place.run_with(&["build", SQUARE, "--format", "json"], &[(base.0, base.1.to_str().unwrap())]);
    let ran = build().ended_with(1);
    assert!(ran.stderr.contains("No space left"), "{ran:?}");
    assert_eq!(place.entries().len(), 1);
    std::fs::remove_file(place.path("view/filler")).unwrap();
    assert_eq!(build().ended_with(0).count("reused"), 1);
    Ok(())
}

/// The files of the failed compile are removed, except for a log with the reason.
fn filling_compiler() -> Result<(), Failed> {
    let place = Place::untouched();
    let _disk = Mounted::new(&place.path("tmp"), "size=4m").ok_or("mount")?;
    network(&place, 5);
    let cc = LoggingCompiler::new(&place, "[ $begun = 2 ] && { cat /dev/zero > junk; exit 1; }");
    let build = || Build::start(&place, 0, &cc, &["--jobs", "1"]).end();
    let ran = build().ended_with(1);
    assert_eq!((ran.count("compiled"), ran.count("failed")), (4, 1), "{ran:?}");
    let reported = ran.json()["results"].to_string();
    assert!(reported.contains("No space left"), "{reported}");
    let log = reported.split('`').find(|part| part.ends_with("compile.log")).ok_or("no kept log")?;
    assert!(std::fs::read_to_string(log).unwrap().contains("No space left"));
    let left = crate::common::files(&place.path("tmp"));
    assert!(left.iter().all(|path| !path.ends_with("junk")), "{left:?}");
    cc.does("");
    let ran = build().ended_with(0);
    assert_eq!((ran.count("reused"), ran.count("compiled")), (4, 1), "{ran:?}");
    Ok(())
}

fn foreign_store() -> Result<(), Failed> {
    let place = Place::untouched();
    place.run(&["build", SQUARE]).ended_with(0);
    let give = |uid: u32| {
        let status = Command::new("chown").args(["-R", &uid.to_string()]).arg(place.path("cache")).status();
        assert!(status.unwrap().success());
    };
    give(12345);
    let build = |args: &[&str]| place.run(&[&["build", SQUARE, "--format", "json"], args].concat());
    let ran = build(&[]).ended_with(0).says("12345").says("add 12345 to the trusted owners");
    assert_eq!((ran.count("compiled"), ran.stderr.matches("warning").count()), (1, 1), "{ran:?}");
    build(&["--cache-mode", "require"]).ended_with(2).says("not trusted");
    assert_eq!(build(&["--trusted-owner", "12345"]).ended_with(0).count("reused"), 1);
    Ok(())
}

/// A compiler needs temporary files even to say what it is: its message stands with the help that fits, and not "install a compiler".
fn nothing_writable() -> Result<(), Failed> {
    let place = Place::untouched();
    let script = "mount -o remount,bind,ro / && mount -o remount,bind,ro /dev/shm && mount --bind \"$TMPDIR\" \"$TMPDIR\" \\
        && mount -o remount,bind,ro \"$TMPDIR\" && mount -t tmpfs -o ro none /var/tmp && cd / && exec \"$0\" \"$@\"";
    let args = ["-m", "sh", "-c", script, env!("CARGO_BIN_EXE_opkeep"), "build", SQUARE, "--target", "cpu"];
    let args = [&args[..], &["--cache-mode", "disable", "--no-kernel-meta"]].concat();
    let ran = crate::common::ran(&mut place.program("unshare".as_ref(), &args)).ended_with(2);
    let ran =
        ran.says("the compiler has no directory for temporary files below `").says("Read-only file system");
    assert!(
        ran.stderr.contains("help: TMPDIR names a directory") && !ran.stderr.contains("install a C compiler"),
        "{ran:?}"
    );
    Ok(())
}

/// A read-only disk and another user's store are problems, in spite of which builds work, and doctor writes to neither.
fn unusable_stores() -> Result<(), Failed> {
    let place = Place::untouched();
    let store = place.path("cache");
    let disk = Mounted::new(&store, "size=1m").unwrap();
    let doctor =
        |args: &[&str]| place.run(&[&["doctor", "--format", "json"], args].concat()).ended_with(0).json();
    let row = |json: &serde_json::Value, name: &str| {
        let checks = json["checks"].as_array().unwrap();
        checks.iter().find(|row| row["check"] == name).map(ToString::to_string).unwrap_or_default()
    };
    let small = doctor(&[]);
    assert!(
        row(&small, "permissions").contains("\"ok\"") && row(&small, "locks").contains("\"ok\""),
        "{small}"
    );
    assert!(row(&small, "file system").contains("tmpfs, 1.0 MiB free"), "{small}");
    disk.remount("ro");
    let read_only = doctor(&[]);
    assert!(
        row(&read_only, "permissions").contains("nothing can be stored: Read-only file system"),
        "{read_only}"
    );
    assert!(row(&read_only, "file system").contains("read-only") && row(&read_only, "locks").is_empty());
    drop(disk);

    place.run(&["build", SQUARE]).ended_with(0);
    let status = Command::new("chown").args(["-R", "12345"]).arg(&store).status();
    assert!(status.unwrap().success());
    let foreign = row(&doctor(&[]), "store");
    assert!(
        foreign.contains("\"problem\"") && foreign.contains("--trusted-owner 12345 trusts that user"),
        "{foreign}"
    );
    let trusted = row(&doctor(&["--trusted-owner", "12345"]), "store");
    assert!(trusted.contains("\"ok\"") && trusted.contains("1 target"), "{trusted}");
    // Of one target only, too.
    let status = Command::new("chown").args(["-R", "0"]).arg(&store).status();
    assert!(status.unwrap().success());
    let status = Command::new("chown")
        .arg("12345")
        .arg(store.join("v1").join(format!("cpu-{}", std::env::consts::ARCH)))
        .status();
    assert!(status.unwrap().success());
    let untrusted = doctor(&[]).to_string();
    assert!(
        untrusted.contains("are built and not kept") && untrusted.contains("--trusted-owner 12345 trusts"),
        "{untrusted}"
    );
    Ok(())
}

/// In a directory such as `/tmp`, or of another user, a file of settings may be a trap: it decides which compiler runs.
fn foreign_settings() -> Result<(), Failed> {
    let place = Place::untouched();
    let own = |path: &Path, uid: u32| {
        assert!(Command::new("chown").args(["-h", &uid.to_string()]).arg(path).status().unwrap().success());
    };
    let mode = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let shared = place.path("shared");
    let file = place.write("shared/opkeep.toml", "store.dir = \"trap\"\n[compiler]\ncc = \"./trap.sh\"\n");
    let stats = |env: &[(&str, &str)]| {
        let mut command = place.command(&["stats", "--format", "json"]);
        let home = place.path("home");
        command.current_dir(&shared).env_remove("OPKEEP_CONFIG").env_remove("OPKEEP_CACHE_DIR");
        crate::common::ran(command.env("HOME", home).envs(env.iter().copied()))
    };
    let root = |ran: &crate::common::Ran| ran.json()["root"].as_str().unwrap_or_default().to_owned();
    let default = place.path("home/.cache/opkeep").display().to_string();
    // Another user's file in everyone's directory; this user's file in another user's directory; another user's link to a file of
    // this user.
    let link = |at: &Path| {
        std::fs::rename(at, place.path("elsewhere.toml")).unwrap();
        std::os::unix::fs::symlink(place.path("elsewhere.toml"), at).unwrap();
    };
    for (dir_mode, dir_owner, file_owner, is_link) in
        [(0o1777, 0, 12345, false), (0o755, 12345, 0, false), (0o1777, 0, 12345, true)]
    {
        if is_link {
            own(&file, 0);
            link(&file);
        }
        own(&file, file_owner);
        own(&shared, dir_owner);
        mode(&shared, dir_mode);
        let ran =
            stats(&[]).ended_with(0).says("does not count: the owner of").says("12345, expected 0 or root");
        assert_eq!(root(&ran), default);
        let trusted = stats(&[("OPKEEP_TRUSTED_PROJECTS", shared.to_str().unwrap())]).ended_with(0);
        assert_eq!(root(&trusted), shared.join("trap").display().to_string());
        let named = stats(&[("OPKEEP_CONFIG", file.to_str().unwrap())]).ended_with(0);
        assert_eq!(root(&named), shared.join("trap").display().to_string());
    }
    // This user's own file in everyone's directory counts: its keys that decide which code runs are errors.
    own(&file, 0);
    stats(&[]).ended_with(2).says("`store.dir` decides which code runs");
    Ok(())
}

/// All users share `/tmp`: a directory of our name that another user created is not touched.
fn foreign_temporary() -> Result<(), Failed> {
    let place = Place::untouched();
    let trap = place.path("tmp/opkeep-0");
    std::fs::create_dir(&trap).unwrap();
    let status = Command::new("chown").arg("12345").arg(&trap).status();
    assert!(status.unwrap().success());
    place.run(&["build", SQUARE]).ended_with(0);
    assert!(crate::common::files(&trap).is_empty());
    Ok(())
}

/// An unreadable directory counts once for all named paths; a path that was not read completely may hold
/// kernels.
fn closed_in_cache() -> Result<(), Failed> {
    let place = Place::untouched();
    let open = |path: &Path, mode| {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    for run in ["one", "two", "three"] {
        std::fs::create_dir_all(place.path(run).join("akg_kernel_meta")).unwrap();
    }
    std::fs::create_dir(place.path("one/akg_kernel_meta/akg")).unwrap();
    open(&place.path("one/akg_kernel_meta/akg"), 0o700);
    std::fs::create_dir(place.path("two/closed")).unwrap();
    open(&place.path("two/closed"), 0o700);
    open(place.dir.path(), 0o755);
    // Other users may lack access to the directory of the program.
    let program = place.path("opkeep");
    std::fs::copy(env!("CARGO_BIN_EXE_opkeep"), &program).unwrap();
    let mut verify = Command::new(program);
    verify.args(["verify", "one", "two", "three", "--format", "json"]).current_dir(place.dir.path());
    let output = std::os::unix::process::CommandExt::uid(&mut verify, 65534).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    for line in ["one/akg_kernel_meta/akg", "two/closed", "there is no kernel file in `three`"] {
        assert_eq!(stderr.matches(line).count(), 1, "{line}: {output:?}");
    }
    assert_eq!(json["unusable"], 3, "{output:?}");
    Ok(())
}

/// A file of a pseudo file system is neither a model nor a kernel, whatever its name.
fn pseudo_in_tree() -> Result<(), Failed> {
    let place = Place::untouched();
    let kinds = ["mqueue", "hugetlbfs", "proc", "sysfs", "devpts"];
    let mounted: Vec<_> =
        kinds.iter().filter_map(|kind| Mounted::of(kind, &place.path(&format!("tree/{kind}")))).collect();
    // These two allow new files.
    let mut traps = 0;
    for kind in ["mqueue", "hugetlbfs"] {
        traps += usize::from(std::fs::write(place.path(&format!("tree/{kind}/trap.info")), "").is_ok());
        let _ = std::fs::create_dir(place.path(&format!("tree/{kind}/kernel_meta")));
    }
    assert!(traps > 0 && mounted.len() > 1, "nothing to fall into");
    let volume = Mounted::new(&place.path("tree/a/volume"), "size=1m").ok_or("mount")?;
    place.write("tree/a/volume/net/square.info", square_of(3));
    let ran = place.run(&["build", "tree", "--format", "json"]).ended_with(0);
    assert_eq!((ran.count("kernels"), ran.count("failed")), (1, 0), "{ran:?}");
    assert!(!ran.stderr.contains("tree/"), "{ran:?}");
    place.run(&["explain", "tree"]).ended_with(0);
    // Caches of frameworks are not searched there, but on a mounted volume.
    opkeep_testkit::caches::Rank::new(0)
        .square(3)
        .write(&place.path("tree/a/volume/rank_0/kernel_meta"))
        .unwrap();
    let ran = place.run(&["import", "tree", "--format", "json"]);
    let caches = ran.json()["caches"].as_array().unwrap().len();
    assert!(caches == 1 && !ran.stderr.contains("tree/"), "{ran:?}");
    for kind in kinds.iter().take(mounted.len()) {
        let named = format!("tree/{kind}");
        if mounted.iter().any(|mounted| mounted.0 == place.path(&named)) {
            place.run(&["build", &named]).ended_with(2).says(&format!("pseudo file system {kind}"));
            place.run(&["import", &named]).ended_with(2).says(&format!("pseudo file system {kind}"));
        }
    }
    drop((mounted, volume));
    Ok(())
}

/// An unreadable directory is reported under each of its names, and beside readable ones.
fn closed_in_tree() -> Result<(), Failed> {
    let place = Place::untouched();
    place.write("tree/square.info", square_of(3));
    place.write("tree/closed/four.info", square_of(4));
    std::fs::create_dir_all(place.path("tree/rank_0")).unwrap();
    let open = |path: &str, mode| {
        std::fs::set_permissions(place.path(path), std::os::unix::fs::PermissionsExt::from_mode(mode))
            .unwrap();
    };
    open("tree/closed", 0o700);
    open("tmp", 0o777);
    std::fs::set_permissions(place.dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let program = place.path("opkeep");
    std::fs::copy(env!("CARGO_BIN_EXE_opkeep"), &program).unwrap();
    for command in ["build", "explain", "import"] {
        let mut run = Command::new(&program);
        run.args([command, "tree", "./tree", "tree/../tree", "tree/closed"]).current_dir(place.dir.path());
        run.env("TMPDIR", place.path("tmp")).env("OPKEEP_CACHE_DIR", place.path("cache"));
        let output = std::os::unix::process::CommandExt::uid(&mut run, 65534).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let reported = said.matches("closed").count();
        assert!(output.status.code() == Some(2) && reported == 1, "{command}: {output:?}");
    }
    Ok(())
}
