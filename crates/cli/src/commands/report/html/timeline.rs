//! The timeline of the last builds: a lane a thread, by host and process; builds that overlap in time share one axis.

use std::collections::BTreeSet;

use opkeep::{BuildRecord, RecordedKernel, SegmentKind};

use super::super::data::{BuildReport, Report, concurrent};
use super::super::time::{duration, utc};
use super::section::{paragraph, section};
use super::table::{Cell, Table};
use super::writer::{Attribute, Html, Id, Tag};
use crate::ui::text::counted;

/// The number of builds in the timeline.
const MAX_BUILDS: usize = 12;
/// The number of kernels of a build that are shown: those that took the longest.
const MAX_KERNELS: usize = 300;
/// The number of lanes for threads of one build, and for its waits.
const MAX_LANES: usize = 1024;
const MAX_WAIT_LANES: usize = 6;
/// The number of parts into which the axis is divided.
const TICKS: u64 = 4;
/// The width, in percent, from which a bar has a text.
const LABELLED: f64 = 7.0;

/// The kinds of bars: the class, and what the legend says.
const LEGEND: [(&str, &str); 7] = [
    ("phase", "plan, look-ups and end of the build"),
    ("queue", "wait for a job token"),
    ("compiled", "compiled"),
    ("shared", "compiled by another process or host"),
    ("remote", "from the remote cache"),
    ("failed", "failed, skipped or cancelled"),
    ("wait", "wait for another process or host"),
];

/// Writes the section.
pub(super) fn write(html: &mut Html, report: &Report) {
    section(html, "timeline", |html| {
        let groups = concurrent(&report.builds, MAX_BUILDS);
        if groups.is_empty() {
            paragraph(html, "No recorded build compiled anything, or waited for a kernel.");
        } else {
            paragraph(
                html,
                "A lane is a thread of a build, a bar a kernel. Builds that overlap in time share one axis. \
                 Each bar leads to its row in the table of kernels.",
            );
            legend(html);
        }
        for (number, group) in groups.iter().enumerate() {
            let builds: Vec<(usize, &BuildReport)> =
                group.iter().map(|at| (*at, &report.builds[*at])).collect();
            write_group(html, number, &builds);
        }
        all_builds(html, report);
    });
}

fn legend(html: &mut Html) {
    html.element(Tag::Ul, &[Attribute::Class("legend"), Attribute::Label("Kinds of bars")], |html| {
        for (kind, text) in LEGEND {
            html.element(Tag::Li, &[], |html| {
                html.element(Tag::Span, &[Attribute::Kind("swatch", kind), Attribute::Hidden], |_| {});
                html.text(text);
            });
        }
    });
}

/// The time axis of a figure.
#[derive(Clone, Copy)]
struct Axis {
    /// The time of its beginning.
    began_ms: u64,
    length_us: u64,
}

impl Axis {
    fn of(builds: &[(usize, &BuildReport)]) -> Self {
        let began_ms = builds.iter().map(|(_, build)| build.record.began_ms).min().unwrap_or(0);
        let axis = Self { began_ms, length_us: 0 };
        let end = |build: &BuildRecord| axis.offset(build).saturating_add(build.elapsed_us);
        let length_us = builds.iter().map(|(_, build)| end(&build.record)).max().unwrap_or(0).max(1);
        Self { began_ms, length_us }
    }

    /// Returns the beginning of a build on the axis.
    fn offset(self, build: &BuildRecord) -> u64 {
        build.began_ms.saturating_sub(self.began_ms).saturating_mul(1000)
    }

    /// Returns the beginning and the width of a span in percent. Its times are those since `offset`, the beginning of its build.
    fn span(self, offset: u64, begin_us: u64, end_us: u64) -> (f64, f64) {
        let percent = |time: u64| time as f64 * 100.0 / self.length_us as f64;
        (percent(offset.saturating_add(begin_us)), percent(end_us.saturating_sub(begin_us)))
    }
}

fn write_group(html: &mut Html, number: usize, builds: &[(usize, &BuildReport)]) {
    let axis = Axis::of(builds);
    html.element(Tag::H3, &[], |html| {
        html.text(format_args!("{}, ", utc(axis.began_ms)));
        match builds {
            [(_, build)] => html.name(&build.record.label),
            builds => html.text(counted(builds.len(), "build")),
        }
    });
    let caption = Id::Numbered("timeline-caption", number);
    let figure = [Attribute::Class("timeline"), Attribute::LabelledBy(caption)];
    let table = Id::Numbered("kernels", builds.first().map_or(0, |(at, _)| *at));
    html.line(Tag::A, &[Attribute::Class("skip"), Attribute::Link(table)], "Skip the timeline");
    html.element(Tag::Figure, &figure, |html| {
        html.line(
            Tag::Figcaption,
            &[Attribute::Id(caption)],
            format_args!("Timeline of {}, {} long", counted(builds.len(), "build"), duration(axis.length_us)),
        );
        for (at, build) in builds {
            lanes(html, axis, *at, build);
        }
        html.element(Tag::Div, &[Attribute::Class("axis"), Attribute::Hidden], |html| {
            for tick in 0..=TICKS {
                html.line(Tag::Span, &[], duration(axis.length_us / TICKS * tick));
            }
        });
    });
    for (at, build) in builds {
        kernels_table(html, *at, build);
    }
}

