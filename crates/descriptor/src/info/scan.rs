//! A JSON scanner that builds borrowing [`Node`]s.

use std::borrow::Cow;
use std::mem;

use crate::info::node::{Member, Node};

/// The deepest nesting of lists and objects, equal to the JSON library's limit.
const MAX_DEPTH: usize = 127;

/// A document, and the depth of its nesting.
pub(crate) struct Scanned<'a> {
    pub(crate) document: Node<'a>,
    /// Values that a later member of the same name replaces are counted as well.
    pub(crate) depth: usize,
}

/// Reads `json`; `None` if it is no JSON, or nested deeper than the JSON library reads.
///
/// That library builds a map for each object and a string for each name, token and value, which takes longer than the
/// rest of reading a descriptor. It remains the reference: it reads the documents that are refused here, and reports
/// what is wrong.
pub(crate) fn scan(json: &[u8]) -> Option<Scanned<'_>> {
    let text = str::from_utf8(json).ok()?;
    let mut scanner = Scanner {
        text,
        bytes: json,
        at: 0,
        depth: 0,
        deepest: 0,
        items: Vec::with_capacity(32),
        members: Vec::with_capacity(32),
    };
    let document = scanner.value()?;
    scanner.space();
    (scanner.at == json.len()).then_some(Scanned { document, depth: scanner.deepest })
}

struct Scanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    depth: usize,
    deepest: usize,
    /// The items of all open lists, the outer ones first, so that each list is allocated once, at its end.
    items: Vec<Node<'a>>,
    /// The members of all open objects, likewise.
    members: Vec<Member<'a>>,
}

impl<'a> Scanner<'a> {
    fn value(&mut self) -> Option<Node<'a>> {
        Some(match self.next()? {
            b'"' => Node::Text(self.string()?),
            b'{' => self.nested(Self::object)?,
            b'[' => self.nested(Self::list)?,
            b't' => self.word("true", Node::Bool(true))?,
            b'f' => self.word("false", Node::Bool(false))?,
            b'n' => self.word("null", Node::Null)?,
            _ => Node::Number(self.number()?),
        })
    }

    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Option<Node<'a>>) -> Option<Node<'a>> {
        if self.depth == MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        self.at += 1;
        let node = read(self)?;
        self.depth -= 1;
        Some(node)
    }

    fn list(&mut self) -> Option<Node<'a>> {
        let begin = self.items.len();
        if self.next()? == b']' {
            self.at += 1;
            return Some(Node::List(Vec::new()));
        }
        loop {
            let item = self.value()?;
            self.items.push(item);
            if self.is_last(b']')? {
                return Some(Node::List(self.items.drain(begin..).collect()));
            }
        }
    }

    fn object(&mut self) -> Option<Node<'a>> {
        let begin = self.members.len();
        if self.next()? == b'}' {
            self.at += 1;
            return Some(Node::Object(Vec::new()));
        }
        let mut is_sorted = true;
        loop {
            if self.next()? != b'"' {
                return None;
            }
            let name = self.string()?;
            if self.next()? != b':' {
                return None;
            }
            self.at += 1;
            let value = self.value()?;
            is_sorted =
                is_sorted && self.members[begin..].last().is_none_or(|(last, _)| is_less(last, &name));
            self.members.push((name, value));
            if self.is_last(b'}')? {
                let mut members: Vec<_> = self.members.drain(begin..).collect();
                if !is_sorted {
                    sort(&mut members);
                }
                return Some(Node::Object(members));
            }
        }
    }

    /// Moves past the next comma or `end`; true for `end`.
    fn is_last(&mut self, end: u8) -> Option<bool> {
        let next = self.next()?;
        self.at += 1;
        (next == end || next == b',').then_some(next == end)
    }

    /// The string that begins here.
    fn string(&mut self) -> Option<Cow<'a, str>> {
        let begin = self.at;
        let mut is_plain = true;
        let mut at = begin + 1;
        loop {
            match self.bytes.get(at)? {
                b'"' => break,
                b'\\' => {
                    is_plain = false;
                    at += 2;
                }
                0..0x20 => return None,
                _ => at += 1,
            }
        }
        self.at = at + 1;
        match is_plain {
            true => self.text.get(begin + 1..at).map(Cow::Borrowed),
            false => serde_json::from_slice(self.bytes.get(begin..=at)?).ok().map(Cow::Owned),
        }
    }

    /// The number that begins here.
    fn number(&mut self) -> Option<Cow<'a, str>> {
        let begin = self.at;
        self.at += usize::from(self.here() == Some(b'-'));
        let whole = self.at;
        let is_zero = self.here() == Some(b'0');
        self.digits()?;
        if is_zero && self.at > whole + 1 {
            return None;
        }
        if self.here() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if !matches!(self.here(), Some(b'e' | b'E')) {
            return self.text.get(begin..self.at).map(Cow::Borrowed);
        }
        let mantissa = self.text.get(begin..self.at)?;
        let e = self.at;
        self.at += 1;
        let has_sign = matches!(self.here(), Some(b'+' | b'-'));
        self.at += usize::from(has_sign);
        self.digits()?;
        if has_sign && self.bytes.get(e) == Some(&b'e') {
            return self.text.get(begin..self.at).map(Cow::Borrowed);
        }
        // The JSON library's spelling, so that equal numbers stay equal.
        let exponent = self.text.get(e + 1..self.at)?;
        let sign = if has_sign { "" } else { "+" };
        Some(format!("{mantissa}e{sign}{exponent}").into())
    }

    /// Moves past the digits that begin here, at least one.
    fn digits(&mut self) -> Option<()> {
        let begin = self.at;
        while self.here().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > begin).then_some(())
    }

    fn word(&mut self, word: &str, node: Node<'a>) -> Option<Node<'a>> {
        self.bytes.get(self.at..)?.starts_with(word.as_bytes()).then(|| {
            self.at += word.len();
            node
        })
    }

    /// Moves to the next byte that is not white space.
    fn next(&mut self) -> Option<u8> {
        self.space();
        self.here()
    }

    fn here(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.here() {
            self.at += 1;
            // More than half of a file is indentation.
            while self.bytes[self.at..].starts_with(b"        ") {
                self.at += 8;
            }
        }
    }
}

