//! Shared by the tests; not every test uses all of it.
#![allow(dead_code, reason = "each test file uses another part")]

pub(crate) mod wire;

use wire::Message;

/// Numbers of element types.
pub(crate) const FLOAT: u64 = 1;
pub(crate) const INT64: u64 = 7;

/// A tensor without elements.
pub(crate) fn tensor(name: &str, data_type: u64, dims: &[u64]) -> Message {
    let dims = dims.iter().fold(Message::default(), |message, dim| message.varint(1, *dim));
    dims.varint(2, data_type).bytes(8, name)
}

/// A model with this graph.
pub(crate) fn model(graph: Message) -> Message {
    Message::default().varint(1, 8).message(7, graph).message(8, Message::default().varint(2, 17))
}

/// A graph's input or output of float32.
pub(crate) fn value(name: &str, dims: &[u64]) -> Message {
    let dims = dims.iter().map(|dim| Message::default().varint(1, *dim));
    let shape = dims.fold(Message::default(), |shape, dim| shape.message(1, dim));
    let tensor = Message::default().varint(1, FLOAT).message(2, shape);
    Message::default().bytes(1, name).message(2, Message::default().message(1, tensor))
}

/// A model with several kinds of content: `y = Softmax(Reshape(x + w, [6]), axis=0) + constant`.
pub(crate) fn small_model() -> Message {
    let w: Vec<u8> = [1.5_f32, -2.0, 0.25, 8.0, -0.5, 3.0].into_iter().flat_map(f32::to_le_bytes).collect();
    let node = |op: &str, inputs: &[&str], output: &str| {
        let inputs = inputs.iter().fold(Message::default(), |node, input| node.bytes(1, input));
        inputs.bytes(2, output).bytes(3, format!("node_{output}")).bytes(4, op)
    };
    let axis = Message::default().bytes(1, "axis").varint(3, 0).varint(20, 2);
    let constant = tensor("", FLOAT, &[6]).packed_floats(4, [0.5, 1.0, 1.5, 2.0, 2.5, 3.0]);
    let constant = Message::default().bytes(1, "value").message(5, constant).varint(20, 4);
    let graph = Message::default()
        .message(1, node("Add", &["x", "w"], "sum"))
        .message(1, node("Reshape", &["sum", "six"], "flat"))
        .message(1, node("Softmax", &["flat"], "soft").message(5, axis))
        .message(1, node("Constant", &[], "c").message(5, constant))
        .message(1, node("Add", &["soft", "c"], "y"))
        .bytes(2, "small")
        .message(5, tensor("w", FLOAT, &[2, 3]).bytes(9, w))
        .message(5, tensor("six", INT64, &[1]).packed(7, [6]))
        .message(11, value("x", &[2, 3]))
        .message(12, value("y", &[6]));
    model(graph)
}
