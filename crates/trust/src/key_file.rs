//! Files with keys.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::str;

use opkeep_fs::Fs;
use zeroize::Zeroizing;

use crate::error::TrustError;
use crate::key_text::KeyTextError;
use crate::public_key::PublicKey;
use crate::signing_key::SigningKey;

/// The maximum number of bytes of the file of a secret key.
const MAX_SECRET_FILE: u64 = 4096;
/// The maximum number of bytes of a list of keys.
const MAX_LIST: u64 = 1 << 20;
const PRIVATE: u32 = 0o600;
/// The bits of a mode with which users other than the owner have access.
const OTHERS: u32 = 0o077;
const GROUP_READS: u32 = 0o040;
const OTHERS_WRITE: u32 = 0o022;
const ROOT: u32 = 0;

/// The content of a file with a secret. It is erased from memory when it is dropped.
pub type SecretBytes = Zeroizing<Vec<u8>>;

impl SigningKey {
    /// Reads the file of a secret key: one key, with white space around it. Links are followed, as those of a secret that is
    /// mounted into a container; what counts is the file that is opened. It must be a regular file of this user, to which no other
    /// user has access, or one of root, which its group may read as well: root chose that group.
    ///
    /// # Errors
    /// [`TrustError::NotPrivate`], [`TrustError::Key`], [`TrustError::NoText`], [`TrustError::Io`].
    pub fn read(fs: &Fs, path: &Path) -> Result<Self, TrustError> {
        let bytes = read_secret_file(fs, path, MAX_SECRET_FILE).map_err(|error| match error {
            // Everyone may read public keys: the file is the wrong one, and its mode is right.
            TrustError::NotPrivate { .. } => public_key_in(fs, path).unwrap_or(error),
            other => other,
        })?;
        let text = text(path, &bytes)?;
        let line = 1 + text[..text.len() - text.trim_ascii_start().len()].matches('\n').count();
        let wrong = |problem| WrongKey { line, problem }.into_error(Some(path));
        text.trim_ascii().parse().map_err(|problem| public_key_in(fs, path).unwrap_or_else(|| wrong(problem)))
    }

    /// Writes the secret key to a new file that only this user can read, and makes it durable.
    ///
    /// # Errors
    /// [`TrustError::Exists`] if there is a file or a link, which is kept; [`TrustError::Io`].
    pub fn write_new(&self, fs: &Fs, path: &Path) -> Result<(), TrustError> {
        let text = self.to_secret_text();
        // Of the final length: a text that grows leaves a copy that is not erased.
        let mut line = Zeroizing::new(String::with_capacity(text.len() + 1));
        line.push_str(&text);
        line.push('\n');
        fs.write_new(path, line.as_bytes(), PRIVATE).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => TrustError::Exists { path: path.to_owned() },
            _ => failed("write", path)(error),
        })
    }
}

/// Reads a file with a secret, at most `max_bytes`. Links are followed, as those of a secret that is mounted into a container; what counts
/// is the file that is opened. It must be a regular file of this user, to which no other user has access, or one of root, which its group
/// may read as well: root chose that group.
///
/// # Errors
/// [`TrustError::NotPrivate`], [`TrustError::Io`].
pub fn read_secret_file(fs: &Fs, path: &Path, max_bytes: u64) -> Result<SecretBytes, TrustError> {
    let (file, metadata) = fs.open_file(path).map_err(failed("read", path))?;
    let (owner, mode, user) = access(&metadata);
    if !is_private(owner, mode, user) {
        return Err(TrustError::NotPrivate { path: path.to_owned(), owner, mode, user });
    }
    fs.read_opened(path, file, &metadata, max_bytes).map(Zeroizing::new).map_err(failed("read", path))
}

/// Returns the error that a file has public keys, if it has: a list, or the public half of a pair.
fn public_key_in(fs: &Fs, path: &Path) -> Option<TrustError> {
    let bytes = Zeroizing::new(fs.read(path, MAX_LIST).ok()?);
    let text = str::from_utf8(&bytes).ok()?;
    // A list has nothing else. The mode of a file counts that has a secret as well.
    public_keys(text).ok()?;
    let line = 1 + text.lines().position(|line| words_of(line).next().is_some())?;
    Some(WrongKey { line, problem: KeyTextError::PublicKey }.into_error(Some(path)))
}

