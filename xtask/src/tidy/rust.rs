//! The part of Rust's lexical rules that separates code from comments and literals.

/// `text` with comments and literals blanked out, and line numbers unchanged.
pub(super) fn code_only(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        match end_of_literal(&chars, at) {
            Some(end) => {
                code.extend(chars[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
                at = end;
            }
            None => {
                // A word is copied as a whole, so that the `r` of `for` does not begin a raw string.
                let end = if is_word(chars[at]) { end_of_word(&chars, at) } else { at + 1 };
                code.extend(&chars[at..end]);
                at = end;
            }
        }
    }
    code
}

/// The words and the single other characters of code, each with its line, which counts from 0.
pub(super) fn tokens(code: &str) -> Vec<(usize, &str)> {
    let mut tokens = Vec::new();
    for (number, line) in code.lines().enumerate() {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let len = if is_word(first) {
                rest.find(|c| !is_word(c)).unwrap_or(rest.len())
            } else {
                first.len_utf8()
            };
            tokens.push((number, &rest[..len]));
            rest = rest[len..].trim_start();
        }
    }
    tokens
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn end_of_word(chars: &[char], at: usize) -> usize {
    chars[at..].iter().position(|c| !is_word(*c)).map_or(chars.len(), |len| at + len)
}

/// The end of the comment or literal that begins at `at`, if one does.
fn end_of_literal(chars: &[char], at: usize) -> Option<usize> {
    let next = chars.get(at + 1).copied().unwrap_or_default();
    match chars[at] {
        '/' if next == '/' => Some(find(chars, at, |c| c == '\n')),
        '/' if next == '*' => Some(end_of_block_comment(chars, at)),
        '"' => Some(end_of_quoted(chars, at + 1, '"')),
        // `'a'` and `'\n'` are characters, `'a` is a lifetime.
        '\'' if next == '\\' || chars.get(at + 2) == Some(&'\'') => Some(end_of_quoted(chars, at + 1, '\'')),
        'b' | 'c' | 'r' => {
            let word = end_of_word(chars, at);
            let prefix: String = chars[at..word].iter().collect();
            match (prefix.as_str(), chars.get(word)) {
                ("b" | "c", Some('"')) => Some(end_of_quoted(chars, word + 1, '"')),
                ("b", Some('\'')) => Some(end_of_quoted(chars, word + 1, '\'')),
                ("r" | "br" | "cr", Some('"' | '#')) => end_of_raw(chars, word),
                _ => None,
            }
        }
        _ => None,
    }
}

fn find(chars: &[char], at: usize, wanted: impl Fn(char) -> bool) -> usize {
    chars[at..].iter().position(|c| wanted(*c)).map_or(chars.len(), |len| at + len)
}

fn end_of_block_comment(chars: &[char], at: usize) -> usize {
    let mut depth = 1;
    let mut at = at + 2;
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at.min(chars.len())
}

fn end_of_quoted(chars: &[char], mut at: usize, quote: char) -> usize {
    while at < chars.len() && chars[at] != quote {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(chars.len())
}

/// `hashes` is the position where the `#`s, or the quote, of a raw string should be; `r#name` is no raw string.
fn end_of_raw(chars: &[char], hashes: usize) -> Option<usize> {
    let open = find(chars, hashes, |c| c != '#');
    if chars.get(open) != Some(&'"') {
        return None;
    }
    let count = open - hashes;
    let mut at = open + 1;
    while at < chars.len() {
        let end = at + 1 + count;
        if chars[at] == '"' && chars.get(at + 1..end).is_some_and(|tail| tail.iter().all(|c| *c == '#')) {
            return Some(end);
        }
        at += 1;
    }
    Some(chars.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<&str> {
        text.split_whitespace().collect()
    }

    #[test]
    fn comments_and_literals_are_blanked() {
        let cases = [
            ("a // x\nb", "a b"),
            ("a /* x /* y */ z */ b", "a b"),
            ("a \"x \\\" y\" b", "a b"),
            ("a b\"x\" c\"x\" b", "a b"),
            ("a r\"x\\\" b", "a b"),
            ("a r#\"x \" y\"# br##\"x\"# y\"## b", "a b"),
            ("a '\"' '\\'' b'x' 'x' b", "a b"),
            ("a r#type b", "a r#type b"),
            ("fn f<'a>(x: &'a str) b", "fn f<'a>(x: &'a str) b"),
            ("for\"x\" b", "for b"),
            ("a \"never closed", "a"),
            ("a /* never closed", "a"),
            ("a r#\"never closed\"", "a"),
            ("a \"\\", "a"),
            ("a 'x", "a 'x"),
            ("'", "'"),
        ];
        for (text, code) in cases {
            assert_eq!(words(&code_only(text)), words(code), "{text}");
        }
    }

    #[test]
    fn lines_stay_lines() {
        let code = code_only("/* x\ny */ a\n\"x\\\ny\nz\" b\n");
        let at: Vec<(usize, &str)> = tokens(&code);
        assert_eq!(at, [(1, "a"), (4, "b")]);
    }

    #[test]
    fn tokens_are_words_and_single_characters() {
        let texts: Vec<&str> = tokens("a_b!(1)").into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts, ["a_b", "!", "(", "1", ")"]);
    }
}
