//! Headers that arguments name, and the headers that these include.

use crate::case::{Call, Case, MATTERS, MAY_MATTER};
use crate::disk;
use crate::place::Place;
use crate::system::{header, named_header};

/// Includes the header `name`.
fn includes(place: &Place, name: &str) -> Call {
    Call::cc(format!("gcc -include {}", place.text(name)))
}

pub(super) const CASES: &[Case] = &[
    Case {
        name: "included_header",
        about: "-include a.h, and a.h changes",
        setup: |place| {
            place.header("a.h", 1)?;
            Ok(includes(place, "a.h"))
        },
        change: |place, _| place.header("a.h", 2),
        ..MATTERS
    },
    Case {
        name: "nested_header",
        about: "a.h includes b.h, and b.h changes",
        setup: |place| {
            place.write("a.h", "#include \"b.h\"\n")?;
            place.header("b.h", 1)?;
            Ok(includes(place, "a.h"))
        },
        change: |place, _| place.header("b.h", 2),
        ..MATTERS
    },
    Case {
        name: "header_three_deep",
        about: "a.h includes x/b.h, which includes ../y/c.h, and that changes",
        setup: |place| {
            place.write("a.h", "#include \"x/b.h\"\n")?;
            place.write("x/b.h", "#include \"../y/c.h\"\n")?;
            place.header("y/c.h", 1)?;
            Ok(includes(place, "a.h"))
        },
        change: |place, _| place.header("y/c.h", 2),
        ..MATTERS
    },
    Case {
        name: "header_by_macro",
        about: "the name of the included header is a macro's value",
        setup: |place| {
            place.write("a.h", "#define NAME \"b.h\"\n#include NAME\n")?;
            place.header("b.h", 1)?;
            Ok(includes(place, "a.h"))
        },
        change: |place, _| place.replace("b.h", header(2)),
        ..MATTERS
    },
    Case {
        name: "macros_of_a_nested_header",
        about: "-imacros a.h, which includes b.h, whose macro replaces a function",
        setup: |place| {
            place.write("a.h", "#include \"b.h\"\n")?;
            place.write("b.h", "#define __builtin_expf(x) ((x) * 3.5f)\n")?;
            Ok(Call::cc(format!("gcc -imacros {}", place.text("a.h"))))
        },
        change: |place, _| place.write("b.h", "#define __builtin_expf(x) ((x) * 4.5f)\n"),
        ..MATTERS
    },
    Case {
        name: "header_that_is_asked_for",
        about: "__has_include asks for a header that appears",
        setup: |place| {
            place.write("a.h", format!("#if __has_include(\"b.h\")\n{}#endif\n", header(1)))?;
            Ok(includes(place, "a.h"))
        },
        change: |place, _| place.write("b.h", ""),
        ..MATTERS
    },
    Case {
        name: "header_in_a_directory_that_appears",
        about: "__has_include asks for a header in a directory that does not exist",
        setup: |place| {
            place.write("a.h", format!("#if __has_include(\"deep/er/b.h\")\n{}#endif\n", header(1)))?;
            Ok(includes(place, "a.h"))
        },
        change: |place, _| place.write("deep/er/b.h", ""),
        ..MATTERS
    },
    Case {
        name: "header_that_shadows",
        about: "of two directories of headers the first gets a header of that name",
        setup: |place| {
            place.write("flags", directories(place))?;
            place.write("first/other.h", "")?;
            place.header("second/marks.h", 1)?;
            Ok(Call::cc(format!("gcc @{}", place.text("flags"))))
        },
        change: |place, _| place.header("first/marks.h", 2),
        ..MATTERS
    },
    Case {
        name: "header_that_moves",
        about: "two directories of headers exchange their names: the same files, the other order",
        setup: |place| {
            place.write("flags", directories(place))?;
            place.header("first/marks.h", 1)?;
            place.header("second/marks.h", 2)?;
            Ok(Call::cc(format!("gcc @{}", place.text("flags"))))
        },
        change: |place, _| place.exchange("first", "second"),
        ..MATTERS
    },
    Case {
        name: "header_of_a_searched_directory",
        about: "CC has -I, and a header there changes",
        may_refuse: true,
        setup: |place| {
            place.header("headers/marks.h", 1)?;
            Ok(Call::cc(format!("gcc -I{} -include marks.h", place.text("headers"))))
        },
        change: |place, _| place.header("headers/marks.h", 2),
        ..MATTERS
    },
    Case {
        name: "header_by_include_next",
        about: "a header includes the next of its name, which changes",
        setup: |place| {
            place.write("flags", directories(place))?;
            place.write("first/marks.h", "#include_next <marks.h>\n")?;
            place.header("second/marks.h", 1)?;
            Ok(Call::cc(format!("gcc @{}", place.text("flags"))))
        },
        change: |place, _| place.header("second/marks.h", 2),
        ..MATTERS
    },
    Case {
        name: "headers_that_exchange_contents",
        about: "two included headers exchange their contents: the same contents in all",
        setup: |place| {
            place.write("a.h", "#include \"b.h\"\n#include \"c.h\"\n")?;
            place.write("b.h", named_header("x", 1))?;
            place.write("c.h", named_header("y", 2))?;
            Ok(includes(place, "a.h"))
        },
        change: |place, _| {
            place.write("b.h", named_header("y", 2))?;
            place.write("c.h", named_header("x", 1))
        },
        ..MATTERS
    },
    Case {
        name: "headers_that_exchange_names",
        about: "two included headers exchange their names in one step",
        setup: |place| {
            place.write("a.h", "#include \"b.h\"\n#include \"c.h\"\n")?;
            place.write("b.h", named_header("x", 1))?;
            place.write("c.h", named_header("y", 2))?;
            Ok(includes(place, "a.h"))
        },
        change: |place, _| place.exchange("b.h", "c.h"),
        ..MATTERS
    },
    Case {
        name: "empty_header_is_filled",
        about: "an included header is empty, and then not",
        setup: |place| {
            place.write("a.h", "#include \"b.h\"\n")?;
            place.write("b.h", "")?;
            Ok(includes(place, "a.h"))
        },
        change: |place, _| place.header("b.h", 2),
        ..MATTERS
    },
    Case {
        name: "header_is_cut_off",
        about: "a nested header loses all its text; taken back, it has it again",
        setup: |place| {
            place.write("a.h", "#include \"b.h\"\n")?;
            place.header("b.h", 1)?;
            Ok(includes(place, "a.h"))
        },
        change: |place, _| place.write("b.h", ""),
        ..MATTERS
    },
    Case {
        name: "header_vanishes",
        about: "a nested header is removed: no build can work",
        may_refuse: true,
        setup: |place| {
            place.write("a.h", "#include \"b.h\"\n")?;
            place.header("b.h", 1)?;
            Ok(includes(place, "a.h"))
        },
        change: |place, _| place.remove("b.h"),
        ..MATTERS
    },
    Case {
        name: "header_becomes_unusable",
        about: "a nested header becomes an error",
        may_refuse: true,
        setup: |place| {
            place.write("a.h", "#include \"b.h\"\n")?;
            place.header("b.h", 1)?;
            Ok(includes(place, "a.h"))
        },
        change: |place, _| place.write("b.h", "#error no\n"),
        ..MATTERS
    },
    Case {
        name: "file_that_the_assembler_includes",
        about: "an included header has .incbin of a file, which changes",
        setup: |place| {
            place.write("blob", "one!")?;
            let text = format!(
                "__asm__(\".pushsection .rodata\\n.incbin \\\"{}\\\"\\n.popsection\");\n",
                place.text("blob")
            );
            place.write("a.h", text)?;
            Ok(includes(place, "a.h"))
        },
        change: |place, _| place.write("blob", "two!"),
        ..MATTERS
    },
    Case {
        name: "precompiled_header_appears",
        about: "a.h.gch appears, which gcc takes in place of a.h if it fits",
        setup: |place| {
            place.header("a.h", 1)?;
            Ok(includes(place, "a.h"))
        },
        change: |place, _| place.part("header_2.gch", "a.h.gch"),
        ..MAY_MATTER
    },
    Case {
        name: "precompiled_header_that_does_not_fit_appears",
        about: "a file a.h.gch appears that is no precompiled header",
        setup: |place| {
            place.header("a.h", 1)?;
            Ok(includes(place, "a.h"))
        },
        change: |place, _| place.write("a.h.gch", "not one"),
        ..MAY_MATTER
    },
    Case {
        name: "predefined_macros_in_a_sysroot",
        about: "stdc-predef.h of a --sysroot changes, which gcc includes unasked",
        setup: |place| {
            place.header("sys/usr/include/stdc-predef.h", 1)?;
            place.part("libm_1.a", "lib/libm.a")?;
            Ok(Call::cc(format!("gcc --sysroot={} -L{}", place.text("sys"), place.text("lib"))))
        },
        change: |place, _| place.header("sys/usr/include/stdc-predef.h", 2),
        ..MAY_MATTER
    },
    Case {
        name: "predefined_macros_beside_programs",
        about: "stdc-predef.h appears in the include directory of a -B directory",
        setup: |place| {
            place.write("b/readme", "")?;
            Ok(Call::cc(format!("gcc -B{}/", place.text("b"))))
        },
        change: |place, _| place.header("b/include/stdc-predef.h", 2),
        ..MAY_MATTER
    },
    Case {
        name: "predefined_macros_by_response_file",
        about: "stdc-predef.h appears in an -isystem directory",
        setup: |place| {
            place.write("headers/readme", "")?;
            place.write("flags", format!("-isystem {}\n", place.text("headers")))?;
            Ok(Call::cc(format!("gcc @{}", place.text("flags"))))
        },
        change: |place, _| place.header("headers/stdc-predef.h", 2),
        ..MAY_MATTER
    },
    Case {
        name: "header_becomes_a_fifo",
        about: "a nested header becomes a FIFO without a writer: nothing may wait for it for ever",
        may_refuse: true,
        reversible: false,
        setup: |place| {
            place.write("a.h", "#include \"b.h\"\n")?;
            place.header("b.h", 1)?;
            Ok(includes(place, "a.h").with_args(&["--deadline", "1"]))
        },
        change: |place, _| {
            place.remove("b.h")?;
            disk::fifo(&place.path("b.h"))
        },
        ..MATTERS
    },
];

/// Two directories of headers, and a header to include.
fn directories(place: &Place) -> String {
    format!("-isystem {} -isystem {} -include marks.h\n", place.text("first"), place.text("second"))
}