/// Writes the lanes of a build: its phases, its threads, and what it waited for.
fn lanes(html: &mut Html, axis: Axis, at: usize, build: &BuildReport) {
    let record = &build.record;
    html.element(Tag::P, &[Attribute::Class("lanes-of")], |html| {
        html.name(&record.host);
        html.text(format_args!(", process {}: ", record.process));
        html.name(&record.label);
        html.text(format_args!(", {}", duration(record.elapsed_us)));
    });
    let offset = axis.offset(record);
    lane(html, "build", |html| {
        for segment in &build.path.segments {
            let kind = segment.kind;
            if matches!(
                kind,
                SegmentKind::Plan | SegmentKind::LookUp | SegmentKind::Fetch | SegmentKind::Finish
            ) {
                let (left, width) = axis.span(offset, segment.begin_us, segment.end_us);
                let time = segment.end_us.saturating_sub(segment.begin_us);
                let tip = format!("{}, {}", kind.name(), duration(time));
                let bar = [
                    Attribute::Kind("bar", "phase"),
                    Attribute::Span(left, width),
                    Attribute::Role("img"),
                    Attribute::Label(&tip),
                    Attribute::Tip(&tip),
                ];
                html.element(Tag::Span, &bar, |_| {});
            }
        }
    });
    let shown = shown_kernels(record);
    // Those that finished kernels: a number in a file may be any.
    let workers: BTreeSet<usize> =
        opkeep_order::set(record.kernels.iter().filter_map(|kernel| kernel.worker));
    for worker in workers.into_iter().take(MAX_LANES) {
        lane(html, &format!("thread {}", worker.saturating_add(1)), |html| {
            for (index, kernel) in shown.iter().filter(|(_, kernel)| kernel.worker == Some(worker)) {
                kernel_bar(html, axis, offset, (at, *index), kernel);
            }
        });
    }
    for waits in wait_lanes(&shown) {
        lane(html, "waits", |html| {
            for (index, kernel) in waits {
                let (left, width) = axis.span(offset, kernel.begin_us, kernel.last_us);
                let whom = if kernel.waited_for_host { "host" } else { "process" };
                let text = format!(
                    "{} {}, waited {} for another {whom}",
                    kernel.op_type,
                    kernel.name,
                    duration(kernel.waited_us())
                );
                bar(html, "wait", (left, width), Id::Nested("kernel", at, index), &text, "");
            }
        });
    }
}

fn lane(html: &mut Html, name: &str, bars: impl FnOnce(&mut Html)) {
    html.element(Tag::Div, &[Attribute::Class("lane")], |html| {
        html.line(Tag::Span, &[Attribute::Class("lane-name")], name);
        html.element(Tag::Div, &[Attribute::Class("track")], bars);
    });
}

fn kernel_bar(
    html: &mut Html,
    axis: Axis,
    offset: u64,
    (build, index): (usize, usize),
    kernel: &RecordedKernel,
) {
    let worked = kernel.compile_us.unwrap_or(kernel.last_us);
    if worked > kernel.last_us {
        let (left, width) = axis.span(offset, kernel.last_us, worked);
        let queue = [Attribute::Kind("bar", "queue"), Attribute::Span(left, width), Attribute::Hidden];
        html.element(Tag::Span, &queue, |_| {});
    }
    let text = format!(
        "{} {}, {}, {} from {} to {}",
        kernel.op_type,
        kernel.name,
        outcome_text(kernel),
        duration(kernel.end_us.saturating_sub(worked)),
        duration(worked),
        duration(kernel.end_us)
    );
    let span = axis.span(offset, worked, kernel.end_us);
    let shown = if span.1 >= LABELLED { kernel.op_type.as_str() } else { "" };
    bar(html, kind_of(kernel), span, Id::Nested("kernel", build, index), &text, shown);
}

/// Writes a bar that leads to a row.
fn bar(html: &mut Html, kind: &'static str, (left, width): (f64, f64), row: Id, text: &str, shown: &str) {
    let attributes = [
        Attribute::Kind("bar", kind),
        Attribute::Span(left, width),
        Attribute::Link(row),
        Attribute::Label(text),
        Attribute::Tip(text),
    ];
    html.element(Tag::A, &attributes, |html| {
        if !shown.is_empty() {
            html.name(shown);
        }
    });
}

/// Returns the class of a kernel's bar.
fn kind_of(kernel: &RecordedKernel) -> &'static str {
    match kernel.outcome.as_str() {
        "compiled" | "bypassed" => "compiled",
        _ if kernel.from_remote => "remote",
        "shared" | "reused" => "shared",
        _ => "failed",
    }
}

