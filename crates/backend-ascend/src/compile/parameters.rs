//! One operator's tensors and attributes, for `opc` or its Python function.

use std::collections::BTreeMap;

use opkeep_backend::Unsupported;
use opkeep_cann_toolkit::{AttrInfo, OpInfo, PortInfo};
use opkeep_descriptor::{Arg, Attr, AttrValue, Job, Op, SliceFields, Tensor};
use serde_json::{Map, Value, json};

use crate::NAME;

/// The description of a job, as `--input_param` takes it.
///
/// All attributes of the operator information are written: without any, the compiler passes the kernel's name as the
/// first one (CANN 8.1, `opc_tool/op_info_parser.py`).
pub(crate) fn parameters(
    job: &Job,
    name: &str,
    info: Option<&OpInfo>,
    options: &BTreeMap<String, String>,
) -> Result<Value, Unsupported> {
    let [op] = &job.ops[..] else {
        return Err(Unsupported::Fused { backend: NAME, ops: job.ops.len() });
    };
    let (inputs, outputs) = inputs_and_outputs(op, info);
    let mut entry = Map::new();
    entry.insert("bin_filename".to_owned(), name.into());
    entry.insert("inputs".to_owned(), inputs.into());
    entry.insert("outputs".to_owned(), outputs.into());
    entry.insert("attrs".to_owned(), Value::Array(attributes(op, info)?));
    let mut top = json!({"op_type": op.op_type, "op_list": [entry]});
    // The default of frameworks: the overflow status is checked only for training on first-generation chips.
    top["status_check"] = options.get("status_check").map_or("false", String::as_str).into();
    let fusion = |name: &str| Some((name.to_owned(), Value::from(options.get(name)?.as_str())));
    let soc: Map<String, Value> =
        opkeep_order::collected(["l1Fusion", "l2Fusion"].into_iter().filter_map(fusion));
    if !soc.is_empty() {
        top["SocInfo"] = soc.into();
    }
    Ok(top)
}

/// The positional arguments of an operator's Python function: inputs and outputs, then attributes.
pub(crate) fn python_arguments(
    op: &Op,
    info: Option<&OpInfo>,
) -> Result<(Vec<Value>, Vec<Value>), Unsupported> {
    let (mut ports, outputs) = inputs_and_outputs(op, info);
    ports.extend(outputs);
    ports.iter_mut().for_each(open_ranges);
    let attrs = attributes(op, info)?.into_iter().map(|mut attr| attr["value"].take()).collect();
    Ok((ports, attrs))
}

/// The inputs and outputs by position.
fn inputs_and_outputs(op: &Op, info: Option<&OpInfo>) -> (Vec<Value>, Vec<Value>) {
    let (inputs, outputs) =
        info.map_or((&[][..], &[][..]), |info| (info.inputs.as_slice(), info.outputs.as_slice()));
    let job_inputs = op.inputs.iter().enumerate();
    let mut input_values: Vec<Value> =
        job_inputs.map(|(at, arg)| argument(arg, |input| &input.tensor, at, inputs)).collect();
    // Arguments are positional: without these nulls, outputs would take the places of inputs omitted at the end.
    input_values.resize(input_values.len().max(inputs.len()), Value::Null);
    let job_outputs = op.outputs.iter().enumerate();
    let output_values = job_outputs.map(|(at, arg)| argument(arg, |tensor: &Tensor| tensor, at, outputs));
    (input_values, output_values.collect())
}

/// Replaces -1, the open end of a range, by null: Python expects `None`.
fn open_ranges(port: &mut Value) {
    if let Value::Array(group) = port {
        return group.iter_mut().for_each(open_ranges);
    }
    let bounds = port.get_mut("range").and_then(Value::as_array_mut).into_iter().flatten();
    for bound in bounds.filter_map(Value::as_array_mut).flatten().filter(|bound| **bound == -1) {
        *bound = Value::Null;
    }
}

/// The argument at one position: a tensor, a group, or nothing.
fn argument<T>(arg: &Arg<T>, tensor: impl Fn(&T) -> &Tensor, at: usize, ports: &[PortInfo]) -> Value {
    let port = ports.get(at).map(|port| port.name.as_str());
    let described = |tensor: &Tensor, index: usize| description(tensor, port, index);
    match arg {
        Arg::Absent(_) => Value::Null,
        Arg::One(one) if tensor(one).valid == Some(false) => Value::Null,
        Arg::One(one) => described(tensor(one), at),
        Arg::Many(group) => {
            group.iter().enumerate().map(|(index, one)| described(tensor(one), index)).collect()
        }
    }
}

