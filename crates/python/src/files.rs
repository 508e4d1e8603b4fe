//! The files that a caller publishes.

use std::time::Duration;

use opkeep_embed::{EmbedError, NewGroup};
use opkeep_store::MAX_ENTRY_BYTES;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyMapping, PyMemoryView, PyString};

use crate::arguments::{optional_seconds, text};
use crate::error::{argument_error, python_error};

/// The files that a caller publishes, with what reports state of them.
pub(crate) struct Files {
    files: Vec<(String, PyBackedBytes)>,
    kernel: String,
    framework_version: String,
    compile_time: Option<Duration>,
}

impl Files {
    /// Takes the arguments of a call. `bytes` are not copied.
    pub(crate) fn new(
        files: &Bound<'_, PyAny>,
        kernel: &Bound<'_, PyAny>,
        framework_version: &Bound<'_, PyAny>,
        compile_time: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let kernel = text("kernel", kernel)?;
        let framework_version = text("framework_version", framework_version)?;
        let compile_time = optional_seconds("compile_time", compile_time)?;
        let mapping = files
            .cast::<PyMapping>()
            .map_err(|_| argument_error("files", "a mapping of names and bytes", files))?;
        let mut taken = Vec::new();
        let mut copied = 0;
        for item in mapping.items()?.iter() {
            let (name, content) = item.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
            let name = match name.cast::<PyString>() {
                // A text that is not valid Unicode becomes a name that is not valid.
                Ok(name) => name.to_string_lossy().into_owned(),
                Err(_) => return Err(argument_error("files", "a name that is a text", &name)),
            };
            taken.push((name, bytes_of(&content, &mut copied)?));
        }
        Ok(Self { files: taken, kernel, framework_version, compile_time })
    }

    /// The group to publish.
    pub(crate) fn group(&self) -> NewGroup<'_> {
        let files = self.files.iter().map(|(name, bytes)| (name.as_str(), &bytes[..]));
        let mut group = NewGroup::new(files).with_kernel(&self.kernel);
        group.framework_version = &self.framework_version;
        group.compile_time = self.compile_time;
        group
    }
}

/// Returns the bytes of a file. Other objects than `bytes` are copied, since they may change while they are written; `copied`
/// is the number of bytes so far, which is limited to what an entry may have.
fn bytes_of(content: &Bound<'_, PyAny>, copied: &mut u64) -> PyResult<PyBackedBytes> {
    if let Ok(bytes) = content.cast::<PyBytes>() {
        return Ok(bytes.clone().into());
    }
    let view = PyMemoryView::from(content)
        .map_err(|_| argument_error("files", "bytes, or another object with a buffer", content))?;
    *copied += view.getattr("nbytes")?.extract::<u64>()?;
    if *copied > MAX_ENTRY_BYTES {
        return Err(python_error(content.py(), &EmbedError::TooLarge { found: *copied }));
    }
    let bytes = view.call_method0("tobytes")?;
    Ok(bytes.cast_into::<PyBytes>().map_err(PyErr::from)?.into())
}
