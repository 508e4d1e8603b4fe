//! The body of the fuzz target.

use prost::bytes::Bytes;

use crate::load::decode_model;
use crate::model::network::Options;
use crate::model::translate::translate;
use crate::tensor::file::parse;
use crate::tensor::{self, TensorData};
use crate::wire::proto::{GraphProto, TensorProto};

/// The size above which a tensor is not copied.
const MAX_COPIED_BYTES: u64 = 1 << 20;

/// Reads `bytes` as a model and as a tensor, and copies the elements that are found.
///
/// # Panics
/// If announced elements are missing, or another invariant does not hold.
pub fn fuzz(bytes: &[u8]) {
    let file = Bytes::copy_from_slice(bytes);
    if let Ok(model) = decode_model(&file) {
        let tensors = model.graph.iter().flat_map(tensors);
        tensors.filter_map(|proto| tensor::read(proto, None).ok()).for_each(|data| copy(&data));
        // Any result is fine, if the function returns.
        let _ = translate(&model, None, &Options::default());
    }
    if let Ok(tensor) = parse(&file, None) {
        let elements = tensor::elements(&tensor.shape).unwrap_or(u64::MAX);
        let width = opkeep_ops::dtype_bytes(&tensor.dtype).unwrap_or(0) as u64;
        assert_eq!(elements.checked_mul(width), Some(tensor.bytes.len() as u64));
    }
}

fn tensors(graph: &GraphProto) -> impl Iterator<Item = &TensorProto> {
    let attributes = graph.node.iter().flat_map(|node| &node.attribute);
    graph.initializer.iter().chain(attributes.filter_map(|attribute| attribute.t.as_deref()))
}

fn copy(data: &TensorData) {
    let bytes = data.bytes();
    if bytes <= MAX_COPIED_BYTES {
        let copied = data.constant.copy_to(&mut vec![0; bytes as usize]);
        assert!(copied.is_ok(), "{copied:?}");
    }
}
