//! The files that are kept of failed compiles.
#![expect(clippy::disallowed_methods, reason = "tests look at what is on the disk")]

use std::path::PathBuf;
use std::sync::Arc;

use crate::common::{Bench, files, request};
use opkeep_backend::BackendError;
use opkeep_testkit::NullBackend;

/// Returns the error of a failed build of one kernel, and the files that were kept.
fn failed(backend: &Arc<NullBackend>) -> (String, Vec<PathBuf>) {
    let bench = Bench::new();
    let report = bench.engine(backend).build(&[request("Square", &[3])]).unwrap();
    let mut told = report.kernels[0].reason.clone().unwrap();
    let base = bench.dir.path().to_string_lossy().into_owned();
    told = told.replace(&base, "BASE");
    let kept = files(bench.dir.path()).into_iter().filter(|path| path.to_string_lossy().contains("/failed/"));
    (told, kept.map(|path| PathBuf::from(path.file_name().unwrap())).collect())
}

#[test]
fn source_and_log_are_kept_and_large_files_are_not() {
    let backend = Arc::new(NullBackend::new(|request, _| {
        let dir = request.work_dir;
        std::fs::write(dir.join("kernel.c"), "source").unwrap();
        std::fs::write(dir.join("junk"), vec![0; 5 << 20]).unwrap();
        std::fs::create_dir(dir.join("more")).unwrap();
        std::fs::write(dir.join("more/junk"), vec![0; 6 << 20]).unwrap();
        let log = dir.join("compile.log");
        std::fs::write(&log, "log").unwrap();
        let (command, log_tail) = ("cc".to_owned(), "log".to_owned());
        Err(BackendError::TimedOut { command, seconds: 1.0, log_tail, log: Some(log) })
    }));
    let (told, kept) = failed(&backend);
    assert_eq!(kept, [PathBuf::from("compile.log"), PathBuf::from("kernel.c")]);
    assert!(
        told.contains("the whole output is in `BASE/opkeep-") && told.contains("/failed/square_"),
        "{told}"
    );
    assert!(told.ends_with("/compile.log`"), "{told}");
}

#[test]
fn a_kernel_that_is_refused_can_be_looked_at() {
    let backend = Arc::new(NullBackend::new(|request, mut artifact| {
        artifact.object = b"rubbish".to_vec();
        std::fs::write(request.work_dir.join("kernel.o"), &artifact.object).unwrap();
        Ok(artifact)
    }));
    let (told, kept) = failed(&backend);
    assert_eq!(kept, [PathBuf::from("kernel.o")]);
    assert!(told.contains("the compiler's files are kept in `BASE/opkeep-"), "{told}");
}

#[test]
fn nothing_is_kept_of_nothing() {
    let backend = Arc::new(NullBackend::new(|_, mut artifact| {
        artifact.object.clear();
        Ok(artifact)
    }));
    let (told, kept) = failed(&backend);
    assert!(kept.is_empty() && !told.contains("the compiler's files"), "{told} {kept:?}");
}

/// For any number of failures, the directory that an error names exists.
#[test]
fn the_directory_that_an_error_names_exists() {
    let bench = Bench::new();
    let backend = Arc::new(NullBackend::new(|request, _| {
        let log = request.work_dir.join("compile.log");
        std::fs::write(&log, "log").unwrap();
        let (command, log_tail) = ("cc".to_owned(), String::new());
        Err(BackendError::TimedOut { command, seconds: 1.0, log_tail, log: Some(log) })
    }));
    let requests: Vec<_> = (1..=80).map(|length| request("Square", &[length])).collect();
    let report = bench.engine(&backend).build(&requests).unwrap();
    let named: Vec<PathBuf> = report
        .kernels
        .iter()
        .filter_map(|kernel| {
            Some(kernel.reason.as_ref()?.split_once("output is in `")?.1.trim_end_matches('`').into())
        })
        .collect();
    assert!(named.len() >= 32 && named.iter().all(|log| log.exists()), "{} named", named.len());
}
