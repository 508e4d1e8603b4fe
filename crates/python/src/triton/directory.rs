//! The directories in which Triton reads the files of a key.
//!
//! `<key>.opkeep-<digest>` is that of one toolchain: the paths that Triton gets are there. `<key>`, where bundlers look, has
//! copies, Triton's list of them with the paths that it would have there, and our record. A hit needs nothing of that, unless a
//! bundler is loaded.

use std::path::PathBuf;

use opkeep_embed::{
    Digest, DirectoryError, FileContent, FileGroup, GroupDir, MemberHead, original_file_name,
};
use pyo3::prelude::*;

use crate::call::without_gil;
use crate::error::exception;
use crate::triton::record::Record;

/// The directory in which Triton reads the files of a key.
#[pyclass(frozen, module = "opkeep._native")]
pub(crate) struct Directory {
    dir: GroupDir,
    /// The directory of Triton's own key.
    shared: GroupDir,
    /// Its name in the base directory.
    #[pyo3(get)]
    name: String,
    /// The start of the path of each file in the directory of Triton's own key, as a JSON text without its last quote.
    json_prefix: String,
    /// Whether a hit has the copies, too.
    checks_copies: bool,
}

#[pymethods]
impl Directory {
    /// The directory of Triton's own key, without copies.
    #[new]
    fn new(py: Python<'_>, base: PathBuf, key: &str) -> PyResult<Self> {
        let dir = GroupDir::new(base, key).map_err(|error| directory_error(py, error))?;
        let (shared, name) = (dir.clone(), key.to_owned());
        Ok(Self { dir, shared, name, json_prefix: String::new(), checks_copies: false })
    }

    /// Writes a file.
    fn write(&self, py: Python<'_>, name: &str, content: &[u8]) -> PyResult<()> {
        let written = without_gil(py, || Ok(self.dir.write(name, content)))?;
        written.map_err(|error| directory_error(py, error))
    }

    /// Writes a file, and its copy.
    fn place(&self, py: Python<'_>, name: &str, content: &[u8]) -> PyResult<()> {
        let written = without_gil(py, || Ok(self.dir.place([(name, content)])))?;
        written.map(drop).map_err(|error| directory_error(py, error))
    }
}

/// A file of a group, and its digest.
type File<'a, C> = (String, C, &'a Digest);

impl Directory {
    /// The directory of a toolchain. Its name has the start of `digest`, which is of all that the files depend on.
    pub(crate) fn of_toolchain(
        base: PathBuf,
        key: &str,
        digest: &Digest,
        json_prefix: String,
        checks_copies: bool,
    ) -> Result<Self, DirectoryError> {
        let name = format!("{key}.opkeep-{:.32}", digest.to_string());
        let shared = GroupDir::new(base.clone(), key)?;
        let dir = GroupDir::new(base, &name)?.with_copies(key)?;
        Ok(Self { dir, shared, name, json_prefix, checks_copies })
    }

    /// Returns the names of the files of the entry `key`, if they lie in the directory. Reads and hashes each byte. If copies are
    /// checked, they lie there as well, with the list and the record of the group if it has the name `listed`.
    pub(crate) fn placed(
        &self,
        key: &Digest,
        files: &mut dyn Iterator<Item = MemberHead<'_>>,
        listed: Option<&str>,
    ) -> Option<Vec<String>> {
        let files =
            files.map(|file| Some((original_file_name(file.name)?.into_owned(), file.bytes, file.digest)));
        let files: Vec<File<'_, u64>> = files.collect::<Option<_>>()?;
        let contents = files.iter().map(|(name, len, digest)| (&**name, FileContent::Digest(*len, digest)));
        let is_placed = match self.checks_copies {
            true => {
                let further = self.further(key, &files, listed);
                let further =
                    further.iter().map(|(name, text)| (&**name, FileContent::Bytes(text.as_bytes())));
                self.dir.has_with_copies(contents.chain(further))
            }
            false => self.dir.has(contents),
        };
        is_placed.then(|| names_of(files))
    }

