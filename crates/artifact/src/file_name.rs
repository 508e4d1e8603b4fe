//! Names that may become names of files.

/// Whether `name` may be used as the name of a file: as [`is_plain_file_name`] says, and at most 200 bytes, which leaves
/// room for what is put before and behind it.
///
/// Names that were read from a file or the environment pass here before they meet a path.
pub fn is_safe_file_name(name: &str) -> bool {
    name.len() <= 200 && is_plain_file_name(name)
}

/// Whether `name`, however long, stays in its folder and needs no quotes: `[A-Za-z0-9_.-]+`, neither `.` nor `..`.
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
