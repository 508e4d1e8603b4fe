//! Objects as binutils reads them, if installed.

#![expect(clippy::disallowed_methods, reason = "readelf reads files")]

use std::process::Command;

use opkeep_testkit::ascend::zoo;

/// The output of `readelf` for `object`, and its complaints.
fn readelf(object: &[u8]) -> Option<(String, String)> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("object");
    std::fs::write(&path, object).unwrap();
    let options = ["--file-header", "--section-headers", "--program-headers", "--symbols", "--relocs"];
    let command = Command::new("readelf")
        .args(options)
        .args(["--section-groups", "--dynamic", "--wide"])
        .arg(&path)
        .output();
    let output = command.ok()?;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    assert!(output.status.success());
    Some((text(output.stdout), text(output.stderr)))
}

#[test]
fn readelf_has_nothing_to_complain_about() {
    for (kind, pair) in zoo() {
        let Some((said, complaints)) = readelf(&pair.object) else { return };
        assert_eq!(complaints, "", "{kind}");
        for flaw in ["Warning", "<corrupt", "bad"] {
            assert!(!said.contains(flaw), "{kind}: {said}");
        }
        assert!(said.contains("FUNC    GLOBAL DEFAULT"), "{kind}: {said}");
    }
    // It does complain about a damaged object.
    let mut broken = zoo().swap_remove(0).1.object;
    let last = broken.len() - 64;
    broken.truncate(last);
    let Some((_, complaints)) = readelf(&broken) else { return };
    assert!(!complaints.is_empty());
}
