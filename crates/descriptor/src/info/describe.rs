//! Tensors and attributes in the form of a file.

use std::str::FromStr;

use serde_json::{Number, Value};

use crate::info::tensors::AttrWords;
use crate::info::tree::{Object, Tree};
use crate::model::job::{Arg, Attr, AttrValue, Float, OmittedArg, Tensor};
use crate::model::metadata::{DtypeFields, OpLabels, TensorLabel};
use crate::nlohmann::grisu;

/// Descriptions of `args`, each with its label.
pub(crate) fn described<'a, T: 'a>(
    args: &'a [Arg<T>],
    labels: &'a [TensorLabel],
    of: impl Fn(&'a T) -> &'a Tensor,
) -> Tree<'a> {
    static NAMELESS: TensorLabel =
        TensorLabel { name: None, dtype_fields: DtypeFields::Both, no_param_type: false };
    let mut labels = labels.iter();
    let mut one = |item: &'a T| tensor(of(item), labels.next().unwrap_or(&NAMELESS));
    let args = args.iter().map(|arg| match arg {
        Arg::One(item) => one(item),
        Arg::Many(items) => items.iter().map(&mut one).collect(),
        Arg::Absent(item) => {
            let mut object = absent(item);
            object.or_insert("shape", "NULL");
            Tree::Object(object)
        }
    });
    args.collect()
}

/// The description of an omitted tensor in a file.
pub(crate) fn absent(absent: &OmittedArg) -> Object<'_> {
    let mut object = Object::of(&absent.extra);
    if let Some(param_type) = &absent.param_type {
        object.insert("param_type", param_type.as_str());
    }
    object
}

pub(crate) fn tensor<'a>(tensor: &'a Tensor, label: &'a TensorLabel) -> Tree<'a> {
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
    let mut object = Object::of(extra);
    let mut put = |name: &'static str, value: Option<Tree<'a>>| {
        if let Some(value) = value {
            object.or_insert(name, value);
        }
    };
    let text = |text: Option<&'a String>| text.map(|text| Tree::Text(text));
    let ints = |ints: Option<&'a Vec<i64>>| ints.map(|ints| Tree::Ints(ints));
    put("name", text(label.name.as_ref()));
    if label.dtype_fields != DtypeFields::DataType {
        put("dtype", text(Some(dtype)));
    }
    if label.dtype_fields != DtypeFields::Dtype {
        put("data_type", text(Some(dtype)));
    }
    put("format", text(Some(format).filter(|format| !format.is_empty())));
    put("shape", ints(Some(shape)));
    put("ori_format", text(ori_format.as_ref()));
    put("ori_shape", ints(ori_shape.as_ref()));
    put("range", range.as_ref().map(|range| range.iter().map(|pair| Tree::Ints(pair)).collect()));
    let implied = label.no_param_type && param_type == "required";
    put("param_type", text(Some(param_type).filter(|_| !implied)));
    put("valid", valid.map(Tree::from));
    if let Some(constant) = const_value {
        put("const_value", Some(Tree::from(&constant.value)));
        put("const_value_dtype", text(constant.dtype.as_ref()));
    }
    put("L1_addr_offset", slice.l1_addr_offset.map(Tree::from));
    put("L1_fusion_type", slice.l1_fusion_type.map(Tree::from));
    put("L1_workspace_size", slice.l1_workspace_size.map(Tree::from));
    put("addr_type", slice.addr_type.map(Tree::from));
    put("split_index", slice.split_index.map(Tree::from));
    put("slice_offset", ints(slice.slice_offset.as_ref()));
    put("total_shape", ints(slice.total_shape.as_ref()));
    put("valid_shape", ints(slice.valid_shape.as_ref()));
    Tree::Object(object)
}

/// The attributes in the form of a file; `None` if the file omits them.
pub(crate) fn attr_list<'a>(
    attrs: Option<&'a [Attr]>,
    labels: &OpLabels,
    words: &AttrWords,
) -> Option<Tree<'a>> {
    match attrs {
        None => labels.null_attrs.then_some(Value::Null.into()),
        Some(attrs) => Some(attrs.iter().map(|item| attr(item, words)).collect()),
    }
}

fn attr<'a>(attr: &'a Attr, words: &AttrWords) -> Tree<'a> {
    let Attr { name, dtype, value, valid, extra } = attr;
    let mut object = Object::default();
    for (name, value) in extra {
        object.insert(name.strip_prefix(words.prefix).unwrap_or(name), value);
    }
    object.insert("name", name.as_str());
    if !dtype.is_empty() {
        object.insert(words.dtype, dtype.as_str());
    }
    if *value != AttrValue::Null {
        object.insert("value", attr_value(value));
    }
    if let Some(valid) = valid {
        object.insert("valid", *valid);
    }
    Tree::Object(object)
}

pub(crate) fn attr_value(value: &AttrValue) -> Tree<'_> {
    match value {
        AttrValue::Null => Value::Null.into(),
        AttrValue::Bool(value) => (*value).into(),
        AttrValue::Int(value) => (*value).into(),
        AttrValue::UInt(value) => Value::from(*value).into(),
        AttrValue::Float(value) => float(value),
        AttrValue::Str(text) => text.as_str().into(),
        AttrValue::List(items) => items.iter().map(attr_value).collect(),
    }
}

fn float(float: &Float) -> Tree<'static> {
    if let Some(number) = float.token().and_then(|token| Number::from_str(token).ok()) {
        return Value::Number(number).into();
    }
    match float.value() {
        f64::INFINITY => "inf".into(),
        f64::NEG_INFINITY => "-inf".into(),
        // NaN and infinities are printed as null.
        value => Value::from(grisu::print(value).parse::<Number>().ok()).into(),
    }
}
