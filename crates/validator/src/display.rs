//! Display of values from files.

use std::fmt;

use opkeep_text::counted;

/// A name from a file for display: truncated to 240 characters, without control characters.
pub(crate) fn shown(name: &[u8]) -> String {
    // Most names need no escapes.
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'\'' | b'"' | b'\\');
    if name.len() <= 240 && name.iter().all(is_plain) {
        return String::from_utf8_lossy(name).into_owned();
    }
    // A character has at most four bytes, so the rest of a huge name is not decoded.
    let head = &name[..name.len().min(960)];
    String::from_utf8_lossy(head).chars().take(240).flat_map(char::escape_debug).collect()
}

/// Shows alternatives.
pub(crate) fn list<T: fmt::Display>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(T::to_string).collect();
    if items.is_empty() { "nothing".to_owned() } else { items.join(" or ") }
}

/// Shows bytes in hexadecimal.
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Bytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((first, rest)) = self.0.split_first() else { return f.write_str("an empty file") };
        write!(f, "{first:02x}")?;
        rest.iter().try_for_each(|byte| write!(f, " {byte:02x}"))
    }
}

/// Shows the number of kernels.
pub(crate) struct Count(pub(crate) usize);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("no kernel"),
            1 => f.write_str("1 kernel"),
            kernels => f.write_str(&counted(kernels, "kernel")),
        }
    }
}

/// Shows the number of kernels and the first names.
pub(crate) struct Names<'a>(pub(crate) usize, pub(crate) &'a [String]);

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(kernels, found) = self;
        write!(f, "{}", Count(*kernels))?;
        for (at, name) in found.iter().enumerate() {
            write!(f, "{} `{name}`", if at == 0 { ":" } else { "," })?;
        }
        f.write_str(if found.len() < *kernels { ", ..." } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_names_are_harmless_and_short() {
        assert_eq!(shown(b"square_1"), "square_1");
        assert_eq!(shown(b"\x1b[31mred\n"), "\\u{1b}[31mred\\n");
        assert_eq!(shown(b"it's \"a\" \\"), r#"it\'s \"a\" \\"#);
        assert_eq!(shown(b"\x7f"), "\\u{7f}");
        assert_eq!(shown(b"\xff"), "\u{fffd}");
        assert_eq!(shown(&[b'a'; 300]), "a".repeat(240));
        assert_eq!(shown("é".repeat(2000).as_bytes()), "é".repeat(240));
    }
}
