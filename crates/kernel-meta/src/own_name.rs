//! Names that only we use in a directory. No framework reads files with them.

/// The prefix of temporary files, of displaced files and of the manifest.
pub(crate) const OWN: &str = ".opbuild-";
/// The name of a displaced file, until its content shows whether it is ours: this, a process, a number, the name it had,
/// and a suffix that no framework reads.
const OLD: &str = ".opbuild-old-";
const OLD_END: &str = ".old";

/// The name that a file called `name` has while it is displaced, with a number that this process has not used.
pub(crate) fn displaced_as(name: &str, number: u64) -> String {
    format!("{OLD}{}-{number}-{name}{OLD_END}", std::process::id())
}

/// The name that a displaced file had.
pub(crate) fn displaced_name(old: &str) -> Option<&str> {
    let mut parts = old.strip_prefix(OLD)?.strip_suffix(OLD_END)?.splitn(3, '-');
    let is_number =
        |part: Option<&str>| part.is_some_and(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
    let numbered = is_number(parts.next()) && is_number(parts.next());
    parts.next().filter(|name| numbered && !name.is_empty())
}
