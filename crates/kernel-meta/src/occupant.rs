//! The occupant of a kernel's name, and the decision about it. [`decide`](crate::decide) decides about the directory as a
//! whole, [`ForeignFiles`] reports whether a foreign file is damaged, and `publish.rs` carries the decisions out.
//!
//! An occupant is one of these:
//!
//! - nothing: the file is written;
//! - ours: the manifest has its digest, or the caller's store has the kernel; how it looks does not count;
//! - right: equal to the file that is to be written, and not ours: it is *adopted*;
//! - damaged: it goes to quarantine first;
//! - foreign: it is left, or with the caller's permission goes to quarantine first.

use opkeep_digest::Digest;
use opkeep_fs::FileState;

use crate::compare::same_json;
use crate::foreign_files::ForeignFiles;
use crate::manifest::{Known, Manifest, Record};
use crate::stored::{StoredKernels, stored_digests};
use crate::view_dir::{NameEntry, ViewDir};
use crate::{KernelFileKind, KernelFiles, LeftReason, ViewError};

/// The permissions of the user.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Policy {
    /// Foreign files may be replaced, and go to quarantine.
    pub(crate) replace: bool,
    /// The user did not choose the target that kernels are built for.
    pub(crate) guessed: bool,
}

/// The decision about one file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Act {
    /// It stays: its content is right. Its state is recorded if it may be trusted.
    Keep { seen: Option<FileState> },
    /// It stays: its state is the recorded one.
    Vouched,
    /// It stays, and is not ours: a descriptor.
    Theirs,
    /// It is missing, and written.
    Write,
    /// It is ours, has this digest, and is replaced.
    Replace { digest: Digest, file: FileState },
    /// It is foreign or adopted, goes to quarantine, and is replaced.
    Quarantine {
        file: FileState,
        /// The digest of an adopted file.
        adopted: Option<Digest>,
    },
}

impl Act {
    pub(crate) fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Replace { .. } | Self::Quarantine { .. })
    }
}

/// The decision about a kernel.
#[derive(Debug)]
pub(crate) enum Decision {
    /// The existing files may be kept or replaced, file by file.
    Place(Box<Placement>),
    /// Nothing is touched.
    Leave(LeftReason),
}

impl Decision {
    /// Whether a file is written.
    pub(crate) fn writes(&self) -> bool {
        matches!(self, Self::Place(placement) if placement.writes())
    }
}

impl Placement {
    /// Whether a file is written.
    pub(crate) fn writes(&self) -> bool {
        self.acts.iter().any(|act| act.writes())
    }
}

/// The decisions about the files of a kernel that may be written.
#[derive(Debug)]
pub(crate) struct Placement {
    /// By kind of file.
    pub(crate) acts: [Act; 3],
    /// The content of a right `.json` that is removed and written anew, because no reader may find it while the object is
    /// missing.
    pub(crate) json: Option<Vec<u8>>,
    /// By kind of file, whether the file existed before we wrote it.
    pub(crate) adopted: [bool; 3],
    /// Whether the existing object and description are ours.
    pub(crate) is_own: bool,
    /// The problem of the files that go to quarantine.
    pub(crate) why: String,
}

/// The state of one file.
enum State {
    Absent,
    /// The manifest vouches for it.
    Vouched,
    /// It has the wanted content.
    Right {
        seen: Option<FileState>,
        adopted: bool,
    },
    /// The view wrote it once.
    Ours {
        digest: Digest,
        file: FileState,
    },
    /// It is ours by its bytes, but another program wrote or extended it.
    Adopted {
        file: FileState,
        digest: Digest,
    },
    Foreign(FileState),
    /// It cannot be judged.
    Unjudged(LeftReason),
}

impl State {
    fn is_own(&self) -> bool {
        matches!(self, Self::Vouched | Self::Right { .. } | Self::Ours { .. } | Self::Adopted { .. })
    }

    fn is_free(&self) -> bool {
        self.is_own() || matches!(self, Self::Absent)
    }
}

