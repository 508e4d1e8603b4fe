//! What a builder of images gets of the workspace: not what compilers made, which is large, and all that the example copies.

use super::finding::Finding;

pub(super) const IGNORE: &str = ".dockerignore";
pub(super) const CONTAINERFILE: &str = "docs/container/Containerfile";

/// Paths that no image needs.
const NEEDLESS: [&str; 3] = [".git/HEAD", "target/debug/opkeep", "target/release/opkeep"];

/// Checks the list of what builders of images do not get, with the sources that the example of an image copies.
pub(super) fn check(ignore: Option<&str>, containerfile: Option<&str>) -> Vec<Finding> {
    let Some(ignore) = ignore else {
        let help = "exclude `.git` and `target/*` there";
        return vec![Finding::new(IGNORE, 1, "builders of images get the whole directory", help)];
    };
    let mut findings = Vec::new();
    for path in NEEDLESS.iter().filter(|path| !is_excluded(ignore, path)) {
        let problem = format!("builders of images get `{path}`");
        findings.push(Finding::new(IGNORE, 1, problem, "exclude its directory"));
    }
    for (line, source) in sources(containerfile.unwrap_or_default()) {
        if is_excluded(ignore, &source) {
            let problem = format!("`{IGNORE}` excludes `{source}`");
            findings.push(Finding::new(CONTAINERFILE, line, problem, "except it there, behind a `!`"));
        }
    }
    findings
}

/// The files of the workspace that a Containerfile copies, each with its line. An argument stands for its default value.
fn sources(containerfile: &str) -> Vec<(usize, String)> {
    let (mut arguments, mut found) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(containerfile.lines()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["ARG", argument] => arguments.extend(argument.split_once('=')),
            ["COPY", source, _] => {
                let named = |(name, _): &&(&str, &str)| source.strip_prefix('$') == Some(*name);
                let source = arguments.iter().rev().find(named).map_or(source, |(_, value)| value);
                found.push((number, source.to_owned()));
            }
            _ => {}
        }
    }
    found
}

/// Whether the patterns exclude a path: the last one that matches it, or a directory that it is in, decides.
fn is_excluded(patterns: &str, path: &str) -> bool {
    let mut is_excluded = false;
    let lines = patterns.lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (pattern, excludes) = line.strip_prefix('!').map_or((line, true), |pattern| (pattern, false));
        if matches(pattern.trim_matches('/'), path) {
            is_excluded = excludes;
        }
    }
    is_excluded
}

/// Whether a pattern matches a path, or the beginning of it. `*` stands for any name.
fn matches(pattern: &str, path: &str) -> bool {
    let mut names = path.split('/');
    pattern.split('/').all(|wanted| names.next().is_some_and(|name| wanted == "*" || wanted == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "FROM a AS b\nARG ARCHIVE=target/archives/x.tar.gz\nCOPY $ARCHIVE /tmp/x\nCOPY fixtures/net.onnx /m\n\
                        COPY --from=b /opt /opt\n";

    fn found(ignore: Option<&str>) -> Vec<String> {
        check(ignore, Some(FILE)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn images_get_what_they_copy_and_nothing_large() {
        assert_eq!(found(Some("# why\n.git\ntarget/*\n!target/archives\n")), [""; 0]);
        for (ignore, expected) in [
            (None, &[".dockerignore:1: builders of images get the whole directory"][..]),
            (
                Some(".git\n!target\n"),
                &[
                    ".dockerignore:1: builders of images get `target/debug/opkeep`",
                    ".dockerignore:1: builders of images get `target/release/opkeep`",
                ],
            ),
            (
                Some(".git\ntarget\nfixtures"),
                &[
                    "docs/container/Containerfile:3: `.dockerignore` excludes `target/archives/x.tar.gz`",
                    "docs/container/Containerfile:4: `.dockerignore` excludes `fixtures/net.onnx`",
                ],
            ),
        ] {
            let found = found(ignore);
            assert_eq!(found.len(), expected.len(), "{found:#?}");
            assert!(
                found.iter().zip(expected).all(|(found, expected)| found.starts_with(expected)),
                "{found:#?}"
            );
        }
    }
}
