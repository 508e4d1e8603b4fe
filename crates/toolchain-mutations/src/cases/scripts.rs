//! Wrappers in shell: the sources of their flags.

use std::io;

use crate::case::{Call, Case, Expect, MATTERS, MAY_MATTER};
use crate::disk;
use crate::place::Place;
use crate::system::flag;

/// A wrapper `cc` that runs `before` and adds `extra`.
fn wrapper(place: &Place, before: &str, extra: &str) -> io::Result<Call> {
    place.wrapper("cc", before, extra)?;
    Ok(Call::cc(place.text("cc")))
}

/// A wrapper that finds its flag in the file `flags`, which changes: it runs `$before` and adds `$extra`.
macro_rules! reads {
    ($name:literal, $about:literal, $before:literal, $extra:literal $(, $field:ident: $value:expr)*) => {
        Case {
            name: $name,
            about: $about,
            setup: |place| {
                place.write("flags", flag(1))?;
                wrapper(place, $before, $extra)
            },
            change: |place, _| place.write("flags", flag(2)),
            $($field: $value,)*
            ..MATTERS
        }
    };
}

/// A wrapper whose commands `$look` set `more` if the file `marked` exists, which appears.
macro_rules! looks {
    ($name:literal, $about:literal, $look:literal $(, $field:ident: $value:expr)*) => {
        Case {
            name: $name,
            about: $about,
            setup: |place| wrapper(place, $look, "$more"),
            change: |place, _| place.write("marked", ""),
            $($field: $value,)*
            ..MATTERS
        }
    };
}

