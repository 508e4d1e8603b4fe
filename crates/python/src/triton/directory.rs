//! The directory in which Triton reads the files of a key.

use std::path::PathBuf;

use opkeep_embed::{DirectoryError, FileContent, FileGroup, GroupDir, MemberHead, original_file_name};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::call::without_gil;
use crate::error::exception;

/// The directory in which Triton reads the files of a key.
#[pyclass(frozen, module = "opkeep._native")]
pub(crate) struct Directory {
    dir: GroupDir,
    /// The start of the path of each file, as a JSON text without its last quote.
    json_prefix: String,
}

#[pymethods]
impl Directory {
    #[new]
    fn new(py: Python<'_>, base: PathBuf, name: &str, json_prefix: String) -> PyResult<Self> {
        let dir = GroupDir::new(base, name).map_err(|error| directory_error(py, error))?;
        Ok(Self { dir, json_prefix })
    }

    /// Writes a file, in place of whatever has its name.
    fn write(&self, py: Python<'_>, name: &str, content: &[u8]) -> PyResult<()> {
        let written = without_gil(py, || Ok(self.dir.write(name, content)))?;
        written.map_err(|error| directory_error(py, error))
    }

    /// Returns the bytes of a file, and when its state last changed in nanoseconds since 1970.
    fn read<'py>(&self, py: Python<'py>, name: &str) -> PyResult<(Bound<'py, PyBytes>, i64)> {
        let file = without_gil(py, || Ok(self.dir.read(name)))?;
        let file = file.map_err(|error| directory_error(py, error))?;
        Ok((PyBytes::new(py, &file.bytes), file.changed))
    }
}

impl Directory {
    /// Returns the names of the files of a group, if they lie in the directory, with Triton's list of them if the group has the
    /// name `listed`. Reads and hashes each byte.
    pub(crate) fn placed(
        &self,
        files: &mut dyn Iterator<Item = MemberHead<'_>>,
        listed: Option<&str>,
    ) -> Option<Vec<String>> {
        let content = |file: &MemberHead<'_>| (file.bytes, *file.digest);
        let files = files.map(|file| Some((original_file_name(file.name)?.into_owned(), content(&file))));
        let (names, contents): (Vec<_>, Vec<_>) = files.collect::<Option<Vec<_>>>()?.into_iter().unzip();
        let contents = contents.iter().map(|(len, digest)| FileContent::Digest(*len, digest));
        let list = listed.map(|name| self.list(name, &names));
        let list = list.iter().map(|(name, content)| (name.as_str(), FileContent::Bytes(content.as_bytes())));
        let is_placed = self.dir.has(names.iter().map(String::as_str).zip(contents).chain(list));
        is_placed.then_some(names)
    }

    /// Makes the files of a hit lie in the directory, with Triton's list of them if the group has the name `listed`.
    /// Returns their names.
    pub(crate) fn place(
        &self,
        group: &FileGroup,
        listed: Option<&str>,
    ) -> Result<Vec<String>, DirectoryError> {
        let named = |name: &str| {
            original_file_name(name)
                .map(|name| name.into_owned())
                .ok_or(DirectoryError::Name { name: name.to_owned() })
        };
        let names = group.names().map(named).collect::<Result<Vec<_>, _>>()?;
        let contents = group.iter().map(|(_, bytes)| bytes);
        let list = listed.map(|name| self.list(name, &names));
        let list = list.iter().map(|(name, content)| (name.as_str(), content.as_bytes()));
        // The list comes last: it is what Triton looks for.
        self.dir.place(names.iter().map(String::as_str).zip(contents).chain(list))?;
        Ok(names)
    }

    /// Triton's list of the files of the group `group`, as Python renders it: its name and its content.
    fn list(&self, group: &str, names: &[String]) -> (String, String) {
        let mut list = String::from("{\"child_paths\": {");
        for (place, name) in names.iter().enumerate() {
            let separator = if place == 0 { "" } else { ", " };
            let name = ascii_json(name);
            list.extend([separator, "\"", &name, "\": ", &self.json_prefix, &name, "\""]);
        }
        list.push_str("}}");
        (format!("__grp__{group}"), list)
    }
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
