//! What the report computes of builds: critical paths, costs by operator, hit rates, waits.

use std::collections::BTreeMap;

use opkeep::{PathSegment, SegmentKind};

use super::super::data::{BuildReport, OperatorCost, Report};
use super::super::time::{duration, utc};
use super::section::{paragraph, part, rate_text, section};
use super::table::{Cell, Table};
use super::writer::{Attribute, Html, Id, Tag};
use crate::ui::text::counted;

/// The number of builds whose paths are shown.
const MAX_PATHS: usize = 5;
/// The number of operators, of builds in the figure of hit rates, and of waits.
const MAX_OPERATORS: usize = 60;
const MAX_RATES: usize = 60;
const MAX_WAITS: usize = 60;

/// Writes what bounded the last builds.
pub(super) fn paths(html: &mut Html, report: &Report) {
    section(html, "path", |html| {
        paragraph(
            html,
            "What the duration of a build consists of: its phases, and in between what the thread that ended last did and \
             waited for. The parts add up to the duration. Kernels do not depend on each other, so another order may be \
             faster; the lower bound says how much.",
        );
        let with_kernels =
            report.builds.iter().enumerate().filter(|(_, build)| !build.record.kernels.is_empty());
        let mut shown = 0;
        for (at, build) in with_kernels.take(MAX_PATHS) {
            path(html, at, build);
            shown += 1;
        }
        if shown == 0 {
            paragraph(html, "There is no recorded build with such kernels.");
        }
    });
}

fn path(html: &mut Html, at: usize, build: &BuildReport) {
    let (record, path) = (&build.record, &build.path);
    html.element(Tag::H3, &[], |html| {
        html.text(format_args!("{}, ", utc(record.began_ms)));
        html.name(&record.label);
        html.text(format_args!(", process {}", record.process));
    });
    let last = path
        .worker
        .map_or(String::new(), |worker| format!(" Thread {} ended last.", worker.saturating_add(1)));
    let share = path.work_us.div_ceil(path.threads.max(1) as u64);
    let bound = match path.longest_us >= share {
        true => format!("the longest kernel took {}", duration(path.longest_us)),
        false => format!(
            "all kernels together took {}, which is {} on each of {}",
            duration(path.work_us),
            duration(share),
            counted(path.threads, "thread")
        ),
    };
    html.element(Tag::P, &[], |html| {
        html.text("It took ");
        html.line(
            Tag::Data,
            &[Attribute::Value(record.elapsed_us), Attribute::Figure("path-duration")],
            duration(record.elapsed_us),
        );
        html.text(format_args!(".{last} No order of these kernels takes less than "));
        html.line(
            Tag::Data,
            &[Attribute::Value(path.lower_bound_us), Attribute::Figure("path-bound")],
            duration(path.lower_bound_us),
        );
        html.text(format_args!(": {bound}."));
    });
    let caption = Id::Numbered("path-caption", at);
    html.element(Tag::Figure, &[Attribute::Class("path"), Attribute::LabelledBy(caption)], |html| {
        html.line(Tag::Figcaption, &[Attribute::Id(caption)], "Parts of the duration, in their order");
        html.element(Tag::Div, &[Attribute::Class("track"), Attribute::Hidden], |html| {
            for segment in &path.segments {
                let percent = |time: u64| part(time, record.elapsed_us) * 100.0;
                let span =
                    Attribute::Span(percent(segment.begin_us), percent(segment.end_us - segment.begin_us));
                html.element(Tag::Span, &[Attribute::Kind("bar", class(segment.kind)), span], |_| {});
            }
        });
    });
    let mut kinds: BTreeMap<&str, (SegmentKind, u64)> = BTreeMap::new();
    for segment in &path.segments {
        kinds.entry(segment.kind.name()).or_insert((segment.kind, 0)).1 += segment.end_us - segment.begin_us;
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    opkeep_order::by_key(&mut kinds, |(_, (_, time))| std::cmp::Reverse(*time));
    let table = Table {
        id: Id::Numbered("path-parts", at),
        caption: "Parts by kind",
        columns: &["part", "share", "time", "of the duration"],
    };
    table.write(
        html,
        kinds.iter().map(|(name, (kind, time))| {
            let share = part(*time, record.elapsed_us);
            let cells = vec![
                Cell::Text((*name).to_owned()),
                Cell::Bar(share, class(*kind)),
                Cell::Number(duration(*time), *time, "path-part"),
                Cell::Text(rate_text(*time, record.elapsed_us)),
            ];
            (None, cells)
        }),
    );
    html.element(Tag::Details, &[], |html| {
        html.line(Tag::Summary, &[], format_args!("{} of this path", counted(path.segments.len(), "part")));
        let table = Table {
            id: Id::Numbered("path-segments", at),
            caption: "Parts in their order",
            columns: &["part", "operator", "kernel", "begun", "time"],
        };
        table.write(html, path.segments.iter().map(|segment| (None, segment_cells(build, segment))));
    });
}

fn segment_cells(build: &BuildReport, segment: &PathSegment) -> Vec<Cell> {
    let kernel = segment.kernel.and_then(|at| build.record.kernels.get(at));
    let name = |text: Option<&String>| text.map_or(Cell::Empty, |text| Cell::Name(text.clone()));
    let time = segment.end_us - segment.begin_us;
    vec![
        Cell::Text(segment.kind.name().to_owned()),
        name(kernel.map(|kernel| &kernel.op_type)),
        name(kernel.map(|kernel| &kernel.name)),
        Cell::Number(duration(segment.begin_us), segment.begin_us, "segment-begun"),
        Cell::Number(duration(time), time, "segment-time"),
    ]
}

/// Returns the class of a part's bar.
fn class(kind: SegmentKind) -> &'static str {
    match kind {
        SegmentKind::Compile => "compiled",
        SegmentKind::Publish => "publish",
        SegmentKind::Queue => "queue",
        SegmentKind::Wait => "wait",
        SegmentKind::Between => "between",
        _ => "phase",
    }
}