/// Whether `one` sorts before `other`. Most names differ from their predecessor in the first byte, which is compared
/// without a call.
fn is_less(one: &str, other: &str) -> bool {
    match (one.as_bytes().first(), other.as_bytes().first()) {
        (Some(one), Some(other)) if one != other => one < other,
        _ => one < other,
    }
}

/// Sorts members by name and keeps the last of each name.
fn sort(members: &mut Vec<Member<'_>>) {
    members.sort_by(|(one, _), (other, _)| one.cmp(other));
    members.dedup_by(|later, earlier| {
        let is_same = later.0 == earlier.0;
        if is_same {
            mem::swap(later, earlier);
        }
        is_same
    });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    /// The scanner accepts what the JSON library accepts, with equal values.
    fn check(json: &[u8]) {
        let scanned = scan(json).map(|scanned| Value::from(scanned.document));
        let parsed = serde_json::from_slice::<Value>(json).ok();
        assert_eq!(scanned, parsed, "{}", String::from_utf8_lossy(json));
    }

    #[test]
    fn values_are_those_of_the_json_library() {
        for json in [
            " {\"b\" : [ ] , \"a\":\t{ }\r\n}\n",
            r#"[null,true,false,"",0]"#,
            r#"["\u0041\n\"\\", "\ud83d\ude00", "é"]"#,
            // Numbers keep their digits; exponents have one spelling.
            "[-0,0.0,-0.0,1E5,1e5,1e+5,1E-05,1e-05,1.50e3,99999999999999999999,1e999,-9223372036854775808]",
            // The last of repeated names counts, however they are spelled.
            r#"{"b":1,"a":2,"b":3,"\u0061":4,"c":5,"a":6}"#,
        ] {
            assert!(scan(json.as_bytes()).is_some(), "{json}");
            check(json.as_bytes());
        }
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for json in [
            "",
            " ",
            "{",
            "[",
            "\"",
            "\"\\",
            "[1,]",
            "{\"a\":1,}",
            "{\"a\"}",
            "{a:1}",
            "{1:1}",
            "[1 2]",
            "[,]",
            "1 2",
            "nul",
            "nulls",
            "True",
            "-",
            "+1",
            "01",
            "-01",
            "1.",
            ".5",
            "1e",
            "1e+",
            "1.e5",
            "0x1",
            "NaN",
            "\"\n\"",
            "\"\u{0}\"",
            r#""\x""#,
            r#""\ud800""#,
            "\u{feff}1",
            "[1]\u{0}",
            "[\u{c}1]",
            "{]",
            "[}",
        ] {
            assert!(scan(json.as_bytes()).is_none(), "{json}");
            check(json.as_bytes());
        }
        check(b"\"\xff\"");
        check(b"\xff");
    }

    #[test]
    fn nesting_is_counted_and_ends_where_the_json_library_ends() {
        let depth = |json: &str| scan(json.as_bytes()).map(|scanned| scanned.depth);
        assert_eq!(depth("1"), Some(0));
        assert_eq!(depth(r#"{"a":[1,[]],"b":[{"c":[2]}]}"#), Some(4));
        for (open, close) in [("[", "]"), ("{\"a\":[", "]}")] {
            for times in [1, 63, 64, 126, 127, 128, 129] {
                check(format!("{}{}", open.repeat(times), close.repeat(times)).as_bytes());
            }
        }
        assert_eq!(depth(&format!("{}{}", "[".repeat(127), "]".repeat(127))), Some(127));
    }

    proptest! {
        #[test]
        fn texts_of_tokens_are_read_as_by_the_json_library(
            tokens in prop::collection::vec(
                prop::sample::select(vec![
                    "{", "}", "[", "]", ",", ":", "\"a\"", "\"b\"", "\"\\u0061\"", "1", "-", "0", ".5", "e+5", "E5",
                    "null", " ", "\n", "{\"a\":1", ",\"a\":", "[1,", "\"", "\\", "\u{1}", "é",
                ]),
                0..12,
            )
        ) {
            check(tokens.concat().as_bytes());
        }
    }
}
