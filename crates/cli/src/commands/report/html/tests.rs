use std::collections::BTreeMap;

use opkeep::{BuildPhases, BuildRecord, RecordedHits, RecordedKernel};

use opkeep_store::{FileTotals, TargetUsage};

use super::super::data::{
    BuildReport, EvictionReport, NextReport, QuarantinedReport, RecordsReport, Report, Share, TargetReport,
    operator_costs,
};
use super::*;

/// Names as a model, a host, a framework or a file may have them.
const HOSTILE: &str =
    "</td></script><script>alert(1)</script>\"'&<img src=x onerror=alert(1)>\u{202e}\u{2066}\0\n";

fn kernel(op_type: &str, outcome: &str, times: [u64; 4]) -> RecordedKernel {
    let mut kernel = RecordedKernel::default();
    let [begin, last, compile, end] = times;
    (kernel.op_type, kernel.name) = (op_type.to_owned(), format!("{op_type}_1"));
    (kernel.outcome, kernel.key, kernel.bytes) = (outcome.to_owned(), Some("ab".repeat(32)), Some(4096));
    (kernel.begin_us, kernel.last_us, kernel.end_us, kernel.worker) = (begin, last, end, Some(0));
    if outcome == "compiled" {
        (kernel.compile_us, kernel.compile_time_us) = (Some(compile), Some(end - compile));
    }
    kernel
}

fn build(began_ms: u64, name: &str) -> BuildReport {
    let mut record = BuildRecord::default();
    (record.began_ms, record.elapsed_us, record.threads, record.process) = (began_ms, 4_000_000, 2, 77);
    (record.host, record.label, record.targets) = (name.to_owned(), name.to_owned(), vec![name.to_owned()]);
    let mut phases = BuildPhases::default();
    (phases.planned_us, phases.looked_up_us, phases.fetched_us, phases.made_us) =
        (10_000, 20_000, 20_000, 3_900_000);
    record.phases = phases;
    let mut hits = RecordedHits::default();
    (hits.kernels, hits.saved_us) = (3, 500_000);
    record.hits = BTreeMap::from([(name.to_owned(), hits)]);
    record.kernels = vec![
        kernel(name, "compiled", [20_000, 20_000, 30_000, 3_900_000]),
        kernel("Add", "shared", [30_000, 900_000, 0, 910_000]),
        kernel("Mul", "failed", [40_000, 40_000, 0, 700_000]),
    ];
    record.counts = [("compiled", 1), ("shared", 1), ("failed", 1), ("reused", 3)]
        .map(|(outcome, count)| (outcome.to_owned(), count))
        .into();
    record.lost.process_us = 800_000;
    BuildReport::new(record)
}

/// A report in which all texts that are not the page's are `name`.
fn report(name: &str) -> Report {
    let builds =
        vec![build(1_764_331_265_000, name), build(1_764_331_264_000, name), build(1_764_000_000_000, name)];
    let share = |kernels, bytes| Share { name: Some(name.to_owned()), kernels, bytes };
    let mut usage = TargetUsage::default();
    (usage.entries, usage.records) =
        (FileTotals { files: 7, bytes: 80_000 }, FileTotals { files: 2, bytes: 10_000 });
    let target = TargetReport {
        target: name.to_owned(),
        usage,
        statistics: BTreeMap::new(),
        hits: 5,
        misses: 3,
        compiles: 3,
        saved_us: 1_500_000,
        frameworks: vec![share(7, 80_000)],
        operators: vec![share(4, 60_000), Share { name: None, kernels: 3, bytes: 20_000 }],
        unused: vec![share(7, 80_000)],
        age: vec![share(7, 80_000)],
        unreadable: 1,
        eviction: EvictionReport {
            is_over: false,
            idle_kernels: 2,
            idle_bytes: 30_000,
            next: vec![NextReport {
                key: "cd".repeat(32),
                framework: Some(name.to_owned()),
                kernel: Some(name.to_owned()),
                bytes: 12_000,
                last_used_ms: 1_764_000_000_000,
                compile_us: None,
            }],
        },
        quarantined: vec![QuarantinedReport {
            key: "ef".repeat(32),
            at_ms: 1_764_300_000_000,
            bytes: 100,
            reason: Some(name.to_owned()),
        }],
    };
    Report {
        root: Some(name.to_owned()),
        made_ms: 1_764_331_300_000,
        max_bytes: Some(1 << 20),
        max_entries: None,
        remain_percent: Some(50),
        targets: vec![target],
        operators: operator_costs(builds.iter().map(|build| &build.record)),
        builds,
        records: RecordsReport { damaged: 1, newer: 1, bytes: 3000, deleted: 0 },
    }
}

/// Whatever the numbers of a record are, it has a page and a text, which are not long.
#[test]
fn any_numbers_have_a_page() {
    for most in [u64::MAX, u64::MAX - 1, u64::MAX / 2, 1 << 50] {
        let mut hostile = build(most, "conv").record;
        let count = usize::try_from(most).unwrap();
        (hostile.elapsed_us, hostile.threads, hostile.omitted, hostile.operators) =
            (most, count, count, count);
        hostile.counts.values_mut().for_each(|value| *value = count);
        for hits in hostile.hits.values_mut() {
            (hits.kernels, hits.saved_us) = (count, most);
        }
        for kernel in &mut hostile.kernels {
            kernel.worker = Some(count);
            (kernel.end_us, kernel.compile_time_us, kernel.saved_us) = (most, Some(most), Some(most));
        }
        let mut early = hostile.clone();
        early.began_ms = 0;
        let mut report = report("conv");
        let whole = page(&report).len();
        report.builds = [hostile, early].map(BuildReport::new).into();
        report.operators = operator_costs(report.builds.iter().map(|build| &build.record));
        assert!(page(&report).len() < 2 * whole);
        assert!(!super::super::text::report_text(&report).is_empty());
    }
}

