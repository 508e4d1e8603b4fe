//! CANN's `op_debug_config` file, which selects the operators to be compiled for debugging.
//!
//! ```text
//! # memory checks for two operators
//! op_debug_config=oom,ccec_g
//! op_debug_list=conv1,OpType::MatMulV2
//! ```
//!
//! Without the second line, every operator is compiled for debugging. A first line without words turns debugging off,
//! as in CANN.
//!
//! As the vendor documents, operators that are not in the list use the cache as usual. The backend interprets the words
//! of the first line.

use std::collections::BTreeSet;
use std::str::FromStr;

use thiserror::Error;

use crate::Request;

const CONFIG: &str = "op_debug_config";
const LIST: &str = "op_debug_list";

/// Debug options, and the operators to which they apply.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DebugConfig {
    /// The words of `op_debug_config`, such as `oom`. If there are none, nothing is compiled for debugging, even if a
    /// descriptor has debug options.
    pub options: Vec<String>,
    /// The items of `op_debug_list`, if there is one: node names, and operator types as `OpType::Type`.
    pub operators: Option<Vec<String>>,
}

/// The reason why an `op_debug_config` file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DebugConfigError {
    /// A line is neither a setting nor a comment.
    #[error(
        "line {line}: expected `op_debug_config=...`, `op_debug_list=...` or a comment with `#`, found `{found}`"
    )]
    Line {
        /// The number of the line, from 1.
        line: usize,
        /// The line.
        found: String,
    },
    /// The list of a line is empty or has an empty item.
    #[error("line {line}: `{name}` has an empty item; expected words with commas between them")]
    Empty {
        /// The number of the line, from 1.
        line: usize,
        /// The name of the setting.
        name: &'static str,
    },
    /// A setting is given twice. The second line does not replace the first.
    #[error("line {line}: `{name}` is given twice; expected one line with all of it")]
    Twice {
        /// The number of the second line, from 1.
        line: usize,
        /// The name of the setting.
        name: &'static str,
    },
    /// There is no line `op_debug_config`.
    #[error("there is no line `op_debug_config=...`, such as `op_debug_config=oom`")]
    NoOptions,
}

impl FromStr for DebugConfig {
    type Err = DebugConfigError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (mut options, mut operators) = (None, None);
        for (line, content) in (1..).zip(text.lines()) {
            let content = content.trim();
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            let unknown = || DebugConfigError::Line { line, found: content.chars().take(80).collect() };
            let (name, value) = content.split_once('=').ok_or_else(unknown)?;
            let (name, place) = match name.trim() {
                CONFIG => (CONFIG, &mut options),
                LIST => (LIST, &mut operators),
                _ => return Err(unknown()),
            };
            let items: Vec<String> = match value.trim() {
                // An empty value turns debugging off, as in CANN.
                "" if name == CONFIG => Vec::new(),
                value => value.split(',').map(|item| item.trim().to_owned()).collect(),
            };
            if items.iter().any(String::is_empty) {
                return Err(DebugConfigError::Empty { line, name });
            }
            if place.replace(items).is_some() {
                return Err(DebugConfigError::Twice { line, name });
            }
        }
        Ok(Self { options: options.ok_or(DebugConfigError::NoOptions)?, operators })
    }
}

impl DebugConfig {
    /// These options for all operators.
    pub fn new(options: Vec<String>) -> Self {
        Self { options, operators: None }
    }

    /// Sets the options on the selected requests. Returns the items of the list that select no request.
    ///
    /// Requests are selected before equal jobs are merged into one kernel: of two equal nodes, one may be compiled for
    /// debugging and the other not.
    pub fn set_on(&self, requests: &mut [Request]) -> Vec<String> {
        let mut unused: BTreeSet<&str> =
            opkeep_order::set(self.operators.iter().flatten().map(String::as_str));
        for request in requests {
            let meant: Vec<&String> =
                self.operators.iter().flatten().filter(|item| names(item, request)).collect();
            for item in &meant {
                unused.remove(item.as_str());
            }
            if self.operators.is_none() || !meant.is_empty() {
                request.spec.options.insert(CONFIG.to_owned(), self.options.join(",").into());
            }
        }
        unused.into_iter().map(str::to_owned).collect()
    }
}

/// Whether an item of the list selects the operator of `request`, or an operator that is fused into it.
fn names(item: &str, request: &Request) -> bool {
    let descriptor = &request.descriptor;
    match item.strip_prefix("OpType::") {
        Some(op_type) => descriptor.job.ops.iter().any(|op| op.op_type == op_type),
        None => {
            let labels = descriptor.envelope.ops.iter().map(|op| op.name.as_str());
            labels.chain([descriptor.envelope.full_name.as_str()]).any(|name| name == item)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read() {
        let read = |text: &str| text.parse::<DebugConfig>();
        let config =
            read("# comment\r\n\n op_debug_config = oom , ccec_g \r\nop_debug_list=a/b,OpType::Add\n")
                .unwrap();
        assert_eq!(config.options, ["oom", "ccec_g"]);
        assert_eq!(config.operators.unwrap(), ["a/b", "OpType::Add"]);
        assert_eq!(read("op_debug_config=oom").unwrap().operators, None);

        let wrong = |text: &str| read(text).unwrap_err();
        assert_eq!(wrong(""), DebugConfigError::NoOptions);
        assert_eq!(wrong("op_debug_list=a"), DebugConfigError::NoOptions);
        for off in ["op_debug_config=", "op_debug_config = \t\r\n"] {
            assert_eq!(read(off).unwrap(), DebugConfig::new(Vec::new()));
        }
        assert_eq!(wrong("\nop_debug_config=,"), DebugConfigError::Empty { line: 2, name: CONFIG });
        assert_eq!(
            wrong("op_debug_config=oom\nop_debug_list=a,,b"),
            DebugConfigError::Empty { line: 2, name: LIST }
        );
        assert_eq!(
            wrong("op_debug_config=a\nop_debug_config=b"),
            DebugConfigError::Twice { line: 2, name: CONFIG }
        );
        for line in ["oom", "op_debug=oom", "[section]"] {
            assert_eq!(wrong(line), DebugConfigError::Line { line: 1, found: line.to_owned() });
        }
    }
}
