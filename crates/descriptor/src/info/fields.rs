//! Reading of JSON objects field by field, with errors that name the path.

use std::collections::BTreeSet;
use std::fmt;
use std::iter;

use serde_json::{Map, Value};

use crate::info::node::{Items, Members, Node, map};
use crate::model::job::Extra;

/// A position in a document: `job_content.op_list[1].shape`. Built on the stack; rendered only in an error.
#[derive(Clone, Copy)]
pub(crate) enum Position<'a> {
    Root,
    Field(&'a Position<'a>, &'a str),
    Item(&'a Position<'a>, usize),
}

impl fmt::Display for Position<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Position::Root => Ok(()),
            Position::Field(Position::Root, name) => f.write_str(name),
            Position::Field(parent, name) => write!(f, "{parent}.{name}"),
            Position::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

impl Position<'_> {
    fn steps(&self) -> Vec<PathStep> {
        match self {
            Position::Root => Vec::new(),
            Position::Field(parent, name) => with(parent.steps(), PathStep::Field((*name).to_owned())),
            Position::Item(parent, index) => with(parent.steps(), PathStep::Item(*index)),
        }
    }
}

fn with(mut steps: Vec<PathStep>, step: PathStep) -> Vec<PathStep> {
    steps.push(step);
    steps
}

/// One step of a path into a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PathStep {
    Field(String),
    Item(usize),
}

/// Steps as a path, truncated to 200 characters.
pub(crate) fn path(steps: &[PathStep]) -> String {
    let path = steps.iter().fold(String::new(), |path, step| match step {
        PathStep::Item(index) => format!("{path}[{index}]"),
        PathStep::Field(name) if path.is_empty() => name.clone(),
        PathStep::Field(name) => format!("{path}.{name}"),
    });
    path.chars().take(200).collect()
}

/// The reason why a document is no descriptor. Boxed, since results of small values are moved often and errors rarely.
pub(crate) type FieldError = Box<FieldProblem>;

/// The reason why a document is no descriptor, and the path; the reader of the bytes adds line and column.
#[derive(Debug)]
pub(crate) struct FieldProblem {
    /// The path of the wrong value, or of the object that lacks a field.
    pub(crate) steps: Vec<PathStep>,
    /// The path as text.
    pub(crate) place: String,
    pub(crate) problem: Problem,
}

#[derive(Debug)]
pub(crate) enum Problem {
    Missing { field: String },
    Wrong { expected: &'static str, found: String },
}

/// The fields of an object: fields that are not taken are unknown, and count.
pub(crate) struct Fields<'a> {
    at: Position<'a>,
    members: Members<'a>,
    /// The number of fields that are not taken.
    left: usize,
    taken: Positions,
}

/// A set of positions. Known names are few, also in an object of many members.
#[derive(Default)]
struct Positions {
    /// The positions below 64, a bit each.
    low: u64,
    high: Vec<usize>,
}

impl Positions {
    fn insert(&mut self, position: usize) {
        match position {
            0..64 => self.low |= 1 << position,
            _ => self.high.push(position),
        }
    }

    fn contains(&self, position: usize) -> bool {
        match position {
            0..64 => self.low & (1 << position) != 0,
            _ => self.high.contains(&position),
        }
    }
}

impl<'a> Fields<'a> {
    pub(crate) fn of(value: Node<'a>, at: Position<'a>) -> Result<Self, FieldError> {
        match value {
            Node::Object(members) => {
                Ok(Self { at, members, left: members.len(), taken: Positions::default() })
            }
            other => Err(wrong(at, "an object", other)),
        }
    }

    pub(crate) fn peek(&self, name: &str) -> Option<Node<'a>> {
        self.find(name).map(|(_, value)| value)
    }

    /// Takes the field unparsed.
    pub(crate) fn raw(&mut self, name: &str) -> Option<Node<'a>> {
        self.raw_if(name, |_| true)
    }

    /// Takes the field unparsed if `is_known` accepts its value.
    pub(crate) fn raw_if(
        &mut self,
        name: &str,
        is_known: impl FnOnce(&Node<'a>) -> bool,
    ) -> Option<Node<'a>> {
        let (position, value) = self.find(name).filter(|(_, value)| is_known(value))?;
        self.taken.insert(position);
        self.left -= 1;
        Some(value)
    }

    fn find(&self, name: &str) -> Option<(usize, Node<'a>)> {
        if self.left == 0 {
            return None;
        }
        self.members.find(name).filter(|(position, _)| !self.taken.contains(*position))
    }

    /// Takes the field and parses it by `read`; `None` if absent.
    pub(crate) fn opt<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(Node<'_>, Position<'_>) -> Result<T, FieldError>,
    ) -> Result<Option<T>, FieldError> {
        let value = self.raw(name);
        value.map(|value| read(value, Position::Field(&self.at, name))).transpose()
    }

    /// Takes the field and parses it by `read`; an error if absent.
    pub(crate) fn req<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(Node<'_>, Position<'_>) -> Result<T, FieldError>,
    ) -> Result<T, FieldError> {
        self.opt(name, read)?.ok_or_else(|| missing(self.at, name))
    }

    /// Takes a string that is empty if the field is absent. A present but empty field remains an unknown field.
    pub(crate) fn stated(&mut self, name: &str) -> Result<String, FieldError> {
        let text = self.raw_if(name, |text| !text.is_text(""));
        text.map_or(Ok(String::new()), |text| string(text, Position::Field(&self.at, name)))
    }

    /// Takes a string that frameworks always write; a missing one is empty and recorded in `left_out`.
    pub(crate) fn text(
        &mut self,
        name: &'static str,
        left_out: &mut BTreeSet<&'static str>,
    ) -> Result<String, FieldError> {
        let text = self.opt(name, string)?;
        if text.is_none() {
            left_out.insert(name);
        }
        Ok(text.unwrap_or_default())
    }

    /// The remaining fields, their names with `prefix`. Few remain, usually none: single insertions are cheaper than
    /// collecting and sorting.
    pub(crate) fn rest(self, prefix: &str) -> Extra {
        let mut extra = Extra::new();
        for (name, value) in self.left() {
            let mut prefixed = String::with_capacity(prefix.len() + name.len());
            prefixed.push_str(prefix);
            prefixed.push_str(name);
            extra.insert(prefixed, value.into());
        }
        extra
    }

    /// The remaining fields.
    pub(crate) fn extra(self) -> Extra {
        self.rest("")
    }

    /// The remaining fields as an object.
    pub(crate) fn object(self) -> Map<String, Value> {
        map(self.left())
    }

    fn left(self) -> impl Iterator<Item = (&'a str, Node<'a>)> {
        let Self { mut members, mut left, taken, .. } = self;
        let mut position = 0;
        iter::from_fn(move || {
            left = left.checked_sub(1)?;
            while taken.contains(position) {
                members.skip_one();
                position += 1;
            }
            position += 1;
            members.next()
        })
    }
}

