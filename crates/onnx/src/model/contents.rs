//! What a model consists of, node by node and weight by weight, for a comparison of two models.

use std::path::Path;

use prost::Message as _;
use prost::bytes::Bytes;

use crate::load::read_model;
use crate::model::order::{node_name, short};
use crate::model::outline::{Outline, outline_of};
use crate::model_error::ModelError;
use crate::wire::proto::{AttributeProto, NodeProto, TensorProto, attribute_type};
use crate::{OnnxError, dtype};

/// The maximum number of elements, names and characters in a text.
const SHOWN: usize = 32;
const SHOWN_LETTERS: usize = 80;

/// What a model consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contents {
    /// What it declares.
    pub outline: Outline,
    /// The nodes, in the order of the file.
    pub nodes: Vec<NodeContents>,
    /// The name and a text for each weight: its element type, its shape, and a digest.
    pub weights: Vec<(String, String)>,
}

/// A node of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeContents {
    /// Its name, or its operator and index.
    pub name: String,
    /// Its operator, inputs and outputs: `Conv(x, w) -> y`.
    pub call: String,
    /// The name and the value of each attribute as text. A value that is too long for the text has a digest.
    pub attributes: Vec<(String, String)>,
}

/// Reads the model in the file `path` for a comparison: two texts are equal only if what they describe is. `digest` is called
/// with the bytes of what is too long for a text. Of weights in files beside it, the names of the files count.
///
/// # Errors
/// The file cannot be read, is not a model, or is damaged.
pub fn contents(path: &Path, digest: &dyn Fn(&[u8]) -> String) -> Result<Contents, OnnxError> {
    let model = read_model(path)?;
    let graph = model.graph.as_ref().ok_or(ModelError::NoGraph)?;
    let weight = |tensor: &TensorProto| (tensor.name.clone(), tensor_text(tensor, digest));
    Ok(Contents {
        nodes: graph
            .node
            .iter()
            .enumerate()
            .map(|(index, node)| node_contents(index, node, digest))
            .collect(),
        weights: graph.initializer.iter().map(weight).collect(),
        outline: outline_of(&model, graph),
    })
}

fn node_contents(index: usize, node: &NodeProto, digest: &dyn Fn(&[u8]) -> String) -> NodeContents {
    let domain = match short(&node.domain) {
        "" => String::new(),
        domain => format!("{domain}."),
    };
    let names = |names: &[String]| list(names.iter().cloned(), || digest(names.join("\0").as_bytes()));
    let attributes = node.attribute.iter();
    NodeContents {
        name: node_name(index, node),
        call: format!("{domain}{}({}) -> {}", node.op_type, names(&node.input), names(&node.output)),
        attributes: attributes.map(|one| (one.name.clone(), attribute_text(one, digest))).collect(),
    }
}

fn attribute_text(attribute: &AttributeProto, digest: &dyn Fn(&[u8]) -> String) -> String {
    let whole = || digest(&attribute.encode_to_vec());
    let text = |bytes: &Bytes| match std::str::from_utf8(bytes) {
        Ok(text) if text.chars().count() <= SHOWN_LETTERS => format!("{text:?}"),
        _ => format!("sha256 {}", digest(bytes)),
    };
    let floats = || attribute.floats.iter().map(f32::to_string);
    match attribute.r#type {
        attribute_type::FLOAT => attribute.f.to_string(),
        attribute_type::INT => attribute.i.to_string(),
        attribute_type::STRING => text(&attribute.s),
        attribute_type::FLOATS => format!("[{}]", list(floats(), whole)),
        attribute_type::INTS => format!("[{}]", list(attribute.ints.iter().map(i64::to_string), whole)),
        attribute_type::TENSOR => match &attribute.t {
            Some(tensor) => tensor_text(tensor, digest),
            None => "no tensor".to_owned(),
        },
        // Texts, and files of early versions, which do not state the type.
        _ if !attribute.strings.is_empty() => {
            format!("[{}]", list(attribute.strings.iter().map(text), whole))
        }
        other => format!("of type {other}, sha256 {}", whole()),
    }
}

/// Returns all of a short list, or the beginning of a long one and its digest.
fn list(items: impl ExactSizeIterator<Item = String>, digest: impl Fn() -> String) -> String {
    let count = items.len();
    let shown = items.take(SHOWN).collect::<Vec<_>>().join(", ");
    let end = shown.char_indices().nth(SHOWN * SHOWN_LETTERS).map(|(end, _)| end);
    match end {
        None if count <= SHOWN => shown,
        end => format!("{}... ({count} in all, sha256 {})", &shown[..end.unwrap_or(shown.len())], digest()),
    }
}

fn tensor_text(tensor: &TensorProto, digest: &dyn Fn(&[u8]) -> String) -> String {
    let shape = list(tensor.dims.iter().map(i64::to_string), || digest(&tensor.encode_to_vec()));
    // The name is not a part of the value.
    let unnamed = TensorProto { name: String::new(), ..tensor.clone() };
    format!("{} [{shape}], sha256 {}", dtype::shown(tensor.data_type), digest(&unnamed.encode_to_vec()))
}
