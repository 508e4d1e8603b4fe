//! The operator graph: front ends create it, `prepare` rewrites it, engines run it.

mod prune;

use opkeep_descriptor::{
    Arg, Attr, AttrValue, ConstValue, Data, Extra, Input, Job, OmittedArg, Op, OpFlags, Source, Tensor,
};

use crate::constant::Constant;
use crate::formats::{is_blocked, logical};
use crate::shape::elements;
use crate::{Call, OpSpec, OpsError, PortKind, TensorType, find, func_name};

/// A tensor of a [`Graph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId(usize);

impl TensorId {
    /// Its number: tensors are numbered from 0 in the order in which they were added.
    pub const fn index(self) -> usize {
        self.0
    }
}

/// A network of operators with a shape for every tensor.
///
/// A scalar is described as one element, shape `[1]`, as in frameworks; views restore its rank.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    name: String,
    tensors: Vec<Tensor>,
    origins: Vec<Origin>,
    inputs: Vec<(String, TensorId)>,
    outputs: Vec<(String, TensorId)>,
    nodes: Vec<Node>,
}

/// The origin of a tensor's elements.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin {
    /// Given by the caller: an index into [`Graph::inputs`].
    Input(usize),
    /// Known when the graph is created.
    Constant(Constant),
    /// Computed by a node: an index into [`Graph::nodes`], and into its outputs.
    Node {
        /// The node.
        node: usize,
        /// Index in [`Node::outputs`].
        output: usize,
    },
    /// The same elements as another tensor's, in another shape.
    View(TensorId),
}

/// A node of a [`Graph`].
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The node's name.
    pub name: String,
    /// Its IR type.
    pub op_type: String,
    /// The tensors that it reads, one list for each position of the operator; empty if an optional input is omitted.
    pub inputs: Vec<Vec<TensorId>>,
    /// The tensors that it computes, with variadic outputs expanded.
    pub outputs: Vec<TensorId>,
    /// All of its attributes, in the table's order.
    pub attrs: Vec<Attr>,
    /// The function that implements it, after a backend has chosen one. Until then, jobs name the one that follows from
    /// the vendor's rule.
    pub function: Option<Function>,
}

/// The function that implements a node on a target.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Its module, such as `impl.square`.
    pub module: String,
    /// Its name.
    pub name: String,
    /// The flags of its compilation.
    pub flags: OpFlags,
    /// Its attributes, in its order.
    pub attrs: Vec<Attr>,
    /// The number of its inputs; those after the operator's are optional and omitted.
    pub inputs: usize,
}

impl Graph {
    /// An empty graph.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// The graph's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The nodes, each after those whose outputs it reads.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The graph's inputs.
    pub fn inputs(&self) -> &[(String, TensorId)] {
        &self.inputs
    }

    /// The graph's outputs.
    pub fn outputs(&self) -> &[(String, TensorId)] {
        &self.outputs
    }

    /// The number of tensors.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Whether there is no tensor yet.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// Every tensor, each after those that it is computed from.
    pub fn tensors(&self) -> impl Iterator<Item = TensorId> + use<> {
        (0..self.tensors.len()).map(TensorId)
    }

    /// A tensor's description.
    ///
    /// For an id of another graph, this graph's tensor with that number, or its last.
    pub fn tensor(&self, id: TensorId) -> &Tensor {
        static NONE: std::sync::LazyLock<Tensor> = std::sync::LazyLock::new(|| Tensor::new("", []));
        self.tensors.get(id.0).or(self.tensors.last()).unwrap_or(&NONE)
    }

    /// The origin of a tensor's elements; for an id of another graph, a view of itself.
    pub fn origin(&self, id: TensorId) -> Origin {
        self.origins.get(id.0).cloned().unwrap_or(Origin::View(id))
    }

    /// The tensor whose elements `id` shows: for a view its source, for others itself.
    pub fn source(&self, mut id: TensorId) -> TensorId {
        // A view shows an older tensor, so this ends.
        while let Some(Origin::View(of)) = self.origins.get(id.0) {
            id = *of;
        }
        id
    }

    /// Adds an input. Its format is the framework's for its rank: NCHW for four dimensions, ND for others.
    pub fn input(&mut self, name: &str, dtype: &str, shape: impl Into<Vec<i64>>) -> TensorId {
        let id = self.push(described(dtype, shape.into()), Origin::Input(self.inputs.len()));
        self.add_input(name, id);
        id
    }

