//! Wrappers that decide by looking at files without reading them: for the kernels of one operator.
//!
//! `PAIRS` has two cases for each kind of look: one wrapper looks for every kernel, so that the probe observes it; the
//! other looks only if it needs the answer, and may be refused. Those of `DETAILS` look for every kernel.

use std::io;

use crate::case::{Call, Case, MATTERS};
use crate::disk;
use crate::place::Place;

/// A wrapper that `$call` creates, after `$lay` has created its files.
macro_rules! case {
    ($name:expr, $about:expr, $may_refuse:literal, $lay:expr, $call:expr, $change:expr) => {
        Case {
            name: $name,
            about: $about,
            may_refuse: $may_refuse,
            setup: |place| {
                let lay: fn(&Place) -> io::Result<()> = $lay;
                lay(place)?;
                let call: fn(&Place) -> io::Result<Call> = $call;
                call(place)
            },
            change: $change,
            ..MATTERS
        }
    };
}

/// A script that decides by a test of the shell, which it makes for each kernel.
macro_rules! script {
    ($what:literal, $about:literal, $test:literal, $lay:expr, $change:expr) => {
        case!(
            concat!("flags_of_some_kernels_by_", $what),
            concat!($about, " decides for one operator"),
            false,
            $lay,
            |place| script(
                place,
                concat!("found=; ", $test, " && found=1; grep -qs relu_ kernel.c || found=")
            ),
            $change
        )
    };
}

/// Two scripts: the second makes the test only if it needs the answer.
macro_rules! scripts {
    ($what:literal, $about:literal, $test:literal, $lay:expr, $change:expr) => {
        [
            script!($what, $about, $test, $lay, $change),
            case!(
                concat!("look_at_", $what, "_for_some_kernels"),
                concat!($about, " decides for one operator, and is looked at with that only"),
                true,
                $lay,
                |place| script(place, concat!("found=; grep -qs relu_ kernel.c && ", $test, " && found=1")),
                $change
            ),
        ]
    };
}

/// Two programs that decide by a system call; each is a compiled part of that name.
macro_rules! programs {
    ($what:literal, $about:literal, $how:literal, $lay:expr, $change:expr) => {
        [
            case!(
                concat!("program_that_goes_by_", $what, "_for_some_kernels"),
                concat!($about, " is the flag for one operator"),
                false,
                $lay,
                |place| program(place, concat!("some_by_", $how)),
                $change
            ),
            case!(
                concat!("program_that_looks_for_", $what, "_for_some_kernels"),
                concat!($about, " is the flag for one operator, and is asked for with that only"),
                true,
                $lay,
                |place| program(place, concat!("late_by_", $how)),
                $change
            ),
        ]
    };
}

const PAIRS: [[Case; 2]; 11] = [
    scripts!("existence", "a file that is there", "[ -e \"$T/marked\" ]", |_| Ok(()), |place, _| place
        .write("marked", "")),
    scripts!("directory", "a directory that is there", "[ -d \"$T/marked\" ]", |_| Ok(()), |place, _| {
        disk::directory(&place.path("marked"))
    }),
    scripts!(
        "size",
        "whether a file is empty",
        "[ -s \"$T/switch\" ]",
        |place| place.write("switch", ""),
        |place, _| place.write("switch", "on")
    ),
    scripts!(
        "permission",
        "whether a file may be executed",
        "[ -x \"$T/switch\" ]",
        |place| place.write("switch", ""),
        |place, _| disk::chmod(&place.path("switch"), 0o755)
    ),
    scripts!(
        "listing",
        "how many files a directory has",
        "[ $(ls \"$T/parts\" | wc -l) = 2 ]",
        |place| place.write("parts/one", ""),
        |place, _| place.write("parts/two", "")
    ),
    scripts!(
        "link",
        "where a link points",
        "[ $(readlink \"$T/current\") = m2 ]",
        |place| place.link("m1", "current"),
        |place, _| place.link("m2", "current")
    ),
    programs!("size", "stat(2), a file's size,", "size", |place| place.write("flags", "1"), |place, _| place
        .write("flags", "12")),
    programs!("existence", "access(2), whether there is a file,", "access", |_| Ok(()), |place, _| place
        .write("flags", "")),
    programs!(
        "permission",
        "access(2), whether a file may be executed,",
        "executable",
        |place| place.write("flags", "1"),
        |place, _| disk::chmod(&place.path("flags"), 0o755)
    ),
    programs!(
        "link",
        "readlink(2), a link's text,",
        "readlink",
        |place| place.link("1", "flags"),
        |place, _| place.link("2", "flags")
    ),
    programs!(
        "listing",
        "getdents(2), the number of files,",
        "listing",
        |place| place.write("flags/one", ""),
        |place, _| place.write("flags/two", "")
    ),
];

pub(super) const CASES: &[Case] = PAIRS.as_flattened();

