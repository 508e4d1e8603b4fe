//! Taking a JSON object apart, field by field, with errors that name the place.

use std::fmt;

use serde_json::{Map, Number, Value};

use crate::info::InfoError;
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

/// An object being taken apart: what nobody takes is left over, and counts.
pub(crate) struct Fields<'a> {
    at: At<'a>,
    map: Map<String, Value>,
}

impl<'a> Fields<'a> {
    pub(crate) fn of(value: Value, at: At<'a>) -> Result<Self, InfoError> {
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
        read: impl FnOnce(Value, At<'_>) -> Result<T, InfoError>,
    ) -> Result<Option<T>, InfoError> {
        let at = At::Field(&self.at, name);
        self.map.remove(name).map(|value| read(value, at)).transpose()
    }

    /// The field, read by `read`; an error if absent.
    pub(crate) fn req<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(Value, At<'_>) -> Result<T, InfoError>,
    ) -> Result<T, InfoError> {
        self.opt(name, read)?.ok_or_else(|| InfoError::Missing {
            field: At::Field(&self.at, name).to_string(),
            object: self.at.to_string(),
        })
    }

    /// What was not taken, its names behind `prefix`.
    pub(crate) fn rest(self, prefix: &str) -> impl Iterator<Item = (String, Value)> + use<'_> {
        self.map.into_iter().map(move |(name, value)| (format!("{prefix}{name}"), value))
    }

    pub(crate) fn extra(self) -> Extra {
        self.map.into_iter().collect()
    }
}

pub(crate) fn wrong(at: At<'_>, expected: &'static str, found: &Value) -> InfoError {
    InfoError::Wrong {
        field: match at {
            At::Root => "(document)".to_owned(),
            at => at.to_string(),
        },
        expected,
        found: found.to_string().chars().take(80).collect(),
    }
}

pub(crate) fn string(value: Value, at: At<'_>) -> Result<String, InfoError> {
    match value {
        Value::String(text) => Ok(text),
        other => Err(wrong(at, "a string", &other)),
    }
}

pub(crate) fn boolean(value: Value, at: At<'_>) -> Result<bool, InfoError> {
    value.as_bool().ok_or_else(|| wrong(at, "true or false", &value))
}

pub(crate) fn int(value: Value, at: At<'_>) -> Result<i64, InfoError> {
    value.as_i64().ok_or_else(|| wrong(at, "a whole number of 64 bits", &value))
}

pub(crate) fn list<T>(
    value: Value,
    at: At<'_>,
    read: impl Fn(Value, At<'_>) -> Result<T, InfoError>,
) -> Result<Vec<T>, InfoError> {
    match value {
        Value::Array(items) => {
            items.into_iter().enumerate().map(|(index, item)| read(item, At::Item(&at, index))).collect()
        }
        other => Err(wrong(at, "a list", &other)),
    }
}

pub(crate) fn ints(value: Value, at: At<'_>) -> Result<Vec<i64>, InfoError> {
    list(value, at, int)
}

pub(crate) fn strings(value: Value, at: At<'_>) -> Result<Vec<String>, InfoError> {
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
