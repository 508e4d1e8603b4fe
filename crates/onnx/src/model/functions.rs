//! Operators that a model defines itself.

use std::collections::HashSet;

use prost::Message;

use crate::model::order::short;
use crate::wire::proto::ModelProto;

/// Why a node that calls a function is not translated.
pub(crate) const FUNCTION: &str =
    "it is a function of the model; inline it with `onnx.inliner.inline_local_functions`";

/// A function, of which only the name of its operator is read.
#[derive(Clone, PartialEq, Message)]
struct FunctionProto {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "10")]
    domain: String,
}

/// The domains and names of a model's functions. A damaged function is left out: nodes that call it are refused in any
/// case, since no other operator has its name.
pub(crate) fn functions(model: &ModelProto) -> HashSet<(String, String)> {
    let functions = model.functions.iter().filter_map(|bytes| FunctionProto::decode(bytes.clone()).ok());
    functions.map(|function| (short(&function.domain).to_owned(), function.name)).collect()
}
