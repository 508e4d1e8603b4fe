//! Commands that run with a launcher, each hit compared with a run without one.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use opkeep_embed::{CacheMode, FileCacheConfig, StoreConfig};
use opkeep_fs::{FsCall, FsOp, Permit, Watcher};
use opkeep_launcher::{How, Invocation, Launcher, LauncherConfig, Reason, Roots, Task, ToolFacts};
use opkeep_testkit::PlainDigests;

mod outputs;
mod world;

pub(crate) use outputs::{Sink, Texts, snapshot};
pub(crate) use world::{after, link_at};

/// A tree of files, and a store.
pub(crate) struct Bench {
    pub(crate) dir: tempfile::TempDir,
    digests: Arc<PlainDigests>,
}

/// What a command is run with.
#[derive(Clone)]
pub(crate) struct Setup {
    /// The directory in the bench in which it runs.
    pub(crate) tree: &'static str,
    /// Whether this directory is a root.
    pub(crate) has_root: bool,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) mode: CacheMode,
    pub(crate) store: Option<PathBuf>,
    /// By default, of the tools in tests is known that they replace their outputs, as compilers do.
    pub(crate) facts: ToolFacts,
    /// Whether the store's disk takes no writes.
    pub(crate) is_full: bool,
}

/// A disk without space.
struct Full;

impl Watcher for Full {
    fn before(&self, call: &FsCall<'_>) -> Permit {
        match call.op {
            FsOp::Write | FsOp::SetLength => Permit::Fail(io::ErrorKind::StorageFull.into()),
            _ => Permit::Go,
        }
    }
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            tree: "tree",
            has_root: true,
            env: Vec::new(),
            mode: CacheMode::Enable,
            store: None,
            facts: ToolFacts { replaces_outputs: true, ..ToolFacts::default() },
            is_full: false,
        }
    }
}

