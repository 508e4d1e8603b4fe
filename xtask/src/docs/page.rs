//! A page in Markdown: its anchors, its links, and the files that it includes.

use std::collections::BTreeSet;
use std::ops::Range;

/// What a page refers to and what others can refer to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    /// The fragments by which links reach its headings.
    pub(super) anchors: BTreeSet<String>,
    pub(super) links: Vec<Reference>,
    /// The files that the book's builder inserts, `path` or `path:anchor`.
    pub(super) includes: Vec<Reference>,
}

/// A place in the text that names a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reference {
    pub(super) line: usize,
    /// The bytes of the target in the page's text.
    pub(super) range: Range<usize>,
    pub(super) target: String,
    /// For a link, all of it and the text that a reader sees.
    pub(super) whole: Range<usize>,
    pub(super) text: Range<usize>,
}

const INCLUDE: &str = "{{#include ";

impl Page {
    pub(super) fn read(text: &str) -> Self {
        let mut page = Self::default();
        let (mut start, mut fence) = (0, None);
        for (number, line) in (1..).zip(text.split_inclusive('\n')) {
            let trimmed = line.trim_start();
            let marks = trimmed.bytes().take_while(|byte| *byte == b'`').count();
            page.find_include(number, start, line);
            match fence {
                Some(open) if marks >= open && trimmed[marks..].trim().is_empty() => fence = None,
                Some(_) => {}
                None if marks >= 3 => fence = Some(marks),
                None => page.read_prose(number, start, line),
            }
            start += line.len();
        }
        page
    }

    fn read_prose(&mut self, number: usize, start: usize, line: &str) {
        let level = line.bytes().take_while(|byte| *byte == b'#').count();
        if (1..=6).contains(&level) && line[level..].starts_with(' ') {
            self.add_anchor(&slug(line[level..].trim()));
        }
        for (_, rest) in attributes(line, "id") {
            self.anchors.insert(rest.to_owned());
        }
        let prose = without_code(line);
        let references = inline_links(&prose).into_iter().chain(definition(&prose));
        self.links.extend(references.map(|(whole, text, target)| Reference {
            line: number,
            target: line[target.clone()].to_owned(),
            range: shifted(target, start),
            whole: shifted(whole, start),
            text: shifted(text, start),
        }));
        for (at, target) in attributes(&prose, "src").into_iter().chain(attributes(&prose, "href")) {
            let range = shifted(at..at + target.len(), start);
            self.links.push(Reference {
                line: number,
                target: target.to_owned(),
                whole: range.clone(),
                text: range.clone(),
                range,
            });
        }
    }

    fn find_include(&mut self, number: usize, start: usize, line: &str) {
        let Some(at) = line.find(INCLUDE).map(|at| at + INCLUDE.len()) else { return };
        let Some(length) = line[at..].find("}}") else { return };
        let range = start + at..start + at + length;
        let target = line[at..at + length].trim().to_owned();
        self.includes.push(Reference {
            line: number,
            target,
            whole: range.clone(),
            text: range.clone(),
            range,
        });
    }

    /// The second heading of a name has the fragment `name-1`.
    fn add_anchor(&mut self, slug: &str) {
        let numbered = (1..).map(|number| format!("{slug}-{number}"));
        let free = std::iter::once(slug.to_owned()).chain(numbered).find(|name| !self.anchors.contains(name));
        self.anchors.extend(free);
    }
}

fn shifted(range: Range<usize>, by: usize) -> Range<usize> {
    range.start + by..range.end + by
}

/// The fragment of a heading, as GitHub and mdBook derive it.
fn slug(heading: &str) -> String {
    let mut text = heading.to_owned();
    while let Some((whole, shown, _)) = inline_links(&text).into_iter().next() {
        text = format!("{}{}{}", &text[..whole.start], &text[shown], &text[whole.end..]);
    }
    let of = |c: char| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
        _ => None,
    };
    text.to_lowercase().chars().filter_map(of).collect()
}

