//! Tables of figures.

use super::writer::{Attribute, Html, Id, Tag};

/// A cell.
pub(super) enum Cell {
    /// Text of the page.
    Text(String),
    /// A name that is not the page's.
    Name(String),
    /// A long name or a sentence that is not the page's, such as a kernel's name, a key or a reason.
    Long(String),
    /// A number as it is shown, its exact value, and its name for programs.
    Number(String, u64, &'static str),
    /// A bar beside a number, from 0 to 1. It repeats a number of the same row.
    Bar(f64, &'static str),
    Empty,
}

/// A table.
pub(super) struct Table<'a> {
    pub(super) id: Id,
    pub(super) caption: &'a str,
    /// The titles of the columns. The first column names the rows.
    pub(super) columns: &'a [&'a str],
}

impl Table<'_> {
    /// Writes the table, with the place of each row in the page if there is one.
    pub(super) fn write(&self, html: &mut Html, rows: impl Iterator<Item = (Option<Id>, Vec<Cell>)>) {
        // On a narrow screen the table moves within its frame, which the keyboard reaches.
        let frame = [
            Attribute::Class("frame"),
            Attribute::Role("region"),
            Attribute::Label(self.caption),
            Attribute::Focusable,
        ];
        html.element(Tag::Div, &frame, |html| {
            html.element(Tag::Table, &[Attribute::Id(self.id)], |html| {
                html.line(Tag::Caption, &[], self.caption);
                html.element(Tag::Thead, &[], |html| {
                    html.element(Tag::Tr, &[], |html| {
                        for title in self.columns {
                            html.line(Tag::Th, &[Attribute::Scope("col")], title);
                        }
                    });
                });
                html.element(Tag::Tbody, &[], |html| {
                    for (id, cells) in rows {
                        let id = id.map(Attribute::Id);
                        html.element(Tag::Tr, id.as_slice(), |html| row(html, &cells));
                    }
                });
            });
        });
    }
}

fn row(html: &mut Html, cells: &[Cell]) {
    for (at, cell) in cells.iter().enumerate() {
        let (tag, scope) = match at {
            0 => (Tag::Th, Some(Attribute::Scope("row"))),
            _ => (Tag::Td, None),
        };
        let class = match cell {
            Cell::Number(..) => Some("number"),
            Cell::Bar(..) => Some("bars"),
            Cell::Name(_) => Some("name"),
            Cell::Long(_) => Some("long"),
            _ => None,
        };
        let attributes: Vec<Attribute<'_>> = scope.into_iter().chain(class.map(Attribute::Class)).collect();
        html.element(tag, &attributes, |html| match cell {
            Cell::Text(text) => html.text(text),
            Cell::Name(name) | Cell::Long(name) => html.name(name),
            Cell::Number(shown, value, figure) => {
                html.line(Tag::Data, &[Attribute::Value(*value), Attribute::Figure(figure)], shown);
            }
            Cell::Bar(part, kind) => {
                html.element(Tag::Span, &[Attribute::Class("track"), Attribute::Hidden], |html| {
                    // A bar of no length would be shown with its least width.
                    if *part > 0.0 {
                        let bar = [Attribute::Kind("bar", kind), Attribute::Span(0.0, part * 100.0)];
                        html.element(Tag::Span, &bar, |_| {});
                    }
                })
            }
            Cell::Empty => {}
        });
    }
}
