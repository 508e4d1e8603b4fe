//! The result of a probe, as later processes read it.

use std::fmt;
use std::path::PathBuf;

use opkeep_digest::Digest;
use opkeep_process::Inputs;
use serde::{Deserialize, Serialize};

use super::hex;
use super::looks::Looks;

/// By what it is known that a kernel read nothing but what its key covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Means {
    /// The kernel denies all else.
    Landlock,
    /// Each compile is observed.
    Observation,
    /// Compiler and linker say what they read.
    Dependencies,
    /// By nothing: no kernel is kept.
    None,
}

impl fmt::Display for Means {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Landlock => "confined by Landlock",
            Self::Observation => "observed by seccomp",
            Self::Dependencies => "checked by dependency files",
            Self::None => "not kept",
        })
    }
}

/// The steps that compiled one of the small sources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Steps {
    /// The programs and their arguments, less paths.
    pub(crate) resolved: String,
    /// The files that were read and count.
    pub(crate) read: Vec<Read>,
    /// The order in which they were read, and by which program.
    #[serde(with = "hex::required")]
    pub(crate) order: Digest,
    /// The files that programs left for each other, unless they differ each time.
    #[serde(with = "hex::optional")]
    pub(crate) intermediate: Option<Digest>,
    /// The paths that programs only looked at and their state, if there is a wrapper.
    pub(crate) looks: Option<Looks>,
    /// The object, unless that is another each time.
    #[serde(with = "hex::optional")]
    pub(crate) object: Option<Digest>,
}

/// A file that was read, under a name without its path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Read {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

impl Steps {
    /// These steps less what another run of the same came to otherwise.
    ///
    /// # Errors
    /// The steps themselves are others: where they differ first.
    pub(crate) fn steady_with(self, other: &Self) -> Result<Self, String> {
        if self.resolved != other.resolved || self.order != other.order {
            let words = self.resolved.split(' ').zip(other.resolved.split(' '));
            let differing = words.into_iter().find(|(one, other)| one != other);
            let what = differing.map(|(one, other)| format!(": `{one}`, and then `{other}`"));
            return Err(format!("the compiler takes other steps each time{}", what.unwrap_or_default()));
        }
        let (looks, others) = (self.looks.as_ref(), other.looks.as_ref());
        // The paths may differ by directories on the way to a file, which are in no digest.
        if looks.map(Looks::digest) != others.map(Looks::digest) {
            let what = looks.zip(others).and_then(|(one, other)| one.differing(other));
            let what = what.map(|path| format!(": `{}`", path.display())).unwrap_or_default();
            return Err(format!("what the compiler looks at is another each time{what}"));
        }
        Ok(Self {
            intermediate: self.intermediate.filter(|found| Some(*found) == other.intermediate),
            object: self.object.filter(|found| Some(*found) == other.object),
            ..self
        })
    }
}

/// A compiler that was asked and probed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Such as `gcc version 12.2.0 (Debian 12.2.0-14)`.
    pub(crate) version: String,
    pub(crate) triple: String,
    /// All flags but input, output and libraries.
    pub(crate) flags: Vec<String>,
    /// The output of a dry run without paths.
    #[serde(with = "hex::required")]
    pub(crate) shown: Digest,
    pub(crate) probed: Probed,
}

/// The result of a probe.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Probed {
    pub(crate) inputs: Inputs,
    pub(crate) plain: Steps,
    pub(crate) libm: Steps,
    pub(crate) means: Means,
    /// Why it is not the first of the means.
    pub(crate) why: Option<String>,
    /// The compiler's output in a successful run.
    pub(crate) says: String,
    /// Whether a script or another program runs the compiler: what it does may depend on what is in no file, and on
    /// whether files are there.
    pub(crate) is_wrapped: bool,
    /// Why no kernel may be kept, if so.
    pub(crate) unkept: Option<String>,
}

/// A record is the digest of its text and the text: a torn one is none.
impl Record {
    /// None if a path in it is not UTF-8, or what it says holds for one process only.
    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        // Without an observer nothing is known of files that may appear.
        if self.probed.unkept.is_some() || self.probed.inputs.looked_at() == 0 {
            return None;
        }
        let text = serde_json::to_string(self).ok()?;
        Some(format!("{}\n{text}", Digest::of(text.as_bytes())).into_bytes())
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (digest, text) = std::str::from_utf8(bytes).ok()?.split_once('\n')?;
        if digest.parse::<Digest>().ok()? != Digest::of(text.as_bytes()) {
            return None;
        }
        serde_json::from_str(text).ok()
    }
}
