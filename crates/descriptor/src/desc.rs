//! Reading tensors and attributes: what all generations share.

use serde_json::Value;

use crate::fields::{At, Fault, Fields, boolean, int, ints, is_whole, list, string, whole, wrong};
use crate::job::{Absent, Arg, Attr, AttrValue, ConstValue, Float, Input, SliceFields, Source, Tensor};
use crate::spec::{DtypeFields, OpLabels, TensorLabel};

/// Removes a field that only repeats others. One that says something of its own stays, and counts.
pub(crate) fn take_twin(fields: &mut Fields<'_>, name: &str, derived: impl FnOnce() -> Value) -> bool {
    let twin = fields.peek(name).is_some_and(|value| *value == derived());
    if twin {
        fields.raw(name);
    }
    twin
}

pub(crate) fn unlinked(arg: Arg<Tensor>) -> Arg<Input> {
    let input = |tensor| Input { tensor, source: Source::Free(0) };
    match arg {
        Arg::One(tensor) => Arg::One(input(tensor)),
        Arg::Many(tensors) => Arg::Many(tensors.into_iter().map(input).collect()),
        Arg::Absent(absent) => Arg::Absent(absent),
    }
}

pub(crate) fn args(
    value: Value,
    at: At<'_>,
    labels: &mut Vec<TensorLabel>,
) -> Result<Vec<Arg<Tensor>>, Fault> {
    let Value::Array(items) = value else { return Err(wrong(at, "a list", &value)) };
    let mut args = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        let at = At::Item(&at, index);
        args.push(match item {
            Value::Array(group) => {
                let mut tensors = Vec::with_capacity(group.len());
                for (index, item) in group.into_iter().enumerate() {
                    let at = At::Item(&at, index);
                    match tensor(item, at, labels)? {
                        Arg::One(tensor) => tensors.push(tensor),
                        _ => return Err(wrong(at, "a tensor that is there", &Value::from("an absent one"))),
                    }
                }
                Arg::Many(tensors)
            }
            item => tensor(item, at, labels)?,
        });
    }
    Ok(args)
}

pub(crate) fn tensor(value: Value, at: At<'_>, labels: &mut Vec<TensorLabel>) -> Result<Arg<Tensor>, Fault> {
    let mut fields = Fields::of(value, at)?;
    if fields.peek("shape").and_then(Value::as_str) == Some("NULL") {
        return Ok(Arg::Absent(Absent {
            param_type: fields.opt("param_type", string)?.unwrap_or_default(),
            extra: fields.extra(),
        }));
    }
    let name = fields.opt("name", string)?;
    let dtype_fields = match (fields.peek("dtype"), fields.peek("data_type")) {
        (Some(dtype), Some(data_type)) if dtype == data_type => DtypeFields::Both,
        (None, Some(_)) => DtypeFields::DataType,
        _ => DtypeFields::Dtype,
    };
    let dtype = match dtype_fields {
        DtypeFields::Both => {
            fields.raw("data_type");
            fields.req("dtype", string)?
        }
        DtypeFields::Dtype => fields.req("dtype", string)?,
        DtypeFields::DataType => fields.req("data_type", string)?,
    };
    let param_type = fields.opt("param_type", string)?;
    labels.push(TensorLabel { name, dtype_fields, no_param_type: param_type.is_none() });
    let const_value = match fields.raw("const_value") {
        None => None,
        Some(value) => Some(ConstValue { value, dtype: fields.opt("const_value_dtype", string)? }),
    };
    Ok(Arg::One(Tensor {
        dtype,
        format: stated(&mut fields, "format")?,
        shape: fields.req("shape", ints)?,
        ori_format: fields.opt("ori_format", string)?,
        ori_shape: fields.opt("ori_shape", ints)?,
        range: fields.opt("range", |value, at| list(value, at, range))?,
        param_type: param_type.unwrap_or_else(|| "required".into()),
        valid: fields.opt("valid", boolean)?,
        const_value,
        slice: SliceFields {
            l1_addr_offset: fields.opt("L1_addr_offset", int)?,
            l1_fusion_type: fields.opt("L1_fusion_type", int)?,
            l1_workspace_size: fields.opt("L1_workspace_size", int)?,
            addr_type: fields.opt("addr_type", int)?,
            split_index: fields.opt("split_index", int)?,
            slice_offset: fields.opt("slice_offset", ints)?,
            total_shape: fields.opt("total_shape", ints)?,
            valid_shape: fields.opt("valid_shape", ints)?,
        },
        extra: fields.extra(),
    }))
}

