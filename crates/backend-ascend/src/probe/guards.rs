//! The guards that keep a compile from reading files that its key does not cover.

use std::fmt;

use opkeep_process::Domain;
use serde::{Deserialize, Serialize};

/// The guards of compiles on this host. If both are available, both are used: the observer names the paths that
/// Landlock denies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Guards {
    /// Why Landlock does not deny other reads; None if it does.
    pub(crate) without_landlock: Option<String>,
    /// Why reads are not observed; None if they are.
    pub(crate) without_observer: Option<String>,
}

impl Guards {
    pub(crate) fn confines(&self) -> bool {
        self.without_landlock.is_none()
    }

    pub(crate) fn observes(&self) -> bool {
        self.without_observer.is_none()
    }

    /// The reason if no kernel may be kept.
    pub(crate) fn unkept(&self) -> Option<String> {
        match self {
            Self { without_landlock: Some(landlock), without_observer: Some(observer) } => {
                Some(format!("{landlock}; {observer}"))
            }
            _ => None,
        }
    }

    /// No guards, for this reason.
    pub(crate) fn none(why: &str) -> Self {
        Self { without_landlock: Some(why.to_owned()), without_observer: Some(why.to_owned()) }
    }

    /// The same guards without Landlock.
    pub(crate) fn only_observing(&self) -> Self {
        let why = Some("a compile reads files that it made outside its work directory".to_owned());
        Self { without_landlock: why, ..self.clone() }
    }
}

/// Whether this system has Landlock; the error is the reason if not.
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
