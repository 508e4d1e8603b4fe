//! Files that arguments name and the driver reads: response files, spec files, plug-ins, wrappers of programs.

use std::io;

use crate::case::{Call, Case, MATTERS, MAY_MATTER};
use crate::place::Place;
use crate::system::flag;

/// A spec file that gives the preprocessor a header.
fn specs(place: &Place, header: &str) -> String {
    format!("*cpp_unique_options:\n+ -include {}\n\n", place.text(header))
}

fn gcc_with(flag: &str, place: &Place, name: &str) -> Call {
    Call::cc(format!("gcc {flag}{}", place.text(name)))
}

/// Writes a program that `-wrapper` runs each of gcc's steps with: `cc1` gets a header.
fn step_wrapper(place: &Place, name: &str, mark: u32) -> io::Result<()> {
    place.header(&format!("{mark}.h"), mark)?;
    place.script(
        name,
        "/bin/sh",
        &format!("case \"$1\" in */cc1) exec \"$@\" -include \"$T/{mark}.h\";; esac\nexec \"$@\""),
    )
}

pub(super) const CASES: &[Case] = &[
    Case {
        name: "response_file",
        about: "@flags, and flags changes",
        setup: |place| {
            place.write("flags", flag(1))?;
            Ok(gcc_with("@", place, "flags"))
        },
        change: |place, _| place.write("flags", flag(2)),
        ..MATTERS
    },
    Case {
        name: "nested_response_file",
        about: "@a holds @b, and b changes",
        setup: |place| {
            place.write("a", format!("-g0 @{}\n", place.text("b")))?;
            place.write("b", flag(1))?;
            Ok(gcc_with("@", place, "a"))
        },
        change: |place, _| place.write("b", flag(2)),
        ..MATTERS
    },
    Case {
        name: "header_of_a_nested_response_file",
        about: "@a holds @b, which includes a header, which includes one that changes",
        setup: |place| {
            place.write("a", format!("@{}\n", place.text("b")))?;
            place.write("b", format!("-include {}\n", place.text("x.h")))?;
            place.write("x.h", "#include \"y.h\"\n")?;
            place.header("y.h", 1)?;
            Ok(gcc_with("@", place, "a"))
        },
        change: |place, _| place.header("y.h", 2),
        ..MATTERS
    },
    Case {
        name: "response_file_appears",
        about: "@a holds @b, which is taken as a name while there is no such file",
        may_refuse: true,
        setup: |place| {
            place.write("a", format!("@{}\n", place.text("b")))?;
            Ok(gcc_with("@", place, "a"))
        },
        change: |place, _| place.write("b", flag(2)),
        ..MATTERS
    },
    Case {
        name: "spec_file",
        about: "-specs=s, and s changes",
        setup: |place| {
            place.header("1.h", 1)?;
            place.header("2.h", 2)?;
            place.write("s", specs(place, "1.h"))?;
            Ok(gcc_with("-specs=", place, "s"))
        },
        change: |place, _| place.write("s", specs(place, "2.h")),
        ..MATTERS
    },
    Case {
        name: "header_of_a_spec_file",
        about: "a spec file names a header, which changes",
        setup: |place| {
            place.header("1.h", 1)?;
            place.write("s", specs(place, "1.h"))?;
            Ok(gcc_with("-specs=", place, "s"))
        },
        change: |place, _| place.header("1.h", 2),
        ..MATTERS
    },
    Case {
        name: "included_spec_file",
        about: "a spec file includes another, which changes",
        setup: |place| {
            place.header("1.h", 1)?;
            place.header("2.h", 2)?;
            place.write("s", format!("%include <{}>\n\n", place.text("more")))?;
            place.write("more", specs(place, "1.h"))?;
            Ok(gcc_with("-specs=", place, "s"))
        },
        change: |place, _| place.write("more", specs(place, "2.h")),
        ..MATTERS
    },
    Case {
        name: "optional_spec_file_appears",
        about: "a spec file includes another if it exists, which appears",
        setup: |place| {
            place.header("1.h", 1)?;
            place.write("s", format!("%include_noerr <{}>\n\n", place.text("more")))?;
            Ok(gcc_with("-specs=", place, "s"))
        },
        change: |place, _| place.write("more", specs(place, "1.h")),
        ..MATTERS
    },
    Case {
        name: "spec_file_beside_programs",
        about: "specs appears in a -B directory",
        setup: |place| {
            place.header("1.h", 1)?;
            place.write("b/readme", "")?;
            Ok(Call::cc(format!("gcc -B{}/", place.text("b"))))
        },
        change: |place, _| place.write("b/specs", specs(place, "1.h")),
        ..MAY_MATTER
    },
    Case {
        name: "plugin",
        about: "-fplugin=p.so, and p.so changes",
        setup: |place| {
            place.part("plugin_1.so", "p.so")?;
            Ok(gcc_with("-fplugin=", place, "p.so"))
        },
        change: |place, _| place.part("plugin_2.so", "p.so"),
        ..MATTERS
    },
    Case {
        name: "file_of_a_plugin",
        about: "a plug-in reads a file that one of its arguments names",
        setup: |place| {
            place.part("plugin_file.so", "p.so")?;
            place.write("number", "1\n")?;
            let (plugin, number) = (place.text("p.so"), place.text("number"));
            Ok(Call::cc(format!("gcc -fplugin={plugin} -fplugin-arg-p-file={number}")))
        },
        change: |place, _| place.write("number", "2\n"),
        ..MATTERS
    },
    Case {
        name: "plugin_by_response_file",
        about: "a response file names a plug-in, which changes",
        setup: |place| {
            place.part("plugin_1.so", "p.so")?;
            place.write("flags", format!("-fplugin={}\n", place.text("p.so")))?;
            Ok(gcc_with("@", place, "flags"))
        },
        change: |place, _| place.part("plugin_2.so", "p.so"),
        ..MATTERS
    },
    Case {
        name: "wrapper_of_steps",
        about: "-wrapper w runs each of gcc's steps, and w changes",
        setup: |place| {
            step_wrapper(place, "w", 1)?;
            Ok(Call::cc(format!("gcc -wrapper {}", place.text("w"))))
        },
        change: |place, _| step_wrapper(place, "w", 2),
        may_refuse: true,
        ..MATTERS
    },
    Case {
        name: "wrapper_of_steps_by_response_file",
        about: "the same, named in a response file",
        setup: |place| {
            step_wrapper(place, "w", 1)?;
            place.write("flags", format!("-wrapper {}\n", place.text("w")))?;
            Ok(gcc_with("@", place, "flags"))
        },
        change: |place, _| step_wrapper(place, "w", 2),
        ..MATTERS
    },
    Case {
        name: "assembler_beside_programs_appears",
        about: "as appears in a -B directory",
        setup: |place| {
            place.write("b/readme", "")?;
            Ok(Call::cc(format!("gcc -B{}/", place.text("b"))))
        },
        change: |place, _| {
            let real = place.gcc_program("as")?;
            let body =
                format!("printf '\\t.section .rodata\\n\\t.long 7\\n' > more.s\nexec {real} \"$@\" more.s");
            place.script("b/as", "/bin/sh", &body)
        },
        ..MATTERS
    },
    Case {
        name: "linker_beside_programs_appears",
        about: "ld appears in a -B directory",
        setup: |place| {
            place.write("b/readme", "")?;
            Ok(Call::cc(format!("gcc -B{}/", place.text("b"))))
        },
        change: |place, _| {
            let real = place.gcc_program("ld")?;
            place.script("b/ld", "/bin/sh", &format!("exec {real} \"$@\" -soname m1"))
        },
        ..MATTERS
    },
    Case {
        name: "compiler_beside_programs_appears",
        about: "cc1 appears in a -B directory",
        setup: |place| {
            place.header("1.h", 1)?;
            place.write("b/readme", "")?;
            Ok(Call::cc(format!("gcc -B{}/", place.text("b"))))
        },
        change: |place, _| {
            let real = place.gcc_program("cc1")?;
            place.script("b/cc1", "/bin/sh", &format!("exec {real} \"$@\" -include $T/1.h"))
        },
        ..MATTERS
    },
    Case {
        name: "object_among_arguments",
        about: "-Wl,extra.o, and extra.o changes",
        setup: |place| {
            place.part("mark_1.o", "extra.o")?;
            Ok(gcc_with("-Wl,", place, "extra.o"))
        },
        change: |place, _| place.part("mark_2.o", "extra.o"),
        ..MATTERS
    },
    Case {
        name: "argument_that_is_no_option",
        about: "an object stands in CC as a word of its own",
        may_refuse: true,
        setup: |place| {
            place.part("mark_1.o", "extra.o")?;
            Ok(gcc_with("", place, "extra.o"))
        },
        change: |place, _| place.part("mark_2.o", "extra.o"),
        ..MATTERS
    },
    Case {
        name: "rest_of_a_word_that_names_a_file",
        about: "a word of CC names a file, and the text around the name changes",
        setup: |place| {
            place.write("v", "M1 { global: *; };\n")?;
            Ok(Call::cc(format!("gcc -Wl,-soname,m1,--version-script={}", place.text("v"))))
        },
        change: |place, call| {
            call.cc = format!("gcc -Wl,-soname,m2,--version-script={}", place.text("v"));
            Ok(())
        },
        ..MATTERS
    },
    Case {
        name: "use_of_a_file_that_a_word_names",
        about: "CC names the same file for another purpose",
        setup: |place| {
            place.write("m.h", "#define __builtin_expf(x) ((x) * 3.5f)\nextern int unused;\n")?;
            Ok(Call::cc(format!("gcc -include{}", place.text("m.h"))))
        },
        change: |place, call| {
            call.cc = format!("gcc -imacros{}", place.text("m.h"));
            Ok(())
        },
        ..MAY_MATTER
    },
    Case {
        name: "order_of_files_that_words_name",
        about: "CC names the same two headers in the other order",
        setup: |place| {
            place.header("1.h", 1)?;
            place.write("2.h", "static const int mark2 __attribute__((used)) = 2;\n")?;
            Ok(Call::cc(format!("gcc -include {} -include {}", place.text("1.h"), place.text("2.h"))))
        },
        change: |place, call| {
            call.cc = format!("gcc -include {} -include {}", place.text("2.h"), place.text("1.h"));
            Ok(())
        },
        ..MATTERS
    },
];
