//! Elements in files beside the tensor's.

#![expect(clippy::disallowed_methods, reason = "these tests write the files that are read")]

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::common::tensor;
use crate::common::wire::Message;
use opkeep_onnx::{ExternalError, OnnxError, TensorProblem, read_tensor};
use tempfile::TempDir;

/// 24 different bytes.
const WEIGHTS: &[u8] = b"abcdefghijklmnopqrstuvwx";

struct ModelDir {
    all: TempDir,
}

impl ModelDir {
    /// `model/weights.bin`, and files beside the directory `model`.
    fn new() -> Self {
        let all = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(all.path().join("model/sub")).unwrap();
        std::fs::create_dir(all.path().join("modelling")).unwrap();
        for file in ["model/weights.bin", "model/sub/w", "secret", "modelling/secret"] {
            std::fs::write(all.path().join(file), WEIGHTS).unwrap();
        }
        Self { all }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.all.path().join(name)
    }

    /// Reads 16 bytes of uint8, described by `entries`.
    fn read(&self, entries: &[(&str, &str)]) -> Result<Vec<u8>, ExternalError> {
        let path = self.path("model/t.pb");
        std::fs::write(&path, external(entries).0).unwrap();
        read(&path)
    }

    /// The same with only a location.
    fn at(&self, location: &str) -> Result<Vec<u8>, ExternalError> {
        self.read(&[("location", location)])
    }
}

fn external(entries: &[(&str, &str)]) -> Message {
    let entry = |(key, value): &(&str, &str)| Message::default().bytes(1, key).bytes(2, value);
    let tensor = tensor("t", 2, &[4, 4]).varint(14, 1);
    entries.iter().map(entry).fold(tensor, |tensor, entry| tensor.message(13, entry))
}

