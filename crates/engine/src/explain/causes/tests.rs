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
        made_by: opkeep_kernel_entry::MADE_BY.to_owned(),
        key_schema: None,
        job: Diff::default(),
        spec: Diff::default(),
        toolchain: Vec::new(),
        op_sources: Vec::new(),
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
