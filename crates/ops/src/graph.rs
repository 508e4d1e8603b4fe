//! The operator graph: what front ends make and `prepare` rewrites.

use opbuild_descriptor::{Arg, Attr, Data, Extra, Input, Job, Op, OpFlags, Source, Tensor};

use crate::{OpsError, find, func_name};

/// A tensor of a [`Graph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId(usize);

/// A network of operators with a shape for every tensor.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    name: String,
    tensors: Vec<Tensor>,
    inputs: Vec<(String, TensorId)>,
    nodes: Vec<Node>,
}

/// A node of a [`Graph`].
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The node's name.
    pub name: String,
    /// Its IR type.
    pub op_type: String,
    /// What it reads.
    pub inputs: Vec<TensorId>,
    /// What it makes.
    pub outputs: Vec<TensorId>,
    /// Its attributes, in the table's order.
    pub attrs: Vec<Attr>,
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

    /// The nodes, each after those it reads from.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The graph's inputs.
    pub fn inputs(&self) -> &[(String, TensorId)] {
        &self.inputs
    }

    /// A tensor's description.
    ///
    /// An id of another graph gives this graph's tensor of that number, or its last.
    pub fn tensor(&self, id: TensorId) -> &Tensor {
        static NONE: std::sync::LazyLock<Tensor> = std::sync::LazyLock::new(|| Tensor::new("", []));
        self.tensors.get(id.0).or(self.tensors.last()).unwrap_or(&NONE)
    }

    /// Adds an input. Formats are a framework's for that rank: NCHW for four dimensions, else ND.
    pub fn input(&mut self, name: &str, dtype: &str, shape: impl Into<Vec<i64>>) -> TensorId {
        let mut tensor = Tensor::new(dtype, shape);
        if tensor.shape.is_empty() {
            tensor.shape.push(1); // frameworks describe a scalar as one element
        }
        if tensor.shape.len() == 4 {
            tensor.format = "NCHW".into();
        }
        tensor.ori_format = Some("NCHW".into());
        let id = self.push(tensor);
        self.inputs.push((name.to_owned(), id));
        id
    }

    /// Adds a node with one output, and gives that output.
    ///
    /// # Errors
    /// An operator that the table does not have, or inputs or attributes that do not fit it.
    pub fn node(
        &mut self,
        name: &str,
        op_type: &str,
        inputs: &[TensorId],
        attrs: impl Into<Vec<Attr>>,
    ) -> Result<TensorId, OpsError> {
        let spec = find(op_type).ok_or_else(|| OpsError::UnknownOp { op_type: op_type.to_owned() })?;
        let count = self.tensors.len();
        let described: Result<Vec<&Tensor>, _> = inputs
            .iter()
            .map(|id| self.tensors.get(id.0).ok_or(OpsError::NoSuchTensor { id: id.0, count }))
            .collect();
        let made = spec.infer(&described?)?;
        let outputs: Vec<TensorId> = made.into_iter().map(|tensor| self.push(tensor)).collect();
        let node = Node {
            name: name.to_owned(),
            op_type: op_type.to_owned(),
            inputs: inputs.to_vec(),
            attrs: attrs.into(),
            outputs,
        };
        let checked = spec.check(&self.op(&node));
        if let Err(error) = checked {
            self.tensors.truncate(count);
            return Err(error);
        }
        let output = node.outputs[0];
        self.nodes.push(node);
        Ok(output)
    }

    /// One job a node, with the node's name.
    pub fn jobs(&self) -> Vec<(String, Job)> {
        self.nodes.iter().map(|node| (node.name.clone(), self.job(node))).collect()
    }

    fn push(&mut self, tensor: Tensor) -> TensorId {
        self.tensors.push(tensor);
        TensorId(self.tensors.len() - 1)
    }

    fn job(&self, node: &Node) -> Job {
        let data = node
            .inputs
            .iter()
            .map(|id| Data { outputs: vec![Arg::One(self.tensor(*id).clone())], extra: Extra::new() });
        Job { data: data.collect(), ops: vec![self.op(node)], l1_size: -1, extra: Extra::new() }
    }

    fn op(&self, node: &Node) -> Op {
        let func_name = func_name(&node.op_type);
        let input = |(data, id): (usize, &TensorId)| {
            Arg::One(Input { tensor: self.tensor(*id).clone(), source: Source::Data { data, tensor: 0 } })
        };
        Op {
            op_type: node.op_type.clone(),
            module_name: format!("impl.{func_name}"),
            func_name,
            module_path: None,
            flags: OpFlags::default(),
            inputs: node.inputs.iter().enumerate().map(input).collect(),
            outputs: node.outputs.iter().map(|id| Arg::One(self.tensor(*id).clone())).collect(),
            attrs: (!node.attrs.is_empty()).then(|| node.attrs.clone()),
            extra: Extra::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same operator from a framework's file and from a program is one job, so it is compiled once.
    #[test]
    fn a_node_and_the_vendors_descriptor_are_one_job() {
        let text = include_bytes!("../../../fixtures/mindspore/square_12484080525657478220_2.info");
        let descriptor = opbuild_descriptor::read_info(text).unwrap();
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
        assert!(matches!(graph.node("n", "Add", &[x], []), Err(OpsError::Count { .. })));
        assert!(matches!(graph.node("n", "Add", &[x, y], []), Err(OpsError::Broadcast { .. })));
        assert!(matches!(graph.node("n", "Add", &[x, h], []), Err(OpsError::Dtype { .. })));
        assert!(matches!(graph.node("n", "Adds", &[x], []), Err(OpsError::MissingAttr { .. })));
        assert!(matches!(graph.node("n", "Relu", &[TensorId(9)], []), Err(OpsError::NoSuchTensor { .. })));
        assert_eq!(graph, before);
    }
}
