//! Kernels are compiled from the files that their keys cover, by any means of the host; a kernel that needs more is
//! refused by name.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::common::{Place, Ran, files};
use opkeep_testkit::{Means, without_means};

/// A host that has all means, and hosts that lack some, with the reported means of each.
const HOSTS: [(&[Means], &str); 4] = [
    (&[], "compiles are confined by Landlock:"),
    (&[Means::Landlock], "compiles are observed by seccomp ("),
    (&[Means::Notification], "compiles are confined by Landlock ("),
    (&[Means::Landlock, Means::Notification], "compiles are checked by dependency files ("),
];

/// Builds the network of two kernels.
fn build(place: &Place, cc: &str, lacks: &[Means], args: &[&str]) -> Ran {
    let mut command =
        place.command(&[&["build", "net", "--format", "json", "--no-kernel-meta"], args].concat());
    run(command.env("CC", cc), lacks)
}

fn run(command: &mut Command, lacks: &[Means]) -> Ran {
    if !lacks.is_empty() {
        without_means(command, lacks);
    }
    crate::common::ran(command)
}

fn place() -> Place {
    let place = Place::untouched();
    crate::common::crowd::network(&place, 2);
    place
}

/// gcc with another header before each source, which includes a second one.
fn gcc_with_headers(place: &Place) -> (String, std::path::PathBuf) {
    place.write("a.h", "#include \"b.h\"\n");
    let nested = place.write("b.h", "#define VERSION 1\n");
    (format!("gcc -include {}", place.path("a.h").display()), nested)
}

#[test]
fn hosts_report_how_kernels_are_confined() {
    let place = Place::untouched();
    for (lacks, says) in HOSTS {
        let ran = run(place.command(&["targets"]).env("CC", "gcc"), lacks);
        assert!(ran.stdout.contains(says), "{says}: {ran:?}");
    }
}

#[test]
fn nested_headers_count_on_every_host() {
    for (lacks, says) in HOSTS {
        let place = place();
        let (cc, nested) = gcc_with_headers(&place);
        assert_eq!(build(&place, &cc, lacks, &[]).ended_with(0).count("compiled"), 2, "{says}");
        assert_eq!(build(&place, &cc, lacks, &[]).ended_with(0).count("reused"), 2, "{says}");
        std::fs::write(&nested, "#define VERSION 2\n").unwrap();
        assert_eq!(build(&place, &cc, lacks, &[]).ended_with(0).count("compiled"), 2, "{says}");
    }
}

/// A store is shared by hosts with other kernels and other limits on containers.
#[test]
fn hosts_that_observe_have_the_same_keys() {
    for cc in ["gcc", "headers", "script"] {
        let place = place();
        let cc = match cc {
            "headers" => gcc_with_headers(&place).0,
            "script" => place.script("own-cc", "exec gcc \"$@\"").display().to_string(),
            gcc => gcc.to_owned(),
        };
        for (at, (lacks, says)) in HOSTS[..2].iter().enumerate() {
            // The files that another host remembers do not exist here.
            let tmp = place.path(&format!("tmp-{at}"));
            std::fs::create_dir(&tmp).unwrap();
            let mut command = place.command(&["build", "net", "--format", "json", "--no-kernel-meta"]);
            let ran = run(command.env("CC", &cc).env("TMPDIR", &tmp), lacks).ended_with(0);
            assert_eq!(ran.count(if at == 0 { "compiled" } else { "reused" }), 2, "{cc}, {says}: {ran:?}");
        }
    }
}

/// A wrapper that reads a file for some kernels only.
fn wrapper(place: &Place, reads: &str) -> String {
    let flags = place.write("flags", "-O1\n");
    let body = format!(
        "cat /dev/null\n\
         case \"$PWD\" in */probe-*) exec gcc \"$@\";; esac\n\
         case \"$*\" in *kernel.c*) {};; esac\n\
         exec gcc $more \"$@\"",
        reads.replace("FLAGS", &flags.display().to_string())
    );
    place.script("wrapped-cc", &body).display().to_string()
}

