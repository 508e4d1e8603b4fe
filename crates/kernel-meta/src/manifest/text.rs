//! Formats and parses a line of the manifest.

use std::borrow::Cow;
use std::fmt::Write as _;

use opkeep_fs::{FileId, FileState};

use super::record::{Before, Known, Record, Writing};
use crate::content::check_stem;

const MARKS: [char; 5] = ['o', 'j', 'i', 'd', 'w'];
/// The marks of a file that is being replaced.
const MARKS_BEFORE: [char; 2] = ['a', 'd'];

/// Appends the line of the kernel called `stem`.
pub(super) fn write_line(record: &Record<'_>, stem: &str, line: &mut String) {
    let Record { files, before, writing, adopted, debug, slots } = record;
    line.push_str(stem);
    line.push('\t');
    let [object, json, info] = *adopted;
    let unmarked = line.len();
    let is_writing = writing.iter().any(Option::is_some);
    line.extend(set_marks(MARKS, [object, json, info, *debug, is_writing]));
    if line.len() == unmarked {
        line.push('-');
    }
    for ((Known { digest, seen }, before), writing) in files.iter().zip(before).zip(writing) {
        let _ = write!(line, "\t{digest}");
        if let Some(FileState { id: FileId { dev, ino }, len: size, mtime, ctime }) = seen {
            let _ = write!(line, " {dev} {ino} {size} {mtime} {ctime}");
        }
        if let Some(Before { digest, adopted, debug }) = before {
            let _ = write!(line, " {digest}");
            if *adopted || *debug {
                line.push(':');
                line.extend(set_marks(MARKS_BEFORE, [*adopted, *debug]));
            }
        }
        let _ = match writing {
            _ if !is_writing => Ok(()),
            None => line.write_str(" -"),
            Some(Writing::Planned) => line.write_str(" ?"),
            Some(Writing::Staged { ino, size, mtime }) => write!(line, " {ino},{size},{mtime}"),
        };
    }
    for slot in slots {
        line.push('\t');
        line.push_str(slot);
    }
}

pub(super) fn parse_kernel(line: &str) -> Option<(Cow<'_, str>, Record<'_>)> {
    let mut fields = Words { rest: Some(line), separator: b'\t' };
    let stem = fields.next()?;
    check_stem(stem).ok()?;
    let marks = fields.next()?;
    let [object, json, info, debug, is_writing] =
        if marks == "-" { [false; 5] } else { parse_marks(MARKS, marks)? };
    let adopted = [object, json, info];
    let mut writing = [None; 3];
    let mut next_file = |writing: &mut Option<Writing>| {
        let mut field = fields.next()?;
        if is_writing {
            let (file, word) = field.rsplit_once(' ')?;
            (field, *writing) = (file, parse_writing(word)?);
        }
        parse_file(field)
    };
    let [object, json, info] = &mut writing;
    let parsed = [next_file(object)?, next_file(json)?, next_file(info)?];
    let (files, before) = (parsed.map(|(known, _)| known), parsed.map(|(_, before)| before));
    let mut slots: Vec<Cow<'_, str>> = fields.map(Cow::Borrowed).collect();
    opkeep_order::sort(&mut slots);
    slots.dedup();
    Some((stem.into(), Record { files, before, writing, adopted, debug, slots }))
}

/// Parses a file's field into the facts about the file, and about the one that it replaces.
fn parse_file(field: &str) -> Option<(Known, Option<Before>)> {
    let mut words = Words { rest: Some(field), separator: b' ' };
    let digest = words.next()?.parse().ok()?;
    let Some(second) = words.next() else { return Some((Known { digest, seen: None }, None)) };
    let Some(ino) = words.next() else {
        return Some((Known { digest, seen: None }, Some(parse_before(second)?)));
    };
    let seen = FileState {
        id: FileId { dev: second.parse().ok()?, ino: ino.parse().ok()? },
        len: words.next()?.parse().ok()?,
        mtime: words.next()?.parse().ok()?,
        ctime: words.next()?.parse().ok()?,
    };
    let before = match words.next() {
        Some(before) => Some(parse_before(before)?),
        None => None,
    };
    words.next().is_none().then_some((Known { digest, seen: Some(seen) }, before))
}

/// Parses the last word of a file's field: the progress of writing the file, if it is being written.
fn parse_writing(word: &str) -> Option<Option<Writing>> {
    if let "-" | "?" = word {
        return Some((word == "?").then_some(Writing::Planned));
    }
    let mut numbers = word.splitn(3, ',');
    Some(Some(Writing::Staged {
        ino: numbers.next()?.parse().ok()?,
        size: numbers.next()?.parse().ok()?,
        mtime: numbers.next()?.parse().ok()?,
    }))
}

fn parse_before(word: &str) -> Option<Before> {
    let (digest, marks) = word.split_once(':').unwrap_or((word, ""));
    let [adopted, debug] = parse_marks(MARKS_BEFORE, marks)?;
    Some(Before { digest: digest.parse().ok()?, adopted, debug })
}

fn set_marks<const N: usize>(marks: [char; N], are_set: [bool; N]) -> impl Iterator<Item = char> {
    marks.into_iter().zip(are_set).filter(|(_, is_set)| *is_set).map(|(mark, _)| mark)
}

/// Returns for each of the `marks` whether `text` has it; `None` if `text` has another character.
fn parse_marks<const N: usize>(marks: [char; N], text: &str) -> Option<[bool; N]> {
    text.chars().all(|mark| marks.contains(&mark)).then(|| marks.map(|mark| text.contains(mark)))
}

/// An iterator over the words between separators. For such short words, it is faster than a search for a character in
/// the text.
struct Words<'a> {
    rest: Option<&'a str>,
    /// An ASCII character.
    separator: u8,
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let rest = self.rest?;
        let end = rest.bytes().position(|byte| byte == self.separator);
        self.rest = end.map(|end| &rest[end + 1..]);
        Some(&rest[..end.unwrap_or(rest.len())])
    }
}
