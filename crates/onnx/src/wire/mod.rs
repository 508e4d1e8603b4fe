//! Protobuf's wire format, as far as it is needed to check a file before it is decoded.

pub(crate) mod message_size;
pub(crate) mod proto;

use std::fmt;

use opkeep_text::counted;

/// The largest length of a 64-bit number.
const MAX_VARINT_BYTES: usize = 10;

/// The reason why bytes violate the wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WireError {
    /// More bytes were announced than exist.
    EndsEarly {
        missing: u64,
    },
    LongVarint,
    FieldNumber(u64),
    WireType(u8),
    Group,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EndsEarly { missing } => {
                write!(f, "{missing} more were announced than there are", missing = counted(*missing, "byte"))
            }
            Self::LongVarint => f.write_str("a number has more than 64 bits"),
            Self::FieldNumber(number) => write!(f, "{number} is no field's number"),
            Self::WireType(found) => write!(f, "there is no wire type {found}, expected 0, 1, 2 or 5"),
            Self::Group => f.write_str("there is a group, which ONNX has not"),
        }
    }
}

/// The number at the beginning of `bytes`, and its length.
pub(crate) fn varint(bytes: &[u8]) -> Result<(u64, usize), WireError> {
    let mut value = 0;
    for (index, byte) in bytes.iter().take(MAX_VARINT_BYTES).enumerate() {
        // Nine bytes hold 63 bits, so the tenth can only add one.
        if index == MAX_VARINT_BYTES - 1 && *byte > 1 {
            return Err(WireError::LongVarint);
        }
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok((value, index + 1));
        }
    }
    Err(WireError::EndsEarly { missing: 1 })
}

/// The part of a field before its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) number: u32,
    wire_type: u8,
}

/// A field's value, as far as the wire format determines it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Varint,
    Fixed32,
    Fixed64,
    /// A message, a text, bytes, or packed numbers.
    Block(Reader<'a>),
}

/// Reads the fields of one message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    file: &'a [u8],
    at: usize,
    end: usize,
}

impl<'a> Reader<'a> {
    /// The message that consists of the whole file.
    pub(crate) fn new(file: &'a [u8]) -> Self {
        Self { file, at: 0, end: file.len() }
    }

    /// The position in the file.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The unread rest.
    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.file[self.at..self.end]
    }

    /// The next field's key; `None` at the end of the message.
    pub(crate) fn key(&mut self) -> Result<Option<Key>, WireError> {
        if self.at == self.end {
            return Ok(None);
        }
        let key = self.varint()?;
        match u32::try_from(key >> 3) {
            // Field numbers have 29 bits.
            Ok(number) if number > 0 && number < 1 << 29 => {
                Ok(Some(Key { number, wire_type: (key & 7) as u8 }))
            }
            _ => Err(WireError::FieldNumber(key >> 3)),
        }
    }

    /// The value that follows `key`.
    pub(crate) fn value(&mut self, key: Key) -> Result<Value<'a>, WireError> {
        match key.wire_type {
            0 => self.varint().map(|_| Value::Varint),
            1 => self.take(8).map(|_| Value::Fixed64),
            2 => {
                let length = self.varint()?;
                self.take(length).map(Value::Block)
            }
            3 | 4 => Err(WireError::Group),
            5 => self.take(4).map(|_| Value::Fixed32),
            other => Err(WireError::WireType(other)),
        }
    }

    fn varint(&mut self) -> Result<u64, WireError> {
        let (value, bytes) = varint(self.rest())?;
        self.at += bytes;
        Ok(value)
    }

    fn take(&mut self, length: u64) -> Result<Self, WireError> {
        let there = self.end - self.at;
        match usize::try_from(length) {
            Ok(length) if length <= there => {
                let block = Self { file: self.file, at: self.at, end: self.at + length };
                self.at += length;
                Ok(block)
            }
            _ => Err(WireError::EndsEarly { missing: length - there as u64 }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints() {
        assert_eq!(varint(&[0x00]), Ok((0, 1)));
        assert_eq!(varint(&[0x96, 0x01, 0xff]), Ok((150, 2)));
        let mut most = [0xff; 10];
        most[9] = 1;
        assert_eq!(varint(&most), Ok((u64::MAX, 10)));
        most[9] = 2;
        assert_eq!(varint(&most), Err(WireError::LongVarint));
        assert_eq!(varint(&[0x80; 11]), Err(WireError::LongVarint));
        // Longer than necessary, but valid.
        assert_eq!(varint(&[0x85, 0x80, 0x00]), Ok((5, 3)));
        for cut in 0..10 {
            assert_eq!(varint(&[0x80; 10][..cut]), Err(WireError::EndsEarly { missing: 1 }), "{cut}");
        }
    }

    #[test]
    fn fields_follow_each_other() {
        // 1: 150; 2: [7, 8]; 3: four bytes; 4: eight bytes.
        let bytes = [8, 0x96, 1, 0x12, 2, 7, 8, 0x1d, 1, 2, 3, 4, 0x21, 1, 2, 3, 4, 5, 6, 7, 8];
        let mut reader = Reader::new(&bytes);
        let mut seen = Vec::new();
        while let Some(key) = reader.key().unwrap() {
            let what = match reader.value(key).unwrap() {
                Value::Varint => 0,
                Value::Fixed64 => 1,
                Value::Block(block) => {
                    assert_eq!((block.at(), block.rest()), (5, &[7, 8][..]));
                    2
                }
                Value::Fixed32 => 5,
            };
            seen.push((key.number, what));
        }
        assert_eq!(seen, [(1, 0), (2, 2), (3, 5), (4, 1)]);
    }

    #[test]
    fn invalid_fields_are_refused() {
        let error = |bytes: &[u8]| {
            let mut reader = Reader::new(bytes);
            let key = reader.key()?;
            key.map(|key| reader.value(key)).transpose().map(drop)
        };
        assert_eq!(error(&[0x00, 0x00]), Err(WireError::FieldNumber(0)));
        assert_eq!(error(&[0x80, 0x80, 0x80, 0x80, 0x10, 0x00]), Err(WireError::FieldNumber(1 << 29)));
        assert_eq!(error(&[0x0b]), Err(WireError::Group));
        assert_eq!(error(&[0x0c]), Err(WireError::Group));
        assert_eq!(error(&[0x0e]), Err(WireError::WireType(6)));
        assert_eq!(error(&[0x12, 5, 1, 2]), Err(WireError::EndsEarly { missing: 3 }));
        assert_eq!(error(&[0x1d, 1]), Err(WireError::EndsEarly { missing: 3 }));
        let mut most = vec![0x12];
        most.extend([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]);
        assert_eq!(error(&most), Err(WireError::EndsEarly { missing: u64::MAX }));
    }
}
