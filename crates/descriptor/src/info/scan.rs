//! A JSON scanner.

use std::mem;
use std::ops::Range;

use crate::info::node::{Document, Entry, Size, Span};

/// The deepest nesting of lists and objects, equal to the JSON library's limit.
const MAX_DEPTH: usize = 127;

/// A document, and the result of checks that need no second pass.
pub(crate) struct Scanned<'a> {
    pub(crate) document: Document<'a>,
    /// The depth of its nesting. Values that a later member of the same name replaces are counted as well.
    pub(crate) depth: usize,
    /// Whether a string has an escape or begins with `$`, as each [reserved key](super::limits::reserved_key) does.
    pub(crate) may_be_reserved: bool,
}

/// Reads `json`; `None` if it is no JSON, or nested deeper than the JSON library reads.
///
/// That library builds a map for each object and a string for each name, token and value, which takes longer than the
/// rest of reading a descriptor. It remains the reference, and reports what is wrong with documents that are refused
/// here.
pub(crate) fn scan(json: &[u8]) -> Option<Scanned<'_>> {
    let text = str::from_utf8(json).ok()?;
    // In the densest files of MindSpore and AKG, an entry has eight bytes.
    let document = Document::new(text, json.len() / 8 + 1);
    let mut scanner = Scanner { document, bytes: json, at: 0, depth: 0, deepest: 0, may_be_reserved: false };
    scanner.value()?;
    scanner.space();
    let Scanner { document, at, deepest: depth, may_be_reserved, .. } = scanner;
    (at == json.len()).then_some(Scanned { document, depth, may_be_reserved })
}

struct Scanner<'a> {
    document: Document<'a>,
    bytes: &'a [u8],
    at: usize,
    depth: usize,
    deepest: usize,
    may_be_reserved: bool,
}

