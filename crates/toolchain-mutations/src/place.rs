//! The private directory of a case, and the operations on it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use super::disk;
use super::parts::Parts;
use super::system::{header, program, python, run};

/// A private directory:
///
/// * `home/t`: the toolchain, [`Place::root`]; what a change moves out of it stays in `home`.
/// * `s`, `f`: the working directories of the builds, each with its store, `TMPDIR` and `HOME`.
pub(super) struct Place {
    dir: PathBuf,
    parts: Arc<Parts>,
    mounted: RefCell<Vec<PathBuf>>,
}

impl Place {
    pub(super) fn new(dir: &Path, parts: Arc<Parts>) -> io::Result<Self> {
        let place = Self { dir: dir.to_owned(), parts, mounted: RefCell::default() };
        disk::directory(&place.root())?;
        for world in ["s", "f"] {
            for name in ["tmp", "home", "cwd"] {
                disk::directory(&place.world(world).join(name))?;
            }
        }
        Ok(place)
    }

    /// The directory of the toolchain.
    pub(super) fn root(&self) -> PathBuf {
        self.dir.join("home/t")
    }

    /// A path beside the toolchain.
    pub(super) fn beside(&self, name: &str) -> PathBuf {
        self.dir.join("home").join(name)
    }

    /// The working directory of a sequence of builds: `s` for the judged builds, `f` for the fresh store.
    pub(super) fn world(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// A path in the toolchain as text.
    pub(super) fn text(&self, name: &str) -> String {
        self.path(name).to_string_lossy().into_owned()
    }

    /// The driver that wrappers run.
    pub(super) fn gcc(&self) -> io::Result<String> {
        program("gcc")
    }

    pub(super) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        disk::write(&self.path(name), bytes)
    }

    /// A header or flag file that leaves `mark` in each object. All marks of one digit have one length.
    pub(super) fn header(&self, name: &str, mark: u32) -> io::Result<()> {
        self.write(name, header(mark))
    }

    /// A shell script that ends in `gcc "$@"` followed by `extra`; `$T` is the toolchain's directory, `$GCC` the
    /// compiler.
    pub(super) fn wrapper(&self, name: &str, before: &str, extra: &str) -> io::Result<()> {
        self.script(name, "/bin/sh", &format!("{before}\nexec \"$GCC\" \"$@\" {extra}"))
    }

    /// A wrapper in another shell.
    pub(super) fn wrapper_by(&self, name: &str, shell: &str, extra: &str) -> io::Result<()> {
        self.script(name, shell, &format!("exec \"$GCC\" \"$@\" {extra}"))
    }

    /// A shell script with `$T` and `$GCC` set.
    pub(super) fn script(&self, name: &str, interpreter: &str, body: &str) -> io::Result<()> {
        let (gcc, root) = (self.gcc()?, self.root());
        let text = format!("#!{interpreter}\nT='{}'\nGCC='{gcc}'\n{body}\n", root.display());
        self.program(name, text)
    }

    pub(super) fn program(&self, name: &str, text: impl AsRef<[u8]>) -> io::Result<()> {
        disk::write_program(&self.path(name), text)
    }

    pub(super) fn link(&self, target: &str, name: &str) -> io::Result<()> {
        disk::link(target, &self.path(name))
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        disk::rename(&self.path(from), &self.path(to))
    }

    pub(super) fn exchange(&self, one: &str, other: &str) -> io::Result<()> {
        disk::exchange(&self.path(one), &self.path(other))
    }

