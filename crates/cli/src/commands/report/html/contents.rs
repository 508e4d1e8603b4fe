//! What is in the store, what eviction deletes next, and what is quarantined.

use std::time::Duration;

use super::super::data::{Report, Share, TargetReport};
use super::super::time::{ago, duration, utc};
use super::section::{paragraph, part, section};
use super::table::{Cell, Table};
use super::writer::{Attribute, Html, Id, Tag};
use crate::input::stored_kernel::UNNAMED;
use crate::ui::text::{bytes, counted};

/// The number of rows of operators, and of quarantined entries.
const MAX_ROWS: usize = 60;

/// Writes what is in the store.
pub(super) fn store(html: &mut Html, report: &Report) {
    section(html, "contents", |html| {
        if report.targets.is_empty() {
            return paragraph(html, "The store is empty.");
        }
        paragraph(html, limit_text(report));
        let most = report.targets.iter().map(|target| target.usage.total().bytes).max().unwrap_or(0);
        let most = report.max_bytes.unwrap_or(0).max(most);
        let table = Table {
            id: Id::Named("targets"),
            caption: "By target",
            columns: &[
                "target",
                "of the limit",
                "size",
                "kernels",
                "files",
                "hits",
                "misses",
                "hit rate",
                "compiled",
                "saved",
            ],
        };
        table.write(html, report.targets.iter().map(|target| (None, target_cells(target, most))));
        for (at, target) in report.targets.iter().enumerate() {
            html.element(Tag::H3, &[], |html| html.name(&target.target));
            let lists: [(&'static str, &str, &str, &[Share], &str); 4] = [
                ("frameworks", "By framework", "framework", &target.frameworks, "opkeep"),
                (
                    "kernels-of",
                    "By operator, or a framework's name of the kernel",
                    "operator",
                    &target.operators,
                    UNNAMED,
                ),
                ("unused", "By the time since the last use", "last used", &target.unused, ""),
                ("ages", "By age", "made", &target.age, ""),
            ];
            html.element(Tag::Div, &[Attribute::Class("pair")], |html| {
                for (id, caption, title, list, unnamed) in lists {
                    shares(html, Id::Numbered(id, at), (caption, title), list, unnamed);
                }
            });
            if target.unreadable > 0 {
                let kernels = counted(target.unreadable, "kernel");
                paragraph(
                    html,
                    format_args!("{kernels} could not be read, and are in none of these tables."),
                );
            }
        }
    });
}

fn limit_text(report: &Report) -> String {
    let percent = report.remain_percent.unwrap_or(0);
    match (report.max_bytes, report.max_entries) {
        (None, _) => "The store has no limit.".to_owned(),
        (Some(max), None) => {
            format!("Limit: {} a target, of which an eviction leaves {percent} %.", bytes(max))
        }
        (Some(max), Some(entries)) => {
            format!(
                "Limit: {} and {} a target, of which an eviction leaves {percent} %.",
                bytes(max),
                counted(entries, "kernel")
            )
        }
    }
}

fn target_cells(target: &TargetReport, most: u64) -> Vec<Cell> {
    let count = |count: u64, figure| Cell::Number(count.to_string(), count, figure);
    vec![
        Cell::Name(target.target.clone()),
        Cell::Bar(part(target.usage.total().bytes, most), "compiled"),
        Cell::Number(bytes(target.usage.total().bytes), target.usage.total().bytes, "target-bytes"),
        count(target.usage.entries.files, "target-kernels"),
        count(target.usage.total().files, "target-files"),
        count(target.hits, "target-hits"),
        count(target.misses, "target-misses"),
        Cell::Text(target.hit_rate().percent()),
        count(target.compiles, "target-compiles"),
        Cell::Number(duration(target.saved_us), target.saved_us, "target-saved"),
    ]
}

/// Writes the parts of a target's entries.
fn shares(html: &mut Html, id: Id, (caption, title): (&str, &str), list: &[Share], unnamed: &str) {
    let most = list.iter().map(|share| share.bytes).max().unwrap_or(0);
    let columns = [title, "share", "size", "kernels"];
    let table = Table { id, caption, columns: &columns };
    let rows = list.iter().take(MAX_ROWS).map(|share| {
        let cells = vec![
            share
                .name
                .as_ref()
                .map_or_else(|| Cell::Text(unnamed.to_owned()), |name| Cell::Name(name.clone())),
            Cell::Bar(part(share.bytes, most), "compiled"),
            Cell::Number(bytes(share.bytes), share.bytes, "share-bytes"),
            Cell::Number(share.kernels.to_string(), share.kernels, "share-kernels"),
        ];
        (None, cells)
    });
    let other = list
        .iter()
        .skip(MAX_ROWS)
        .fold((0, 0), |(bytes, kernels), share| (bytes + share.bytes, kernels + share.kernels));
    let others = (list.len() > MAX_ROWS).then(|| {
        let cells = vec![
            Cell::Text(counted(list.len() - MAX_ROWS, "other")),
            Cell::Empty,
            Cell::Number(bytes(other.0), other.0, "share-bytes"),
            Cell::Number(other.1.to_string(), other.1, "share-kernels"),
        ];
        (None, cells)
    });
    table.write(html, rows.chain(others));
}

/// Writes what eviction deletes next.
pub(super) fn eviction(html: &mut Html, report: &Report) {
    section(html, "eviction", |html| {
        paragraph(
            html,
            "If a target is larger than its limit, kernels that were not used for half an hour are deleted: of those unused \
             for the longest time, the ones that are the cheapest to compile for their size first.",
        );
        for (at, target) in report.targets.iter().enumerate() {
            let preview = &target.eviction;
            html.element(Tag::P, &[], |html| {
                html.name(&target.target);
                let idle =
                    format!("{} ({})", counted(preview.idle_kernels, "kernel"), bytes(preview.idle_bytes));
                let state = match (preview.is_over, report.max_bytes) {
                    (true, _) => "it is over its limit; the next build evicts",
                    (false, None) => "it has no limit, so nothing is evicted",
                    (false, Some(_)) => "it is within its limit",
                };
                html.text(format_args!(": {state}. {idle} may be evicted."));
            });
            if preview.next.is_empty() {
                continue;
            }
            let caption = if preview.is_over {
                "Evicted next"
            } else {
                "Evicted first, if the limit were exceeded now"
            };
            let table = Table {
                id: Id::Numbered("next", at),
                caption,
                columns: &["order", "kernel", "framework", "last used", "size", "compile", "key"],
            };
            table.write(
                html,
                preview.next.iter().enumerate().map(|(order, next)| {
                    let unused = Duration::from_millis(report.made_ms.saturating_sub(next.last_used_ms));
                    let compile = next.compile_us.map_or_else(
                        || Cell::Text("unknown".to_owned()),
                        |micros| Cell::Number(duration(micros), micros, "next-compile"),
                    );
                    let cells = vec![
                        Cell::Text((order + 1).to_string()),
                        next.kernel.as_ref().map_or(Cell::Empty, |kernel| Cell::Name(kernel.clone())),
                        Cell::Name(next.framework.clone().unwrap_or_else(|| "opkeep".to_owned())),
                        Cell::Text(ago(unused)),
                        Cell::Number(bytes(next.bytes), next.bytes, "next-bytes"),
                        compile,
                        Cell::Long(next.key.clone()),
                    ];
                    (None, cells)
                }),
            );
        }
    });
}

/// Writes what is quarantined.
pub(super) fn quarantine(html: &mut Html, report: &Report) {
    section(html, "quarantine", |html| {
        if report.targets.iter().all(|target| target.quarantined.is_empty()) {
            return paragraph(html, "Nothing is quarantined.");
        }
        paragraph(html, "Damaged entries, which builds compiled again. They are deleted after a week.");
        for (at, target) in
            report.targets.iter().enumerate().filter(|(_, target)| !target.quarantined.is_empty())
        {
            html.element(Tag::H3, &[], |html| html.name(&target.target));
            let table = Table {
                id: Id::Numbered("quarantined", at),
                caption: "Quarantined entries, the latest first",
                columns: &["since", "reason", "size", "key"],
            };
            table.write(
                html,
                target.quarantined.iter().take(MAX_ROWS).map(|entry| {
                    let cells = vec![
                        Cell::Text(utc(entry.at_ms)),
                        Cell::Long(
                            entry.reason.clone().unwrap_or_else(|| "(no reason was written)".to_owned()),
                        ),
                        Cell::Number(bytes(entry.bytes), entry.bytes, "quarantined-bytes"),
                        Cell::Long(entry.key.clone()),
                    ];
                    (None, cells)
                }),
            );
            if target.quarantined.len() > MAX_ROWS {
                paragraph(
                    html,
                    format_args!("and {}", counted(target.quarantined.len() - MAX_ROWS, "older one")),
                );
            }
        }
    });
}
