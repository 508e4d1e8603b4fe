//! Changes to files and directories that no kernel can depend on.

use std::io;
use std::path::Path;

use crate::case::{Call, Case, HARMLESS, Need};
use crate::disk;
use crate::place::Place;
use crate::system::flag;

const TREE: &[Need] = &[Need::GccTree];

/// A wrapper that finds itself, its flags and a header by its own name, so that it works at any path.
fn wrapper(place: &Place) -> io::Result<Call> {
    let gcc = place.gcc()?;
    let body = format!(
        "#!/bin/sh\nhere=$(dirname \"$0\")\nexec {gcc} \"$@\" $(cat \"$here/flags\") -include \"$here/a.h\"\n"
    );
    place.program("d/cc", body)?;
    place.write("d/flags", flag(1))?;
    place.write("d/a.h", "#include \"x/b.h\"\n")?;
    place.header("d/x/b.h", 1)?;
    Ok(Call::cc(place.text("d/cc")))
}

/// Gcc with a header that includes another, in a directory of headers.
fn headers(place: &Place) -> io::Result<Call> {
    place.write("flags", format!("-isystem {} -include a.h\n", place.text("headers")))?;
    place.write("headers/a.h", "#include <x/b.h>\n")?;
    place.header("headers/x/b.h", 1)?;
    Ok(Call::cc(format!("gcc @{}", place.text("flags"))))
}

/// Gcc with a library of its own.
fn library(place: &Place) -> io::Result<Call> {
    place.part("libm_1.a", "lib/libm.a")?;
    Ok(Call::cc(format!("gcc -L{}", place.text("lib"))))
}

/// Gcc as a copy of its tree.
fn tree(place: &Place) -> io::Result<Call> {
    Ok(Call::cc(place.gcc_tree("g")?))
}

/// Rewrites each regular file of the toolchain with its own bytes.
fn each_file(place: &Place, rewrite: fn(&Path, Vec<u8>) -> io::Result<()>) -> io::Result<()> {
    let mut files = disk::tree(&place.root()).into_iter().filter(|path| disk::is_file(path));
    files.try_for_each(|path| rewrite(&path, disk::read(&path)?))
}

/// Writes a copy with the same permissions beside the file and renames it over.
fn replace_by_copy(path: &Path, _: Vec<u8>) -> io::Result<()> {
    let copy = path.with_extension("copy");
    disk::copy(path, &copy)?;
    disk::rename(&copy, path)
}

/// Gives everything the same date.
fn date(place: &Place, seconds: i64) -> io::Result<()> {
    disk::tree(&place.root()).iter().try_for_each(|path| disk::set_times(path, (seconds, 5)))
}

