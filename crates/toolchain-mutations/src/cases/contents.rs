//! One path with other content: every way to write it. Only the compiler's preprocessor reads the file.

use std::io;

use crate::case::{Call, Case, MATTERS, Need};
use crate::disk;
use crate::place::Place;
use crate::system::{flag, header};

const MOUNTS: &[Need] = &[Need::Mounts];

/// Gcc with `a.h`, which includes `x/b.h`.
fn headers(place: &Place) -> io::Result<Call> {
    place.write("a.h", "#include \"x/b.h\"\n")?;
    place.header("x/b.h", 1)?;
    Ok(Call::cc(format!("gcc -include {}", place.text("a.h"))))
}

/// The same behind a wrapper, which CC names.
fn behind_a_wrapper(place: &Place) -> io::Result<Call> {
    headers(place)?;
    place.wrapper("cc", "", "-include \"$T/a.h\"")?;
    Ok(Call::cc(place.text("cc")))
}

pub(super) const CASES: &[Case] = &[
    Case {
        name: "written_in_place",
        about: "the file keeps its inode and its size",
        setup: behind_a_wrapper,
        change: |place, _| place.write("x/b.h", header(2)),
        ..MATTERS
    },
    Case {
        name: "renamed_over",
        about: "a file of the same size gets its name",
        setup: behind_a_wrapper,
        change: |place, _| place.replace("x/b.h", header(2)),
        ..MATTERS
    },
    Case {
        name: "renamed_over_by_an_older_file",
        about: "a file that is older gets its name",
        setup: |place| {
            let call = behind_a_wrapper(place)?;
            place.header("x/older.h", 2)?;
            disk::set_times(&place.path("x/older.h"), (1_000_000_000, 0))?;
            Ok(call)
        },
        change: |place, _| place.rename("x/older.h", "x/b.h"),
        ..MATTERS
    },
    Case {
        name: "grown",
        about: "the file gets a line more",
        setup: headers,
        change: |place, _| {
            disk::append(&place.path("x/b.h"), "static const int more __attribute__((used)) = 3;\n")
        },
        ..MATTERS
    },
    Case {
        name: "removed_and_written",
        about: "the file is removed and created again",
        setup: headers,
        change: |place, _| {
            place.remove("x/b.h")?;
            place.header("x/b.h", 2)
        },
        ..MATTERS
    },
    Case {
        name: "changed_twice",
        about: "the file is changed, changed back, and changed again",
        setup: headers,
        change: |place, _| {
            for mark in [2, 1, 2] {
                place.header("x/b.h", mark)?;
            }
            Ok(())
        },
        ..MATTERS
    },
    Case {
        name: "one_bit",
        about: "the last bit of one letter",
        setup: behind_a_wrapper,
        change: |place, _| place.write("x/b.h", header(0)),
        ..MATTERS
    },
    Case {
        name: "file_mounted_over_file",
        about: "another file is mounted over the nested header",
        needs: MOUNTS,
        setup: |place| {
            place.header("other.h", 2)?;
            headers(place)
        },
        change: |place, _| place.bind("other.h", "x/b.h"),
        ..MATTERS
    },
    Case {
        name: "directory_mounted_over_directory",
        about: "another directory is mounted over that of the nested header",
        needs: MOUNTS,
        setup: |place| {
            place.header("other/b.h", 2)?;
            headers(place)
        },
        change: |place, _| place.bind("other", "x"),
        ..MATTERS
    },
    Case {
        name: "memory_mounted_over_directory",
        about: "a file system in memory, with another header, is mounted over the directory",
        needs: MOUNTS,
        setup: headers,
        change: |place, _| {
            place.mount_memory("x")?;
            place.header("x/b.h", 2)
        },
        ..MATTERS
    },
    Case {
        name: "compiler_mounted_over_compiler",
        about: "another driver is mounted over the driver",
        needs: MOUNTS,
        setup: |place| {
            place.wrapper("cc", "", &flag(1))?;
            place.wrapper("other", "", &flag(2))?;
            Ok(Call::cc(place.text("cc")))
        },
        change: |place, _| place.bind("other", "cc"),
        ..MATTERS
    },
];