pub(super) const CASES: &[Case] = &[
    Case {
        name: "wrapper",
        about: "the wrapper itself changes",
        setup: |place| wrapper(place, "", &flag(1)),
        change: |place, _| place.wrapper("cc", "", &flag(2)),
        ..MATTERS
    },
    reads!("flags_by_cat", "flags come from $(cat file)", "", "$(cat \"$T/flags\")"),
    Case {
        name: "flags_by_redirection",
        about: "flags come from read < file",
        setup: |place| {
            place.write("flags", format!("{}\n", flag(1)))?;
            wrapper(place, "read more < \"$T/flags\"", "$more")
        },
        change: |place, _| place.write("flags", format!("{}\n", flag(2))),
        ..MATTERS
    },
    Case {
        name: "flags_by_source",
        about: "the wrapper runs another script in itself",
        setup: |place| {
            place.write("settings", format!("more={}\n", flag(1)))?;
            wrapper(place, ". \"$T/settings\"", "$more")
        },
        change: |place, _| place.write("settings", format!("more={}\n", flag(2))),
        ..MATTERS
    },
    Case {
        name: "flags_by_nested_source",
        about: "that script runs a third, which changes",
        setup: |place| {
            place.write("settings", ". \"$T/site\"\n")?;
            place.write("site", format!("more={}\n", flag(1)))?;
            wrapper(place, ". \"$T/settings\"", "$more")
        },
        change: |place, _| place.write("site", format!("more={}\n", flag(2))),
        ..MATTERS
    },
    Case {
        name: "settings_appear",
        about: "the wrapper runs a script in itself if it exists, which appears",
        setup: |place| wrapper(place, "[ -r \"$T/site\" ] && . \"$T/site\"", "$more"),
        change: |place, _| place.write("site", format!("more={}\n", flag(2))),
        ..MATTERS
    },
    Case {
        name: "settings_of_a_machine_appear",
        about: "the same, by the name of the machine's architecture",
        setup: |place| wrapper(place, "s=\"$T/site.$(uname -m)\"; [ -f \"$s\" ] && . \"$s\"", "$more"),
        change: |place, _| {
            let text = format!("more={}\n", flag(2));
            place.write(&format!("site.{}", std::env::consts::ARCH), text)
        },
        ..MATTERS
    },
    looks!(
        "flags_by_existence",
        "a file beside the wrapper decides, by being there",
        "more=; [ -e \"$T/marked\" ] && more=-Wl,-soname,m1"
    ),
    Case {
        name: "flags_by_existence_of_a_directory",
        about: "a directory decides, by being there",
        setup: |place| wrapper(place, "more=; [ -d \"$T/marked\" ] && more=-Wl,-soname,m1", "$more"),
        change: |place, _| disk::directory(&place.path("marked")),
        ..MATTERS
    },
    Case {
        name: "flags_by_listing",
        about: "the names of files in a directory are the flags",
        setup: |place| {
            place.write("flags/m1", "")?;
            wrapper(place, "for f in \"$T\"/flags/*; do more=-Wl,-soname,${f##*/}; done", "$more")
        },
        change: |place, _| place.rename("flags/m1", "flags/m2"),
        ..MATTERS
    },
    Case {
        name: "flags_by_number_of_files",
        about: "how many files a directory has decides",
        setup: |place| {
            place.write("parts/one", "")?;
            wrapper(place, "more=-Wl,-soname,m$(ls \"$T/parts\" | wc -l)", "$more")
        },
        change: |place, _| place.write("parts/two", ""),
        ..MATTERS
    },
    Case {
        name: "flags_by_files_of_a_directory",
        about: "all files of a directory are run, and one appears",
        setup: |place| {
            place.write("conf.d/10-one", format!("more={}\n", flag(1)))?;
            wrapper(place, "for f in \"$T\"/conf.d/*; do . \"$f\"; done", "$more")
        },
        change: |place, _| place.write("conf.d/20-two", format!("more={}\n", flag(2))),
        ..MATTERS
    },
    Case {
        name: "flags_by_order_of_files",
        about: "all files of a directory are run, and two exchange their names",
        setup: |place| {
            place.write("conf.d/10", format!("more={}\n", flag(1)))?;
            place.write("conf.d/20", format!("more={}\n", flag(2)))?;
            wrapper(place, "for f in \"$T\"/conf.d/*; do . \"$f\"; done", "$more")
        },
        change: |place, _| place.exchange("conf.d/10", "conf.d/20"),
        ..MATTERS
    },
    Case {
        name: "flags_by_target_of_a_link",
        about: "where a link points decides; nothing is there",
        setup: |place| {
            place.link("m1", "current")?;
            wrapper(place, "", "-Wl,-soname,$(readlink \"$T/current\")")
        },
        change: |place, _| place.link("m2", "current"),
        ..MATTERS
    },
    Case {
        name: "flags_by_size",
        about: "whether a file is empty decides",
        setup: |place| {
            place.write("switch", "")?;
            wrapper(place, "more=; [ -s \"$T/switch\" ] && more=-Wl,-soname,m1", "$more")
        },
        change: |place, _| place.write("switch", "on"),
        ..MATTERS
    },
    Case {
        name: "flags_by_permission",
        about: "whether a file may be executed decides",
        setup: |place| {
            place.write("switch", "")?;
            wrapper(place, "more=; [ -x \"$T/switch\" ] && more=-Wl,-soname,m1", "$more")
        },
        change: |place, _| disk::chmod(&place.path("switch"), 0o755),
        ..MATTERS
    },
    Case {
        name: "flags_of_a_subshell",
        about: "a subshell goes to the directory and reads there",
        setup: |place| {
            place.write("deep/flags", flag(1))?;
            wrapper(place, "", "$(cd \"$T/deep\" && cat flags)")
        },
        change: |place, _| place.write("deep/flags", flag(2)),
        ..MATTERS
    },
    reads!(
        "flags_beside_the_wrapper",
        "the wrapper looks beside its own name",
        "here=$(dirname \"$0\")",
        "$(cat \"$here/flags\")"
    ),
    Case {
        name: "flags_by_a_helper",
        about: "a helper prints the flags, and the helper changes",
        setup: |place| {
            place.script("helper", "/bin/sh", &format!("echo {}", flag(1)))?;
            wrapper(place, "", "$(\"$T/helper\")")
        },
        change: |place, _| place.script("helper", "/bin/sh", &format!("echo {}", flag(2))),
        ..MATTERS
    },
    Case {
        name: "flags_by_a_program_for_sed",
        about: "sed makes the flags by a script of its own, which changes",
        setup: |place| {
            place.write("edit", "s/x/-Wl,-soname,m1/\n")?;
            wrapper(place, "", "$(echo x | sed -f \"$T/edit\")")
        },
        change: |place, _| place.write("edit", "s/x/-Wl,-soname,m2/\n"),
        ..MATTERS
    },
    Case {
        name: "wrapper_of_a_wrapper",
        about: "the innermost of three wrappers changes",
        setup: |place| {
            place.wrapper("inner", "", &flag(1))?;
            place.script("middle", "/bin/sh", "exec \"$T/inner\" \"$@\"")?;
            place.script("cc", "/bin/sh", "exec \"$T/middle\" \"$@\"")?;
            Ok(Call::cc(place.text("cc")))
        },
        change: |place, _| place.wrapper("inner", "", &flag(2)),
        ..MATTERS
    },
    Case {
        name: "interpreter",
        about: "the script's interpreter is a script that changes",
        setup: |place| {
            place.wrapper("interpreter", "shift", &flag(1))?;
            place.program("cc", format!("#!{}\n", place.text("interpreter")))?;
            Ok(Call::cc(place.text("cc")))
        },
        change: |place, _| place.wrapper("interpreter", "shift", &flag(2)),
        ..MATTERS
    },
    Case {
        name: "compiler_by_path",
        about: "the wrapper runs what it finds in PATH, and an earlier one appears",
        setup: |place| {
            place.write("first/readme", "")?;
            place.wrapper("second/realcc", "", &flag(1))?;
            place.script("cc", "/bin/sh", "exec realcc \"$@\"")?;
            Ok(Call::cc(place.text("cc")).with_path(place.text("first")).with_path(place.text("second")))
        },
        change: |place, _| place.wrapper("first/realcc", "", &flag(2)),
        ..MATTERS
    },
    Case {
        name: "compiler_by_own_path",
        about: "the wrapper sets PATH and runs what it finds there, which changes",
        setup: |place| {
            place.wrapper("tools/realcc", "", &flag(1))?;
            place.script("cc", "/bin/sh", "PATH=\"$T/tools:$PATH\" exec realcc \"$@\"")?;
            Ok(Call::cc(place.text("cc")))
        },
        change: |place, _| place.wrapper("tools/realcc", "", &flag(2)),
        ..MATTERS
    },
    reads!(
        "flags_of_compiles_only",
        "a dry run does not read the flags, a compile does",
        "for w in \"$@\"; do [ \"$w\" = -### ] && exec \"$GCC\" \"$@\"; done",
        "$(cat \"$T/flags\")"
    ),
    reads!(
        "flags_with_libm_only",
        "only what is linked against the math library reads the flags",
        "case \" $* \" in *\" -lm \"*) more=$(cat \"$T/flags\");; *) more=;; esac",
        "$more"
    ),
    reads!(
        "flags_of_some_kernels_only",
        "only the C of one operator makes the wrapper read its flags",
        "more=; grep -qs relu_ kernel.c && more=$(cat \"$T/flags\")",
        "$more",
        may_refuse: true
    ),
    reads!(
        "flags_of_some_kernels_or_none",
        "the same, and a wrapper that goes on where it cannot read them",
        "more=; grep -qs relu_ kernel.c && more=$(cat \"$T/flags\" 2>/dev/null)",
        "$more",
        may_refuse: true,
        expect: Expect::MayMatter
    ),
    reads!(
        "flags_as_with_libm",
        "a kernel without libm takes the way of the small source that calls it, and reads what only that reads",
        "more=; [ ! -e kernel.c ] || grep -qs vector kernel.c || more=$(cat \"$T/flags\")",
        "$more",
        may_refuse: true
    ),
    looks!(
        "look_as_with_libm",
        "the same, and it only looks",
        "more=; [ ! -e kernel.c ] || grep -qs vector kernel.c || [ ! -e \"$T/marked\" ] || more=-Wl,-soname,m1",
        may_refuse: true
    ),
    looks!(
        "look_beside_names_that_are_made_up",
        "a file decides for one operator, in a directory in which a name is looked for that is another each time",
        "[ -e \"$T/lock.$$\" ]; more=; grep -qs relu_ kernel.c && [ -e \"$T/marked\" ] && more=-Wl,-soname,m1",
        may_refuse: true
    ),
    Case {
        name: "permission_of_what_is_read",
        about: "whether the file of flags may be executed decides for one operator",
        may_refuse: true,
        setup: |place| {
            place.write("flags", flag(1))?;
            let look = "more=$(cat \"$T/flags\"); grep -qs relu_ kernel.c && [ -x \"$T/flags\" ] && more=-Wl,-soname,m3";
            wrapper(place, look, "$more")
        },
        change: |place, _| disk::chmod(&place.path("flags"), 0o755),
        ..MATTERS
    },
    Case {
        name: "permission_of_what_is_read_for_all",
        about: "the same, and it is looked at for each kernel",
        setup: |place| {
            place.write("flags", flag(1))?;
            let look = "found=; [ -x \"$T/flags\" ] && found=1; more=$(cat \"$T/flags\"); \
                        grep -qs relu_ kernel.c && more=${found:+-Wl,-soname,m3}";
            wrapper(place, look, "$more")
        },
        change: |place, _| disk::chmod(&place.path("flags"), 0o755),
        ..MATTERS
    },
    looks!(
        "a_log_that_is_looked_at",
        "the wrapper looks at a log that it writes, and at a file that decides",
        "[ -s \"$T/log\" ]; echo run >> \"$T/log\"; more=; [ -e \"$T/marked\" ] && more=-Wl,-soname,m1",
        may_refuse: true
    ),
    reads!(
        "flags_by_way_of_a_temporary_file",
        "the wrapper copies its flags to TMPDIR and uses the copy",
        "t=\"$TMPDIR/flags.$$\"; cat \"$T/flags\" > \"$t\"",
        "@\"$t\""
    ),
    Case {
        name: "compiler_copied_to_a_temporary_file",
        about: "the wrapper copies another wrapper to TMPDIR and runs the copy",
        may_refuse: true,
        setup: |place| {
            place.wrapper("inner", "", &flag(1))?;
            let body = "cp \"$T/inner\" \"$TMPDIR/cc.$$\" && exec \"$TMPDIR/cc.$$\" \"$@\"";
            place.script("cc", "/bin/sh", body)?;
            Ok(Call::cc(place.text("cc")))
        },
        change: |place, _| place.wrapper("inner", "", &flag(2)),
        ..MATTERS
    },
    Case {
        name: "script_as_an_argument",
        about: "CC is sh with the wrapper as its argument",
        may_refuse: true,
        setup: |place| {
            place.wrapper("wrapper", "", &flag(1))?;
            Ok(Call::cc(format!("sh {}", place.text("wrapper"))))
        },
        change: |place, _| place.wrapper("wrapper", "", &flag(2)),
        ..MATTERS
    },
    Case {
        name: "compiler_behind_env",
        about: "CC is env with the wrapper as its argument",
        may_refuse: true,
        setup: |place| {
            place.wrapper("wrapper", "", &flag(1))?;
            Ok(Call::cc(format!("env {}", place.text("wrapper"))))
        },
        change: |place, _| place.wrapper("wrapper", "", &flag(2)),
        ..MATTERS
    },
    Case {
        name: "launcher",
        about: "a script called ccache runs its arguments with a flag more, and changes",
        may_refuse: true,
        setup: |place| {
            place.script("ccache", "/bin/sh", "exec \"$@\" -Wl,-soname,m1")?;
            Ok(Call::cc(format!("{} gcc", place.text("ccache"))))
        },
        change: |place, _| place.script("ccache", "/bin/sh", "exec \"$@\" -Wl,-soname,m2"),
        ..MAY_MATTER
    },
];
