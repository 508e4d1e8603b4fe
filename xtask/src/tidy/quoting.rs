//! A command that the command line advises has paths as they are: a path that is not UTF-8 has no text, and a lossy one names another
//! path. So a path is quoted by `quoted_path`, and what is quoted as a word was never a path.

use proc_macro2::{TokenStream, TokenTree};

use super::finding::Finding;

/// The crate of the command line.
const COMMAND_LINE: &str = "crates/cli/src/";
/// The function that quotes words.
const WORD: &str = "quoted_word";
/// What makes a text of a path.
const TEXTS: [&str; 4] = ["display", "quotable", "to_string_lossy", "to_str"];

pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    // The module graph reports a file that cannot be parsed.
    let Some(tokens) = path.starts_with(COMMAND_LINE).then(|| text.parse().ok()).flatten() else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    find(tokens, false, &mut lines);
    let finding = |line| {
        let problem = format!("`{WORD}` is given the text of a path, which may name another path");
        Finding::new(path, line, problem, "use `quoted_path` with the path")
    };
    lines.into_iter().map(finding).collect()
}

/// Adds the lines in which the arguments of the function, within which `tokens` are if `is_argument`, have the text of a path.
fn find(tokens: TokenStream, is_argument: bool, lines: &mut Vec<usize>) {
    let mut is_call = false;
    for token in tokens {
        match &token {
            TokenTree::Ident(name) => {
                if is_argument && TEXTS.iter().any(|text| name == text) {
                    lines.push(name.span().start().line);
                }
                is_call = name == WORD;
                continue;
            }
            TokenTree::Group(group) => find(group.stream(), is_argument || is_call, lines),
            _ => {}
        }
        is_call = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<String> {
        check(path, text).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn lossy_paths_are_found() {
        for text in [
            "fn f() { quoted_word(&path.to_string_lossy()) }",
            "fn f() { crate::ui::text::quoted_word(&dir.join(name).to_string_lossy()) }",
            "fn f() { format!(\"`x {}`\", quoted_word(&format!(\"{}\", path.display()))) }",
            "fn f() { paths.map(|path| quoted_word(path.to_str().unwrap_or_default())) }",
        ] {
            let found = lines("crates/cli/src/a/b.rs", text);
            assert!(
                found.len() == 1 && found[0].starts_with("crates/cli/src/a/b.rs:1: `quoted_word`"),
                "{found:?}"
            );
        }
    }

    #[test]
    fn words_and_paths_are_not() {
        for text in [
            "fn f() { quoted_word(rank); path.to_string_lossy() }",
            "fn f() { quoted_path(path); quoted_word(&format!(\"{name}={value}\")) }",
            "pub(crate) fn quoted_word(word: &str) -> String { word.display() }",
        ] {
            assert_eq!(lines("crates/cli/src/a.rs", text), Vec::<String>::new(), "{text}");
        }
        assert!(lines("crates/cli/tests/suite/a.rs", "fn f() { quoted_word(&a.display()) }").is_empty());
    }
}
