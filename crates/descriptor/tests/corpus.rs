//! Descriptors that we may not redistribute, from the folder that `OPBUILD_CORPUS` names.

#![expect(clippy::disallowed_methods, reason = "tests on files that the environment points to")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use opbuild_descriptor::{InfoError, read_info, write_info};
use serde_json::Value;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = match std::env::var_os("OPBUILD_CORPUS") {
        None => vec![Trial::test("OPBUILD_CORPUS is not set", || Ok(())).with_ignored_flag(true)],
        Some(corpus) => trials(&Path::new(&corpus).join("mindspore")),
    };
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trials(folder: &Path) -> Vec<Trial> {
    let mut files = Vec::new();
    let found = collect(folder, &mut files).map_err(|error| format!("{}: {error}", folder.display()));
    files.sort();
    let count = files.len();
    let mut trials: Vec<Trial> = files
        .into_iter()
        .map(|file| {
            let name = file.strip_prefix(folder).unwrap_or(&file).display().to_string();
            Trial::test(name, move || check(&file))
        })
        .collect();
    // A wrong folder is not a corpus in which everything passes.
    trials.push(Trial::test("the corpus has descriptors", move || match found {
        Ok(()) if count > 0 => Ok(()),
        Ok(()) => Err("no .info file".into()),
        Err(error) => Err(error.into()),
    }));
    trials
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "info") {
            files.push(path);
        }
    }
    Ok(())
}

fn check(file: &Path) -> Result<(), Failed> {
    let bytes = std::fs::read(file)?;
    // Only JSON says of itself which generation it is; `version.info` of an installation, say, is none.
    let document = serde_json::from_slice::<Value>(&bytes);
    let current = document.as_ref().is_ok_and(|document| document.get("job_content").is_some());
    match (document, read_info(&bytes)) {
        (Ok(document), Ok(descriptor)) if current => {
            let written: Value = serde_json::from_str(&write_info(&descriptor))?;
            if written != document {
                return Err("written otherwise than read".into());
            }
            if read_info(write_info(&descriptor).as_bytes())? != descriptor {
                return Err("read otherwise when written".into());
            }
            Ok(())
        }
        (Ok(_), Err(InfoError::Generation { .. })) if !current => Ok(()),
        (Err(_), Err(InfoError::Json { .. } | InfoError::Empty)) => Ok(()),
        (_, Ok(_)) => Err("a descriptor of a generation that this version does not know was read".into()),
        (_, Err(error)) => Err(error.into()),
    }
}
