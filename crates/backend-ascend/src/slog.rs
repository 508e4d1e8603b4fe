//! The toolkit's log: lines of `slog`, and the texts of operators with their codes.

use std::fmt;

/// The severity of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Level {
    /// A warning.
    Warning,
    /// An error.
    Error,
}

/// An error or a warning in the toolkit's log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogMessage {
    /// The severity.
    pub level: Level,
    /// The vendor's code, such as `E80012`, if the text has one.
    pub code: Option<String>,
    /// The position in the toolkit, if the line names it: `opc_tool/op_compilation.py:97`.
    pub place: Option<String>,
    /// The text.
    pub text: String,
}

impl fmt::Display for LogMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.code {
            // Most texts contain the code.
            Some(code) if !self.text.contains(code.as_str()) => write!(f, "{code}: {}", self.text),
            _ => f.write_str(&self.text),
        }
    }
}

/// The messages in the output of a compile, in order, without repetitions.
pub fn parse_log(output: &str) -> Vec<LogMessage> {
    let mut found: Vec<LogMessage> = Vec::new();
    for complaint in output.lines().filter_map(line) {
        if !found.iter().any(|other| other.text == complaint.text) {
            found.push(complaint);
        }
    }
    found
}

/// The most specific message: the first error with a code, or else the first error, or else the first message.
pub fn cause(parse_log: &[LogMessage]) -> Option<&LogMessage> {
    let errors = || parse_log.iter().filter(|complaint| complaint.level == Level::Error);
    errors().find(|error| error.code.is_some()).or_else(|| errors().next()).or(parse_log.first())
}

/// The help for a log message, if there is one.
pub fn hint(text: &str) -> Option<&'static str> {
    HINTS.iter().find(|(sign, _)| text.contains(sign)).map(|(_, hint)| *hint)
}

const HINTS: [(&str, &str); 8] = [
    (
        "Descriptors cannot",
        "the toolkit needs protobuf 3.20 or older: `pip install 'protobuf<=3.20.3'` for the Python that it runs with",
    ),
    (
        "No module named",
        "install that module for the Python that the toolkit runs with, or set HI_PYTHON to another Python",
    ),
    (
        "Another process is using this dir",
        "a compile that was killed left its lock; opkeep tries again elsewhere",
    ),
    ("No space left on device", "make room, or set TMPDIR to a disk with more"),
    ("Soc version", "name a chip that the toolkit knows"),
    ("run cmd compile error", "the device compiler failed; the lines above say why"),
    ("E80012", "a tensor has fewer or more dimensions than the operator takes"),
    ("E80008", "a tensor has an element type that the operator does not take on this chip"),
];

/// One line: `[ERROR] TBE(12,python3):2025-04-28-20:30:17.000.000 [file.py:7][function] text`, the form of Python's own
/// logging, or the last line of a traceback.
fn line(line: &str) -> Option<LogMessage> {
    let line = line.trim();
    let level = |word: &str| match word {
        "ERROR" | "CRITICAL" => Some(Level::Error),
        "WARNING" | "WARN" | "Warning" => Some(Level::Warning),
        _ => None,
    };
    let tagged = line.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let (level, rest) = match tagged {
        Some((word, rest)) => (level(word)?, rest),
        None if is_exception(line) || line.contains("run cmd compile error") => (Level::Error, line),
        None => return None,
    };
    let (place, text) = placed(rest);
    // Tracebacks are left out: the exception in their last line is the message.
    if text.is_empty() || text.starts_with("Traceback") || text.starts_with("File \"") {
        return None;
    }
    Some(LogMessage { level, code: code(text).map(str::to_owned), place, text: text.to_owned() })
}

/// Splits off the process, the time, the place and the function; returns the place and the text.
fn placed(rest: &str) -> (Option<String>, &str) {
    let mut rest = rest.trim_start();
    if let Some((who, text)) = rest.split_once(' ')
        && who.contains("):")
    {
        rest = text.trim_start();
    }
    let mut place = None;
    while let Some((inside, text)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        if place.is_none() && inside.rsplit_once(':').is_some_and(|(_, line)| line.parse::<u32>().is_ok()) {
            place = Some(inside.to_owned());
        }
        rest = text.trim_start();
    }
    (place, rest)
}

