//! Names that are safe as file names.

/// Whether `name` is a [plain file name](is_plain_file_name) of at most 200 bytes, which leaves space for prefixes and
/// suffixes.
///
/// Names from a file or the environment are checked here before they become part of a path.
pub fn is_safe_file_name(name: &str) -> bool {
    name.len() <= 200 && is_plain_file_name(name)
}

/// Whether `name`, of any length, stays in its directory and needs no quotes: `[A-Za-z0-9_.-]+`, except `.` and `..`.
pub fn is_plain_file_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..")
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_are_file_names() {
        for good in ["square_1", "te_fusion_a_b_12", "a.b-c", "..a", "A"] {
            assert!(is_safe_file_name(good), "{good}");
        }
        let long = "a".repeat(201);
        assert!(is_plain_file_name(&long) && !is_plain_file_name(".."));
        for bad in ["", ".", "..", "a/b", "../x", "a b", "a\0", "a\n", "é", "a\\b", "a:b", &long] {
            assert!(!is_safe_file_name(bad), "{bad}");
        }
    }
}
