//! The names of files in an entry.
//!
//! An entry has fewer characters for names than Triton: the name of a kernel may have any letter, and that of a file with
//! intermediate code begins with `@`. `@add.ttir` is stored as `--40--add.ttir`.

use std::borrow::Cow;

use opkeep_artifact::is_plain_file_name;

/// The mark around the number of a character.
const MARK: &str = "--";

/// The name in an entry of the file that Triton calls `name`.
pub fn stored_file_name(name: &str) -> Cow<'_, str> {
    if is_plain_file_name(name) && !name.contains(MARK) {
        return Cow::Borrowed(name);
    }
    let is_kept = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.');
    let mut stored = String::new();
    for letter in name.chars() {
        match is_kept(letter) {
            true => stored.push(letter),
            false => stored.extend([MARK, &format!("{:x}", u32::from(letter)), MARK]),
        }
    }
    Cow::Owned(stored)
}

/// Triton's name for the file that is called `stored` in an entry. `None` if no file has that name.
pub fn original_file_name(stored: &str) -> Option<Cow<'_, str>> {
    if !stored.contains(MARK) {
        return Some(Cow::Borrowed(stored));
    }
    let mut name = String::new();
    for (place, part) in stored.split(MARK).enumerate() {
        match place % 2 {
            0 => name.push_str(part),
            _ => name.push(char::from_u32(u32::from_str_radix(part, 16).ok()?)?),
        }
    }
    Some(Cow::Owned(name))
}
