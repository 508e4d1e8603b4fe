//! What the descriptions in a folder say of the files beside them.

use std::collections::HashMap;

use opkeep_artifact::is_plain_file_name;
use serde::Deserialize;

use crate::gc::disk::{is_gone, read_quietly};
use crate::gc::list::Groups;
use crate::scan::cache_dir::Kind;
use crate::scan::file_set::{FileSet, NameClass, class};
use opkeep_fs::Dir;

/// What one description says.
#[derive(Debug)]
pub(crate) enum DescribedFiles {
    /// The object is the one that is called after it, as of nearly all.
    Plain,
    /// Which files, in this folder, hold the kernel.
    Kernel {
        /// The objects, by all names that CANN looks for; most of them are not there.
        objects: Vec<String>,
        header: Option<String>,
        /// Stems of the parts that a master lists.
        parts: Vec<String>,
        /// Whether any of the objects is there. Of parts they say so themselves.
        is_whole: bool,
    },
    /// It is cut off, or says nothing of a kernel.
    Nothing,
    /// We may not read it without counting as a user of the kernel. So its files are those of its name.
    Unread,
}

/// What CANN reads of a description to find the files.
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

/// Reads every description in the folder.
pub(crate) fn describe(
    dir: &Dir,
    groups: &Groups,
    cancelled: &dyn Fn() -> bool,
) -> HashMap<Box<str>, DescribedFiles> {
    let mut buffer = Vec::new();
    let described =
        groups.iter().filter(|(_, files)| files.iter().any(|(member, _)| *member == FileSet::JSON));
    described
        .map(|(stem, _)| {
            let told = match read_quietly(dir, &format!("{stem}.json"), &mut buffer) {
                // What was not read is not judged.
                _ if cancelled() => DescribedFiles::Unread,
                Ok(()) => parse(dir, groups, stem, &buffer),
                Err(_) => DescribedFiles::Unread,
            };
            (stem.clone(), told)
        })
        .collect()
}

fn parse(dir: &Dir, groups: &Groups, stem: &str, json: &[u8]) -> DescribedFiles {
    let Ok(Fields { bin, suffix, header, parts }) = serde_json::from_slice(json) else {
        return DescribedFiles::Nothing;
    };
    // A name that leaves the folder is nobody's in it.
    let plain = |name: &String| is_plain_file_name(name);
    let part_stem = |part: Part| part.json.strip_suffix(".json").map_or(part.json.clone(), str::to_owned);
    match bin {
        Some(bin) => {
            let objects: Vec<String> = match suffix.as_deref().unwrap_or(".o") {
                ".so" => vec![format!("{bin}.so"), format!("lib{bin}.so"), format!("{bin}_native.so")],
                suffix => vec![format!("{bin}{suffix}")],
            };
            let objects: Vec<String> = objects.into_iter().filter(plain).collect();
            let is_whole = objects.iter().any(|object| is_there(dir, groups, object));
            if is_whole && bin == stem && suffix.is_none_or(|suffix| suffix == ".o") && header.is_none() {
                return DescribedFiles::Plain;
            }
            let header = header.map(|suffix| format!("{bin}{suffix}")).filter(plain);
            DescribedFiles::Kernel { objects, header, parts: Vec::new(), is_whole }
        }
        None if !parts.is_empty() => {
            let parts = parts.into_iter().map(part_stem).filter(plain).collect();
            DescribedFiles::Kernel { objects: Vec::new(), header: None, parts, is_whole: false }
        }
        None => DescribedFiles::Nothing,
    }
}

fn is_there(dir: &Dir, groups: &Groups, name: &str) -> bool {
    match class(name, Kind::Cann) {
        NameClass::Of(stem, member) => {
            groups.get(stem).is_some_and(|files| files.iter().any(|(there, _)| *there == member))
        }
        // Not a name that CANN gives; it may be there all the same.
        _ => !is_gone(dir, name),
    }
}