/// The error for a missing field `name` of the object at `at`.
pub(crate) fn missing(at: Position<'_>, name: &str) -> FieldError {
    Box::new(FieldProblem {
        steps: at.steps(),
        place: place(at),
        problem: Problem::Missing { field: Position::Field(&at, name).to_string() },
    })
}

/// The error for a value at `at` that is not `expected`.
pub(crate) fn wrong(at: Position<'_>, expected: &'static str, found: impl Into<Value>) -> FieldError {
    let found = short(&found.into());
    Box::new(FieldProblem {
        steps: at.steps(),
        place: place(at),
        problem: Problem::Wrong { expected, found },
    })
}

fn place(at: Position<'_>) -> String {
    match at {
        Position::Root => "(document)".to_owned(),
        at => at.to_string(),
    }
}

/// A value as JSON, truncated to 80 characters.
pub(crate) fn short(value: &Value) -> String {
    value.to_string().chars().take(80).collect()
}

pub(crate) fn string(value: Node<'_>, at: Position<'_>) -> Result<String, FieldError> {
    match value {
        Node::Text(text) => Ok(text.to_owned()),
        other => Err(wrong(at, "a string", other)),
    }
}

pub(crate) fn boolean(value: Node<'_>, at: Position<'_>) -> Result<bool, FieldError> {
    match value {
        Node::Bool(value) => Ok(value),
        other => Err(wrong(at, "true or false", other)),
    }
}

pub(crate) fn int(value: Node<'_>, at: Position<'_>) -> Result<i64, FieldError> {
    value.as_i64().ok_or_else(|| wrong(at, "a whole number of 64 bits", value))
}

pub(crate) fn list<T>(
    value: Node<'_>,
    at: Position<'_>,
    read: impl FnMut(Node<'_>, Position<'_>) -> Result<T, FieldError>,
) -> Result<Vec<T>, FieldError> {
    match value {
        Node::List(items) => each(items, at, read),
        other => Err(wrong(at, "a list", other)),
    }
}

/// The largest number of items that are allocated in advance: most lists are short, and hostile ones fail early.
const SHORT: usize = 64;

/// Reserves memory for a value of each item of a list.
pub(crate) fn reserve<T>(all: &mut Vec<T>, list: Node<'_>) {
    if let Node::List(items) = list {
        all.reserve_exact(items.len().min(SHORT));
    }
}

/// The items of the list at `at`, parsed by `read`.
pub(crate) fn each<T>(
    items: Items<'_>,
    at: Position<'_>,
    mut read: impl FnMut(Node<'_>, Position<'_>) -> Result<T, FieldError>,
) -> Result<Vec<T>, FieldError> {
    let mut all = Vec::new();
    reserve(&mut all, Node::List(items));
    for (index, item) in items.enumerate() {
        all.push(read(item, Position::Item(&at, index))?);
    }
    Ok(all)
}

pub(crate) fn ints(value: Node<'_>, at: Position<'_>) -> Result<Vec<i64>, FieldError> {
    list(value, at, int)
}

pub(crate) fn strings(value: Node<'_>, at: Position<'_>) -> Result<Vec<String>, FieldError> {
    list(value, at, string)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::info::scan::scan;

    #[test]
    fn each_field_is_taken_once_however_many_there_are() {
        let text: Vec<String> = (0..130).map(|number| format!("\"{number:03}\":{number}")).collect();
        let text = format!("{{{}}}", text.join(","));
        let scanned = scan(text.as_bytes()).unwrap();
        let mut fields = Fields::of(scanned.document.root(), Position::Root).unwrap();
        for name in ["000", "063", "064", "100", "129"] {
            let value = fields.opt(name, int).unwrap();
            assert_eq!(value, name.parse().ok());
            assert!(fields.raw(name).is_none() && fields.peek(name).is_none(), "{name}");
        }
        assert!(fields.peek("130").is_none() && fields.peek("").is_none() && fields.peek("0640").is_none());
        let extra = fields.extra();
        assert_eq!(extra.len(), 125);
        assert!(!extra.contains_key("064") && extra["065"] == 65);
    }
}