    /// Adds a tensor whose elements are known, but not needed by a compiler: weights.
    pub fn constant(&mut self, dtype: &str, shape: impl Into<Vec<i64>>, value: Constant) -> TensorId {
        self.push(described(dtype, shape.into()), Origin::Constant(value))
    }

    /// Adds whole numbers that the compiler of a node needs: axes, shapes, pads. They are part of its job.
    pub fn parameter(&mut self, dtype: &str, values: &[i64]) -> TensorId {
        let bytes = values.iter().flat_map(|value| match dtype {
            "int64" => value.to_le_bytes().to_vec(),
            _ => (*value as i32).to_le_bytes().to_vec(),
        });
        // A single number is described as a scalar.
        let mut tensor = described(dtype, vec![values.len() as i64]);
        tensor.const_value = Some(ConstValue::ints(dtype, values));
        self.push(tensor, Origin::Constant(Constant::of_bytes(bytes.collect::<Vec<u8>>())))
    }

    /// Shows `source` in another shape with the same number of elements.
    ///
    /// # Errors
    /// The numbers of elements differ.
    pub fn view(&mut self, source: TensorId, shape: impl Into<Vec<i64>>) -> Result<TensorId, OpsError> {
        let (count, shape) = (self.tensors.len(), shape.into());
        let from = self.tensors.get(source.0).ok_or(OpsError::NoSuchTensor { id: source.0, count })?;
        if is_blocked(&from.format) {
            let tensor = "a tensor that is seen in another shape".to_owned();
            return Err(OpsError::NotPlain { tensor, format: from.format.clone() });
        }
        let tensor = described(&from.dtype, shape);
        if elements(&from.shape).is_none() || elements(&from.shape) != elements(&tensor.shape) {
            return Err(OpsError::View { from: from.shape.clone(), to: tensor.shape });
        }
        Ok(if from.shape == tensor.shape { source } else { self.push(tensor, Origin::View(source)) })
    }

    /// Declares an output with a name.
    ///
    /// # Errors
    /// An id of another graph.
    pub fn output(&mut self, name: &str, id: TensorId) -> Result<(), OpsError> {
        if id.0 >= self.tensors.len() {
            return Err(OpsError::NoSuchTensor { id: id.0, count: self.tensors.len() });
        }
        self.outputs.push((name.to_owned(), id));
        Ok(())
    }

    /// Adds a node with all of its inputs, and returns its first output.
    ///
    /// # Errors
    /// An operator that is not in the table, or inputs or attributes that do not fit it.
    pub fn node(
        &mut self,
        name: &str,
        op_type: &str,
        inputs: &[TensorId],
        attrs: impl Into<Vec<Attr>>,
    ) -> Result<TensorId, OpsError> {
        let inputs: Vec<Option<TensorId>> = inputs.iter().copied().map(Some).collect();
        let outputs = self.add(name, op_type, &inputs, attrs)?;
        Ok(outputs[0])
    }

    /// Adds a node. Inputs are in the operator's order, `None` for an omitted optional one; a variadic input, which is
    /// always the last, takes all that follow. Unset attributes get their defaults. Returns the outputs, at least one.
    ///
    /// # Errors
    /// An operator that is not in the table, or inputs or attributes that do not fit it.
    pub fn add(
        &mut self,
        name: &str,
        op_type: &str,
        inputs: &[Option<TensorId>],
        attrs: impl Into<Vec<Attr>>,
    ) -> Result<Vec<TensorId>, OpsError> {
        let spec = find(op_type).ok_or_else(|| OpsError::UnknownOp { op_type: op_type.to_owned() })?;
        let count = self.tensors.len();
        if let Some(id) = inputs.iter().flatten().find(|id| id.0 >= count) {
            return Err(OpsError::NoSuchTensor { id: id.0, count });
        }
        let inputs = positions(spec, inputs)?;
        let meant: Vec<Vec<_>> =
            inputs.iter().map(|ids| ids.iter().map(|id| logical(&self.tensors[id.0])).collect()).collect();
        let tensors = meant.iter().map(|tensors| tensors.iter().map(AsRef::as_ref).collect()).collect();
        let attrs = attrs.into();
        let call = Call::new(spec, tensors, &attrs)?;
        let made = call.infer()?;
        let attrs = call.every_attr()?;
        let node = self.nodes.len();
        let outputs: Vec<TensorId> = made
            .into_iter()
            .flatten()
            .enumerate()
            .map(|(output, TensorType { dtype, shape })| {
                self.push(described(&dtype, shape), Origin::Node { node, output })
            })
            .collect();
        self.nodes.push(Node {
            name: name.to_owned(),
            op_type: op_type.to_owned(),
            inputs,
            attrs,
            outputs: outputs.clone(),
            function: None,
        });
        Ok(outputs)
    }

