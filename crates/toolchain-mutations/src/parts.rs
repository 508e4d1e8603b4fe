//! Compiled files for cases: libraries, plug-ins and programs. Each is built once, by the system's compilers, on its
//! first use; equal names have equal bytes.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

use super::disk;
use super::system::{header, program, run};

/// Compiled parts. A name's last letter before its suffix, a digit, is the mark that the part leaves in objects.
///
/// * `libm_N.a`, `libm_N.o`, `libm_N.so`: a math library whose `expf` adds N, as archive, object and shared library.
/// * `mark_N.o`: an object with N in its data.
/// * `plugin_N.so`: a gcc plug-in that adds N to the assembler's input; `plugin_file.so` adds what its argument's file
///   says.
/// * `pass_N.so`: a library that clang loads, which aligns functions to 2^N bytes.
/// * `preload_N.so`: a library that, once loaded into `ld`, makes it use the soname mN.
/// * `libflag_N.so`: has a function that says N; `by_library`, `by_dlopen`: drivers that ask it.
/// * `header_N.gch`: the header with mark N, precompiled for gcc with the flags of a kernel.
/// * `by_HOW`: a driver that takes its mark from the file `flags` beside it, in one of the ways of `wrapper.c`;
///   `static_by_HOW`: the same without shared libraries; `some_by_HOW`: for the kernels of Relu only; `late_by_HOW`: which
///   looks for its mark with these only.
pub(super) struct Parts {
    dir: PathBuf,
    making: Mutex<()>,
    gcc: OnceLock<Result<GccTree, String>>,
}

/// The places of the system's gcc's files.
#[derive(Clone, Debug)]
pub(super) struct GccTree {
    pub(super) driver: PathBuf,
    /// The directory of `cc1` and `libgcc.a`.
    pub(super) files: PathBuf,
    pub(super) machine: String,
    version: String,
}

impl GccTree {
    /// The place of its files in a copy of the tree.
    pub(super) fn library(&self, dir: &str) -> String {
        format!("{dir}/lib/gcc/{}/{}", self.machine, self.version)
    }
}