/// Reads the files of a directory, and decides about them.
pub(crate) struct Looker<'a, 'm> {
    pub(crate) dir: &'a ViewDir,
    pub(crate) manifest: &'a Manifest<'m>,
    pub(crate) policy: Policy,
    /// Whether an identity may be trusted from now on.
    pub(crate) rested: &'a dyn Fn(&FileState) -> bool,
    /// Knows kernels of ours that are missing in the manifest.
    pub(crate) stored: &'a dyn StoredKernels,
    /// Judges foreign files.
    pub(crate) foreign: &'a dyn ForeignFiles,
    /// The number of files that were read.
    pub(crate) read: usize,
}

impl<'m> Looker<'_, 'm> {
    /// Decides about `kernel`.
    ///
    /// # Errors
    /// The kernel's own bytes cannot be loaded.
    pub(crate) fn decide(&mut self, kernel: &KernelFiles<'_>) -> Result<Decision, ViewError> {
        let mut state = |kind| self.state(kernel, kind);
        let mut states =
            [state(KernelFileKind::Object)?, state(KernelFileKind::Json)?, state(KernelFileKind::Info)?];
        let is_foreign = |state: &State| matches!(state, State::Foreign(_));
        if states[..2].iter().any(is_foreign) {
            let digests = match stored_digests(self.dir, kernel.stem, self.stored) {
                Ok(digests) => digests,
                Err(why) => return Ok(Decision::Leave(why)),
            };
            for (state, digest) in states.iter_mut().zip(digests.into_iter().flatten()) {
                if let State::Foreign(file) = *state {
                    *state = State::Adopted { file, digest };
                }
            }
        }
        let unjudged = |state: &State| match state {
            State::Unjudged(reason) => Some(reason.clone()),
            _ => None,
        };
        // No framework reads the descriptor, and the kernel is written beside one that cannot be judged.
        if let Some(why) = states[..2].iter().find_map(unjudged) {
            return Ok(Decision::Leave(why));
        }
        let record = self.manifest.kernels.get(kernel.stem);
        let [object, json, _] = &states;
        let mut why = String::new();
        let is_all_free = object.is_free() && json.is_free();
        if !is_all_free && !self.policy.replace {
            // A damaged kernel of ours is healed, also if it is for another chip.
            let is_ours = record.is_some() && (object.is_own() || json.is_own());
            match self.foreign.judge(&self.dir.as_dir()?, kernel, is_ours) {
                Ok(problem) => why = problem,
                Err(left) => return Ok(Decision::Leave(left)),
            }
        }
        if why.is_empty() {
            why = "a build replaced it".to_owned();
        }
        // An existing other kernel of ours is a release, unless it is recorded as one for debugging.
        let is_release = |kind: KernelFileKind, state: &State| match state {
            State::Ours { digest, .. } | State::Adopted { digest, .. } => {
                !record.is_some_and(|record| record.is_debug(kind, digest))
            }
            _ => false,
        };
        let is_whole = is_all_free && ![object, json].into_iter().any(|state| matches!(state, State::Absent));
        let has_release = is_whole
            && (is_release(KernelFileKind::Object, object) || is_release(KernelFileKind::Json, json));
        if kernel.debug && has_release && !self.policy.replace {
            return Ok(Decision::Leave(LeftReason::Release));
        }
        self.place(kernel, record, states, why)
    }

    fn place(
        &mut self,
        kernel: &KernelFiles<'_>,
        record: Option<&Record<'_>>,
        states: [State; 3],
        mut why: String,
    ) -> Result<Decision, ViewError> {
        let adopted = KernelFileKind::ALL.map(|kind| match &states[kind as usize] {
            State::Vouched => record.is_some_and(|it| it.is_adopted(kind, &it.file(kind).digest)),
            State::Right { adopted, .. } => *adopted,
            _ => false,
        });
        let mut acts = [Act::Write; 3];
        for (act, state) in acts.iter_mut().zip(&states) {
            *act = match state {
                State::Absent => Act::Write,
                State::Unjudged(_) => Act::Theirs,
                State::Vouched => Act::Vouched,
                State::Right { seen, .. } => Act::Keep { seen: *seen },
                State::Ours { digest, file } => Act::Replace { digest: *digest, file: *file },
                State::Adopted { file, digest } => Act::Quarantine { file: *file, adopted: Some(*digest) },
                State::Foreign(file) => Act::Quarantine { file: *file, adopted: None },
            };
        }
        let info = KernelFileKind::Info as usize;
        if matches!(states[info], State::Foreign(_) | State::Adopted { .. }) {
            let may = kernel.for_chip || self.policy.replace || record.is_some();
            match self.descriptor_problem(kernel.stem) {
                Some(problem) if may => {
                    why = if acts[..2].iter().any(|act| matches!(act, Act::Quarantine { .. })) {
                        why
                    } else {
                        problem
                    }
                }
                _ => acts[info] = Act::Theirs,
            }
        }
        // While the object is being replaced, no description has the kernel's name.
        let (object, json) = (acts[KernelFileKind::Object as usize], acts[KernelFileKind::Json as usize]);
        let is_own = states[..2].iter().all(State::is_free);
        let mut kept = None;
        if object.writes() && !json.writes() {
            match self.dir.read(&KernelFileKind::Json.of(kernel.stem)) {
                Ok((bytes, Some(file))) if same_json(&bytes, &kernel.load(KernelFileKind::Json)?) => {
                    acts[KernelFileKind::Json as usize] = Act::Replace { digest: Digest::of(&bytes), file };
                    kept = Some(bytes);
                }
                _ => {
                    return Ok(Decision::Leave(LeftReason::Changed {
                        file: KernelFileKind::Json.of(kernel.stem),
                    }));
                }
            }
        }
        Ok(Decision::Place(Box::new(Placement { acts, json: kept, adopted, is_own, why })))
    }

    /// The state of one of the kernel's files.
    fn state(&mut self, kernel: &KernelFiles<'_>, kind: KernelFileKind) -> Result<State, ViewError> {
        let name = kind.of(kernel.stem);
        let expected = kernel.content(kind);
        let file = match self.dir.entry(&name) {
            NameEntry::Nothing => return Ok(State::Absent),
            NameEntry::File(file) => file,
            NameEntry::Other => return Ok(State::Unjudged(LeftReason::NotAFile { file: name })),
            NameEntry::Unknown(error) => return Ok(unreadable(name, &error)),
        };
        let record = self.manifest.kernels.get(kernel.stem);
        let vouched = Known { digest: expected.digest(), seen: Some(file) };
        if record.is_some_and(|record| *record.file(kind) == vouched) {
            return Ok(State::Vouched);
        }
        if kind != KernelFileKind::Json && record.is_none() && file.len != expected.byte_len() {
            return Ok(State::Foreign(file));
        }
        self.read += 1;
        let (read, bytes) = match kind {
            KernelFileKind::Json => match self.dir.read(&name) {
                Ok((bytes, seen)) => (Ok((Digest::of(&bytes), seen)), bytes),
                Err(error) => (Err(error), Vec::new()),
            },
            _ => (self.dir.digest(&name), Vec::new()),
        };
        let (digest, seen) = match read {
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(State::Absent),
            Err(error) => return Ok(unreadable(name, &error)),
        };
        let recorded = record.is_some_and(|record| record.wrote(kind, &digest));
        let is_json = kind == KernelFileKind::Json;
        if digest == expected.digest() || is_json && same_json(&bytes, &kernel.load(kind)?) {
            // A description of ours stays ours if MindSpore extended it.
            let recorded = recorded || is_json && record.is_some();
            // A file that equals ours, and that we did not write, is not ours to remove.
            let adopted = !recorded || record.is_some_and(|record| record.is_adopted(kind, &digest));
            return Ok(State::Right { seen: seen.filter(|file| (self.rested)(file)), adopted });
        }
        let is_extended = is_json && record.is_some_and(|record| record.is_extended(&bytes));
        let Some(seen) = seen else { return Ok(State::Unjudged(LeftReason::Changed { file: name })) };
        Ok(match recorded {
            true if record.is_some_and(|record| record.is_adopted(kind, &digest)) => {
                State::Adopted { file: seen, digest }
            }
            true => State::Ours { digest, file: seen },
            false if is_extended => State::Adopted { file: seen, digest },
            false => State::Foreign(seen),
        })
    }

    /// The problem of a foreign descriptor.
    fn descriptor_problem(&self, stem: &str) -> Option<String> {
        let (bytes, _) = self.dir.read(&KernelFileKind::Info.of(stem)).ok()?;
        self.foreign.descriptor_problem(&bytes)
    }
}

fn unreadable(file: String, error: &std::io::Error) -> State {
    State::Unjudged(LeftReason::Unreadable { file, problem: error.to_string() })
}
