//! JSON that borrows strings and numbers from a descriptor.

use std::borrow::Cow;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::model::job::Extra;

/// A JSON value.
#[derive(Debug)]
pub(crate) enum Tree<'a> {
    Bool(bool),
    Int(i64),
    Text(&'a str),
    Ints(&'a [i64]),
    Texts(&'a [String]),
    Value(Cow<'a, Value>),
    List(Vec<Tree<'a>>),
    Object(Object<'a>),
}

/// A JSON object. Its keys are sorted by their bytes, like those of [`Map`].
#[derive(Debug, Default)]
pub(crate) struct Object<'a>(Vec<(Cow<'a, str>, Tree<'a>)>);

impl<'a> Object<'a> {
    /// An object with these members, which are sorted.
    pub(crate) fn of(extra: &'a Extra) -> Self {
        let member = |(key, value): (&'a String, &'a Value)| (key.as_str().into(), value.into());
        Self(extra.iter().map(member).collect())
    }

    /// Sets a member.
    pub(crate) fn insert(&mut self, key: impl Into<Cow<'a, str>>, value: impl Into<Tree<'a>>) {
        let key = key.into();
        match self.find(&key) {
            Ok(at) => self.0[at].1 = value.into(),
            Err(at) => self.0.insert(at, (key, value.into())),
        }
    }

    /// Sets a member, unless it exists.
    pub(crate) fn or_insert(&mut self, key: &'static str, value: impl Into<Tree<'a>>) {
        if let Err(at) = self.find(key) {
            self.0.insert(at, (key.into(), value.into()));
        }
    }

    fn find(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(other, _)| other.as_ref().cmp(key))
    }
}

impl Serialize for Tree<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Int(value) => serializer.serialize_i64(*value),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Ints(values) => serializer.collect_seq(*values),
            Self::Texts(texts) => serializer.collect_seq(*texts),
            Self::Value(value) => value.serialize(serializer),
            Self::List(items) => serializer.collect_seq(items),
            Self::Object(Object(members)) => {
                serializer.collect_map(members.iter().map(|(key, value)| (key, value)))
            }
        }
    }
}

impl From<Tree<'_>> for Value {
    fn from(tree: Tree<'_>) -> Self {
        match tree {
            Tree::Bool(value) => value.into(),
            Tree::Int(value) => value.into(),
            Tree::Text(text) => text.into(),
            Tree::Ints(values) => values.into(),
            Tree::Texts(texts) => texts.into(),
            Tree::Value(value) => value.into_owned(),
            Tree::List(items) => items.into_iter().map(Self::from).collect(),
            Tree::Object(object) => Self::Object(object.into()),
        }
    }
}

impl From<Object<'_>> for Map<String, Value> {
    fn from(Object(members): Object<'_>) -> Self {
        opkeep_order::collected(members.into_iter().map(|(key, value)| (key.into_owned(), value.into())))
    }
}

impl From<bool> for Tree<'_> {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Tree<'_> {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl<'a> From<&'a str> for Tree<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a [i64]> for Tree<'a> {
    fn from(values: &'a [i64]) -> Self {
        Self::Ints(values)
    }
}

impl<'a> From<&'a [String]> for Tree<'a> {
    fn from(texts: &'a [String]) -> Self {
        Self::Texts(texts)
    }
}

impl<'a> From<&'a Value> for Tree<'a> {
    fn from(value: &'a Value) -> Self {
        Self::Value(Cow::Borrowed(value))
    }
}

impl From<Value> for Tree<'_> {
    fn from(value: Value) -> Self {
        Self::Value(Cow::Owned(value))
    }
}

impl<'a> From<Object<'a>> for Tree<'a> {
    fn from(object: Object<'a>) -> Self {
        Self::Object(object)
    }
}

impl<'a> FromIterator<Tree<'a>> for Tree<'a> {
    fn from_iter<I: IntoIterator<Item = Self>>(items: I) -> Self {
        Self::List(items.into_iter().collect())
    }
}