fn outcome_text(kernel: &RecordedKernel) -> String {
    let from = if kernel.from_remote { " from the remote cache" } else { "" };
    format!("{}{from}", kernel.outcome)
}

/// Returns the kernels that are shown, with their indices in the record, in its order.
fn shown_kernels(record: &BuildRecord) -> Vec<(usize, &RecordedKernel)> {
    let mut kernels: Vec<_> = record.kernels.iter().enumerate().collect();
    opkeep_order::by_key(&mut kernels, |(at, kernel)| {
        (std::cmp::Reverse(kernel.end_us.saturating_sub(kernel.begin_us)), *at)
    });
    kernels.truncate(MAX_KERNELS);
    opkeep_order::by_key(&mut kernels, |(at, _)| *at);
    kernels
}

/// Returns lanes of waits of which none overlap. What needs more lanes is in the table only.
fn wait_lanes<'k>(kernels: &[(usize, &'k RecordedKernel)]) -> Vec<Vec<(usize, &'k RecordedKernel)>> {
    let mut lanes: Vec<Vec<(usize, &RecordedKernel)>> = Vec::new();
    for (at, kernel) in kernels.iter().filter(|(_, kernel)| kernel.waited_us() > 0) {
        let is_free = |lane: &Vec<(usize, &RecordedKernel)>| {
            lane.last().is_none_or(|(_, last)| last.last_us <= kernel.begin_us)
        };
        match lanes.iter().position(is_free) {
            Some(free) => lanes[free].push((*at, *kernel)),
            None if lanes.len() < MAX_WAIT_LANES => lanes.push(vec![(*at, *kernel)]),
            None => {}
        }
    }
    lanes
}

/// Writes the kernels of a build.
fn kernels_table(html: &mut Html, at: usize, build: &BuildReport) {
    let record = &build.record;
    let shown = shown_kernels(record);
    html.element(Tag::Details, &[], |html| {
        html.element(Tag::Summary, &[], |html| {
            html.text(format_args!("{} of ", counted(shown.len(), "kernel")));
            html.name(&record.label);
            html.text(format_args!(" on {}, process {}", record.host, record.process));
        });
        let left = (record.kernels.len() - shown.len()).saturating_add(record.omitted);
        if left > 0 {
            paragraph(html, format_args!("{} that took less time are left out.", counted(left, "kernel")));
        }
        let table = Table {
            id: Id::Numbered("kernels", at),
            caption: "Kernels that were not in the store",
            columns: &[
                "operator",
                "kernel",
                "outcome",
                "thread",
                "begun",
                "waited",
                "queued",
                "compiled in",
                "end",
                "key",
            ],
        };
        table.write(
            html,
            shown.iter().map(|(index, kernel)| {
                let time = |micros: u64, figure| Cell::Number(duration(micros), micros, figure);
                let cells = vec![
                    Cell::Name(kernel.op_type.clone()),
                    Cell::Long(kernel.name.clone()),
                    Cell::Text(outcome_text(kernel)),
                    kernel
                        .worker
                        .map_or(Cell::Empty, |worker| Cell::Text(worker.saturating_add(1).to_string())),
                    time(kernel.begin_us, "kernel-begun"),
                    time(kernel.waited_us(), "kernel-waited"),
                    time(kernel.queued_us(), "kernel-queued"),
                    kernel.compile_time_us.map_or(Cell::Empty, |micros| time(micros, "kernel-compile")),
                    time(kernel.end_us, "kernel-end"),
                    kernel.key.as_ref().map_or(Cell::Empty, |key| Cell::Long(key.clone())),
                ];
                (Some(Id::Nested("kernel", at, *index)), cells)
            }),
        );
    });
}

/// Writes all recorded builds.
fn all_builds(html: &mut Html, report: &Report) {
    let table = Table {
        id: Id::Named("builds"),
        caption: "Recorded builds, the latest first",
        columns: &[
            "began",
            "model",
            "host",
            "process",
            "target",
            "duration",
            "kernels",
            "in the store",
            "compiled",
            "failed",
            "shared",
            "remote",
        ],
    };
    table.write(
        html,
        report.builds.iter().enumerate().map(|(at, build)| {
            let record = &build.record;
            let count = |count: usize, figure| Cell::Number(count.to_string(), count as u64, figure);
            let cells = vec![
                Cell::Text(utc(record.began_ms)),
                Cell::Name(record.label.clone()),
                Cell::Name(record.host.clone()),
                Cell::Text(record.process.to_string()),
                Cell::Name(record.targets.join(", ")),
                Cell::Number(duration(record.elapsed_us), record.elapsed_us, "build-duration"),
                count(build.kernels, "build-kernels"),
                count(build.hits, "build-hits"),
                count(record.count(opkeep::Outcome::Compiled), "build-compiled"),
                count(record.count(opkeep::Outcome::Failed), "build-failed"),
                count(record.count(opkeep::Outcome::Shared), "build-shared"),
                count(record.from_remote, "build-remote"),
            ];
            (Some(Id::Numbered("build", at)), cells)
        }),
    );
}
