//! Building the command for a platform, so that its bytes follow from the commit and the compilers alone.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::platform::Platform;
use crate::{cargo, disk};

/// The profile of archives.
const PROFILE: &str = "dist";

/// The variables of a build: where programs and packages are. No other one gets in, as it could change what is built.
const KEPT: [&str; 15] = [
    "PATH",
    "HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "RUSTUP_AUTO_INSTALL",
    "TMPDIR",
    "http_proxy",
    "https_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "no_proxy",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CARGO_NET_OFFLINE",
];

/// The directories of a build. Their names must not get into what is built.
#[derive(Clone, Debug)]
pub(super) struct Places {
    pub(super) source: PathBuf,
    /// What cargo builds.
    pub(super) target: PathBuf,
    /// Cargo's own directory, with the sources of packages.
    pub(super) cargo_home: PathBuf,
    /// That of the Rust toolchain.
    pub(super) sysroot: PathBuf,
}

/// The compilers, which a binary depends on.
#[derive(Clone, Debug)]
pub(super) struct Compilers {
    /// The program, and the first line of what it prints for `--version`.
    pub(super) c: (String, String),
    pub(super) rust: RustVersion,
}

/// What `rustc -vV` prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RustVersion {
    pub(super) release: String,
    pub(super) commit: String,
    pub(super) llvm: String,
}

impl RustVersion {
    fn parse(printed: &str) -> Option<Self> {
        let value = |name: &str| {
            let line = printed.lines().find_map(|line| line.strip_prefix(name));
            line.map(|value| value.trim().to_owned())
        };
        let (release, commit, llvm) = (value("release:")?, value("commit-hash:")?, value("LLVM version:")?);
        Some(Self { release, commit, llvm })
    }
}

impl Compilers {
    pub(super) fn of(platform: &Platform) -> Result<Self, String> {
        let program = platform.c_compiler()?;
        let version = cargo::printed(Command::new(&program).arg("--version"))?;
        let version = version.lines().next().unwrap_or_default().to_owned();
        let printed = cargo::printed(Command::new("rustc").arg("-vV"))?;
        let rust = RustVersion::parse(&printed)
            .ok_or_else(|| format!("`rustc -vV` does not state its release, commit and LLVM: {printed}"))?;
        Ok(Self { c: (program, version), rust })
    }
}

/// Builds the command. Returns the path of its binary, and the messages of cargo, one JSON value a line.
pub(super) fn build(
    places: &Places,
    platform: &Platform,
    compilers: &Compilers,
) -> Result<(PathBuf, String), String> {
    let triple = platform.triple;
    // The flags name the directories of unpacked packages.
    cargo::printed(cargo_in(places).args(["fetch", "--quiet", "--locked", "--target", triple]))?;
    let mut command = cargo_in(places);
    command.args(["rustc", "--locked", "--package", "opkeep-cli", "--bin", "opkeep", "--profile", PROFILE]);
    command.args(["--target", triple, "--message-format", "json-render-diagnostics"]);
    command.arg("--").arg("-L").arg(empty_libraries(&places.target)?);
    command.env("CARGO_ENCODED_RUSTFLAGS", rust_flags(places, &compilers.rust));
    // A path may have a space.
    command.env("CC_SHELL_ESCAPED_FLAGS", "1");
    command.env(format!("CC_{}", triple.replace('-', "_")), &compilers.c.0);
    command.env(format!("CFLAGS_{}", triple.replace('-', "_")), c_flags(places));
    command.env("CARGO_PROFILE_DIST_STRIP", "symbols");
    command.envs([("LC_ALL", "C"), ("TZ", "UTC0"), ("CARGO_INCREMENTAL", "0")]);
    // The time that C code may have in it. Not that of the commit: each commit would compile all C code again.
    command.env("SOURCE_DATE_EPOCH", "0");
    command.stderr(std::process::Stdio::inherit());
    let messages = cargo::printed(&mut command)?;
    Ok((places.target.join(triple).join(PROFILE).join("opkeep"), messages))
}

/// Cargo in the sources, with no variable that could change what it builds.
fn cargo_in(places: &Places) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(&places.source).env_clear().envs(kept());
    command.env("CARGO_HOME", &places.cargo_home).env("CARGO_TARGET_DIR", &places.target);
    command
}

/// Returns a directory with the libraries that crates name for other C libraries, and whose functions musl itself has. They are
/// empty, as those of musl are, which the Rust toolchain lacks.
fn empty_libraries(target: &Path) -> Result<PathBuf, String> {
    const NO_MEMBERS: &[u8] = b"!<arch>\n";
    let directory = target.join("empty-libraries");
    disk::write_bytes(&directory.join("libdl.a"), NO_MEMBERS)?;
    Ok(directory)
}

