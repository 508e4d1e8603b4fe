//! Counts the memory for decoding a file, before it is decoded.
//!
//! Two bytes of a file can become a message of hundreds: an attribute without a field, a dimension without a size. So
//! the messages are counted first, with their sizes in memory from the tables below. A file that would need more than
//! [`RATIO`] times its size plus [`ALLOWANCE`] is refused. With the file's own bytes, at most four times the file's
//! size and 64 MiB are used at any time. Elements of tensors are not decoded and do not count.
//!
//! The walk needs no memory and ends for every file: no message of these tables contains itself.

use std::mem::size_of;

use prost::bytes::Bytes;

use crate::wire::proto::{
    AttributeProto, DimensionProto, NodeProto, OperatorSetIdProto, StringStringEntryProto, TensorProto,
    ValueInfoProto,
};
use crate::wire::{Reader, Value, WireError};

/// The number of bytes that a byte of the file may become.
const RATIO: u64 = 3;

/// An additional allowance for any file: small files consist of structure, large ones of weights.
const ALLOWANCE: u64 = 64 << 20;

/// A list that grows item by item starts with space for four. Later its capacity doubles, and for a moment the old list
/// exists beside the new one. So an item takes at most four times its size.
const GROWTH: u64 = 4;

/// The smallest allocation for a text.
const MIN_TEXT: u64 = 8;

/// The fields of a message that take memory.
pub(crate) type Fields = &'static [Field];

/// A field that takes memory when it is decoded.
pub(crate) struct Field {
    number: u32,
    name: &'static str,
    kind: Kind,
}

enum Kind {
    /// A message of that size, without the content of its fields.
    Message(u64, Fields),
    /// Bytes that are copied, and the size of the type that owns them.
    Text(u64),
    /// Bytes that stay in the file's buffer, and the size of the type that refers to them.
    Shared(u64),
    /// Numbers of that size each.
    Varints(u64),
    /// The same, with four bytes each in the file.
    Floats(u64),
}

use Kind::{Floats, Message, Shared, Text, Varints};

const fn field(number: u32, name: &'static str, kind: Kind) -> Field {
    Field { number, name, kind }
}

/// The size of an item of a list.
const fn item<T>() -> u64 {
    GROWTH * size_of::<T>() as u64
}

pub(crate) static MODEL: Fields = &[
    field(7, "graph", Message(0, GRAPH)),
    field(8, "opset_import", Message(item::<OperatorSetIdProto>(), &[field(1, "domain", Text(0))])),
    field(25, "functions", Shared(item::<Bytes>())),
];

static GRAPH: Fields = &[
    field(1, "node", Message(item::<NodeProto>(), NODE)),
    field(2, "name", Text(0)),
    field(5, "initializer", Message(item::<TensorProto>(), TENSOR)),
    field(11, "input", Message(item::<ValueInfoProto>(), VALUE_INFO)),
    field(12, "output", Message(item::<ValueInfoProto>(), VALUE_INFO)),
    field(15, "sparse_initializer", Shared(item::<Bytes>())),
];

static NODE: Fields = &[
    field(1, "input", Text(item::<String>())),
    field(2, "output", Text(item::<String>())),
    field(3, "name", Text(0)),
    field(4, "op_type", Text(0)),
    field(5, "attribute", Message(item::<AttributeProto>(), ATTRIBUTE)),
    field(7, "domain", Text(0)),
];

static ATTRIBUTE: Fields = &[
    field(1, "name", Text(0)),
    field(5, "t", Message(size_of::<TensorProto>() as u64, TENSOR)),
    field(7, "floats", Floats(size_of::<f32>() as u64)),
    field(8, "ints", Varints(size_of::<i64>() as u64)),
    field(9, "strings", Shared(item::<Bytes>())),
];

pub(crate) static TENSOR: Fields = &[
    field(1, "dims", Varints(size_of::<i64>() as u64)),
    field(4, "float_data", Shared(item::<Bytes>())),
    field(5, "int32_data", Shared(item::<Bytes>())),
    field(7, "int64_data", Shared(item::<Bytes>())),
    field(8, "name", Text(0)),
    field(9, "raw_data", Shared(0)),
    field(10, "double_data", Shared(item::<Bytes>())),
    field(11, "uint64_data", Shared(item::<Bytes>())),
    field(13, "external_data", Message(item::<StringStringEntryProto>(), ENTRY)),
];

