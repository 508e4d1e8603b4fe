//! Surroundings that no kernel can depend on: environment, directories, remembered state of earlier builds, order.

use std::io;

use crate::case::{Call, Case, HARMLESS, Need};
use crate::disk;
use crate::place::Place;
use crate::system::flag;

/// Gcc with a nested header and a library, behind a wrapper.
fn wrapper(place: &Place) -> io::Result<Call> {
    place.write("a.h", "#include \"b.h\"\n")?;
    place.header("b.h", 1)?;
    place.part("libm_1.a", "lib/libm.a")?;
    place.wrapper("cc", "", "-include \"$T/a.h\" -L\"$T/lib\"")?;
    // Compilers would use it if they got the variables that name it.
    place.header("other/stdc-predef.h", 3)?;
    place.header("other/b.h", 3)?;
    place.part("libm_2.a", "other/libm.a")?;
    place.write("other/settings", format!("more={}\n", flag(3)))?;
    Ok(Call::cc(place.text("cc")))
}

/// Sets a variable to the directory `other`.
fn set(place: &Place, call: &mut Call, name: &'static str) -> io::Result<()> {
    call.env.push((name, place.text("other")));
    Ok(())
}

/// Plain gcc.
fn plain(_: &Place) -> io::Result<Call> {
    Ok(Call::cc("gcc"))
}

