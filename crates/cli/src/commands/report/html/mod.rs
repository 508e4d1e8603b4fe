//! The report as one page of HTML, which loads nothing and runs nothing: it can be opened from a file, sent, and printed.
//!
//! Each figure has the same numbers in a table. A page is determined by its report.

mod builds;
mod contents;
mod section;
mod table;
mod timeline;
mod writer;

use self::section::{OF_BUILD, STORE, paragraph};
use self::writer::{Attribute, Html, Id, Tag};
use super::data::Report;
use super::time::{duration, utc};
use crate::ui::text::{bytes, counted};

/// The style sheet.
const STYLE: &str = include_str!("style.css");

/// So many bytes of a page decide whether it is one.
pub(super) const HEAD_BYTES: u64 = 512;

/// Whether a file that begins with `head` is a page of opkeep.
pub(super) fn is_page(head: &[u8]) -> bool {
    Html::is_page(head)
}

/// Returns the page of a report.
pub(super) fn page(report: &Report) -> String {
    let mut html = Html::default();
    let title = match &report.root {
        Some(root) => format!("opkeep report: {root}"),
        None => "opkeep build timings".to_owned(),
    };
    html.element(Tag::Html, &[Attribute::Lang("en")], |html| {
        html.head(&title, STYLE);
        html.element(Tag::Body, &[], |html| body(html, report));
    });
    html.into_page()
}

fn body(html: &mut Html, report: &Report) {
    let main = Id::Named("main");
    html.line(Tag::A, &[Attribute::Class("skip"), Attribute::Link(main)], "Skip to the content");
    let is_of_store = report.root.is_some();
    html.element(Tag::Header, &[], |html| {
        html.line(Tag::H1, &[], if is_of_store { "opkeep report" } else { "opkeep build timings" });
        html.element(Tag::P, &[Attribute::Class("about")], |html| {
            if let Some(root) = &report.root {
                html.text("Store ");
                html.name(root);
                html.text(", ");
            }
            html.text(format_args!("made on {}.", utc(report.made_ms)));
        });
        html.element(Tag::Nav, &[Attribute::Label("Sections")], |html| {
            html.element(Tag::Ul, &[], |html| {
                for (name, title) in
                    STORE.into_iter().filter(|(name, _)| is_of_store || OF_BUILD.contains(name))
                {
                    html.element(Tag::Li, &[], |html| {
                        html.line(Tag::A, &[Attribute::Link(Id::Named(name))], title);
                    });
                }
            });
        });
    });
    html.element(Tag::Main, &[Attribute::Id(main)], |html| {
        summary(html, report);
        timeline::write(html, report);
        builds::paths(html, report);
        builds::operators(html, report);
        if is_of_store {
            builds::rates(html, report);
        }
        builds::waits(html, report);
        if is_of_store {
            contents::store(html, report);
            contents::eviction(html, report);
            contents::quarantine(html, report);
        }
    });
    html.element(Tag::Footer, &[], |html| {
        html.line(Tag::P, &[], "This page is complete in itself: it loads nothing and runs no script. Times are those of each host's own clock.");
    });
}

/// Writes the totals.
fn summary(html: &mut Html, report: &Report) {
    let sum = |number: fn(&super::data::TargetReport) -> u64| {
        report.targets.iter().map(number).fold(0, u64::saturating_add)
    };
    let (kernels, all) = (sum(|target| target.usage.entries.files), sum(|target| target.usage.total().bytes));
    let damaged = sum(|target| target.quarantined.len() as u64);
    let item = |html: &mut Html, title: &str, shown: &str, value: u64, figure: &'static str| {
        html.element(Tag::Div, &[], |html| {
            html.line(Tag::Dt, &[], title);
            html.element(Tag::Dd, &[], |html| {
                html.line(Tag::Data, &[Attribute::Value(value), Attribute::Figure(figure)], shown);
            });
        });
    };
    html.element(Tag::Dl, &[Attribute::Class("totals")], |html| {
        if report.root.is_some() {
            item(html, "Kernels", &kernels.to_string(), kernels, "total-kernels");
            item(html, "Size", &bytes(all), all, "total-bytes");
            let rate = report.lookups_rate();
            item(html, "Hits of all look-ups", &rate.percent(), rate.hits, "total-hits");
            let saved = sum(|target| target.saved_us);
            item(html, "Compiling saved", &duration(saved), saved, "total-saved");
            item(html, "Quarantined", &damaged.to_string(), damaged, "total-quarantined");
        }
        let builds = report.builds.len() as u64;
        item(html, "Recorded builds", &builds.to_string(), builds, "total-builds");
        let rate = report.builds_rate();
        item(html, "Of their kernels in the store", &rate.percent(), rate.hits, "total-build-hits");
        if report.root.is_none() {
            let longest = report.builds.iter().map(|build| build.record.elapsed_us).max().unwrap_or(0);
            item(html, "Duration", &duration(longest), longest, "total-duration");
            let kernels = report.builds.iter().map(|build| build.kernels as u64);
            let kernels = kernels.fold(0, u64::saturating_add);
            item(html, "Kernels", &counted(kernels, "kernel"), kernels, "total-kernels");
        }
    });
    let skipped = [(report.records.damaged, "damaged"), (report.records.newer, "of a newer version")];
    for (count, what) in skipped.into_iter().filter(|(count, _)| *count > 0) {
        paragraph(html, format_args!("{} left out: {what}.", counted(count, "record")));
    }
}

#[cfg(test)]
mod tests;