#[test]
fn files_that_only_some_kernels_read_are_refused_by_name_and_can_be_declared() {
    for reads in ["more=$(cat FLAGS) || exit 1", ". FLAGS", "read more < FLAGS || exit 1"] {
        for (lacks, says) in &HOSTS[..2] {
            let place = place();
            let cc = wrapper(&place, reads);
            let ran = build(&place, &cc, lacks, &[]).ended_with(1);
            assert_eq!(ran.count("failed"), 2, "{reads}, {says}: {ran:?}");
            let flags = place.path("flags").display().to_string();
            assert!(ran.stdout.contains(&flags) && ran.stdout.contains("--toolchain-input"), "{ran:?}");
            if reads.starts_with('.') {
                continue;
            }
            let declared = ["--toolchain-input", flags.as_str()];
            assert_eq!(build(&place, &cc, lacks, &declared).ended_with(0).count("compiled"), 2, "{says}");
            assert_eq!(build(&place, &cc, lacks, &declared).ended_with(0).count("reused"), 2, "{says}");
            std::fs::write(&flags, "-O2\n").unwrap();
            assert_eq!(build(&place, &cc, lacks, &declared).ended_with(0).count("compiled"), 2, "{says}");
        }
    }
}

/// A compiler without a wrapper is confined only: its assembler is denied a file that the probe's sources do not include.
#[test]
fn files_that_a_compiler_reads_for_some_kernels_are_refused_and_can_be_declared() {
    for (lacks, says) in &HOSTS[..3] {
        let place = place();
        let flags = place.write("flags", "1").display().to_string();
        // Generated kernels have an inline function, sources of probes do not.
        let header = format!(
            "#define inline __attribute__((unused)) int unused(void); __asm__(\".section .rodata\\n.incbin \\\"{flags}\\\"\\n.text\"); static\n"
        );
        let cc = format!("gcc -include {}", place.write("a.h", &header).display());
        let ran = build(&place, &cc, lacks, &[]).ended_with(1);
        assert_eq!(ran.count("failed"), 2, "{says}: {ran:?}");
        // Where nothing can be observed, the assembler names it.
        let helps = ran.stdout.contains("--toolchain-input") || lacks.contains(&Means::Notification);
        assert!(ran.stdout.contains(&flags) && helps, "{says}: {ran:?}");
        let declared = ["--toolchain-input", flags.as_str()];
        let count = |what| build(&place, &cc, lacks, &declared).ended_with(0).count(what);
        assert_eq!((count("compiled"), count("reused")), (2, 2), "{says}");
        std::fs::write(&flags, "2").unwrap();
        assert_eq!((count("compiled"), count("reused")), (2, 2), "{says}");
    }
}

/// A denied program is not run, and the files that it would have read are reported with it.
#[test]
fn programs_of_a_wrapper_are_named_with_the_files_that_they_read() {
    for (lacks, says) in &HOSTS[..2] {
        let place = place();
        let cc = wrapper(&place, "more=$(head -c 3 FLAGS)");
        let ran = build(&place, &cc, lacks, &[]).ended_with(1);
        let flags = place.path("flags").display().to_string();
        let named = ran.stdout.contains(&flags) && ran.stdout.contains("/head`");
        assert!(named && ran.stdout.contains("start it by its full path"), "{says}: {ran:?}");
    }
}

/// A compile changes a header before it reads it; the header then includes another one, which no key covers.
#[test]
fn a_toolchain_that_changes_while_it_compiles_is_probed_again() {
    for (lacks, says) in &HOSTS[..2] {
        let place = place();
        let (header, new) = (place.write("a.h", ""), place.write("new", "#include \"c.h\"\n"));
        place.write("c.h", "#define VERSION 2\n");
        let (header, new) = (header.display(), new.display());
        let body = format!(
            "old=$(cat {header}); new=$(cat {new})\n\
             case \"$PWD:$*\" in */probe-*) ;; *kernel.c*) [ \"$old\" = \"$new\" ] || echo \"$new\" > {header};; esac\n\
             exec gcc \"$@\" -include {header}"
        );
        let cc = place.script("moving-cc", &body).display().to_string();
        let ran = build(&place, &cc, lacks, &["--jobs", "1"]).ended_with(0);
        assert_eq!(ran.count("compiled"), 2, "{says}: {ran:?}");
        // A kernel that was compiled with another header than that of its key is not stored.
        assert_eq!(place.entries().len(), 0, "{says}: {ran:?}");
        assert_eq!(build(&place, &cc, lacks, &[]).ended_with(0).count("compiled"), 2, "{says}");
        assert_eq!(build(&place, &cc, lacks, &[]).ended_with(0).count("reused"), 2, "{says}");
    }
}

