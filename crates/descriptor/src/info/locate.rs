//! Positions of values in a text. Only for errors: reading does not count lines.

use crate::info::fields::PathStep;

/// Line and column, from 1, of the value at the path `steps` in `json`, which is valid JSON. The last of repeated keys
/// counts, as in reading. Columns count bytes, like those of JSON errors.
pub(crate) fn locate(json: &[u8], steps: &[PathStep]) -> (usize, usize) {
    let mut scanner = Scanner { json, at: 0 };
    let offset = scanner.find(steps).unwrap_or(0);
    position(json, offset)
}

/// Line and column, from 1, of the byte at `offset`.
pub(crate) fn position(json: &[u8], offset: usize) -> (usize, usize) {
    let before = &json[..offset.min(json.len())];
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    (line, offset - line_start + 1)
}

struct Scanner<'a> {
    json: &'a [u8],
    at: usize,
}

impl Scanner<'_> {
    /// The offset of the value at `steps` within the value that begins here; moves to the end of the latter.
    fn find(&mut self, steps: &[PathStep]) -> Option<usize> {
        let begin = self.peek().map(|_| self.at);
        let Some((step, rest)) = steps.split_first() else {
            self.skip();
            return begin;
        };
        let (open, end) = match step {
            PathStep::Field(_) => (b'{', b'}'),
            PathStep::Item(_) => (b'[', b']'),
        };
        if self.peek() != Some(open) {
            self.skip();
            return None;
        }
        self.at += 1;
        let (mut found, mut index) = (None, 0);
        while self.peek().is_some_and(|byte| byte != end) {
            let begin = self.at;
            let here = match step {
                PathStep::Field(name) => self.key().as_deref() == Some(name),
                PathStep::Item(wanted) => index == *wanted,
            };
            match here {
                true => found = self.find(rest),
                false => self.skip(),
            }
            index += 1;
            if self.peek() == Some(b',') {
                self.at += 1;
            }
            if self.at == begin {
                return None;
            }
        }
        self.at += 1;
        found
    }

    /// The next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        let rest = self.json.get(self.at..)?;
        let space = rest.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(rest.len());
        self.at += space;
        self.json.get(self.at).copied()
    }

    /// The key that begins here; moves past its colon.
    fn key(&mut self) -> Option<String> {
        self.peek();
        let begin = self.at;
        self.skip();
        let key = serde_json::from_slice(self.json.get(begin..self.at)?).ok();
        self.peek();
        self.at += 1;
        key
    }

    /// Moves past the value that begins here, or to the end.
    fn skip(&mut self) {
        let mut depth = 0usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => self.skip_text(),
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' if depth == 0 => return,
                b'}' | b']' => {
                    depth -= 1;
                    self.at += 1;
                }
                b',' | b':' if depth == 0 => return,
                b',' | b':' => {
                    self.at += 1;
                    continue;
                }
                _ => self.skip_word(),
            }
            if depth == 0 {
                return;
            }
        }
    }

    fn skip_text(&mut self) {
        self.at += 1;
        while let Some(byte) = self.json.get(self.at) {
            self.at += match byte {
                b'"' => {
                    self.at += 1;
                    return;
                }
                b'\\' => 2,
                _ => 1,
            };
        }
    }

    /// A number, `true`, `false` or `null`.
    fn skip_word(&mut self) {
        let rest = &self.json[self.at..];
        let ends = |byte: &u8| byte.is_ascii_whitespace() || b",:]}".contains(byte);
        self.at += rest.iter().position(ends).unwrap_or(rest.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(json: &str, steps: &[PathStep]) -> (usize, usize) {
        locate(json.as_bytes(), steps)
    }

    fn field(name: &str) -> PathStep {
        PathStep::Field(name.to_owned())
    }

    #[test]
    fn values_are_found_behind_anything() {
        let json = "{\n  \"a\": [1, {\"b]\": \"x,\\\"}\"}, [[], {}]],\n  \"c\": {\"d\" :\n\ttrue, \"e\\u0066\": -1e5}\n}";
        assert_eq!(at(json, &[]), (1, 1));
        assert_eq!(at(json, &[field("a")]), (2, 8));
        assert_eq!(at(json, &[field("a"), PathStep::Item(0)]), (2, 9));
        assert_eq!(at(json, &[field("a"), PathStep::Item(1), field("b]")]), (2, 19));
        assert_eq!(at(json, &[field("a"), PathStep::Item(2)]), (2, 29));
        assert_eq!(at(json, &[field("a"), PathStep::Item(2), PathStep::Item(1)]), (2, 34));
        assert_eq!(at(json, &[field("c"), field("d")]), (4, 2));
        assert_eq!(at(json, &[field("c"), field("ef")]), (4, 19));
    }

    #[test]
    fn the_last_of_equal_keys_is_meant() {
        assert_eq!(at(r#"{"a":1,"b":2,"a":3}"#, &[field("a")]), (1, 18));
        assert_eq!(at(r#"{"a":{"b":1},"a":{"b":2}}"#, &[field("a"), field("b")]), (1, 23));
    }

    /// A missing value or invalid JSON gives some position and no panic.
    #[test]
    fn missing_values_give_the_beginning() {
        assert_eq!(at(r#"{"a":1}"#, &[field("b")]), (1, 1));
        assert_eq!(at(r#"{"a":1}"#, &[PathStep::Item(0)]), (1, 1));
        assert_eq!(at(r#"[1]"#, &[PathStep::Item(7)]), (1, 1));
        for json in ["", "{", "{\"a", "{\"a\":", "[1,", "\"\\", "}", "{:}", "[,,]", "{\"a\":[}"] {
            at(json, &[field("a"), PathStep::Item(0)]);
            at(json, &[PathStep::Item(0), field("a")]);
        }
    }
}