    /// One job for each node, with the node's name.
    pub fn jobs(&self) -> Vec<(String, Job)> {
        self.nodes.iter().map(|node| (node.name.clone(), self.job_of(node))).collect()
    }

    /// The job of node `at`, if there is one.
    pub fn job(&self, at: usize) -> Option<Job> {
        self.nodes.get(at).map(|node| self.job_of(node))
    }

    /// The job of node `at` if `function` implements it.
    pub fn job_as(&self, at: usize, function: Function) -> Option<Job> {
        let node = self.nodes.get(at)?;
        Some(self.job_of(&Node { function: Some(function), ..node.clone() }))
    }

    pub(crate) fn push(&mut self, tensor: Tensor, origin: Origin) -> TensorId {
        self.tensors.push(tensor);
        self.origins.push(origin);
        TensorId(self.tensors.len() - 1)
    }

    pub(crate) fn add_input(&mut self, name: &str, id: TensorId) {
        self.inputs.push((name.to_owned(), id));
    }

    pub(crate) fn add_node(&mut self, node: Node) {
        self.nodes.push(node);
    }

    /// The job of `node`: its data are the node's inputs in their order, without omitted ones.
    fn job_of(&self, node: &Node) -> Job {
        let kinds: &[_] = find(&node.op_type).map_or(&[], |spec| spec.inputs);
        let described = |id: &TensorId, kind: PortKind| Tensor {
            param_type: kind.param_type().to_owned(),
            ..self.described_for(*id, kind)
        };
        let absent = |kind: PortKind| {
            let param_type = Some(kind.param_type().to_owned());
            Arg::Absent(OmittedArg { param_type, extra: Extra::new() })
        };
        let (mut data, mut inputs) = (Vec::new(), Vec::new());
        for (ids, port) in node.inputs.iter().zip(kinds) {
            if ids.is_empty() {
                inputs.push(absent(port.kind));
                continue;
            }
            let tensors: Vec<Tensor> = ids.iter().map(|id| described(id, port.kind)).collect();
            let source = |tensor| Source::Data { data: data.len(), tensor };
            let fed = tensors.iter().enumerate();
            let fed = fed.map(|(at, tensor)| Input { tensor: tensor.clone(), source: source(at) });
            inputs.push(grouped(port.kind, fed.collect()));
            // As in descriptors: the tensors of a group one by one.
            data.push(Data { outputs: tensors.into_iter().map(Arg::One).collect(), extra: Extra::new() });
        }
        if let Some(function) = &node.function {
            inputs.resize_with(function.inputs.max(given(&inputs)), || absent(PortKind::Optional));
        }
        Job { data, ops: vec![self.op(node, inputs)], l1_size: -1, extra: Extra::new() }
    }

    /// A tensor as the input of a node. Its value is included only if the compiler needs it.
    fn described_for(&self, id: TensorId, kind: PortKind) -> Tensor {
        let mut tensor = self.tensor(id).clone();
        if !kind.is_value() {
            tensor.const_value = None;
        }
        tensor
    }

    fn op(&self, node: &Node, inputs: Vec<Arg<Input>>) -> Op {
        let outputs = node.outputs.iter().map(|id| self.tensor(*id).clone());
        let outputs = match find(&node.op_type).map(|spec| spec.outputs) {
            Some([port]) if port.kind == PortKind::Dynamic => {
                let param_type = port.kind.param_type();
                let piece = |tensor| Tensor { param_type: param_type.to_owned(), ..tensor };
                vec![Arg::Many(outputs.map(piece).collect())]
            }
            _ => outputs.map(Arg::One).collect(),
        };
        let Function { module, name, flags, attrs, inputs: _ } =
            node.function.clone().unwrap_or_else(|| node.by_rule());
        Op {
            op_type: node.op_type.clone(),
            module_name: module,
            func_name: name,
            module_path: None,
            flags,
            inputs,
            outputs,
            attrs: (!attrs.is_empty()).then_some(attrs),
            extra: Extra::new(),
        }
    }
}

impl Node {
    /// The implementing function by the vendor's rule.
    pub fn by_rule(&self) -> Function {
        let name = func_name(&self.op_type);
        Function {
            module: format!("impl.{name}"),
            name,
            flags: OpFlags::default(),
            attrs: self.attrs.clone(),
            inputs: self.inputs.len(),
        }
    }
}