/// A compiler whose object changes under Landlock is not confined by Landlock.
#[test]
fn a_compiler_that_landlock_changes_is_observed_instead() {
    let place = place();
    // A process in a domain may not look at one outside.
    let body = "more=-O1\nreadlink /proc/$PPID/cwd > /dev/null 2>&1 || more=-O0\nexec gcc \"$@\" $more";
    let cc = place.script("other-cc", body).display().to_string();
    let ran = run(place.command(&["targets"]).env("CC", &cc), &[]);
    let says = "compiles are observed by seccomp (in a domain the compiler makes other objects)";
    assert!(ran.stdout.contains(says), "{ran:?}");
}

/// The result of the probe is stored for the user of the machine, and checked without the compiler.
#[test]
fn a_later_process_starts_no_compiler() {
    let place = place();
    let alone = || build(&place, "gcc", &[Means::Processes], &[]);
    assert_ne!(alone().code, Some(0), "nothing can be compiled without a process");
    build(&place, "gcc", &[], &[]).ended_with(0);
    assert_eq!(alone().ended_with(0).count("reused"), 2);
}

/// Generated C needs no header, so gcc's implicit one is not read, and does not count.
#[test]
fn the_implicit_header_counts_only_beside_headers_of_the_users() {
    let reads = |cc: &str, place: &Place| {
        build(place, cc, &[], &[]).ended_with(0);
        let answers = files(&place.path("tmp")).into_iter().map(|path| std::fs::read(path).unwrap());
        String::from_utf8_lossy(&answers.collect::<Vec<_>>().concat()).into_owned()
    };
    let plain = reads("gcc", &place());
    assert!(plain.contains("/cc1") && !plain.contains("stdc-predef.h"), "{plain}");
    let place = place();
    let (cc, _) = gcc_with_headers(&place);
    assert!(reads(&cc, &place).contains("stdc-predef.h"));
}

/// A wrapper that ignores a denial would compile another kernel than without confinement.
#[test]
fn silently_denied_files_are_refused_by_name() {
    for (lacks, says) in &HOSTS[..2] {
        let place = place();
        let cc = wrapper(&place, "more=$(cat FLAGS 2> /dev/null)");
        let ran = build(&place, &cc, lacks, &[]).ended_with(1);
        let flags = place.path("flags").display().to_string();
        assert_eq!(ran.count("failed"), 2, "{says}: {ran:?}");
        assert!(ran.stdout.contains(&flags), "{says}: {ran:?}");
    }
}

/// Landlock does not deny `stat`, so compiles with a wrapper are also observed.
#[test]
fn files_that_only_some_kernels_stat_are_refused_and_can_be_declared() {
    for looks in ["[ -s FLAGS ] && more=-O1", "[ -x FLAGS ] || more=-O1"] {
        for (lacks, says) in &HOSTS[..2] {
            let place = place();
            let cc = wrapper(&place, looks);
            let ran = build(&place, &cc, lacks, &[]).ended_with(1);
            let flags = place.path("flags").display().to_string();
            assert_eq!(ran.count("failed"), 2, "{looks}, {says}: {ran:?}");
            assert!(ran.stdout.contains(&flags) && ran.stdout.contains("--toolchain-input"), "{ran:?}");
            let declared = ["--toolchain-input", flags.as_str()];
            assert_eq!(build(&place, &cc, lacks, &declared).ended_with(0).count("compiled"), 2, "{says}");
            assert_eq!(build(&place, &cc, lacks, &declared).ended_with(0).count("reused"), 2, "{says}");
            // Then a file whose status it requests counts.
            std::fs::set_permissions(&flags, Permissions::from_mode(0o755)).unwrap();
            assert_eq!(build(&place, &cc, lacks, &declared).ended_with(0).count("compiled"), 2, "{says}");
        }
    }
}

