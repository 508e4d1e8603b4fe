//! Wrappers that are programs: the system calls by which they get their flag, and the libraries that they load.

use std::io;

use crate::case::{Call, Case, MATTERS, Need};
use crate::disk;
use crate::place::Place;

/// The driver `by_HOW` of the compiled parts, with a file `flags` beside it.
fn driver(place: &Place, how: &str) -> io::Result<Call> {
    place.write("flags", "1")?;
    without_flags(place, how)
}

fn without_flags(place: &Place, how: &str) -> io::Result<Call> {
    place.part(how, "cc")?;
    Ok(Call::cc(place.text("cc")))
}

/// The driver `by_library`, with the library in the second of its two directories.
fn with_library(place: &Place) -> io::Result<Call> {
    place.write("first/readme", "")?;
    place.part("libflag_1.so", "second/libflag_1.so")?;
    without_flags(place, "by_library")
}

/// A driver that reads the file `flags` in the way `$how`, and the file changes.
macro_rules! reads {
    ($name:literal, $about:literal, $how:literal $(, $field:ident: $value:expr)*) => {
        Case {
            name: $name,
            about: $about,
            setup: |place| driver(place, $how),
            change: |place, _| place.write("flags", "2"),
            $($field: $value,)*
            ..MATTERS
        }
    };
}

pub(super) const CASES: &[Case] = &[
    reads!("program_that_opens", "open(2)", "by_open"),
    reads!(
        "static_program_that_opens",
        "open(2) in a program without shared libraries",
        "static_by_open",
        needs: &[Need::StaticLibc]
    ),
    reads!("program_that_opens_in_a_directory", "openat(2) with a descriptor from O_PATH", "by_directory"),
    reads!("program_that_uses_openat2", "openat2(2)", "by_openat2"),
    reads!("program_that_maps", "open(2) and mmap(2), without a read", "by_map"),
    reads!("program_whose_child_reads", "vfork(2), chdir(2), a relative open(2), and a pipe", "by_child"),
    reads!("program_whose_thread_reads", "open(2) in another thread", "by_thread"),
    reads!(
        "program_that_goes_by_proc",
        "open(2) of /proc/PID/root/proc/self/root/...",
        "by_proc",
        may_refuse: true
    ),
    reads!(
        "program_that_uses_a_ring",
        "io_uring: opens and reads without the system calls for it",
        "by_uring",
        may_refuse: true,
        needs: &[Need::Ring]
    ),
    reads!(
        "program_with_32_bit_calls",
        "int 0x80: the system calls of 32-bit programs, by other numbers",
        "static_by_int80",
        may_refuse: true,
        needs: &[Need::Int80]
    ),
    Case {
        name: "program_that_asks_for_size",
        about: "stat(2): the file's size is the flag",
        setup: |place| driver(place, "by_size"),
        change: |place, _| place.write("flags", "12"),
        ..MATTERS
    },
    Case {
        name: "program_that_asks_for_existence",
        about: "access(2): whether there is a file is the flag",
        setup: |place| without_flags(place, "by_access"),
        change: |place, _| place.write("flags", ""),
        ..MATTERS
    },
    Case {
        name: "program_that_asks_for_permission",
        about: "access(2): whether a file may be executed is the flag",
        setup: |place| driver(place, "by_executable"),
        change: |place, _| disk::chmod(&place.path("flags"), 0o755),
        ..MATTERS
    },
    Case {
        name: "program_that_reads_a_link",
        about: "readlink(2): the link's text is the flag",
        setup: |place| {
            place.link("1", "flags")?;
            without_flags(place, "by_readlink")
        },
        change: |place, _| place.link("2", "flags"),
        ..MATTERS
    },
    Case {
        name: "program_that_lists",
        about: "getdents(2): the number of files is the flag",
        setup: |place| {
            place.write("flags/one", "")?;
            without_flags(place, "by_listing")
        },
        change: |place, _| place.write("flags/two", ""),
        ..MATTERS
    },
    Case {
        name: "program_that_reads_an_attribute",
        about: "getxattr(2): an extended attribute of a file is the flag",
        may_refuse: true,
        needs: &[Need::Attributes],
        setup: |place| {
            let call = driver(place, "by_attribute")?;
            disk::set_attribute(&place.path("flags"), "user.mark", "1")?;
            Ok(call)
        },
        change: |place, _| disk::set_attribute(&place.path("flags"), "user.mark", "2"),
        ..MATTERS
    },
    Case {
        name: "library_of_a_program",
        about: "a shared library of the driver changes, found beside it",
        setup: with_library,
        change: |place, _| place.part("libflag_2.so", "second/libflag_1.so"),
        ..MATTERS
    },
    Case {
        name: "library_of_a_program_appears",
        about: "of two directories for the driver's libraries the first gets one",
        setup: with_library,
        change: |place, _| place.part("libflag_2.so", "first/libflag_1.so"),
        ..MATTERS
    },
    Case {
        name: "library_of_a_program_for_this_processor",
        about: "a library appears in the loader's subdirectory for this machine's features",
        setup: with_library,
        change: |place, _| place.part("libflag_2.so", "second/glibc-hwcaps/x86-64-v2/libflag_1.so"),
        ..MATTERS
    },
    Case {
        name: "library_that_a_program_loads",
        about: "a library that the driver loads by dlopen(3) changes",
        setup: |place| {
            place.part("libflag_1.so", "flags")?;
            without_flags(place, "by_dlopen")
        },
        change: |place, _| place.part("libflag_2.so", "flags"),
        ..MATTERS
    },
    Case {
        name: "library_that_a_wrapper_loads_first",
        about: "a wrapper sets LD_PRELOAD, and the library changes",
        setup: |place| {
            place.part("preload_1.so", "p.so")?;
            place.wrapper("cc", "export LD_PRELOAD=\"$T/p.so\"", "-Wl,-soname,m0")?;
            Ok(Call::cc(place.text("cc")))
        },
        change: |place, _| place.part("preload_2.so", "p.so"),
        ..MATTERS
    },
    Case {
        name: "directory_of_libraries_of_a_wrapper",
        about: "a wrapper sets LD_LIBRARY_PATH for a driver, and a library appears there",
        setup: |place| {
            place.write("first/readme", "")?;
            place.part("libflag_1.so", "inner/second/libflag_1.so")?;
            place.part("by_library", "inner/cc")?;
            place.write("over/readme", "")?;
            place.script("cc", "/bin/sh", "LD_LIBRARY_PATH=\"$T/over\" exec \"$T/inner/cc\" \"$@\"")?;
            Ok(Call::cc(place.text("cc")))
        },
        change: |place, _| place.part("libflag_2.so", "over/libflag_1.so"),
        ..MATTERS
    },
    Case {
        name: "program_becomes_a_script",
        about: "the driver was a program and is a script",
        setup: |place| driver(place, "by_open"),
        change: |place, _| {
            place.remove("cc")?;
            place.wrapper("cc", "", "-Wl,-soname,m2")
        },
        ..MATTERS
    },
];