impl Parts {
    pub(super) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), making: Mutex::default(), gcc: OnceLock::new() }
    }

    /// The part called `name`, a file that must not be changed.
    pub(super) fn get(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.dir.join(name);
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if !disk::exists(&path) {
            self.make(name, &path)?;
        }
        Ok(path)
    }

    fn make(&self, name: &str, path: &Path) -> io::Result<()> {
        let stem = name.split('.').next().unwrap_or_default();
        let (kind, mark) = stem.rsplit_once('_').unwrap_or((stem, ""));
        let defined = format!("-DMARK={mark}");
        let library = ["-O1", "-shared", "-fPIC", &defined];
        match (kind, name.rsplit('.').next().unwrap_or_default()) {
            ("libm", "o") => self.gcc(path, include_str!("parts/libm.c"), &["-O1", "-fPIC", "-c", &defined]),
            ("libm", "a") => {
                let object = format!("libm_{mark}.o");
                self.make(&object, &self.dir.join(&object))?;
                run(Command::new(program("ar")?).arg("rcD").arg(path).arg(self.dir.join(object)))
            }
            ("libm", _) => {
                let soname = format!("-Wl,-soname,libm-{mark}.so");
                self.gcc(
                    path,
                    include_str!("parts/libm.c"),
                    &[&library[..], &["-nostdlib", &soname]].concat(),
                )
            }
            ("mark", _) => self.gcc(path, include_str!("parts/mark.c"), &["-O1", "-fPIC", "-c", &defined]),
            ("plugin", _) => {
                let defined = if mark == "file" { "-DMARK=0" } else { &defined };
                self.gcc(path, include_str!("parts/plugin.c"), &["-O1", "-shared", "-fPIC", defined])
            }
            ("pass", _) => self.gcc(path, include_str!("parts/pass.c"), &library),
            ("preload", _) => self.gcc(path, include_str!("parts/preload.c"), &library),
            // One soname, whatever the mark.
            ("libflag", _) => {
                let args = [&library[..], &["-Wl,-soname,libflag_1.so"]].concat();
                self.gcc(path, include_str!("parts/flag.c"), &args)
            }
            // gcc writes other bytes in each run.
            ("header", "gch") => {
                let source = path.with_extension("h");
                disk::write(&source, header(mark.parse().map_err(io::Error::other)?))?;
                run(Command::new(program("gcc")?).args(PRECOMPILED).arg("-o").arg(path).arg(source))
            }
            ("by" | "static_by" | "some_by" | "late_by", _) => self.driver(kind, mark, path),
            _ => Err(io::Error::other(format!("there is no part `{name}`"))),
        }
    }

    /// A driver that is a program.
    fn driver(&self, kind: &str, how: &str, path: &Path) -> io::Result<()> {
        // This text is in the C of one operator's kernels, and in no source of a probe.
        const ONLY: &str = "-DONLY=\"relu_\"";
        let how_defined = format!("-DHOW_{}", how.to_uppercase());
        let gcc = format!("-DGCC=\"{}\"", program("gcc")?);
        let mut args = vec!["-O1", &how_defined, &gcc];
        let library = self.dir.join("libflag_1.so");
        match (kind, how) {
            ("static_by", _) => args.push("-static"),
            ("some_by", _) => args.push(ONLY),
            ("late_by", _) => args.extend([ONLY, "-DLATE"]),
            (_, "library") => {
                self.make("libflag_1.so", &library)?;
                args.extend(["-Wl,--enable-new-dtags", "-Wl,-rpath,$ORIGIN/first:$ORIGIN/second"]);
            }
            _ => {}
        }
        let library = library.to_string_lossy();
        if how == "library" {
            args.push(&library);
        }
        self.gcc(path, include_str!("parts/wrapper.c"), &args)
    }

    /// Compiles `source` to `path`.
    fn gcc(&self, path: &Path, source: &str, args: &[&str]) -> io::Result<()> {
        let file = path.with_extension("c");
        disk::write(&file, source)?;
        // Options may end in libraries, which must come after the files that need them.
        run(Command::new(program("gcc")?).arg("-o").arg(path).arg(&file).args(args))
    }

    /// The system's gcc, if a copy of its tree works: driver, programs and libraries are at the places of gcc's
    /// releases.
    pub(super) fn gcc_tree(&self) -> io::Result<&GccTree> {
        let found = self.gcc.get_or_init(|| find_gcc().map_err(|error| error.to_string()));
        found.as_ref().map_err(|error| io::Error::other(error.clone()))
    }

    pub(super) fn gcc_program(&self, name: &str) -> io::Result<String> {
        let found = said_by_gcc(&[&format!("-print-prog-name={name}")])?;
        if found.starts_with('/') { Ok(found) } else { program(&found) }
    }

    /// Clang's program and the directory of its libraries.
    pub(super) fn clang_tree(&self) -> io::Result<(PathBuf, PathBuf)> {
        let driver = Path::new(&program("clang")?).canonicalize()?;
        let library = driver.parent().and_then(Path::parent).map(|root| root.join("lib"));
        match library.filter(|library| library.join("clang").is_dir()) {
            Some(library) => Ok((driver, library)),
            None => Err(io::Error::other(format!("{} has no libraries beside it", driver.display()))),
        }
    }
}

fn find_gcc() -> io::Result<GccTree> {
    let driver = Path::new(&program("gcc")?).canonicalize()?;
    let parent = |text: String| Path::new(&text).parent().map(Path::to_owned).unwrap_or_default();
    let programs = parent(said_by_gcc(&["-print-prog-name=cc1"])?);
    let files = parent(said_by_gcc(&["-print-libgcc-file-name"])?);
    if programs != files || !files.is_absolute() {
        return Err(io::Error::other("gcc keeps its programs and its libraries apart"));
    }
    let version = files.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(GccTree { driver, files, machine: said_by_gcc(&["-dumpmachine"])?, version })
}

fn said_by_gcc(args: &[&str]) -> io::Result<String> {
    let output = Command::new(program("gcc")?).args(args).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The flags that a precompiled header and the compiles that use it must have in common.
const PRECOMPILED: [&str; 12] = [
    "-std=c11",
    "-O3",
    "-fPIC",
    "-fvisibility=hidden",
    "-march=x86-64",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-stack-protector",
    "-fno-tree-loop-distribute-patterns",
    "-fno-asynchronous-unwind-tables",
    "-fcf-protection=none",
];