pub(super) const CASES: &[Case] = &[
    Case {
        name: "wrapper_in_another_directory",
        about: "a wrapper is renamed with all that it reads",
        setup: wrapper,
        change: |place, call| {
            place.rename("d", "elsewhere")?;
            call.cc = place.text("elsewhere/cc");
            Ok(())
        },
        ..HARMLESS
    },
    Case {
        name: "toolchain_in_another_directory",
        about: "the private directory, with a gcc in it, is renamed",
        needs: TREE,
        setup: tree,
        change: |place, call| {
            disk::rename(&place.root(), &place.beside("another"))?;
            call.cc = place.beside("another/g/bin/gcc").to_string_lossy().into_owned();
            Ok(())
        },
        ..HARMLESS
    },
    Case {
        name: "toolchain_that_is_copied",
        about: "an equal gcc lies elsewhere, and is used",
        needs: TREE,
        setup: tree,
        change: |place, call| {
            call.cc = place.gcc_tree("deep/er/copy")?;
            Ok(())
        },
        ..HARMLESS
    },
    Case {
        name: "headers_in_another_directory",
        about: "-include names an equal header elsewhere",
        setup: |place| {
            for dir in ["one", "another"] {
                place.write(&format!("{dir}/a.h"), "#include \"b.h\"\n")?;
                place.header(&format!("{dir}/b.h"), 1)?;
            }
            Ok(Call::cc(format!("gcc -include {}", place.text("one/a.h"))))
        },
        change: |place, call| {
            call.cc = format!("gcc -include {}", place.text("another/a.h"));
            Ok(())
        },
        ..HARMLESS
    },
    Case {
        name: "older_dates_of_a_wrapper",
        about: "a wrapper and all that it reads get a date long ago",
        setup: wrapper,
        change: |place, _| date(place, 1_000_000_000),
        ..HARMLESS
    },
    Case {
        name: "dates_to_come",
        about: "headers get a date that is still to come",
        setup: headers,
        change: |place, _| date(place, 4_000_000_000),
        ..HARMLESS
    },
    Case {
        name: "dates_of_a_gcc",
        about: "all files of a gcc get another date",
        needs: TREE,
        setup: tree,
        change: |place, _| date(place, 1_500_000_000),
        ..HARMLESS
    },
    Case {
        name: "dates_of_a_library",
        about: "a static library gets another date",
        setup: library,
        change: |place, _| date(place, 1_500_000_000),
        ..HARMLESS
    },
    Case {
        name: "same_bytes_in_place",
        about: "a wrapper and all that it reads are written with the same bytes",
        setup: wrapper,
        change: |place, _| each_file(place, disk::write),
        ..HARMLESS
    },
    Case {
        name: "same_bytes_by_other_files",
        about: "a wrapper and all that it reads are replaced by copies",
        setup: wrapper,
        change: |place, _| each_file(place, replace_by_copy),
        ..HARMLESS
    },
    Case {
        name: "headers_by_other_files",
        about: "headers and a response file are replaced by copies",
        setup: headers,
        change: |place, _| each_file(place, replace_by_copy),
        ..HARMLESS
    },
    Case {
        name: "library_by_another_file",
        about: "a static library is replaced by a copy",
        setup: library,
        change: |place, _| each_file(place, replace_by_copy),
        ..HARMLESS
    },
    Case {
        name: "driver_by_another_file",
        about: "the driver of a gcc is replaced by a copy",
        needs: TREE,
        setup: tree,
        change: |place, _| {
            place.copy("g/bin/gcc", "g/bin/gcc.copy")?;
            place.rename("g/bin/gcc.copy", "g/bin/gcc")
        },
        ..HARMLESS
    },
    Case {
        name: "unrelated_header_appears",
        about: "a header that nothing includes appears beside one that is included",
        setup: headers,
        change: |place, _| place.header("headers/unrelated.h", 3),
        ..HARMLESS
    },
    Case {
        name: "unrelated_header_changes",
        about: "a header that nothing includes changes",
        setup: |place| {
            place.header("headers/unrelated.h", 3)?;
            headers(place)
        },
        change: |place, _| place.header("headers/unrelated.h", 4),
        ..HARMLESS
    },
    Case {
        name: "unrelated_library_appears",
        about: "a library that nothing links appears where libraries are looked for",
        setup: library,
        change: |place, _| place.part("libm_2.a", "lib/libother.a"),
        ..HARMLESS
    },
    Case {
        name: "unrelated_files_beside_a_wrapper",
        about: "files and directories appear beside a wrapper",
        setup: wrapper,
        change: |place, _| {
            place.write("d/README", "text")?;
            place.write("d/x/y/z/deep", "text")?;
            place.write("d/flags.bak", flag(3))
        },
        ..HARMLESS
    },
    Case {
        name: "unrelated_program_beside_a_driver",
        about: "another program appears beside the driver of a gcc",
        needs: TREE,
        setup: tree,
        change: |place, _| place.program("g/bin/other", "#!/bin/sh\nexit 1\n"),
        ..HARMLESS
    },
    Case {
        name: "unrelated_file_in_a_gcc",
        about: "a file of an unknown name appears beside cc1",
        needs: TREE,
        setup: tree,
        change: |place, _| place.write(&format!("{}/notes.txt", place.gcc_library("g")?), "text"),
        ..HARMLESS
    },
    Case {
        name: "unrelated_file_of_a_searched_name_elsewhere",
        about: "a libm.a appears where nothing is looked for",
        setup: library,
        change: |place, _| place.part("libm_2.a", "other/libm.a"),
        ..HARMLESS
    },
    Case {
        name: "hard_link_to_a_header",
        about: "a header gets a second name",
        setup: headers,
        change: |place, _| disk::hard_link(&place.path("headers/x/b.h"), &place.path("second-name")),
        ..HARMLESS
    },
    Case {
        name: "header_becomes_a_link",
        about: "a nested header becomes a link to a file of the same bytes",
        setup: headers,
        change: |place, _| {
            place.rename("headers/x/b.h", "kept.h")?;
            place.link("../../kept.h", "headers/x/b.h")
        },
        ..HARMLESS
    },
    Case {
        name: "directory_becomes_a_link",
        about: "a directory of headers becomes a link to itself under another name",
        setup: headers,
        change: |place, _| {
            place.rename("headers", "moved")?;
            place.link("moved", "headers")
        },
        ..HARMLESS
    },
    Case {
        name: "driver_by_another_link",
        about: "a gcc is called by a link in another directory",
        needs: TREE,
        setup: |place| {
            place.link("../g/bin/gcc", "links/gcc")?;
            tree(place)
        },
        change: |place, call| {
            call.cc = place.text("links/gcc");
            Ok(())
        },
        ..HARMLESS
    },
    Case {
        name: "permissions_of_a_header",
        about: "a header may be read by its owner only",
        setup: headers,
        change: |place, _| disk::chmod(&place.path("headers/x/b.h"), 0o600),
        ..HARMLESS
    },
    Case {
        name: "owner_of_a_header",
        about: "a header belongs to another user",
        needs: &[Need::Root],
        setup: headers,
        change: |place, _| disk::chown(&place.path("headers/x/b.h"), 12345),
        ..HARMLESS
    },
    Case {
        name: "attribute_of_a_header",
        about: "a header gets an extended attribute",
        needs: &[Need::Attributes],
        setup: headers,
        change: |place, _| disk::set_attribute(&place.path("headers/x/b.h"), "user.note", "seen"),
        ..HARMLESS
    },
    Case {
        name: "log_of_a_wrapper",
        about: "a wrapper appends to a log",
        setup: |place| {
            place.wrapper("cc", "echo \"$$ $*\" >> \"$T/log\"", "")?;
            Ok(Call::cc(place.text("cc")))
        },
        change: |place, _| disk::append(&place.path("log"), "a line more\n"),
        reversible: false,
        ..HARMLESS
    },
    Case {
        name: "temporary_files_of_a_wrapper",
        about: "a wrapper leaves a file of another name in TMPDIR each time",
        setup: |place| {
            place.write("flags", flag(1))?;
            let copy = "t=\"$TMPDIR/flags.$$\"; cat \"$T/flags\" > \"$t\"";
            place.wrapper("cc", copy, "@\"$t\"")?;
            Ok(Call::cc(place.text("cc")))
        },
        change: |place, _| disk::write(&place.world("s").join("tmp/flags.1"), flag(3)),
        ..HARMLESS
    },
];
