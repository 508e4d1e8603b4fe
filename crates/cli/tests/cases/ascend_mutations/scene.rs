//! A toolkit and a Python to be changed, and builds by them.
#![allow(dead_code, reason = "each file of tests uses a part of this")]

#[path = "bytecode.rs"]
mod bytecode;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use opkeep_testkit::toolkit::{self, Installation, Toolkit};
use opkeep_testkit::{Means, without_means};

use crate::common::{self, Place, Ran, SQUARE};

/// A module that adds a text to code.
pub(crate) fn generates(text: &str) -> String {
    format!("GENERATES = '{text}'\n")
}

/// A toolkit, a Python of its own, and one operator.
pub(crate) struct Scene {
    pub(crate) place: Place,
    pub(crate) installed: Installation,
    pub(crate) driver: &'static str,
    /// What `ASCEND_HOME_PATH` names.
    pub(crate) home: PathBuf,
    pub(crate) python: PathBuf,
    /// What `PYTHONPATH` has.
    pub(crate) paths: Vec<PathBuf>,
    /// What the host lacks.
    pub(crate) lacks: Vec<Means>,
    /// Further arguments of each build.
    pub(crate) args: Vec<String>,
    has_sources: bool,
}

impl Scene {
    /// For workers, `opc` only says that it is there: no kernel comes from it, and its imports are half of a probe.
    pub(crate) fn new(driver: &'static str) -> Self {
        Self::with_little_opc(Self::complete(driver))
    }

    /// The same with a Python that has bytecode of its library, for tests that change nothing of it: starts take less time.
    pub(crate) fn quick(driver: &'static str) -> Self {
        let scene = Self::of(driver, &toolkit::python().unwrap());
        Self::with_little_opc(Self { has_sources: false, ..scene })
    }

    fn with_little_opc(scene: Self) -> Self {
        if scene.driver == "workers" {
            scene.place.script("opc", "echo help");
            fs::copy(scene.place.path("opc"), scene.installed.tool("opc")).unwrap();
        }
        scene
    }

    pub(crate) fn complete(driver: &'static str) -> Self {
        Self::of(driver, &toolkit::python_with_sources().unwrap())
    }

    fn of(driver: &'static str, python: &Path) -> Self {
        let place = Place::new();
        let installed = Toolkit::new().write(&place.path("Ascend")).unwrap();
        let python = prefix_of(python, &place.path("prefix"));
        for directory in ["path/a", "path/b", "libraries", "home"] {
            fs::create_dir_all(place.path(directory)).unwrap();
        }
        let paths = vec![place.path("path/a"), place.path("path/b")];
        let home = installed.root().to_owned();
        let (lacks, args) = (Vec::new(), Vec::new());
        Self { place, installed, driver, home, python, paths, lacks, args, has_sources: true }
    }

    pub(crate) fn run(&self, store: &str) -> Ran {
        let args = ["build", "--target", "Ascend910B1", "--format", "json", "--cann-driver", self.driver];
        let mut command = self.command(&args, store);
        command.args(&self.args).arg(SQUARE);
        common::ran(&mut command)
    }

    /// A command that sees this toolkit and this Python.
    pub(crate) fn command(&self, args: &[&str], store: &str) -> Command {
        let temporary = self.place.path(&format!("tmp-{store}"));
        if !temporary.exists() && self.has_sources {
            bytecode::lay(&temporary);
        }
        fs::create_dir_all(&temporary).unwrap();
        self.command_in(args, store, &temporary)
    }

