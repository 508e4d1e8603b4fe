//! The findings of a check, each with its consequence for a build.

use std::borrow::Cow;
use std::time::Duration;

use opkeep_cache::{EngineSpace, ExclusiveCreate, RemoteError};
use opkeep_remote::check::{
    Access, Batch, CheckReport, CounterCheck, Largest, LeaseCheck, ListingCheck, ObjectCheck, Race, Untested,
};

use crate::ui::text::{bytes, counted, shortened};

/// A finding.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) result: RowResult,
    pub(super) finding: String,
    pub(super) consequence: Cow<'static, str>,
}

/// What a finding means.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RowResult {
    /// The best there is.
    Good,
    /// Builds do without something.
    Limited,
    /// The server does not do what its protocol says.
    Wrong,
}

impl RowResult {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Limited => "limited",
            Self::Wrong => "wrong",
        }
    }
}

use RowResult::{Good, Limited, Wrong};

type Finding = (RowResult, String, &'static str);

/// The length of a server's text in a finding, in characters: more than a reason and its help have.
const MAX_ERROR: usize = 1000;
/// The time by which the age of an object may differ from the time since it was stored: clocks count seconds.
const AGE_TOLERANCE: Duration = Duration::from_secs(3);

/// Returns the findings in the order of their importance.
pub(super) fn rows(report: &CheckReport) -> Vec<Row> {
    let row = |name, (result, finding, consequence): Finding| {
        let consequence = consequence.into();
        Row { name, result, finding, consequence }
    };
    let mut rows = vec![row("access", access(&report.access))];
    if let Ok(Some(found)) = &report.space {
        rows.push(row("space", space(found, &report.access)));
    }
    rows.push(row("round trip", round_trip(report)));
    let writes = report.access == Access::ReadWrite;
    rows.extend(report.objects.as_ref().map(|found| row("objects", tried(found, objects))));
    if writes {
        rows.push(row("exclusive create", exclusive_create(report)));
        rows.extend(report.leases.as_ref().map(|found| row("lease holder", tried(found, leases))));
        if report.leases.is_some() {
            rows.push(row("lease expiry", expiry(report)));
        }
        rows.push(row("counters", counters(report)));
    }
    rows.extend(report.batch.as_ref().map(|found| row("batch", tried(found, batch))));
    rows.extend(report.largest.as_ref().map(|found| row("largest object", tried(found, largest))));
    rows.push(row("listing", listing(report)));
    if let Some(Ok(listing @ ListingCheck { age: Some(age), .. })) = &report.listing {
        rows.push(row("clock", clock(*age, listing.elapsed)));
    }
    if writes || report.left.objects > 0 {
        rows.push(left(report));
    }
    rows
}

/// Returns the text of an error in a finding.
fn failed(error: &RemoteError) -> String {
    format!("failed: {}", shortened(&error.to_string(), MAX_ERROR))
}

/// Returns the finding of a part of the check, or why there is none.
fn tried<T>(found: &Result<T, RemoteError>, finding: impl FnOnce(&T) -> Finding) -> Finding {
    match found {
        Ok(found) => finding(found),
        Err(error) => (Wrong, failed(error), "builds warn of such failures, and compile"),
    }
}

fn access(access: &Access) -> Finding {
    const READS: &str = "kernels are fetched, none is sent";
    match access {
        Access::ReadWrite => (Good, "read and write".to_owned(), "kernels are fetched and sent"),
        Access::ReadOnly { reason } => {
            (Limited, format!("read only: {}", shortened(reason, MAX_ERROR)), READS)
        }
        Access::Full { reason } => (Limited, format!("full: {}", shortened(reason, MAX_ERROR)), READS),
        Access::Failed(error) => (Wrong, failed(error), READS),
        _ => (Wrong, "storing fails".to_owned(), READS),
    }
}

/// Returns the finding on the space before the check.
fn space(space: &EngineSpace, access: &Access) -> Finding {
    let mut finding = format!("{} of {} used", bytes(space.used), bytes(space.limit));
    finding.push_str(if space.evicts { "; the least useful is evicted" } else { "; nothing is evicted" });
    if let (true, Access::Full { .. }) = (space.evicts, access) {
        return (Limited, finding, "what it may evict is too little: raise the limit");
    }
    match (space.evicts, space.is_nearly_full()) {
        (true, _) => (Good, finding, "what is evicted is compiled again"),
        (false, false) => (Limited, finding, "when it is full, kernels are refused"),
        (false, true) => (
            Limited,
            format!("nearly full: {finding}"),
            "kernels are refused, now or soon; raise the limit, or let it evict",
        ),
    }
}

fn round_trip(report: &CheckReport) -> Finding {
    let times = &report.round_trip;
    let finding =
        format!("{} median, {} worst of {}", millis(times.median), millis(times.worst), times.requests);
    (Good, finding, "a warm build waits for two, and for its batches")
}

fn objects(found: &ObjectCheck) -> Finding {
    let ObjectCheck { is_intact, seen_after, is_kept, is_replaced, is_removed, .. } = *found;
    let Some(seen_after) = seen_after else {
        return (Wrong, "not seen by another client".to_owned(), "no host finds the kernels of another");
    };
    if !is_intact {
        return (
            Wrong,
            "changed: other bytes come back than were stored".to_owned(),
            "kernels are refused, and compiled",
        );
    }
    let mut finding = format!("intact, seen by another client after {}", millis(seen_after));
    let mut consequence = "other hosts find a kernel at once";
    let mut result = Good;
    if is_kept == Some(false) {
        (result, consequence) = (Limited, "harmless: each kernel is checked when it is fetched");
        finding.push_str("; existing ones are replaced");
    }
    if is_removed == Some(false) {
        (result, consequence) = (Limited, "gc does not work; the server's own limits do");
        finding.push_str("; deleted ones stay");
    }
    if is_replaced != Some(true) {
        (result, consequence) = (Limited, "a wrong kernel stays until the server evicts it");
        finding.push_str("; not replaced");
    }
    (result, finding, consequence)
}

fn exclusive_create(report: &CheckReport) -> Finding {
    const NO_LEASES: &str = "used without leases: several hosts may compile the same kernel";
    let exclusive_create = report.capabilities.exclusive_create;
    let race = match &report.race {
        Some(Ok(race)) => race,
        Some(Err(RemoteError::Unsupported { .. })) | None => {
            return (Limited, "none".to_owned(), NO_LEASES);
        }
        Some(Err(error)) => return (Wrong, failed(error), NO_LEASES),
    };
    let figure = figure(race, report.clients);
    if exclusive_create == ExclusiveCreate::None {
        return (Limited, format!("none: {figure}"), NO_LEASES);
    }
    if race.most.0 > 1 {
        let consequence = "leases are used, and several hosts may compile the same kernel";
        return (Wrong, format!("not exclusive: {figure}"), consequence);
    }
    match exclusive_create {
        ExclusiveCreate::Proven => {
            (Good, format!("proven: {figure}"), "leases are used: one host compiles a kernel")
        }
        _ => {
            (Good, format!("unproven: {figure}"), "leases are used; no document of the server promises more")
        }
    }
}

/// Returns how many clients got the same create.
fn figure(race: &Race, clients: usize) -> String {
    let rounds = race.rounds;
    let mut figure = match race.most {
        (0, _) => format!("no client got one in {}", counted(rounds, "round")),
        (1, _) => format!("1 of {clients} clients got it in each of {}", counted(rounds, "round")),
        (most, round) => format!(
            "{most} of {clients} contenders got the same create in round {round}, several in {} of {rounds}",
            race.shared_rounds
        ),
    };
    if race.lost_rounds > 0 && race.most.0 > 0 {
        figure.push_str(&format!(", none in {}", race.lost_rounds));
    }
    if race.errors > 0 {
        figure.push_str(&format!("; {} failed", counted(race.errors, "claim")));
    }
    figure
}

fn leases(found: &LeaseCheck) -> Finding {
    let LeaseCheck { is_renewed, renewal_compares, release_compares, is_released, .. } = *found;
    let problems = [
        (is_renewed, "its holder cannot renew it"),
        (renewal_compares, "another client renews it"),
        (release_compares, "another client releases it"),
        (is_released, "it stays after its release"),
    ];
    let problems: Vec<_> = problems.iter().filter(|(is_fine, _)| !is_fine).map(|(_, text)| *text).collect();
    match problems.is_empty() {
        true => (
            Good,
            "only its holder renews and releases a lease".to_owned(),
            "a lease lasts while its host compiles",
        ),
        false => (Wrong, problems.join("; "), "leases may end early or late: more work, no harm"),
    }
}

fn expiry(report: &CheckReport) -> Finding {
    const STAY: &str = "other hosts take over from a killed one; gc deletes its lease";
    match &report.expiry {
        Some(Ok(Some(time))) => (
            Good,
            format!("a lease that was to be kept for 1 s was gone after {:.1} s", time.as_secs_f64()),
            "the server deletes the leases of killed hosts",
        ),
        Some(Ok(None)) => {
            let seconds = CheckReport::EXPIRY_LIMIT.as_secs();
            (Wrong, format!("a lease that was to be kept for 1 s stayed for {seconds} s"), STAY)
        }
        Some(Err(error)) => (Wrong, failed(error), STAY),
        None => (Limited, "none".to_owned(), STAY),
    }
}

fn counters(report: &CheckReport) -> Finding {
    const NONE: &str = "hosts that wait look for new kernels every 10 s";
    let counted = |found: &CounterCheck| {
        let finding = format!("{} of {} additions at once are counted", found.counted, found.added);
        match found.counted {
            0 => (Wrong, finding, NONE),
            counted if counted == found.added => (Good, finding, "hosts that wait see each new kernel soon"),
            _ => (Limited, finding, "harmless: hosts that wait see that there is something new"),
        }
    };
    match &report.counters {
        Some(found) => tried(found, counted),
        None => (Limited, "none".to_owned(), NONE),
    }
}

fn batch(found: &Batch) -> Finding {
    let Batch { objects, put, get, intact, .. } = *found;
    let size = bytes(found.bytes as u64);
    let times = format!(
        "{} of {size}: stored in {}, fetched in {}",
        counted(objects, "object"),
        millis(put),
        millis(get)
    );
    match intact == objects {
        true => (Good, times, "a build fetches many kernels in one call"),
        false => {
            (Limited, format!("{times}; {intact} came back"), "what the server evicts is compiled again")
        }
    }
}

fn largest(found: &Largest) -> Finding {
    let (tested, they) = match found.bytes {
        0 => ("none is tested".to_owned(), "each needs"),
        size => (format!("up to {} tested; larger ones are not", bytes(size)), "they need"),
    };
    match (&found.failed, found.untested) {
        (None, None) => {
            (Good, format!("{} or more", bytes(found.bytes)), "kernels of every usual size are shared")
        }
        (None, Some(Untested::Space { free })) => {
            let finding =
                format!("{tested}, since {they} more than an eighth of the {} that are free", bytes(free));
            (Good, finding, "builds send kernels of every size")
        }
        (None, Some(_)) => {
            let finding = format!("{tested}, since the server does not say how much space is free");
            (Good, finding, "builds send kernels of every size; Redis states its space to users with +info")
        }
        (Some((failed, why)), _) => (
            Limited,
            format!("{}; {}: {}", bytes(found.bytes), bytes(*failed), shortened(why, MAX_ERROR)),
            "larger kernels are compiled on each host",
        ),
    }
}

fn listing(report: &CheckReport) -> Finding {
    let listed = |found: &ListingCheck| {
        let ListingCheck { expected, found, age, .. } = *found;
        match (found == expected, expected, age) {
            (false, ..) => (
                Wrong,
                format!("{found} of {} are listed", counted(expected, "object")),
                "ls, stats and gc overlook some",
            ),
            (true, 0, _) => (Good, "yes".to_owned(), "ls and stats work"),
            (true, _, Some(_)) => (Good, "yes, with ages".to_owned(), "ls, stats and gc work"),
            (true, _, None) => {
                (Limited, "yes, without ages".to_owned(), "ls and stats work; gc does not know what is old")
            }
        }
    };
    match &report.listing {
        Some(Err(RemoteError::Refused { reason })) => (
            Limited,
            format!("refused: {}", shortened(reason, MAX_ERROR)),
            "ls, stats and gc need other credentials",
        ),
        Some(Err(RemoteError::TimedOut)) => (
            Limited,
            format!("no end within {} s", CheckReport::LISTING_LIMIT.as_secs()),
            "ls, stats and gc take long: the server looks at all names that it has",
        ),
        Some(Err(error)) => (Wrong, failed(error), "ls, stats and gc fail"),
        Some(Ok(found)) => listed(found),
        None => (Limited, "none".to_owned(), "ls, stats and gc do not work; the server's own limits do"),
    }
}

fn clock(age: Duration, elapsed: Duration) -> Finding {
    let finding = format!(
        "an object of at most {:.0} s has an age of {} s on the server",
        elapsed.as_secs_f64().ceil(),
        age.as_secs()
    );
    match age <= elapsed + AGE_TOLERANCE {
        true => (Good, finding, "gc uses the server's clock; nothing compares clocks"),
        false => (Wrong, finding, "gc --older-than deletes too early; builds compare no clocks"),
    }
}

fn left(report: &CheckReport) -> Row {
    let (name, left) = ("left behind", &report.left);
    if left.objects == 0 {
        let consequence = "all objects of the check are deleted".into();
        return Row { name, result: Good, finding: "nothing".to_owned(), consequence };
    }
    let (count, prefix) = (counted(left.objects, "object"), &report.prefix);
    let why = left.error.as_ref().map(|error| format!(": {}", shortened(&error.to_string(), MAX_ERROR)));
    let finding = format!("up to {count} below {prefix}{}", why.unwrap_or_default());
    let consequence = match report.capabilities.has_listing {
        true => "opkeep remote gc URL deletes them after an hour, with credentials that may".into(),
        false => "the server's own limits delete them".into(),
    };
    Row { name, result: Limited, finding, consequence }
}

fn millis(time: Duration) -> String {
    let millis = time.as_secs_f64() * 1e3;
    if millis < 10.0 { format!("{millis:.2} ms") } else { format!("{millis:.0} ms") }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use opkeep_remote::RemoteEngine;
    use opkeep_remote::check::{CheckOptions, check_clients};
    use opkeep_testkit::remote::{FakeRemote, RemoteFaults};

    use super::*;

    /// Returns the report on an engine with faults, and the finding of this name.
    fn checked(faults: RemoteFaults, name: &str) -> (CheckReport, Option<Row>) {
        let remote = FakeRemote::new();
        remote.set_faults(faults);
        let clients = (0..2).map(|_| Arc::new(remote.clone()) as Arc<dyn RemoteEngine>).collect();
        let mut options = CheckOptions::default();
        (options.rounds, options.max_object_bytes) = (1, 0);
        let report = check_clients(clients, &options).unwrap();
        let row = rows(&report).into_iter().find(|row| row.name == name);
        (report, row)
    }

    #[test]
    fn all_that_is_left_behind_shows() {
        for loses_answers_to_puts in [false, true] {
            let faults = RemoteFaults { keeps_all: true, loses_answers_to_puts, ..RemoteFaults::default() };
            let (report, row) = checked(faults, "left behind");
            let row = row.unwrap();
            assert!(report.left.objects > 0 && row.finding.contains(&report.prefix), "{}", row.finding);
            assert!(row.consequence.contains("gc URL"), "{}", row.consequence);
        }
        let (_, row) = checked(RemoteFaults { is_full: true, ..RemoteFaults::default() }, "left behind");
        assert!(row.is_none());
    }

    #[test]
    fn leases_without_the_right_to_delete_are_used() {
        let (_, row) =
            checked(RemoteFaults { keeps_all: true, ..RemoteFaults::default() }, "exclusive create");
        assert_eq!(row.unwrap().consequence, "leases are used: one host compiles a kernel");
    }

    #[test]
    fn a_failed_listing_concerns_the_commands_that_list() {
        let faults =
            RemoteFaults { empty_parts: 9, repeats_listing_after: Some(2), ..RemoteFaults::default() };
        let row = checked(faults, "listing").1.unwrap();
        assert_eq!(row.consequence, "ls, stats and gc fail");
    }

    /// Each reason is there as a whole, with its help.
    #[test]
    fn reasons_are_not_cut() {
        let reason = format!("{} and more", "reason ".repeat(60));
        let (_, finding, _) = access(&Access::ReadOnly { reason: reason.clone() });
        assert_eq!(finding, format!("read only: {reason}"));
    }

    #[test]
    fn a_full_server_that_evicts_needs_a_higher_limit() {
        let mut of_server = EngineSpace::new(100, 100);
        of_server.evicts = true;
        assert_eq!(space(&of_server, &Access::ReadWrite).2, "what is evicted is compiled again");
        let full = Access::Full { reason: "OOM".to_owned() };
        assert_eq!(space(&of_server, &full).2, "what it may evict is too little: raise the limit");
    }

    #[test]
    fn the_largest_object_states_its_limit() {
        let of = |bytes: u64, untested| {
            let mut found = Largest::default();
            (found.bytes, found.untested) = (bytes, untested);
            largest(&found).1
        };
        assert_eq!(of(32 << 20, None), "32.0 MiB or more");
        let free = Some(Untested::Space { free: 200 << 20 });
        let expected = "up to 4.0 MiB tested; larger ones are not, since they need more than an eighth of the 200.0 MiB that are free";
        assert_eq!(of(4 << 20, free), expected);
        let expected = "none is tested, since the server does not say how much space is free";
        assert_eq!(of(0, Some(Untested::Unknown)), expected);
    }
}
