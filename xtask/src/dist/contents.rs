//! What is in an archive. Its directories are those of a prefix such as `/usr/local`: extracted there, man and the shells find
//! what they look for.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use super::archive::File;
use crate::disk;

/// The directory of documents.
const DOCUMENTS: &str = "share/doc/opkeep";

/// The documents that are copied from the sources.
const COPIED: [&str; 5] = ["CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT", "README.md", "THIRD-PARTY.md"];

/// The shells, and where each looks for completions. PowerShell has no such place.
const COMPLETIONS: [(&str, &str); 5] = [
    ("bash", "share/bash-completion/completions/opkeep"),
    ("elvish", "share/elvish/lib/opkeep.elv"),
    ("fish", "share/fish/vendor_completions.d/opkeep.fish"),
    ("powershell", "share/doc/opkeep/opkeep.ps1"),
    ("zsh", "share/zsh/site-functions/_opkeep"),
];

/// Returns the files that are the same for all platforms: documents, completions, man pages. `program` is a binary that runs
/// here, and `scratch` a directory for its man pages.
pub(super) fn common(
    source: &Path,
    program: &Path,
    scratch: &Path,
) -> Result<BTreeMap<String, File>, String> {
    let mut files = BTreeMap::new();
    for name in COPIED {
        files.insert(format!("{DOCUMENTS}/{name}"), File::data(disk::bytes(source, name)?));
    }
    for (shell, path) in COMPLETIONS {
        let script = printed(program, &[Path::new("completions"), Path::new(shell)])?;
        files.insert(path.to_owned(), File::data(script));
    }
    disk::empty_directory(scratch)?;
    printed(program, &[Path::new("man"), scratch])?;
    for name in disk::names(scratch)? {
        files.insert(format!("share/man/man1/{name}"), File::data(disk::bytes(scratch, &name)?));
    }
    Ok(files)
}

/// Returns the files of one platform: those that are the same for all, the binary, and its bill of materials.
pub(super) fn with_binary(
    common: &BTreeMap<String, File>,
    binary: Vec<u8>,
    bill: String,
) -> BTreeMap<String, File> {
    let mut files = common.clone();
    files.insert("bin/opkeep".to_owned(), File::program(binary));
    files.insert(format!("{DOCUMENTS}/sbom.cdx.json"), File::data(bill));
    files
}

/// Returns what a program prints with no settings of the user.
fn printed(program: &Path, args: &[&Path]) -> Result<String, String> {
    disk::printed(Command::new(program).args(args).env_clear().env("OPKEEP_CONFIG", "/dev/null"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_the_documents_and_the_pages() {
        // A program that prints its arguments, and writes a page.
        let scratch = std::env::temp_dir().join(format!("opkeep-dist-{}", std::process::id()));
        let program = scratch.join("program");
        let script = "#!/bin/sh\necho \"$@\"\nif [ \"$1\" = man ]; then echo page >\"$2/opkeep.1\"; fi\n";
        disk::write_bytes(&program, script.as_bytes()).unwrap();
        disk::make_executable(&program).unwrap();
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        let common = common(root, &program, &scratch.join("man"));
        disk::remove(&scratch).unwrap();
        let files = with_binary(&common.unwrap(), b"binary".to_vec(), "bill".to_owned());
        assert_eq!(files["bin/opkeep"], File::program("binary"));
        assert_eq!(files["share/zsh/site-functions/_opkeep"], File::data("completions zsh\n"));
        assert_eq!(files["share/man/man1/opkeep.1"], File::data("page\n"));
        assert_eq!(files["share/doc/opkeep/sbom.cdx.json"], File::data("bill"));
        for (path, text) in [("LICENSE-MIT", "MIT License"), ("CHANGELOG.md", "# Changelog")] {
            let file = String::from_utf8_lossy(&files[&format!("{DOCUMENTS}/{path}")].bytes);
            assert!(file.contains(text), "{path}");
        }
        assert_eq!(files.len(), COPIED.len() + COMPLETIONS.len() + 3);
    }
}