fn read(path: &Path) -> Result<Vec<u8>, ExternalError> {
    match read_tensor(path) {
        Ok(tensor) => Ok(tensor.bytes),
        Err(OnnxError::TensorFile { problem: TensorProblem::External(error), .. }) => Err(error),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn elements_are_read_from_where_they_are() {
    let directory = ModelDir::new();
    assert_eq!(directory.at("weights.bin").unwrap(), &WEIGHTS[..16]);
    assert_eq!(directory.at("./sub/w").unwrap(), &WEIGHTS[..16]);
    let entries = [("offset", "8"), ("location", "weights.bin"), ("length", "16"), ("checksum", "x")];
    assert_eq!(directory.read(&entries).unwrap(), &WEIGHTS[8..]);
}

#[test]
fn places_outside_are_refused() {
    let directory = ModelDir::new();
    let absolute = directory.path("model/weights.bin");
    let cases = [
        "../secret",
        "sub/../weights.bin",
        "sub/..",
        "..",
        "/etc/passwd",
        absolute.to_str().unwrap(),
        "",
        "sub//w",
        "sub/",
        "weights.bin\0",
        &"a/".repeat(5000),
    ];
    for location in cases {
        let error = directory.at(location).unwrap_err();
        assert!(matches!(error, ExternalError::Entry { key: "location", .. }), "{location}: {error}");
        assert!(error.to_string().len() < 400, "{error}");
    }
    let error = directory.at("../secret").unwrap_err().to_string();
    let expected = "`location` of its external data is `../secret`, expected the path of a file in or below the model's \
                    directory, without `..`";
    assert_eq!(error, expected);
}

#[test]
fn links_lead_nowhere_else() {
    let directory = ModelDir::new();
    let links = [
        ("out", directory.path("secret")),
        ("up", directory.path("model/..")),
        ("near", directory.path("modelling/secret")),
        ("chain", PathBuf::from("out")),
    ];
    for (name, target) in links {
        symlink(target, directory.path("model").join(name)).unwrap();
    }
    for location in ["out", "up/secret", "near", "chain"] {
        let error = directory.at(location).unwrap_err();
        assert!(matches!(error, ExternalError::Outside { .. }), "{location}: {error}");
        assert!(error.to_string().ends_with("put the file itself into that directory"), "{error}");
    }
    // Within the directory, links may lead anywhere.
    symlink("sub/w", directory.path("model/in")).unwrap();
    symlink("sub", directory.path("model/also")).unwrap();
    assert_eq!(directory.at("in").unwrap(), &WEIGHTS[..16]);
    assert_eq!(directory.at("also/w").unwrap(), &WEIGHTS[..16]);
}

#[test]
fn the_models_directory_may_be_a_link() {
    let directory = ModelDir::new();
    directory.at("weights.bin").unwrap();
    symlink("model", directory.path("linked")).unwrap();
    assert_eq!(read(&directory.path("linked/t.pb")).unwrap(), &WEIGHTS[..16]);
}

/// A hub's cache: every file of a download is a link into one directory.
#[test]
fn a_cache_of_links_is_read() {
    let directory = ModelDir::new();
    std::fs::create_dir(directory.path("blobs")).unwrap();
    let model = external(&[("location", "t.data")]).0;
    std::fs::write(directory.path("blobs/1234"), model).unwrap();
    std::fs::write(directory.path("blobs/5678"), WEIGHTS).unwrap();
    symlink("../blobs/1234", directory.path("model/t.pb")).unwrap();
    symlink("../blobs/5678", directory.path("model/t.data")).unwrap();
    assert_eq!(read(&directory.path("model/t.pb")).unwrap(), &WEIGHTS[..16]);
    // But not to other directories.
    std::fs::remove_file(directory.path("model/t.data")).unwrap();
    symlink("../secret", directory.path("model/t.data")).unwrap();
    assert!(matches!(read(&directory.path("model/t.pb")), Err(ExternalError::Outside { .. })));
    // A model that is a file itself has no such links.
    std::fs::copy(directory.path("blobs/1234"), directory.path("model/own.pb")).unwrap();
    std::fs::remove_file(directory.path("model/t.data")).unwrap();
    symlink("../blobs/5678", directory.path("model/t.data")).unwrap();
    assert!(matches!(read(&directory.path("model/own.pb")), Err(ExternalError::Outside { .. })));
}

#[test]
fn only_files_have_elements() {
    let directory = ModelDir::new();
    assert!(matches!(directory.at("sub"), Err(ExternalError::NotAFile { found: "a directory", .. })));
    assert!(matches!(directory.at("."), Err(ExternalError::NotAFile { .. } | ExternalError::Io { .. })));
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let pipe = directory.path("model/pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert!(matches!(directory.at("pipe"), Err(ExternalError::NotAFile { found: "a pipe", .. })));
    let error = directory.at("gone.bin").unwrap_err();
    assert!(
        matches!(&error, ExternalError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
    );
    assert!(error.to_string().ends_with("put the file beside the model"), "{error}");
}

#[test]
fn elements_beyond_the_end_are_refused() {
    let directory = ModelDir::new();
    for offset in ["9", "24", "25", "18446744073709551615"] {
        let error = directory.read(&[("location", "weights.bin"), ("offset", offset)]).unwrap_err();
        let ExternalError::TooShort { bytes: 16, found: 24, offset: at, .. } = error else {
            panic!("{error}")
        };
        assert_eq!(at.to_string(), offset);
    }
}

#[test]
fn entries_that_make_no_sense() {
    let directory = ModelDir::new();
    let cases: [(&[(&str, &str)], &str); 6] = [
        (&[("offset", "0")], "`location` of its external data is not there, "),
        (&[("location", "weights.bin"), ("offset", "-1")], "`offset` of its external data is `-1`, "),
        (
            &[("location", "weights.bin"), ("offset", "18446744073709551616")],
            "`offset` of its external data is `184",
        ),
        (
            &[("location", "weights.bin"), ("length", "x")],
            "`length` of its external data is `x`, expected a whole",
        ),
        (
            &[("location", "weights.bin"), ("length", "15")],
            "`length` of its external data is 15, expected 16 bytes",
        ),
        (
            &[("location", "a"), ("location", "weights.bin")],
            "`location` of its external data is there more than once",
        ),
    ];
    for (entries, expected) in cases {
        let found = directory.read(entries).unwrap_err().to_string();
        assert!(found.starts_with(expected), "{found}");
    }
}

#[test]
fn nothing_needs_no_file() {
    let directory = ModelDir::new();
    let path = directory.path("model/none.pb");
    let entry = Message::default().bytes(1, "location").bytes(2, "gone.bin");
    std::fs::write(&path, tensor("t", 1, &[3, 0]).varint(14, 1).message(13, entry).0).unwrap();
    assert_eq!(read(&path).unwrap(), [0_u8; 0]);
}

#[test]
fn truth_values_are_0_or_1_there_too() {
    let directory = ModelDir::new();
    let path = directory.path("model/truth.pb");
    let entry = Message::default().bytes(1, "location").bytes(2, "truth.bin");
    std::fs::write(directory.path("model/truth.bin"), [0, 1, 7]).unwrap();
    std::fs::write(&path, tensor("t", 9, &[3]).varint(14, 1).message(13, entry).0).unwrap();
    assert_eq!(read(&path).unwrap(), [0, 1, 1]);
}
