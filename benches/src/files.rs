//! Directories to measure in, and the floors of the store: the least work on files.
#![expect(
    clippy::disallowed_methods,
    reason = "floors are measured with plain file calls, and compilers are where the environment says"
)]

use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::buffer::spare_capacity;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use tempfile::TempDir;

const MEMORY: &str = "/dev/shm";

/// A directory in memory if possible, so that the disk's speed does not matter.
///
/// # Errors
/// No directory can be created.
pub fn directory() -> io::Result<TempDir> {
    let memory = Path::new(MEMORY);
    if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() }
}

/// Whether [`directory`]s are in memory, with space for `bytes` bytes twice over.
pub fn has_room(bytes: u64) -> bool {
    rustix::fs::statvfs(MEMORY).is_ok_and(|room| room.f_bavail.saturating_mul(room.f_frsize) / 2 >= bytes)
}

/// Writes `bytes` to a new file.
///
/// # Errors
/// It cannot be written.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    std::fs::write(path, bytes)
}

/// Reads a whole file: one open, one stat, one read.
///
/// # Errors
/// It cannot be read.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let length = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    let mut bytes = Vec::with_capacity(length);
    while bytes.len() < length && rustix::io::read(&file, spare_capacity(&mut bytes))? > 0 {}
    Ok(bytes)
}

/// Writes `bytes` beside `target`, syncs the data and renames: the least work of a safe put.
///
/// # Errors
/// It cannot be written.
pub fn publish(directory: &Path, target: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::io::Write;
    let temp = directory.join("floor-temp");
    let mut file = File::create(&temp)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    std::fs::rename(&temp, target)
}

/// Creates a directory, and its parents, where there is none.
///
/// # Errors
/// It cannot be created.
pub fn make_directory(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path)
}

/// Removes a file.
///
/// # Errors
/// It cannot be removed.
pub fn remove(path: &Path) -> io::Result<()> {
    std::fs::remove_file(path)
}

/// Looks at a file: one stat.
///
/// # Errors
/// It is missing.
pub fn look(path: &Path) -> io::Result<()> {
    std::fs::symlink_metadata(path).map(drop)
}

/// The files of a framework's kernels in a directory, without opkeep's own.
///
/// # Errors
/// The directory cannot be listed.
pub fn files_in(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            files.push(entry.path());
        }
    }
    Ok(files)
}

/// Removes a directory and everything in it.
///
/// # Errors
/// It cannot be removed.
pub fn remove_directory(path: &Path) -> io::Result<()> {
    std::fs::remove_dir_all(path)
}

/// The lines of a text.
///
/// # Errors
/// It cannot be read.
pub fn lines(path: &Path) -> io::Result<Vec<String>> {
    Ok(std::fs::read_to_string(path)?.lines().map(str::to_owned).collect())
}

/// Creates a compiler at `path` that calls the system's, and appends a line to the file beside it that ends in `.log`
/// for each kernel that it compiles.
///
/// # Errors
/// It cannot be written.
pub fn make_compiler(path: &Path) -> io::Result<()> {
    let log = path.with_extension("log");
    let text = format!(
        "#!/bin/sh\ncase \"$*\" in *' kernel.c'*) echo \"$PWD\" >>'{}';; esac\nexec cc \"$@\"\n",
        log.display()
    );
    write_program(path, &text)
}

/// Writes a script that can be run.
///
/// # Errors
/// It cannot be written.
pub fn write_program(path: &Path, script: &str) -> io::Result<()> {
    std::fs::write(path, script)?;
    std::fs::set_permissions(path, Permissions::from_mode(0o755))
}

/// Lists each directory in `directory` and looks at each file in those, and at nothing else. Returns the number and the
/// total size of the files.
///
/// # Errors
/// A directory cannot be listed.
pub fn bare_walk(directory: &Path) -> io::Result<(u64, u64)> {
    let (mut files, mut bytes) = (0, 0);
    let open = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let top = rustix::fs::openat(CWD, directory, open, Mode::empty())?;
    for below in Dir::read_from(&top)? {
        let below = below?;
        if below.file_name().to_bytes().starts_with(b".") {
            continue;
        }
        let below = rustix::fs::openat(&top, below.file_name(), open, Mode::empty())?;
        for file in Dir::read_from(&below)? {
            let seen = rustix::fs::statat(&below, file?.file_name(), AtFlags::SYMLINK_NOFOLLOW)?;
            if FileType::from_raw_mode(seen.st_mode) == FileType::RegularFile {
                (files, bytes) = (files + 1, bytes + u64::try_from(seen.st_size).unwrap_or_default());
            }
        }
    }
    Ok((files, bytes))
}

/// The numbers of reads and writes by this thread so far, as the kernel counts them.
///
/// # Errors
/// The kernel does not report them.
pub fn reads_and_writes() -> io::Result<[u64; 2]> {
    let text = std::fs::read_to_string("/proc/thread-self/io")?;
    Ok([number(&text, "syscr:")?, number(&text, "syscw:")?])
}

/// The directory for figures, if requested.
pub(crate) fn figures_directory() -> Option<PathBuf> {
    std::env::var_os("OPKEEP_FIGURES").filter(|directory| !directory.is_empty()).map(PathBuf::from)
}

/// Adds a line to a file, which is created if it is missing.
pub(crate) fn append_line(path: &Path, line: &str) -> io::Result<()> {
    use std::io::Write;
    let mut file = File::options().append(true).create(true).open(path)?;
    file.write_all(format!("{line}\n").as_bytes())
}

/// The kernel's line about this process.
pub(crate) fn read_stat() -> io::Result<String> {
    std::fs::read_to_string("/proc/self/stat")
}

/// The peak of resident memory of this process, in bytes.
///
/// # Errors
/// The kernel does not report it.
pub fn most_resident() -> io::Result<u64> {
    Ok(number(&std::fs::read_to_string("/proc/self/status")?, "VmHWM:")? * 1024)
}

/// The number after a name at the beginning of a line.
fn number(text: &str, name: &str) -> io::Result<u64> {
    let found =
        text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok());
    found.ok_or_else(|| io::Error::other(format!("no `{name}` where the kernel should say it")))
}

/// The program `name` of the package `package`, built now with the profile of this one, so that no older one is
/// measured.
///
/// # Errors
/// It cannot be built, or is not at cargo's place for programs.
pub fn command_of(package: &str, name: &str) -> io::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    // The package of this program is no part of that one's environment: some build scripts, such as that of `ring`, run again when
    // these variables change, and what depends on it would be built anew while the clock runs.
    let of_package = |name: &OsString| {
        ["CARGO_PKG_", "CARGO_MANIFEST_"]
            .iter()
            .any(|prefix| name.as_encoded_bytes().starts_with(prefix.as_bytes()))
    };
    std::env::vars_os().map(|(name, _)| name).filter(of_package).for_each(|name| {
        build.env_remove(name);
    });
    build.args(["build", "--quiet", "--package", package, "--bin", name]);
    if !cfg!(debug_assertions) {
        build.arg("--release");
    }
    if !build.status()?.success() {
        return Err(io::Error::other(format!("`{build:?}` failed")));
    }
    // Benchmarks are in `deps` beside it.
    let found = std::env::current_exe()?.ancestors().nth(2).map(|directory| directory.join(name));
    found.filter(|path| path.is_file()).ok_or_else(|| io::Error::other(format!("there is no `{name}`")))
}

/// The search path of the caller's environment.
pub fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_default()
}
