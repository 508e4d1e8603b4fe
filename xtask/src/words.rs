//! Counts words that the vocabulary replaces. It only prints the counts, since some uses are right; words without a right use in prose are
//! findings of `cargo xtask tidy`.

use std::path::Path;

use crate::disk;

/// A word in lower case, and its replacement.
const WORDS: &[(&str, &str)] = &[
    ("already there", "existing entry"),
    ("anew", "again, new"),
    ("as provided", "default implementation"),
    ("besides", "other files, also"),
    ("die", "exit, be killed, fail"),
    ("died", "exited, was killed, failed"),
    ("dies", "exits, is killed, fails"),
    ("folder", "directory"),
    ("folders", "directories"),
    ("give up", "cancel, stop waiting"),
    ("given up", "cancelled, interrupted"),
    ("hear", "is notified"),
    ("in order", "valid, intact"),
    ("in parts", "multi-part kernel"),
    ("in the making", "in progress"),
    ("make room", "evict"),
    ("makes room", "evicts"),
    ("nobody", "no caller, no process"),
    ("not there", "missing, not found"),
    ("passed over", "skipped, unsupported"),
    ("patience", "wait timeout"),
    ("put back", "restore"),
    ("puts back", "restores"),
    ("set aside", "quarantine"),
    ("sets aside", "quarantines"),
    ("shelf", "target store"),
    ("sign of life", "heartbeat"),
    ("silent", "stale"),
    ("somebody", "a caller, a process"),
    ("someone", "a caller, a process, an attacker"),
    ("sweep", "prune"),
    ("swept", "pruned"),
    ("tell", "report, log"),
    ("tells", "reports, logs"),
    ("told", "reported, logged"),
    ("torn", "truncated, damaged"),
    ("way out", "help"),
    ("who", "the caller, the lock holder"),
    ("whoever", "the lock holder, the process that"),
    ("whole", "valid, intact, complete"),
];

pub(crate) fn words(args: &[String]) -> Result<(), String> {
    let metadata = disk::metadata()?;
    let root = metadata["workspace_root"].as_str().ok_or("`cargo metadata` names no workspace root")?;
    let root = Path::new(root);
    let mut counts = vec![0; WORDS.len()];
    for path in disk::files(root)?.iter().filter(|path| is_prose(path)) {
        let text = disk::text_if_exists(root, path)?.unwrap_or_default();
        for (number, line) in (1..).zip(text.lines()) {
            let lower = line.to_lowercase();
            for ((word, _), count) in WORDS.iter().zip(&mut counts) {
                let found = occurrences(&lower, word);
                *count += found;
                if found > 0 && args.iter().any(|arg| arg == word) {
                    println!("{path}:{number}: {}", line.trim());
                }
            }
        }
    }
    for ((word, instead), count) in WORDS.iter().zip(counts).filter(|(_, count)| *count > 0) {
        println!("{count:6}  {word}: {instead}");
    }
    Ok(())
}

/// Whether people read the file: code, documents and help texts, but no fixture and not this list.
fn is_prose(path: &str) -> bool {
    let is_text = [".rs", ".md", ".py", ".toml"].iter().any(|end| path.ends_with(end));
    is_text && !path.starts_with("fixtures/") && path != "xtask/src/words.rs"
}

/// The number of times that `word` occurs separately in `text`; an underscore separates words.
pub(crate) fn occurrences(text: &str, word: &str) -> usize {
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    text.match_indices(word)
        .filter(|(at, _)| {
            let (before, after) = (&text[..*at], &text[at + word.len()..]);
            !is_letter(before.chars().next_back()) && !is_letter(after.chars().next())
        })
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_counts_where_it_stands_by_itself() {
        assert_eq!(occurrences("a folder, the_folder and folders", "folder"), 2);
        assert_eq!(occurrences("nothing is set aside", "set aside"), 1);
        assert_eq!(occurrences("subfolder", "folder"), 0);
    }
}
