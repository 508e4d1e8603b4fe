//! Inputs that a user declares: files that no probe could see, named by `--toolchain-input` or
//! `OPKEEP_TOOLCHAIN_INPUTS`.

use std::io;

use crate::case::{Call, Case, HARMLESS, MATTERS, Need};
use crate::place::Place;
use crate::system::flag;

const DECLARED: &[Need] = &[Need::ToolchainInput];

/// A wrapper that reads its flags for some kernels only, but runs the reading program for all, since a program counts,
/// too.
fn wrapper(place: &Place) -> io::Result<Call> {
    place.write("flags/one", flag(1))?;
    let read = "cat < /dev/null; more=; grep -qs relu_ kernel.c && more=$(cat \"$T\"/flags/*)";
    place.wrapper("cc", read, "$more")?;
    Ok(Call::cc(place.text("cc")))
}

pub(super) const CASES: &[Case] = &[
    Case {
        name: "declared_by_argument",
        about: "--toolchain-input names the file, which changes",
        needs: DECLARED,
        setup: |place| {
            let file = place.text("flags/one");
            let call = wrapper(place)?.with_args(&["--toolchain-input", &place.text("flags")]);
            Ok(call.with_args(&["--toolchain-input", &file]))
        },
        change: |place, _| place.write("flags/one", flag(2)),
        ..MATTERS
    },
    Case {
        name: "declared_by_environment",
        about: "OPKEEP_TOOLCHAIN_INPUTS names a directory and a file, which changes",
        needs: DECLARED,
        setup: |place| {
            let inputs = format!("{}:{}", place.text("flags"), place.text("flags/one"));
            Ok(wrapper(place)?.with_env("OPKEEP_TOOLCHAIN_INPUTS", inputs))
        },
        change: |place, _| place.write("flags/one", flag(2)),
        ..MATTERS
    },
    Case {
        name: "declared_directory",
        about: "--toolchain-input names a directory, in which a file appears",
        needs: DECLARED,
        setup: |place| Ok(wrapper(place)?.with_args(&["--toolchain-input", &place.text("flags")])),
        change: |place, _| {
            place.remove("flags/one")?;
            place.write("flags/two", flag(2))
        },
        ..MATTERS
    },
    Case {
        name: "declared_file_appears",
        about: "--toolchain-input names a file that is not there, and then is",
        needs: DECLARED,
        may_refuse: true,
        setup: |place| {
            let read = "cat < /dev/null; more=; grep -qs relu_ kernel.c && [ -e \"$T/more\" ] && more=$(cat \"$T/more\")";
            place.wrapper("cc", read, "$more")?;
            Ok(Call::cc(place.text("cc")).with_args(&["--toolchain-input", &place.text("more")]))
        },
        change: |place, _| place.write("more", flag(2)),
        ..MATTERS
    },
    Case {
        name: "declared_file_is_written_with_the_same_bytes",
        about: "a declared file is replaced by one of the same content",
        needs: DECLARED,
        setup: |place| Ok(wrapper(place)?.with_args(&["--toolchain-input", &place.text("flags")])),
        change: |place, _| place.replace("flags/one", flag(1)),
        ..HARMLESS
    },
];
