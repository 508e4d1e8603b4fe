//! Messages of a protocol, written and read by hand, so that the numbers of the fields are stated twice. What cannot be read panics.

/// A field that is a number.
pub fn number(tag: u64, value: u64) -> Vec<u8> {
    [varint(tag << 3), varint(value)].concat()
}

/// A field that is a text, bytes or a message.
pub fn field(tag: u64, value: &[u8]) -> Vec<u8> {
    [&varint(tag << 3 | 2)[..], &varint(value.len() as u64), value].concat()
}

/// The values of a field that is a text, bytes or a message.
pub fn fields(message: &[u8], tag: u64) -> Vec<Vec<u8>> {
    slices(message, tag).into_iter().map(<[u8]>::to_vec).collect()
}

/// The same, without copies.
#[expect(clippy::panic, reason = "a message that cannot be read is a mistake of the test")]
pub fn slices(message: &[u8], tag: u64) -> Vec<&[u8]> {
    let (mut rest, mut found) = (message, Vec::new());
    while !rest.is_empty() {
        let head = take_varint(&mut rest);
        let value = take_varint(&mut rest);
        match head & 7 {
            0 => {}
            2 => {
                let (bytes, after) = rest.split_at(value as usize);
                rest = after;
                if head >> 3 == tag {
                    found.push(bytes);
                }
            }
            other => panic!("a field of type {other}"),
        }
    }
    found
}

/// The only value of such a field, empty if there is none.
pub fn only(message: &[u8], tag: u64) -> Vec<u8> {
    fields(message, tag).pop().unwrap_or_default()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

#[expect(clippy::panic, reason = "a message that cannot be read is a mistake of the test")]
fn take_varint(rest: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let Some((byte, after)) = rest.split_first() else { panic!("a message ends within a number") };
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_they_were_written() {
        let long = vec![7; 300];
        let message = [number(1, 300), field(2, b"first"), field(20, &long), field(2, b"")].concat();
        assert_eq!(fields(&message, 2), [b"first".to_vec(), Vec::new()]);
        assert_eq!((only(&message, 20), only(&message, 3)), (long, Vec::new()));
        // As the encoding's documentation has it.
        assert_eq!(number(1, 150), [0x08, 0x96, 0x01]);
        assert_eq!(field(2, b"testing"), b"\x12\x07testing");
    }
}
