//! Files that no package has: nothing of them ends the check, and nothing outside the package is read.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]
#![expect(clippy::unwrap_used, reason = "these tests are functions without `#[test]`")]

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use libtest_mimic::{Failed, Trial};
use opkeep_cann_package::{Finding, PackageError};

use crate::common::{Package, verify};

type Test = fn() -> Result<(), Failed>;

pub(crate) fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 6] = [
        ("a_directory_without_a_package_is_refused", a_directory_without_a_package_is_refused),
        ("links_and_special_files_are_reported", links_and_special_files_are_reported),
        ("links_inside_the_package_are_followed", links_inside_the_package_are_followed),
        ("every_truncation_of_every_file_is_survived", every_truncation_of_every_file_is_survived),
        ("values_of_every_type_are_survived", values_of_every_type_are_survived),
        ("sizes_and_numbers_are_limited", sizes_and_numbers_are_limited),
    ];
    tests.into_iter().map(|(name, test)| Trial::test(format!("hostile::{name}"), test)).collect()
}

fn a_directory_without_a_package_is_refused() -> Result<(), Failed> {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("op_impl")).unwrap();
    let refused = verify(dir.path()).unwrap_err();
    assert!(matches!(refused, PackageError::NoPackage { .. }), "{refused:?}");
    assert!(refused.to_string().contains("holds no operator package: expected"), "{refused}");
    let missing = verify(&dir.path().join("missing")).unwrap_err();
    assert!(matches!(missing, PackageError::Open { .. }), "{missing:?}");
    fs::write(dir.path().join("file"), "").unwrap();
    assert!(matches!(verify(&dir.path().join("file")), Err(PackageError::Open { .. })));
    Ok(())
}

fn has(findings: &[Finding], file: &str, kind: &str, text: &str) -> bool {
    let is_it = |it: &&Finding| {
        it.file.to_string_lossy().ends_with(file)
            && it.problem.kind() == kind
            && it.problem.to_string().contains(text)
    };
    findings.iter().any(|finding| is_it(&finding))
}

fn links_and_special_files_are_reported() -> Result<(), Failed> {
    let package = Package::new();
    fs::create_dir_all(package.outside()).unwrap();
    let (half, float) = (Package::add("ascend910b", "float16"), Package::add("ascend910b", "float32"));
    let outside = package.outside().join("kernel.o");
    fs::rename(package.file(&format!("{half}.o")), &outside).unwrap();
    symlink(&outside, package.file(&format!("{half}.o"))).unwrap();
    symlink(package.outside(), package.file("kernel/ascend910b/more")).unwrap();
    symlink("nowhere", package.file("kernel/ascend910b/dangling")).unwrap();
    // An endless link.
    fs::remove_file(package.file(&format!("{float}.json"))).unwrap();
    symlink(package.file(&format!("{float}.json")), package.file(&format!("{float}.json"))).unwrap();
    // A pipe, whose opening for reading could wait for ever.
    let pipe = package.file("kernel/config/ascend910b/pipe.json");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let index = package.file("kernel/config/ascend910_93/add_custom.json");
    fs::remove_file(&index).unwrap();
    fs::create_dir(&index).unwrap();
    let findings = package.findings();
    assert!(
        has(&findings, &format!("{half}.json"), "unreadable", "a link out of the package"),
        "{findings:#?}"
    );
    assert!(has(&findings, "ascend910b/more", "unreadable", "a link out of the package"), "{findings:#?}");
    assert!(has(&findings, &format!("{float}.json"), "unreadable", "level"), "{findings:#?}");
    assert!(has(&findings, "pipe.json", "unreadable", "a pipe"), "{findings:#?}");
    assert!(!findings.iter().any(|finding| finding.file.ends_with("dangling")));
    // The directory is no index, so the kernels of its operator are in none.
    let lost = format!("{}.json", Package::add("ascend910_93", "float16"));
    assert!(has(&findings, &lost, "not-listed", "`add_custom.json`"), "{findings:#?}");
    Ok(())
}

fn links_inside_the_package_are_followed() -> Result<(), Failed> {
    let package = Package::new();
    let half = Package::add("ascend910b", "float16");
    let shared = package.path().join("shared.o");
    fs::rename(package.file(&format!("{half}.o")), &shared).unwrap();
    symlink(&shared, package.file(&format!("{half}.o"))).unwrap();
    assert_eq!(package.findings(), []);
    // By a link to the vendor's directory itself.
    let link = package.outside();
    symlink(package.path(), &link).unwrap();
    assert_eq!(verify(&link).unwrap()[0].findings, []);
    Ok(())
}

