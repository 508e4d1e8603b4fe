//! What a model consists of, for a comparison.
#![expect(clippy::disallowed_methods, reason = "tests make files")]

use opkeep_onnx::{Contents, contents};

use crate::common::wire::Message;
use crate::common::{model, small_model, value};

fn contents_of(model: Message) -> Contents {
    let dir = tempfile::TempDir::new().unwrap();
    let path = dir.path().join("model.onnx");
    std::fs::write(&path, model.0).unwrap();
    contents(&path, &|bytes| format!("<{}>", bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>())).unwrap()
}

#[test]
fn each_node_and_weight_has_a_text() {
    let found = contents_of(small_model());
    assert_eq!(found.nodes.len(), found.outline.nodes);
    assert_eq!(found.weights.len(), 2);
    assert!(found.weights.iter().all(|(_, text)| text.contains("], sha256 <")), "{:?}", found.weights);
    let softmax = found.nodes.iter().find(|node| node.call.starts_with("Softmax(")).unwrap();
    assert!(softmax.call.contains(") -> "), "{}", softmax.call);
}

/// A long value is cut, and its digest distinguishes it from another with the same beginning.
#[test]
fn texts_are_bounded_and_differ_with_what_they_describe() {
    let with = |ints: &[u64], text: &str| {
        let attribute = ints.iter().fold(Message::default().bytes(1, "a"), |one, int| one.varint(8, *int));
        let attribute = attribute.varint(20, 7);
        let named = Message::default().bytes(1, "s").bytes(4, text).varint(20, 3);
        let node = Message::default().bytes(1, "x").bytes(2, "y").bytes(4, "Relu");
        let node = node.message(5, attribute).message(5, named);
        let graph =
            Message::default().message(1, node).message(11, value("x", &[2])).message(12, value("y", &[2]));
        contents_of(model(graph)).nodes[0].attributes.clone()
    };
    let many: Vec<u64> = (0..10_000).collect();
    let mut others = many.clone();
    others[9_999] = 0;
    let (one, other) = (with(&many, &"x".repeat(10_000)), with(&others, &format!("{}y", "x".repeat(9_999))));
    for (one, other) in one.iter().zip(&other) {
        assert!(one.1.len() < 3000 && one.0 == other.0, "{one:?}");
        assert_ne!(one.1, other.1);
    }
    let short = with(&[1, 2], "NOTSET");
    assert_eq!(short, [("a".to_owned(), "[1, 2]".to_owned()), ("s".to_owned(), "\"NOTSET\"".to_owned())]);
}