/// If the file does not exist, its directory can be declared.
#[test]
fn files_that_only_some_kernels_miss_are_refused_and_their_directory_can_be_declared() {
    let place = place();
    std::fs::create_dir(place.path("settings")).unwrap();
    let settings = place.path("settings").display().to_string();
    let cc = wrapper(
        &place,
        &format!("[ -e '{settings}/marked' ] && more=-O1; [ -d '{settings}/sub' ] && more=-O1"),
    );
    let ran = build(&place, &cc, &[], &[]).ended_with(1);
    assert!(ran.stdout.contains("for a path that does not exist, declare its directory"), "{ran:?}");
    let declared = ["--toolchain-input", settings.as_str()];
    let count = |what| build(&place, &cc, &[], &declared).ended_with(0).count(what);
    assert_eq!((count("compiled"), count("reused")), (2, 2));
    std::fs::create_dir(place.path("settings/sub")).unwrap();
    assert_eq!((count("compiled"), count("reused")), (2, 2));
    place.write("settings/marked", "");
    assert_eq!((count("compiled"), count("reused")), (2, 2));
}

/// Wrappers that are binaries are treated like scripts.
#[test]
fn programs_that_run_a_compiler_are_observed_like_scripts() {
    let place = place();
    let source = place.write(
        "wrapper.c",
        "#include <stdio.h>\n#include <string.h>\n#include <unistd.h>\n\
         int main(int count, char **words) {\n\
             char at[4096];\n\
             if (getcwd(at, sizeof at) && !strstr(at, \"/probe-\"))\n\
                 access(FLAGS, F_OK);\n\
             (void)count; words[0] = \"gcc\"; execvp(\"gcc\", words); return 1; }\n",
    );
    let (cc, flags) = (place.path("wrapped"), place.path("flags"));
    let mut gcc = Command::new("gcc");
    gcc.arg(format!("-DFLAGS=\"{}\"", flags.display())).arg("-o").arg(&cc).arg(source);
    assert!(gcc.status().unwrap().success());
    let cc = cc.display().to_string();
    for (lacks, says) in &HOSTS[..2] {
        let ran = build(&place, &cc, lacks, &[]).ended_with(1);
        assert!(ran.stdout.contains(&flags.display().to_string()), "{says}: {ran:?}");
    }
    // Here nothing observes which files it looks for.
    for (lacks, says) in &HOSTS[2..] {
        let ran = build(&place, &cc, lacks, &[]).ended_with(0);
        assert_eq!((ran.count("compiled"), place.entries().len()), (2, 0), "{says}: {ran:?}");
    }
}

/// Without an observer the files that a script reads are unknown: it compiles, and nothing is stored.
#[test]
fn nothing_of_a_script_is_stored_without_an_observer() {
    let place = place();
    let cc = place.script("wrapped-cc", "exec gcc \"$@\"").display().to_string();
    for _ in 0..2 {
        let ran = build(&place, &cc, &[Means::Landlock, Means::Notification], &[]).ended_with(0);
        assert_eq!((ran.count("compiled"), place.entries().len()), (2, 0), "{ran:?}");
        assert!(ran.stderr.contains("not kept"), "{ran:?}");
    }
}

/// A shortage of file descriptors is no property of the host, so it is not remembered.
#[test]
fn a_shortage_of_file_descriptors_is_not_remembered() {
    for limit in (20..30).step_by(2) {
        let place = place();
        let mut short = Command::new("sh");
        let targets = place.command(&["targets"]);
        short.args(["-c", &format!("ulimit -n {limit}; exec \"$0\" targets")]).arg(targets.get_program());
        short.envs(targets.get_envs().filter_map(|(name, value)| Some((name, value?)))).env("CC", "gcc");
        let ran = crate::common::ran(&mut short);
        let confined = "compiles are confined by Landlock: ";
        let refused = ran.stdout.contains("Too many open files") && !ran.stdout.contains("compiles are");
        assert!(refused || ran.stdout.contains(confined), "{limit}: {ran:?}");
        let ran = run(place.command(&["targets"]).env("CC", "gcc"), &[]);
        assert!(ran.stdout.contains(confined), "{limit}: {ran:?}");
    }
}

