//! The shared library as a linker sees it.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use opkeep_capi::ffi::{OPKEEP_ABI, opkeep_abi};

use crate::common;

fn output(program: &str, arguments: &[&str], file: &Path) -> String {
    let output = Command::new(program).args(arguments).arg(file).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_library_exports_the_functions_of_the_header_and_nothing_else() {
    let symbols = output("nm", &["-D", "--defined-only", "--format=posix"], &common::library("so"));
    let exported: BTreeSet<&str> = symbols.lines().filter_map(|line| line.split(' ').next()).collect();
    let header = include_str!("../../include/opkeep.h");
    let declared: BTreeSet<&str> = header
        .match_indices('(')
        .filter_map(|(at, _)| {
            let name = header[..at].rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()?;
            name.starts_with("opkeep_").then_some(name)
        })
        .collect();
    assert_eq!(exported, declared);
}

#[test]
fn the_soname_has_the_number_of_the_interface() {
    let soname = format!("libopkeep.so.{OPKEEP_ABI}");
    let dynamic = output("readelf", &["--dynamic", "--wide"], &common::library("so"));
    assert!(dynamic.contains(&format!("Library soname: [{soname}]")), "{dynamic}");
    assert!(dynamic.contains("NODELETE"), "{dynamic}");
    // cargo-c makes the soname of the first number.
    let manifest = include_str!("../../Cargo.toml");
    assert!(manifest.contains(&format!("version = \"{OPKEEP_ABI}.0.0\"")));
    assert_eq!(opkeep_abi(), OPKEEP_ABI);
}
