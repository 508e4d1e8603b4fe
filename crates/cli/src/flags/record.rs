//! Arguments about the records that builds make of themselves.

use clap::ValueEnum;

/// Whether something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

/// The records of builds, from which reports are made.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct RecordArgs {
    /// Whether the store gets a record of the build
    ///
    /// `opkeep report` shows the records: when a build ran, on which host, the file name of the model, and of each kernel
    /// that was not in the store its operator, name, key, outcome and times. The store keeps 200 of them, at most 8 MiB
    /// [default: $OPKEEP_BUILD_RECORDS, if unset on]
    #[arg(long, value_name = "on|off", hide_possible_values = true)]
    pub(crate) build_records: Option<Switch>,
}