    /// Makes the files of a hit lie in the directory. Returns their names. If possible, their copies lie there as well, with the
    /// list and the record of the group if it has the name `listed`.
    pub(crate) fn place_hit(
        &self,
        group: &FileGroup,
        listed: Option<&str>,
    ) -> Result<Vec<String>, DirectoryError> {
        let file = |(stored, bytes)| {
            let name = original_file_name(stored).zip(group.digest(stored));
            let (name, digest) = name.ok_or_else(|| DirectoryError::Name { name: String::from(stored) })?;
            Ok((name.into_owned(), bytes, digest))
        };
        self.place_files(group.key(), group.iter().map(file).collect::<Result<_, _>>()?, listed)
    }

    /// Makes the files of the entry `key` lie in the directory, as those of a hit. Returns their names.
    pub(crate) fn place_files(
        &self,
        key: &Digest,
        files: Vec<File<'_, &[u8]>>,
        listed: Option<&str>,
    ) -> Result<Vec<String>, DirectoryError> {
        let further = self.further(key, &files, listed);
        let contents = files.iter().map(|(name, bytes, _)| (&**name, *bytes));
        // The list comes last: it is what Triton looks for.
        let further = further.iter().map(|(name, text)| (&**name, text.as_bytes()));
        self.dir.place_with(contents, further)?;
        Ok(names_of(files))
    }

    /// Returns the files of the group `name` in the directory of Triton's own key, if a record says that they are those of the
    /// entry `key`.
    pub(crate) fn restored(&self, key: &Digest, name: &str) -> Option<Vec<(String, Vec<u8>)>> {
        let record = Record::parse(&self.shared.read(&Record::name(name)).ok()?)?;
        let read = |(name, digest): (String, Digest)| {
            let bytes = self.shared.read(&name).ok()?;
            (Digest::of(&bytes) == digest).then_some((name, bytes))
        };
        let is_of_group = record.entry == *key && record.files.iter().any(|(file, _)| file == name);
        is_of_group.then(|| record.files.into_iter().map(read).collect())?
    }

    /// The further files of the group `listed`: their names and contents.
    fn further<C>(&self, key: &Digest, files: &[File<'_, C>], listed: Option<&str>) -> Vec<(String, String)> {
        let Some(group) = listed else { return Vec::new() };
        let digests = files.iter().map(|(name, _, digest)| (&**name, *digest));
        let record = (Record::name(group), Record::render(key, digests));
        vec![record, self.list(group, files.iter().map(|(name, ..)| &**name))]
    }

    /// Triton's list of the files of the group `group`, as Python renders it: its name and its content.
    fn list<'a>(&self, group: &str, names: impl Iterator<Item = &'a str>) -> (String, String) {
        let mut list = String::from("{\"child_paths\": {");
        for (place, name) in names.enumerate() {
            let separator = if place == 0 { "" } else { ", " };
            let name = ascii_json(name);
            list.extend([separator, "\"", &name, "\": ", &self.json_prefix, &name, "\""]);
        }
        list.push_str("}}");
        (format!("__grp__{group}"), list)
    }
}

fn names_of<C>(files: Vec<File<'_, C>>) -> Vec<String> {
    files.into_iter().map(|(name, ..)| name).collect()
}

/// The characters of a JSON text, all in ASCII.
fn ascii_json(text: &str) -> String {
    let mut units = [0; 2];
    let mut json = String::new();
    for letter in text.chars() {
        match letter {
            '"' | '\\' => json.extend(['\\', letter]),
            ' '..='~' => json.push(letter),
            _ => json.extend(letter.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}"))),
        }
    }
    json
}

/// Returns the exception for a file that was not read or written: that of the system, or `StoreError`.
pub(crate) fn directory_error(py: Python<'_>, error: DirectoryError) -> PyErr {
    match error {
        DirectoryError::Io { source, .. } if source.raw_os_error().is_some() => source.into(),
        error => store_error(py, &error),
    }
}

/// Returns the exception for files of a hit that cannot lie where Triton reads them.
pub(crate) fn store_error(py: Python<'_>, error: &DirectoryError) -> PyErr {
    exception(py, "StoreError", &error.to_string())
}
