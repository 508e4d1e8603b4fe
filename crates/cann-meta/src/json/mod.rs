//! JSON values that are kept as spelled, without being decoded.

pub(crate) mod raw;

use std::collections::BTreeMap;
use std::fmt;

/// Fields without a type in this version, by name.
///
/// Sorted: both vendors' parsers sort the members of an object, so their order in the file has no meaning.
pub type Extra = BTreeMap<String, Json>;

/// The deepest nesting of a kept value. Genuine values reach 6.
pub(crate) const MAX_DEPTH: usize = 32;

/// The number of levels that are indented: more than genuine documents have, and few enough that the indentation of a
/// hostile document stays bounded.
const MAX_INDENT: usize = 10;

/// A JSON value as spelled in its file: number tokens, escapes and the order of members are kept; white space between
/// tokens is dropped.
///
/// Two values are equal if their spelling is equal: `1.0` is not `1`, since a vendor's parser may distinguish them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Json(Box<str>);

impl Json {
    /// A value that a parser has accepted as JSON; `None` if it is nested too deeply.
    pub(crate) fn keep(raw: &str) -> Option<Self> {
        let bytes = raw.as_bytes();
        let mut text = String::with_capacity(raw.len());
        let (mut depth, mut at, mut kept) = (0_usize, 0, 0);
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'"' => {
                    at = after_string(bytes, at);
                    continue;
                }
                b' ' | b'\t' | b'\n' | b'\r' => {
                    text.push_str(raw.get(kept..at)?);
                    at = after_spaces(bytes, at);
                    kept = at;
                    continue;
                }
                b'[' | b'{' if depth == MAX_DEPTH => return None,
                b'[' | b'{' => depth += 1,
                b']' | b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            at += 1;
        }
        text.push_str(raw.get(kept..)?);
        Some(Self(text.into()))
    }

    /// The value as JSON, without white space between its tokens.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The text of a string; `None` for other values.
    pub fn as_string(&self) -> Option<String> {
        serde_json::from_str(&self.0).ok()
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self(quoted(text).into())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Self {
        Self(value.to_string().into())
    }
}

impl From<i64> for Json {
    fn from(value: i64) -> Self {
        Self(value.to_string().into())
    }
}

impl From<u64> for Json {
    fn from(value: u64) -> Self {
        Self(value.to_string().into())
    }
}

/// `text` as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Formats JSON without white space as TBE does: four spaces a level, empty lists and objects on one line.
pub(crate) fn laid_out(compact: &str) -> String {
    let bytes = compact.as_bytes();
    let mut out = String::with_capacity(compact.len() * 2);
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(byte) = bytes.get(at) {
        let end = if *byte == b'"' { after_string(bytes, at) } else { at + 1 };
        let token = compact.get(at..end).unwrap_or_default();
        let closes_next = matches!(bytes.get(end), Some(b']' | b'}'));
        match byte {
            b'[' | b'{' if closes_next => {
                out.push_str(token);
                out.push_str(compact.get(end..end + 1).unwrap_or_default());
                at = end + 1;
                continue;
            }
            b'[' | b'{' => {
                depth += 1;
                out.push_str(token);
                new_line(&mut out, depth);
            }
            b']' | b'}' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push_str(token);
            }
            b',' => {
                out.push_str(token);
                new_line(&mut out, depth);
            }
            b':' => out.push_str(": "),
            _ => out.push_str(token),
        }
        at = end;
    }
    out
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("    ", depth.min(MAX_INDENT)));
}

/// The end of the white space that begins at `at`.
fn after_spaces(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
        at += 1;
    }
    at
}

/// The end of the string that begins at `at`.
fn after_string(bytes: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// A value for a message: one line, truncated to 80 characters, without control characters.
pub(crate) fn short(raw: &str) -> String {
    let (mut inside, mut escaped) = (false, false);
    let visible = raw.chars().filter(|character| {
        match (character, escaped) {
            ('"', false) => inside = !inside,
            ('\\', false) if inside => {
                escaped = true;
                return true;
            }
            _ => {}
        }
        escaped = false;
        inside || !character.is_ascii_whitespace()
    });
    harmless(visible)
}

/// A name from a file for a message: truncated to 80 characters, without control characters.
pub(crate) fn short_name(name: &str) -> String {
    harmless(name.chars())
}

fn harmless(text: impl Iterator<Item = char>) -> String {
    text.map(|character| if character.is_control() { '\u{fffd}' } else { character }).take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_white_space_between_tokens_is_removed() {
        let raw = "{ \"b\" :\t[ 1e-05 , 1.0,\r\n-0 ] , \"a \\\" , \\\\\": \" \\u0041 [ \" }";
        let kept = Json::keep(raw).unwrap();
        assert_eq!(kept.text(), r#"{"b":[1e-05,1.0,-0],"a \" , \\":" \u0041 [ "}"#);
        assert_eq!(Json::keep(kept.text()).unwrap(), kept);
        assert_ne!(Json::keep("1.0"), Json::keep("1"));
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(Json::keep(&nested(MAX_DEPTH)).is_some());
        assert!(Json::keep(&nested(MAX_DEPTH + 1)).is_none());
        // Many siblings are not nested, and brackets in a string do not count.
        assert!(Json::keep(&format!("[{}[]]", "[],".repeat(1000))).is_some());
        assert!(Json::keep(&format!("\"{}\"", "[".repeat(1000))).is_some());
    }

    #[test]
    fn layout_is_that_of_serde() {
        let compact = r#"{"a":[],"b":{},"c":[1,[{"d":"x: [,] \" \\"}],null],"e":{"f":{"g":[[]]}}}"#;
        let value: serde_json::Value = serde_json::from_str(compact).unwrap();
        let mut expected = Vec::new();
        let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
        serde::Serialize::serialize(
            &value,
            &mut serde_json::Serializer::with_formatter(&mut expected, formatter),
        )
        .unwrap();
        assert_eq!(laid_out(compact), String::from_utf8(expected).unwrap());
    }

    #[test]
    fn indentation_of_a_deep_document_is_bounded() {
        let compact = format!("{}{}{}", "[".repeat(32), vec!["1"; 1000].join(","), "]".repeat(32));
        let laid_out = laid_out(&compact);
        assert!(laid_out.len() < compact.len() * 25, "{}", laid_out.len());
        assert_eq!(Json::keep(&laid_out).unwrap().text(), compact);
    }

    #[test]
    fn messages_are_short_and_harmless() {
        assert_eq!(short("{ \"a\" :\n [ 1, \"x \\\" y\" ] }"), "{\"a\":[1,\"x \\\" y\"]}");
        assert_eq!(short("\"\u{9b}2J\""), "\"\u{fffd}2J\"");
        assert_eq!(short_name("\u{1b} [2J"), "\u{fffd} [2J");
        assert_eq!(short(&"é".repeat(100)).chars().count(), 80);
    }

    #[test]
    fn texts_round_trip() {
        for text in ["", "a\"b\\c\n", "é\u{1f600}"] {
            assert_eq!(Json::from(text).as_string().as_deref(), Some(text));
        }
        assert_eq!(Json::from(1_u64).as_string(), None);
    }
}
