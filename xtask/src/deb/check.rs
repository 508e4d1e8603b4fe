//! Checks of a Debian package: its files, its fields, its program, and what lintian says.

use std::path::{Path, PathBuf};

use crate::disk;

/// Where the package is unpacked.
const UNPACKED: &str = "target/deb/unpacked";

/// The files that the package has, besides the man pages of single commands.
const FILES: [&str; 9] = [
    "usr/bin/opkeep",
    "usr/share/bash-completion/completions/opkeep",
    "usr/share/doc/opkeep/changelog.gz",
    "usr/share/doc/opkeep/changelog.Debian.gz",
    "usr/share/doc/opkeep/copyright",
    "usr/share/fish/vendor_completions.d/opkeep.fish",
    "usr/share/lintian/overrides/opkeep",
    "usr/share/man/man1/opkeep-build.1.gz",
    "usr/share/zsh/vendor-completions/_opkeep",
];

pub(super) fn check(package: &Path, version: &str) -> Result<(), String> {
    let file = package.to_string_lossy();
    let unpacked = Path::new(UNPACKED);
    disk::empty_directory(unpacked)?;
    disk::output("dpkg-deb", &["--extract", &file, UNPACKED], None)?;
    let missing: Vec<&str> = FILES.into_iter().filter(|path| !unpacked.join(path).exists()).collect();
    if !missing.is_empty() {
        return Err(format!("`{file}` has no {}", missing.join(", ")));
    }
    let fields = disk::output("dpkg-deb", &["--field", &file], None)?;
    let fields = String::from_utf8_lossy(&fields).into_owned();
    check_fields(&fields, version).map_err(|problem| format!("`{file}`: {problem}"))?;
    let program: PathBuf = unpacked.join("usr/bin/opkeep");
    let stated = disk::output(&program.to_string_lossy(), &["-V"], None)?;
    let stated = String::from_utf8_lossy(&stated).trim().to_owned();
    if stated != format!("opkeep {version}") {
        return Err(format!("the program in `{file}` says `{stated}`, expected version {version}"));
    }
    lintian(&file)
}

fn check_fields(fields: &str, version: &str) -> Result<(), String> {
    let field = |name: &str| {
        fields.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).unwrap_or_default()
    };
    for (name, expected) in
        [("Package", "opkeep"), ("Version", &*format!("{version}-1")), ("Recommends", "gcc | clang")]
    {
        if field(name) != expected {
            return Err(format!("the field `{name}` is `{}`, expected `{expected}`", field(name)));
        }
    }
    let depends = field("Depends");
    if !["libc6", "libgcc-s1"].iter().all(|library| depends.contains(library)) {
        return Err(format!("the field `Depends` is `{depends}`, expected libc6 and libgcc-s1 in it"));
    }
    Ok(())
}

/// Runs lintian, if it is installed. Its errors and warnings fail; what is overridden has a reason in the package.
fn lintian(file: &str) -> Result<(), String> {
    if disk::output("lintian", &["--version"], None).is_err() {
        println!("deb: lintian is not installed, so the package is not checked by it; `apt install lintian`");
        return Ok(());
    }
    let tags = disk::output(
        "lintian",
        &["--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0", file],
        None,
    )
    .map_err(|error| format!("lintian: {error}"))?;
    print!("{}", String::from_utf8_lossy(&tags));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_checked() {
        let fields = "Package: opkeep\nVersion: 1.2.3-1\nDepends: libc6 (>= 2.34), libgcc-s1\nRecommends: gcc | clang\n";
        assert_eq!(check_fields(fields, "1.2.3"), Ok(()));
        assert!(check_fields(fields, "1.2.4").unwrap_err().contains("`Version` is `1.2.3-1`"));
        assert!(check_fields(&fields.replace("libc6", "x"), "1.2.3").unwrap_err().contains("`Depends`"));
        assert!(
            check_fields(&fields.replace("gcc | clang", "gcc"), "1.2.3")
                .unwrap_err()
                .contains("`Recommends`")
        );
    }
}