static ENTRY: Fields = &[field(1, "key", Text(0)), field(2, "value", Text(0))];

static VALUE_INFO: Fields = &[field(1, "name", Text(0)), field(2, "type", Message(0, TYPE))];

static TYPE: Fields = &[field(1, "tensor_type", Message(0, TENSOR_TYPE))];

static TENSOR_TYPE: Fields = &[field(2, "shape", Message(0, SHAPE))];

static SHAPE: Fields = &[field(1, "dim", Message(item::<DimensionProto>(), DIMENSION))];

static DIMENSION: Fields = &[field(2, "dim_param", Text(0))];

/// The reason why a file is not decoded.
#[derive(Debug)]
pub(crate) struct Damage {
    /// The position in the file.
    pub(crate) at: usize,
    /// The enclosing fields, innermost first.
    pub(crate) within: Vec<&'static str>,
    pub(crate) kind: DamageKind,
}

/// The kind of damage.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DamageKind {
    /// The file ends before the outermost message; the number of missing bytes.
    Cut { missing: u64 },
    /// An invalid field.
    Wire(WireError),
    /// Decoding would take more than this many bytes.
    TooMuch { limit: u64 },
}

/// Walks `file`, a message with these fields.
pub(crate) fn check(file: &[u8], fields: Fields) -> Result<(), Damage> {
    let limit = (file.len() as u64).saturating_mul(RATIO).saturating_add(ALLOWANCE);
    MessageSize { taken: 0, limit }.message(Reader::new(file), fields, true)
}

struct MessageSize {
    taken: u64,
    limit: u64,
}

impl MessageSize {
    fn message(&mut self, mut reader: Reader<'_>, fields: Fields, outermost: bool) -> Result<(), Damage> {
        loop {
            let at = reader.at();
            let damage = |kind| Damage { at, within: Vec::new(), kind };
            let wire = |error| match error {
                // The outermost message ends with the file; inner messages have stated lengths.
                WireError::EndsEarly { missing } if outermost => damage(DamageKind::Cut { missing }),
                other => damage(DamageKind::Wire(other)),
            };
            let Some(key) = reader.key().map_err(wire)? else { return Ok(()) };
            let field = fields.iter().find(|field| field.number == key.number);
            let within = |mut damage: Damage| {
                damage.within.extend(field.map(|field| field.name));
                damage
            };
            let value = reader.value(key).map_err(|error| within(wire(error)))?;
            let Some(field) = field else { continue };
            self.take(field.kind.bytes(value)).map_err(|kind| within(damage(kind)))?;
            if let (Message(_, fields), Value::Block(block)) = (&field.kind, value) {
                self.message(block, fields, false).map_err(within)?;
            }
        }
    }

    fn take(&mut self, bytes: u64) -> Result<(), DamageKind> {
        self.taken = self.taken.saturating_add(bytes);
        if self.taken > self.limit { Err(DamageKind::TooMuch { limit: self.limit }) } else { Ok(()) }
    }
}

impl Kind {
    /// The most memory that `value` takes. Decoding refuses a value of another wire type than the field's.
    fn bytes(&self, value: Value<'_>) -> u64 {
        // Three times the list's items, for the same reason as GROWTH, and space for the first.
        let list =
            |count: u64, bytes: u64| if count == 0 { 0 } else { (3 * count + 1).saturating_mul(bytes) };
        let Value::Block(block) = value else {
            return match self {
                Varints(bytes) | Floats(bytes) => list(1, *bytes),
                Message(..) | Text(_) | Shared(_) => 0,
            };
        };
        let content = block.rest();
        match self {
            Message(bytes, _) | Shared(bytes) => *bytes,
            Text(bytes) if content.is_empty() => *bytes,
            Text(bytes) => bytes + (content.len() as u64).max(MIN_TEXT),
            Varints(bytes) => list(content.iter().filter(|byte| **byte < 0x80).count() as u64, *bytes),
            Floats(bytes) => list(content.len() as u64 / 4, *bytes),
        }
    }
}
