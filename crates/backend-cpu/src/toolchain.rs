//! Finding the compiler, and what it is made of.
//!
//! A dry run (`-###`) prints every program that the driver would run and every flag as it resolved them, without
//! running any: so `-march=native` shows as this machine's features, and a compiler that was configured otherwise
//! shows its own defaults. The programs' contents are digested, not their dates.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use opbuild_backend::{BackendError, Cancel, FileDigests};
use opbuild_digest::Fingerprint;

use crate::dry_run::{Asked, Begun, DryRun, unusable};
use crate::pieces::Pieces;
use crate::{CpuConfig, LAUNCH_ABI, disk};

/// A C compiler, as the dry run shows it.
#[derive(Clone, Debug)]
pub(crate) struct Toolchain {
    /// The program, and arguments that come before all others (`CC="ccache gcc"`).
    pub(crate) driver: PathBuf,
    pub(crate) leading: Vec<String>,
    /// All flags but input, output and libraries.
    pub(crate) flags: Vec<String>,
    /// Such as `gcc version 12.2.0 (Debian 12.2.0-14)`.
    version: String,
    triple: String,
    /// The files that take part: the driver, `cc1`, `as`, `ld`, the libraries they load, files that CC names.
    pieces: Pieces,
    /// What the driver hands each program, less paths.
    resolved: Vec<String>,
    /// Where it looks for libraries, if the dry run says.
    library_path: Option<String>,
}

/// A compiler that was found and is being asked.
pub(crate) struct Ahead {
    driver: PathBuf,
    leading: Vec<String>,
    begun: Begun,
}

impl Ahead {
    /// Finds the compiler and begins to ask it.
    pub(crate) fn begin(config: &CpuConfig, cancel: &Cancel) -> Result<Self, BackendError> {
        let (driver, leading) = find(config)?;
        let begun = Asked::new(config, cancel, &driver, &leading).begin()?;
        Ok(Self { driver, leading, begun })
    }

    /// Nobody wants to know any more.
    pub(crate) fn give_up(self) {
        self.begun.give_up();
    }
}

impl Toolchain {
    /// Finds the compiler and asks it what it would do, unless that was begun `ahead`.
    pub(crate) fn probe(
        config: &CpuConfig,
        cancel: &Cancel,
        ahead: Option<Ahead>,
    ) -> Result<Self, BackendError> {
        let ahead = ahead.map_or_else(|| Ahead::begin(config, cancel), Ok)?;
        let Ahead { driver, leading, begun } = ahead;
        let DryRun { version, triple, flags, steps, linker } =
            Asked::new(config, cancel, &driver, &leading).dry_run(begun)?;
        let search = line_after(&steps, "COMPILER_PATH=").unwrap_or_default();
        let locate = |program: &str| locate(program, &search, &config.path);
        let mut pieces = Pieces::default();
        pieces.add("driver", driver.clone());
        let mut resolved = Vec::new();
        // Words of CC: programs (what `ccache` runs) and files (a header) count by content, others as they are.
        for word in &leading {
            refuse_folders(word)?;
            match locate(word) {
                Some(program) => pieces.add(&name_of(&program), program),
                None if pieces.add_named_in(word) => {}
                None => resolved.push(word.clone()),
            }
        }
        let mut shown = 0;
        for step in steps.lines().filter_map(command_of) {
            let (program, args) = step.split_first().ok_or_else(|| unusable("an empty step".to_owned()))?;
            let path = locate(program).ok_or_else(|| {
                unusable(format!("`{}` runs `{program}`, which is not there", driver.display()))
            })?;
            resolved.push(name_of(Path::new(program)));
            // Paths differ between equal toolchains; the files that they name count by content.
            for arg in args {
                if arg.contains('/') {
                    pieces.add_named_in(arg);
                } else {
                    resolved.push(arg.clone());
                }
            }
            pieces.add(&name_of(Path::new(program)), path);
            shown += 1;
        }
        if shown == 0 {
            return Err(unusable(format!("`{} -###` shows no steps", driver.display())));
        }
        // gcc's collect2 runs ld, which the dry run does not show.
        if let Some(linker) = locate(&linker) {
            pieces.add("ld", linker);
        }
        pieces.add_libraries(&triple);
        let library_path = line_after(&steps, "LIBRARY_PATH=");
        Ok(Self { driver, leading, flags, version, triple, pieces, resolved, library_path })
    }

    /// For people: `gcc version 12.2.0 (Debian 12.2.0-14), x86_64-linux-gnu`.
    pub(crate) fn summary(&self) -> String {
        format!("{}, {} ({})", self.version, self.triple, self.driver.display())
    }

