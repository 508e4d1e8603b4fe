use std::ffi::OsStr;

use super::*;

/// Every character that ends a line, moves the cursor, colours, or turns the direction of the text beside it.
const HOSTILE: &str = "a\nb\r\t\0\x07\x08\x1b[31m\x7f\u{85}\u{9b}2J\u{2028}\u{2029}\u{202a}\u{202e}\u{2066}\u{2069}\
                       \u{200e}\u{200f}\u{61c}\u{200b}\u{feff}\u{ad}\u{e0041}z";

#[test]
fn a_line_stays_one_line_of_letters() {
    let mut text = Text::default();
    text.line(format_args!("node `{HOSTILE}`"));
    assert_eq!(text.0.lines().count(), 1);
    assert!(text.as_str().chars().all(is_printable), "{text:?}");
    assert!(text.as_str().starts_with("node `a\\nb\\r\\t\\u{0}\\u{7}"), "{text:?}");
    assert!(text.as_str().ends_with("z`"), "{text:?}");
    let plain = "Default/Square-op1 äé 卷积 \u{301} ✓ \\ \" ' \u{a0}";
    assert_eq!(one_line(plain), plain);
}

#[test]
fn quoted_lines_are_distinguished_from_own_lines() {
    let mut text = Text::default();
    text.quoted("cc failed\r\nerror: forged\n\x1b[2Jreused  x\u{202e}\n");
    assert_eq!(text.as_str(), "cc failed\\r\n    | error: forged\n    | \\u{1b}[2Jreused  x\\u{202e}");
}

#[test]
fn json_keeps_its_value_and_contains_no_control_characters() {
    let json = serde_json::json!({ HOSTILE: [HOSTILE, "\u{13430}\\u202e\""] });
    let shown = printable_json(&json.to_string());
    assert!(shown.chars().all(is_printable), "{shown}");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), json);
}

/// Returns what a shell reads of a quoted word.
fn read_by_shell(quoted: &str) -> Vec<u8> {
    assert!(quoted.chars().all(is_printable), "{quoted}");
    std::process::Command::new("bash").args(["-c", &format!("printf %s {quoted}")]).output().unwrap().stdout
}

#[test]
fn a_shell_reads_a_quoted_word_as_it_is() {
    let hostile = HOSTILE.replace('\0', "");
    for word in ["run/rank_0", "", "a b", "it's", "a\nb\u{202e}'\\x", "-n $HOME `id` \"*\"", &hostile] {
        assert_eq!(String::from_utf8(read_by_shell(&quoted_word(word))).unwrap(), word);
        if !word.starts_with('-') {
            assert_eq!(quoted_path(Path::new(word)), quoted_word(word));
        }
    }
    assert_eq!(quoted_word("run/rank_0/kernel_meta"), "run/rank_0/kernel_meta");
}

/// A lossy text would name another path.
#[test]
fn a_shell_reads_a_path_that_is_not_text() {
    for path in [b"a\xff".as_slice(), b"\xe5\x8d", b"it's \\ \xffb\n", "卷\u{202e}".as_bytes()] {
        let shown = quoted_path(Path::new(OsStr::from_bytes(path)));
        assert_eq!(read_by_shell(&shown), path, "{shown}");
    }
    // Two digits belong to a byte, also before letters that are digits.
    assert_eq!(quoted_path(Path::new(OsStr::from_bytes(b"\xffab"))), r"$'\xffab'");
}

#[test]
fn a_path_is_an_argument_and_no_flag() {
    for (path, expected) in
        [("-x.onnx", "./-x.onnx"), ("--", "./--"), ("a/-x", "a/-x"), ("/-x", "/-x"), ("x", "x")]
    {
        assert_eq!(quoted_path(Path::new(path)), expected);
    }
    assert_eq!(quoted_path(Path::new(OsStr::from_bytes(b"-a\xff"))), r"$'./-a\xff'");
}

#[test]
fn cells_are_aligned_by_their_displayed_width() {
    let lines = [vec!["a\n".to_owned(), "1".to_owned()], vec!["abcd".to_owned(), "22".to_owned()]];
    assert_eq!(columns("  ", &lines).as_str(), "  a\\n    1\n  abcd  22");
    // Chinese characters have two columns, combining ones none.
    let lines =
        [["卷积", "1"], ["e\u{301}", "22"], ["conv2d", "3"]].map(|line| line.map(str::to_owned).to_vec());
    assert_eq!(columns("", &lines).as_str(), "卷积     1\ne\u{301}       22\nconv2d   3");
    assert_eq!([shortened("卷积卷积", 5), shortened("卷积", 4)], ["卷积...", "卷积"]);
    assert_eq!(shortened(&format!("e{}", "\u{301}".repeat(100)), 3), "e\u{301}\u{301}...");
}

#[test]
fn numbers_are_aligned_to_the_right_and_words_to_the_left() {
    let lines: Vec<Vec<String>> =
        [["name", "type", "size", "key"], ["a", "Conv2D", "9 KiB", "3e8"], ["b", "Add", "11.5 KiB", "aa6"]]
            .iter()
            .map(|line| line.map(str::to_owned).to_vec())
            .collect();
    let expected = "name  type        size  key\na     Conv2D     9 KiB  3e8\nb     Add     11.5 KiB  aa6";
    assert_eq!(columns("", &lines).as_str(), expected);
    // No blank ends a line.
    let lines = [vec!["a".to_owned(), "b".to_owned()], vec!["abc".to_owned(), String::new()]];
    assert_eq!(columns("", &lines).as_str(), "a    b\nabc");
}

#[test]
fn a_long_cell_moves_only_its_own_line() {
    let long = "x".repeat(100_000);
    let lines = [vec![long.clone(), "1".to_owned()], vec!["a".to_owned(), long.clone()]];
    let text = columns("", &lines);
    let expected = [format!("{long}  1"), format!("a{}  {long}", " ".repeat(99))];
    assert!(text.as_str().lines().eq(expected), "{} characters", text.as_str().len());
    assert_eq!((shortened("äbc", 2), shortened("äbc", 3)), ("äb...".to_owned(), "äbc".to_owned()));
}

/// Calls `look` with each source of the command.
#[expect(clippy::disallowed_methods, reason = "it reads source files")]
fn each_source(mut look: impl FnMut(&std::path::Path, &str)) {
    let mut dirs = vec![std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut files = 0;
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
                continue;
            }
            look(&path, &std::fs::read_to_string(&path).unwrap());
            files += 1;
        }
    }
    assert!(files > 50, "{files}");
}

/// A width or a precision that is an argument of a format is a panic from 65,536 on.
#[test]
fn no_format_takes_its_width_from_an_argument() {
    each_source(|path, source| {
        let ends = [["$", "}"].concat(), [".", "*}"].concat(), ["$", "?}"].concat()];
        let found = ends.iter().find(|end| source.contains(end.as_str()));
        assert_eq!(found, None, "{}", path.display());
    });
}
