//! Linkers, their scripts, and assemblers.

use std::io;

use crate::case::{Call, Case, MATTERS, MAY_MATTER, Need};
use crate::place::Place;

/// A linker called `name` that writes a mark into objects.
fn linker(place: &Place, name: &str, real: &str, mark: u32) -> io::Result<()> {
    let real = place.gcc_program(real)?;
    place.script(name, "/bin/sh", &format!("exec {real} \"$@\" -soname m{mark}"))
}

/// An assembler that adds a mark.
fn assembler(place: &Place, name: &str, mark: u32) -> io::Result<()> {
    let real = place.gcc_program("as")?;
    let more = format!("printf '\\t.section .rodata\\n\\t.long {mark}\\n' > more.s");
    place.script(name, "/bin/sh", &format!("{more}\nexec {real} \"$@\" more.s"))
}

/// A statement that adds a mark to the linker's own script.
fn statement(mark: u32) -> String {
    format!("SECTIONS {{ .mark : {{ LONG({mark}) }} }} INSERT AFTER .rodata;\n")
}

pub(super) const CASES: &[Case] = &[
    Case {
        name: "linker_in_path",
        about: "the ld that gcc finds in PATH changes",
        setup: |place| {
            linker(place, "bin/ld", "ld", 1)?;
            Ok(Call::cc("gcc").with_path(place.text("bin")))
        },
        change: |place, _| linker(place, "bin/ld", "ld", 2),
        ..MATTERS
    },
    Case {
        name: "linker_in_path_appears",
        about: "an ld appears in an earlier directory of PATH",
        setup: |place| {
            place.write("bin/readme", "")?;
            Ok(Call::cc("gcc").with_path(place.text("bin")))
        },
        change: |place, _| linker(place, "bin/ld", "ld", 2),
        ..MATTERS
    },
    Case {
        name: "linker_by_name",
        about: "-fuse-ld=gold finds an ld.gold in PATH, which changes",
        setup: |place| {
            linker(place, "bin/ld.gold", "ld", 1)?;
            Ok(Call::cc("gcc -fuse-ld=gold").with_path(place.text("bin")))
        },
        change: |place, _| linker(place, "bin/ld.gold", "ld", 2),
        ..MATTERS
    },
    Case {
        name: "linker_by_name_appears",
        about: "-fuse-ld=bfd finds an ld.bfd that appears in an earlier directory",
        needs: &[Need::Program("ld.bfd")],
        setup: |place| {
            place.write("bin/readme", "")?;
            Ok(Call::cc("gcc -fuse-ld=bfd").with_path(place.text("bin")))
        },
        change: |place, _| linker(place, "bin/ld.bfd", "ld", 2),
        ..MATTERS
    },
    Case {
        name: "linker_by_name_beside_programs",
        about: "-fuse-ld=lld finds an ld.lld in a -B directory, which changes",
        setup: |place| {
            linker(place, "b/ld.lld", "ld", 1)?;
            Ok(Call::cc(format!("gcc -fuse-ld=lld -B{}/", place.text("b"))))
        },
        change: |place, _| linker(place, "b/ld.lld", "ld", 2),
        ..MATTERS
    },
    Case {
        name: "other_linker",
        about: "-fuse-ld=bfd becomes -fuse-ld=gold",
        needs: &[Need::Program("ld.bfd"), Need::Program("ld.gold")],
        setup: |_| Ok(Call::cc("gcc -fuse-ld=bfd")),
        change: |_, call| {
            call.cc = "gcc -fuse-ld=gold".to_owned();
            Ok(())
        },
        // gold lacks `-z noseparate-code`, and is refused before anything is compiled.
        may_refuse: true,
        ..MATTERS
    },
    Case {
        name: "linked_linker",
        about: "ld in PATH is a link, which is retargeted",
        setup: |place| {
            linker(place, "v1/ld", "ld", 1)?;
            linker(place, "v2/ld", "ld", 2)?;
            place.link("../v1/ld", "bin/ld")?;
            Ok(Call::cc("gcc").with_path(place.text("bin")))
        },
        change: |place, _| place.link("../v2/ld", "bin/ld"),
        ..MATTERS
    },
    Case {
        name: "flags_of_a_linker",
        about: "the ld in PATH is a script that reads a file, which changes",
        setup: |place| {
            place.write("flags", "-soname m1")?;
            let real = place.gcc_program("ld")?;
            place.script("bin/ld", "/bin/sh", &format!("exec {real} \"$@\" $(cat \"$T/flags\")"))?;
            Ok(Call::cc("gcc").with_path(place.text("bin")))
        },
        change: |place, _| place.write("flags", "-soname m2"),
        ..MATTERS
    },
    Case {
        name: "environment_of_a_linker",
        about: "a wrapper reads a file into a variable of the environment, which ld's script uses",
        setup: |place| {
            place.write("name", "m1")?;
            let real = place.gcc_program("ld")?;
            place.script("bin/ld", "/bin/sh", &format!("exec {real} \"$@\" -soname \"$MARK\""))?;
            place.wrapper("cc", "read MARK < \"$T/name\"; export MARK", "")?;
            Ok(Call::cc(place.text("cc")).with_path(place.text("bin")))
        },
        change: |place, _| place.write("name", "m2"),
        ..MATTERS
    },
    Case {
        name: "linker_script",
        about: "-Wl,-T,script that adds a section, and the script changes",
        setup: |place| {
            place.write("script", statement(1))?;
            Ok(Call::cc(format!("gcc -Wl,-T,{}", place.text("script"))))
        },
        change: |place, _| place.write("script", statement(2)),
        ..MATTERS
    },
    Case {
        name: "included_linker_script",
        about: "a linker script includes another, which changes",
        setup: |place| {
            place.write("script", format!("INCLUDE {}\n", place.text("more")))?;
            place.write("more", statement(1))?;
            Ok(Call::cc(format!("gcc -Wl,-T,{}", place.text("script"))))
        },
        change: |place, _| place.write("more", statement(2)),
        ..MATTERS
    },
    Case {
        name: "linker_script_that_is_looked_for",
        about: "a linker script is found in -L directories, of which the first gets one",
        setup: |place| {
            place.write("first/readme", "")?;
            place.write("second/script", statement(1))?;
            let (first, second) = (place.text("first"), place.text("second"));
            Ok(Call::cc(format!("gcc -L{first} -L{second} -Wl,-T,script")))
        },
        change: |place, _| place.write("first/script", statement(2)),
        ..MATTERS
    },
    Case {
        name: "version_script",
        about: "-Wl,--version-script=v, and v changes",
        setup: |place| {
            place.write("v", "M1 { global: *; };\n")?;
            Ok(Call::cc(format!("gcc -Wl,--version-script={}", place.text("v"))))
        },
        change: |place, _| place.write("v", "M2 { global: *; };\n"),
        ..MATTERS
    },
    Case {
        name: "response_file_of_the_linker",
        about: "-Wl,@flags, and flags changes",
        setup: |place| {
            place.write("flags", "-soname m1\n")?;
            Ok(Call::cc(format!("gcc -Wl,@{}", place.text("flags"))))
        },
        change: |place, _| place.write("flags", "-soname m2\n"),
        ..MATTERS
    },
    Case {
        name: "assembler_in_path",
        about: "the as that gcc finds in PATH changes",
        setup: |place| {
            assembler(place, "bin/as", 1)?;
            Ok(Call::cc("gcc").with_path(place.text("bin")))
        },
        change: |place, _| assembler(place, "bin/as", 2),
        ..MATTERS
    },
    Case {
        name: "assembler_in_path_appears",
        about: "an as appears in an earlier directory of PATH",
        setup: |place| {
            place.write("bin/readme", "")?;
            Ok(Call::cc("gcc").with_path(place.text("bin")))
        },
        change: |place, _| assembler(place, "bin/as", 2),
        ..MATTERS
    },
    Case {
        name: "file_of_the_assembler",
        about: "-Wa,more.s is assembled with each kernel, and includes a file that changes",
        setup: |place| {
            place.write("more.s", format!("\t.include \"{}\"\n", place.text("marks.s")))?;
            place.write("marks.s", "\t.section .rodata\n\t.long 1\n")?;
            Ok(Call::cc(format!("gcc -Wa,{}", place.text("more.s"))))
        },
        change: |place, _| place.write("marks.s", "\t.section .rodata\n\t.long 2\n"),
        ..MATTERS
    },
    Case {
        name: "plugin_of_the_linker",
        about: "a linker plug-in appears in the linker's directory of plug-ins of a -B directory",
        setup: |place| {
            place.write("b/readme", "")?;
            Ok(Call::cc(format!("gcc -B{}/", place.text("b"))))
        },
        change: |place, _| place.write("b/liblto_plugin.so", "no plug-in\n"),
        may_refuse: true,
        ..MAY_MATTER
    },
];
