//! Messages to and from a worker: JSON after its length as four bytes, big-endian.

use std::io::{self, Read};

use opkeep_text::counted;
use serde_json::Value;

/// The maximum length of a message in bytes. Usual messages have a few kilobytes.
const MAX_BYTES: u32 = 64 << 20;

/// The bytes of one message.
pub(crate) fn encode(message: &Value) -> io::Result<Vec<u8>> {
    let bytes = message.to_string().into_bytes();
    let length = u32::try_from(bytes.len()).ok().filter(|length| *length <= MAX_BYTES);
    let too_long = || {
        let length = bytes.len();
        io::Error::other(format!(
            "the request has {length}: at most {MAX_BYTES} are sent",
            length = counted(length, "byte")
        ))
    };
    let length = length.ok_or_else(too_long)?;
    Ok([&length.to_be_bytes()[..], &bytes].concat())
}

/// Reads one message; None at the end.
pub(crate) fn read(from: &mut impl Read) -> io::Result<Option<Value>> {
    let mut length = Vec::new();
    from.take(4).read_to_end(&mut length)?;
    let length = match length[..] {
        [] => return Ok(None),
        [a, b, c, d] => u32::from_be_bytes([a, b, c, d]),
        _ => return Err(io::ErrorKind::UnexpectedEof.into()),
    };
    if length > MAX_BYTES {
        return Err(io::Error::other(format!(
            "a message of {length}: at most {MAX_BYTES} are read",
            length = counted(length, "byte")
        )));
    }
    let mut bytes = Vec::new();
    from.take(length.into()).read_to_end(&mut bytes)?;
    if bytes.len() < length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    serde_json::from_slice(&bytes).map(Some).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_are_read_back_and_truncated_ones_are_errors() {
        let messages = [json!({"a": [1, 2]}), json!("\u{e9}\n"), json!(null)];
        let wire: Vec<u8> = messages.iter().flat_map(|message| encode(message).unwrap()).collect();
        let mut from = &wire[..];
        let read_all: Vec<Value> = std::iter::from_fn(|| read(&mut from).unwrap()).collect();
        assert_eq!(read_all, messages);
        let first = 4 + messages[0].to_string().len();
        for cut in 1..first {
            assert!(read(&mut &wire[..cut]).is_err(), "{cut}");
        }
        assert!(read(&mut &[0xff; 8][..]).unwrap_err().to_string().contains("at most"));
        assert!(read(&mut &[0, 0, 0, 1, b'x'][..]).is_err());
    }
}