    fn command_in(&self, args: &[&str], store: &str, temporary: &Path) -> Command {
        let paths = std::env::join_paths(&self.paths).unwrap();
        let view = self.place.path(&format!("view-{store}"));
        let mut command = self.place.command(args);
        fs::create_dir_all(&view).unwrap();
        command.current_dir(view);
        command.env("OPKEEP_CACHE_DIR", self.place.path(store)).env("TMPDIR", temporary);
        command.env("HOME", self.place.path("home")).env("ASCEND_HOME_PATH", &self.home);
        command.env("HI_PYTHON", &self.python).env("PYTHONPATH", paths);
        command.env("LD_LIBRARY_PATH", self.place.path("libraries"));
        if !self.lacks.is_empty() {
            without_means(&mut command, &self.lacks);
        }
        command
    }

    /// How many kernels were compiled, and all that are there.
    pub(crate) fn build(&self, store: &str) -> (u64, Vec<(String, Vec<u8>)>) {
        let ran = self.run(store).ended_with(0);
        let files = common::files(&self.place.path(&format!("view-{store}")));
        let objects = files.iter().filter(|path| path.extension().is_some_and(|end| end == "o"));
        let read = |path: &PathBuf| {
            (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(path).unwrap())
        };
        let objects: Vec<_> = objects.map(read).collect();
        assert!(!objects.is_empty(), "{ran:?}");
        (ran.count("compiled"), objects)
    }

    pub(crate) fn done(&self) {}

    pub(crate) fn write(&self, name: &str, text: &str) -> &Self {
        self.place.write(name, text);
        self
    }

    /// The module `helper` on `PYTHONPATH`.
    pub(crate) fn helper(&self, directory: &str, text: &str) -> &Self {
        self.write(&format!("path/{directory}/helper.py"), &generates(text))
    }

    /// Has the operator do something when it is compiled.
    pub(crate) fn operator(&self, statement: &str) -> &Self {
        for file in ["square.py", "dynamic/square.py"] {
            let path = self.installed.impl_file(file);
            let begin = "    tensors = [";
            let edit = |text: String| {
                assert!(text.contains(begin), "{text}");
                text.replacen(begin, &format!("    {statement}\n{begin}"), 1)
            };
            self.installed.edit(&path, edit).unwrap();
        }
        self
    }

    pub(crate) fn toolkit_site(&self) -> PathBuf {
        self.installed.path("python/site-packages")
    }

    /// A package that the toolkit imports.
    pub(crate) fn package(&self, name: &str, text: &str) {
        fs::write(self.toolkit_site().join(name).join("__init__.py"), generates(text)).unwrap();
    }

    pub(crate) fn library(&self) -> PathBuf {
        library_of(&self.place.path("prefix"))
    }

    pub(crate) fn site(&self) -> PathBuf {
        self.library().join("site-packages")
    }

    pub(crate) fn user_site(&self) -> PathBuf {
        let version = self.library().file_name().unwrap().to_owned();
        self.place.path("home/.local/lib").join(version).join("site-packages")
    }

