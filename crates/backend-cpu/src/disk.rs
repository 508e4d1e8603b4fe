//! Every access to the disk: the only module of this crate that may touch `std::fs`.
#![expect(clippy::disallowed_methods, reason = "this is the crate's I/O module")]

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use opkeep_backend::BackendError;

/// A path without links, if something is there.
pub(crate) fn real(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), BackendError> {
    std::fs::write(path, bytes).map_err(|source| BackendError::Io {
        action: "write",
        path: path.to_owned(),
        source,
    })
}

/// No kernel is longer: a compiler that made one went wrong.
const MAX_OBJECT: u64 = 1 << 30;

/// Reads what a compiler made, whatever that is: nothing is waited for, and no memory taken for what cannot be a kernel.
pub(crate) fn read_made(path: &Path) -> io::Result<Vec<u8>> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    if metadata.len() > MAX_OBJECT {
        return Err(io::Error::other(format!(
            "it has {} bytes, at most {MAX_OBJECT} can be",
            metadata.len()
        )));
    }
    let mut bytes = Vec::with_capacity(metadata.len() as usize);
    file.take(MAX_OBJECT).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The program `name` as a shell would find it: a path as it stands, else the first executable in `path`.
pub(crate) fn find_program(name: &OsStr, path: &OsStr) -> Option<PathBuf> {
    let is_program = |candidate: &Path| {
        let metadata = std::fs::metadata(candidate);
        metadata.is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    };
    // Programs run in other folders than ours.
    let absolute = |found: PathBuf| std::path::absolute(&found).unwrap_or(found);
    let direct = Path::new(name);
    if direct.components().count() > 1 {
        return is_program(direct).then(|| absolute(direct.to_owned()));
    }
    let mut candidates = std::env::split_paths(path).map(|folder| folder.join(name));
    candidates.find(|candidate| is_program(candidate)).map(absolute)
}

/// Whether there is a file at `path`.
pub(crate) fn is_file(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file())
}

/// A file to be looked into.
pub(crate) fn open(path: &Path) -> std::io::Result<std::fs::File> {
    std::fs::File::open(path)
}

/// Folders of libraries that `/etc/ld.so.conf` and the files it includes name. None where there is no such file.
pub(crate) fn library_folders() -> Vec<PathBuf> {
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    let mut texts = vec![read(Path::new("/etc/ld.so.conf"))];
    let mut included: Vec<PathBuf> = std::fs::read_dir("/etc/ld.so.conf.d")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "conf"))
        .collect();
    included.sort_unstable();
    texts.extend(included.iter().map(|path| read(path)));
    let lines = texts.iter().flat_map(|text| text.lines()).map(str::trim);
    lines.filter(|line| line.starts_with('/')).map(PathBuf::from).collect()
}

/// Whether a program is machine code, not a script.
pub(crate) fn is_elf(path: &Path) -> bool {
    let mut magic = [0; 4];
    std::fs::File::open(path).is_ok_and(|mut file| file.read_exact(&mut magic).is_ok())
        && magic == *b"\x7fELF"
}

/// Where there may be room for a small directory, `first` before all.
pub(crate) fn places(first: &Path) -> [&Path; 4] {
    [first, Path::new("/dev/shm"), Path::new("/var/tmp"), Path::new("/tmp")]
}

/// Makes a directory for this user.
pub(crate) fn create_dir(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().mode(0o700).create(path)
}

/// Removes a directory that may not be there, with all that is in it.
pub(crate) fn remove_dir(path: &Path) {
    let _ = std::fs::remove_dir_all(path);
}

/// What kind of processor this is: what the system says of the first one, less what changes by itself.
pub(crate) fn processor() -> String {
    // The system makes up the text as it is read; more would be of further processors.
    const ENOUGH: u64 = 4096;
    const CHANGING: [&str; 2] = ["cpu MHz", "bogomips"];
    let mut text = Vec::new();
    let read = std::fs::File::open("/proc/cpuinfo").map(|file| file.take(ENOUGH).read_to_end(&mut text));
    if !matches!(read, Ok(Ok(_))) {
        return String::new();
    }
    let text = String::from_utf8_lossy(&text);
    let first = text.split("\n\n").next().unwrap_or_default();
    let lines = first.lines().filter(|line| !CHANGING.iter().any(|word| line.starts_with(word)));
    lines.collect::<Vec<_>>().join("\n")
}
