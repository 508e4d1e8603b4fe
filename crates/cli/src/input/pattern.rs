//! Patterns of names in filters.

/// Whether a text is that of a pattern, in which `*` stands for any characters. Upper and lower case do not differ.
pub(crate) fn is_like(text: &str, pattern: &str) -> bool {
    let (text, pattern) = (text.to_ascii_lowercase(), pattern.to_ascii_lowercase());
    let mut parts = pattern.split('*');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters() {
        for (text, pattern, expected) in [
            ("matmul_1", "matmul_1", true),
            ("matmul_1", "matmul", false),
            ("matmul_1", "matmul*", true),
            ("matmul_1", "*_1", true),
            ("matmul_1", "m*m*l*1", true),
            ("Conv2D", "conv2d", true),
            ("conv2d", "CONV*", true),
            ("matmul_1", "*", true),
            ("", "*", true),
            ("aa", "a*a*a", false),
            ("matmul_1", "*x*", false),
        ] {
            assert_eq!(is_like(text, pattern), expected, "{text} {pattern}");
        }
    }
}
