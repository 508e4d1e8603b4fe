//! Arguments about the records that builds make of themselves.

use clap::ValueEnum;

use crate::config::Settings;
use crate::config::checks::switch;
use crate::config::table::BUILD_RECORDS;

/// Whether something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

/// The records of builds, from which reports are made.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct RecordArgs {
    /// Whether the store gets a record of the build
    ///
    /// `opkeep report` shows the records: when a build ran, on which host, the file name of the model, and of each kernel
    /// that was not in the store its operator, name, key, outcome and times. The store keeps 200 of them, at most 8 MiB
    /// [default: $OPKEEP_BUILD_RECORDS, if unset on]
    #[arg(long, value_name = "on|off", hide_possible_values = true)]
    build_records: Option<Switch>,
    #[command(flatten)]
    config: Settings,
}

impl RecordArgs {
    /// Whether the store gets a record of the build.
    pub(crate) fn are_stored(&self) -> bool {
        let given = self.build_records.map(|switch| switch == Switch::On);
        given.or_else(|| self.config.parsed(&BUILD_RECORDS, switch)).unwrap_or(true)
    }
}
