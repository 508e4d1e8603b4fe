//! Wrappers that go by what they look at, and read nothing: for the kernels of one operator.
//!
//! Of each there are two: one looks for every kernel, so that the probe sees it look; the other only where it needs the
//! answer, and may be refused.

use std::io;

use crate::toolchain_mutations::case::{Call, Case, MATTERS};
use crate::toolchain_mutations::disk;
use crate::toolchain_mutations::place::Place;

/// Two scripts that go by a test of the shell. Before the first build `$lay` is laid.
macro_rules! scripts {
    ($what:literal, $about:literal, $test:literal, $lay:expr, $change:expr) => {
        [
            Case {
                name: concat!("flags_of_some_kernels_by_", $what),
                about: concat!($about, " decides for one operator"),
                setup: |place| {
                    let lay: fn(&Place) -> io::Result<()> = $lay;
                    lay(place)?;
                    let looks = concat!("found=; ", $test, " && found=1; grep -qs relu_ kernel.c || found=");
                    script(place, looks)
                },
                change: $change,
                ..MATTERS
            },
            Case {
                name: concat!("look_at_", $what, "_for_some_kernels"),
                about: concat!($about, " decides for one operator, and is looked at with that only"),
                may_refuse: true,
                setup: |place| {
                    let lay: fn(&Place) -> io::Result<()> = $lay;
                    lay(place)?;
                    script(place, concat!("found=; grep -qs relu_ kernel.c && ", $test, " && found=1"))
                },
                change: $change,
                ..MATTERS
            },
        ]
    };
}

/// Two programs that go by a system call, each a part of that name.
macro_rules! programs {
    ($what:literal, $about:literal, $how:literal, $lay:expr, $change:expr) => {
        [
            Case {
                name: concat!("program_that_goes_by_", $what, "_for_some_kernels"),
                about: concat!($about, " is the flag for one operator"),
                setup: |place| {
                    let lay: fn(&Place) -> io::Result<()> = $lay;
                    lay(place)?;
                    program(place, concat!("some_by_", $how))
                },
                change: $change,
                ..MATTERS
            },
            Case {
                name: concat!("program_that_looks_for_", $what, "_for_some_kernels"),
                about: concat!($about, " is the flag for one operator, and is asked for with that only"),
                may_refuse: true,
                setup: |place| {
                    let lay: fn(&Place) -> io::Result<()> = $lay;
                    lay(place)?;
                    program(place, concat!("late_by_", $how))
                },
                change: $change,
                ..MATTERS
            },
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

/// A wrapper that adds a flag if `looks` sets `found`.
fn script(place: &Place, looks: &str) -> io::Result<Call> {
    place.wrapper("cc", &format!("{looks}; more=${{found:+-Wl,-soname,m1}}"), "$more")?;
    Ok(Call::cc(place.text("cc")))
}

fn program(place: &Place, part: &str) -> io::Result<Call> {
    place.part(part, "cc")?;
    Ok(Call::cc(place.text("cc")))
}
