//! The interpreter that the kernel opens to execute a program.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use opkeep_fs::Fs;

/// The beginning of a script, and how much of its first line the kernel reads.
const SCRIPT: &[u8] = b"#!";
const SCRIPT_LINE: usize = 256;

/// The interpreter that the kernel opens to execute the program at `path`, from a script's first line or from an ELF
/// header; and whether the program is a script.
///
/// # Errors
/// The program cannot be read.
pub fn program_interpreter(path: &Path) -> io::Result<Option<(PathBuf, bool)>> {
    let mut head = Vec::new();
    let mut file = Fs::new().open(path)?;
    file.by_ref().take(SCRIPT_LINE as u64).read_to_end(&mut head)?;
    if let Some(line) = head.strip_prefix(SCRIPT) {
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let mut words = line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
        let interpreter = words.next().map(|word| PathBuf::from(OsStr::from_bytes(word)));
        return Ok(interpreter.map(|path| (path, true)));
    }
    Ok(elf_interpreter(&head, &mut file)?.map(|path| (path, false)))
}

/// The dynamic loader that a 64-bit little-endian ELF file names (`PT_INTERP`); `None` for any other file.
fn elf_interpreter(head: &[u8], file: &mut File) -> io::Result<Option<PathBuf>> {
    const PT_INTERP: u64 = 3;
    let number = |bytes: &[u8], at: usize, length: usize| {
        bytes
            .get(at..at + length)
            .map(|bytes| bytes.iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte)))
    };
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return Ok(None);
    }
    let (Some(at), Some(size), Some(count)) = (number(head, 32, 8), number(head, 54, 2), number(head, 56, 2))
    else {
        return Ok(None);
    };
    let mut table = Vec::new();
    file.seek(SeekFrom::Start(at))?;
    file.by_ref().take(size * count).read_to_end(&mut table)?;
    for header in table.chunks(usize::try_from(size).unwrap_or_default().max(1)) {
        if let (Some(PT_INTERP), Some(at), Some(length)) =
            (number(header, 0, 4), number(header, 8, 8), number(header, 32, 8))
        {
            let mut name = Vec::new();
            file.seek(SeekFrom::Start(at))?;
            file.by_ref().take(length.min(libc::PATH_MAX as u64)).read_to_end(&mut name)?;
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            return Ok(Some(PathBuf::from(OsStr::from_bytes(name))));
        }
    }
    Ok(None)
}
