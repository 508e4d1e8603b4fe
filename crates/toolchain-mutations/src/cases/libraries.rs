//! The math library that kernels are linked against.

use crate::case::{Call, Case, MATTERS, MAY_MATTER, Need};
use crate::place::Place;

/// Gcc that searches libraries in the directories, in this order.
fn looks_in(place: &Place, directories: &[&str]) -> Call {
    let flags: Vec<String> = directories.iter().map(|dir| format!("-L{}", place.text(dir))).collect();
    Call::cc(format!("gcc {}", flags.join(" ")))
}

pub(super) const CASES: &[Case] = &[
    Case {
        name: "static_library",
        about: "-L dir with a libm.a, which changes",
        setup: |place| {
            place.part("libm_1.a", "lib/libm.a")?;
            Ok(looks_in(place, &["lib"]))
        },
        change: |place, _| place.part("libm_2.a", "lib/libm.a"),
        ..MATTERS
    },
    Case {
        name: "shared_library",
        about: "-L dir with a libm.so, which gets another name inside",
        setup: |place| {
            place.part("libm_1.so", "lib/libm.so")?;
            Ok(looks_in(place, &["lib"]))
        },
        change: |place, _| place.part("libm_2.so", "lib/libm.so"),
        ..MATTERS
    },
    Case {
        name: "library_appears",
        about: "-L dir is empty, and gets a libm.a",
        setup: |place| {
            place.write("lib/readme", "")?;
            Ok(looks_in(place, &["lib"]))
        },
        change: |place, _| place.part("libm_2.a", "lib/libm.a"),
        ..MATTERS
    },
    Case {
        name: "directory_of_libraries_appears",
        about: "-L names a directory that does not exist, and then does",
        setup: |place| Ok(looks_in(place, &["lib"])),
        change: |place, _| place.part("libm_2.a", "lib/libm.a"),
        ..MATTERS
    },
    Case {
        name: "shared_library_beside_a_static_one",
        about: "libm.so appears beside libm.a and comes first",
        setup: |place| {
            place.part("libm_1.a", "lib/libm.a")?;
            Ok(looks_in(place, &["lib"]))
        },
        change: |place, _| place.part("libm_1.so", "lib/libm.so"),
        ..MATTERS
    },
    Case {
        name: "library_in_an_earlier_directory",
        about: "of two -L directories the first gets a libm.a",
        setup: |place| {
            place.write("first/readme", "")?;
            place.part("libm_1.a", "second/libm.a")?;
            Ok(looks_in(place, &["first", "second"]))
        },
        change: |place, _| place.part("libm_2.a", "first/libm.a"),
        ..MATTERS
    },
    Case {
        name: "libraries_exchange_directories",
        about: "two -L directories exchange their names",
        setup: |place| {
            place.part("libm_1.a", "first/libm.a")?;
            place.part("libm_2.a", "second/libm.a")?;
            Ok(looks_in(place, &["first", "second"]))
        },
        change: |place, _| place.exchange("first", "second"),
        ..MATTERS
    },
    Case {
        name: "order_of_directories",
        about: "CC names the same -L directories in the other order",
        setup: |place| {
            place.part("libm_1.a", "first/libm.a")?;
            place.part("libm_2.a", "second/libm.a")?;
            Ok(looks_in(place, &["first", "second"]))
        },
        change: |place, call| {
            call.cc = looks_in(place, &["second", "first"]).cc;
            Ok(())
        },
        ..MATTERS
    },
    Case {
        name: "linked_directory_of_libraries",
        about: "-L dir is a link, which is retargeted",
        setup: |place| {
            place.part("libm_1.a", "v1/libm.a")?;
            place.part("libm_2.a", "v2/libm.a")?;
            place.link("v1", "lib")?;
            Ok(looks_in(place, &["lib"]))
        },
        change: |place, _| place.link("v2", "lib"),
        ..MATTERS
    },
    Case {
        name: "linked_library",
        about: "libm.so is a link to a versioned file, and is retargeted",
        setup: |place| {
            place.part("libm_1.so", "lib/libm.so.1")?;
            place.part("libm_2.so", "lib/libm.so.2")?;
            place.link("libm.so.1", "lib/libm.so")?;
            Ok(looks_in(place, &["lib"]))
        },
        change: |place, _| place.link("libm.so.2", "lib/libm.so"),
        ..MATTERS
    },
    Case {
        name: "linker_script_for_a_library",
        about: "libm.so is a script that names another library, and then a third",
        setup: |place| {
            place.part("libm_1.so", "real/1.so")?;
            place.part("libm_2.so", "real/2.so")?;
            place.write("lib/libm.so", format!("GROUP ( {} )\n", place.text("real/1.so")))?;
            Ok(looks_in(place, &["lib"]))
        },
        change: |place, _| place.write("lib/libm.so", format!("GROUP ( {} )\n", place.text("real/2.so"))),
        ..MATTERS
    },
    Case {
        name: "library_behind_a_linker_script",
        about: "libm.so is a script that names a static library, which changes",
        setup: |place| {
            place.part("libm_1.a", "real/m.a")?;
            place.write("lib/libm.so", format!("INPUT ( {} )\n", place.text("real/m.a")))?;
            Ok(looks_in(place, &["lib"]))
        },
        change: |place, _| place.part("libm_2.a", "real/m.a"),
        ..MATTERS
    },
    Case {
        name: "shared_library_behind_a_linker_script",
        about: "libm.so is a script that names a shared library if needed, which changes",
        setup: |place| {
            place.part("libm_1.so", "real/m.so")?;
            let text = format!("GROUP ( AS_NEEDED ( {} ) )\n", place.text("real/m.so"));
            place.write("lib/libm.so", text)?;
            Ok(looks_in(place, &["lib"]))
        },
        change: |place, _| place.part("libm_2.so", "real/m.so"),
        ..MATTERS
    },
    Case {
        name: "library_that_a_linker_script_looks_for",
        about: "libm.so is a script with -lmath, of which an earlier one appears",
        setup: |place| {
            place.write("first/readme", "")?;
            place.part("libm_1.a", "second/libmath.a")?;
            place.write("second/libm.so", "INPUT ( -lmath )\n")?;
            Ok(looks_in(place, &["first", "second"]))
        },
        change: |place, _| place.part("libm_2.a", "first/libmath.a"),
        ..MATTERS
    },
    Case {
        name: "member_of_a_thin_archive",
        about: "libm.a is a thin archive, whose member lies elsewhere and changes",
        needs: &[Need::Program("ar")],
        setup: |place| {
            place.part("libm_1.o", "objects/m.o")?;
            place.write("lib/readme", "")?;
            place.thin_archive("lib/libm.a", "objects/m.o")?;
            Ok(looks_in(place, &["lib"]))
        },
        change: |place, _| place.part("libm_2.o", "objects/m.o"),
        ..MATTERS
    },
    Case {
        name: "library_by_name",
        about: "-l:extra.o finds a file in -L dir, which changes",
        setup: |place| {
            place.part("mark_1.o", "lib/extra.o")?;
            Ok(Call::cc(format!("gcc -L{} -Wl,-l:extra.o", place.text("lib"))))
        },
        change: |place, _| place.part("mark_2.o", "lib/extra.o"),
        ..MATTERS
    },
    Case {
        name: "library_by_response_file",
        about: "a response file names the -L directory",
        setup: |place| {
            place.part("libm_1.a", "lib/libm.a")?;
            place.write("flags", format!("-L{}\n", place.text("lib")))?;
            Ok(Call::cc(format!("gcc @{}", place.text("flags"))))
        },
        change: |place, _| place.part("libm_2.a", "lib/libm.a"),
        ..MATTERS
    },
    Case {
        name: "library_by_environment_of_a_wrapper",
        about: "a wrapper sets LIBRARY_PATH, and the library there changes",
        setup: |place| {
            place.part("libm_1.a", "lib/libm.a")?;
            place.wrapper("cc", "export LIBRARY_PATH=\"$T/lib\"", "")?;
            Ok(Call::cc(place.text("cc")))
        },
        change: |place, _| place.part("libm_2.a", "lib/libm.a"),
        ..MATTERS
    },
    Case {
        name: "library_in_a_sysroot",
        about: "the library of a directory in a --sysroot changes",
        setup: |place| {
            place.part("libm_1.a", "sys/opt/libm.a")?;
            Ok(Call::cc(format!("gcc --sysroot={} -L=/opt", place.text("sys"))))
        },
        change: |place, _| place.part("libm_2.a", "sys/opt/libm.a"),
        ..MATTERS
    },
    Case {
        name: "library_beside_programs",
        about: "the library of a -B directory changes",
        setup: |place| {
            place.part("libm_1.a", "b/libm.a")?;
            Ok(Call::cc(format!("gcc -B{}/", place.text("b"))))
        },
        change: |place, _| place.part("libm_2.a", "b/libm.a"),
        ..MATTERS
    },
    Case {
        name: "unusable_library_appears",
        about: "a libm.so appears that is no library: the linker goes on, or stops",
        may_refuse: true,
        setup: |place| {
            place.write("lib/readme", "")?;
            Ok(looks_in(place, &["lib"]))
        },
        change: |place, _| place.write("lib/libm.so", "no library at all\n"),
        ..MAY_MATTER
    },
];
