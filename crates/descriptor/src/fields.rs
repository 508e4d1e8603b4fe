//! Taking a JSON object apart, field by field, with errors that name the place.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Number, Value};

use crate::job::Extra;

/// Where in a document: `job_content.op_list[1].shape`. Built on the stack; becomes text only in an error.
#[derive(Clone, Copy)]
pub(crate) enum At<'a> {
    Root,
    Field(&'a At<'a>, &'a str),
    Item(&'a At<'a>, usize),
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Root => Ok(()),
            At::Field(At::Root, name) => f.write_str(name),
            At::Field(parent, name) => write!(f, "{parent}.{name}"),
            At::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

impl At<'_> {
    fn steps(&self) -> Vec<Step> {
        match self {
            At::Root => Vec::new(),
            At::Field(parent, name) => with(parent.steps(), Step::Field((*name).to_owned())),
            At::Item(parent, index) => with(parent.steps(), Step::Item(*index)),
        }
    }
}

fn with(mut steps: Vec<Step>, step: Step) -> Vec<Step> {
    steps.push(step);
    steps
}

/// One step of a path into a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Field(String),
    Item(usize),
}

/// Steps as a path, cut to 200 characters.
pub(crate) fn path(steps: &[Step]) -> String {
    let path = steps.iter().fold(String::new(), |path, step| match step {
        Step::Item(index) => format!("{path}[{index}]"),
        Step::Field(name) if path.is_empty() => name.clone(),
        Step::Field(name) => format!("{path}.{name}"),
    });
    path.chars().take(200).collect()
}

/// Why a document is no descriptor, and where; the reader of the bytes adds line and column.
#[derive(Debug)]
pub(crate) struct Fault {
    /// The place: of the value that is wrong, or of the object from which a field is missing.
    pub(crate) steps: Vec<Step>,
    /// The same as text.
    pub(crate) place: String,
    pub(crate) problem: Problem,
}

#[derive(Debug)]
pub(crate) enum Problem {
    Missing { field: String },
    Wrong { expected: &'static str, found: String },
}

/// An object being taken apart: what nobody takes is left over, and counts.
pub(crate) struct Fields<'a> {
    at: At<'a>,
    map: Map<String, Value>,
}

impl<'a> Fields<'a> {
    pub(crate) fn of(value: Value, at: At<'a>) -> Result<Self, Fault> {
        match value {
            Value::Object(map) => Ok(Self { at, map }),
            other => Err(wrong(at, "an object", &other)),
        }
    }

    pub(crate) fn peek(&self, name: &str) -> Option<&Value> {
        self.map.get(name)
    }

    /// The field as it stands.
    pub(crate) fn raw(&mut self, name: &str) -> Option<Value> {
        self.map.remove(name)
    }

    /// The field, read by `read`; `None` if absent.
    pub(crate) fn opt<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(Value, At<'_>) -> Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        let at = At::Field(&self.at, name);
        self.map.remove(name).map(|value| read(value, at)).transpose()
    }

    /// The field, read by `read`; an error if absent.
    pub(crate) fn req<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(Value, At<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.opt(name, read)?.ok_or_else(|| missing(self.at, name))
    }

    /// A text that frameworks always write; one that is not there is empty, and noted in `left_out`.
    pub(crate) fn text(
        &mut self,
        name: &'static str,
        left_out: &mut BTreeSet<&'static str>,
    ) -> Result<String, Fault> {
        let text = self.opt(name, string)?;
        if text.is_none() {
            left_out.insert(name);
        }
        Ok(text.unwrap_or_default())
    }

    /// What was not taken, its names behind `prefix`.
    pub(crate) fn rest(self, prefix: &str) -> impl Iterator<Item = (String, Value)> + use<'_> {
        self.map.into_iter().map(move |(name, value)| (format!("{prefix}{name}"), value))
    }

    pub(crate) fn extra(self) -> Extra {
        self.map.into_iter().collect()
    }
}

/// The field `name` is missing from the object at `at`.
pub(crate) fn missing(at: At<'_>, name: &str) -> Fault {
    Fault {
        steps: at.steps(),
        place: place(at),
        problem: Problem::Missing { field: At::Field(&at, name).to_string() },
    }
}

/// Another value than `expected` stands at `at`.
pub(crate) fn wrong(at: At<'_>, expected: &'static str, found: &Value) -> Fault {
    Fault { steps: at.steps(), place: place(at), problem: Problem::Wrong { expected, found: short(found) } }
}

fn place(at: At<'_>) -> String {
    match at {
        At::Root => "(document)".to_owned(),
        at => at.to_string(),
    }
}

/// A value as JSON, cut to 80 characters.
pub(crate) fn short(value: &Value) -> String {
    value.to_string().chars().take(80).collect()
}

pub(crate) fn string(value: Value, at: At<'_>) -> Result<String, Fault> {
    match value {
        Value::String(text) => Ok(text),
        other => Err(wrong(at, "a string", &other)),
    }
}

pub(crate) fn boolean(value: Value, at: At<'_>) -> Result<bool, Fault> {
    value.as_bool().ok_or_else(|| wrong(at, "true or false", &value))
}

pub(crate) fn int(value: Value, at: At<'_>) -> Result<i64, Fault> {
    value.as_i64().ok_or_else(|| wrong(at, "a whole number of 64 bits", &value))
}

pub(crate) fn list<T>(
    value: Value,
    at: At<'_>,
    read: impl Fn(Value, At<'_>) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    match value {
        Value::Array(items) => {
            items.into_iter().enumerate().map(|(index, item)| read(item, At::Item(&at, index))).collect()
        }
        other => Err(wrong(at, "a list", &other)),
    }
}

pub(crate) fn ints(value: Value, at: At<'_>) -> Result<Vec<i64>, Fault> {
    list(value, at, int)
}

pub(crate) fn strings(value: Value, at: At<'_>) -> Result<Vec<String>, Fault> {
    list(value, at, string)
}

/// Whether a number is written as a whole one, however great.
pub(crate) fn is_whole(number: &Number) -> bool {
    !number.as_str().contains(['.', 'e', 'E'])
}

/// A whole number as wide as it needs: signed if it fits, unsigned above.
pub(crate) fn whole(number: &Number) -> Option<Result<i64, u64>> {
    number.as_i64().map(Ok).or_else(|| number.as_u64().map(Err))
}
