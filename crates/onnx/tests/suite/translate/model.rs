//! Models, as bytes on the wire.

use opkeep_onnx::{Network, OnnxError, Options, Problem, from_bytes};

pub(crate) const FLOAT: u64 = 1;
pub(crate) const INT32: u64 = 6;
pub(crate) const INT64: u64 = 7;
pub(crate) const STRING: u64 = 8;
pub(crate) const BOOL: u64 = 9;
pub(crate) const DOUBLE: u64 = 11;

/// A model under construction.
#[derive(Clone, Default)]
pub(crate) struct Model {
    opsets: Vec<u8>,
    graph: Vec<u8>,
    functions: Vec<u8>,
}

impl Model {
    /// A model with that version of the default operators.
    pub(crate) fn new(opset: u64) -> Self {
        Self::default().import("", opset)
    }

    pub(crate) fn import(mut self, domain: &str, version: u64) -> Self {
        message(&mut self.opsets, 8, &[text(1, domain), number(2, version)].concat());
        self
    }

    pub(crate) fn function(mut self, domain: &str, name: &str) -> Self {
        message(&mut self.functions, 25, &[text(1, name), text(10, domain)].concat());
        self
    }

    /// An input of floats.
    pub(crate) fn input(self, name: &str, shape: &[i64]) -> Self {
        self.typed(name, FLOAT, shape)
    }

