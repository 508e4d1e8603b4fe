//! The descriptions (`.json`) of a directory, and the files that they name.

use std::collections::HashMap;

use opkeep_artifact::is_plain_file_name;
use opkeep_cann_meta::file_names::{FileSet, NameClass};
use opkeep_fs::Dir;
use serde::Deserialize;

use crate::disk::{is_missing, read_without_atime};
use crate::list::FilesByStem;

/// The content of one description.
#[derive(Debug)]
pub(crate) enum Description {
    /// The description names one existing object, `<stem>.o`, and no header: the usual case.
    Plain,
    /// The description names these files of the kernel.
    Kernel {
        /// Every file name that CANN tries for the object. Usually only one of these files exists.
        objects: Vec<String>,
        header: Option<String>,
        /// The stems of the parts, if this is the description of a multi-part kernel.
        parts: Vec<String>,
        /// Whether one of `objects` exists; false for a multi-part kernel, whose parts have descriptions of their own.
        has_object: bool,
    },
    /// The file is truncated, or is not the description of a kernel.
    Invalid,
    /// The file was not read: that failed, would change its access time, or was cancelled. Files with its stem count as
    /// those of its kernel.
    Unread,
}

/// The fields from which CANN makes the names of a kernel's files.
#[derive(Debug, Deserialize)]
struct Fields {
    #[serde(rename = "binFileName")]
    bin: Option<String>,
    #[serde(rename = "binFileSuffix")]
    suffix: Option<String>,
    #[serde(rename = "headerFileSuffix")]
    header: Option<String>,
    #[serde(rename = "jsonList", default)]
    parts: Vec<Part>,
}

#[derive(Debug, Deserialize)]
struct Part {
    #[serde(rename = "jsonFileName")]
    json: String,
}

/// Reads every description in the directory.
pub(crate) fn read_descriptions(
    dir: &Dir,
    files: &FilesByStem,
    is_cancelled: &dyn Fn() -> bool,
) -> HashMap<Box<str>, Description> {
    let mut buffer = Vec::new();
    let described =
        files.iter().filter(|(_, files)| files.iter().any(|(member, _)| *member == FileSet::JSON));
    described
        .map(|(stem, _)| {
            let description = match read_without_atime(dir, &format!("{stem}.json"), &mut buffer) {
                _ if is_cancelled() => Description::Unread,
                Ok(()) => parse(dir, files, stem, &buffer),
                Err(_) => Description::Unread,
            };
            (stem.clone(), description)
        })
        .collect()
}

fn parse(dir: &Dir, files: &FilesByStem, stem: &str, json: &[u8]) -> Description {
    let Ok(Fields { bin, suffix, header, parts }) = serde_json::from_slice(json) else {
        return Description::Invalid;
    };
    // A name that is a path is skipped: the file may be outside of the directory.
    let is_plain = |name: &String| is_plain_file_name(name);
    let part_stem = |part: Part| part.json.strip_suffix(".json").map_or(part.json.clone(), str::to_owned);
    match bin {
        Some(bin) => {
            let objects: Vec<String> = match suffix.as_deref().unwrap_or(".o") {
                ".so" => vec![format!("{bin}.so"), format!("lib{bin}.so"), format!("{bin}_native.so")],
                suffix => vec![format!("{bin}{suffix}")],
            };
            let objects: Vec<String> = objects.into_iter().filter(is_plain).collect();
            let has_object = objects.iter().any(|object| exists(dir, files, object));
            if has_object && bin == stem && suffix.is_none_or(|suffix| suffix == ".o") && header.is_none() {
                return Description::Plain;
            }
            let header = header.map(|suffix| format!("{bin}{suffix}")).filter(is_plain);
            Description::Kernel { objects, header, parts: Vec::new(), has_object }
        }
        None if !parts.is_empty() => {
            let parts = parts.into_iter().map(part_stem).filter(is_plain).collect();
            Description::Kernel { objects: Vec::new(), header: None, parts, has_object: false }
        }
        None => Description::Invalid,
    }
}

fn exists(dir: &Dir, files: &FilesByStem, name: &str) -> bool {
    match NameClass::in_cann_cache(name) {
        NameClass::Kernel(stem, member) => {
            files.get(stem).is_some_and(|files| files.iter().any(|(listed, _)| *listed == member))
        }
        // The listing has only names that CANN uses.
        _ => !is_missing(dir, name),
    }
}
