//! JSON values that borrow from the text.

use std::borrow::Cow;

use serde_json::{Map, Number, Value};

/// A JSON value. A descriptor keeps few of its names, strings and numbers, so they are copied only when kept.
#[derive(Clone, Debug)]
pub(crate) enum Node<'a> {
    Null,
    Bool(bool),
    /// The token, its exponent in the form of [`Number`].
    Number(Cow<'a, str>),
    Text(Cow<'a, str>),
    List(Vec<Node<'a>>),
    /// Sorted by the bytes of unique names, like [`serde_json::Map`].
    Object(Vec<Member<'a>>),
}

/// A member of an object.
pub(crate) type Member<'a> = (Cow<'a, str>, Node<'a>);

impl Node<'_> {
    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Whether this is the string `wanted`.
    pub(crate) fn is_text(&self, wanted: &str) -> bool {
        matches!(self, Self::Text(text) if text == wanted)
    }

    /// The number, if it is a whole number of 64 bits.
    pub(crate) fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Number(token) => token.parse().ok(),
            _ => None,
        }
    }

    /// The member `name` of an object, if there is one.
    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        let Self::Object(members) = self else { return None };
        place_of(members, name).map(|place| &members[place].1)
    }
}

/// The index of the member `name` in `members`.
pub(crate) fn place_of(members: &[Member<'_>], name: &str) -> Option<usize> {
    // Names of equal length usually differ in the first byte, so it is compared before a call.
    let first = name.as_bytes().first();
    members.iter().position(|(other, _)| {
        other.len() == name.len() && other.as_bytes().first() == first && **other == *name
    })
}

impl From<Node<'_>> for Value {
    fn from(node: Node<'_>) -> Self {
        match node {
            Node::Null => Self::Null,
            Node::Bool(value) => Self::Bool(value),
            Node::Number(token) => number(&token),
            Node::Text(text) => Self::String(text.into_owned()),
            Node::List(items) => Self::Array(items.into_iter().map(Self::from).collect()),
            Node::Object(members) => Self::Object(map(members)),
        }
    }
}

/// Members in the JSON library's form.
pub(crate) fn map(members: Vec<Member<'_>>) -> Map<String, Value> {
    // `collect` would first build and sort a list.
    let mut map = Map::new();
    for (name, value) in members {
        map.insert(name.into_owned(), value.into());
    }
    map
}

/// A token as a number. The scanner has validated it.
fn number(token: &str) -> Value {
    // Most numbers are small and whole, and have one spelling except minus zero. The library parses the others.
    if let Ok(value) = token.parse::<i64>()
        && token != "-0"
    {
        return value.into();
    }
    token.parse::<Number>().map_or(Value::Null, Value::Number)
}

impl From<Value> for Node<'_> {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(value),
            Value::Number(number) => Self::Number(number.as_str().to_owned().into()),
            Value::String(text) => Self::Text(text.into()),
            Value::Array(items) => Self::List(items.into_iter().map(Self::from).collect()),
            Value::Object(map) => {
                Self::Object(map.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
            }
        }
    }
}
