//! Messages of the protocol, written and read by hand, so that the numbers of the fields are stated twice.

/// A field that is a number.
pub(super) fn number(tag: u64, value: u64) -> Vec<u8> {
    [varint(tag << 3), varint(value)].concat()
}

/// A field that is a text, bytes or a message.
pub(super) fn field(tag: u64, value: &[u8]) -> Vec<u8> {
    [&varint(tag << 3 | 2)[..], &varint(value.len() as u64), value].concat()
}

/// The values of a field that is a text, bytes or a message.
pub(super) fn fields(message: &[u8], tag: u64) -> Vec<Vec<u8>> {
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
                    found.push(bytes.to_vec());
                }
            }
            other => panic!("a field of type {other}"),
        }
    }
    found
}

/// The only value of such a field, empty if there is none.
pub(super) fn only(message: &[u8], tag: u64) -> Vec<u8> {
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

fn take_varint(rest: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (byte, after) = rest.split_first().unwrap();
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}
