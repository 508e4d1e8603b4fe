use std::time::SystemTime;

use opkeep_descriptor::{Key, ResolvedSpec};
use opkeep_digest::{Digest, Fingerprint};

use super::*;

fn fingerprint(parts: &[(&str, &str)]) -> Fingerprint {
    let mut fingerprint = Fingerprint::new();
    parts.iter().for_each(|(name, text)| fingerprint.text(*name, *text));
    fingerprint
}

fn options(options: &[(&str, &str)]) -> ResolvedSpec {
    let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    ResolvedSpec { target: "cpu".to_owned(), options, debug: false }
}

/// A stored kernel of the same job, without differences.
fn same_job() -> NearestEntry {
    NearestEntry {
        name: "square".to_owned(),
        key: Key::from(Digest::of(b"square")),
        created: SystemTime::UNIX_EPOCH,
        last_used: SystemTime::UNIX_EPOCH,
        made_by: opkeep_kernel_entry::MADE_BY.to_owned(),
        key_schema: None,
        job: Diff::default(),
        spec: Diff::default(),
        toolchain: Vec::new(),
        op_sources: Vec::new(),
        consequences: BTreeSet::new(),
        descriptions: BTreeMap::new(),
        main_changes: Vec::new(),
    }
}

fn miss(nearest: NearestEntry) -> MissExplanation {
    let nearest = Some(Box::new(nearest));
    MissExplanation { nearest, is_searched: true, ..MissExplanation::new("not in the store") }
}

/// Each group as its text and its kernels.
fn grouped(misses: &[MissExplanation]) -> Vec<(String, Vec<usize>)> {
    let groups = MissGroup::of(misses.iter().enumerate());
    let mut all: Vec<usize> = groups.iter().flat_map(|group| group.kernels.clone()).collect();
    all.sort_unstable();
    assert_eq!(all, (0..misses.len()).collect::<Vec<_>>(), "each miss is in one group");
    groups.into_iter().map(|group| (group.cause.to_string(), group.kernels)).collect()
}

#[test]
fn equal_changes_are_one_group() {
    let upgrade = fingerprint(&[("version", "1")]).diff(&fingerprint(&[("version", "2")]));
    let option = Diff::of_specs(&options(&[]), &options(&[("precision", "high")]));
    let source = |name: &str, new: &str| fingerprint(&[(name, "a")]).diff(&fingerprint(&[(name, new)]));
    let other_job = || NearestEntry { job: option.clone(), toolchain: upgrade.clone(), ..same_job() };
    let searched = || MissExplanation { is_searched: true, ..MissExplanation::new("not in the store") };
    let misses = [
        searched(),
        miss(NearestEntry { spec: option.clone(), op_sources: source("code", "b"), ..same_job() }),
        miss(NearestEntry { toolchain: upgrade.clone(), ..same_job() }),
        miss(other_job()),
        MissExplanation::new("cache mode is force"),
        // Consequences make no groups.
        miss(NearestEntry { toolchain: upgrade.clone(), op_sources: source("libm", "b"), ..same_job() }),
        miss(NearestEntry { toolchain: upgrade.clone(), op_sources: source("libm", "c"), ..same_job() }),
        miss(NearestEntry { spec: option.clone(), op_sources: source("code", "c"), ..same_job() }),
        // Contents of sources differ in each kernel.
        miss(NearestEntry { op_sources: source("code", "b"), ..same_job() }),
        miss(NearestEntry { op_sources: source("code", "c"), ..same_job() }),
        miss(NearestEntry { op_sources: source("square.py", "c"), ..same_job() }),
        miss(NearestEntry { toolchain: upgrade.clone(), spec: option.clone(), ..same_job() }),
    ];
    let expected: [(&str, &[usize]); 8] = [
        ("compiler 1 -> 2", &[2, 5, 6]),
        ("option precision: (none) -> high", &[1, 7]),
        ("source code", &[8, 9]),
        ("source square.py", &[10]),
        ("compiler 1 -> 2, option precision: (none) -> high", &[11]),
        ("no kernel of this job is stored", &[3]),
        ("no kernel of these operators is stored for this target", &[0]),
        ("cache mode is force", &[4]),
    ];
    assert_eq!(grouped(&misses), expected.map(|(text, kernels)| (text.to_owned(), kernels.to_vec())));

    let groups = MissGroup::of(misses.iter().enumerate());
    let MissCause::KeyChanged(changes) = &groups[0].cause else { panic!("{groups:?}") };
    assert_eq!(changes.op_sources, BTreeMap::from([("libm".to_owned(), 2)]));
}

#[test]
fn another_version_is_named() {
    let made_by = |made_by: &str| NearestEntry { made_by: made_by.to_owned(), ..same_job() };
    let text = |nearest: NearestEntry| miss(nearest).cause().to_string();
    let source = fingerprint(&[("code", "a")]).diff(&fingerprint(&[("code", "b")]));
    let this = opkeep_kernel_entry::MADE_BY;
    assert_eq!(
        text(NearestEntry { op_sources: source.clone(), ..made_by("opkeep 0.0.9") }),
        format!("opkeep 0.0.9 -> {this}, source code")
    );
    assert_eq!(
        text(NearestEntry { key_schema: Some((1, 2)), ..made_by("opkeep 0.0.9") }),
        format!("opkeep 0.0.9 -> {this}, keys of version 1 -> 2")
    );
    // A compiler that changed as well explains more.
    let toolchain = fingerprint(&[("version", "1")]).diff(&fingerprint(&[("version", "2")]));
    assert_eq!(
        text(NearestEntry { toolchain, op_sources: source, ..made_by("opkeep 0.0.9") }),
        "compiler 1 -> 2"
    );
    assert_eq!(text(same_job()), "no difference is recorded");
}

