//! What an entry of the store says of its kernel: one answer for all commands.

use clap::ValueEnum;
use opkeep_kernel_entry::member::{GROUP, HEADER};
use opkeep_kernel_entry::{GroupRecord, Header};
use opkeep_store::OpenEntry;
use serde::Serialize;
use serde_json::Value;

/// What is shown in place of an operator that an entry does not state.
pub(crate) const UNNAMED: &str = "(unnamed)";

/// Where an entry came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    Compiled,
    Imported,
    Group,
    Unknown,
}

/// The kernel of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredKernel {
    /// Its name; of a group, the framework's name for it. Empty if the entry states none.
    pub(crate) name: String,
    /// The types of its operators, joined by `+`. Empty for a group.
    pub(crate) op_type: String,
    /// The framework whose files the entry has; `None` for a kernel that opkeep compiled or imported.
    pub(crate) framework: Option<String>,
    pub(crate) state: State,
}

impl StoredKernel {
    /// Reads the record or the header of an entry.
    pub(crate) fn of(entry: &OpenEntry<'_>) -> Self {
        let member = |name: &str| entry.read_member(name).ok().flatten();
        match member(GROUP).and_then(|record| GroupRecord::parse(&record)) {
            Some(record) => Self {
                name: record.kernel_or_name().to_owned(),
                op_type: String::new(),
                framework: Some(record.key.framework).filter(|name| !name.is_empty()),
                state: State::Group,
            },
            None => Self::of_header(member(HEADER).as_deref().unwrap_or_default()),
        }
    }

    /// Reads the header of a kernel of opkeep.
    fn of_header(header: &[u8]) -> Self {
        let of = |name: String, op_type: String, state| Self { name, op_type, framework: None, state };
        if let Some(header) = Header::parse(header) {
            return of(header.name, header.op_type, State::Compiled);
        }
        // The header of an imported kernel states no toolchain.
        let header: Value = serde_json::from_slice(header).unwrap_or_default();
        let text = |name: &str| header[name].as_str().unwrap_or_default().to_owned();
        let is_imported = header["provenance"] == "imported";
        let state = if is_imported { State::Imported } else { State::Unknown };
        of(text("name"), text("op_type"), state)
    }

    /// Returns the name of the framework; `opkeep` for its own kernels.
    pub(crate) fn framework(&self) -> &str {
        self.framework.as_deref().unwrap_or("opkeep")
    }

    /// Returns the types of the operators; of a group, the framework's name for the kernel. `None` if the entry states neither.
    pub(crate) fn operator(&self) -> Option<&str> {
        let name = if self.state == State::Group { &self.name } else { &self.op_type };
        Some(name.as_str()).filter(|name| !name.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_state_is_guessed() {
        for (header, expected) in [
            (r#"{"name":"a","provenance":"imported"}"#, State::Imported),
            (r#"{"name":"a","provenance":"compiled"}"#, State::Unknown),
            (r#"{"name":"a"}"#, State::Unknown),
            ("[]", State::Unknown),
            ("", State::Unknown),
        ] {
            assert_eq!(StoredKernel::of_header(header.as_bytes()).state, expected, "{header}");
        }
    }

    #[test]
    fn the_operator_of_each_kind_of_header_is_known() {
        for (header, expected) in [
            (r#"{"name":"a","op_type":"Add","provenance":"imported"}"#, Some("Add")),
            (r#"{"name":"a","op_type":"Add+Relu"}"#, Some("Add+Relu")),
            (r#"{"name":"a"}"#, None),
        ] {
            assert_eq!(StoredKernel::of_header(header.as_bytes()).operator(), expected, "{header}");
        }
    }
}
