//! Files that arguments name by `@`: compilers and linkers take the words in them as further arguments.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use super::paths::own_text;

/// The largest number of such files of one program. A file may name others, and itself.
const MAX_FILES: usize = 200;

/// The words in the files that `args` name, relative to `dir`, and in those that these name. A file that is missing has none.
///
/// # Errors
/// There are too many files.
pub(super) fn words(args: &[OsString], dir: &Path) -> io::Result<Vec<OsString>> {
    let (mut found, mut files, mut known) = (Vec::new(), named(args), BTreeSet::new());
    while let Some(file) = files.pop() {
        if !known.insert(file.clone()) {
            continue;
        }
        if known.len() > MAX_FILES {
            return Err(io::Error::other("a program has too many files of arguments to be observed"));
        }
        let words = own_text(&dir.join(file)).map(|text| split(&text)).unwrap_or_default();
        files.extend(named(&words));
        found.extend(words);
    }
    Ok(found)
}

fn named(words: &[OsString]) -> Vec<OsString> {
    let names = words.iter().filter_map(|word| word.as_bytes().strip_prefix(b"@"));
    names.filter(|name| !name.is_empty()).map(|name| OsStr::from_bytes(name).to_owned()).collect()
}

/// The words of a text: quotes and backslashes keep spaces together.
fn split(text: &[u8]) -> Vec<OsString> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<Vec<u8>>, None);
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => word.get_or_insert_default().extend(bytes.next()),
            b'"' | b'\'' if quote == Some(byte) => quote = None,
            b'"' | b'\'' if quote.is_none() => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            byte if byte.is_ascii_whitespace() && quote.is_none() => words.extend(word.take()),
            byte => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word);
    words.into_iter().map(OsString::from_vec).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests lay files")]

    use super::*;

    #[test]
    fn words_are_those_of_a_compiler() {
        let words = |text: &str| split(text.as_bytes()).join(OsStr::new("|")).into_string().unwrap();
        assert_eq!(words(" -O2\n-DA=\"b c\"\t'-x y'\n"), "-O2|-DA=b c|-x y");
        assert_eq!(words("a\\ b '' \"it's\" \\"), "a b||it's|");
        assert_eq!(words(" \n"), "");
    }

    #[test]
    fn files_may_name_files() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("one"), "-a @two @missing @one").unwrap();
        std::fs::write(dir.path().join("two"), "-b").unwrap();
        let found = words(&["@one".into(), "@".into(), "-x@one".into()], dir.path()).unwrap();
        assert_eq!(found, ["-a", "@two", "@missing", "@one", "-b"]);
        assert!(words(&["one".into()], dir.path()).unwrap().is_empty());
        let many: Vec<OsString> = (0..=MAX_FILES).map(|number| format!("@{number}").into()).collect();
        assert!(words(&many, dir.path()).is_err() && words(&many[1..], dir.path()).is_ok());
    }
}
