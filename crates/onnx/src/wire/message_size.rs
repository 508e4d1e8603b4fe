//! Counts what decoding a file would take, before it is decoded.
//!
//! Two bytes of a file can become a message of hundreds: an attribute without a field, a dimension without a size. So
//! the messages are counted first, by the tables below, each with what it becomes in memory. A file that would take
//! more than [`RATIO`] times its size and [`ALLOWANCE`] is refused. With the file's own bytes that makes, at any time,
//! at most four times the file's size and 64 MiB. Elements of tensors are not decoded, and do not count.
//!
//! The walk takes no memory, and ends however the file is made: no message of these tables is part of itself.

use std::mem::size_of;

use prost::bytes::Bytes;

use crate::wire::proto::{
    AttributeProto, DimensionProto, NodeProto, OperatorSetIdProto, StringStringEntryProto, TensorProto,
    ValueInfoProto,
};
use crate::wire::{Reader, Value, WireError};

/// How many bytes a byte of the file may become.
const RATIO: u64 = 3;

/// What any file may take besides: small files are made of structure, large ones of weights.
const ALLOWANCE: u64 = 64 << 20;

/// A list that grows item by item has room for four from the start. Later its room doubles, and for a moment the old
/// is there besides the new. So an item takes at most four times its size.
const GROWTH: u64 = 4;

/// The smallest piece of memory that a text takes.
const MIN_TEXT: u64 = 8;

/// What is known of a message: the fields that take memory.
pub(crate) type Fields = &'static [Field];

/// A field that takes memory when it is decoded.
pub(crate) struct Field {
    number: u32,
    name: &'static str,
    kind: Kind,
}

enum Kind {
    /// A message of so many bytes, besides what is in its fields.
    Message(u64, Fields),
    /// Bytes that are copied, and so many to find them by.
    Text(u64),
    /// Bytes that stay in the file's buffer, and so many to find them by.
    Shared(u64),
    /// Numbers of so many bytes each.
    Varints(u64),
    /// The same; four bytes in the file.
    Floats(u64),
}

use Kind::{Floats, Message, Shared, Text, Varints};

const fn field(number: u32, name: &'static str, kind: Kind) -> Field {
    Field { number, name, kind }
}

/// An item of a list.
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

/// Why a file is not decoded.
#[derive(Debug)]
pub(crate) struct Damage {
    /// How far into the file.
    pub(crate) at: usize,
    /// In which fields, the innermost first.
    pub(crate) within: Vec<&'static str>,
    pub(crate) kind: DamageKind,
}

/// What is wrong.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DamageKind {
    /// The file ends where the outermost message has not: so many bytes are missing.
    Cut { missing: u64 },
    /// These are not fields.
    Wire(WireError),
    /// Decoding would take more than this many bytes.
    TooMuch { limit: u64 },
}

/// Goes through `file`, a message of these fields.
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
                // The outermost message ends where the file does; those within it end where they said they would.
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
    /// What `value` takes at most. One of another wire type than the field has is refused when it is decoded.
    fn bytes(&self, value: Value<'_>) -> u64 {
        // Three times for what is in the list, for the same reason as GROWTH, and room for the first.
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