/// Returns the variables of this process that a build keeps.
pub(super) fn kept() -> Vec<(&'static str, OsString)> {
    #[expect(clippy::disallowed_methods, reason = "a task of the command line")]
    let variable = |name: &&'static str| Some((*name, std::env::var_os(name)?));
    KEPT.iter().filter_map(variable).collect()
}

/// The directories by which a compiler may name a file, and what it is to name instead. The last one that fits counts.
fn mapped(places: &Places, rust: Option<&RustVersion>) -> Vec<(PathBuf, String)> {
    let Places { source, target, cargo_home, sysroot } = places;
    let mut mapped = vec![
        (source.clone(), "/opkeep".to_owned()),
        (target.clone(), "/build".to_owned()),
        (cargo_home.clone(), "/cargo".to_owned()),
    ];
    // The name of the registry's directory depends on the mirror that packages came from.
    let registries = cargo_home.join("registry/src");
    let names = disk::names(&registries).unwrap_or_default();
    mapped.extend(names.iter().map(|name| (registries.join(name), "/crates".to_owned())));
    let library = rust.map(|rust| (sysroot.join("lib/rustlib/src/rust"), format!("/rustc/{}", rust.commit)));
    mapped.extend(library);
    mapped
}

fn rust_flags(places: &Places, rust: &RustVersion) -> OsString {
    // A linker of the toolchain's: that of the system would be one more program that the result depends on.
    let mut flags = OsString::from("-Clinker=rust-lld");
    for (from, to) in mapped(places, Some(rust)) {
        flags.push("\u{1f}--remap-path-prefix=");
        flags.push(from);
        flags.push(format!("={to}"));
    }
    flags
}

fn c_flags(places: &Places) -> OsString {
    let flag = |(from, to): (PathBuf, String)| format!("'-ffile-prefix-map={}={to}'", from.display());
    // With it, headers of another C library call functions that musl does not have.
    let portable = "-U_FORTIFY_SOURCE".to_owned();
    let flags: Vec<String> = mapped(places, None).into_iter().map(flag).chain([portable]).collect();
    flags.join(" ").into()
}

/// Returns the places whose names are in a binary.
pub(super) fn named_in(binary: &[u8], places: &Places, home: Option<&OsStr>) -> Vec<PathBuf> {
    let Places { source, target, cargo_home, sysroot } = places;
    let mut all: Vec<&Path> = vec![source, target, cargo_home, sysroot];
    all.extend(home.map(Path::new));
    let is_in = |path: &&Path| {
        // With the separator, since `/root` may be part of a longer name.
        let name = [path.as_os_str().as_encoded_bytes(), b"/"].concat();
        name.len() > 2 && binary.windows(name.len()).any(|window| window == name)
    };
    all.into_iter().filter(is_in).map(Path::to_path_buf).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> Places {
        Places {
            source: "/a/source".into(),
            target: "/a/b c/build".into(),
            cargo_home: "/no/cargo".into(),
            sysroot: "/rust".into(),
        }
    }

    #[test]
    fn the_version_of_rust_has_its_parts() {
        let printed = "rustc 1.95.0 (5980761 2026-04-14)\nbinary: rustc\ncommit-hash: 5980761\nrelease: 1.95.0\n\
            LLVM version: 22.1.2\n";
        let expected = RustVersion {
            release: "1.95.0".to_owned(),
            commit: "5980761".to_owned(),
            llvm: "22.1.2".to_owned(),
        };
        assert_eq!(RustVersion::parse(printed), Some(expected));
        assert_eq!(RustVersion::parse("rustc 1.95.0"), None);
    }

    #[test]
    fn compilers_name_no_directory_of_the_machine() {
        let rust = RustVersion { release: String::new(), commit: "abc".to_owned(), llvm: String::new() };
        let flags = rust_flags(&places(), &rust).into_string().unwrap();
        let flags: Vec<&str> = flags.split('\u{1f}').collect();
        assert_eq!(
            flags,
            [
                "-Clinker=rust-lld",
                "--remap-path-prefix=/a/source=/opkeep",
                "--remap-path-prefix=/a/b c/build=/build",
                "--remap-path-prefix=/no/cargo=/cargo",
                "--remap-path-prefix=/rust/lib/rustlib/src/rust=/rustc/abc",
            ]
        );
        let flags = c_flags(&places()).into_string().unwrap();
        assert!(flags.contains("'-ffile-prefix-map=/a/b c/build=/build' "), "{flags}");
    }

    #[test]
    fn a_name_of_a_directory_is_found_in_a_binary() {
        let named = |binary: &[u8]| named_in(binary, &places(), Some(OsStr::new("/home/me")));
        assert_eq!(named(b"..panicked at /a/source/crates/x.rs.."), [PathBuf::from("/a/source")]);
        assert_eq!(named(b"/home/me/x"), [PathBuf::from("/home/me")]);
        assert!(named(b"/home/melanie/x, /a/sources, /crates/serde-1").is_empty());
    }
}
