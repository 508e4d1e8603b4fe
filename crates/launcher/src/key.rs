//! The keys of tasks, manifests and results.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use opkeep_digest::{Digest, FileDigests, Hasher};
use opkeep_embed::FileKey;
use opkeep_fs::Fs;

use crate::environment;
use crate::manifest::Manifest;
use crate::roots::Roots;
use crate::state::{Content, States};
use crate::task::{Invocation, Task, ToolFacts};

/// The version of all keys of this crate. It also stands for what a run records.
const SCHEMA: u64 = 1;

/// Upper bound of the size of `/proc/self/status`.
const MAX_STATUS: u64 = 1 << 16;

/// The key of all that is known of a task before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskKey(Digest);

/// The machine, as far as it is not in files.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// As of `uname -m`.
    pub(crate) name: String,
    /// The bits that new files do not have.
    pub(crate) umask: u32,
}

impl Machine {
    /// This machine, and the umask of this process.
    pub(crate) fn current() -> Self {
        let name = rustix::system::uname().machine().to_string_lossy().into_owned();
        let status = Fs::new().read_text(Path::new("/proc/self/status"), MAX_STATUS).unwrap_or_default();
        let umask =
            status.lines().find_map(|line| u32::from_str_radix(line.strip_prefix("Umask:")?.trim(), 8).ok());
        Self { name, umask: umask.unwrap_or_default() }
    }
}

impl TaskKey {
    /// The key of a task.
    ///
    /// # Errors
    /// The file that cannot be read.
    pub(crate) fn of(
        task: &Task<'_>,
        roots: &Roots,
        inert: &[String],
        machine: &Machine,
        digests: &dyn FileDigests,
    ) -> Result<Self, PathBuf> {
        // All fields, so that a new one does not compile until it is decided whether it counts. The work directory is a root; which
        // outputs are expected follows from the tool and its arguments, as its own directories do; the name is for reports.
        let Task {
            tool,
            run,
            key_args,
            inputs,
            work_dir: _,
            outputs: _,
            ignored: _,
            check: _,
            facts,
            exclusive: _,
            target,
            name: _,
        } = task;
        // The arguments are those of the key.
        let Invocation { program, args: _, env, dir } = run;
        let Machine { name: machine, umask } = machine;
        let mut hasher = Hasher::new("opkeep launcher task");
        hasher.u64(SCHEMA);
        hasher.str(tool);
        hasher.str(target);
        hasher.str(machine);
        hasher.u64(u64::from(*umask));
        hash_file(&mut hasher, program, roots, digests).map_err(|_| program.clone())?;
        hasher.list(key_args.len());
        key_args.iter().for_each(|arg| roots.hash_text(&mut hasher, arg.as_bytes()));
        roots.hash_path(&mut hasher, dir);
        // A link to the directory may lead elsewhere later, and the command is where it leads.
        roots.hash_path(&mut hasher, &Fs::new().resolved(dir));
        environment::hash(&mut hasher, env, roots, inert, facts.is_movable);
        hasher.list(inputs.len());
        for input in inputs {
            hash_file(&mut hasher, input, roots, digests).map_err(|_| input.clone())?;
        }
        let ToolFacts { is_movable, replaces_outputs, ignores_byte_code } = facts;
        [is_movable, replaces_outputs, ignores_byte_code].into_iter().for_each(|fact| hasher.bool(*fact));
        roots.hash_relations(&mut hasher);
        // A relative path leads from there to a root, or a name behind a text.
        let texts = key_args.iter().chain(env.iter().map(|(_, value)| value));
        let is_beside = roots.are_beside(dir)
            || roots.are_beside(&Fs::new().resolved(dir))
            || texts.into_iter().any(|text| roots.are_below_a_path_in(text.as_bytes()));
        hasher.bool(is_beside);
        if is_beside {
            roots.hash_real_paths(&mut hasher);
        }
        Ok(Self(hasher.finish()))
    }

    /// The key under which the manifest with this number is kept.
    pub(crate) fn manifest(&self, number: usize) -> FileKey {
        FileKey::new(*self.0.as_bytes()).with_name(format!("manifest {number}"))
    }

