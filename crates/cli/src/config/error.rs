//! The errors of the configuration.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;

use super::owner::trusting;
use super::value::Place;
use crate::ui::text::quoted_path;

/// A setting, or a file of settings, is not valid. No text has a password or a secret key.
#[derive(Clone, Debug, Error)]
pub(crate) enum ConfigError {
    #[error("cannot read `{}`", file.display())]
    Unreadable { file: PathBuf, source: Arc<io::Error> },
    #[error("`{}` is not UTF-8", file.display())]
    NotUtf8 { file: PathBuf },
    #[error("`{}`: {problem}", file.display())]
    NotOwn { file: PathBuf, problem: String, help: String },
    #[error("{place}: {problem}")]
    Syntax { place: Place, problem: String },
    #[error("{place}: unknown section `{name}`; expected one of {known}")]
    UnknownSection { place: Place, name: String, nearest: Option<&'static str>, known: String },
    #[error("{place}: unknown key `{name}`{in_section}")]
    UnknownKey { place: Place, name: String, in_section: String, help: Option<String> },
    #[error("{place}: `{name}` is a section; expected `[{name}]` and keys below it")]
    NotASection { place: Place, name: &'static str },
    #[error("invalid value '{value}' for '{key}' at {place}: {problem}")]
    Value { key: &'static str, value: String, place: Place, problem: String },
    #[error("invalid value '{value}' for '{variable}': {problem}")]
    Variable { variable: &'static str, value: String, problem: String },
    #[error(
        "{place}: `{key}` decides which code runs or what is deleted, and `{}` is not a trusted project", dir.display()
    )]
    NotTrusted { key: &'static str, place: Place, dir: PathBuf },
    #[error("{place}: `{key}` may not be in the file of a project")]
    NotInProjects { key: &'static str, place: Place },
    #[error(
        "`{key}` at {place} is not used: it is for the server that this file names, and the URL is from {url}"
    )]
    OtherServer { key: &'static str, variable: &'static str, place: Place, url: String },
    #[error("{place}: the URL has a password, and other users can read the file (mode {mode:04o})")]
    Readable { place: Place, mode: u32 },
}

impl ConfigError {
    /// Returns what can be done about it.
    pub(crate) fn help(&self) -> Option<String> {
        match self {
            Self::UnknownSection { nearest: Some(nearest), .. } => {
                Some(format!("did you mean `[{nearest}]`?"))
            }
            Self::UnknownKey { help, .. } => help.clone(),
            Self::NotOwn { help, .. } => Some(help.clone()),
            Self::NotTrusted { dir, .. } => {
                Some(format!("if you trust all who can change that file, {}", trusting(dir)))
            }
            Self::OtherServer { variable, place, .. } => Some(format!(
                "if it is for that server, set `remote.url` to the same URL in `{}`; {variable}=FILE names one for this \
                 server; --config /dev/null reads no file",
                place.file.display()
            )),
            Self::Readable { place, .. } => Some(format!(
                "`chmod 600 {}` ends the access of other users; a variable, OPKEEP_REMOTE, is the alternative",
                quoted_path(&place.file)
            )),
            _ => None,
        }
    }
}
