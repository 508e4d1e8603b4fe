//! Building the command for a platform, so that its bytes follow from the commit and the compilers alone.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::environment::{kept, variable};
use super::platform::Platform;
use crate::disk;

/// The profile of archives.
const PROFILE: &str = "dist";

/// The variables that a build keeps: where programs are, and how packages are downloaded.
const KEPT: [&str; 11] = [
    "PATH",
    "RUSTUP_TOOLCHAIN",
    "TMPDIR",
    "http_proxy",
    "https_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "no_proxy",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// What differs between users and must not matter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habits {
    pub(super) umask: &'static str,
    pub(super) locale: &'static str,
    pub(super) zone: &'static str,
}

/// The directories of a build. Their names must not get into what is built.
#[derive(Clone, Debug)]
pub(super) struct Places {
    pub(super) source: PathBuf,
    /// What cargo builds.
    pub(super) target: PathBuf,
    /// Cargo's own directory, with the sources of packages.
    pub(super) cargo_home: PathBuf,
    /// The home directory of the build.
    pub(super) home: PathBuf,
    /// That of the Rust toolchain.
    pub(super) sysroot: PathBuf,
    pub(super) habits: Habits,
}

/// The compilers, which a binary depends on.
#[derive(Clone, Debug)]
pub(super) struct Compilers {
    /// The program, and the first line of what it prints for `--version`.
    pub(super) c: (String, String),
    /// The C library whose headers it reads.
    pub(super) c_headers: String,
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
        let version = disk::printed(Command::new(&program).arg("--version"))?;
        let version = version.lines().next().unwrap_or_default().to_owned();
        let c_headers = c_headers(&program)?;
        let printed = disk::printed(Command::new("rustc").arg("-vV"))?;
        let rust = RustVersion::parse(&printed)
            .ok_or_else(|| format!("`rustc -vV` does not state its release, commit and LLVM: {printed}"))?;
        Ok(Self { c: (program, version), c_headers, rust })
    }
}

/// Returns the C library whose headers a compiler reads. musl does not state its version.
fn c_headers(program: &str) -> Result<String, String> {
    const MACROS: [&str; 2] = ["__GLIBC__", "__GLIBC_MINOR__"];
    let mut compiler = Command::new(program);
    let printed =
        disk::printed(compiler.args(["-dM", "-E", "-include", "features.h", "-x", "c", "/dev/null"]))?;
    let value = |name: &str| {
        printed.lines().find_map(|line| line.strip_prefix("#define ")?.strip_prefix(name)?.strip_prefix(' '))
    };
    Ok(match MACROS.map(value) {
        [Some(major), Some(minor)] => format!("glibc {major}.{minor}"),
        _ => "musl".to_owned(),
    })
}

/// Builds the command. Returns the path of its binary, and the messages of cargo, one JSON value a line.
pub(super) fn build(
    places: &Places,
    platform: &Platform,
    compilers: &Compilers,
) -> Result<(PathBuf, String), String> {
    let triple = platform.triple;
    // The flags name the directories of unpacked packages.
    disk::printed(cargo_in(places).args(["fetch", "--quiet", "--locked", "--target", triple]))?;
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
    command.env("CARGO_INCREMENTAL", "0");
    // The time that C code may have in it. Not that of the commit: each commit would compile all C code again.
    command.env("SOURCE_DATE_EPOCH", "0");
    command.stderr(std::process::Stdio::inherit());
    let messages = disk::printed(&mut command)?;
    Ok((places.target.join(triple).join(PROFILE).join("opkeep"), messages))
}

/// Cargo in the sources, with no variable and no settings that could change what it builds.
pub(super) fn cargo_in(places: &Places) -> Command {
    let Places { source, target, cargo_home, home, habits, .. } = places;
    let mut command = Command::new("sh");
    command.args(["-c", &format!("umask {}; exec cargo \"$@\"", habits.umask), "cargo"]);
    command.current_dir(source).env_clear().envs(kept(&KEPT)).envs(rustup_home());
    command.env("CARGO_HOME", cargo_home).env("CARGO_TARGET_DIR", target).env("HOME", home);
    command.env("LC_ALL", habits.locale).env("TZ", habits.zone);
    // The command's build script asks git for the commit.
    command.envs([("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_NOSYSTEM", "1")]);
    command
}

/// Returns the variable for the directory of toolchains, which is in the user's home directory.
fn rustup_home() -> Option<(&'static str, OsString)> {
    const NAME: &str = "RUSTUP_HOME";
    let usual = || Some(PathBuf::from(variable("HOME")?).join(".rustup").into_os_string());
    Some((NAME, variable(NAME).or_else(usual)?))
}

/// Returns a directory with the libraries that crates name for other C libraries, and whose functions musl itself has. They are
/// empty, as those of musl are, which the Rust toolchain lacks.
fn empty_libraries(target: &Path) -> Result<PathBuf, String> {
    const NO_MEMBERS: &[u8] = b"!<arch>\n";
    let directory = target.join("empty-libraries");
    disk::write_bytes(&directory.join("libdl.a"), NO_MEMBERS)?;
    Ok(directory)
}

/// The directories by which a compiler may name a file, and what it is to name instead. The last one that fits counts.
fn mapped(places: &Places, rust: Option<&RustVersion>) -> Vec<(PathBuf, String)> {
    let Places { source, target, cargo_home, sysroot, .. } = places;
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
pub(super) fn named_in(binary: &[u8], places: &Places, user: Option<&OsStr>) -> Vec<PathBuf> {
    let Places { source, target, cargo_home, home, sysroot, .. } = places;
    let mut all: Vec<&Path> = vec![source, target, cargo_home, home, sysroot];
    all.extend(user.map(Path::new));
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
            home: "/no/home".into(),
            sysroot: "/rust".into(),
            habits: Habits { umask: "022", locale: "C", zone: "UTC0" },
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
