//! The files that the descriptions of a directory name.

use std::collections::HashMap;

use opkeep_artifact::is_plain_file_name;
use opkeep_cann_meta::file_names::{FileSet, NameClass};
use opkeep_fs::Dir;
use serde::Deserialize;

use crate::disk::{is_missing, read_quietly};
use crate::list::FilesByStem;

/// The content of one description.
#[derive(Debug)]
pub(crate) enum Description {
    /// The object has the description's own name, as nearly always.
    Plain,
    /// The kernel's files have these names.
    Kernel {
        /// All names by which CANN looks for the object; most of them are missing.
        objects: Vec<String>,
        header: Option<String>,
        /// Stems of the parts that a master lists.
        parts: Vec<String>,
        /// Whether any of the objects exists. Parts have descriptions of their own.
        has_object: bool,
    },
    /// It is cut off, or describes no kernel.
    Invalid,
    /// This user cannot read it without a change of its access time. Its files are those of its name.
    Unread,
}

/// The fields by which CANN finds the files.
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
            let description = match read_quietly(dir, &format!("{stem}.json"), &mut buffer) {
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
    // A name that leads out of the directory is no name of a file in it.
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
        // CANN gives no such name, so it is not listed.
        _ => !is_missing(dir, name),
    }
}