/// Writes the costs by operator type.
pub(super) fn operators(html: &mut Html, report: &Report) {
    section(html, "operators", |html| {
        if report.operators.is_empty() {
            return paragraph(html, "No build is recorded.");
        }
        paragraph(
            html,
            format_args!(
                "All {} together, the dearest operators first.",
                counted(report.builds.len(), "recorded build")
            ),
        );
        let most = report.operators.iter().map(|cost| cost.compile_us.max(cost.saved_us)).max().unwrap_or(0);
        let table = Table {
            id: Id::Named("costs"),
            caption: "Cost by operator type",
            columns: &[
                "operator",
                "compiling",
                "time",
                "compiled",
                "on average",
                "longest",
                "failed",
                "found",
                "saving",
                "saved",
            ],
        };
        table.write(
            html,
            report.operators.iter().take(MAX_OPERATORS).map(|cost| (None, cost_cells(cost, most))),
        );
        if report.operators.len() > MAX_OPERATORS {
            paragraph(
                html,
                format_args!("and {}", counted(report.operators.len() - MAX_OPERATORS, "other type")),
            );
        }
    });
}

fn cost_cells(cost: &OperatorCost, most: u64) -> Vec<Cell> {
    let time = |micros: u64, figure| match micros {
        0 => Cell::Empty,
        _ => Cell::Number(duration(micros), micros, figure),
    };
    let count = |count: u64, figure| Cell::Number(count.to_string(), count, figure);
    vec![
        Cell::Name(cost.op_type.clone()),
        Cell::Bar(part(cost.compile_us, most), "compiled"),
        time(cost.compile_us, "operator-time"),
        count(cost.compiled, "operator-compiled"),
        time(cost.compile_us.checked_div(cost.compiled).unwrap_or(0), "operator-average"),
        time(cost.longest_us, "operator-longest"),
        count(cost.failed, "operator-failed"),
        count(cost.found, "operator-found"),
        Cell::Bar(part(cost.saved_us, most), "hit"),
        time(cost.saved_us, "operator-saved"),
    ]
}