/// What the store knows of a missing entry is the cause, whatever else is stored.
#[test]
fn removed_quarantined_and_damaged_entries_are_one_cause_each() {
    let upgrade = fingerprint(&[("version", "1")]).diff(&fingerprint(&[("version", "2")]));
    let near = || miss(NearestEntry { toolchain: upgrade.clone(), ..same_job() });
    let stored = |at_ms: u64, host: &str| StoredBy {
        at_ms,
        host: host.to_owned(),
        is_this_host: host == "this",
        is_compiled: host == "this",
    };
    let removed = |at_ms, host, evictions| MissExplanation {
        former: Some(FormerEntry::Removed { stored: stored(at_ms, host), evictions, cleared: 2 * evictions }),
        ..near()
    };
    let not_kept = |at_ms| MissExplanation {
        former: Some(FormerEntry::NotKept { compiled: stored(at_ms, "this") }),
        ..near()
    };
    let quarantined = |digit: &str| {
        let reason = Some(format!("expected SHA-256 {}", digit.repeat(64)));
        MissExplanation { former: Some(FormerEntry::Quarantined { at_ms: 1000, reason }), ..near() }
    };
    let damaged =
        |bytes: u64| MissExplanation { is_damaged: true, ..MissExplanation::new(format!("{bytes} bytes")) };
    let text =
        |misses: &[MissExplanation]| grouped(misses).into_iter().map(|(text, _)| text).collect::<Vec<_>>();
    assert_eq!(
        text(&[removed(1_764_331_265_000, "other", 0)]),
        ["stored 2025-11-28 12:01:05 UTC on other, and no longer stored"]
    );
    let all = [
        removed(1_764_331_265_000, "this", 3),
        quarantined("1"),
        damaged(7),
        removed(1000, "other", 4),
        quarantined("2"),
        damaged(8),
        damaged(8),
        not_kept(1_764_331_265_000),
        not_kept(1000),
    ];
    let groups = MissGroup::of(all.iter().enumerate());
    assert_eq!(
        text(&all),
        [
            "compiled before (the last 2025-11-28 12:01:05 UTC on this host), and no longer stored",
            "compiled before (the last 2025-11-28 12:01:05 UTC on this host), and not stored",
            "quarantined 1970-01-01 00:00:01 UTC: expected SHA-256 …",
            "… bytes",
        ]
    );
    let examples: Vec<_> = groups.iter().map(|group| group.example.as_deref()).collect();
    assert_eq!(
        examples,
        [None, None, Some(format!("expected SHA-256 {}", "1".repeat(64))).as_deref(), Some("7 bytes")]
    );
    let MissCause::Removed(removed) = &groups[0].cause else { panic!("{groups:?}") };
    assert_eq!((removed.kernels, removed.evictions, removed.cleared), (2, 4, 8));
}

/// A toolchain that was in use before is compared, not blamed.
#[test]
fn a_configuration_that_is_in_use_is_no_cause() {
    let upgrade = fingerprint(&[("version", "1")]).diff(&fingerprint(&[("version", "2")]));
    let option = Diff::of_specs(&options(&[]), &options(&[("precision", "high")]));
    let source = fingerprint(&[("code", "a")]).diff(&fingerprint(&[("code", "b")]));
    for (nearest, expected) in [
        (
            NearestEntry { toolchain: upgrade, ..same_job() },
            "no kernel of this job is stored for the same toolchain; the nearest differs in compiler 1 -> 2",
        ),
        (
            NearestEntry { spec: option, ..same_job() },
            "no kernel of this job is stored for the same options; the nearest differs in option precision: (none) -> high",
        ),
        // Sources are those of the operator alone.
        (NearestEntry { op_sources: source, ..same_job() }, "source code"),
    ] {
        let cause = MissExplanation { was_in_use: true, ..miss(nearest) }.cause();
        assert_eq!(cause.to_string(), expected);
    }
}

/// A job with many changes, or of another function, is not called like the missing one.
#[test]
fn few_changes_make_a_job_similar() {
    let changed = |count: usize, function: bool| {
        let values = |value: &str| {
            let options = (0..count).map(|at| (format!("attr{at}"), value.to_owned()));
            let function = function.then(|| ("op.func_name".to_owned(), value.to_owned()));
            ResolvedSpec {
                target: "cpu".to_owned(),
                options: options.chain(function).collect(),
                debug: false,
            }
        };
        let job = Diff::of_specs(&values("1"), &values("2"));
        NearestEntry { main_changes: job.changes.clone(), job, ..same_job() }
    };
    for (count, function, expected) in
        [(1, false, true), (5, false, true), (6, false, false), (1, true, false)]
    {
        let nearest = changed(count, function);
        assert_eq!(nearest.is_similar(), expected, "{count} {function}");
        let text = miss(nearest).to_string();
        assert_eq!(text.starts_with("new job, like square but for "), expected, "{text}");
        assert_eq!(text == "new job", !expected, "{text}");
    }
}