/// The line with blanks in place of what stands in backquotes, so that all places stay where they are.
fn without_code(line: &str) -> String {
    let mut text = line.to_owned();
    let mut from = 0;
    while let Some(start) = text[from..].find('`').map(|at| at + from) {
        let marks = text[start..].bytes().take_while(|byte| *byte == b'`').count();
        let after = start + marks;
        let Some(end) = text[after..].find(&"`".repeat(marks)).map(|at| at + after + marks) else { break };
        let blank: String = text[start..end].bytes().map(|_| ' ').collect();
        text.replace_range(start..end, &blank);
        from = end;
    }
    text
}

/// `[text](target)`, each as the whole, the text and the target.
fn inline_links(line: &str) -> Vec<(Range<usize>, Range<usize>, Range<usize>)> {
    let mut links = Vec::new();
    let mut from = 0;
    while let Some(middle) = line[from..].find("](").map(|at| at + from) {
        let target = middle + 2;
        from = target;
        let (Some(start), Some(length)) = (opening(&line[..middle]), line[target..].find(')')) else {
            continue;
        };
        // A title in quotes is no part of the target.
        let length = line[target..target + length].find(" \"").unwrap_or(length);
        let end = line[target..].find(')').map_or(line.len(), |at| target + at + 1);
        let start_of_whole = start - usize::from(line[..start].ends_with('!'));
        links.push((start_of_whole..end, start + 1..middle, target..target + length));
    }
    links
}

/// The bracket that the end of `text` would close.
fn opening(text: &str) -> Option<usize> {
    let mut open = 0;
    for (at, byte) in text.bytes().enumerate().rev() {
        match byte {
            b']' => open += 1,
            b'[' if open == 0 => return Some(at),
            b'[' => open -= 1,
            _ => {}
        }
    }
    None
}

/// `[name]: target`.
fn definition(line: &str) -> Option<(Range<usize>, Range<usize>, Range<usize>)> {
    let middle = line.starts_with('[').then(|| line.find("]: "))??;
    let target = middle + 3;
    let end = target + line[target..].trim_end().len();
    Some((0..end, 1..middle, target..end))
}

/// The values of an attribute of HTML, with their places.
pub(super) fn attributes<'a>(text: &'a str, name: &str) -> Vec<(usize, &'a str)> {
    let start = format!(" {name}=\"");
    let value = |(at, _): (usize, &str)| {
        let at = at + start.len();
        text[at..].find('"').map(|length| (at, &text[at..at + length]))
    };
    text.match_indices(&start).filter_map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(text: &str) -> Vec<String> {
        Page::read(text).links.into_iter().map(|link| link.target).collect()
    }

    #[test]
    fn links_are_found_outside_of_code() {
        let text =
            "# A\nSee [b](b.md), [`c`](c.md#d) and `[no](no.md)`.\n```sh\n[no](no.md)\n```\n[e]: e.md\n";
        assert_eq!(targets(text), ["b.md", "c.md#d", "e.md"]);
        assert_eq!(targets("![a [b]](a.svg \"title\") <img alt=\"x\" src=\"x.svg\">"), ["a.svg", "x.svg"]);
        assert_eq!(targets("````text\n```\n[no](no.md)\n````\n[a](a.md)"), ["a.md"]);
    }

    #[test]
    fn a_link_knows_its_places() {
        let text = "\nx ![a](b.md#c) y";
        let page = Page::read(text);
        let link = &page.links[0];
        assert_eq!((link.line, &text[link.range.clone()]), (2, "b.md#c"));
        assert_eq!((&text[link.whole.clone()], &text[link.text.clone()]), ("![a](b.md#c)", "a"));
    }

    #[test]
    fn headings_have_fragments() {
        let page = Page::read(
            "# What a `compile_it` may read, and [why](x.md)?\n## A\n## A\n<a id=\"own\"></a>\n#no",
        );
        let anchors: Vec<_> = page.anchors.iter().map(String::as_str).collect();
        assert_eq!(anchors, ["a", "a-1", "own", "what-a-compile_it-may-read-and-why"]);
    }

    #[test]
    fn includes_are_found_in_code() {
        let page = Page::read("```rust\n{{#include ../a.rs:b}}\n```\n");
        assert_eq!(page.includes[0].target, "../a.rs:b");
    }
}
