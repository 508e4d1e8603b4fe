//! The interface to the user and to the environment.
//!
//! The command prints nothing but a [`text::Text`]: each line is escaped as a whole when it is added, so that a name
//! from a model, a file or a compiler can neither begin a line nor control the terminal, and no print has to remember
//! that. Logs keep their lines behind a mark. Libraries return names as they are, and JSON has them so, escaped as JSON
//! escapes. [`output::Output`] collects warnings for the JSON result.
//!
//! A write beyond `ulimit -f` is an I/O error, as on a full disk: SIGXFSZ has a handler ([`file_limit`]), which `exec`
//! removes for compilers.

pub(crate) mod env;
pub(crate) mod file_limit;
pub(crate) mod hints;
pub(crate) mod interrupt;
pub(crate) mod json;
pub(crate) mod output;
pub(crate) mod progress;
pub(crate) mod registry;
pub(crate) mod text;
