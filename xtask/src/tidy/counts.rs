//! Numbers with their nouns in messages: `1 kernels` is impossible if the nouns come from one function.

use super::finding::Finding;

/// What is counted in messages. Words that are verbs as well, such as `names`, are not here.
const COUNTED: &str = " attempts axes builders builds bundles bytes caches calls characters columns copies cores days descriptors \
    devices digits dimensions directories elements entries errors evictions fields files findings groups hits hosts inputs items \
    kernels keys leases lines members misses nodes notes objects operators options outputs packages parts pieces problems processes \
    ranks records registers requests rows seconds sections signatures stores symbols targets tensors threads times tokens values \
    warnings words ";

/// Whether `path` is the source of a crate whose messages people read.
pub(super) fn concerns(path: &str) -> bool {
    let is_product = path.starts_with("crates/") && path.contains("/src/") && path.ends_with(".rs");
    let is_for_tests =
        ["crates/testkit/", "crates/toolchain-mutations/"].iter().any(|dir| path.starts_with(dir));
    is_product && !is_for_tests && !path.ends_with("/tests.rs") && path != "crates/text/src/lib.rs"
}

pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line == "mod tests {" {
            break;
        }
        if line.trim_start().starts_with("//") {
            continue;
        }
        let help = "call `opkeep_text::counted`";
        let quoted: String = line.split('"').skip(1).step_by(2).collect();
        if quoted.contains("(s)") {
            findings.push(Finding::new(path, number, "a noun has `(s)`", help));
        }
        if line.contains("\"s\"") && line.contains("\"\"") {
            findings.push(Finding::new(path, number, "a plural is made by hand", help));
        }
        for word in counted_words(line) {
            let problem = format!("`{word}` follows a number, which may be 1");
            findings.push(Finding::new(path, number, problem, help));
        }
    }
    findings
}

/// Returns the nouns after values in a line with a format string, such as `bytes` of `{size} bytes`. A constant, and what is no number,
/// may have one.
fn counted_words(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("} ").filter_map(move |(at, _)| {
        let value = &line[line[..at].rfind('{')? + 1..at];
        let rest = &line[at + 2..];
        let word = &rest[..rest.find(|letter: char| !letter.is_ascii_lowercase()).unwrap_or(rest.len())];
        let is_constant = !value.is_empty() && !value.contains(|letter: char| letter.is_ascii_lowercase());
        let is_number = !is_constant && !value.contains(":?") && !value.contains(":x");
        (is_number && !word.is_empty() && COUNTED.contains(&format!(" {word} "))).then_some(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_noun_after_a_number_is_found() {
        let found = |line: &str| counted_words(line).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(found("f(\"{a} bytes of {} kernels, {b} x\")"), ["bytes", "kernels"]);
        assert_eq!(found("f(\"at most {MAX_BYTES} bytes, {list:?} values, {a} names\")"), [""; 0]);
        let problems = |text: &str| check("crates/a/src/lib.rs", text).len();
        assert_eq!(
            problems("f(\"{n} file(s)\");\n// {n} files\nf(\"{n} files\");\nmod tests {\n\"{n} files\""),
            2
        );
        assert_eq!(problems("f(s) == Some(s)"), 0);
        assert_eq!(problems("if n == 1 { \"\" } else { \"s\" }"), 1);
    }

    #[test]
    fn the_messages_of_all_product_crates_are_read() {
        assert!(concerns("crates/store/src/error.rs") && concerns("crates/cli/src/ui/text.rs"));
        for other in [
            "crates/testkit/src/elf.rs",
            "crates/cli/src/ui/text/tests.rs",
            "crates/a/tests/b.rs",
            "xtask/src/a.rs",
        ] {
            assert!(!concerns(other), "{other}");
        }
    }
}
