//! `opkeep remote check`: what an engine really does.

mod rows;

use std::num::NonZeroUsize;

use anyhow::Context;
use opkeep_cache::RemoteError;
use opkeep_remote::check::{
    Access, CHECK_CLIENTS, CheckError, CheckOptions, CheckReport, LeaseUse, Race, check,
};
use serde::Serialize;

use self::rows::{Row, rows};
use crate::commands::remote::contents::{RemoteUrl, unnamed};
use crate::flags::trust::TrustArgs;
use crate::ui::json::Milliseconds;
use crate::ui::output::{ExitStatus, Output};
use crate::ui::text::{Text, one_line, padding};
use crate::ui::wrap::{headed, terminal_width};

/// The details of check.
const DETAILS: &str = "\
Several clients, each with a connection of its own, store objects, claim the same leases at the same
moment, and renew and release each other's. A line says what the server does, and what that means
for a build. All is below v1/check/ or, with a namespace, below v1/NAMESPACE/check-, with 16 random
digits, and is deleted at the end; what a killed check leaves, remote gc deletes after an hour.
Credentials that reach one namespace only need that one. The check takes some seconds, and up to a
minute if the server is slow.

With the default number of clients, the check stores 260 KiB in small objects, and needs less than 2
MiB of a Redis server's memory for them. Then it stores one larger object after another: up to 32
MiB if the server has no limit; if it has one, of a size that needs an eighth of its free space at
most; and up to 1 MiB if it does not state its space. So it evicts nothing of other programs, unless
the server is full already.

A lease saves work and is never needed for a correct result: without exclusive creates, or if
several clients get the same one, several hosts may compile the same kernel.

Exit code 0: builds can use it, if only for reading; 1: it answers, and what is stored does not come
back; 2: it cannot be reached, refuses these credentials, or URL is not valid.

Examples:
  opkeep remote check redis://HOST
    checks a Redis server
  opkeep remote check file:///shared/opkeep --remote-namespace team
    checks the part of one team in a shared directory";

/// Check what an engine really does, with several clients at once
#[derive(Debug, clap::Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct Args {
    #[command(flatten)]
    remote: RemoteUrl,
    /// The number of clients that claim the same lease at once: 2 to 256
    #[arg(long, value_name = "N", default_value = "16", value_parser = clients)]
    clients: usize,
    /// The number of leases that they claim
    ///
    /// After 10 s they claim no more.
    #[arg(long, value_name = "N", default_value = "20")]
    rounds: NonZeroUsize,
}

fn clients(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| CHECK_CLIENTS.contains(number));
    number.ok_or_else(|| format!("expected {} to {}", CHECK_CLIENTS.start(), CHECK_CLIENTS.end()))
}

/// What helps if the server's rules are for the names of one namespace.
const NAME_NAMESPACE: &str =
    "if these credentials are for one namespace, name it: --remote-namespace NAME checks there";

/// The longest finding to which the consequences are aligned, in characters.
const MAX_FINDING: usize = 60;

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    let mut settings = args.remote.settings(&TrustArgs::default())?;
    let url = settings.url.take().with_context(unnamed)?;
    let namespace = settings.namespace.is_some().then(|| settings.namespace()).transpose()?;
    let opening = settings.open_options()?;
    let cancel = output.cancel_on_signal();
    let progress = output.progress();
    progress.start("checking what the server does");
    let mut options = CheckOptions::default();
    (options.clients, options.rounds, options.cancel) = (args.clients, args.rounds.get(), Some(&cancel));
    options.namespace = namespace.as_ref();
    let checked = check(url.text()?, &opening, &options);
    progress.done();
    let report = match checked {
        Err(CheckError::Remote { .. }) if cancel.is_cancelled() => return Err(RemoteError::Cancelled.into()),
        // The URL may contain a password, so it is in no message.
        Err(CheckError::Open(error)) => return Err(error).context(url.origin().to_owned()),
        checked => {
            if namespace.is_none()
                && matches!(&checked, Err(CheckError::Remote { source: RemoteError::Refused { .. }, .. }))
            {
                output.print_note(NAME_NAMESPACE);
            }
            checked?
        }
    };
    let rows = rows(&report);
    output.print_result(&text(&report, &rows), &CheckOutput::new(&report, &rows))?;
    Ok(if report.is_usable() { ExitStatus::Success } else { ExitStatus::Problems })
}

