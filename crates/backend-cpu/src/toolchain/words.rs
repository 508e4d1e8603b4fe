//! The arguments of a compiler's steps, less what differs between equal toolchains: where they lie.

use std::ffi::OsStr;
use std::path::Path;

/// Stands for a path.
const PATH: &str = "<path>";

/// The rest of the first line that begins with `prefix`.
pub(crate) fn line_after(text: &str, prefix: &str) -> Option<String> {
    text.lines().find_map(|line| line.strip_prefix(prefix)).map(|rest| rest.trim().to_owned())
}

/// A path's last name.
pub(crate) fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Arguments as they count: definitions as they are, of all others that name a path only what stands before it. What is
/// at the path counts by content.
pub(crate) fn that_count(args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Vec<String> {
    let mut defines = false;
    let counted = args.into_iter().map(|arg| {
        let word = arg.as_ref().to_string_lossy().into_owned();
        let is_definition = std::mem::take(&mut defines) || word.starts_with("-D") || word.starts_with("-U");
        defines = matches!(word.as_str(), "-D" | "-U");
        match word.find('/') {
            Some(at) if !is_definition => format!("{}{PATH}", &word[..at]),
            _ => word,
        }
    });
    counted.collect()
}

/// A line of a dry run that is a command: it begins with a space. Words may be quoted.
pub(crate) fn command_of(line: &str) -> Option<Vec<String>> {
    let line = line.strip_prefix(' ')?;
    let mut words = Vec::new();
    let mut word = None::<String>;
    let mut letters = line.chars();
    let mut quoted = false;
    while let Some(letter) = letters.next() {
        match letter {
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            '\\' => word.get_or_insert_default().extend(letters.next()),
            ' ' if !quoted => words.extend(word.take()),
            letter => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    // `(in-process)` and the like are remarks.
    (!words.is_empty() && !words[0].starts_with('(')).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dry_run_lines_come_apart_as_a_shell_would() {
        let gcc = command_of(r#" /usr/lib/gcc/cc1 -quiet - "-march=x86-64" -o /tmp/ccEWCO6s.s"#).unwrap();
        assert_eq!(gcc, ["/usr/lib/gcc/cc1", "-quiet", "-", "-march=x86-64", "-o", "/tmp/ccEWCO6s.s"]);
        let clang = command_of(r#" "/usr/bin/clang" "-cc1" "-D" "A=\"b c\"" """#).unwrap();
        assert_eq!(clang, ["/usr/bin/clang", "-cc1", "-D", "A=\"b c\"", ""]);
        assert_eq!(command_of("COLLECT_GCC=gcc"), None);
        assert_eq!(command_of(" (in-process)"), None);
    }

    #[test]
    fn only_places_do_not_count() {
        let args = [
            "-L/one/lib",
            "/tmp/cc.s",
            "-DA=\"b/c\"",
            "-D",
            "E=/f",
            "-D",
            "-O2",
            "-fplugin=/x.so",
            "kernel.c",
        ];
        let counted =
            ["-L<path>", "<path>", "-DA=\"b/c\"", "-D", "E=/f", "-D", "-O2", "-fplugin=<path>", "kernel.c"];
        assert_eq!(that_count(args), counted);
    }
}