/// A result of a launcher.
#[derive(Debug)]
pub(crate) struct Launched {
    pub(crate) how: How,
    pub(crate) code: Option<i32>,
    pub(crate) texts: Texts,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::below(&std::env::temp_dir())
    }

    /// A bench in a directory of its own below `place`.
    pub(crate) fn below(place: &Path) -> Self {
        let bench = Self { dir: tempfile::tempdir_in(place).unwrap(), digests: Arc::default() };
        fs::create_dir_all(bench.path("tree/out")).unwrap();
        bench
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file; `{}` in it is the bench's directory.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text.replace("{}", self.dir.path().to_str().unwrap())).unwrap();
    }

    pub(crate) fn remove(&self, name: &str) {
        fs::remove_file(self.path(name)).unwrap();
    }

    /// The bytes of all files in the store.
    pub(crate) fn stored(&self) -> Vec<Vec<u8>> {
        let found = Command::new("find").arg(self.path("store")).args(["-type", "f"]).output().unwrap();
        String::from_utf8(found.stdout).unwrap().lines().map(|path| fs::read(path).unwrap()).collect()
    }

    /// Copies a tree, as another checkout of the same files.
    pub(crate) fn copy(&self, from: &str, to: &str) {
        let copied = Command::new("cp").arg("-r").args([self.path(from), self.path(to)]).status().unwrap();
        assert!(copied.success());
    }

    pub(crate) fn run(&self, script: &str) -> Launched {
        self.run_with(&Setup::default(), script)
    }

    pub(crate) fn how(&self, script: &str) -> How {
        self.run(script).how
    }

    /// Runs a shell script whose outputs are expected in the directory `out` of its tree. `{}` in it is that tree. If it is a hit, what it wrote is
    /// compared with what the script itself writes.
    pub(crate) fn run_with(&self, setup: &Setup, script: &str) -> Launched {
        self.run_watched(setup, script, &|_| {})
    }

    /// Runs a program without a comparison.
    pub(crate) fn run_program(&self, setup: &Setup, program: &str, args: &[&str]) -> Launched {
        let run = Invocation {
            program: program.into(),
            args: args.iter().map(OsString::from).collect(),
            env: environment(&setup.env),
            dir: self.path(setup.tree),
        };
        self.launch(setup, &run, &|_| {})
    }

    pub(crate) fn run_watched(&self, setup: &Setup, script: &str, on_write: &dyn Fn(&[u8])) -> Launched {
        let run = self.invocation(setup, script);
        let launched = self.launch(setup, &run, on_write);
        if launched.how == How::Hit {
            self.compare(&run, &run.dir.join("out"), &launched.texts);
        }
        launched
    }

    /// The same, without a comparison.
    pub(crate) fn raw(&self, setup: &Setup, script: &str) -> Launched {
        self.launch(setup, &self.invocation(setup, script), &|_| {})
    }

    fn invocation(&self, setup: &Setup, script: &str) -> Invocation {
        let dir = self.path(setup.tree);
        let script = script.replace("{}", dir.to_str().unwrap());
        let args = vec!["-c".into(), script.into()];
        Invocation { program: "/bin/sh".into(), args, env: environment(&setup.env), dir }
    }

    fn launch(&self, setup: &Setup, run: &Invocation, on_write: &dyn Fn(&[u8])) -> Launched {
        let store = StoreConfig::new(setup.store.clone().unwrap_or_else(|| self.path("store")));
        let store = if setup.is_full { store.with_watcher(Arc::new(Full)) } else { store };
        let cache = FileCacheConfig::new(store, "launcher").with_mode(setup.mode);
        let mut config = LauncherConfig::new(cache, self.digests.clone());
        if setup.has_root {
            config.roots = Roots::new([("build".to_owned(), self.path(setup.tree))]).unwrap();
        }
        let launcher = Launcher::open(config).unwrap();
        let work = tempfile::tempdir().unwrap();
        let out = fs::canonicalize(self.path(setup.tree)).unwrap().join("out");
        let task = Task {
            tool: "sh",
            run: run.clone(),
            key_args: run.args.clone(),
            inputs: Vec::new(),
            work_dir: work.path(),
            outputs: &|path| path.starts_with(&out) && path != out,
            ignored: &|path| path.extension() == Some(OsStr::new("log")),
            check: &|files| match files.iter().find(|(_, bytes)| bytes.starts_with(b"not valid")) {
                Some((path, _)) => Err(format!("`{}`", path.display())),
                None => Ok(()),
            },
            facts: setup.facts,
            exclusive: vec![out.join("k")],
            target: "host".to_owned(),
            name: "test".to_owned(),
        };
        let mut sink = Sink { texts: Texts::default(), on_write };
        let ran = launcher.run(&task, &mut sink).unwrap();
        Launched {
            how: ran.how,
            code: ran.status.code().or(ran.status.signal().map(|it| 128 + it)),
            texts: sink.texts,
        }
    }

    /// Compares what a hit wrote with what the command itself writes.
    fn compare(&self, run: &Invocation, out: &Path, texts: &Texts) {
        let of_hit = snapshot(out);
        if out.exists() {
            fs::remove_dir_all(out).unwrap();
            if !String::from_utf8_lossy(run.args[1].as_encoded_bytes()).contains("mkdir -p out") {
                fs::create_dir(out).unwrap();
            }
        }
        let temporary = tempfile::tempdir().unwrap();
        let ended = Command::new(&run.program)
            .args(&run.args)
            .current_dir(&run.dir)
            .env_clear()
            .envs(run.env.iter().cloned())
            // A module that was compiled a moment ago would count as current after a change of its source.
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("TMPDIR", temporary.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(ended.status.success(), "{ended:?}");
        assert_eq!(Texts { out: ended.stdout, err: ended.stderr }, *texts);
        assert_eq!(snapshot(out), of_hit);
    }
}

/// The environment of a test, with further variables.
pub(crate) fn environment(further: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
    let mut env = vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()), ("LC_ALL".into(), "C".into())];
    env.retain(|(name, _)| further.iter().all(|(other, _)| other != name));
    env.extend(further.iter().cloned());
    env
}

pub(crate) fn variable(name: &str, value: impl AsRef<OsStr>) -> (OsString, OsString) {
    (name.into(), value.as_ref().to_owned())
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// The reason why a result was not kept.
pub(crate) fn reason(how: How) -> Reason {
    match how {
        How::NotKept(reason) => reason,
        other => panic!("expected that nothing is kept: {other:?}"),
    }
}
