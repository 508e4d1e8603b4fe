//! Reading of tensors and attributes, shared by all generations.

use crate::info::fields::{FieldError, Fields, Position, boolean, each, int, ints, list, string, wrong};
use crate::info::node::{Items, Node};
use crate::model::job::{
    Arg, Attr, AttrValue, ConstValue, Float, Input, OmittedArg, SliceFields, Source, Tensor,
};
use crate::model::metadata::{DtypeFields, OpLabels, TensorLabel};
use crate::model::number::{is_whole, whole};

/// The attribute that states for the framework, not for the function, whether the output is the input.
pub(crate) const IS_REF: &str = "isRef";

/// The type of an operator. `Data` computes nothing and occurs only in files since r1.5.
pub(crate) fn operator_type(value: Node<'_>, at: Position<'_>) -> Result<String, FieldError> {
    match string(value, at)? {
        data if data == DATA => Err(wrong(at, "the type of an operator", data)),
        op_type => Ok(op_type),
    }
}

/// The type of ops that only feed tensors to operators.
pub(crate) const DATA: &str = "Data";

/// An input argument whose sources are not known yet.
pub(crate) fn unlinked(arg: Arg<Tensor>) -> Arg<Input> {
    let input = |tensor| Input { tensor, source: Source::Free(0) };
    match arg {
        Arg::One(tensor) => Arg::One(input(tensor)),
        Arg::Many(tensors) => Arg::Many(tensors.into_iter().map(input).collect()),
        Arg::Absent(absent) => Arg::Absent(absent),
    }
}

/// Inputs or outputs since r1.5, each passed to `of`: a list at a position is a variadic group.
pub(crate) fn args<T>(
    value: Node<'_>,
    at: Position<'_>,
    labels: &mut Vec<TensorLabel>,
    of: impl Fn(Arg<Tensor>) -> T,
) -> Result<Vec<T>, FieldError> {
    list(value, at, |item, at| match item {
        Node::List(items) => Ok(of(Arg::Many(group(items, at, |item, at| tensor(item, at, labels))?))),
        item => tensor(item, at, labels).map(&of),
    })
}

/// Inputs or outputs before r1.5, and of AKG, each passed to `of`: every position is a list. A list of one tensor is that
/// tensor, unless the tensor states that it belongs to a group.
pub(crate) fn listed_args<T>(
    value: Node<'_>,
    at: Position<'_>,
    mut one: impl FnMut(Node<'_>, Position<'_>) -> Result<Arg<Tensor>, FieldError>,
    of: impl Fn(Arg<Tensor>) -> T,
) -> Result<Vec<T>, FieldError> {
    list(value, at, |item, at| {
        let Node::List(mut items) = item else { return Err(wrong(at, "a list of tensors", item)) };
        if items.len() == 1
            && let Some(item) = items.next()
        {
            return Ok(of(match one(item, Position::Item(&at, 0))? {
                Arg::One(tensor) if tensor.param_type == VARIADIC => Arg::Many(vec![tensor]),
                single => single,
            }));
        }
        group(items, at, &mut one).map(|tensors| of(Arg::Many(tensors)))
    })
}

/// The `param_type` of tensors of a variadic group.
const VARIADIC: &str = "dynamic";

/// A variadic group: none of its tensors is optional.
fn group(
    items: Items<'_>,
    at: Position<'_>,
    mut one: impl FnMut(Node<'_>, Position<'_>) -> Result<Arg<Tensor>, FieldError>,
) -> Result<Vec<Tensor>, FieldError> {
    each(items, at, |item, at| match one(item, at)? {
        Arg::One(tensor) => Ok(tensor),
        _ => Err(wrong(at, "a tensor", "an absent one")),
    })
}

