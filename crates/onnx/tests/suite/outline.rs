//! What a model declares.
#![expect(clippy::disallowed_methods, reason = "tests make files")]

use opkeep_onnx::{OnnxError, Outline, outline};

use crate::common::wire::Message;
use crate::common::{model, small_model, value};

fn outline_of(model: Message) -> Result<Outline, OnnxError> {
    let dir = tempfile::TempDir::new().unwrap();
    let path = dir.path().join("model.onnx");
    std::fs::write(&path, model.0).unwrap();
    outline(&path)
}

#[test]
fn a_model_is_described_without_its_weights() {
    let found = outline_of(small_model()).unwrap();
    assert_eq!((found.name.as_str(), found.nodes, found.initializers), ("small", 5, 2));
    assert_eq!(found.opsets, [(String::new(), 17)].into());
    assert_eq!(found.inputs.len(), 1, "w and six have values");
    let x = &found.inputs[0];
    assert_eq!((x.name.as_str(), x.dtype.as_deref()), ("x", Some("float32")));
    assert_eq!(x.shape.as_ref().unwrap(), &["2", "3"]);
    assert_eq!(found.outputs[0].shape.as_ref().unwrap(), &["6"]);
    let counts: Vec<(&str, usize)> =
        found.operators.iter().map(|operator| (operator.op_type.as_str(), operator.count)).collect();
    assert_eq!(counts, [("Add", 2), ("Constant", 1), ("Reshape", 1), ("Softmax", 1)]);
    assert!(found.operators.iter().all(|operator| operator.refusal.is_none()) && found.open_dims.is_empty());
}

#[test]
fn open_dimensions_and_unknown_operators_are_named() {
    let open = |name: &str, param: Option<&str>| {
        let dim = param.map_or_else(Message::default, |param| Message::default().bytes(2, param));
        let shape = Message::default().message(1, dim).message(1, Message::default().varint(1, 4));
        let tensor = Message::default().varint(1, 1).message(2, shape);
        Message::default().bytes(1, name).message(2, Message::default().message(1, tensor))
    };
    let node = |op: &str| Message::default().bytes(1, "a").bytes(2, op).bytes(4, op);
    let graph = Message::default()
        .message(1, node("Relu"))
        .message(1, node("Divine"))
        .message(1, node("Gelu").bytes(7, "elsewhere"))
        .message(11, open("a", Some("batch")))
        .message(11, open("b", Some("batch")))
        .message(11, open("c", None))
        .message(12, value("Relu", &[2]));
    let found = outline_of(model(graph)).unwrap();
    let dims: Vec<String> = found.open_dims.iter().map(ToString::to_string).collect();
    assert_eq!(dims, ["`batch` (axis 0 of `a`, axis 0 of `b`)", "`c:0` (axis 0 of `c`)"]);
    assert_eq!(found.inputs[2].shape.as_ref().unwrap(), &["?", "4"]);
    let refused: Vec<&str> =
        found.operators.iter().filter(|one| one.refusal.is_some()).map(|one| one.op_type.as_str()).collect();
    assert_eq!(refused, ["Divine", "Gelu"]);
}

#[test]
fn what_is_no_model_is_an_error() {
    assert!(outline_of(Message::default()).is_err());
    assert!(outline(std::path::Path::new("missing.onnx")).unwrap_err().to_string().contains("missing.onnx"));
}
