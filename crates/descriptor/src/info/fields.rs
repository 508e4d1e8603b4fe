//! Reading of JSON objects field by field, with errors that name the path.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value};

use crate::info::node::{Member, Node, map, place_of};
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

/// The reason why a document is no descriptor, and the path; the reader of the bytes adds line and column.
#[derive(Debug)]
pub(crate) struct FieldError {
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
    members: Vec<Member<'a>>,
}

impl<'a> Fields<'a> {
    pub(crate) fn of(value: Node<'a>, at: Position<'a>) -> Result<Self, FieldError> {
        match value {
            Node::Object(members) => Ok(Self { at, members }),
            other => Err(wrong(at, "an object", other)),
        }
    }

    pub(crate) fn peek(&self, name: &str) -> Option<&Node<'a>> {
        self.find(name).map(|place| &self.members[place].1)
    }

    /// Takes the field unparsed.
    pub(crate) fn raw(&mut self, name: &str) -> Option<Node<'a>> {
        // The order is not kept: the unknown fields are sorted later.
        self.find(name).map(|place| self.members.swap_remove(place).1)
    }

    /// Objects have about twenty members, fewer with each field taken: a linear search is fastest.
    fn find(&self, name: &str) -> Option<usize> {
        place_of(&self.members, name)
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

    /// The remaining fields, their names with `prefix`.
    pub(crate) fn rest(self, prefix: &str) -> Extra {
        self.left(|name| [prefix, &name].concat())
    }

    /// The remaining fields.
    pub(crate) fn extra(self) -> Extra {
        self.left(Cow::into_owned)
    }

    /// Few fields remain, usually none: single insertions are cheaper than collecting and sorting.
    fn left(self, named: impl Fn(Cow<'a, str>) -> String) -> Extra {
        let mut extra = Extra::new();
        for (name, value) in self.members {
            extra.insert(named(name), value.into());
        }
        extra
    }

    /// The remaining fields as an object.
    pub(crate) fn object(self) -> Map<String, Value> {
        map(self.members)
    }
}

/// The error for a missing field `name` of the object at `at`.
pub(crate) fn missing(at: Position<'_>, name: &str) -> FieldError {
    FieldError {
        steps: at.steps(),
        place: place(at),
        problem: Problem::Missing { field: Position::Field(&at, name).to_string() },
    }
}

/// The error for a value at `at` that is not `expected`.
pub(crate) fn wrong(at: Position<'_>, expected: &'static str, found: impl Into<Value>) -> FieldError {
    let found = short(&found.into());
    FieldError { steps: at.steps(), place: place(at), problem: Problem::Wrong { expected, found } }
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
        Node::Text(text) => Ok(text.into_owned()),
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

/// The largest number of items that are allocated in advance.
const SHORT: usize = 16;

/// The items of the list at `at`, parsed by `read`.
pub(crate) fn each<T>(
    items: Vec<Node<'_>>,
    at: Position<'_>,
    mut read: impl FnMut(Node<'_>, Position<'_>) -> Result<T, FieldError>,
) -> Result<Vec<T>, FieldError> {
    let read = items.into_iter().enumerate().map(|(index, item)| read(item, Position::Item(&at, index)));
    // `collect` reuses the allocation of a long list of numbers, but allocates space for four items in a short list of
    // tensors, which are large.
    if read.len() > SHORT {
        return read.collect();
    }
    let mut all = Vec::with_capacity(read.len());
    for item in read {
        all.push(item?);
    }
    Ok(all)
}

pub(crate) fn ints(value: Node<'_>, at: Position<'_>) -> Result<Vec<i64>, FieldError> {
    list(value, at, int)
}

pub(crate) fn strings(value: Node<'_>, at: Position<'_>) -> Result<Vec<String>, FieldError> {
    list(value, at, string)
}