    pub(crate) fn typed(self, name: &str, dtype: u64, shape: &[i64]) -> Self {
        let dims: Vec<String> = shape.iter().map(i64::to_string).collect();
        self.symbolic(name, dtype, &dims.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// An input with dimensions that may have names instead of sizes.
    pub(crate) fn symbolic(mut self, name: &str, dtype: u64, dims: &[&str]) -> Self {
        message(&mut self.graph, 11, &info(name, dtype, Some(dims)));
        self
    }

    /// Any of a graph's fields.
    pub(crate) fn field(mut self, tag: u64, content: &[u8]) -> Self {
        message(&mut self.graph, tag, content);
        self
    }

    /// An initializer.
    pub(crate) fn tensor(mut self, name: &str, dtype: u64, shape: &[i64], raw: &[u8]) -> Self {
        message(&mut self.graph, 5, &tensor(name, dtype, shape, raw));
        self
    }

    /// An initializer of floats: 0, 1, 2 and so on.
    pub(crate) fn weight(self, name: &str, shape: &[i64]) -> Self {
        let raw: Vec<u8> =
            (0..shape.iter().product()).flat_map(|at: i64| (at as f32).to_le_bytes()).collect();
        self.tensor(name, FLOAT, shape, &raw)
    }

    pub(crate) fn floats(self, name: &str, shape: &[i64], values: &[f32]) -> Self {
        let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.tensor(name, FLOAT, shape, &raw)
    }

    /// An initializer of whole numbers in one dimension.
    pub(crate) fn ints(self, name: &str, values: &[i64]) -> Self {
        self.int_tensor(name, &[values.len() as i64], values)
    }

    pub(crate) fn int_tensor(self, name: &str, shape: &[i64], values: &[i64]) -> Self {
        let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.tensor(name, INT64, shape, &raw)
    }

    pub(crate) fn node(self, op_type: &str, inputs: &[&str], outputs: &[&str], attrs: &[Vec<u8>]) -> Self {
        self.node_of("", op_type, "", inputs, outputs, attrs)
    }

    pub(crate) fn named(self, name: &str, op_type: &str, inputs: &[&str], outputs: &[&str]) -> Self {
        self.node_of("", op_type, name, inputs, outputs, &[])
    }

    pub(crate) fn node_of(
        mut self,
        domain: &str,
        op_type: &str,
        name: &str,
        inputs: &[&str],
        outputs: &[&str],
        attrs: &[Vec<u8>],
    ) -> Self {
        let mut node = Vec::new();
        inputs.iter().for_each(|input| node.extend(text(1, input)));
        outputs.iter().for_each(|output| node.extend(text(2, output)));
        node.extend([text(3, name), text(4, op_type), text(7, domain)].concat());
        attrs.iter().for_each(|attr| message(&mut node, 5, attr));
        message(&mut self.graph, 1, &node);
        self
    }

    /// Outputs without a declaration.
    pub(crate) fn outputs(mut self, names: &[&str]) -> Self {
        names.iter().for_each(|name| message(&mut self.graph, 12, &text(1, name)));
        self
    }

    pub(crate) fn declared(mut self, name: &str, dtype: u64, dims: &[&str]) -> Self {
        message(&mut self.graph, 12, &info(name, dtype, Some(dims)));
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = number(1, 8);
        bytes.extend(&self.opsets);
        message(&mut bytes, 7, &self.graph);
        bytes.extend(&self.functions);
        bytes
    }

    pub(crate) fn read(&self) -> Result<Network, OnnxError> {
        from_bytes(self.bytes().into(), None, &Options::default())
    }

    pub(crate) fn network(&self) -> Network {
        self.read().unwrap_or_else(|error| panic!("{error}"))
    }

    /// The operators of the model's nodes, one on each line.
    pub(crate) fn becomes(&self) -> Vec<String> {
        super::render::nodes(&self.network())
    }

    /// The reasons why the model's nodes cannot be mapped.
    pub(crate) fn problems(&self) -> Vec<Problem> {
        match self.read() {
            Err(OnnxError::Unmappable(problems)) => problems,
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("the model was translated"),
        }
    }

    /// The reason why the model's only bad node cannot be mapped.
    pub(crate) fn why(&self) -> String {
        match self.problems().as_slice() {
            [problem] => problem.why.clone(),
            problems => panic!("{problems:?}"),
        }
    }
}

/// A node with one input `x` of that shape, and one output.
pub(crate) fn unary(opset: u64, op_type: &str, shape: &[i64], attrs: &[Vec<u8>]) -> Model {
    Model::new(opset).input("x", shape).node(op_type, &["x"], &["y"], attrs).outputs(&["y"])
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 127 {
        bytes.push(value as u8 | 128);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

pub(crate) fn number(tag: u64, value: u64) -> Vec<u8> {
    [varint(tag << 3), varint(value)].concat()
}

fn message(into: &mut Vec<u8>, tag: u64, content: &[u8]) {
    into.extend([varint(tag << 3 | 2), varint(content.len() as u64)].concat());
    into.extend(content);
}

pub(crate) fn text(tag: u64, text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    message(&mut bytes, tag, text.as_bytes());
    bytes
}

/// A declaration. A number is a dimension's size, `?` an unnamed dimension, anything else a name.
fn info(name: &str, dtype: u64, dims: Option<&[&str]>) -> Vec<u8> {
    let mut shape = Vec::new();
    for dim in dims.unwrap_or_default() {
        let dim = match dim.parse::<i64>() {
            Ok(size) => number(1, size as u64),
            Err(_) if *dim == "?" => Vec::new(),
            Err(_) => text(2, dim),
        };
        message(&mut shape, 1, &dim);
    }
    let mut tensor = number(1, dtype);
    if dims.is_some() {
        message(&mut tensor, 2, &shape);
    }
    let (mut kind, mut info) = (Vec::new(), text(1, name));
    message(&mut kind, 1, &tensor);
    message(&mut info, 2, &kind);
    info
}

pub(crate) fn tensor(name: &str, dtype: u64, shape: &[i64], raw: &[u8]) -> Vec<u8> {
    let mut tensor: Vec<u8> = shape.iter().flat_map(|dim| number(1, *dim as u64)).collect();
    tensor.extend([number(2, dtype), text(8, name)].concat());
    message(&mut tensor, 9, raw);
    tensor
}

pub(crate) fn int(name: &str, value: i64) -> Vec<u8> {
    [text(1, name), number(3, value as u64), number(20, 2)].concat()
}

pub(crate) fn ints(name: &str, values: &[i64]) -> Vec<u8> {
    let values = values.iter().flat_map(|value| number(8, *value as u64)).collect();
    [text(1, name), values, number(20, 7)].concat()
}

pub(crate) fn float(name: &str, value: f32) -> Vec<u8> {
    [text(1, name), varint(2 << 3 | 5), value.to_le_bytes().to_vec(), number(20, 1)].concat()
}

pub(crate) fn floats(name: &str, values: &[f32]) -> Vec<u8> {
    let values = values.iter().flat_map(|value| [varint(7 << 3 | 5), value.to_le_bytes().to_vec()].concat());
    [text(1, name), values.collect(), number(20, 6)].concat()
}

pub(crate) fn word(name: &str, value: &str) -> Vec<u8> {
    [text(1, name), text(4, value), number(20, 3)].concat()
}

pub(crate) fn value(name: &str, dtype: u64, shape: &[i64], raw: &[u8]) -> Vec<u8> {
    let mut attr = text(1, name);
    message(&mut attr, 5, &tensor("", dtype, shape, raw));
    [attr, number(20, 4)].concat()
}
