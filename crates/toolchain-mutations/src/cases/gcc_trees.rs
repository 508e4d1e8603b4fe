//! The files of a gcc that is a copy: `cc1`, spec files, assembler and linker, libraries.

use std::io;

use crate::case::{Call, Case, MATTERS, MAY_MATTER, Need};
use crate::disk;
use crate::place::Place;

const TREE: &[Need] = &[Need::GccTree];

/// A private gcc.
fn tree(place: &Place) -> io::Result<Call> {
    Ok(Call::cc(place.gcc_tree("g")?))
}

/// Replaces `cc1` by a script that adds a header.
fn compiler(place: &Place, mark: u32) -> io::Result<()> {
    let real = place.gcc_program("cc1")?;
    let name = format!("{}/cc1", place.gcc_library("g")?);
    place.header(&format!("{mark}.h"), mark)?;
    place.remove(&name)?;
    place.script(&name, "/bin/sh", &format!("exec {real} \"$@\" -include \"$T/{mark}.h\""))
}

/// A program that adds a name to objects.
fn linker(place: &Place, name: &str, mark: u32) -> io::Result<()> {
    let real = place.gcc_program("ld")?;
    place.remove(name)?;
    place.script(name, "/bin/sh", &format!("exec {real} \"$@\" -soname m{mark}"))
}

fn in_library(place: &Place, name: &str) -> io::Result<String> {
    Ok(format!("{}/{name}", place.gcc_library("g")?))
}

pub(super) const CASES: &[Case] = &[
    Case {
        name: "cc1_becomes_a_script",
        about: "cc1 is replaced by a script that adds a header",
        needs: TREE,
        setup: tree,
        change: |place, _| compiler(place, 1),
        ..MATTERS
    },
    Case {
        name: "cc1_as_a_script",
        about: "cc1 is a script, which changes",
        needs: TREE,
        setup: |place| {
            let call = tree(place)?;
            compiler(place, 1)?;
            Ok(call)
        },
        change: |place, _| compiler(place, 2),
        ..MATTERS
    },
    Case {
        name: "flags_of_cc1",
        about: "cc1 is a script that reads a file, which changes",
        needs: TREE,
        setup: |place| {
            let call = tree(place)?;
            place.header("1.h", 1)?;
            place.header("2.h", 2)?;
            place.write("flags", format!("-include {}", place.text("1.h")))?;
            let (real, name) = (place.gcc_program("cc1")?, in_library(place, "cc1")?);
            place.remove(&name)?;
            place.script(&name, "/bin/sh", &format!("exec {real} \"$@\" $(cat \"$T/flags\")"))?;
            Ok(call)
        },
        change: |place, _| place.write("flags", format!("-include {}", place.text("2.h"))),
        ..MATTERS
    },
    Case {
        name: "specs_of_a_gcc_appear",
        about: "a file specs appears beside cc1",
        needs: TREE,
        setup: |place| {
            place.header("1.h", 1)?;
            tree(place)
        },
        change: |place, _| {
            let text = format!("*cpp_unique_options:\n+ -include {}\n\n", place.text("1.h"));
            place.write(&in_library(place, "specs")?, text)
        },
        ..MATTERS
    },
    Case {
        name: "specs_of_a_target_appear",
        about: "a file specs appears in the target's library directory",
        needs: TREE,
        setup: |place| {
            place.header("1.h", 1)?;
            disk::directory(&place.path(&place.gcc_tools("g")?))?;
            tree(place)
        },
        change: |place, _| {
            let text = format!("*cpp_unique_options:\n+ -include {}\n\n", place.text("1.h"));
            place.write(&format!("g/{}/lib/specs", place.machine()?), text)
        },
        ..MATTERS
    },
    Case {
        name: "linker_of_a_gcc_appears",
        about: "ld appears in the target's bin directory",
        needs: TREE,
        setup: |place| {
            disk::directory(&place.path(&place.gcc_tools("g")?))?;
            tree(place)
        },
        change: |place, _| linker(place, &format!("{}/ld", place.gcc_tools("g")?), 1),
        ..MATTERS
    },
    Case {
        name: "real_ld_appears",
        about: "real-ld, which collect2 prefers, appears beside cc1",
        needs: TREE,
        setup: tree,
        change: |place, _| linker(place, &in_library(place, "real-ld")?, 1),
        ..MATTERS
    },
    Case {
        name: "collect_ld_changes",
        about: "collect-ld, which collect2 knows, changes",
        needs: TREE,
        setup: |place| {
            let call = tree(place)?;
            linker(place, &in_library(place, "collect-ld")?, 1)?;
            Ok(call)
        },
        change: |place, _| linker(place, &in_library(place, "collect-ld")?, 2),
        ..MATTERS
    },
    Case {
        name: "collect2_becomes_a_script",
        about: "collect2 is replaced by a script that adds a name",
        needs: TREE,
        setup: tree,
        change: |place, _| {
            let (real, name) = (place.gcc_program("collect2")?, in_library(place, "collect2")?);
            place.remove(&name)?;
            place.script(&name, "/bin/sh", &format!("exec {real} \"$@\" -soname m1"))
        },
        ..MATTERS
    },
    Case {
        name: "assembler_of_a_gcc_appears",
        about: "as appears beside cc1",
        needs: TREE,
        setup: tree,
        change: |place, _| {
            let (real, name) = (place.gcc_program("as")?, in_library(place, "as")?);
            let more = "printf '\\t.section .rodata\\n\\t.long 7\\n' > more.s";
            place.script(&name, "/bin/sh", &format!("{more}\nexec {real} \"$@\" more.s"))
        },
        ..MATTERS
    },
    Case {
        name: "driver_becomes_a_script",
        about: "the driver is replaced by a script that adds a flag",
        needs: TREE,
        setup: tree,
        change: |place, _| {
            place.rename("g/bin/gcc", "g/bin/gcc-real")?;
            let body = "exec \"$T/g/bin/gcc-real\" \"$@\" -Wl,-soname,m1";
            place.script("g/bin/gcc", "/bin/sh", body)
        },
        ..MATTERS
    },
    Case {
        name: "library_of_a_gcc_appears",
        about: "libm.a appears beside cc1",
        needs: TREE,
        setup: tree,
        change: |place, _| place.part("libm_1.a", &in_library(place, "libm.a")?),
        ..MATTERS
    },
    Case {
        name: "headers_of_a_gcc",
        about: "stdc-predef.h appears among the headers of gcc",
        needs: TREE,
        setup: |place| {
            let call = tree(place)?;
            let name = in_library(place, "include")?;
            place.remove(&name)?;
            place.write(&format!("{name}/readme"), "")?;
            Ok(call)
        },
        change: |place, _| place.header(&in_library(place, "include/stdc-predef.h")?, 1),
        ..MAY_MATTER
    },
    Case {
        name: "library_that_no_kernel_needs",
        about: "libgcc.a beside cc1 changes",
        needs: TREE,
        setup: tree,
        change: |place, _| {
            let name = in_library(place, "libgcc.a")?;
            place.remove(&name)?;
            place.part("libm_1.a", &name)
        },
        ..MAY_MATTER
    },
];
