//! A node of a model, as its mapping sees it.

use std::path::Path;

use opkeep_descriptor::Attr;
use opkeep_ops::{Constant, Graph, Origin, TensorId};
use opkeep_text::counted;

use crate::fold::{self, Folded};
use crate::number::{self, Numbers};
use crate::value::{MAX_RANK, Value, count, described};
use crate::wire::proto::{AttributeProto, NodeProto, attribute_type};

/// The values of a node's outputs, as many as its operator has here, or the reason why it cannot be mapped.
pub(crate) type Mapped = Result<Vec<Value>, String>;

/// A node of a model, with the graph that it becomes a part of.
pub(crate) struct Node<'t> {
    pub(crate) proto: &'t NodeProto,
    /// Its name; see [`crate::model::order::node_name`].
    pub(crate) name: String,
    /// The version of its operator set.
    pub(crate) opset: i64,
    /// Its inputs, `None` for an omitted optional one, but not at the end.
    pub(crate) inputs: Vec<Option<Value>>,
    pub(crate) graph: &'t mut Graph,
    /// The path of the model's file, for tensors in files beside it.
    pub(crate) base: Option<&'t Path>,
    /// For each output, whether it is read.
    pub(crate) used: Vec<bool>,
    /// The number of bytes that may still be computed during translation.
    pub(crate) budget: &'t mut usize,
}

/// Inputs.
impl Node<'_> {
    /// A required input.
    pub(crate) fn input(&self, at: usize) -> Result<Value, String> {
        self.optional(at).ok_or_else(|| format!("input {at} is not given"))
    }

    pub(crate) fn optional(&self, at: usize) -> Option<Value> {
        self.inputs.get(at).cloned().flatten()
    }

    /// All inputs of an operator with any number of them.
    pub(crate) fn all(&self) -> Result<Vec<Value>, String> {
        (0..self.inputs.len()).map(|at| self.input(at)).collect()
    }

    /// The whole numbers in the optional input `at`, which must be known.
    pub(crate) fn known(&self, at: usize, role: &str) -> Result<Option<Vec<i64>>, String> {
        let Some(value) = self.optional(at) else { return Ok(None) };
        let found = match self.numbers(value.id)? {
            Some(Numbers::Ints(ints)) => return Ok(Some(ints)),
            _ if self.is_constant(value.id) => format!("{} {:?}", self.dtype(value.id), value.shape),
            _ => "what is computed when the network runs".to_owned(),
        };
        let name = self.proto.input.get(at).map_or("", String::as_str);
        Err(format!(
            "its {role} (`{name}`): expected a few whole numbers that are known before, found {found}"
        ))
    }

    /// As [`known`](Self::known), for a required input.
    pub(crate) fn required(&self, at: usize, role: &str) -> Result<Vec<i64>, String> {
        self.known(at, role)?.ok_or_else(|| format!("input {at}, its {role}, is not given"))
    }

    /// The elements of a tensor, if they are known and few.
    pub(crate) fn numbers(&self, id: TensorId) -> Result<Option<Numbers>, String> {
        let Some(bytes) = fold::elements(self.graph, id)? else { return Ok(None) };
        Ok(Numbers::decode(self.dtype(id), &bytes))
    }

    pub(crate) fn dtype(&self, id: TensorId) -> &str {
        &self.graph.tensor(id).dtype
    }

    /// Whether the elements of a tensor are floats.
    pub(crate) fn is_float(&self, id: TensorId) -> bool {
        matches!(self.dtype(id), "float16" | "bfloat16" | "float32" | "float64")
    }

    /// Whether the output `at` is read.
    pub(crate) fn is_used(&self, at: usize) -> bool {
        self.used.get(at).copied().unwrap_or(false)
    }
}

