//! By what it is known that a compile reads nothing but what its key covers.

use std::fmt;

use opkeep_process::Domain;
use serde::{Deserialize, Serialize};

/// The means on this host that confine compiles to the files that they may read. If both are there, both are used: a
/// path that Landlock denies is then reported by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Guards {
    /// Why the kernel does not deny all else; None if it does.
    pub(crate) without_landlock: Option<String>,
    /// Why it is not observed what is read; None if it is.
    pub(crate) without_observer: Option<String>,
}

impl Guards {
    pub(crate) fn confines(&self) -> bool {
        self.without_landlock.is_none()
    }

    pub(crate) fn observes(&self) -> bool {
        self.without_observer.is_none()
    }

    /// Why no kernel may be kept, if so.
    pub(crate) fn unkept(&self) -> Option<String> {
        match self {
            Self { without_landlock: Some(landlock), without_observer: Some(observer) } => {
                Some(format!("{landlock}; {observer}"))
            }
            _ => None,
        }
    }

    /// No means, for this reason.
    pub(crate) fn none(why: &str) -> Self {
        Self { without_landlock: Some(why.to_owned()), without_observer: Some(why.to_owned()) }
    }

    /// The same means less Landlock.
    pub(crate) fn only_observing(&self) -> Self {
        let why = Some("a compile reads files that it made outside its work directory".to_owned());
        Self { without_landlock: why, ..self.clone() }
    }
}

/// Whether this kernel has Landlock; else why not.
pub(crate) fn landlock() -> Result<(), String> {
    Domain::builder().map(drop).map_err(|error| error.to_string())
}

impl fmt::Display for Guards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.without_landlock, &self.without_observer) {
            (None, None) => f.write_str("confined by Landlock and observed by seccomp"),
            (None, Some(why)) => write!(f, "confined by Landlock ({why})"),
            (Some(why), None) => write!(f, "observed by seccomp ({why})"),
            (Some(landlock), Some(observer)) => write!(f, "not kept ({landlock}; {observer})"),
        }
    }
}
