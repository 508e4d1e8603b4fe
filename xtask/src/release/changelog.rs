//! The sections of CHANGELOG.md: what is not released yet, then the versions with their dates.

use super::version::Version;

pub(crate) const CHANGELOG: &str = "CHANGELOG.md";

const UNRELEASED: &str = "## Unreleased";

/// The text after a release: the changes are below its version, and the section of later ones is empty.
pub(super) fn released(text: &str, version: Version, date: &str) -> Result<String, String> {
    let lines: Vec<&str> = text.lines().collect();
    let begin = lines.iter().position(|line| *line == UNRELEASED);
    let begin = begin.ok_or_else(|| format!("`{CHANGELOG}` has no section `{UNRELEASED}`"))?;
    let section = lines[begin + 1..].iter().take_while(|line| !line.starts_with("## "));
    if !section.clone().any(|line| line.starts_with("- ")) {
        return Err(format!("`{CHANGELOG}` has no change below `{UNRELEASED}`: there is nothing to release"));
    }
    Ok(text.replacen(UNRELEASED, &format!("{UNRELEASED}\n\n## {version} ({date})"), 1))
}

/// What is wrong with the sections, each with its line: the first is of changes to come, the second of `version`.
pub(crate) fn findings(text: &str, version: &str) -> Vec<(usize, String)> {
    let headings: Vec<(usize, &str)> =
        (1..).zip(text.lines()).filter(|(_, line)| line.starts_with("## ")).collect();
    let mut findings = Vec::new();
    let first = headings.first().copied().unwrap_or((1, ""));
    if first.1 != UNRELEASED {
        findings.push((first.0, format!("the first section is not `{UNRELEASED}`")));
    }
    let released: Vec<_> = headings.iter().filter(|(_, heading)| *heading != UNRELEASED).collect();
    let (line, latest) = released.first().copied().copied().unwrap_or((1, ""));
    if !latest.strip_prefix("## ").and_then(|it| it.strip_prefix(version)).is_some_and(is_dated) {
        findings.push((line, format!("the latest released section is not `## {version} (DATE)`")));
    }
    findings
}

/// Whether the rest of a heading is a date: ` (2026-11-24)`.
fn is_dated(rest: &str) -> bool {
    let date = rest.strip_prefix(" (").and_then(|it| it.strip_suffix(')'));
    date.is_some_and(|date| {
        date.len() == 10
            && date.split('-').map(str::len).eq([4, 2, 2])
            && date.bytes().all(|it| b"-0123456789".contains(&it))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "# Changelog\n\n## Unreleased\n\n### Store\n\n- A change.\n\n## 0.1.0 (2026-11-24)\n\n- The first.\n";

    fn version() -> Version {
        Version::parse("0.2.0").unwrap()
    }

    #[test]
    fn changes_move_below_the_version() {
        let expected = TEXT.replace("## Unreleased\n", "## Unreleased\n\n## 0.2.0 (2030-01-02)\n");
        assert_eq!(released(TEXT, version(), "2030-01-02"), Ok(expected.clone()));
        assert_eq!(findings(&expected, "0.2.0"), []);
    }

    #[test]
    fn without_changes_there_is_no_release() {
        for empty in [
            TEXT.replace("- A change.\n", ""),
            TEXT.replace("### Store\n\n- A change.\n\n", ""),
            TEXT.replace("## Unreleased", "## Unreleased changes"),
        ] {
            assert!(released(&empty, version(), "2030-01-02").is_err(), "{empty}");
        }
    }

    #[test]
    fn sections_follow_an_order() {
        assert_eq!(findings(TEXT, "0.1.0"), []);
        assert_eq!(
            findings(TEXT, "0.1.1"),
            [(9, "the latest released section is not `## 0.1.1 (DATE)`".to_owned())]
        );
        let without = TEXT.replace("## Unreleased", "### Unreleased");
        assert_eq!(findings(&without, "0.1.0"), [(9, "the first section is not `## Unreleased`".to_owned())]);
        for date in ["(soon)", "(2026-11-4)", "2026-11-24", ""] {
            assert_eq!(findings(&TEXT.replace("(2026-11-24)", date), "0.1.0").len(), 1, "{date}");
        }
    }
}
