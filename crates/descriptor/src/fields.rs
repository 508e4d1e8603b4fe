//! Taking a JSON object apart, field by field, with errors that name the place.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value};

use crate::job::Extra;
use crate::node::{Member, Node, map, place_of};

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
    members: Vec<Member<'a>>,
}

impl<'a> Fields<'a> {
    pub(crate) fn of(value: Node<'a>, at: At<'a>) -> Result<Self, Fault> {
        match value {
            Node::Object(members) => Ok(Self { at, members }),
            other => Err(wrong(at, "an object", other)),
        }
    }

    pub(crate) fn peek(&self, name: &str) -> Option<&Node<'a>> {
        self.find(name).map(|place| &self.members[place].1)
    }

    /// The field as it stands.
    pub(crate) fn raw(&mut self, name: &str) -> Option<Node<'a>> {
        // The order is lost, and not needed: who asks for the rest sorts it.
        self.find(name).map(|place| self.members.swap_remove(place).1)
    }

    /// Objects have some twenty members, and what is taken makes them fewer: no search is faster.
    fn find(&self, name: &str) -> Option<usize> {
        place_of(&self.members, name)
    }

    /// The field, read by `read`; `None` if absent.
    pub(crate) fn opt<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(Node<'_>, At<'_>) -> Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        let value = self.raw(name);
        value.map(|value| read(value, At::Field(&self.at, name))).transpose()
    }

    /// The field, read by `read`; an error if absent.
    pub(crate) fn req<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(Node<'_>, At<'_>) -> Result<T, Fault>,
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
    pub(crate) fn rest(self, prefix: &str) -> Extra {
        self.left(|name| [prefix, &name].concat())
    }

    /// What was not taken.
    pub(crate) fn extra(self) -> Extra {
        self.left(Cow::into_owned)
    }

    /// Mostly there is nothing, or little: one by one is cheaper than to collect and sort it first.
    fn left(self, named: impl Fn(Cow<'a, str>) -> String) -> Extra {
        let mut extra = Extra::new();
        for (name, value) in self.members {
            extra.insert(named(name), value.into());
        }
        extra
    }

    /// What was not taken, as an object.
    pub(crate) fn object(self) -> Map<String, Value> {
        map(self.members)
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
pub(crate) fn wrong(at: At<'_>, expected: &'static str, found: impl Into<Value>) -> Fault {
    let found = short(&found.into());
    Fault { steps: at.steps(), place: place(at), problem: Problem::Wrong { expected, found } }
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

pub(crate) fn string(value: Node<'_>, at: At<'_>) -> Result<String, Fault> {
    match value {
        Node::Text(text) => Ok(text.into_owned()),
        other => Err(wrong(at, "a string", other)),
    }
}

pub(crate) fn boolean(value: Node<'_>, at: At<'_>) -> Result<bool, Fault> {
    match value {
        Node::Bool(value) => Ok(value),
        other => Err(wrong(at, "true or false", other)),
    }
}

pub(crate) fn int(value: Node<'_>, at: At<'_>) -> Result<i64, Fault> {
    value.as_i64().ok_or_else(|| wrong(at, "a whole number of 64 bits", value))
}

pub(crate) fn list<T>(
    value: Node<'_>,
    at: At<'_>,
    read: impl FnMut(Node<'_>, At<'_>) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    match value {
        Node::List(items) => each(items, at, read),
        other => Err(wrong(at, "a list", other)),
    }
}

/// A list of up to as many items is allocated in advance.
const SHORT: usize = 16;

/// The items of the list at `at`, read by `read`.
pub(crate) fn each<T>(
    items: Vec<Node<'_>>,
    at: At<'_>,
    mut read: impl FnMut(Node<'_>, At<'_>) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    let read = items.into_iter().enumerate().map(|(index, item)| read(item, At::Item(&at, index)));
    // Collected, a long list of numbers takes the place of its items; a short one of tensors, which are large, gets room
    // for four.
    if read.len() > SHORT {
        return read.collect();
    }
    let mut all = Vec::with_capacity(read.len());
    for item in read {
        all.push(item?);
    }
    Ok(all)
}

pub(crate) fn ints(value: Node<'_>, at: At<'_>) -> Result<Vec<i64>, Fault> {
    list(value, at, int)
}

pub(crate) fn strings(value: Node<'_>, at: At<'_>) -> Result<Vec<String>, Fault> {
    list(value, at, string)
}

/// Whether a number's token is that of a whole one, however great.
pub(crate) fn is_whole(token: &str) -> bool {
    !token.contains(['.', 'e', 'E'])
}

/// A whole number as wide as it needs: signed if it fits, unsigned above.
pub(crate) fn whole(token: &str) -> Option<Result<i64, u64>> {
    token.parse().map(Ok).or_else(|_| token.parse().map(Err)).ok()
}