    pub(super) fn copy(&self, from: &str, to: &str) -> io::Result<()> {
        disk::copy(&self.path(from), &self.path(to))
    }

    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        disk::remove(&self.path(name))
    }

    /// Writes a file under another name and renames it over.
    pub(super) fn replace(&self, name: &str, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        let beside = format!("{name}.new");
        self.write(&beside, bytes)?;
        self.rename(&beside, name)
    }

    /// Copies a compiled part (see [`Parts`]) there, replacing an existing file.
    pub(super) fn part(&self, part: &str, name: &str) -> io::Result<()> {
        let made = self.parts.get(part)?;
        let beside = self.path(&format!("{name}.new"));
        disk::copy(&made, &beside)?;
        disk::rename(&beside, &self.path(name))
    }

    /// A private gcc in `dir`: the driver is a copy, the files that it runs and reads are links to the system's.
    /// Returns the driver.
    pub(super) fn gcc_tree(&self, dir: &str) -> io::Result<String> {
        let gcc = self.parts.gcc_tree()?;
        let library = gcc.library(dir);
        disk::directory(&self.path(&library))?;
        for file in disk::entries(&gcc.files) {
            if let Some(name) = file.file_name().and_then(|name| name.to_str()) {
                disk::link(&file.to_string_lossy(), &self.path(&format!("{library}/{name}")))?;
            }
        }
        let driver = format!("{dir}/bin/gcc");
        disk::copy(&gcc.driver, &self.path(&driver))?;
        Ok(self.text(&driver))
    }

    /// The directory of `cc1` in a private gcc.
    pub(super) fn gcc_library(&self, dir: &str) -> io::Result<String> {
        Ok(self.parts.gcc_tree()?.library(dir))
    }

    /// The target's directory of assembler and linker in a private gcc.
    pub(super) fn gcc_tools(&self, dir: &str) -> io::Result<String> {
        Ok(format!("{dir}/{}/bin", self.parts.gcc_tree()?.machine))
    }

    /// The triple of the system's gcc.
    pub(super) fn machine(&self) -> io::Result<String> {
        Ok(self.parts.gcc_tree()?.machine.clone())
    }

    /// A program that the system's gcc runs: `cc1`, `as`, `ld`.
    pub(super) fn gcc_program(&self, name: &str) -> io::Result<String> {
        self.parts.gcc_program(name)
    }

    /// A private clang in `dir`, called `name`.
    pub(super) fn clang_tree(&self, dir: &str, name: &str) -> io::Result<String> {
        let (driver, library) = self.parts.clang_tree()?;
        for file in disk::entries(&library) {
            let known = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if known == "clang" || known.contains(".so") {
                disk::link(&file.to_string_lossy(), &self.path(&format!("{dir}/lib/{known}")))?;
            }
        }
        let copy = format!("{dir}/bin/clang");
        disk::copy(&driver, &self.path(&copy))?;
        if name != "clang" {
            self.link("clang", &format!("{dir}/bin/{name}"))?;
        }
        Ok(self.text(&format!("{dir}/bin/{name}")))
    }

    /// A Python module without its source. Its bytecode has no date and no path in it.
    pub(super) fn bytecode(&self, name: &str, source: &str) -> io::Result<()> {
        self.write(&format!("{name}.source"), source)?;
        let compile = "import py_compile, sys; py_compile.compile(sys.argv[1], sys.argv[2], 'm', True, \
             invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)";
        let (from, to) = (self.path(&format!("{name}.source")), self.path(&format!("{name}.pyc")));
        run(Command::new(python()?).args(["-c", compile]).arg(&from).arg(to))?;
        disk::remove(&from)
    }

    /// Creates an archive that only refers to `object`.
    pub(super) fn thin_archive(&self, name: &str, object: &str) -> io::Result<()> {
        let (archive, object) = (self.path(name), self.path(object));
        run(Command::new(program("ar")?).args(["rcDT"]).arg(archive).arg(object))
    }

    /// Mounts `from` over `to` until the toolchain is wiped.
    pub(super) fn bind(&self, from: &str, to: &str) -> io::Result<()> {
        let to = self.path(to);
        run(Command::new("mount").arg("--bind").arg(self.path(from)).arg(&to))?;
        self.mounted.borrow_mut().push(to);
        Ok(())
    }

    /// Mounts an empty file system in memory over `at`, until the toolchain is wiped.
    pub(super) fn mount_memory(&self, at: &str) -> io::Result<()> {
        let at = self.path(at);
        run(Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m,mode=755", "tmpfs"]).arg(&at))?;
        self.mounted.borrow_mut().push(at);
        Ok(())
    }

    /// Removes the toolchain and the files that were moved out of it.
    pub(super) fn wipe(&self) -> io::Result<()> {
        self.unmount()?;
        disk::remove(&self.dir.join("home"))?;
        disk::directory(&self.root())
    }

    fn unmount(&self) -> io::Result<()> {
        while let Some(at) = self.mounted.borrow_mut().pop() {
            run(Command::new("umount").arg("-l").arg(at))?;
        }
        Ok(())
    }

    /// The modification times of the toolchain's files.
    pub(super) fn times(&self) -> HashMap<PathBuf, (i64, i64)> {
        let tree = disk::tree(&self.root());
        tree.into_iter().filter_map(|path| Some((path.clone(), disk::modified(&path).ok()?))).collect()
    }

    /// Restores the files' `times`; a new file gets the time of an existing one.
    pub(super) fn restore_times(&self, times: &HashMap<PathBuf, (i64, i64)>) -> io::Result<()> {
        let Some(oldest) = times.values().min() else { return Ok(()) };
        let mut tree = disk::tree(&self.root()).into_iter();
        tree.try_for_each(|path| disk::set_times(&path, *times.get(&path).unwrap_or(oldest)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Removing a mounted directory would empty it.
        if self.unmount().is_ok() {
            let _ = disk::remove(&self.dir);
        }
    }
}
