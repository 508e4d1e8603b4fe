//! JSON values that borrow from the text.

use serde_json::{Map, Number, Value};

/// A scanned document: one list of entries, in the order of the text. A descriptor keeps few of its names, strings and
/// numbers, so they are copied only when kept, and nothing is allocated for each value.
#[derive(Default)]
pub(crate) struct Document<'a> {
    pub(super) text: &'a str,
    /// The strings and numbers that are not written in the text as they are read, one after the other. Their spans
    /// continue those of the text.
    pub(super) decoded: String,
    /// A value is followed by its items, or by the names and values of its members. Members are sorted by the bytes of
    /// unique names, like those of [`Map`].
    pub(super) entries: Vec<Entry>,
}

/// A value, without its items or members, or the name of a member.
#[derive(Clone, Copy)]
pub(super) enum Entry {
    Null,
    Bool(bool),
    /// The token, its exponent in the form of [`Number`].
    Number(Span),
    Text(Span),
    List(Size),
    Object(Size),
    /// The name of a member, its first byte or 0, and the number of entries of the member: this one, and those of the value.
    Name(Span, u8, u32),
}

/// The offsets of a string. A document has at most 4 MiB.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub(super) begin: u32,
    pub(super) end: u32,
}

/// The size of a list or object.
#[derive(Clone, Copy)]
pub(super) struct Size {
    /// Its items or members.
    pub(super) items: u32,
    /// The entries of all of them together.
    pub(super) entries: u32,
}

impl Document<'_> {
    /// The value.
    pub(crate) fn root(&self) -> Node<'_> {
        self.node(0)
    }

    fn node(&self, at: usize) -> Node<'_> {
        let items = |size: Size| Items { document: self, next: at + 1, left: size.items as usize };
        match self.entries[at] {
            Entry::Null => Node::Null,
            Entry::Bool(value) => Node::Bool(value),
            Entry::Number(span) => Node::Number(self.text(span)),
            Entry::Text(span) | Entry::Name(span, ..) => Node::Text(self.text(span)),
            Entry::List(size) => Node::List(items(size)),
            Entry::Object(size) => Node::Object(Members(items(size))),
        }
    }

    fn text(&self, span: Span) -> &str {
        let (begin, end) = (span.begin as usize, span.end as usize);
        match begin.checked_sub(self.text.len()) {
            None => &self.text[begin..end],
            Some(begin) => &self.decoded[begin..end - self.text.len()],
        }
    }

    /// The bytes of a name, without a look at the borders of characters.
    pub(super) fn bytes(&self, span: Span) -> &[u8] {
        let (begin, end) = (span.begin as usize, span.end as usize);
        match begin.checked_sub(self.text.len()) {
            None => &self.text.as_bytes()[begin..end],
            Some(begin) => &self.decoded.as_bytes()[begin..end - self.text.len()],
        }
    }

    /// The name of the member at `at`, and the offset after the member.
    pub(super) fn name(&self, at: usize) -> (&str, usize) {
        match self.entries[at] {
            Entry::Name(span, _, entries) => (self.text(span), at + entries as usize),
            _ => ("", at + 1),
        }
    }

    /// The offset after the value at `at`.
    fn after(&self, at: usize) -> usize {
        match self.entries[at] {
            Entry::List(size) | Entry::Object(size) => at + 1 + size.entries as usize,
            _ => at + 1,
        }
    }
}

/// A JSON value.
#[derive(Clone, Copy)]
pub(crate) enum Node<'a> {
    Null,
    Bool(bool),
    Number(&'a str),
    Text(&'a str),
    List(Items<'a>),
    Object(Members<'a>),
}

impl Node<'_> {
    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Whether this is the string `wanted`.
    pub(crate) fn is_text(&self, wanted: &str) -> bool {
        matches!(self, Self::Text(text) if *text == wanted)
    }

    /// The number, if it is a whole number of 64 bits.
    pub(crate) fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Number(token) => token.parse().ok(),
            _ => None,
        }
    }

    /// The member `name` of an object, if there is one.
    pub(crate) fn get(&self, name: &str) -> Option<Self> {
        let Self::Object(members) = self else { return None };
        members.find(name).map(|(_, value)| value)
    }
}

/// The items of a list.
#[derive(Clone, Copy)]
pub(crate) struct Items<'a> {
    document: &'a Document<'a>,
    next: usize,
    left: usize,
}

impl<'a> Iterator for Items<'a> {
    type Item = Node<'a>;

    fn next(&mut self) -> Option<Node<'a>> {
        self.left = self.left.checked_sub(1)?;
        let item = self.document.node(self.next);
        self.next = self.document.after(self.next);
        Some(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Items<'_> {}

/// The members of an object.
#[derive(Clone, Copy)]
pub(crate) struct Members<'a>(Items<'a>);

impl<'a> Members<'a> {
    /// The position and the value of the member `name`.
    pub(crate) fn find(self, name: &str) -> Option<(usize, Node<'a>)> {
        let Items { document, mut next, left } = self.0;
        let first = name.as_bytes().first().copied().unwrap_or_default();
        for position in 0..left {
            let Entry::Name(span, found, entries) = document.entries[next] else { return None };
            // Most names differ in these from the one that is searched.
            if (found, span.end - span.begin) == (first, name.len() as u32)
                && document.bytes(span) == name.as_bytes()
            {
                return Some((position, document.node(next + 1)));
            }
            if found > first {
                return None;
            }
            next += entries as usize;
        }
        None
    }

    pub(crate) fn len(self) -> usize {
        self.0.left
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = (&'a str, Node<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let Items { document, next, left } = &mut self.0;
        *left = left.checked_sub(1)?;
        let (name, after) = document.name(*next);
        let value = document.node(*next + 1);
        *next = after;
        Some((name, value))
    }
}

impl From<Node<'_>> for Value {
    fn from(node: Node<'_>) -> Self {
        match node {
            Node::Null => Self::Null,
            Node::Bool(value) => Self::Bool(value),
            Node::Number(token) => number(token),
            Node::Text(text) => text.into(),
            Node::List(items) => items.map(Self::from).collect(),
            Node::Object(members) => Self::Object(map(members)),
        }
    }
}

/// Members in the JSON library's form.
pub(crate) fn map<'a>(members: impl Iterator<Item = (&'a str, Node<'a>)>) -> Map<String, Value> {
    // `collect` would first build and sort a list.
    let mut map = Map::new();
    for (name, value) in members {
        map.insert(name.to_owned(), value.into());
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