    /// A module of the standard library, changed.
    pub(crate) fn standard(&self, name: &str, text: &str) {
        let path = self.library().join(format!("{name}.py"));
        let content = fs::read_to_string(&path).unwrap() + "\n" + &generates(text);
        fs::remove_file(&path).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn lengthen(&self, path: &Path) {
        let mut content = fs::read(path).unwrap();
        content.push(0);
        fs::remove_file(path).unwrap();
        fs::write(path, content).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub(crate) fn ask(&self, code: &str, args: &[&Path]) -> String {
        let python = self.place.path("prefix/bin/python3");
        let output = Command::new(python).arg("-c").arg(code).args(args).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// The module `helper` as bytecode without a source.
    pub(crate) fn legacy(&self, text: &str) -> &Self {
        self.write("bytecode/helper.py", &generates(text));
        let (from, to) = (self.place.path("bytecode/helper.py"), self.place.path("path/a/helper.pyc"));
        self.ask(
            "import py_compile, sys; py_compile.compile(sys.argv[1], sys.argv[2], doraise=True)",
            &[&from, &to],
        );
        self
    }

    /// Bytecode of another source beside a source, which Python would take as it is.
    pub(crate) fn unchecked(&self, source: &Path, text: &str) {
        self.write("bytecode/other.py", &generates(text));
        let code = "import importlib.util as u, py_compile as p, sys\n\
            p.compile(sys.argv[1], u.cache_from_source(sys.argv[2]), doraise=True, \
            invalidation_mode=p.PycInvalidationMode.UNCHECKED_HASH)";
        self.ask(code, &[&self.place.path("bytecode/other.py"), source]);
        assert!(source.with_file_name("__pycache__").is_dir());
    }

    pub(crate) fn archive(&self, name: &str, module: &str, text: &str) -> &Self {
        let file = format!("zip/{module}.py");
        self.write(&file, &generates(text));
        self.pack(&self.place.path(name), &self.place.path(&file));
        self
    }

    pub(crate) fn pack(&self, archive: &Path, file: &Path) {
        let code = "import os, sys, zipfile\n\
            zipfile.ZipFile(sys.argv[1], 'w').write(sys.argv[2], os.path.basename(sys.argv[2]))";
        self.ask(code, &[archive, file]);
    }

    pub(crate) fn extension_path(&self) -> PathBuf {
        let found = fs::read_dir(self.place.path("path/a")).unwrap().map(|entry| entry.unwrap().path());
        found.into_iter().find(|path| path.extension().is_some_and(|end| end == "so")).unwrap()
    }

    /// An extension module before that of the standard library.
    pub(crate) fn extension(&self) -> &Self {
        let path = PathBuf::from(self.ask("import _bisect; print(getattr(_bisect, '__file__', ''))", &[]));
        assert!(path.is_file(), "this Python has no module of its own to copy");
        fs::copy(&path, self.place.path("path/a").join(path.file_name().unwrap())).unwrap();
        self
    }

    /// A library that the interpreter itself is linked with.
    pub(crate) fn loaded_library(&self) -> PathBuf {
        let code = "for line in open('/proc/self/maps'):\n    \
            if '/libm.so' in line or '/libm-' in line: print(line.split()[-1]); break";
        PathBuf::from(self.ask(&format!("import math\n{code}"), &[]))
    }

    pub(crate) fn script(&mut self, start: &str) {
        let program = self.place.path("prefix/bin/python3");
        self.python = self.place.script("python", &format!("{start} '{}' \"$@\"", program.display()));
    }
}

/// A Python of its own: the program is a copy, and the standard library a directory of links.
pub(crate) fn prefix(at: &Path) -> PathBuf {
    prefix_of(&toolkit::python_with_sources().unwrap(), at)
}

/// The same of any Python.
fn prefix_of(python: &Path, at: &Path) -> PathBuf {
    let code = "import os, sys; print(os.path.realpath(sys.executable)); print(os.path.dirname(os.__file__))";
    let output = Command::new(python).args(["-c", code]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let [program, library] = text.lines().map(PathBuf::from).collect::<Vec<_>>().try_into().unwrap();
    let own = at.join("lib").join(library.file_name().unwrap());
    fs::create_dir_all(own.join("site-packages")).unwrap();
    fs::create_dir_all(at.join("bin")).unwrap();
    for entry in fs::read_dir(&library).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        let is_left_out = |one: &str| name == one;
        if !["site-packages", "dist-packages", "__pycache__", "sitecustomize.py"]
            .iter()
            .any(|one| is_left_out(one))
        {
            symlink(entry.path(), own.join(&name)).unwrap();
        }
    }
    let copy = at.join("bin/python3");
    fs::copy(program, &copy).unwrap();
    copy
}

pub(crate) fn library_of(prefix: &Path) -> PathBuf {
    fs::read_dir(prefix.join("lib"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.is_dir())
        .unwrap()
}

pub(crate) fn copy_tree(from: &Path, to: &Path) {
    for path in common::files(from) {
        let copy = to.join(path.strip_prefix(from).unwrap());
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(path, copy).unwrap();
    }
}
