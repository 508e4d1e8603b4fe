//! What the crates do, event by event, on stderr: for `-vv` and `OPKEEP_LOG`.

/// Prints events from now on: those that `filter` selects, otherwise those for `-vv` if `is_very_verbose`. Returns whether there are any.
///
/// # Errors
/// `filter` is no filter, for people.
#[cfg(feature = "tracing")]
pub(crate) fn start(filter: Option<&str>, is_very_verbose: bool) -> Result<bool, String> {
    use tracing_subscriber::filter::Targets;
    use tracing_subscriber::fmt::{layer, time};
    use tracing_subscriber::prelude::*;

    let Some(filter) = filter.or_else(|| is_very_verbose.then_some("opkeep=debug")) else { return Ok(false) };
    let targets: Targets = filter.parse().map_err(|error| format!("{error}"))?;
    let lines = layer().with_ansi(false).with_timer(time::uptime()).with_writer(|| lines::Lines);
    // Another subscriber stays: a process has one.
    Ok(tracing_subscriber::registry().with(lines.with_filter(targets)).try_init().is_ok())
}

/// Returns an error if events are asked for.
///
/// # Errors
/// As stated.
#[cfg(not(feature = "tracing"))]
pub(crate) fn start(filter: Option<&str>, _is_very_verbose: bool) -> Result<bool, String> {
    filter.map_or(Ok(false), |_| Err("this command is built without the feature `tracing`".to_owned()))
}

#[cfg(feature = "tracing")]
mod lines {
    use std::io::{self, Write};

    use crate::ui::text::one_line;

    /// Writes each event as one line of printable characters: values may be names of files.
    pub(super) struct Lines;

    impl Write for Lines {
        fn write(&mut self, event: &[u8]) -> io::Result<usize> {
            let line = one_line(String::from_utf8_lossy(event).trim_end());
            writeln!(io::stderr().lock(), "{line}")?;
            Ok(event.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
}