pub(super) const CASES: &[Case] = &[
    Case {
        name: "cpath",
        about: "CPATH names a directory of headers",
        setup: wrapper,
        change: |place, call| set(place, call, "CPATH"),
        ..HARMLESS
    },
    Case {
        name: "c_include_path",
        about: "C_INCLUDE_PATH names a directory of headers",
        setup: wrapper,
        change: |place, call| set(place, call, "C_INCLUDE_PATH"),
        ..HARMLESS
    },
    Case {
        name: "library_path",
        about: "LIBRARY_PATH names a directory with another libm.a",
        setup: plain,
        change: |place, call| {
            place.part("libm_2.a", "other/libm.a")?;
            set(place, call, "LIBRARY_PATH")
        },
        ..HARMLESS
    },
    Case {
        name: "ld_library_path",
        about: "LD_LIBRARY_PATH names a directory",
        setup: wrapper,
        change: |place, call| set(place, call, "LD_LIBRARY_PATH"),
        ..HARMLESS
    },
    Case {
        name: "compiler_path",
        about: "COMPILER_PATH names a directory with another linker",
        setup: plain,
        change: |place, call| {
            place.script("other/ld", "/bin/sh", "exit 1")?;
            set(place, call, "COMPILER_PATH")
        },
        ..HARMLESS
    },
    Case {
        name: "gcc_exec_prefix",
        about: "GCC_EXEC_PREFIX names a directory",
        setup: wrapper,
        change: |place, call| set(place, call, "GCC_EXEC_PREFIX"),
        ..HARMLESS
    },
    Case {
        name: "startup_files_of_shells",
        about: "ENV and BASH_ENV name a script",
        setup: wrapper,
        change: |place, call| {
            call.env.push(("ENV", place.text("other/settings")));
            call.env.push(("BASH_ENV", place.text("other/settings")));
            Ok(())
        },
        ..HARMLESS
    },
    Case {
        name: "modules_of_interpreters",
        about: "PYTHONPATH and PERL5LIB name a directory",
        setup: wrapper,
        change: |place, call| {
            set(place, call, "PYTHONPATH")?;
            set(place, call, "PERL5LIB")
        },
        ..HARMLESS
    },
    Case {
        name: "flags_of_builds",
        about: "CFLAGS, LDFLAGS, CPPFLAGS and MAKEFLAGS are set",
        setup: plain,
        change: |_, call| {
            for name in ["CFLAGS", "CPPFLAGS", "LDFLAGS", "MAKEFLAGS"] {
                call.env.push((name, "-O0 -Wl,-soname,m3".to_owned()));
            }
            Ok(())
        },
        ..HARMLESS
    },
    Case {
        name: "options_in_the_environment",
        about: "CCC_OVERRIDE_OPTIONS, GCC_COLORS and DEPENDENCIES_OUTPUT are set",
        setup: plain,
        change: |place, call| {
            call.env.push(("CCC_OVERRIDE_OPTIONS", "# +-O0".to_owned()));
            call.env.push(("GCC_COLORS", "error=01;31".to_owned()));
            call.env.push(("DEPENDENCIES_OUTPUT", place.text("dependencies")));
            Ok(())
        },
        ..HARMLESS
    },
    Case {
        name: "language",
        about: "LANG, LANGUAGE and LC_ALL are set",
        setup: plain,
        change: |_, call| {
            for name in ["LANG", "LANGUAGE", "LC_ALL", "LC_MESSAGES"] {
                call.env.push((name, "de_DE.UTF-8".to_owned()));
            }
            Ok(())
        },
        ..HARMLESS
    },
    Case {
        name: "time_and_zone",
        about: "TZ and SOURCE_DATE_EPOCH are set",
        setup: plain,
        change: |_, call| {
            call.env.push(("TZ", "Asia/Shanghai".to_owned()));
            call.env.push(("SOURCE_DATE_EPOCH", "86400".to_owned()));
            Ok(())
        },
        ..HARMLESS
    },
    Case {
        name: "user_and_terminal",
        about: "USER, LOGNAME, TERM and SHELL are set",
        setup: plain,
        change: |_, call| {
            for name in ["USER", "LOGNAME", "TERM", "SHELL"] {
                call.env.push((name, "other".to_owned()));
            }
            Ok(())
        },
        ..HARMLESS
    },
    Case {
        name: "home_directory",
        about: "HOME is another directory, with configuration in it",
        setup: wrapper,
        change: |place, call| {
            place.write("other/.config/clang/clang.cfg", "-O0\n")?;
            place.write("other/.profile", "exit 1\n")?;
            set(place, call, "HOME")
        },
        ..HARMLESS
    },
    Case {
        name: "files_in_the_home_directory",
        about: "files appear in HOME",
        setup: wrapper,
        change: |place, _| disk::write(&place.world("s").join("home/.llvm/clang.cfg"), "-O0\n"),
        ..HARMLESS
    },
    Case {
        name: "other_working_directory",
        about: "opkeep is started in another directory, with files of searched names",
        setup: wrapper,
        change: |place, call| {
            place.write("cwd/b.h", "#error no\n")?;
            place.write("cwd/specs", "no specs\n")?;
            place.part("libm_2.a", "cwd/libm.a")?;
            call.cwd = Some(place.path("cwd"));
            Ok(())
        },
        ..HARMLESS
    },
    Case {
        name: "other_temporary_directory",
        about: "TMPDIR is another directory: nothing is remembered there",
        setup: wrapper,
        change: |place, call| {
            disk::directory(&place.path("tmp"))?;
            call.tmp = Some(place.path("tmp"));
            Ok(())
        },
        ..HARMLESS
    },
    Case {
        name: "temporary_directory_with_odd_letters",
        about: "TMPDIR has a space, a quote and an equals sign in it",
        setup: wrapper,
        change: |place, call| {
            disk::directory(&place.path("t m'p=x"))?;
            call.tmp = Some(place.path("t m'p=x"));
            Ok(())
        },
        ..HARMLESS
    },
    Case {
        name: "files_in_the_temporary_directory",
        about: "files and directories appear in TMPDIR",
        setup: wrapper,
        change: |place, _| {
            let tmp = place.world("s").join("tmp");
            disk::write(&tmp.join("cc123456.s"), "text")?;
            disk::write(&tmp.join("other/b.h"), "#error no\n")
        },
        ..HARMLESS
    },
    Case {
        name: "memory_is_lost",
        about: "everything that opkeep keeps in TMPDIR is removed",
        setup: wrapper,
        change: |place, _| {
            disk::entries(&place.world("s").join("tmp")).iter().try_for_each(|path| disk::remove(path))
        },
        ..HARMLESS
    },
    Case {
        name: "memory_is_damaged",
        about: "all files that opkeep keeps in TMPDIR have other bytes",
        setup: wrapper,
        change: |place, _| {
            let tree = disk::tree(&place.world("s").join("tmp"));
            let mut files = tree.iter().filter(|path| disk::is_file(path));
            files.try_for_each(|path| disk::write(path, "\0\u{1}damaged\n"))
        },
        ..HARMLESS
    },
    Case {
        name: "memory_is_cut_off",
        about: "all files that opkeep keeps in TMPDIR lose their last half",
        setup: wrapper,
        change: |place, _| {
            let tree = disk::tree(&place.world("s").join("tmp"));
            let mut files = tree.iter().filter(|path| disk::is_file(path));
            files.try_for_each(|path| {
                let bytes = disk::read(path)?;
                disk::write(path, &bytes[..bytes.len() / 2])
            })
        },
        ..HARMLESS
    },
    Case {
        name: "unrelated_directories_in_path",
        about: "PATH begins with directories of unrelated programs",
        setup: wrapper,
        change: |place, call| {
            place.program("bin/unrelated", "#!/bin/sh\nexit 1\n")?;
            call.path = vec![place.text("bin"), place.text("missing")];
            Ok(())
        },
        ..HARMLESS
    },
    Case {
        name: "order_of_unrelated_directories_in_path",
        about: "PATH has two directories of unrelated programs in the other order",
        setup: |place| {
            place.program("one/unrelated", "#!/bin/sh\nexit 1\n")?;
            place.program("two/unrelated", "#!/bin/sh\nexit 2\n")?;
            Ok(wrapper(place)?.with_path(place.text("one")).with_path(place.text("two")))
        },
        change: |_, call| {
            call.path.reverse();
            Ok(())
        },
        ..HARMLESS
    },
    Case {
        name: "unrelated_program_in_path_appears",
        about: "an unrelated program appears in the first directory of PATH",
        setup: |place| {
            place.write("bin/readme", "")?;
            Ok(wrapper(place)?.with_path(place.text("bin")))
        },
        change: |place, _| place.program("bin/unrelated", "#!/bin/sh\nexit 1\n"),
        ..HARMLESS
    },
    Case {
        name: "rank",
        about: "another rank asks for the kernels",
        setup: wrapper,
        change: |_, call| {
            call.env.push(("RANK_ID", "3".to_owned()));
            call.env.push(("DEVICE_ID", "3".to_owned()));
            Ok(())
        },
        ..HARMLESS
    },
    Case {
        name: "order_of_kernels",
        about: "the kernels are built one by one, the last one first",
        setup: |place| {
            let mut call = wrapper(place)?;
            call.one_by_one = vec!["Exp", "Relu"];
            Ok(call)
        },
        change: |_, call| {
            call.one_by_one.reverse();
            Ok(())
        },
        ..HARMLESS
    },
    Case {
        name: "kernels_one_by_one",
        about: "the kernels are built at once, and then one by one, the one without libm first",
        setup: wrapper,
        change: |_, call| {
            call.one_by_one = vec!["Relu", "Exp"];
            Ok(())
        },
        ..HARMLESS
    },
    Case {
        name: "kernels_one_by_one_with_plain_gcc",
        about: "the same without a wrapper",
        setup: plain,
        change: |_, call| {
            call.one_by_one = vec!["Relu", "Exp"];
            Ok(())
        },
        ..HARMLESS
    },
    Case {
        name: "umask",
        about: "opkeep is started with another umask",
        setup: wrapper,
        change: |_, call| launched(call, "umask 077; exec \"$@\""),
        ..HARMLESS
    },
    Case {
        name: "limits_and_niceness",
        about: "opkeep is started with fewer files, without core files, and with a low priority",
        setup: wrapper,
        change: |_, call| launched(call, "ulimit -n 128; ulimit -c 0; exec nice -n 5 \"$@\""),
        ..HARMLESS
    },
    Case {
        name: "inherited_descriptors",
        about: "opkeep inherits open descriptors of a file and a directory",
        setup: wrapper,
        change: |_, call| launched(call, "exec 7</dev/null 8</; exec \"$@\""),
        ..HARMLESS
    },
    Case {
        name: "clang_elsewhere",
        about: "a clang is renamed with its libraries",
        needs: &[Need::ClangTree],
        setup: |place| Ok(Call::cc(place.clang_tree("c", "clang")?)),
        change: |place, call| {
            place.rename("c", "elsewhere")?;
            call.cc = place.text("elsewhere/bin/clang");
            Ok(())
        },
        ..HARMLESS
    },
];

/// Starts opkeep by a shell script.
fn launched(call: &mut Call, script: &str) -> io::Result<()> {
    call.launcher = ["/bin/sh", "-c", script, "sh"].map(str::to_owned).to_vec();
    Ok(())
}