#[test]
fn a_page_is_determined_by_its_report() {
    assert_eq!(page(&report("conv")), page(&report("conv")));
}

/// The elements, their attributes and their nesting are the same, whatever the names are.
#[test]
fn no_name_changes_the_markup() {
    let (plain, hostile) = (page(&report("conv")), page(&report(HOSTILE)));
    assert_eq!(markup(&hostile), markup(&plain));
    assert!(!hostile.contains("<script") && !hostile.contains("<img") && !hostile.contains('\u{202e}'));
}

/// Returns all tags with the names of their attributes.
fn markup(page: &str) -> Vec<String> {
    let mut tags = Vec::new();
    let mut rest = page;
    while let Some((_, tag)) = rest.split_once('<') {
        let (tag, after) = tag.split_once('>').unwrap();
        let attributes = tag.split('"').step_by(2);
        tags.push(attributes.collect::<Vec<_>>().join("\""));
        rest = after;
    }
    tags
}

#[test]
fn every_element_is_closed_and_every_link_leads_somewhere() {
    for report in [report("conv"), Report { root: None, targets: Vec::new(), ..report("conv") }] {
        let page = page(&report);
        let (mut open, mut ids, mut links) = (Vec::new(), Vec::new(), Vec::new());
        for tag in page.split('<').skip(1).map(|tag| tag.split_once('>').unwrap().0) {
            let name = tag.split([' ', '\n']).next().unwrap();
            match name.strip_prefix('/') {
                Some(name) => assert_eq!(open.pop(), Some(name)),
                None if ["meta", "!DOCTYPE"].contains(&name) => {}
                None => open.push(name),
            }
            let value =
                |attribute: &str| Some(tag.split_once(&format!(" {attribute}=\""))?.1.split_once('"')?.0);
            ids.extend(value("id"));
            links.extend(value("href").map(|link| link.strip_prefix('#').unwrap()));
            links.extend(value("aria-labelledby"));
        }
        assert!(open.is_empty(), "{open:?}");
        let mut unique = ids.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), ids.len(), "each place once");
        for link in links {
            assert!(ids.contains(&link), "{link}");
        }
        // All of it is here: nothing is loaded.
        for outside in ["http:", "https:", "src=", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
    }
}

#[test]
fn each_figure_has_its_table() {
    let page = page(&report("conv"));
    assert_eq!(page.matches("<table").count(), page.matches("<caption").count());
    assert!(page.matches("scope=\"col\"").count() > 50 && page.matches("scope=\"row\"").count() > 20);
    // A bar of each kernel leads to the row with the same times.
    for index in 0..3 {
        assert_eq!(page.matches(&format!("id=\"kernel-0-{index}\"")).count(), 1);
        assert!(page.contains(&format!("href=\"#kernel-0-{index}\"")));
    }
    assert!(page.contains("Add Add_1, waited 870 ms for another process"));
    assert!(page.contains("conv conv_1, compiled, 3.9 s from 30 ms to 3.9 s"));
}

#[test]
fn empty_reports_have_pages() {
    let nothing = Report {
        targets: Vec::new(),
        builds: Vec::new(),
        operators: Vec::new(),
        records: RecordsReport::default(),
        max_bytes: None,
        ..report("conv")
    };
    for text in ["The store is empty.", "Nothing is quarantined.", "No recorded build"] {
        assert!(page(&nothing).contains(text), "{text}");
    }
}

/// The value of a colour in a block of the style sheet, as red, green and blue from 0 to 1.
fn color(block: &str, name: &str) -> [f64; 3] {
    let (_, value) =
        block.split_once(&format!("--{name}: #")).unwrap_or_else(|| panic!("no {name} in {block}"));
    [0, 2, 4].map(|at| f64::from(u8::from_str_radix(&value[at..at + 2], 16).unwrap()) / 255.0)
}

/// The contrast of two colours by WCAG 2.
fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
    let luminance = |color: [f64; 3]| {
        let linear =
            color.map(|part| if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) });
        0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    };
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
fn colors_have_contrast_in_each_theme() {
    let blocks: Vec<&str> =
        STYLE.split(":root {").skip(1).map(|block| block.split_once('}').unwrap().0).collect();
    assert_eq!(blocks.len(), 3, "light, dark and print");
    for block in blocks {
        for (text, ground) in [
            ("fg", "bg"),
            ("fg", "panel"),
            ("muted", "bg"),
            ("muted", "panel"),
            ("accent", "bg"),
            ("on-bar", "compiled"),
        ] {
            let found = contrast(color(block, text), color(block, ground));
            assert!(found >= 4.5, "{text} on {ground}: {found:.2}");
        }
        for bar in
            ["compiled", "shared", "remote", "failed", "wait", "queue", "publish", "phase", "between", "edge"]
        {
            for ground in ["bg", "panel"] {
                let found = contrast(color(block, bar), color(block, ground));
                let least = if bar == "between" { 2.5 } else { 3.0 };
                assert!(found >= least, "{bar} on {ground}: {found:.2}");
            }
        }
    }
}
