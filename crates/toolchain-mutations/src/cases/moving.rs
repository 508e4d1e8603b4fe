//! Toolchains that change during a build: the compiler itself changes them, at a known point.

use std::io;

use crate::case::{Call, Case, MAY_MATTER};
use crate::place::Place;
use crate::system::header;

/// A wrapper around gcc with a header, which runs `before` and `after` the first compile of a kernel. Dry runs and
/// probes change nothing, but run and read the same files as that compile.
fn wrapper(place: &Place, before: &str, after: &str) -> io::Result<Call> {
    place.write("a.h", "#include \"b.h\"\n")?;
    place.header("b.h", 1)?;
    place.write("new", header(2))?;
    let seen = "for each in mkdir cp mv; do $each --version; done; cat \"$T/new\" \"$T/b.h\"";
    let first = "*kernel.c*) mkdir \"$T/done\" && first=1";
    let first = format!("first=; case \"$PWD:$*\" in */probe-*) {seen};; {first};; esac > /dev/null 2>&1");
    let run = "\"$GCC\" \"$@\" -include \"$T/a.h\"; code=$?";
    let body =
        format!("{first}\n[ $first ] && {{ {before}; }}\n{run}\n[ $first ] && {{ {after}; }}\nexit $code");
    place.script("cc", "/bin/sh", &body)?;
    Ok(Call::cc(place.text("cc")))
}

const MOVING: Case = Case { reusable: false, reversible: false, may_refuse: true, ..MAY_MATTER };

pub(super) const CASES: &[Case] = &[
    Case {
        name: "header_moves_before_the_first_kernel",
        about: "the first kernel is compiled with another header than was seen; then the header is as it was",
        setup: |place| wrapper(place, "cp \"$T/new\" \"$T/b.h\"", ":"),
        change: |place, _| place.header("b.h", 1),
        ..MOVING
    },
    Case {
        name: "header_moves_and_comes_back",
        about: "the first kernel is compiled with another header, and the compiler takes the change back",
        setup: |place| {
            wrapper(place, "cp \"$T/b.h\" \"$T/old\"; cp \"$T/new\" \"$T/b.h\"", "cp \"$T/old\" \"$T/b.h\"")
        },
        change: |_, _| Ok(()),
        ..MOVING
    },
    Case {
        name: "header_moves_after_the_first_kernel",
        about: "between two kernels the header changes, and stays",
        setup: |place| wrapper(place, ":", "cp \"$T/new\" \"$T/b.h\""),
        change: |_, _| Ok(()),
        ..MOVING
    },
    Case {
        name: "header_moves_by_another_file",
        about: "between two kernels another file gets the header's name; then the old one has it again",
        setup: |place| wrapper(place, "cp \"$T/b.h\" \"$T/kept\"; mv \"$T/new\" \"$T/b.h\"", ":"),
        change: |place, _| place.rename("kept", "b.h"),
        ..MOVING
    },
];
