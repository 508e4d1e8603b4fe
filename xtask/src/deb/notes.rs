//! The texts that a Debian package must have: the copyright, in Debian's form, and its changelog.

/// The copyright file: our licences, the notice of all third-party code, and their texts. That of Apache-2.0 is on each Debian.
pub(super) fn copyright(mit: &str, third_party: &str) -> String {
    let mit_lines = mit.lines().skip_while(|line| !line.starts_with("Permission is hereby"));
    let mit: String = mit_lines.map(indented).collect();
    let third_party: String = third_party.lines().map(indented).collect();
    format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
         Upstream-Name: opkeep\n\
         Comment:\n{third_party}\n\
         Files: *\n\
         Copyright: The opkeep authors, and those of the crates above\n\
         License: Expat or Apache-2.0\n\n\
         License: Expat\n{mit}\n\
         License: Apache-2.0\n\x20On Debian systems, the text of the licence is in /usr/share/common-licenses/Apache-2.0.\n"
    )
}

/// A line of a field with several ones.
fn indented(line: &str) -> String {
    if line.trim().is_empty() { " .\n".to_owned() } else { format!(" {line}\n") }
}

/// The changelog of the package. The changes of the program are in its own file beside it.
pub(super) fn changelog(version: &str, maintainer: &str, date: &str) -> String {
    format!(
        "opkeep ({version}-1) unstable; urgency=medium\n\n  * Release {version}; /usr/share/doc/opkeep/changelog.gz lists the changes.\n\n \
         -- {maintainer}  {date}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_of_a_field_is_indented() {
        let text = copyright(
            "MIT License\n\nCopyright\n\nPermission is hereby granted\n\nAS IS\n",
            "# Third\n\n| a |\n",
        );
        let fields: Vec<&str> = text.split("\n\n").collect();
        assert_eq!(fields.len(), 4, "{text}");
        assert!(fields[0].ends_with("Comment:\n # Third\n .\n | a |"), "{text}");
        assert!(fields[1].contains("License: Expat or Apache-2.0"), "{text}");
        assert_eq!(fields[2], "License: Expat\n Permission is hereby granted\n .\n AS IS");
    }

    #[test]
    fn the_changelog_is_debians() {
        let text = changelog("1.2.3", "A <a@b.example>", "Mon, 02 Jan 2030 00:00:00 +0000");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "opkeep (1.2.3-1) unstable; urgency=medium");
        assert!(lines[2].starts_with("  * "));
        assert_eq!(lines[4], " -- A <a@b.example>  Mon, 02 Jan 2030 00:00:00 +0000");
    }
}