/// The number of positions up to the last one that is not empty.
fn given(inputs: &[Arg<Input>]) -> usize {
    inputs.iter().rposition(|input| !matches!(input, Arg::Absent(_))).map_or(0, |last| last + 1)
}

/// A node's inputs by position.
fn positions(spec: &OpSpec, given: &[Option<TensorId>]) -> Result<Vec<Vec<TensorId>>, OpsError> {
    let mut rest = given;
    let mut inputs = Vec::with_capacity(spec.inputs.len());
    for port in spec.inputs {
        let taken = if port.kind == PortKind::Dynamic { rest.len() } else { rest.len().min(1) };
        inputs.push(rest[..taken].iter().flatten().copied().collect());
        rest = &rest[taken..];
    }
    match rest {
        [] => Ok(inputs),
        _ => Err(OpsError::Count {
            op_type: spec.op_type.to_owned(),
            ports: "inputs",
            expected: spec.inputs.len(),
            found: given.len(),
        }),
    }
}

fn grouped<T>(kind: PortKind, mut items: Vec<T>) -> Arg<T> {
    match (kind, items.len()) {
        (PortKind::Dynamic, _) => Arg::Many(items),
        _ => Arg::One(items.swap_remove(0)),
    }
}

/// A tensor as frameworks describe one of that rank: NCHW for four dimensions, ND for others; a scalar is one element.
fn described(dtype: &str, shape: Vec<i64>) -> Tensor {
    let mut tensor = Tensor::new(dtype, shape);
    if tensor.shape.is_empty() {
        tensor.shape.push(1);
    }
    if tensor.shape.len() == 4 {
        tensor.format = "NCHW".into();
    }
    tensor.ori_format = Some("NCHW".into());
    tensor
}

/// A float attribute. [`Graph::add`] gives it the table's dtype.
pub fn float_attr(name: &str, value: f32) -> Attr {
    Attr::new(name, "float32", AttrValue::Float(opkeep_descriptor::Float::new(f64::from(value))))
}

/// A whole-number attribute.
pub fn int_attr(name: &str, value: i64) -> Attr {
    Attr::new(name, "int32", AttrValue::Int(value))
}

/// An attribute of whole numbers.
pub fn ints_attr(name: &str, values: &[i64]) -> Attr {
    Attr::new(name, "list_int32", AttrValue::ints(values))
}

/// A truth value.
pub fn bool_attr(name: &str, value: bool) -> Attr {
    Attr::new(name, "bool", AttrValue::Bool(value))
}

/// A text.
pub fn str_attr(name: &str, value: &str) -> Attr {
    Attr::new(name, "str", AttrValue::Str(value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same operator from a framework's file and from a program is one job, so it is compiled once.
    #[test]
    fn a_node_and_the_vendors_descriptor_are_one_job() {
        let text = include_bytes!("../../../../fixtures/mindspore/square_12484080525657478220_2.info");
        let descriptor = opkeep_descriptor::read_info(text).unwrap();
        let mut graph = Graph::new("square");
        let x = graph.input("x", "float32", [3]);
        graph.node("square", "Square", &[x], []).unwrap();
        assert_eq!(graph.jobs()[0].1.digest(), descriptor.job.digest());

        let mut other = Graph::new("square");
        let x = other.input("x", "float32", [4]);
        other.node("square", "Square", &[x], []).unwrap();
        assert_ne!(other.jobs()[0].1.digest(), descriptor.job.digest());
    }

    #[test]
    fn misfits_are_refused_and_leave_the_graph_as_it_was() {
        let mut graph = Graph::new("g");
        let x = graph.input("x", "float32", [2, 3]);
        let y = graph.input("y", "float32", [2]);
        let h = graph.input("h", "float16", [3]);
        let before = graph.clone();
        assert!(matches!(graph.node("n", "Conv9D", &[x], []), Err(OpsError::UnknownOp { .. })));
        assert!(matches!(graph.node("n", "Add", &[x], []), Err(OpsError::Port { .. })));
        assert!(matches!(graph.node("n", "Add", &[x, y], []), Err(OpsError::Broadcast { .. })));
        assert!(matches!(graph.node("n", "Add", &[x, h], []), Err(OpsError::Dtype { .. })));
        assert!(matches!(graph.node("n", "Adds", &[x], []), Err(OpsError::MissingAttr { .. })));
        assert!(matches!(graph.node("n", "Relu", &[TensorId(9)], []), Err(OpsError::NoSuchTensor { .. })));
        assert_eq!(graph, before);
    }
}
