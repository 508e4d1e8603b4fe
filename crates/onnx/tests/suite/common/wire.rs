//! A writer of protobuf's wire format that also writes invalid messages.

/// A message.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message(pub(crate) Vec<u8>);

impl Message {
    /// A whole number.
    pub(crate) fn varint(mut self, field: u32, value: u64) -> Self {
        push_varint(&mut self.0, u64::from(field) << 3);
        push_varint(&mut self.0, value);
        self
    }

    /// Four bytes.
    pub(crate) fn fixed32(mut self, field: u32, bytes: [u8; 4]) -> Self {
        push_varint(&mut self.0, u64::from(field) << 3 | 5);
        self.0.extend(bytes);
        self
    }

    /// A text, or bytes.
    pub(crate) fn bytes(mut self, field: u32, bytes: impl AsRef<[u8]>) -> Self {
        push_varint(&mut self.0, u64::from(field) << 3 | 2);
        push_varint(&mut self.0, bytes.as_ref().len() as u64);
        self.0.extend(bytes.as_ref());
        self
    }

    /// An inner message.
    pub(crate) fn message(self, field: u32, message: Message) -> Self {
        self.bytes(field, message.0)
    }

    /// Packed whole numbers; negative ones as in protobuf.
    pub(crate) fn packed(self, field: u32, values: impl IntoIterator<Item = i64>) -> Self {
        let mut bytes = Vec::new();
        values.into_iter().for_each(|value| push_varint(&mut bytes, value as u64));
        self.bytes(field, bytes)
    }

    /// Packed floats.
    pub(crate) fn packed_floats(self, field: u32, values: impl IntoIterator<Item = f32>) -> Self {
        self.bytes(field, values.into_iter().flat_map(f32::to_le_bytes).collect::<Vec<u8>>())
    }

    /// Repeated bytes.
    pub(crate) fn repeat(mut self, bytes: &[u8], times: usize) -> Self {
        self.0.extend(bytes.repeat(times));
        self
    }
}

fn push_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}
