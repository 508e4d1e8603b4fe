//! The actual format of a file that does not have the expected one.

/// The number of bytes that are examined.
const BEGINNING: usize = 512;

/// A format's offset and magic, and its description in a message.
const MAGICS: [(usize, &[u8], &str); 17] = [
    (
        0,
        b"version https://git-lfs",
        "a Git LFS pointer to the file; fetch the file itself with `git lfs pull`",
    ),
    (0, b"\x7fELF", "an ELF object"),
    (0, b"\x1f\x8b", "compressed with gzip; unpack it"),
    (0, b"BZh", "compressed with bzip2; unpack it"),
    (0, b"\xfd7zXZ\0", "compressed with xz; unpack it"),
    (0, b"\x28\xb5\x2f\xfd", "compressed with zstd; unpack it"),
    (
        0,
        b"PK\x03\x04",
        "a zip archive, as PyTorch and Keras save models; unpack it, or export with torch.onnx.export or tf2onnx",
    ),
    (0, b"\x80\x02", PICKLE),
    (0, b"\x80\x03", PICKLE),
    (0, b"\x80\x04", PICKLE),
    (0, b"\x80\x05", PICKLE),
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras saves models; export with tf2onnx"),
    (0, b"\x93NUMPY", "a NumPy array"),
    (0, b"GGUF", "a GGUF model"),
    (4, b"TFL3", "a TensorFlow Lite model; convert it with tf2onnx"),
    (4, b"ORTM", "in ONNX Runtime's own format; take the .onnx file that it was made from"),
    (8, b"{\"", "a safetensors file, which has weights but no graph"),
];

const PICKLE: &str = "a Python pickle, as PyTorch saved models; export with torch.onnx.export";

/// The apparent format of `file`, with a remedy.
pub(crate) fn looks_like(file: &[u8]) -> Option<&'static str> {
    let beginning = &file[..file.len().min(BEGINNING)];
    if beginning.is_empty() {
        return Some("empty");
    }
    let has = |at: usize, magic: &[u8]| beginning.get(at..).is_some_and(|rest| rest.starts_with(magic));
    if let Some((.., description)) = MAGICS.iter().find(|(at, magic, _)| has(*at, magic)) {
        return Some(description);
    }
    let text = text(beginning)?.trim_start();
    let tag = text.get(..9).or(text.get(..5)).unwrap_or_default().to_ascii_lowercase();
    if tag.starts_with("<!doctype") || tag.starts_with("<html") {
        return Some("a web page; is the address that it was downloaded from the file's own?");
    }
    Some("a text")
}

/// The beginning of a file as text, if it is text.
fn text(beginning: &[u8]) -> Option<&str> {
    let text = match std::str::from_utf8(beginning) {
        Ok(text) => text,
        // The last character may be truncated.
        Err(error) if error.error_len().is_none() && beginning.len() == BEGINNING => {
            std::str::from_utf8(&beginning[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    let is_plain = |c: char| !c.is_control() || matches!(c, '\t' | '\n' | '\r');
    text.chars().all(is_plain).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_how_they_begin() {
        let cases: [(&[u8], Option<&str>); 12] = [
            (b"", Some("empty")),
            (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", Some("a Git LFS pointer")),
            (b"\n<!DOCTYPE html><title>404</title>", Some("a web page")),
            (b"<HTML>", Some("a web page")),
            (b"{\"a\": 1}", Some("a text")),
            ("<é>".as_bytes(), Some("a text")),
            (b"PK\x03\x04\x14\0", Some("a zip archive")),
            (b"PK\x05\x06\0", None),
            (b"\x1c\0\0\0TFL3", Some("a TensorFlow Lite")),
            (b"\x40\0\0\0\0\0\0\0{\"weight\":", Some("a safetensors")),
            (b"\x08\x0a\x12\x07pytorch", None),
            (b"\xffabc", None),
        ];
        for (file, expected) in cases {
            let found = looks_like(file);
            assert_eq!(found.is_some(), expected.is_some(), "{found:?} {file:?}");
            assert!(found.unwrap_or_default().starts_with(expected.unwrap_or_default()), "{found:?}");
        }
    }

    #[test]
    fn a_character_may_be_truncated_at_the_end() {
        let text = "aé".repeat(400);
        assert!(!text.is_char_boundary(BEGINNING));
        assert_eq!(looks_like(text.as_bytes()), Some("a text"));
        assert_eq!(looks_like(&text.as_bytes()[..5]), None);
    }
}
