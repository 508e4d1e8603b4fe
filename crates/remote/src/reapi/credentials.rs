//! The headers by which the server knows this client.

use std::path::Path;

use opkeep_cache::fs::Fs;
use opkeep_trust::read_secret_file;

use crate::headers::Headers;
use crate::options::HeaderSource;
use crate::renewable::Renewable;

/// The maximum size of a file of headers, in bytes.
const LARGEST_FILE: u64 = 1 << 20;

/// Returns the headers from where they come from. Those of a file are read again when the server has refused what it had.
pub(super) fn headers(source: Option<HeaderSource>) -> Renewable<Headers> {
    Renewable::new(move || match &source {
        None => Ok(Headers::default()),
        Some(HeaderSource::Given(headers)) => Ok(headers.clone()),
        Some(HeaderSource::File(file)) => read(file),
    })
}

fn read(file: &Path) -> Result<Headers, String> {
    let in_file =
        |error: &dyn std::fmt::Display| format!("the file of headers `{}`: {error}", file.display());
    let bytes = read_secret_file(&Fs::new(), file, LARGEST_FILE).map_err(|error| in_file(&error))?;
    let text = str::from_utf8(&bytes).map_err(|error| in_file(&error))?;
    text.parse().map_err(|error| in_file(&error))
}
