//! Texts of servers, as errors show them: without credentials, which a server may repeat, without characters that a terminal obeys, and
//! not longer than a line or two.

/// The maximum length, in characters.
const LONGEST: usize = 300;

/// Returns what is shown of `text`. `redact` replaces credentials, in the whole text: a part of one would not be recognized.
pub(crate) fn shown(text: &str, redact: impl FnOnce(&str) -> String) -> String {
    let printable = |char: char| if char.is_control() { ' ' } else { char };
    redact(text).chars().map(printable).take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_short_and_printable_and_has_no_part_of_a_credential() {
        let redact = |text: &str| text.replace("hunter2", "***");
        assert_eq!(shown("\u{1b}[31mhunter2\r\n", redact), " [31m***  ");
        for length in LONGEST - 10..LONGEST + 1 {
            let text = shown(&format!("{}hunter2", "x".repeat(length)), redact);
            assert!(text.chars().count() <= LONGEST && !text.contains('h'), "{text}");
        }
    }
}