    /// The key of the result of a run now, by the paths of a manifest. `None` if the manifest does not apply here.
    pub(crate) fn result(&self, manifest: &Manifest, states: &States<'_>) -> Option<FileKey> {
        let mut hasher = Hasher::new("opkeep launcher result");
        hasher.digest(&self.0);
        hasher.digest(&manifest.digest());
        hasher.digest(&states.digest(manifest)?);
        if manifest.has_real_paths {
            states.roots.hash_real_paths(&mut hasher);
        }
        // A relative path leads there from a root in it.
        if manifest.uses_home() {
            states.roots.hash_home(&mut hasher);
        }
        Some(FileKey::new(*hasher.finish().as_bytes()).with_name("result"))
    }
}

/// Adds the name and the content of a file.
fn hash_file(hasher: &mut Hasher, path: &Path, roots: &Roots, digests: &dyn FileDigests) -> io::Result<()> {
    let (_, found) = Fs::new().open_file(path)?;
    roots.hash_path(hasher, path);
    Content::of(path, &found, roots, digests)?.hash(hasher);
    Ok(())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests lay files")]

    use std::ffi::OsString;
    use std::fs;

    use opkeep_fs::FileKind;
    use opkeep_process::Learned;

    use super::*;
    use crate::manifest::{Listed, Old};

    /// Digests without memory.
    struct Plain;

    impl FileDigests for Plain {
        fn digest(&self, path: &Path) -> io::Result<Digest> {
            Digest::of_reader(Fs::new().open(path)?)
        }
    }

    /// A tree that lies in another directory for each test, by the name of its root.
    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new() -> Self {
            let tree = Self(tempfile::tempdir_in(Fs::new().resolved(&std::env::temp_dir())).unwrap());
            fs::create_dir_all(tree.path("list")).unwrap();
            fs::write(tree.path("tool"), "#!/bin/sh\n").unwrap();
            fs::write(tree.path("in.json"), format!("in {}/x", tree.0.path().display())).unwrap();
            fs::write(tree.path("list/a.py"), "").unwrap();
            fs::write(tree.path("list/b.py"), "").unwrap();
            tree
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn roots(&self) -> Roots {
            let roots = Roots::new([("build".to_owned(), self.0.path().to_owned())]).unwrap();
            roots.of_run(None, Path::new("/absent/work"))
        }

        fn task(&self) -> Task<'_> {
            let pair = |name: &str, value: String| (OsString::from(name), OsString::from(value));
            let tree = self.0.path().display();
            let env =
                vec![pair("CPATH", format!("{tree}/include:/usr/include")), pair("USER", "me".to_owned())];
            Task {
                tool: "opc",
                run: Invocation {
                    program: self.path("tool"),
                    args: vec!["x".into()],
                    env,
                    dir: self.path("list"),
                },
                key_args: vec![format!("--output={tree}/out").into(), "-O3".into()],
                inputs: vec![self.path("in.json")],
                work_dir: Path::new("/absent/work"),
                outputs: &|_| true,
                ignored: &|_| false,
                check: &|_| Ok(()),
                facts: ToolFacts { is_movable: true, ..ToolFacts::default() },
                exclusive: Vec::new(),
                target: "Ascend910B1".to_owned(),
                name: "add".to_owned(),
            }
        }

        fn key(&self, change: impl Fn(&mut Task<'_>, &mut Machine)) -> TaskKey {
            let mut machine = Machine { name: "x86_64".to_owned(), umask: 0o022 };
            let mut task = self.task();
            change(&mut task, &mut machine);
            TaskKey::of(&task, &self.roots(), &[], &machine, &Plain).unwrap()
        }

        fn result(&self, manifest: &Manifest) -> Option<FileKey> {
            let (task, roots) = (self.task(), self.roots());
            self.key(|_, _| {}).result(manifest, &States::new(&task, &roots, &Plain))
        }
    }

    fn manifest() -> Manifest {
        let name = |rest: &str| crate::roots::PathName { root: "build".to_owned(), rest: rest.into() };
        let listed = Listed { dir: name("list"), by_python: true, ignored: Vec::new() };
        Manifest {
            has_real_paths: false,
            paths: vec![name("absent/file"), name("in.json"), name("list"), name("tool")],
            listed: vec![listed],
            old: vec![
                Old { path: name("list/out"), learned: Learned::Mode(0o644) },
                Old { path: name("list/sub"), learned: Learned::State },
            ],
        }
    }

    /// A change here misses everything that is stored: it needs another schema, and a line in the list of changes.
    #[test]
    fn keys_stay_what_they_are() {
        let tree = Tree::new();
        assert_eq!(tree.key(|_, _| {}).0.to_string(), GOLDEN_TASK);
        assert_eq!(tree.result(&manifest()).unwrap().key.to_string(), GOLDEN_RESULT);
        assert_eq!(tree.key(|_, _| {}).manifest(3).name, "manifest 3");
    }

    const GOLDEN_TASK: &str = "0a7d7a3064641854b704a436e3344112a6f6559b5014455b0185af0a7623d7c9";
    const GOLDEN_RESULT: &str = "27636cd8186e8a9ad437af34e67f01c05dcba22c14ff8e5bf564eec72b0120df";

    #[test]
    fn each_part_of_a_task_counts() {
        let tree = Tree::new();
        let before = tree.key(|_, _| {});
        type Change = fn(&mut Task<'_>, &mut Machine);
        let changes: [Change; 12] = [
            |task, _| task.tool = "bisheng",
            |task, _| task.target.push('2'),
            |task, _| task.key_args.swap(0, 1),
            |task, _| task.key_args.push(OsString::new()),
            |task, _| task.run.dir.push("deeper"),
            |task, _| task.run.env[0].1.push("/x"),
            |task, _| task.run.env[0].0 = "C_INCLUDE_PATH".into(),
            |task, _| task.inputs.clear(),
            |task, _| task.facts.is_movable = false,
            |task, _| task.run.program = "/bin/sh".into(),
            |_, machine| machine.name.push('2'),
            |_, machine| machine.umask = 0o077,
        ];
        for (number, change) in changes.into_iter().enumerate() {
            assert_ne!(tree.key(change), before, "change {number}");
        }
        let inert: [Change; 4] = [
            |task, _| task.run.args.clear(),
            |task, _| task.run.env[1].1 = "2".into(),
            |task, _| task.run.env.swap(0, 1),
            |task, _| task.name.clear(),
        ];
        for (number, change) in inert.into_iter().enumerate() {
            assert_eq!(tree.key(change), before, "change {number}");
        }
    }

    #[test]
    fn each_state_counts() {
        let tree = Tree::new();
        let before = tree.result(&manifest()).unwrap();
        type Change = fn(&Tree);
        let changes: [Change; 9] = [
            |tree| {
                fs::write(tree.path("list/out"), "")
                    .and_then(|()| Fs::new().set_mode(&tree.path("list/out"), 0o600))
                    .unwrap()
            },
            |tree| fs::create_dir(tree.path("list/sub")).unwrap(),
            |tree| fs::write(tree.path("tool"), "#!/bin/bash\n").unwrap(),
            |tree| fs::write(tree.path("in.json"), "in /elsewhere/x").unwrap(),
            |tree| {
                fs::create_dir(tree.path("absent")).unwrap();
                fs::write(tree.path("absent/file"), "").unwrap();
            },
            |tree| fs::remove_file(tree.path("list/a.py")).unwrap(),
            |tree| fs::write(tree.path("list/a"), "").unwrap(),
            |tree| crate::key::tests::execute(&tree.path("tool")),
            |tree| {
                fs::rename(tree.path("tool"), tree.path("moved")).unwrap();
                std::os::unix::fs::symlink("moved", tree.path("tool")).unwrap();
            },
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let tree = Tree::new();
            assert_eq!(tree.result(&manifest()).unwrap(), before, "the tree lies elsewhere");
            change(&tree);
            assert_ne!(tree.result(&manifest()).unwrap(), before, "change {number}");
        }
        // Python keeps its compiled modules there; a file of this name is none of them.
        fs::create_dir(tree.path("list/__pycache__")).unwrap();
        assert_eq!(tree.result(&manifest()).unwrap(), before);
        fs::remove_dir(tree.path("list/__pycache__")).unwrap();
        fs::write(tree.path("list/__pycache__"), "").unwrap();
        assert_ne!(tree.result(&manifest()).unwrap(), before);
        // Real paths count if the manifest says so.
        let real = Manifest { has_real_paths: true, ..manifest() };
        assert_ne!(tree.result(&real).unwrap(), Tree::new().result(&real).unwrap());
        // A root that is not declared here, and a directory that is not there.
        let mut other = manifest();
        other.paths[0].root = "source".to_owned();
        assert_eq!(tree.result(&other), None);
        fs::remove_dir_all(tree.path("list")).unwrap();
        assert_eq!(tree.result(&manifest()), None);
    }

    fn execute(path: &Path) {
        Fs::new().set_mode(path, 0o755).unwrap();
        assert_eq!(Fs::new().look(path).unwrap().kind, FileKind::File);
    }
}