impl Scanner<'_> {
    fn value(&mut self) -> Option<()> {
        match self.next()? {
            b'"' => {
                let text = self.string()?;
                self.push(Entry::Text(text))
            }
            b'{' => self.nested(b'}', Self::members, Entry::Object),
            b'[' => self.nested(b']', Self::items, Entry::List),
            b't' => self.word("true", Entry::Bool(true)),
            b'f' => self.word("false", Entry::Bool(false)),
            b'n' => self.word("null", Entry::Null),
            _ => self.number(),
        }
    }

    fn push(&mut self, entry: Entry) -> Option<()> {
        self.document.entries.push(entry);
        Some(())
    }

    /// A list or an object, whose items `read` reads and counts.
    fn nested(
        &mut self,
        end: u8,
        read: impl FnOnce(&mut Self) -> Option<u32>,
        entry: impl FnOnce(Size) -> Entry,
    ) -> Option<()> {
        if self.depth == MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        self.at += 1;
        let begin = self.document.entries.len();
        self.push(Entry::Null)?;
        let items = if self.next()? == end {
            self.at += 1;
            0
        } else {
            read(self)?
        };
        let entries = (self.document.entries.len() - begin - 1) as u32;
        self.document.entries[begin] = entry(Size { items, entries });
        self.depth -= 1;
        Some(())
    }

    fn items(&mut self) -> Option<u32> {
        let mut items = 0;
        loop {
            self.value()?;
            items += 1;
            if self.is_last(b']')? {
                return Some(items);
            }
        }
    }

    fn members(&mut self) -> Option<u32> {
        let begin = self.document.entries.len();
        let (mut members, mut last, mut is_sorted) = (0, None, true);
        loop {
            if self.next()? != b'"' {
                return None;
            }
            let at = self.document.entries.len();
            let span = self.string()?;
            let first = self.document.bytes(span).first().copied().unwrap_or_default();
            self.push(Entry::Name(span, first, 0))?;
            if self.next()? != b':' {
                return None;
            }
            self.at += 1;
            self.value()?;
            let document = &mut self.document;
            document.entries[at] = Entry::Name(span, first, (document.entries.len() - at) as u32);
            // Most names differ from their predecessor in the first byte.
            is_sorted &= match last {
                Some((last, initial)) if initial == first => document.bytes(last) < document.bytes(span),
                last => last.is_none_or(|(_, initial)| initial < first),
            };
            last = Some((span, first));
            members += 1;
            if self.is_last(b'}')? {
                return Some(if is_sorted { members } else { self.sort(begin) });
            }
        }
    }

    /// Sorts the members that begin at `begin` by name, keeps the last of each name, and returns their number.
    fn sort(&mut self, begin: usize) -> u32 {
        let document = &mut self.document;
        let (mut members, mut at) = (Vec::new(), begin);
        while at < document.entries.len() {
            let (_, end) = document.name(at);
            members.push(at..end);
            at = end;
        }
        let name = |member: &Range<usize>| document.name(member.start).0;
        members.sort_by(|one, other| name(one).cmp(name(other)));
        members.dedup_by(|later, earlier| {
            let is_same = name(later) == name(earlier);
            if is_same {
                mem::swap(later, earlier);
            }
            is_same
        });
        let number = members.len() as u32;
        let sorted: Vec<Entry> =
            members.into_iter().flat_map(|member| &document.entries[member]).copied().collect();
        document.entries.truncate(begin);
        document.entries.extend(sorted);
        number
    }

    /// Moves past the next comma or `end`; true for `end`.
    fn is_last(&mut self, end: u8) -> Option<bool> {
        let next = self.next()?;
        self.at += 1;
        (next == end || next == b',').then_some(next == end)
    }

    /// The string that begins here.
    fn string(&mut self) -> Option<Span> {
        let begin = self.at;
        self.at = plain_end(self.bytes, begin + 1);
        if self.here()? == b'"' {
            self.at += 1;
            self.may_be_reserved |= self.bytes[begin + 1] == b'$';
            return Some(Span { begin: begin as u32 + 1, end: self.at as u32 - 1 });
        }
        while self.here()? != b'"' {
            self.at += if self.here()? == b'\\' { 2 } else { return None };
            self.at = plain_end(self.bytes, self.at);
        }
        self.at += 1;
        self.may_be_reserved = true;
        let decoded: String = serde_json::from_slice(self.bytes.get(begin..self.at)?).ok()?;
        Some(self.decode(&[&decoded]))
    }

    /// Adds a string that is not in the text, of these parts.
    fn decode(&mut self, parts: &[&str]) -> Span {
        let Document { text, decoded, .. } = &mut self.document;
        let begin = (text.len() + decoded.len()) as u32;
        decoded.extend(parts.iter().copied());
        Span { begin, end: (text.len() + decoded.len()) as u32 }
    }

    /// The number that begins here.
    fn number(&mut self) -> Option<()> {
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
        let e = self.at;
        let mut is_plain = true;
        if matches!(self.here(), Some(b'e' | b'E')) {
            self.at += 1;
            let has_sign = matches!(self.here(), Some(b'+' | b'-'));
            is_plain = has_sign && self.bytes[e] == b'e';
            self.at += usize::from(has_sign);
            self.digits()?;
        }
        let span = if is_plain {
            Span { begin: begin as u32, end: self.at as u32 }
        } else {
            // The JSON library's spelling, so that equal numbers stay equal.
            let text = self.document.text;
            let (mantissa, exponent) = (text.get(begin..e)?, text.get(e + 1..self.at)?);
            self.decode(&[mantissa, if exponent.starts_with(['+', '-']) { "e" } else { "e+" }, exponent])
        };
        self.push(Entry::Number(span))
    }

    /// Moves past the digits that begin here, at least one.
    fn digits(&mut self) -> Option<()> {
        let begin = self.at;
        while self.here().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > begin).then_some(())
    }

    fn word(&mut self, word: &str, entry: Entry) -> Option<()> {
        if !self.bytes.get(self.at..)?.starts_with(word.as_bytes()) {
            return None;
        }
        self.at += word.len();
        self.push(entry)
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

/// The offset of the first quote, backslash or control character at or after `at`, or that of the end.
fn plain_end(bytes: &[u8], mut at: usize) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    // The high bit of each byte of `word` below `limit`, up to the first; above it there may be further ones.
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word & HIGH;
    while let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        let word = u64::from_le_bytes(*word);
        let is = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
        let found = is(b'"') | is(b'\\') | below(word, 0x20);
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20)).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    /// The scanner accepts what the JSON library accepts, with equal values.
    fn check(json: &[u8]) {
        let scanned = scan(json).map(|scanned| Value::from(scanned.document.root()));
        let parsed = serde_json::from_slice::<Value>(json).ok();
        assert_eq!(scanned, parsed, "{}", String::from_utf8_lossy(json));
    }

    #[test]
    fn values_are_those_of_the_json_library() {
        for json in [
            " {\"b\" : [ ] , \"a\":\t{ }\r\n}\n",
            r#"[null,true,false,"",0]"#,
            r#"["\u0041\n\"\\", "\ud83d\ude00", "é"]"#,
            r#"["12345678\"1234567\"", "\\", "12345678\\12345678\\", "ééééééééééé"]"#,
            // Numbers keep their digits; exponents have one spelling.
            "[-0,0.0,-0.0,1E5,1e5,1e+5,1E-05,1e-05,1.50e3,99999999999999999999,1e999,-9223372036854775808]",
            // The last of repeated names counts, however they are spelled.
            r#"{"b":1,"a":2,"b":3,"\u0061":4,"c":5,"a":6}"#,
            r#"{"b":{"d":[1,{}],"c":"x"},"a":[[2],{"z":3,"y":[4]}],"b":{"d":[],"c":{}}}"#,
        ] {
            assert!(scan(json.as_bytes()).is_some(), "{json}");
            check(json.as_bytes());
        }
    }

    #[test]
    fn invalid_json_is_refused() {
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
            "\"12345678\u{1f}1234567\"",
            "\"1234567\u{1f}",
            "\"12345678\\",
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
