//! Texts of the same kind: they differ only in digests, keys and numbers.

/// What stands for a digest or a number.
const ANY: &str = "…";
/// The minimum length of a word of hexadecimal digits that is a digest: of a shorter one, it may be a word.
const MIN_DIGEST: usize = 8;

/// Returns a text without its digests, keys and numbers. Texts of one kind have the same. The directory of an entry is named by the
/// first digits of its key, and counts as a part of that. Digits that a hyphen joins to letters, as in `SHA-256`, are a part of a word.
pub(super) fn kind_of(text: &str) -> String {
    let mut words: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_word = first.is_ascii_alphanumeric();
        let end = rest.find(|letter: char| letter.is_ascii_alphanumeric() != is_word).unwrap_or(rest.len());
        words.push(&rest[..end]);
        rest = &rest[end..];
    }
    let mut kind = String::new();
    for (at, word) in words.iter().enumerate() {
        // A separator is between two words.
        let names_directory = || {
            words.get(at + 1) == Some(&"/")
                && words.get(at + 2).is_some_and(|key| is_digest(key) && key.starts_with(word))
        };
        let is_value =
            is_digest(word) || is_number(word) && !is_joined(&words, at) || is_hex(word) && names_directory();
        kind.push_str(if is_value { ANY } else { word });
    }
    kind
}

/// Whether a hyphen joins the word at `at` to one with letters.
fn is_joined(words: &[&str], at: usize) -> bool {
    let has_letters = |at: usize| words.get(at).is_some_and(|word| is_name(word));
    let is_hyphen = |at: usize| words.get(at) == Some(&"-");
    let before = at.checked_sub(2).is_some_and(|word| is_hyphen(word + 1) && has_letters(word));
    before || is_hyphen(at + 1) && has_letters(at + 2)
}

fn is_name(word: &str) -> bool {
    word.bytes().any(|byte| byte.is_ascii_alphabetic()) && !is_digest(word)
}

fn is_number(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_hex(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

fn is_digest(word: &str) -> bool {
    word.len() >= MIN_DIGEST && is_hex(word) && word.bytes().any(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_and_numbers_do_not_count() {
        let key = "0123456789abcdef".repeat(4);
        for (text, kind) in [
            ("cache mode is force", "cache mode is force"),
            (
                &*format!("damaged: member `object` is damaged: expected SHA-256 {key}, found {key}"),
                "damaged: member `object` is damaged: expected SHA-256 …, found …",
            ),
            ("prefix: expected 512 bytes, found 0", "prefix: expected … bytes, found …"),
            (
                &format!("cannot read `/c/v1/cpu/entries/01/{key}.kern`: denied"),
                "cannot read `/c/v1/cpu/entries/…/….kern`: denied",
            ),
            ("UTF-8 of 3-byte words, 3 of 4", "UTF-8 of 3-byte words, … of …"),
            (&format!("`{key}-12` of 10-20, -5"), "`…-…` of …-…, -…"),
            ("deadbeef is a word, and `ab/cd` a path", "deadbeef is a word, and `ab/cd` a path"),
            ("", ""),
        ] {
            assert_eq!(kind_of(text), kind);
            assert_eq!(kind_of(kind), kind, "a kind is its own kind");
        }
    }
}