/// A text that is empty if the field is absent. A field that is there and empty stays among the unknown ones.
pub(crate) fn stated(fields: &mut Fields<'_>, name: &str) -> Result<String, Fault> {
    match fields.peek(name) {
        Some(text) if text == "" => Ok(String::new()),
        _ => Ok(fields.opt(name, string)?.unwrap_or_default()),
    }
}

fn range(value: Value, at: At<'_>) -> Result<[i64; 2], Fault> {
    let pair = ints(value, at)?;
    <[i64; 2]>::try_from(pair).map_err(|pair| wrong(at, "two whole numbers", &pair.into()))
}

/// How files call the fields of attributes.
pub(crate) struct AttrWords {
    /// The list of them.
    pub(crate) attrs: &'static str,
    /// An attribute's type.
    pub(crate) dtype: &'static str,
    /// Goes before the names of unknown fields.
    pub(crate) prefix: &'static str,
}

impl AttrWords {
    /// As MindSpore calls them.
    pub(crate) const MINDSPORE: Self = Self { attrs: "attrs", dtype: "dtype", prefix: "" };
}

/// Attributes; a null stands for none, and comes back.
pub(crate) fn read_attrs(
    fields: &mut Fields<'_>,
    words: &AttrWords,
    labels: &mut OpLabels,
) -> Result<Option<Vec<Attr>>, Fault> {
    labels.null_attrs = fields.peek(words.attrs).is_some_and(Value::is_null);
    if labels.null_attrs {
        fields.raw(words.attrs);
    }
    fields.opt(words.attrs, |value, at| list(value, at, |item, at| read_attr(item, at, words)))
}

fn read_attr(value: Value, at: At<'_>, words: &AttrWords) -> Result<Attr, Fault> {
    let mut fields = Fields::of(value, at)?;
    let name = fields.req("name", string)?;
    let dtype = stated(&mut fields, words.dtype)?;
    let value_at = At::Field(&at, "value");
    let value = match fields.peek("value") {
        // A null that is written stays among the unknown fields: it is not the same as nothing.
        None | Some(Value::Null) => AttrValue::Null,
        Some(_) => attr_value(fields.raw("value").unwrap_or_default(), dtype.contains("float"), value_at)?,
    };
    let valid = fields.opt("valid", boolean)?;
    Ok(Attr { name, dtype, value, valid, extra: fields.rest(words.prefix).collect() })
}

/// Reads a value by its JSON type; whole numbers of a float attribute are floats, and so are "inf" and "-inf".
fn attr_value(value: Value, float: bool, at: At<'_>) -> Result<AttrValue, Fault> {
    Ok(match value {
        Value::Null => AttrValue::Null,
        Value::Bool(value) => AttrValue::Bool(value),
        Value::String(text) => match text.as_str() {
            "inf" if float => AttrValue::Float(Float::new(f64::INFINITY)),
            "-inf" if float => AttrValue::Float(Float::new(f64::NEG_INFINITY)),
            _ => AttrValue::Str(text),
        },
        Value::Number(number) => match whole(&number) {
            Some(Ok(value)) if !float => AttrValue::Int(value),
            Some(Err(value)) if !float => AttrValue::UInt(value),
            None if !float && is_whole(&number) => {
                return Err(wrong(at, "a whole number of 64 bits", &Value::Number(number)));
            }
            _ => match number.as_f64() {
                Some(value) => AttrValue::Float(Float::read(value, &number.to_string())),
                None => return Err(wrong(at, "a number that fits a float", &Value::Number(number))),
            },
        },
        Value::Array(items) => AttrValue::List(
            items
                .into_iter()
                .enumerate()
                .map(|(index, item)| attr_value(item, float, At::Item(&at, index)))
                .collect::<Result<_, _>>()?,
        ),
        object @ Value::Object(_) => return Err(wrong(at, "a value or a list of values", &object)),
    })
}
