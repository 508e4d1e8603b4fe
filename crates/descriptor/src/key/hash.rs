//! The digest of a job: the fields that count.
//!
//! Every struct is destructured without `..`: a new field does not compile until this module states whether it counts.
//! An absent field and its default are hashed alike. A value of variable type is hashed after the name of its type, so
//! that different values give the hasher different input.

use std::collections::BTreeMap;

use opkeep_digest::{Digest, Hasher};
use serde_json::{Number, Value};

use crate::model::flags::ResolvedFlags;
use crate::model::job::{
    Arg, Attr, AttrValue, ConstValue, Data, Input, Job, OmittedArg, Op, SliceFields, Source, Tensor, ranges,
};
use crate::model::number::{is_whole, whole};

impl Job {
    /// The digest of the computation alone: names, ids and directories do not count.
    pub fn digest(&self) -> Digest {
        let Self { data, ops, l1_size, extra } = self;
        let mut hasher = Hasher::new("job");
        hasher.list(data.len());
        for Data { outputs, extra } in data {
            hash_args(&mut hasher, outputs, hash_tensor);
            hash_extra(&mut hasher, extra);
        }
        hasher.list(ops.len());
        // The numbers of external tensors only identify equal tensors: they are renumbered.
        let mut free = BTreeMap::new();
        let fused = ops.len() > 1;
        ops.iter().for_each(|op| hash_op(&mut hasher, op, fused, &mut free));
        hasher.i64(*l1_size);
        hash_extra(&mut hasher, extra);
        hasher.finish()
    }
}

fn hash_op(hasher: &mut Hasher, op: &Op, fused: bool, free: &mut BTreeMap<usize, usize>) {
    // `module_path` is an install directory; its contents count as op sources.
    let Op { op_type, func_name, module_name, module_path: _, flags, inputs, outputs, attrs, extra } = op;
    hasher.str(op_type);
    hasher.str(func_name);
    hasher.str(module_name);
    hash_flags(hasher, &flags.resolved(fused));
    hash_args(hasher, inputs, |hasher, Input { tensor, source }| {
        hash_tensor(hasher, tensor);
        hash_source(hasher, *source, free);
    });
    hash_args(hasher, outputs, hash_tensor);
    let attrs = attrs.as_deref().unwrap_or_default();
    hasher.list(attrs.len());
    attrs.iter().for_each(|attr| hash_attr(hasher, attr));
    hash_extra(hasher, extra);
}

fn hash_flags(hasher: &mut Hasher, flags: &ResolvedFlags<'_>) {
    let ResolvedFlags {
        build_type,
        dynamic_compile_static,
        is_dynamic_impl,
        int64_mode,
        max_kernel_id,
        miss_support_info,
        pattern,
        unknown_shape,
    } = flags;
    hasher.str(build_type);
    hasher.bool(*dynamic_compile_static);
    hasher.bool(*is_dynamic_impl);
    hasher.bool(*int64_mode);
    hasher.i64(*max_kernel_id);
    hasher.str(miss_support_info);
    hasher.str(pattern);
    hasher.bool(*unknown_shape);
}

fn hash_args<T>(hasher: &mut Hasher, args: &[Arg<T>], mut hash: impl FnMut(&mut Hasher, &T)) {
    hasher.list(args.len());
    for arg in args {
        match arg {
            Arg::One(item) => {
                hasher.str("one");
                hash(hasher, item);
            }
            Arg::Many(items) => {
                hasher.str("many");
                hasher.list(items.len());
                items.iter().for_each(|item| hash(hasher, item));
            }
            Arg::Absent(absent @ OmittedArg { param_type: _, extra }) => {
                hasher.str("absent");
                hasher.str(absent.kind());
                hash_extra(hasher, extra.iter().filter(|(name, value)| !is_placeholder(name, value)));
            }
        }
    }
}

/// Whether a field of an omitted tensor has its placeholder value.
pub(crate) fn is_placeholder(name: &str, value: &Value) -> bool {
    match name {
        "name" => true,
        "shape" => value == "NULL",
        "data_type" | "dtype" => value == 0 || value == "",
        "valid" => value == false,
        _ => false,
    }
}

fn hash_source(hasher: &mut Hasher, source: Source, free: &mut BTreeMap<usize, usize>) {
    let (kind, a, b) = match source {
        Source::Data { data, tensor } => ("data", data, tensor),
        Source::Op { op, output } => ("op", op, output),
        Source::Free(number) => {
            let next = free.len();
            ("free", *free.entry(number).or_insert(next), 0)
        }
    };
    hasher.str(kind);
    hasher.u64(a as u64);
    hasher.u64(b as u64);
}

