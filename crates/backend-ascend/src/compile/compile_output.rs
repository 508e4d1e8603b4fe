//! The results of a compile: the kernel's files in the output directory.

use std::path::Path;

use opkeep_artifact::{Artifact, Member, is_safe_file_name};
use opkeep_cann_meta::KernelMeta;
use opkeep_fs::Fs;

use crate::error::io_error;

/// The maximum length of a kernel's file.
const MAX_FILE: u64 = 256 << 20;

/// The suffix of the second kernel's name if a kernel is compiled twice.
const TWIN: &str = "_deterministic";

/// The kernel called `name`: its `.json`, its object, and its deterministic twin if there is one. An old mixed kernel
/// has no object of its own: its parts are collected instead.
///
/// A compile succeeded if these files exist and belong together: the compiler's exit status does not show it. The
/// validator checks their contents.
pub(crate) fn collect(dir: &Path, name: &str) -> Result<Artifact, String> {
    let json = read(dir, &format!("{name}.json"))?;
    let mut extra = Vec::new();
    let object = match object_of(&json, name)? {
        Some(object) => read(dir, &object)?,
        None => {
            for part in parts(&json, name)? {
                pair(dir, &part, &mut extra)?;
            }
            Vec::new()
        }
    };
    let twin = format!("{name}{TWIN}.json");
    if Fs::new().is_file(&dir.join(&twin)) {
        pair(dir, &twin, &mut extra)?;
    }
    Ok(Artifact { metadata: json, object, extra })
}

/// Adds a further `.json` and its object to `extra`.
fn pair(dir: &Path, json_name: &str, extra: &mut Vec<Member>) -> Result<(), String> {
    let json = read(dir, json_name)?;
    let object = object_of(&json, json_name)?
        .ok_or_else(|| format!("`{json_name}` names no object (`binFileName`)"))?;
    let bytes = read(dir, &object)?;
    extra.push(Member { name: json_name.to_owned(), bytes: json });
    extra.push(Member { name: object, bytes });
    Ok(())
}

fn meta(json: &[u8], name: &str) -> Result<KernelMeta, String> {
    KernelMeta::parse(json).map_err(|error| format!("the `.json` of `{name}` cannot be used: {error}"))
}

/// The file name of the object that a `.json` describes, if it describes one.
fn object_of(json: &[u8], name: &str) -> Result<Option<String>, String> {
    let meta = meta(json, name)?;
    let Some(stem) = meta.bin_file_name else { return Ok(None) };
    let object = format!("{stem}{}", meta.bin_file_suffix.as_deref().unwrap_or(".o"));
    safe(object, "binFileName").map(Some)
}

/// The file names of the parts that a `.json` without an object lists.
fn parts(json: &[u8], name: &str) -> Result<Vec<String>, String> {
    let list = meta(json, name)?.json_list.unwrap_or_default();
    if list.is_empty() {
        return Err(format!(
            "the `.json` of `{name}` names neither an object (`binFileName`) nor parts (`jsonList`)"
        ));
    }
    list.into_iter().map(|part| safe(part.json_file_name, "jsonFileName")).collect()
}

fn safe(name: String, field: &str) -> Result<String, String> {
    match is_safe_file_name(&name) {
        true => Ok(name),
        false => {
            Err(format!("`{field}` is `{name}`, expected a file name of letters, digits, `_`, `-` and `.`"))
        }
    }
}

fn read(dir: &Path, name: &str) -> Result<Vec<u8>, String> {
    let path = dir.join(name);
    match Fs::new().is_file(&path) {
        true => Fs::new().read(&path, MAX_FILE).map_err(|error| io_error("read", &path)(error).to_string()),
        false => Err(format!("`{name}` is not there")),
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "these tests leave files as a compiler would")]
mod tests {
    use serde_json::{Value, json};
    use tempfile::TempDir;

    use super::*;

    fn left(files: &[(&str, Value)]) -> TempDir {
        let dir = TempDir::new().unwrap();
        for (name, content) in files {
            // The test writes texts as objects: their content is not read.
            let bytes = content.as_str().map_or_else(|| content.to_string(), str::to_owned);
            std::fs::write(dir.path().join(name), bytes).unwrap();
        }
        dir
    }

    fn described(stem: &str) -> Value {
        json!({"binFileName": stem, "binFileSuffix": ".o", "kernelName": "square_1__kernel0"})
    }

    fn names(artifact: &Artifact) -> Vec<&str> {
        artifact.extra.iter().map(|member| member.name.as_str()).collect()
    }

    #[test]
    fn a_pair_and_its_twin_are_taken_and_nothing_else() {
        let dir = left(&[
            ("square_1.json", described("square_1")),
            ("square_1.o", json!("one")),
            ("square_1_deterministic.json", described("square_1_deterministic")),
            ("square_1_deterministic.o", json!("two")),
            ("relu_1.o", json!("another's")),
        ]);
        let made = collect(dir.path(), "square_1").unwrap();
        assert_eq!(made.object, b"one");
        assert_eq!(names(&made), ["square_1_deterministic.json", "square_1_deterministic.o"]);
        assert_eq!(made.extra[1].bytes, b"two");
    }

    #[test]
    fn a_master_brings_its_parts() {
        let list = json!([{"coreType": "MIX_AIC", "jsonFileName": "side_aic.json"},
            {"coreType": "MIX_AIV", "jsonFileName": "side_aiv.json"}]);
        let dir = left(&[
            ("square_1.json", json!({ "jsonList": list })),
            ("side_aic.json", described("side_aic")),
            ("side_aic.o", json!("cube")),
            ("side_aiv.json", described("side_aiv")),
            ("side_aiv.o", json!("vector")),
        ]);
        let made = collect(dir.path(), "square_1").unwrap();
        assert!(made.object.is_empty());
        assert_eq!(names(&made), ["side_aic.json", "side_aic.o", "side_aiv.json", "side_aiv.o"]);
        std::fs::remove_file(dir.path().join("side_aiv.o")).unwrap();
        assert_eq!(collect(dir.path(), "square_1").unwrap_err(), "`side_aiv.o` is not there");
    }

    #[test]
    fn missing_files_and_paths_that_lead_elsewhere_are_errors() {
        let is = |files: &[(&str, Value)], says: &str| {
            let problem = collect(left(files).path(), "square_1").unwrap_err();
            assert!(problem.contains(says), "{problem}");
        };
        is(&[], "`square_1.json` is not there");
        is(&[("square_1.json", described("square_1"))], "`square_1.o` is not there");
        is(&[("square_1.json", json!({}))], "neither an object (`binFileName`) nor parts (`jsonList`)");
        is(&[("square_1.json", described("../square_1"))], "expected a file name");
        is(
            &[("square_1.json", json!({"jsonList": [{"coreType": "MIX", "jsonFileName": "/etc/passwd"}]}))],
            "expected a file name",
        );
        is(&[("square_1.json", json!("{"))], "cannot be used");
        let twin = [
            ("square_1.json", described("square_1")),
            ("square_1.o", json!("one")),
            ("square_1_deterministic.json", described("square_1_deterministic")),
        ];
        is(&twin, "`square_1_deterministic.o` is not there");
    }
}
