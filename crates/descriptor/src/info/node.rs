//! JSON values that borrow from the text.

use std::cell::Cell;
use std::mem;

use serde_json::{Map, Number, Value};

/// A scanned document: one list of entries, in the order of the text. A descriptor keeps few of its names, strings and
/// numbers, so they are copied only when kept, and nothing is allocated for each value.
pub(crate) struct Document<'a> {
    pub(super) text: &'a str,
    /// The strings and numbers that are not written in the text as they are read, one after the other. Their spans
    /// continue those of the text.
    pub(super) decoded: String,
    /// A value is followed by its items, or by the names and values of its members. Members are sorted by the bytes of
    /// unique names, like those of [`Map`].
    pub(super) entries: Vec<Entry>,
}

/// The largest number of entries whose memory a thread keeps: 64 KiB.
const MAX_SPARE: usize = 4096;

thread_local! {
    /// The memory of the entries of the thread's last document, empty. It is the only allocation of a scan, and a large
    /// one, which takes longer than many small ones.
    static SPARE: Cell<Vec<Entry>> = const { Cell::new(Vec::new()) };
}

impl<'a> Document<'a> {
    /// A document of `text` without entries, with memory for `entries`.
    pub(super) fn new(text: &'a str, entries: usize) -> Self {
        let mut spare = SPARE.try_with(Cell::take).unwrap_or_default();
        spare.reserve(entries);
        Self { text, decoded: String::new(), entries: spare }
    }
}

impl Drop for Document<'_> {
    fn drop(&mut self) {
        let mut spare = mem::take(&mut self.entries);
        if spare.capacity() <= MAX_SPARE {
            spare.clear();
            let _ = SPARE.try_with(|kept| kept.set(spare));
        }
    }
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
        let (span, after) = self.name_and_after(at);
        (span.map_or("", |span| self.text(span)), after)
    }

    fn name_and_after(&self, at: usize) -> (Option<Span>, usize) {
        match self.entries[at] {
            Entry::Name(span, _, entries) => (Some(span), at + entries as usize),
            _ => (None, at + 1),
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

/// Whether two names of one length are equal. Most have between 8 and 16 bytes, for which a call of the library's
/// comparison takes longer than the comparison.
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    let ends = |name: &[u8]| Some((*name.first_chunk::<8>()?, *name.last_chunk::<8>()?));
    match (ends(one), ends(other)) {
        (Some(one_ends), Some(other_ends)) if one.len() <= 16 => one_ends == other_ends,
        (None, _) => one.iter().eq(other),
        _ => one == other,
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
    #[inline]
    pub(crate) fn find(self, name: &str) -> Option<(usize, Node<'a>)> {
        let Items { document, mut next, left } = self.0;
        let first = name.as_bytes().first().copied().unwrap_or_default();
        for position in 0..left {
            let Some(&Entry::Name(span, found, entries)) = document.entries.get(next) else { return None };
            // Most names differ in the first byte or the length from the one that is searched.
            if found >= first {
                if found > first {
                    return None;
                }
                if span.end - span.begin == name.len() as u32
                    && is_equal(document.bytes(span), name.as_bytes())
                {
                    return Some((position, document.node(next + 1)));
                }
            }
            next += entries as usize;
        }
        None
    }

    pub(crate) fn len(self) -> usize {
        self.0.left
    }

    /// Skips a member without a look at its name and value.
    pub(crate) fn skip_one(&mut self) {
        let Items { document, next, left } = &mut self.0;
        *next = document.name_and_after(*next).1;
        *left = left.saturating_sub(1);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::info::scan::scan;

    #[test]
    fn names_of_each_length_are_told_apart_by_each_byte() {
        for length in 1..40 {
            let name = "a".repeat(length);
            let text = format!("{{{name:?}:1}}");
            let scanned = scan(text.as_bytes()).unwrap();
            let Node::Object(members) = scanned.document.root() else { panic!("{text}") };
            assert!(members.find(&name).is_some(), "{name}");
            for changed in 0..length {
                let mut other = name.clone();
                other.replace_range(changed..=changed, "b");
                assert!(members.find(&other).is_none(), "{other}");
            }
        }
    }

    #[test]
    fn a_document_holds_nothing_of_an_earlier_one() {
        let read = |text: &str| Value::from(scan(text.as_bytes()).unwrap().document.root()).to_string();
        for text in ["[1,2,3]", "{}", "[{\"a\":null}]", "[]"] {
            // The second is read while the first exists, the third in the memory of one of them.
            let first = scan(text.as_bytes()).unwrap();
            assert_eq!((read(text), read(text)), (text.to_owned(), text.to_owned()));
            assert_eq!(Value::from(first.document.root()).to_string(), text);
        }
    }
}