/// Writes the hit rate over time.
pub(super) fn rates(html: &mut Html, report: &Report) {
    section(html, "rates", |html| {
        let mut builds: Vec<(usize, &BuildReport, f64)> = report
            .builds
            .iter()
            .enumerate()
            .filter_map(|(at, build)| Some((at, build, build.hit_rate().part()?)))
            .take(MAX_RATES)
            .collect();
        builds.reverse();
        if builds.is_empty() {
            return paragraph(html, "No build is recorded.");
        }
        let caption = Id::Named("rates-caption");
        html.line(
            Tag::A,
            &[Attribute::Class("skip"), Attribute::Link(Id::Named("rates-table"))],
            "Skip the figure",
        );
        html.element(Tag::Figure, &[Attribute::Class("rates"), Attribute::LabelledBy(caption)], |html| {
            html.line(
                Tag::Figcaption,
                &[Attribute::Id(caption)],
                format_args!(
                    "Part of the kernels that were in the store, {}, the latest on the right",
                    counted(builds.len(), "build")
                ),
            );
            html.element(Tag::Div, &[Attribute::Class("scale"), Attribute::Hidden], |html| {
                ["100 %", "50 %", "0 %"].iter().for_each(|text| html.line(Tag::Span, &[], text));
            });
            html.element(Tag::Div, &[Attribute::Class("columns")], |html| {
                for (at, build, rate) in &builds {
                    let text = format!(
                        "{}, {}: {} of {} in the store, {:.0} %",
                        utc(build.record.began_ms),
                        build.record.label,
                        build.hits,
                        counted(build.kernels, "kernel"),
                        rate * 100.0
                    );
                    let column = [
                        Attribute::Class("column"),
                        Attribute::Link(Id::Numbered("build", *at)),
                        Attribute::Label(&text),
                        Attribute::Tip(&text),
                    ];
                    html.element(Tag::A, &column, |html| {
                        html.element(
                            Tag::Span,
                            &[Attribute::Class("level"), Attribute::Height(rate * 100.0)],
                            |_| {},
                        );
                    });
                }
            });
        });
        let table = Table {
            id: Id::Named("rates-table"),
            caption: "Hit rate by build",
            columns: &["began", "model", "rate", "of the kernels", "in the store", "kernels"],
        };
        table.write(
            html,
            builds.iter().rev().map(|(_, build, rate)| {
                let cells = vec![
                    Cell::Text(utc(build.record.began_ms)),
                    Cell::Name(build.record.label.clone()),
                    Cell::Bar(*rate, "hit"),
                    Cell::Text(build.hit_rate().percent()),
                    Cell::Number(build.hits.to_string(), build.hits as u64, "rate-hits"),
                    Cell::Number(build.kernels.to_string(), build.kernels as u64, "rate-kernels"),
                ];
                (None, cells)
            }),
        );
    });
}

/// Writes the waits for locks and leases of others.
pub(super) fn waits(html: &mut Html, report: &Report) {
    section(html, "waits", |html| {
        let is_lost = |build: &&BuildReport| build.record.lost.sum_us() > 0;
        let lost: Vec<_> = report.builds.iter().filter(is_lost).take(MAX_WAITS).collect();
        let mut waits: Vec<_> = report
            .builds
            .iter()
            .flat_map(|build| build.waits().into_iter().map(move |kernel| (build, kernel)))
            .collect();
        opkeep_order::by_key(&mut waits, |(_, kernel)| std::cmp::Reverse(kernel.waited_us()));
        if lost.is_empty() && waits.is_empty() {
            return paragraph(
                html,
                "No recorded build waited for another process, another host or the remote cache.",
            );
        }
        let time = |micros: u64, figure| match micros {
            0 => Cell::Empty,
            _ => Cell::Number(duration(micros), micros, figure),
        };
        if !lost.is_empty() {
            let table = Table {
                id: Id::Named("lost"),
                caption: "Time in which a build did nothing but wait",
                columns: &["began", "model", "process", "for processes", "for hosts", "for the remote cache"],
            };
            table.write(
                html,
                lost.iter().map(|build| {
                    let record = &build.record;
                    let cells = vec![
                        Cell::Text(utc(record.began_ms)),
                        Cell::Name(record.label.clone()),
                        Cell::Text(record.process.to_string()),
                        time(record.lost.process_us, "lost-process"),
                        time(record.lost.host_us, "lost-host"),
                        time(record.lost.remote_us, "lost-remote"),
                    ];
                    (None, cells)
                }),
            );
        }
        if !waits.is_empty() {
            paragraph(
                html,
                "A thread works on other kernels while one waits for its lock, so the waits of kernels add up to more than \
                 the time that builds lost.",
            );
            let table = Table {
                id: Id::Named("lock-waits"),
                caption: "Kernels that waited for another process or host, the longest first",
                columns: &[
                    "operator",
                    "kernel",
                    "waited",
                    "time",
                    "for another",
                    "outcome",
                    "model",
                    "process",
                ],
            };
            let most = waits.first().map_or(0, |(_, kernel)| kernel.waited_us());
            table.write(
                html,
                waits.iter().take(MAX_WAITS).map(|(build, kernel)| {
                    let cells = vec![
                        Cell::Name(kernel.op_type.clone()),
                        Cell::Long(kernel.name.clone()),
                        Cell::Bar(part(kernel.waited_us(), most), "wait"),
                        time(kernel.waited_us(), "wait-time"),
                        Cell::Text(if kernel.waited_for_host { "host" } else { "process" }.to_owned()),
                        Cell::Text(kernel.outcome.clone()),
                        Cell::Name(build.record.label.clone()),
                        Cell::Text(build.record.process.to_string()),
                    ];
                    (None, cells)
                }),
            );
            if waits.len() > MAX_WAITS {
                paragraph(html, format_args!("and {}", counted(waits.len() - MAX_WAITS, "shorter wait")));
            }
        }
    });
}
