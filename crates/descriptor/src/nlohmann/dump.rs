//! JSON in the form that MindSpore hashes: one line, keys sorted by their bytes.
//!
//! Numbers are printed by value, so that a file with another spelling has the framework's name.

use serde_json::{Number, Value};

use crate::nlohmann::grisu;

/// A number that MindSpore's JSON library cannot read.
#[derive(Debug)]
pub(crate) struct TooGreat(pub(crate) String);

/// `value` on one line. String members named `cut` at any depth are removed except for their comma.
pub(crate) fn dump(value: &Value, cut: Option<&str>) -> Result<String, TooGreat> {
    let mut text = String::with_capacity(2048);
    Dump { text: &mut text, cut }.value(value)?;
    Ok(text)
}

struct Dump<'a> {
    text: &'a mut String,
    cut: Option<&'a str>,
}

impl Dump<'_> {
    fn value(&mut self, value: &Value) -> Result<(), TooGreat> {
        match value {
            Value::Number(value) => self.number(value)?,
            Value::Array(items) => {
                self.text.push('[');
                for (index, item) in items.iter().enumerate() {
                    self.comma(index);
                    self.value(item)?;
                }
                self.text.push(']');
            }
            Value::Object(map) => {
                self.text.push('{');
                for (index, (name, value)) in map.iter().enumerate() {
                    self.comma(index);
                    if value.is_string() && self.cut == Some(name.as_str()) {
                        continue;
                    }
                    self.text(name);
                    self.text.push(':');
                    self.value(value)?;
                }
                self.text.push('}');
            }
            Value::String(text) => self.text(text),
            Value::Bool(value) => self.text.push_str(if *value { "true" } else { "false" }),
            Value::Null => self.text.push_str("null"),
        }
        Ok(())
    }

    fn comma(&mut self, index: usize) {
        if index > 0 {
            self.text.push(',');
        }
    }

    /// Prints whole numbers of 64 bits unchanged and other numbers as 64-bit floats.
    fn number(&mut self, number: &Number) -> Result<(), TooGreat> {
        use std::fmt::Write as _;
        let whole = match (number.as_i64(), number.as_u64()) {
            (Some(int), _) => write!(self.text, "{int}"),
            (None, Some(int)) => write!(self.text, "{int}"),
            (None, None) => match number.as_f64().filter(|value| value.is_finite()) {
                Some(value) => self.text.write_str(&grisu::print(value)),
                None => return Err(TooGreat(number.to_string().chars().take(80).collect())),
            },
        };
        debug_assert!(whole.is_ok(), "writing to memory");
        Ok(())
    }

    /// Escapes quotes, backslashes and control characters.
    fn text(&mut self, text: &str) {
        use std::fmt::Write as _;
        self.text.push('"');
        for character in text.chars() {
            match character {
                '"' => self.text.push_str("\\\""),
                '\\' => self.text.push_str("\\\\"),
                '\u{8}' => self.text.push_str("\\b"),
                '\u{c}' => self.text.push_str("\\f"),
                '\n' => self.text.push_str("\\n"),
                '\r' => self.text.push_str("\\r"),
                '\t' => self.text.push_str("\\t"),
                control if control < ' ' => {
                    let written = write!(self.text, "\\u{:04x}", u32::from(control));
                    debug_assert!(written.is_ok(), "writing to memory");
                }
                other => self.text.push(other),
            }
        }
        self.text.push('"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dumped(json: &str) -> String {
        dump(&serde_json::from_str(json).unwrap(), Some("cut")).unwrap()
    }

    /// The vendor library's output for the same texts.
    #[test]
    fn json_is_printed_as_the_vendor_prints_it() {
        for (json, expected) in [
            ("[1e-5, 1E-5, 0.00001]", "[1e-05,1e-05,1e-05]"),
            ("[1e2, 1.0, 1.50]", "[100.0,1.0,1.5]"),
            ("[-0, -0.0, 0]", "[0,-0.0,0]"),
            ("[9223372036854775808, 18446744073709551615]", "[9223372036854775808,18446744073709551615]"),
            (
                "[18446744073709551616, -9223372036854775809]",
                "[1.8446744073709552e+19,-9.223372036854776e+18]",
            ),
            ("{ \"b\" : 1 , \"a\" : [ ] , \"B\" : { } }", "{\"B\":{},\"a\":[],\"b\":1}"),
            (
                r#""a\u007f\u0001\u001f\/\u00e9\ud83d\ude00\b\f\n\r\t\\\"""#,
                "\"a\u{7f}\\u0001\\u001f/é😀\\b\\f\\n\\r\\t\\\\\\\"\"",
            ),
            ("[null, true, false]", "[null,true,false]"),
        ] {
            assert_eq!(dumped(json), expected);
        }
        let refused = dump(&serde_json::from_str("[1e400]").unwrap(), None).unwrap_err();
        assert!(refused.0.contains("400"), "{}", refused.0);
    }

    #[test]
    fn of_members_that_are_cut_the_comma_stays() {
        assert_eq!(dumped(r#"{"b":1,"cut":"x","d":2}"#), r#"{"b":1,,"d":2}"#);
        assert_eq!(dumped(r#"[{"a":1,"cut":"x"}]"#), r#"[{"a":1,}]"#);
        assert_eq!(dumped(r#"{"cut":"x","d":{"cut":"\""}}"#), r#"{,"d":{}}"#);
        // Only strings: the vendor's behaviour for other values is unknown.
        assert_eq!(dumped(r#"{"a":1,"cut":2}"#), r#"{"a":1,"cut":2}"#);
    }
}
