//! The key by which a host recognizes what it built itself.

use std::io;
use std::path::Path;

use opkeep_digest::Digest;
use opkeep_fs::{Fs, TempFile};
use zeroize::Zeroizing;

use crate::error::TrustError;
use crate::key_name::KeyName;
use crate::signing_key::{SigningKey, random_seed};

/// The prefix of the temporary name of a new file.
const NEW: &str = ".host-key-";

impl SigningKey {
    /// Makes a new key that is named after itself, `host-` and 16 digits: so no two hosts have keys of one name.
    ///
    /// # Errors
    /// [`TrustError::Random`].
    pub fn generate_for_host() -> Result<Self, TrustError> {
        let key = ed25519_dalek::SigningKey::from_bytes(&*random_seed()?);
        let number = Digest::of(key.verifying_key().as_bytes()).prefix_u64();
        Ok(Self::new(KeyName::of_host(number), key))
    }

    /// Reads the file as [`read`](Self::read) does. If it is missing and `creates` is set, it gets a new key. Of several processes
    /// that do this at once all return one key, since the file appears with its whole content. Missing directories above it are
    /// created, with access for this user only.
    ///
    /// # Errors
    /// As [`read`](Self::read), and if the file cannot be written.
    pub fn open_for_host(fs: &Fs, path: &Path, creates: bool) -> Result<Option<Self>, TrustError> {
        match Self::read(fs, path) {
            Err(TrustError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            read => return read.map(Some),
        }
        if !creates {
            return Ok(None);
        }
        let new = Self::generate_for_host()?;
        let written = new.publish(fs, path);
        match written.map_err(|source| TrustError::Io { action: "write", path: path.to_owned(), source })? {
            true => Ok(Some(new)),
            // Another process was faster.
            false => Self::read(fs, path).map(Some),
        }
    }

    /// Writes the key to a new file, completely or not at all. Returns whether there was none.
    fn publish(&self, fs: &Fs, path: &Path) -> io::Result<bool> {
        let missing = || io::Error::other("this is no file's name");
        let (parent, name) = path.parent().zip(path.file_name()).ok_or_else(missing)?;
        let name = name.to_str().ok_or_else(missing)?;
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        fs.create_dirs(parent, 0o700)?;
        let directory = fs.open_dir(parent)?;
        let text = self.to_secret_text();
        let file = TempFile::create(&directory, NEW, 0o600)?;
        file.write(Zeroizing::new([text.as_bytes(), b"\n"].concat()).as_slice())?;
        file.sync()?;
        file.publish_new_here(name)
    }
}