/// One file of each kind.
fn kinds() -> Vec<String> {
    let half = Package::add("ascend910b", "float16");
    vec![
        format!("{half}.json"),
        format!("{half}.o"),
        "kernel/config/ascend910b/add_custom.json".to_owned(),
        "kernel/config/ascend910b/binary_info_config.json".to_owned(),
        "kernel/config/ascend910b/relocatable_kernel_info_config.json".to_owned(),
        "config/ascend910b/aic-ascend910b-ops-info.json".to_owned(),
        "vendor_impl/dynamic/add_custom.py".to_owned(),
    ]
}

fn every_truncation_of_every_file_is_survived() -> Result<(), Failed> {
    let package = Package::new();
    for file in kinds() {
        let whole = package.read(&file);
        let step = (whole.len() / 24).max(1);
        for end in (0..whole.len()).step_by(step) {
            package.write(&file, &whole[..end]);
            let verified = package.verify();
            let is_python = file.ends_with(".py");
            assert!(is_python || !verified.is_consistent(), "{file} up to {end}");
        }
        package.write(&file, whole);
    }
    assert_eq!(package.findings(), []);
    Ok(())
}

/// Each value of each JSON file is replaced by each kind of value.
fn values_of_every_type_are_survived() -> Result<(), Failed> {
    use serde_json::{Value, json};

    fn pointers(value: &Value, at: &str, all: &mut Vec<String>) {
        all.push(at.to_owned());
        let below = |name: String| format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
        match value {
            Value::Object(fields) => {
                fields.iter().for_each(|(name, value)| pointers(value, &below(name.clone()), all));
            }
            // The others are alike.
            Value::Array(list) => {
                list.iter().take(1).for_each(|value| pointers(value, &below("0".to_owned()), all))
            }
            _ => {}
        }
    }
    let package = Package::new();
    let values =
        [json!(null), json!(-1e300), json!("../\u{0}\u{202e}`x"), json!([[[]]]), json!({"a": {"b": []}})];
    let mut changed = 0;
    for file in kinds().into_iter().filter(|file| file.ends_with(".json")) {
        let whole = package.json(&file);
        let mut all = Vec::new();
        pointers(&whole, "", &mut all);
        for (number, pointer) in all.iter().enumerate() {
            let mut content = whole.clone();
            let value = &values[number % values.len()];
            if let Some(place) = content.pointer_mut(pointer) {
                *place = value.clone();
            }
            package.write(&file, content.to_string());
            for finding in package.findings() {
                assert!(finding.problem.to_string().len() < 4_000);
            }
            changed += 1;
        }
        package.write(&file, whole.to_string());
    }
    assert!(changed > 200, "{changed}");
    assert_eq!(package.findings(), []);
    Ok(())
}

fn sizes_and_numbers_are_limited() -> Result<(), Failed> {
    let package = Package::new();
    // Sparse files: nothing reads them.
    let sparse = |path: &str, bytes: u64| {
        fs::OpenOptions::new().write(true).open(package.file(path)).unwrap().set_len(bytes).unwrap();
    };
    let half = Package::add("ascend910b", "float16");
    sparse(&format!("{half}.json"), 5 << 20);
    sparse(&format!("{half}.o"), 2 << 30);
    sparse("kernel/config/ascend910b/binary_info_config.json", 65 << 20);
    sparse("config/ascend910b/aic-ascend910b-ops-info.json", 65 << 20);
    let findings = package.findings();
    for (file, text) in [
        (format!("{half}.json"), "more than 4194304 bytes"),
        (format!("{half}.json"), "more than 1073741824 bytes"),
        ("binary_info_config.json".to_owned(), "more than 67108864 bytes"),
        ("aic-ascend910b-ops-info.json".to_owned(), "more than 67108864 bytes"),
    ] {
        assert!(has(&findings, &file, "unreadable", text), "{file} {text} {findings:#?}");
    }
    // An index of many entries that lead nowhere, and JSON that is nested too deep.
    let entry = r#"{"binInfo":{"jsonFilePath":"ascend910_93/none.json"}}"#;
    package.write(
        "kernel/config/ascend910_93/add_custom.json",
        format!("{{\"binList\":[{}]}}", vec![entry; 20_000].join(",")),
    );
    package.write("kernel/config/ascend310p/add_custom.json", "[".repeat(1 << 20));
    // Directories below directories, and names that are not UTF-8.
    let deep = package.file(&format!("kernel/ascend310p/{}", "d/".repeat(60)));
    fs::create_dir_all(deep).unwrap();
    let odd = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"\xff\xfe.json");
    fs::write(package.file("kernel/ascend310p").join(odd), "{}").unwrap();
    let verified = package.verify();
    let missing = verified.findings.iter().filter(|finding| finding.problem.kind() == "missing-file").count();
    assert!((900..=1_000).contains(&missing) && verified.more >= 19_000, "{missing} {}", verified.more);
    assert!(has(&verified.findings, "ascend310p/add_custom.json", "not-json", "recursion limit"));
    Ok(())
}