/// Reads the public keys in a file, which is a list as [`TrustedKeys::parse`](crate::TrustedKeys::parse) reads it. Owner and
/// mode are not checked: the keys are for showing, not for trusting.
///
/// # Errors
/// [`TrustError::Key`], [`TrustError::NoText`], [`TrustError::Io`].
pub fn read_public_keys(fs: &Fs, path: &Path) -> Result<Vec<PublicKey>, TrustError> {
    read_list(fs, path, |_| Ok(()))
}

/// Reads the keys of a list that only this user or root can change.
pub(crate) fn read_trusted(fs: &Fs, path: &Path) -> Result<Vec<PublicKey>, TrustError> {
    read_list(fs, path, |metadata| {
        let (owner, mode, user) = access(metadata);
        match (owner == user || owner == 0) && mode & OTHERS_WRITE == 0 {
            true => Ok(()),
            false => Err(TrustError::Writable { path: path.to_owned(), owner, mode, user }),
        }
    })
}

fn read_list(
    fs: &Fs,
    path: &Path,
    check: impl FnOnce(&Metadata) -> Result<(), TrustError>,
) -> Result<Vec<PublicKey>, TrustError> {
    let (file, metadata) = fs.open_file(path).map_err(failed("read", path))?;
    check(&metadata)?;
    // It may be a secret key by mistake.
    let bytes = fs.read_opened(path, file, &metadata, MAX_LIST).map_err(failed("read", path))?;
    let bytes = Zeroizing::new(bytes);
    public_keys(text(path, &bytes)?).map_err(|wrong| wrong.into_error(Some(path)))
}

/// The public keys in a text.
pub(crate) fn public_keys(text: &str) -> Result<Vec<PublicKey>, WrongKey> {
    let mut keys = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for word in words_of(line) {
            keys.push(word.parse().map_err(|problem| WrongKey { line: number, problem })?);
        }
    }
    Ok(keys)
}

/// Returns the words of a line, before a comment.
fn words_of(line: &str) -> impl Iterator<Item = &str> {
    line.split_once('#').map_or(line, |(before, _)| before).split_ascii_whitespace()
}

/// A word that is no key.
pub(crate) struct WrongKey {
    line: usize,
    problem: KeyTextError,
}

impl WrongKey {
    pub(crate) fn into_error(self, path: Option<&Path>) -> TrustError {
        let Self { line, problem } = self;
        TrustError::Key { path: path.map(Path::to_owned), line, problem }
    }
}

/// Whether only this user and root, and those whom root chose, can read a file, and only this user and root can change it.
fn is_private(owner: u32, mode: u32, user: u32) -> bool {
    let others = mode & OTHERS;
    match owner {
        ROOT => others & !GROUP_READS == 0,
        owner => owner == user && others == 0,
    }
}

/// Owner and permissions of a file, and this user.
fn access(metadata: &Metadata) -> (u32, u32, u32) {
    (metadata.uid(), metadata.mode() & 0o7777, rustix::process::geteuid().as_raw())
}

fn text<'a>(path: &Path, bytes: &'a [u8]) -> Result<&'a str, TrustError> {
    str::from_utf8(bytes)
        .map_err(|error| TrustError::NoText { path: path.to_owned(), at: error.valid_up_to() })
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> TrustError {
    let path = path.to_owned();
    move |source| TrustError::Io { action, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_private_to_its_owner_or_to_whom_root_chose() {
        for user in [ROOT, 1000] {
            for mode in 0..=0o7777 {
                let others = mode & OTHERS;
                assert_eq!(is_private(1000, mode, user), user == 1000 && others == 0, "{user}, {mode:o}");
                assert_eq!(
                    is_private(ROOT, mode, user),
                    [0, GROUP_READS].contains(&others),
                    "{user}, {mode:o}"
                );
                assert!(!is_private(1001, mode, user), "{user}, {mode:o}");
            }
        }
    }
}