/// Attributes: if unset, a default or `None`.
impl Node<'_> {
    pub(crate) fn int(&self, name: &str, default: i64) -> Result<i64, String> {
        Ok(self.attr(name, attribute_type::INT, "a whole number")?.map_or(default, |attr| attr.i))
    }

    pub(crate) fn flag(&self, name: &str, default: bool) -> Result<bool, String> {
        match self.int(name, i64::from(default))? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(format!("attribute `{name}` is {other}, expected 0 or 1")),
        }
    }

    pub(crate) fn ints(&self, name: &str) -> Result<Option<Vec<i64>>, String> {
        Ok(self.attr(name, attribute_type::INTS, "whole numbers")?.map(|attr| attr.ints.clone()))
    }

    pub(crate) fn float(&self, name: &str, default: f32) -> Result<f32, String> {
        Ok(self.attr(name, attribute_type::FLOAT, "a number")?.map_or(default, |attr| attr.f))
    }

    pub(crate) fn floats(&self, name: &str) -> Result<Option<Vec<f32>>, String> {
        Ok(self.attr(name, attribute_type::FLOATS, "numbers")?.map(|attr| attr.floats.clone()))
    }

    pub(crate) fn text(&self, name: &str, default: &str) -> Result<String, String> {
        let attr = self.attr(name, attribute_type::STRING, "a text")?;
        Ok(attr.map_or(default.to_owned(), |attr| String::from_utf8_lossy(&attr.s).into_owned()))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.proto.attribute.iter().any(|attr| attr.name == name)
    }

    pub(crate) fn attr(
        &self,
        name: &str,
        expected: i32,
        shown: &str,
    ) -> Result<Option<&AttributeProto>, String> {
        let found = self.proto.attribute.iter().find(|attr| attr.name == name);
        // Early files do not state which field holds the value.
        match found.filter(|attr| ![0, expected].contains(&attr.r#type)) {
            Some(other) => Err(format!("attribute `{name}` is not {shown} (type {})", other.r#type)),
            None => Ok(found),
        }
    }
}

/// The result of the mapping.
impl Node<'_> {
    /// Adds the main operator of the node, which gets the node's name.
    pub(crate) fn emit(
        &mut self,
        op_type: &str,
        inputs: &[TensorId],
        attrs: impl Into<Vec<Attr>>,
    ) -> Result<TensorId, String> {
        let inputs: Vec<Option<TensorId>> = inputs.iter().copied().map(Some).collect();
        self.emit_all(op_type, &inputs, attrs).map(|outputs| outputs[0])
    }

    /// Adds a further operator of the node, whose name ends with `step`.
    pub(crate) fn add_step(
        &mut self,
        step: &str,
        op_type: &str,
        inputs: &[TensorId],
        attrs: impl Into<Vec<Attr>>,
    ) -> Result<TensorId, String> {
        let inputs: Vec<Option<TensorId>> = inputs.iter().copied().map(Some).collect();
        let name = format!("{}/{step}", self.name);
        self.add(&name, op_type, &inputs, attrs.into()).map(|outputs| outputs[0])
    }

    /// As [`emit`](Self::emit), for an operator with optional inputs or several outputs.
    pub(crate) fn emit_all(
        &mut self,
        op_type: &str,
        inputs: &[Option<TensorId>],
        attrs: impl Into<Vec<Attr>>,
    ) -> Result<Vec<TensorId>, String> {
        let name = self.name.clone();
        self.add(&name, op_type, inputs, attrs.into())
    }

    fn add(
        &mut self,
        name: &str,
        op_type: &str,
        inputs: &[Option<TensorId>],
        attrs: Vec<Attr>,
    ) -> Result<Vec<TensorId>, String> {
        match fold::fold(self.graph, op_type, inputs, &attrs, self.budget)? {
            Some(folded) => {
                let known =
                    |Folded { dtype, shape, value }: Folded| self.graph.constant(&dtype, shape, value);
                Ok(folded.into_iter().map(known).collect())
            }
            None => self.graph.add(name, op_type, inputs, attrs).map_err(|error| error.to_string()),
        }
    }

    /// The value of a tensor with an ONNX shape of the same number of elements.
    pub(crate) fn value(&mut self, id: TensorId, shape: impl Into<Vec<i64>>) -> Result<Value, String> {
        let shape = shape.into();
        if shape.len() > MAX_RANK {
            return Err(format!(
                "it has an output of {}, expected at most {MAX_RANK}",
                counted(shape.len(), "dimension")
            ));
        }
        let target = described(&shape);
        if self.graph.tensor(id).shape == target {
            return Ok(Value { id, shape });
        }
        // A view of the source, so that views do not chain.
        let source = self.graph.source(id);
        let id = self.graph.view(source, target).map_err(|error| error.to_string())?;
        Ok(Value { id, shape })
    }

    /// The tensor of `value` in another shape.
    pub(crate) fn view(&mut self, value: &Value, shape: &[i64]) -> Result<TensorId, String> {
        self.value(value.id, shape).map(|value| value.id)
    }

    /// Whole numbers that an operator's compiler needs.
    pub(crate) fn parameter(&mut self, dtype: &str, values: &[i64]) -> TensorId {
        self.graph.parameter(dtype, values)
    }

    /// A uniform constant.
    pub(crate) fn fill(&mut self, dtype: &str, shape: &[i64], number: f64) -> Result<Value, String> {
        let element = number::of_float(dtype, number)
            .ok_or_else(|| format!("a constant of type {dtype} is needed, which nothing is known about"))?;
        self.constant(dtype, shape, Constant::Fill(element))
    }

    /// A constant.
    pub(crate) fn constant(&mut self, dtype: &str, shape: &[i64], value: Constant) -> Result<Value, String> {
        count(shape).ok_or_else(|| format!("{shape:?} is no shape, or absurdly large"))?;
        let id = self.graph.constant(dtype, described(shape), value);
        Ok(Value { id, shape: shape.to_vec() })
    }

    /// A constant that is computed during translation.
    pub(crate) fn computed(&mut self, dtype: &str, shape: &[i64], bytes: Vec<u8>) -> Result<Value, String> {
        let left = self.budget.checked_sub(bytes.len());
        *self.budget =
            left.ok_or("more would have to be computed beforehand than any known network needs")?;
        let value = if count(shape) == Some(1) { Constant::Fill(bytes) } else { Constant::of_bytes(bytes) };
        self.constant(dtype, shape, value)
    }

    /// A constant of whole numbers in any element type.
    pub(crate) fn int_constant(
        &mut self,
        dtype: &str,
        shape: &[i64],
        ints: Vec<i64>,
    ) -> Result<Value, String> {
        let bytes = Numbers::Ints(ints).encode(dtype);
        self.computed(dtype, shape, bytes.ok_or_else(|| format!("constants of {dtype} are not made here"))?)
    }

    /// Whether a tensor's elements are known.
    pub(crate) fn is_constant(&self, id: TensorId) -> bool {
        matches!(self.graph.origin(self.graph.source(id)), Origin::Constant(_))
    }
}
