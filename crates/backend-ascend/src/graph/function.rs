//! The implementation of a node by the operator information: module, function, flags, attributes with their defaults.

use opkeep_backend::{BackendError, Unsupported};
use opkeep_cann_toolkit::{OpInfo, PortKind};
use opkeep_descriptor::{Attr, OpFlags};
use opkeep_ops::{Function, Node, func_name};
use opkeep_text::counted;

use crate::NAME;

/// Returns the implementation of `node` that `info` describes.
pub(crate) fn function(node: &Node, info: &OpInfo) -> Result<Function, BackendError> {
    let by_rule = || func_name(&node.op_type);
    let file = info.file.clone().unwrap_or_else(by_rule);
    let package = info.vendor.as_ref().map_or_else(|| "impl".to_owned(), |vendor| format!("{vendor}_impl"));
    let dynamic = info.compiles_static_by_dynamic();
    Ok(Function {
        module: format!("{package}.{file}"),
        name: info.function.clone().unwrap_or_else(by_rule),
        flags: OpFlags { dynamic_compile_static: Some(dynamic), ..OpFlags::default() },
        attrs: attrs(node, info)?,
        inputs: inputs(node, info)?,
    })
}

/// Returns the attributes that the function takes: those of the node, and the defaults of all others. Attributes of the node
/// that the function does not have are left out, as the vendor's tools do.
fn attrs(node: &Node, info: &OpInfo) -> Result<Vec<Attr>, BackendError> {
    let mut attrs = Vec::with_capacity(info.attrs.len());
    for known in &info.attrs {
        if let Some(own) = node.attrs.iter().find(|attr| attr.name == known.name) {
            attrs.push(own.clone());
        } else if let Some(default) = &known.default {
            let value = known.default_value().ok_or_else(|| {
                let (name, kind) = (&known.name, &known.kind);
                refused(
                    node,
                    format!("the default `{default}` of its attribute `{name}` is not of type `{kind}`"),
                )
            })?;
            attrs.push(Attr::new(&known.name, dtype(&known.kind), value));
        } else if known.is_required {
            let problem = format!("it requires the attribute `{}`, which networks do not have", known.name);
            return Err(refused(node, problem));
        }
    }
    Ok(attrs)
}

/// Returns the number of inputs that the function takes.
fn inputs(node: &Node, info: &OpInfo) -> Result<usize, BackendError> {
    let known = info.inputs.len();
    if let Some(more) = node.inputs.iter().skip(known).position(|ids| !ids.is_empty()) {
        let problem =
            format!("input {} is given, but it has {known}", known + more, known = counted(known, "input"));
        return Err(refused(node, problem));
    }
    if let Some(port) =
        info.inputs.iter().skip(node.inputs.len()).find(|port| port.kind == PortKind::Required)
    {
        return Err(refused(
            node,
            format!("it requires the input `{}`, which networks do not have", port.name),
        ));
    }
    Ok(known)
}

/// Returns a descriptor's name for an attribute's type.
fn dtype(kind: &str) -> String {
    let (list, element) = kind.strip_prefix("list").map_or(("", kind), |element| ("list_", element));
    match element.to_ascii_lowercase().as_str() {
        element @ ("int" | "float") => format!("{list}{element}32"),
        element => format!("{list}{element}"),
    }
}

/// Returns the error for a node that the toolkit's operator cannot implement.
pub(crate) fn refused(node: &Node, problem: String) -> BackendError {
    let problem = format!("node `{}`: {problem}", node.name);
    Unsupported::Other { backend: NAME, op_type: node.op_type.clone(), problem }.into()
}

#[cfg(test)]
mod tests {
    use opkeep_descriptor::{AttrValue, Float};
    use opkeep_ops::{Graph, int_attr};

    use super::*;
    use crate::AttrInfo;

    fn node() -> Node {
        let mut graph = Graph::new("g");
        let x = graph.input("x", "float32", [4]);
        graph.node("cast", "Cast", &[x], [int_attr("dst_type", 1)]).unwrap();
        graph.nodes()[0].clone()
    }

    fn attr(name: &str, kind: &str, default: Option<&str>) -> AttrInfo {
        let default = default.map(str::to_owned);
        let (name, kind, is_required) = (name.to_owned(), kind.to_owned(), default.is_none());
        AttrInfo { name, kind, is_required, default, values: "all".to_owned() }
    }

    fn info(attrs: Vec<AttrInfo>) -> OpInfo {
        let port = crate::PortInfo {
            name: "x".into(),
            kind: PortKind::Required,
            dtypes: Vec::new(),
            formats: Vec::new(),
            unknown_shape_formats: Vec::new(),
            value_depend: None,
        };
        let (file, function) = (Some("caster".into()), Some("cast_it".into()));
        OpInfo { file, function, attrs, inputs: vec![port], ..OpInfo::default() }
    }

    #[test]
    fn operator_information_comes_first() {
        let attrs = vec![
            attr("rate", "float", Some("0.5")),
            attr("dst_type", "int", None),
            attr("axes", "listInt", Some("[0, -1]")),
            attr("keep", "bool", Some("True")),
            attr("mode", "str", Some("fast")),
        ];
        let found = function(&node(), &info(attrs)).unwrap();
        assert_eq!((found.module.as_str(), found.name.as_str()), ("impl.caster", "cast_it"));
        let values: Vec<AttrValue> = found.attrs.into_iter().map(|attr| attr.value).collect();
        let expected = [
            AttrValue::Float(Float::new(0.5)),
            AttrValue::Int(1),
            AttrValue::ints(&[0, -1]),
            AttrValue::Bool(true),
            AttrValue::Str("fast".into()),
        ];
        assert_eq!(values, expected);
    }

    #[test]
    fn unfitting_nodes_are_refused() {
        let refused = |info: OpInfo| function(&node(), &info).unwrap_err().to_string();
        let error = refused(info(vec![attr("more", "int", None)]));
        assert!(error.contains("node `cast`") && error.contains("attribute `more`"), "{error}");
        let error = refused(info(vec![attr("more", "int", Some("two"))]));
        assert!(error.contains("`two`") && error.contains("`more` is not of type `int`"), "{error}");
        let mut none = info(Vec::new());
        none.inputs.clear();
        assert!(refused(none).contains("input 0 is given, but it has 0 inputs"));
        let mut two = info(Vec::new());
        two.inputs.push(two.inputs[0].clone());
        assert!(refused(two).contains("requires the input `x`"));
    }
}
