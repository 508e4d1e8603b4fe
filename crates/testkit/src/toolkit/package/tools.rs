//! The compiler, the linker and their kin.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

use opkeep_digest::Digest;

use super::super::disk;

const SOURCE: &str = include_str!("tools/tools.c");

/// The machine's programs that the stand-in's tools start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineTools {
    /// clang.
    pub clang: PathBuf,
    /// lld for ELF, or else the linker of binutils.
    pub linker: PathBuf,
    /// What prints sections.
    pub objdump: PathBuf,
    /// GNU make.
    pub make: PathBuf,
    /// Ninja, where it is installed.
    pub ninja: Option<PathBuf>,
}

/// The machine's programs, if all of them are there: tests are ignored without.
pub fn tools() -> Option<&'static MachineTools> {
    static TOOLS: OnceLock<Option<MachineTools>> = OnceLock::new();
    let find = || {
        let path = path();
        let on_path = |name: &str| {
            std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
        };
        Some(MachineTools {
            clang: on_path("clang")?,
            linker: on_path("ld.lld").or_else(|| on_path("ld"))?,
            objdump: on_path("objdump").or_else(|| on_path("llvm-objdump"))?,
            make: on_path("make")?,
            ninja: on_path("ninja"),
        })
    };
    TOOLS.get_or_init(find).as_ref()
}

/// The `PATH` of the process, in which the machine's programs are.
#[expect(clippy::disallowed_methods, reason = "tests take the machine's programs")]
pub(super) fn path() -> String {
    std::env::var("PATH").unwrap_or_default()
}

/// The machine's programs, or why nothing can be installed.
pub(super) fn required() -> io::Result<&'static MachineTools> {
    tools().ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, "clang, a linker, objdump or make is not on PATH")
    })
}

/// Writes the tools to the directory `bin` of the compiler, with this stamp.
pub(super) fn write(bin: &Path, stamp: &str) -> io::Result<()> {
    let mut program = compiled()?;
    let machine = required()?;
    fill(&mut program, "@STAMP@", stamp)?;
    for (mark, path) in
        [("@CLANG@", &machine.clang), ("@LINKER@", &machine.linker), ("@OBJDUMP@", &machine.objdump)]
    {
        fill(&mut program, mark, &path.to_string_lossy())?;
    }
    let filled = bin.join("filled");
    disk::write(&filled, &program)?;
    disk::set_mode(&filled, 0o755)?;
    for name in ["bisheng", "ld.lld", "llvm-objdump", "llvm-objcopy"] {
        copy(&filled, &bin.join(name))?;
    }
    disk::remove(&filled)?;
    disk::link("bisheng", &bin.join("ccec"))
}

/// Copies a program in a process of its own. A file that this process wrote could be inherited, open, by a child that another
/// thread starts, and then it cannot be executed.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    disk::remove(to)?;
    match Command::new("cp").arg("-p").args([from, to]).status()? {
        status if status.success() => Ok(()),
        status => Err(io::Error::other(format!("cp {}: {status}", to.display()))),
    }
}

/// Puts a text in the place of a mark. The room behind each mark is zeros, more than any path of a test needs.
fn fill(program: &mut [u8], mark: &str, text: &str) -> io::Result<()> {
    let missing = || io::Error::new(io::ErrorKind::InvalidData, format!("no room for `{mark}` in the tools"));
    let at = program.windows(mark.len()).position(|bytes| bytes == mark.as_bytes()).ok_or_else(missing)?;
    let room = &mut program[at..];
    let free = mark.len() + room[mark.len()..].iter().take_while(|byte| **byte == 0).count();
    if text.len() >= free {
        return Err(missing());
    }
    room[..mark.len()].fill(0);
    room[..text.len()].copy_from_slice(text.as_bytes());
    Ok(())
}

/// The program, compiled once for all tests of this source.
fn compiled() -> io::Result<Vec<u8>> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _held = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let name = format!("cce-tools-{}", Digest::of(SOURCE.as_bytes()));
    let test = std::env::current_exe()?;
    let folder = test.parent().unwrap_or(Path::new("/")).join(name);
    disk::at_once(&folder, compile)?;
    disk::read_bytes(&folder.join("tools"))
}

fn compile(folder: &Path) -> io::Result<()> {
    let (source, program) = (folder.join("tools.c"), folder.join("tools"));
    disk::write(&source, SOURCE)?;
    let output = Command::new(&required()?.clang).arg("-O1").arg("-o").args([&program, &source]).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()))
}
