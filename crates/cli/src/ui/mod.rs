//! The interface to the user and to the environment.
//!
//! The command prints only [`text::Text`]: each line is escaped as a whole when it is added, so that a name from a
//! model, a file or a compiler can neither begin a line nor control the terminal, and no caller has to escape it. The
//! lines of logs are printed with a mark before them. Libraries return names unchanged, and JSON results contain them
//! unchanged, with JSON's own escapes. [`output::Output`] collects warnings for the JSON result.
//!
//! A write beyond `ulimit -f` is an I/O error, as on a full disk: SIGXFSZ has a handler ([`file_limit`]), which `exec`
//! removes for compilers.

pub(crate) mod caller;
pub(crate) mod causes;
pub(crate) mod config;
pub(crate) mod env;
pub(crate) mod error_report;
pub(crate) mod file_limit;
pub(crate) mod help;
pub(crate) mod hints;
pub(crate) mod interrupt;
pub(crate) mod json;
pub(crate) mod logged;
pub(crate) mod nearest;
pub(crate) mod output;
pub(crate) mod progress;
pub(crate) mod registry;
pub(crate) mod text;
pub(crate) mod trace;
pub(crate) mod version;
pub(crate) mod wrap;
