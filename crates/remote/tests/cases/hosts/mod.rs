//! Hosts that share a cache: processes with stores of their own on one server, through faults of all of them.

#![expect(clippy::disallowed_methods, reason = "hosts are processes that report through a file")]
#![expect(clippy::print_stdout, reason = "what was counted is worth seeing")]

mod clocks;
mod cut;
mod host;
mod kills;
mod local;
mod outages;

use libtest_mimic::Trial;

pub(crate) use host::{CHILD, other_process};

pub(crate) fn trials() -> Vec<Trial> {
    [clocks::trials(), cut::trials(), kills::trials(), local::trials(), outages::trials()]
        .into_iter()
        .flatten()
        .collect()
}