fn text(report: &CheckReport, rows: &[Row]) -> Text {
    let mut text = Text::of(&report.location);
    let width = |cell: fn(&Row) -> &str| {
        rows.iter().map(|row| one_line(cell(row)).chars().count()).filter(|width| *width <= MAX_FINDING).max()
    };
    let name_width = width(|row| row.name).unwrap_or_default();
    let finding_width = width(|row| &row.finding).unwrap_or_default();
    let columns = terminal_width();
    for Row { name, finding, consequence, .. } in rows {
        let finding = one_line(finding);
        let head = format!("  {name}{}  ", padding(name, name_width));
        let line = format!("{finding}{}  {consequence}", padding(&finding, finding_width));
        match columns {
            Some(width) if head.chars().count() + line.chars().count() > width => {
                text.append(&headed(&head, &finding));
                text.append(&headed(&" ".repeat(head.chars().count()), consequence));
            }
            _ => text.line(format_args!("{head}{line}")),
        }
    }
    text.append(&headed("", verdict(report)));
    text
}

/// Returns what builds do with the engine.
fn verdict(report: &CheckReport) -> &'static str {
    match (report.is_usable(), &report.access, report.lease_use()) {
        (false, ..) => "not usable: what is stored does not come back",
        (true, Access::ReadWrite, LeaseUse::Proven) => "usable: hosts share kernels, and compile each once",
        (true, Access::ReadWrite, LeaseUse::Unproven) => {
            "usable: hosts share kernels, and compile each once as far as this check can see"
        }
        (true, Access::ReadWrite, LeaseUse::Shared) => {
            "usable: hosts share kernels, and several may compile the same one"
        }
        (true, Access::ReadWrite, _) => {
            "usable without leases: hosts share kernels, and several may compile the same one"
        }
        (true, ..) => "usable for reading: hosts take kernels from it, and send none",
    }
}

/// The result as JSON.
#[derive(Serialize)]
struct CheckOutput<'a> {
    url: &'a str,
    usable: bool,
    access: &'static str,
    leases: &'static str,
    clients: usize,
    race: Option<RaceOutput>,
    round_trip: RoundTripOutput,
    largest_object_bytes: Option<u64>,
    left_behind: usize,
    checks: Vec<RowOutput<'a>>,
}

#[derive(Serialize)]
struct RaceOutput {
    rounds: usize,
    shared_rounds: usize,
    lost_rounds: usize,
    most_winners: usize,
    most_winners_round: usize,
    errors: usize,
}

#[derive(Serialize)]
struct RoundTripOutput {
    requests: usize,
    median_ms: Milliseconds,
    worst_ms: Milliseconds,
}

#[derive(Serialize)]
struct RowOutput<'a> {
    name: &'static str,
    result: &'static str,
    finding: &'a str,
    consequence: &'a str,
}

impl<'a> CheckOutput<'a> {
    fn new(report: &'a CheckReport, rows: &'a [Row]) -> Self {
        let race = |race: &Race| RaceOutput {
            rounds: race.rounds,
            shared_rounds: race.shared_rounds,
            lost_rounds: race.lost_rounds,
            most_winners: race.most.0,
            most_winners_round: race.most.1,
            errors: race.errors,
        };
        let row = |row: &'a Row| RowOutput {
            name: row.name,
            result: row.result.name(),
            finding: &row.finding,
            consequence: &row.consequence,
        };
        let round_trip = &report.round_trip;
        Self {
            url: &report.location,
            usable: report.is_usable(),
            access: match report.access {
                Access::ReadWrite => "read-write",
                Access::ReadOnly { .. } => "read-only",
                Access::Full { .. } => "full",
                _ => "failed",
            },
            leases: match report.lease_use() {
                LeaseUse::Proven => "proven",
                LeaseUse::Unproven => "unproven",
                LeaseUse::Shared => "shared",
                _ => "none",
            },
            clients: report.clients,
            race: report.race.as_ref().and_then(|found| found.as_ref().ok()).map(race),
            round_trip: RoundTripOutput {
                requests: round_trip.requests,
                median_ms: Milliseconds(round_trip.median),
                worst_ms: Milliseconds(round_trip.worst),
            },
            largest_object_bytes: report
                .largest
                .as_ref()
                .and_then(|largest| largest.as_ref().ok())
                .filter(|largest| largest.bytes > 0 || largest.untested.is_none())
                .map(|largest| largest.bytes),
            left_behind: report.left.objects,
            checks: rows.iter().map(row).collect(),
        }
    }
}
