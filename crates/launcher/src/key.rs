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
use crate::task::{Invocation, Task};

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
        // outputs are expected follows from the tool and its arguments; the name is for reports.
        let Task {
            tool,
            run,
            key_args,
            inputs,
            work_dir: _,
            outputs: _,
            ignored: _,
            shows_paths,
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
        environment::hash(&mut hasher, env, dir, roots, inert);
        hasher.list(inputs.len());
        for input in inputs {
            hash_file(&mut hasher, input, roots, digests).map_err(|_| input.clone())?;
        }
        hasher.bool(*shows_paths);
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
