//! The shared library as a linker sees it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use opkeep_capi::ffi::{OPKEEP_ABI, opkeep_abi};

use crate::common;
use crate::header::UPDATE;

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

/// What a program that was compiled before relies on, one line each: constants, values, fields of structs, functions.
fn interface(header: &str) -> Vec<String> {
    let (mut lines, mut fields, mut function) = (Vec::new(), None, String::new());
    for line in header.lines().skip_while(|line| !line.contains("OPKEEP_ABI ")) {
        let line = line.split("//").next().unwrap_or_default().trim();
        if let Some(constant) = line.strip_prefix("#define OPKEEP_") {
            lines.push(format!("OPKEEP_{constant}"));
        } else if line.is_empty() || line.starts_with('#') || line.starts_with("extern") || line == "}" {
        } else if line.starts_with("typedef") {
            fields = Some(Vec::new());
        } else if let Some(name) = line.strip_prefix("} ") {
            let (name, fields) = (name.trim_end_matches(';'), fields.take().unwrap_or_default());
            lines.extend(fields.iter().enumerate().map(|(at, field)| format!("{name} {at} {field}")));
        } else if let Some(fields) = &mut fields {
            fields.push(line);
        } else {
            function = format!("{function} {line}");
            let is_complete = function.ends_with(';');
            lines.extend(is_complete.then(|| std::mem::take(&mut function).trim_start().to_owned()));
        }
    }
    lines
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a person asks this test for the list")]
fn a_change_of_the_interface_changes_its_number() {
    let path = format!("{}/tests/suite/abi-{OPKEEP_ABI}.txt", env!("CARGO_MANIFEST_DIR"));
    let current = interface(include_str!("../../include/opkeep.h"));
    let committed = fs::read_to_string(&path).unwrap_or_default();
    let lost: Vec<_> =
        committed.lines().filter(|line| !current.iter().any(|current| current == line)).collect();
    assert!(lost.is_empty(), "programs that were compiled before need these: raise OPKEEP_ABI: {lost:#?}");
    if std::env::var_os(UPDATE).is_some() {
        fs::write(&path, current.join("\n") + "\n").unwrap();
        return;
    }
    let added: Vec<_> =
        current.iter().filter(|line| !committed.lines().any(|known| known == *line)).collect();
    assert!(added.is_empty(), "{path} lacks {added:#?}; set {UPDATE}=1 to write it");
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
    assert!(manifest.contains("name = \"opkeep\"") && manifest.contains("filename = \"opkeep\""));
    for header in ["opkeep.h", "opkeep.hpp"] {
        let installed = format!("{{ from = \"include/{header}\" }}");
        assert!(manifest.contains(&installed), "cargo-c does not install it: {installed}");
    }
    assert_eq!(opkeep_abi(), OPKEEP_ABI);
}