#[test]
fn launchers_are_omitted_and_reported() {
    let place = place();
    for name in ["ccache", "sccache", "distcc", "icecc"] {
        let bin = place.path(&format!("{name}-bin"));
        let says = "echo 'a launcher ran' > \"$(dirname \"$0\")/ran\"; exec \"$@\"";
        let launcher = place.script(&format!("{name}-bin/{name}"), says);
        for masquerade in ["gcc", "cc"] {
            std::os::unix::fs::symlink(&launcher, bin.join(masquerade)).unwrap();
        }
        let is_left_out = |ran: Ran, program: &str| {
            assert!(ran.stderr.contains(&format!("{program}` is left out")), "{ran:?}");
            assert!(!bin.join("ran").exists());
        };
        let before = format!("{} gcc", launcher.display());
        is_left_out(build(&place, &before, &[], &[]).ended_with(0), &format!("{name}-bin/{name}"));
        let link = bin.join("gcc").display().to_string();
        is_left_out(build(&place, &link, &[], &[]).ended_with(0), &link);
        // Without CC, the first `cc` on the path.
        let mut path = bin.clone().into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap());
        let mut command = place.command(&["build", "net", "--format", "json", "--no-kernel-meta"]);
        let link = bin.join("cc").display().to_string();
        is_left_out(run(command.env("PATH", path), &[]).ended_with(0), &link);
    }
    // Only the compiler counts.
    assert_eq!(build(&place, "gcc", &[], &[]).ended_with(0).count("reused"), 2);
}

#[test]
fn words_that_are_no_options_are_refused() {
    let place = place();
    for (cc, word) in [("gcc other.c", "`other.c`"), ("gcc -O1 -o x", "`-o`"), ("env A=1 gcc", "`A=1`")] {
        let ran = build(&place, cc, &[], &[]);
        assert_ne!(ran.code, Some(0));
        let all = format!("{}{}", ran.stdout, ran.stderr);
        assert!(all.contains(word) && all.contains("put anything else into a script"), "{cc}: {all}");
    }
}

/// All text of a word of CC counts, also if part of it names a file.
#[test]
fn words_that_name_files_keep_the_rest_of_their_text() {
    let place = place();
    let file = place.write("file", "");
    let with = |text: &str| format!("gcc -DPATH_AND={}{text}", file.display());
    assert_eq!(build(&place, &with(":1"), &[], &[]).ended_with(0).count("compiled"), 2);
    assert_eq!(build(&place, &with(":1"), &[], &[]).ended_with(0).count("reused"), 2);
    assert_eq!(build(&place, &with(":2"), &[], &[]).ended_with(0).count("compiled"), 2);
}

#[test]
fn odd_temporary_directories_hit_and_stay_clean() {
    for name in ["a=b", "with space", "comma,colon:", "semi;quote'", "tilde~@file", "-L", "back\\slash"] {
        let place = place();
        let temporary = place.path(name);
        std::fs::create_dir(&temporary).unwrap();
        let build = |outcome| {
            let mut command = place.command(&["build", "net", "--format", "json", "--no-kernel-meta"]);
            let ran = run(command.env("TMPDIR", &temporary), &[]).ended_with(0);
            assert_eq!(ran.count(outcome), 2, "`{name}`: {ran:?}");
        };
        build("compiled");
        build("reused");
        let left: Vec<_> =
            std::fs::read_dir(&temporary).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(left.iter().all(|path| is_ours(path)), "`{name}`: {left:?}");
    }
}

#[test]
fn a_temporary_directory_may_be_named_from_here() {
    for name in ["tmp", ".", ""] {
        let place = place();
        for outcome in ["compiled", "reused"] {
            let mut command = place.command(&["build", "net", "--format", "json", "--no-kernel-meta"]);
            let ran = run(command.env("TMPDIR", name), &[]).ended_with(0);
            assert_eq!(ran.count(outcome), 2, "`{name}`: {ran:?}");
        }
    }
}

fn is_ours(path: &Path) -> bool {
    path.file_name().unwrap().to_str().unwrap().starts_with("opkeep-")
        && !path.to_str().unwrap().contains("probe")
}
