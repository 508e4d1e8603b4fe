#![doc = include_str!("../README.md")]

/// Returns a number with its noun: `1 kernel`, `2 kernels`, `2 misses`, `2 entries`. `noun` is the singular. A number that does not fit
/// into 64 bits counts as the largest that does.
pub fn counted(count: impl TryInto<u64>, noun: &str) -> String {
    let count = count.try_into().unwrap_or(u64::MAX);
    let is_consonant = |letter: char| !"aeiou".contains(letter);
    match noun.strip_suffix('y').filter(|stem| stem.ends_with(is_consonant)) {
        _ if count == 1 => format!("1 {noun}"),
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
        assert_eq!(counted(-1_i64, "byte"), counted(u64::MAX, "byte"));
    }
}
