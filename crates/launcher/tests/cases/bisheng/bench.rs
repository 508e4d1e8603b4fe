//! A tree of sources, a store, and a compiler.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use opkeep_embed::{FileCacheConfig, StoreConfig};
use opkeep_launcher::bisheng::{Bisheng, NotCached, Outcome};
use opkeep_launcher::{How, Invocation, Launcher, LauncherConfig, Reason};
use opkeep_testkit::PlainDigests;
use opkeep_testkit::toolkit::package::tools;

use crate::outputs::{Sink, Texts};

pub(crate) struct Bench {
    dir: tempfile::TempDir,
    digests: Arc<PlainDigests>,
    compiler: PathBuf,
}

/// What a launcher did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Did {
    Hit,
    Compiled,
    NotKept(Reason),
    NotCached(NotCached),
}

/// What a compile leaves: its exit code, its texts, and the object with its mode.
#[derive(Debug, PartialEq, Eq)]
struct Left {
    code: Option<i32>,
    texts: Texts,
    object: Option<(u32, Vec<u8>)>,
}

/// A command line, with `{}` for the directory of the bench.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) args: String,
    pub(crate) dir: String,
    pub(crate) env: Vec<(&'static str, String)>,
    pub(crate) object: String,
}

impl Line {
    /// A compile of `a.cpp` in the directory `dir` of the bench to `k.o` there.
    pub(crate) fn new(dir: &str, args: &str) -> Self {
        let args = format!("-c {args} {{}}/{dir}/a.cpp -o {{}}/{dir}/k.o");
        Self { args, dir: dir.to_owned(), env: Vec::new(), object: format!("{dir}/k.o") }
    }

    /// A command with these arguments alone.
    pub(crate) fn of(args: &str) -> Self {
        Self { args: args.to_owned(), dir: "w".to_owned(), env: Vec::new(), object: "w/k.o".to_owned() }
    }

    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.env.push((name, value.to_owned()));
        self
    }
}

impl Bench {
    pub(crate) fn new() -> Self {
        let bench = Self::empty("bin/bisheng");
        symlink(fs::canonicalize(&tools().unwrap().clang).unwrap(), &bench.compiler).unwrap();
        bench
    }

    /// A bench whose compiler is the program that this text of C makes. `CLANG` in it is the path of clang.
    pub(crate) fn with_compiler(program: &str) -> Self {
        let bench = Self::empty("own/bin/bisheng");
        let clang = &tools().unwrap().clang;
        bench.write("own.c", program);
        let path = format!("-DCLANG=\"{}\"", fs::canonicalize(clang).unwrap().display());
        let made =
            Command::new(clang).arg(path).arg("-o").arg(&bench.compiler).arg(bench.path("own.c")).status();
        assert!(made.unwrap().success());
        bench
    }

    /// A bench without a compiler.
    pub(crate) fn empty(compiler: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let compiler = fs::canonicalize(dir.path()).unwrap().join(compiler);
        fs::create_dir_all(compiler.parent().unwrap()).unwrap();
        Self { dir, digests: Arc::default(), compiler }
    }

    /// The bench with another compiler.
    pub(crate) fn with_program(mut self, program: &Path) -> Self {
        self.compiler = program.to_owned();
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.dir.path()).unwrap().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text.replace("{}", &self.place())).unwrap();
    }

    fn place(&self) -> String {
        self.path("").to_str().unwrap().trim_end_matches('/').to_owned()
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    fn invocation(&self, line: &Line) -> Invocation {
        let place = self.place();
        let mut env: Vec<(OsString, OsString)> =
            vec![("PATH".into(), "/usr/bin:/bin".into()), ("LC_ALL".into(), "C".into())];
        env.extend(line.env.iter().map(|(name, value)| ((*name).into(), value.replace("{}", &place).into())));
        Invocation {
            program: self.compiler.clone(),
            args: line.args.split_whitespace().map(|arg| arg.replace("{}", &place).into()).collect(),
            env,
            dir: self.path(&line.dir),
        }
    }

    /// Runs the command with a launcher, and then without: what both leave must be the same.
    pub(crate) fn run(&self, line: &Line) -> Did {
        let before = self.object(line);
        let (did, left) = self.launch(line);
        let object = self.path(&line.object);
        // The compiler itself finds what the launcher found.
        if !object.is_symlink() {
            let _ = fs::remove_file(&object);
            if let Some((mode, bytes)) = &before {
                fs::write(&object, bytes).unwrap();
                fs::set_permissions(&object, std::os::unix::fs::PermissionsExt::from_mode(*mode)).unwrap();
            }
        }
        assert_eq!(self.run_without(line), left, "{did:?} {line:?}");
        did
    }

    /// Runs the command with a launcher, and compares nothing.
    pub(crate) fn run_once(&self, line: &Line) -> Did {
        self.launch(line).0
    }

    /// Runs the command without a launcher.
    pub(crate) fn run_plainly(&self, line: &Line) {
        self.run_without(line);
    }

    fn launch(&self, line: &Line) -> (Did, Left) {
        let invocation = self.invocation(line);
        let bisheng = match Bisheng::read(invocation) {
            Ok(bisheng) => bisheng,
            Err(reason) => return (Did::NotCached(reason), self.run_without(line)),
        };
        let cache = FileCacheConfig::new(StoreConfig::new(self.path("store")), "bisheng");
        let launcher = Launcher::open(LauncherConfig::new(cache, self.digests.clone())).unwrap();
        let mut sink = Sink { texts: Texts::default(), on_write: &|_| {} };
        match bisheng.compile(&launcher, &mut sink).unwrap() {
            Outcome::Ran(ran) => {
                let code = ran.status.code().or(ran.status.signal().map(|it| 128 + it));
                let did = match ran.how {
                    How::Hit => Did::Hit,
                    How::Compiled => Did::Compiled,
                    How::NotKept(reason) | How::Uncached(reason) => Did::NotKept(reason),
                };
                (did, Left { code, texts: sink.texts, object: self.object(line) })
            }
            Outcome::NotCached(reason) => (Did::NotCached(reason), self.run_without(line)),
        }
    }

    /// Runs the compiler itself.
    fn run_without(&self, line: &Line) -> Left {
        let Invocation { program, args, env, dir } = self.invocation(line);
        let mut command = Command::new(program);
        command.args(args).env_clear().envs(env).current_dir(dir).stdin(Stdio::null());
        let ended = command.output().unwrap();
        let texts = Texts { out: ended.stdout, err: ended.stderr };
        Left { code: ended.status.code(), texts, object: self.object(line) }
    }

    pub(crate) fn object(&self, line: &Line) -> Option<(u32, Vec<u8>)> {
        let path = self.path(&line.object);
        Some((fs::metadata(&path).ok()?.mode(), fs::read(&path).ok()?))
    }

    /// Compiles with the launcher twice, and expects the second one to be a hit.
    pub(crate) fn keep(&self, line: &Line) {
        assert_eq!(self.run(line), Did::Compiled, "{line:?}");
        assert_eq!(self.run(line), Did::Hit, "{line:?}");
    }
}

/// Sets the modification time of a file to a time long ago.
pub(crate) fn set_old(path: &Path) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000)).unwrap();
}
