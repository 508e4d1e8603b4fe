//! What the benchmarks share: an entry of the size that real operators have, and a folder in memory.
//!
//! Run them with `cargo bench -p opbuild-benches`, one with `cargo bench -p opbuild-benches --bench store_hit`.
//! Compare rows of one run only: machines differ, and so do days.
#![expect(
    clippy::disallowed_methods,
    reason = "floors are measured with plain file calls, compilers and the corpus are where the environment says"
)]

use std::ffi::OsString;
use std::path::Path;

use tempfile::TempDir;

/// A kernel object: 8 KiB that do not compress, with an ELF's first bytes.
pub fn object() -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut bytes: Vec<u8> = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    })
    .take(1024)
    .flatten()
    .collect();
    bytes[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\0");
    bytes
}

/// A kernel's description: 1 KiB.
pub fn json() -> Vec<u8> {
    vec![b'j'; 1024]
}

/// A descriptor: 6 KiB.
pub fn info() -> Vec<u8> {
    vec![b'i'; 6144]
}

/// A folder in memory where there is such a place, so that a disk's mood is not measured.
///
/// # Errors
/// No folder can be made.
pub fn folder() -> std::io::Result<TempDir> {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() }
}

/// Writes `bytes` to a new file.
///
/// # Errors
/// It cannot be written.
pub fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    std::fs::write(path, bytes)
}

/// Reads a whole file: one open, one stat, one read.
///
/// # Errors
/// It cannot be read.
pub fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    std::fs::read(path)
}

/// Writes `bytes` beside `target`, syncs the data and renames: the least that a safe put does.
///
/// # Errors
/// It cannot be written.
pub fn publish(folder: &Path, target: &Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::io::Write;
    let temp = folder.join("floor-temp");
    let mut file = std::fs::File::create(&temp)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    std::fs::rename(&temp, target)
}

/// Where programs are, as the caller's environment says.
pub fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

/// A kernel's description, its object, and what they are called.
pub struct Pair {
    /// The folder that they are in, and the object's name.
    pub name: String,
    /// The `.json`.
    pub json: Vec<u8>,
    /// The `.o` or `.so`.
    pub object: Vec<u8>,
}

/// The genuine kernels below the folder that `OPBUILD_CORPUS` names, by size. None, if it names none.
///
/// # Errors
/// A file there cannot be read.
pub fn genuine_pairs() -> std::io::Result<Vec<Pair>> {
    let Some(corpus) = std::env::var_os("OPBUILD_CORPUS") else { return Ok(Vec::new()) };
    let mut pairs = Vec::new();
    for folder in ["cann", "mindspore/wheel270-ascend", "mindspore/akg-cpu"] {
        collect(&Path::new(&corpus).join(folder), &mut pairs)?;
    }
    pairs.sort_by_key(|pair| pair.object.len());
    Ok(pairs)
}

fn collect(folder: &Path, pairs: &mut Vec<Pair>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, pairs)?;
        } else if path.extension().is_some_and(|extension| extension == "o" || extension == "so") {
            pairs.push(pair(&path)?);
        }
    }
    Ok(())
}

fn pair(object: &Path) -> std::io::Result<Pair> {
    let last = |path: Option<&std::ffi::OsStr>| path.unwrap_or_default().to_string_lossy().into_owned();
    let folder = last(object.parent().and_then(Path::file_name));
    let name = format!("{folder}/{}", last(object.file_name()));
    Ok(Pair { name, json: read(&object.with_extension("json"))?, object: read(object)? })
}