fn description(tensor: &Tensor, port: Option<&str>, index: usize) -> Value {
    let format = if tensor.format.is_empty() { "ND" } else { tensor.format.as_str() };
    let ori_shape = tensor.ori_shape.as_ref().unwrap_or(&tensor.shape);
    let range: Vec<[i64; 2]> = match &tensor.range {
        Some(range) => range.clone(),
        None => tensor.shape.iter().map(|dim| if *dim < 0 { [1, -1] } else { [*dim, *dim] }).collect(),
    };
    let mut described = json!({
        "name": port.map_or_else(|| format!("x{index}"), str::to_owned),
        "index": index,
        "dtype": tensor.dtype,
        "format": format,
        "shape": tensor.shape,
        "ori_format": tensor.ori_format.as_deref().unwrap_or(format),
        "ori_shape": ori_shape,
        "range": range,
        "paramType": tensor.param_type,
    });
    if let Some(value) = &tensor.const_value {
        described["const_value"] = value.value.clone();
    }
    add_slice_fields(&tensor.slice, &mut described);
    described
}

/// Adds the fusion and slicing fields that are set.
fn add_slice_fields(slice: &SliceFields, described: &mut Value) {
    let (numbers, lists) = slice.stated();
    for (name, number) in numbers {
        number.into_iter().for_each(|number| described[name] = number.into());
    }
    for (name, list) in lists {
        list.into_iter().for_each(|list| described[name] = list.into());
    }
}

/// All attributes: first those of the operator information, in the order of the function's parameters, then the
/// others, in the job's order.
fn attributes(op: &Op, info: Option<&OpInfo>) -> Result<Vec<Value>, Unsupported> {
    let is_set = |attr: &&Attr| attr.valid != Some(false) && attr.value != AttrValue::Null;
    let mut job_attrs: Vec<&Attr> = op.attrs.iter().flatten().filter(is_set).collect();
    let mut all = Vec::new();
    for known in info.map_or(&[][..], |info| &info.attrs) {
        let at = job_attrs.iter().position(|attr| attr.name == known.name);
        let value = match at.map(|at| job_attrs.remove(at)) {
            Some(attr) => to_json(&attr.value),
            None => default(op, known)?,
        };
        all.push(json!({"name": known.name, "dtype": dtype(&known.kind), "value": value}));
    }
    all.extend(
        job_attrs
            .into_iter()
            .map(|attr| json!({"name": attr.name, "dtype": dtype_of(attr), "value": to_json(&attr.value)})),
    );
    Ok(all)
}

fn default(op: &Op, known: &AttrInfo) -> Result<Value, Unsupported> {
    let refuse = |problem: String| Unsupported::Other { backend: NAME, op_type: op.op_type.clone(), problem };
    let Some(text) = known.default.as_deref().filter(|_| !known.is_required) else {
        return Err(refuse(format!("required attribute `{}` is missing", known.name)));
    };
    known.default_value().as_ref().map(to_json).ok_or_else(|| {
        refuse(format!(
            "the operator information gives attribute `{}` the default `{text}`, which is not of type {}",
            known.name, known.kind
        ))
    })
}

/// `opc`'s name for a type of the operator information: `listInt` becomes `list_int`.
fn dtype(kind: &str) -> String {
    let mut word = String::new();
    for letter in kind.chars() {
        if letter.is_ascii_uppercase() {
            word.push('_');
        }
        word.push(letter.to_ascii_lowercase());
    }
    match word.strip_suffix("str") {
        Some(before) => format!("{before}string"),
        None => word,
    }
}

/// `opc`'s name for the type of an attribute that is not in the operator information, from the attribute's value.
fn dtype_of(attr: &Attr) -> String {
    fn of(value: &AttrValue) -> &'static str {
        match value {
            AttrValue::Bool(_) => "bool",
            AttrValue::Float(_) => "float",
            AttrValue::Str(_) => "string",
            AttrValue::Null | AttrValue::Int(_) | AttrValue::UInt(_) | AttrValue::List(_) => "int",
        }
    }
    let AttrValue::List(items) = &attr.value else { return of(&attr.value).to_owned() };
    match items.first() {
        Some(AttrValue::List(inner)) => format!("list_list_{}", inner.first().map_or("int", of)),
        // The type of an empty list's items is known only from the job.
        None if attr.dtype.to_ascii_lowercase().contains("float") => "list_float".to_owned(),
        first => format!("list_{}", first.map_or("int", of)),
    }
}

/// The value as JSON.
fn to_json(value: &AttrValue) -> Value {
    match value {
        AttrValue::Null => Value::Null,
        AttrValue::Bool(truth) => (*truth).into(),
        AttrValue::Int(number) => (*number).into(),
        AttrValue::UInt(number) => (*number).into(),
        AttrValue::Float(number) => number.value().into(),
        AttrValue::Str(text) => text.as_str().into(),
        AttrValue::List(items) => items.iter().map(to_json).collect(),
    }
}

#[cfg(test)]
mod tests {
    use opkeep_descriptor::{Extra, Float, Input, OmittedArg, OpFlags, Source};

    use super::*;
    use opkeep_cann_toolkit::PortKind;

    fn job(op_type: &str, inputs: Vec<Arg<Input>>, attrs: Vec<Attr>) -> Job {
        let op = Op {
            op_type: op_type.into(),
            func_name: String::new(),
            module_name: String::new(),
            module_path: None,
            flags: OpFlags::default(),
            inputs,
            outputs: vec![Arg::One(Tensor::new("float16", [2, -1]))],
            attrs: Some(attrs),
            extra: Extra::new(),
        };
        Job { data: Vec::new(), ops: vec![op], l1_size: -1, extra: Extra::new() }
    }