/// Whether a line is the end of a traceback: `TypeError: ...`.
fn is_exception(line: &str) -> bool {
    let name = line.split_once(": ").map_or("", |(name, _)| name);
    let name = name.rsplit('.').next().unwrap_or_default();
    ["Error", "Exception"].iter().any(|end| name.ends_with(end))
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// The first of the vendor's codes in a text: `E` or `W`, then capital letters and at least four digits.
fn code(text: &str) -> Option<&str> {
    text.split(|letter: char| !letter.is_ascii_alphanumeric()).find(|word| {
        let digits = word.bytes().filter(u8::is_ascii_digit).count();
        let begins = word.starts_with('E') || word.starts_with('W');
        begins
            && (5..=7).contains(&word.len())
            && digits >= 4
            && word[1..].bytes().all(|letter| letter.is_ascii_digit() || letter.is_ascii_uppercase())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "Opc tool start working now, please wait for a moment.\n\
        [INFO] TBE(77,python3):2025-04-28-20:30:17.100.200 [opc_tool/opc.py:12][main] something\n\
        [WARNING] TBE(77,python3):2025-04-28-20:30:17.100.200 [opc_tool/opc.py:12][main] Invalid op bank path /x.\n\
        [ERROR] TBE(77,python3):2025-04-28-20:30:17.100.200 [opc_tool/op_compilation.py:97][_compile] Traceback (most\n\
        [ERROR] TBE(77,python3):2025-04-28-20:30:17.100.200 [a.py:97][_c] Compile failed, reason is: ('E80012', 'rank')\n\
        [ERROR] TBE(77,python3):2025-04-28-20:30:17.100.300 [b.py:98][_c] Compile failed, reason is: ('E80012', 'rank')\n\
        [ERROR] TBE(77,python3):2025-04-28-20:30:17.100.200 [opc_tool/opc.py:12][main] Opc tool compile failed.\n";

    #[test]
    fn lines_become_complaints_and_the_one_with_a_code_is_the_cause() {
        let found = parse_log(LOG);
        let texts: Vec<(Level, Option<&str>)> =
            found.iter().map(|complaint| (complaint.level, complaint.code.as_deref())).collect();
        assert_eq!(texts, [(Level::Warning, None), (Level::Error, Some("E80012")), (Level::Error, None)]);
        assert_eq!(found[0].place.as_deref(), Some("opc_tool/opc.py:12"));
        assert_eq!(found[0].text, "Invalid op bank path /x.");
        assert_eq!(cause(&found).unwrap().code.as_deref(), Some("E80012"));
        assert_eq!(cause(&found[2..]).unwrap().text, "Opc tool compile failed.");
        assert!(parse_log("all is well\n[INFO] E99999 is no complaint\n").is_empty());
    }

    #[test]
    fn tracebacks_and_plain_logging_count_too() {
        let found = parse_log(
            "Traceback (most recent call last):\n  File \"x.py\", line 1\nTypeError: Descriptors cannot be created directly.\n\
             [ERROR][2025-04-28 20:30:17,100]Soc version is empty.\n[Warning]Can not find libascendalog.so\n",
        );
        let texts: Vec<&str> = found.iter().map(|complaint| complaint.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "TypeError: Descriptors cannot be created directly.",
                "Soc version is empty.",
                "Can not find libascendalog.so"
            ]
        );
        assert!(hint(texts[0]).unwrap().contains("protobuf<=3.20.3"));
        assert_eq!(hint("what nobody knows"), None);
    }

    #[test]
    fn codes_are_distinguished_from_words() {
        for (text, expected) in [
            ("errCode E80012:", Some("E80012")),
            ("EZ9999: inner error", Some("EZ9999")),
            ("W40012 range", Some("W40012")),
            ("ERROR in EVERY1234567890", None),
            ("E8", None),
        ] {
            assert_eq!(code(text), expected, "{text}");
        }
    }
}
