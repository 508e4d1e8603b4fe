//! The sections of the page, and the texts that they share.

use std::fmt::Display;

use super::writer::{Attribute, Html, Id, Tag};

/// The sections of a report of a store.
pub(super) const STORE: [(&str, &str); 8] = [
    ("timeline", "Last builds"),
    ("path", "Critical path"),
    ("operators", "Cost by operator"),
    ("rates", "Hit rate"),
    ("waits", "Waits"),
    ("contents", "Store"),
    ("eviction", "Next evictions"),
    ("quarantine", "Quarantine"),
];
/// Those that a report of one build has.
pub(super) const OF_BUILD: [&str; 4] = ["timeline", "path", "operators", "waits"];

/// Writes a section with its title.
pub(super) fn section(html: &mut Html, name: &'static str, content: impl FnOnce(&mut Html)) {
    let title = STORE.iter().find(|(known, _)| *known == name).map_or("", |(_, title)| title);
    let id = Id::Numbered(name, 0);
    html.element(Tag::Section, &[Attribute::Id(Id::Named(name)), Attribute::LabelledBy(id)], |html| {
        html.line(Tag::H2, &[Attribute::Id(id)], title);
        content(html);
    });
}

/// Writes a paragraph.
pub(super) fn paragraph(html: &mut Html, text: impl Display) {
    html.line(Tag::P, &[], text);
}

/// `62.5 %`; `none` without any.
pub(super) fn rate_text(part: u64, all: u64) -> String {
    match all {
        0 => "none".to_owned(),
        _ => format!("{:.1} %", part as f64 * 100.0 / all as f64),
    }
}

/// Returns a part of a total, from 0 to 1.
pub(super) fn part(number: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { number as f64 / all as f64 }
}