fn hash_tensor(hasher: &mut Hasher, tensor: &Tensor) {
    let Tensor {
        dtype,
        format,
        shape,
        ori_format,
        ori_shape,
        range,
        param_type,
        valid,
        const_value,
        slice,
        extra,
    } = tensor;
    hasher.str(dtype);
    hasher.str(format);
    hash_ints(hasher, shape);
    hasher.str(ori_format.as_ref().unwrap_or(format));
    hash_ints(hasher, ori_shape.as_ref().unwrap_or(shape));
    let ranges = ranges(range.as_deref(), shape);
    hasher.list(ranges.len());
    for [least, greatest] in ranges.iter() {
        hasher.i64(*least);
        hasher.i64(*greatest);
    }
    hasher.str(param_type);
    hasher.bool(valid.unwrap_or(true));
    hasher.option(const_value.is_some());
    if let Some(ConstValue { value, dtype }) = const_value {
        hasher.str(dtype.as_deref().unwrap_or_default());
        hash_json(hasher, value);
    }
    hash_slice(hasher, slice);
    hash_extra(hasher, extra);
}

fn hash_slice(hasher: &mut Hasher, slice: &SliceFields) {
    let (numbers, lists) = slice.resolved();
    numbers.iter().for_each(|(_, number)| hasher.i64(*number));
    lists.iter().for_each(|(_, list)| hash_ints(hasher, list));
}

fn hash_ints(hasher: &mut Hasher, ints: &[i64]) {
    hasher.list(ints.len());
    ints.iter().for_each(|int| hasher.i64(*int));
}

fn hash_attr(hasher: &mut Hasher, attr: &Attr) {
    let Attr { name, dtype, value, valid, extra } = attr;
    hasher.str(name);
    hasher.str(dtype);
    hasher.bool(valid.unwrap_or(true));
    hash_attr_value(hasher, value, is_single(dtype));
    hash_extra(hasher, extra);
}

/// Whether numbers of an attribute of this type have 32 bits.
pub(crate) fn is_single(dtype: &str) -> bool {
    dtype.contains("float32") || dtype == "float" || dtype == "list_float"
}

/// The hashed value of a float: a float32 by its 32 bits, whatever digits were printed.
#[derive(PartialEq, Eq)]
pub(crate) enum FloatBits {
    Single(u32),
    Double(u64),
}

impl FloatBits {
    pub(crate) fn of(value: f64, single: bool) -> Self {
        let short = value as f32;
        // A finite value that overflows to infinity is not hashed as infinity.
        match single && short.is_infinite() == value.is_infinite() {
            true => Self::Single(short.to_bits()),
            false => Self::Double(value.to_bits()),
        }
    }
}

fn hash_attr_value(hasher: &mut Hasher, value: &AttrValue, single: bool) {
    match value {
        AttrValue::Null => hasher.option(false),
        AttrValue::Bool(value) => hasher.bool(*value),
        AttrValue::Int(value) => hasher.i64(*value),
        AttrValue::UInt(value) => hasher.u64(*value),
        AttrValue::Float(float) => match FloatBits::of(float.value(), single) {
            FloatBits::Single(bits) => {
                hasher.str("f32");
                hasher.u64(u64::from(bits));
            }
            FloatBits::Double(bits) => {
                hasher.str("f64");
                hasher.u64(bits);
            }
        },
        AttrValue::Str(text) => {
            hasher.str("text");
            hasher.str(text);
        }
        AttrValue::List(items) => {
            hasher.list(items.len());
            items.iter().for_each(|item| hash_attr_value(hasher, item, single));
        }
    }
}

fn hash_extra<'a, I>(hasher: &mut Hasher, fields: I)
where
    I: IntoIterator<Item = (&'a String, &'a Value), IntoIter: Clone>,
{
    let fields = fields.into_iter();
    hasher.list(fields.clone().count());
    for (name, value) in fields {
        hasher.str(name);
        hash_json(hasher, value);
    }
}

/// The hashed form of a JSON number: its value, whatever its spelling.
#[derive(PartialEq, Eq)]
pub(crate) enum JsonNumber<'a> {
    Int(i64),
    UInt(u64),
    Float(u64),
    /// Out of range of the other types, or not exact as a float.
    Text(&'a str),
}

impl<'a> JsonNumber<'a> {
    pub(crate) fn of(number: &'a Number) -> Self {
        match (whole(number.as_str()), number.as_f64()) {
            (Some(Ok(int)), _) => Self::Int(int),
            (Some(Err(int)), _) => Self::UInt(int),
            (None, Some(float)) if !is_whole(number.as_str()) => Self::Float(float.to_bits()),
            _ => Self::Text(number.as_str()),
        }
    }
}

/// Hashes JSON by value: the spelling of numbers and the order of keys do not count.
fn hash_json(hasher: &mut Hasher, value: &Value) {
    match value {
        Value::Null => hasher.option(false),
        Value::Bool(value) => hasher.bool(*value),
        Value::Number(number) => match JsonNumber::of(number) {
            JsonNumber::Int(int) => hasher.i64(int),
            JsonNumber::UInt(int) => hasher.u64(int),
            JsonNumber::Float(bits) => {
                hasher.str("f64");
                hasher.u64(bits);
            }
            JsonNumber::Text(text) => hasher.bytes(text.as_bytes()),
        },
        Value::String(text) => {
            hasher.str("text");
            hasher.str(text);
        }
        Value::Array(items) => {
            hasher.list(items.len());
            items.iter().for_each(|item| hash_json(hasher, item));
        }
        Value::Object(map) => {
            hasher.str("object");
            hasher.list(map.len());
            for (name, value) in map {
                hasher.str(name);
                hash_json(hasher, value);
            }
        }
    }
}