    /// What all kernels share. Cheap while the programs do not change: `files` remembers their digests.
    pub(crate) fn fingerprint(&self, files: &dyn FileDigests) -> Result<Fingerprint, BackendError> {
        let mut fingerprint = Fingerprint::new();
        fingerprint.text("version", &self.version);
        fingerprint.text("triple", &self.triple);
        for (role, path) in self.pieces.iter() {
            let digest = files.digest(path).map_err(|source| BackendError::Io {
                action: "read the compiler's program",
                path: path.clone(),
                source,
            })?;
            fingerprint.add(role, digest, format!("{:.12}", digest.to_string()));
        }
        fingerprint.text("flags", self.flags.join(" "));
        fingerprint.text("resolved", self.resolved.join(" "));
        fingerprint.text("launch ABI", LAUNCH_ABI.to_string());
        Ok(fingerprint)
    }

    /// The math library that the compiler links against.
    pub(crate) fn libm(&self, config: &CpuConfig, cancel: &Cancel) -> Result<PathBuf, BackendError> {
        const NAMES: [&str; 3] = ["libm.so.6", "libm.so", "libc.so"];
        let folders = self.library_path.iter().flat_map(|list| list.split(':')).map(Path::new);
        let folders: Vec<&Path> = folders.filter(|folder| folder.is_absolute()).collect();
        let mut listed = NAMES.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
        if let Some(path) = listed.find(|path| disk::is_file(path)) {
            return Ok(path);
        }
        let asked = Asked::new(config, cancel, &self.driver, &self.leading);
        for name in NAMES {
            let answer = asked.answer(&[&format!("-print-file-name={name}")])?;
            // A name that comes back as it was is not found.
            let path = PathBuf::from(answer.trim());
            if path.is_absolute() {
                return Ok(path);
            }
        }
        Err(unusable(format!("`{}` finds no math library", self.driver.display())))
    }
}

/// A path's last name.
fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Folders of headers cannot be told apart by content, and generated code includes nothing.
fn refuse_folders(word: &str) -> Result<(), BackendError> {
    let flags =
        ["-I", "-isystem", "-iquote", "-idirafter", "-iprefix", "--include-directory", "-iwithprefix"];
    match flags.iter().find(|flag| word.starts_with(**flag)) {
        None => Ok(()),
        Some(flag) => Err(BackendError::Toolchain {
            problem: format!("CC has `{flag}`, and the content of a folder of headers cannot be told apart"),
            way_out: "leave it out: the generated C includes no header".to_owned(),
        }),
    }
}

/// The compiler to use: what was asked for, or the first of the usual names.
fn find(config: &CpuConfig) -> Result<(PathBuf, Vec<String>), BackendError> {
    let found = |name: &str| disk::find_program(OsStr::new(name), &config.path);
    if let Some(asked) = &config.compiler {
        let mut words = asked.split_whitespace().map(str::to_owned);
        let program = words.next().ok_or_else(|| unusable("CC is empty".to_owned()))?;
        let driver =
            found(&program).ok_or_else(|| unusable(format!("CC names `{program}`, which is not there")))?;
        return Ok((driver, words.collect()));
    }
    let usual = ["cc", "gcc", "clang"].into_iter().find_map(found);
    usual.map(|driver| (driver, Vec::new())).ok_or_else(|| unusable("no cc, gcc or clang in PATH".to_owned()))
}

/// What stands behind `prefix` in the first line that begins with it.
pub(crate) fn line_after(text: &str, prefix: &str) -> Option<String> {
    text.lines().find_map(|line| line.strip_prefix(prefix)).map(|rest| rest.trim().to_owned())
}

/// The program's own file: as printed, in the driver's folders, or in `PATH`.
fn locate(program: &str, search: &str, path: &OsStr) -> Option<PathBuf> {
    let mut folders = OsString::from(search);
    folders.push(":");
    folders.push(path);
    disk::find_program(OsStr::new(program), &folders)
}

/// A line of the dry run that is a command: it begins with a space. Words may be quoted.
fn command_of(line: &str) -> Option<Vec<String>> {
    let line = line.strip_prefix(' ')?;
    let mut words = Vec::new();
    let mut word = None::<String>;
    let mut letters = line.chars();
    let mut quoted = false;
    while let Some(letter) = letters.next() {
        match letter {
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            '\\' => word.get_or_insert_default().extend(letters.next()),
            ' ' if !quoted => words.extend(word.take()),
            letter => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    // `(in-process)` and the like are remarks.
    (!words.is_empty() && !words[0].starts_with('(')).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dry_run_lines_come_apart_as_a_shell_would() {
        let gcc = command_of(r#" /usr/lib/gcc/cc1 -quiet - "-march=x86-64" -o /tmp/ccEWCO6s.s"#).unwrap();
        assert_eq!(gcc, ["/usr/lib/gcc/cc1", "-quiet", "-", "-march=x86-64", "-o", "/tmp/ccEWCO6s.s"]);
        let clang = command_of(r#" "/usr/bin/clang" "-cc1" "-D" "A=\"b c\"" """#).unwrap();
        assert_eq!(clang, ["/usr/bin/clang", "-cc1", "-D", "A=\"b c\"", ""]);
        assert_eq!(command_of("COLLECT_GCC=gcc"), None);
        assert_eq!(command_of(" (in-process)"), None);
    }
}