    fn input(tensor: Tensor) -> Input {
        Input { tensor, source: Source::Free(0) }
    }

    fn port(name: &str) -> PortInfo {
        PortInfo {
            name: name.into(),
            kind: PortKind::Required,
            dtypes: Vec::new(),
            formats: Vec::new(),
            unknown_shape_formats: Vec::new(),
            value_depend: None,
        }
    }

    fn attr(name: &str, kind: &str, default: Option<&str>) -> AttrInfo {
        AttrInfo {
            name: name.into(),
            kind: kind.into(),
            is_required: default.is_none(),
            default: default.map(str::to_owned),
            values: "all".into(),
        }
    }

    fn entry(job: &Job, info: Option<&OpInfo>) -> Value {
        let all = parameters(job, "square_1", info, &BTreeMap::new()).unwrap();
        assert_eq!((all["op_type"].as_str(), all["status_check"].as_str()), (Some("X"), Some("false")));
        all["op_list"][0].clone()
    }

    #[test]
    fn tensors_are_objects_groups_or_nothing() {
        let mut known = Tensor::new("int32", [2]);
        known.const_value = Some(opkeep_descriptor::ConstValue::ints("int32", &[7, 8]));
        known.slice.l1_fusion_type = Some(1);
        known.slice.valid_shape = Some(vec![2, 2]);
        let unused = Tensor { valid: Some(false), ..Tensor::new("float16", [1]) };
        let inputs = vec![
            Arg::One(input(known)),
            Arg::Absent(OmittedArg { param_type: None, extra: Extra::new() }),
            Arg::One(input(unused)),
            Arg::Many(vec![input(Tensor::new("float16", [3])), input(Tensor::new("float16", [4]))]),
        ];
        let info = OpInfo { inputs: vec![port("axes")], outputs: vec![port("y")], ..OpInfo::default() };
        let entry = entry(&job("X", inputs, Vec::new()), Some(&info));
        assert_eq!(entry["bin_filename"], "square_1");
        assert_eq!(entry["inputs"][0]["name"], "axes");
        assert_eq!(entry["inputs"][0]["const_value"], json!([7, 8]));
        assert_eq!(entry["inputs"][0]["L1_fusion_type"], json!(1));
        assert_eq!(entry["inputs"][0]["valid_shape"], json!([2, 2]));
        assert_eq!(entry["inputs"][0].get("addr_type"), None, "unset fields are not written");
        assert!(entry["inputs"][1].is_null() && entry["inputs"][2].is_null());
        assert_eq!(entry["inputs"][3][1]["shape"], json!([4]));
        assert_eq!(entry["inputs"].as_array().unwrap().len(), 4);
        let output = &entry["outputs"][0];
        assert_eq!((&output["range"], &output["ori_shape"]), (&json!([[2, 2], [1, -1]]), &json!([2, -1])));
        assert_eq!(output["ori_format"], "ND");
    }

    #[test]
    fn inputs_left_out_at_the_end_keep_their_place() {
        let info = OpInfo { inputs: vec![port("x"), port("bias")], ..OpInfo::default() };
        let given = || vec![Arg::One(input(Tensor::new("float16", [2])))];
        let entry = entry(&job("X", given(), Vec::new()), Some(&info));
        assert_eq!(entry["inputs"][0]["name"], "x");
        assert_eq!(entry["inputs"].as_array().unwrap()[1..], [Value::Null]);
    }

    #[test]
    fn every_known_attribute_is_written_in_the_functions_order() {
        let info = OpInfo {
            attrs: vec![
                attr("axes", "listInt", Some("[-1]")),
                attr("keep", "bool", Some("False")),
                attr("mode", "str", Some("same")),
                attr("alpha", "float", Some("0.5")),
            ],
            ..OpInfo::default()
        };
        let given = vec![
            Attr::new("alpha", "float32", AttrValue::Float(Float::new(2.0))),
            Attr::new("own", "list_int32", AttrValue::List(vec![AttrValue::ints(&[1, 2])])),
            Attr { valid: Some(false), ..Attr::new("mode", "str", AttrValue::Str("valid".into())) },
        ];
        let entry = entry(&job("X", Vec::new(), given), Some(&info));
        let shown: Vec<String> = entry["attrs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|attr| format!("{} {} {}", attr["name"], attr["dtype"], attr["value"]).replace('"', ""))
            .collect();
        assert_eq!(
            shown,
            [
                "axes list_int [-1]",
                "keep bool false",
                "mode string same",
                "alpha float 2.0",
                "own list_list_int [[1,2]]"
            ]
        );
    }

    #[test]
    fn a_missing_required_attribute_is_an_error() {
        let info = OpInfo { attrs: vec![attr("axis", "int", None)], ..OpInfo::default() };
        let refused = parameters(&job("X", Vec::new(), Vec::new()), "x_1", Some(&info), &BTreeMap::new());
        assert!(refused.unwrap_err().to_string().contains("required attribute `axis` is missing"));
    }
}
