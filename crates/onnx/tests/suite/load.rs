//! Files that are models, and files that are not.

#![expect(clippy::disallowed_methods, reason = "these tests write the files that are read")]

use std::path::{Path, PathBuf};

use crate::common::{model, small_model, value, wire::Message};
use opkeep_onnx::{MAX_FILE_BYTES, OnnxError, Options, read};
use tempfile::TempDir;

fn with_file(bytes: &[u8]) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.onnx");
    std::fs::write(&path, bytes).unwrap();
    (directory, path)
}

/// The message for a file with these bytes, without the file's path.
fn message(bytes: &[u8]) -> String {
    let (_directory, path) = with_file(bytes);
    let message = read(&path, &Options::default()).unwrap_err().to_string();
    message.replace(&*path.to_string_lossy(), "MODEL")
}

#[test]
fn a_model_is_read() {
    let (_directory, path) = with_file(&small_model().0);
    read(&path, &Options::default()).unwrap();
    // Also through a link, as in the caches of model hubs.
    let link = path.with_file_name("link.onnx");
    std::os::unix::fs::symlink("model.onnx", &link).unwrap();
    read(&link, &Options::default()).unwrap();
}

#[test]
fn fields_in_pieces_are_one() {
    // In protobuf, two copies of a message are one message with the fields of both.
    let node = |op: &str, input: &str, output: &str| {
        Message::default().message(1, Message::default().bytes(1, input).bytes(2, output).bytes(4, op))
    };
    let first = node("Relu", "x", "h").message(11, value("x", &[2]));
    let second = node("Abs", "h", "y").message(12, value("y", &[2]));
    let (_directory, path) = with_file(&model(first).message(7, second).0);
    let network = read(&path, &Options::default()).unwrap();
    let types: Vec<&str> = network.graph.nodes().iter().map(|node| node.op_type.as_str()).collect();
    assert_eq!(types, ["Relu", "Abs"]);
}

#[test]
fn other_files_are_named() {
    let cases: [(&[u8], &str); 7] = [
        (b"", "it is empty"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 102\n",
            "it is a Git LFS pointer to the file; fetch the file itself with `git lfs pull`",
        ),
        (b"<!doctype html>\n<html>", "it is a web page; is the address"),
        (b"import onnx\n", "it is a text"),
        (b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0", "it is an ELF object"),
        (b"PK\x03\x04\0\0\x08\x08\0\0archive/data.pkl", "it is a zip archive, as PyTorch and Keras"),
        (b"\x1f\x8b\x08\0\0\0\0\0", "it is compressed with gzip; unpack it"),
    ];
    for (bytes, expected) in cases {
        let found = message(bytes);
        assert!(found.starts_with("`MODEL` is not an ONNX model: "), "{found}");
        assert!(found.contains(expected), "{found}");
    }
}

#[test]
fn a_message_without_a_graph_is_no_model() {
    // A tensor's file, and a model without its graph.
    let found = message(&Message::default().varint(1, 300).varint(2, 7).bytes(9, [0; 8]).0);
    assert!(found.contains("a protobuf message without a graph"), "{found}");
    let found = message(&Message::default().varint(1, 8).0);
    assert!(found.contains("a protobuf message without a graph"), "{found}");
}

#[test]
fn damage_is_located() {
    let whole = small_model().0;
    let cut = &whole[..whole.len() - 9];
    assert_eq!(
        message(cut),
        "`MODEL` is not an ONNX model, or was cut off: the field `graph` at byte 2 is 5 bytes longer than the file; is \
         the file complete?"
    );
    // A node of 5 bytes whose name has a stated length of 9.
    let node = Message(vec![0x1a, 9, b'a', b'b', b'c']);
    let found = message(&model(Message::default().message(1, node.clone()).message(1, node)).0);
    let expected = "`MODEL` is not an ONNX model, or is damaged: the field `graph.node.name` at byte 6: 6 bytes more were \
                    announced than there are";
    assert_eq!(found, expected);
    // A name that is not text.
    let found = message(&model(Message::default().bytes(2, [0xc3, 0x28])).0);
    assert!(found.contains("GraphProto.name") && found.contains("UTF-8"), "{found}");
    // A number where a message belongs.
    let found = message(&model(Message::default().varint(1, 3)).0);
    assert!(found.contains("GraphProto.node") && found.contains("wire type"), "{found}");
}

#[test]
fn files_that_cannot_be_opened() {
    let directory = tempfile::tempdir().unwrap();
    let read = |path: &Path| read(path, &Options::default()).unwrap_err();
    assert!(matches!(read(directory.path()), OnnxError::NotAFile { found: "a directory", .. }));
    assert!(matches!(read(Path::new("/dev/null")), OnnxError::NotAFile { found: "a device", .. }));
    let missing = directory.path().join("missing.onnx");
    let error = read(&missing);
    let OnnxError::Io { action: "read", path, source } = &error else { panic!("{error}") };
    assert_eq!((path, source.kind()), (&missing, std::io::ErrorKind::NotFound));
    // No process writes to this pipe.
    let pipe = directory.path().join("pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert!(matches!(read(&pipe), OnnxError::NotAFile { found: "a pipe", .. }));
}

#[test]
fn a_file_beyond_the_limit_is_not_read() {
    let (_directory, path) = with_file(b"");
    std::fs::File::options().write(true).open(&path).unwrap().set_len(MAX_FILE_BYTES + 1).unwrap();
    let error = read(&path, &Options::default()).unwrap_err();
    assert!(matches!(error, OnnxError::TooLarge { bytes: 2147483648, limit: 2147483647, .. }), "{error}");
    assert!(error.to_string().ends_with("`onnx.save(..., save_as_external_data=True)`"), "{error}");
}