/// Looks that seem equal but are not: at several paths, at directories, at links.
pub(super) const DETAILS: &[Case] = &[
    script!(
        "which_of_two_directories",
        "which of two paths is a directory",
        "[ -d \"$T/a/root\" ]; [ -d \"$T/b/root\" ]",
        |place| disk::directory(&place.path("a/root")),
        |place, _| disk::directory(&place.path("b/root"))
    ),
    script!(
        "which_of_three_files",
        "which of three equal files are there",
        "[ -e \"$T/a/f\" ]; [ -e \"$T/c/f\" ]; [ -e \"$T/b/f\" ]",
        |place| place.write("c/f", "1"),
        |place, _| place.write("b/f", "1")
    ),
    script!(
        "which_of_two_programs",
        "which of two paths has a program",
        "[ -x \"$T/b/t\" ]; [ -x \"$T/a/t\" ]",
        |place| place.program("b/t", "#!/bin/sh\n"),
        |place, _| place.program("a/t", "#!/bin/sh\n")
    ),
    script!(
        "which_of_two_lists",
        "which of two directories has a file",
        "[ -n \"$(find \"$T/a\" \"$T/b\" -path \"*/a/x\")\" ]",
        |place| {
            disk::directory(&place.path("a"))?;
            place.write("b/x", "")
        },
        |place, _| place.rename("b/x", "a/x")
    ),
    script!(
        "kind_in_a_list",
        "whether an entry of a directory is one itself",
        "[ -n \"$(find \"$T/a\" -mindepth 1 -type d)\" ]",
        |place| place.write("a/x", ""),
        |place, _| {
            place.remove("a/x")?;
            disk::directory(&place.path("a/x"))
        }
    ),
    script!(
        "mode_of_a_directory",
        "the mode of a directory",
        "[ \"$(stat -c %a \"$T/a\")\" = 700 ]",
        |place| disk::directory(&place.path("a")),
        |place, _| disk::chmod(&place.path("a"), 0o700)
    ),
    script!(
        "mode_of_a_program",
        "the mode of a program that is run",
        "\"$T/t\"; [ \"$(stat -c %a \"$T/t\")\" = 700 ]",
        |place| place.program("t", "#!/bin/sh\n"),
        |place, _| disk::chmod(&place.path("t"), 0o700)
    ),
    script!(
        "link_to_a_program",
        "where the link leads by which a program is run",
        "\"$T/t\"; [ \"$(readlink \"$T/t\")\" = two ]",
        |place| {
            place.program("one", "#!/bin/sh\n")?;
            place.program("two", "#!/bin/sh\n")?;
            place.link("one", "t")
        },
        |place, _| place.link("two", "t")
    ),
    script!(
        "link_where_none_was",
        "whether a file is there by a link",
        "[ -L \"$T/cur\" ]",
        |place| place.write("cur", "1"),
        |place, _| {
            place.rename("cur", "other")?;
            place.link("other", "cur")
        }
    ),
    script!(
        "link_to_nothing",
        "whether there is a link that leads nowhere",
        "[ -L \"$T/cur\" ]",
        |_| Ok(()),
        |place, _| place.link("nowhere", "cur")
    ),
    script!(
        "text_of_an_absolute_link",
        "the text of an absolute link",
        "case $(readlink \"$T/cur\") in */b/lib) true;; *) false;; esac",
        |place| {
            disk::directory(&place.path("b/lib"))?;
            disk::directory(&place.path("c/lib"))?;
            place.link(&place.text("c/lib"), "cur")
        },
        |place, _| place.link(&place.text("b/lib"), "cur")
    ),
    script!(
        "parent_of_what_is_missing",
        "a path with dots, through a directory that is there",
        "[ -e \"$T/a/dbg/..\" ]",
        |place| disk::directory(&place.path("a")),
        |place, _| disk::directory(&place.path("a/dbg"))
    ),
    Case {
        name: "reads_by_another_name",
        about: "one operator reads a file by a link that the probe did not see",
        may_refuse: true,
        setup: |place| {
            place.write("a/flags", "-Wl,-soname,m1")?;
            place.write("c/flags", "-Wl,-soname,m2")?;
            place.link("a", "b")?;
            let read = "more=$(cat \"$T/a/flags\"); grep -qs relu_ kernel.c && more=$(cat \"$T/b/flags\")";
            place.wrapper("cc", read, "$more")?;
            Ok(Call::cc(place.text("cc")))
        },
        change: |place, _| place.link("c", "b"),
        ..MATTERS
    },
    case!(
        "program_called_as_the_assembler",
        "a program called `as` looks at a file, adds to what it assembles for one operator, and runs the assembler",
        true,
        |_| Ok(()),
        |place| {
            let body = "for last; do :; done; [ -e \"$T/marked\" ] && grep -qs relu_ kernel.c && \
                        echo '.ident \"m1\"' >> \"$last\"; exec /usr/bin/as \"$@\"";
            place.script("b/as", "/bin/sh", body)?;
            Ok(Call::cc(format!("gcc -B{}", place.text("b/"))))
        },
        |place, _| place.write("marked", "")
    ),
];

/// A wrapper that adds a flag if `looks` sets `found`.
fn script(place: &Place, looks: &str) -> io::Result<Call> {
    place.wrapper("cc", &format!("{looks}; more=${{found:+-Wl,-soname,m1}}"), "$more")?;
    Ok(Call::cc(place.text("cc")))
}

fn program(place: &Place, part: &str) -> io::Result<Call> {
    place.part(part, "cc")?;
    Ok(Call::cc(place.text("cc")))
}