pub(crate) fn tensor(
    value: Node<'_>,
    at: Position<'_>,
    labels: &mut Vec<TensorLabel>,
) -> Result<Arg<Tensor>, FieldError> {
    let mut fields = Fields::of(value, at)?;
    if fields.peek("shape").is_some_and(|shape| shape.is_text("NULL")) {
        return Ok(Arg::Absent(OmittedArg {
            param_type: fields.opt("param_type", string)?,
            extra: fields.extra(),
        }));
    }
    let name = fields.opt("name", string)?;
    let dtype_fields = match (fields.peek("dtype"), fields.peek("data_type")) {
        (Some(Node::Text(dtype)), Some(Node::Text(data_type))) if dtype == data_type => DtypeFields::Both,
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
        Some(value) => {
            Some(ConstValue { value: value.into(), dtype: fields.opt("const_value_dtype", string)? })
        }
    };
    Ok(Arg::One(Tensor {
        dtype,
        format: fields.stated("format")?,
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

fn range(value: Node<'_>, at: Position<'_>) -> Result<[i64; 2], FieldError> {
    let pair = ints(value, at)?;
    <[i64; 2]>::try_from(pair).map_err(|pair| wrong(at, "two whole numbers", pair))
}

/// The names of the fields of attributes in a file.
pub(crate) struct AttrWords {
    /// The list of attributes.
    pub(crate) attrs: &'static str,
    /// An attribute's type.
    pub(crate) dtype: &'static str,
    /// The prefix of unknown fields.
    pub(crate) prefix: &'static str,
}

impl AttrWords {
    /// MindSpore's names.
    pub(crate) const MINDSPORE: Self = Self { attrs: "attrs", dtype: "dtype", prefix: "" };
}

/// Attributes; null means none, and is written again.
pub(crate) fn read_attrs(
    fields: &mut Fields<'_>,
    words: &AttrWords,
    labels: &mut OpLabels,
) -> Result<Option<Vec<Attr>>, FieldError> {
    labels.null_attrs = fields.raw_if(words.attrs, Node::is_null).is_some();
    fields.opt(words.attrs, |value, at| list(value, at, |item, at| read_attr(item, at, words)))
}

fn read_attr(value: Node<'_>, at: Position<'_>, words: &AttrWords) -> Result<Attr, FieldError> {
    let mut fields = Fields::of(value, at)?;
    let name = fields.req("name", string)?;
    let dtype = fields.stated(words.dtype)?;
    let value_at = Position::Field(&at, "value");
    let value = match fields.peek("value") {
        // An explicit null remains an unknown field, since it differs from a missing field.
        None | Some(Node::Null) => AttrValue::Null,
        Some(_) => attr_value(fields.raw("value").unwrap_or(Node::Null), dtype.contains("float"), value_at)?,
    };
    let valid = fields.opt("valid", boolean)?;
    Ok(Attr { name, dtype, value, valid, extra: fields.rest(words.prefix) })
}

/// Reads a value by its JSON type; whole numbers, "inf" and "-inf" of a float attribute are floats.
fn attr_value(value: Node<'_>, float: bool, at: Position<'_>) -> Result<AttrValue, FieldError> {
    Ok(match value {
        Node::Null => AttrValue::Null,
        Node::Bool(value) => AttrValue::Bool(value),
        Node::Text(text) => match text {
            "inf" if float => AttrValue::Float(Float::new(f64::INFINITY)),
            "-inf" if float => AttrValue::Float(Float::new(f64::NEG_INFINITY)),
            _ => AttrValue::Str(text.to_owned()),
        },
        Node::Number(token) => match whole(token) {
            Some(Ok(value)) if !float => AttrValue::Int(value),
            Some(Err(value)) if !float => AttrValue::UInt(value),
            None if !float && is_whole(token) => {
                return Err(wrong(at, "a whole number of 64 bits", Node::Number(token)));
            }
            _ => match token.parse::<f64>() {
                Ok(value) if value.is_finite() => AttrValue::Float(Float::read(value, token)),
                _ => return Err(wrong(at, "a number that fits a float", Node::Number(token))),
            },
        },
        Node::List(items) => AttrValue::List(each(items, at, |item, at| attr_value(item, float, at))?),
        object @ Node::Object(_) => return Err(wrong(at, "a value or a list of values", object)),
    })
}
