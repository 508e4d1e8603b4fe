#![doc = include_str!("../README.md")]

use std::fmt::Display;

/// Returns a number with its noun: `1 kernel`, `2 kernels`, `2 misses`, `2 entries`. `noun` is the singular. The
/// number is written as it is, also a negative one.
pub fn counted(count: impl Display, noun: &str) -> String {
    let count = count.to_string();
    let is_consonant = |letter: char| !"aeiou".contains(letter);
    match noun.strip_suffix('y').filter(|stem| stem.ends_with(is_consonant)) {
        _ if count == "1" => format!("1 {noun}"),
        Some(stem) => format!("{count} {stem}ies"),
        None if noun.ends_with("xis") => format!("{count} {}es", &noun[..noun.len() - 2]),
        None if noun.ends_with(['s', 'x', 'h']) => format!("{count} {noun}es"),
        None => format!("{count} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_have_their_plural() {
        let texts =
            ["kernel", "miss", "entry", "key", "directory", "patch", "axis"].map(|noun| counted(2, noun));
        assert_eq!(
            texts,
            ["2 kernels", "2 misses", "2 entries", "2 keys", "2 directories", "2 patches", "2 axes"]
        );
        assert_eq!([counted(1, "entry"), counted(0, "byte")], ["1 entry", "0 bytes"]);
        assert_eq!(
            [counted(-1_i64, "group"), counted(i64::MIN, "byte"), counted(u128::MAX, "byte")],
            ["-1 groups", "-9223372036854775808 bytes", "340282366920938463463374607431768211455 bytes"]
        );
    }
}
