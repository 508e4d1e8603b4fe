//! A graph derived from another: the same network, with other storage formats and conversions between them.
//!
//! A [`Rewriter`] checks what a backend must not change: the order, names and attributes of nodes, the logical shapes
//! of the tensors that they read and compute, and the inputs and outputs of the network.
//!
//! A tensor is described in its storage. `ori_shape` holds its logical shape, from which output shapes are inferred. A
//! view shows elements in their stored order, so a tensor stored in blocks has no views. `formats.rs` lists the storage
//! shapes.
//! blocks has no views. Which storage shapes there are is in `formats.rs`.

use std::borrow::Cow;

use opkeep_descriptor::{Attr, Tensor};

use crate::formats::{Storage, is_blocked, logical};
use crate::graph::{Function, Graph, Node, Origin, TensorId};
use crate::shape::elements;
use crate::{Call, OpsError, find};

/// A node that converts a tensor.
#[derive(Clone, Debug)]
pub struct Conversion<'a> {
    /// The node's name.
    pub name: &'a str,
    /// Its IR type.
    pub op_type: &'a str,
    /// Its attributes.
    pub attrs: &'a [Attr],
    /// The function that implements it.
    pub function: Option<Function>,
}

/// Creates a graph from another, node by node.
///
/// Checks what a caller must not change: nodes come in their order with their names, types and attributes, the tensors
/// that they read and compute keep their shapes, and the network keeps its inputs and outputs. The caller chooses the
/// conversions between nodes and the storage there.
///
/// Ids of the original graph are called old, those of the derived graph new.
#[derive(Debug)]
pub struct Rewriter<'a> {
    from: &'a Graph,
    to: Graph,
    /// The replacement of each old id.
    current: Vec<Option<TensorId>>,
}

impl<'a> Rewriter<'a> {
    /// Starts with the inputs and the constants of `from`.
    pub fn new(from: &'a Graph) -> Self {
        let mut to = Graph::new(from.name());
        let mut current = vec![None; from.len()];
        for (name, id) in from.inputs() {
            let new = to.push(from.tensor(*id).clone(), Origin::Input(to.inputs().len()));
            to.add_input(name, new);
            current[id.index()] = Some(new);
        }
        for id in from.tensors() {
            if let origin @ Origin::Constant(_) = from.origin(id) {
                current[id.index()] = Some(to.push(from.tensor(id).clone(), origin));
            }
        }
        Self { from, to, current }
    }

    /// The graph so far.
    pub fn graph(&self) -> &Graph {
        &self.to
    }

    /// The replacement of an old tensor: an input, a constant, an output of a kept node, or a view that was shown
    /// again.
    pub fn current(&self, old: TensorId) -> Option<TensorId> {
        self.current.get(old.index()).copied().flatten()
    }

    /// Shows the old view `old` again: the elements of `of`, in the view's shape.
    ///
    /// # Errors
    /// [`OpsError::NotPlain`], if `of` is stored in blocks.
    pub fn show(&mut self, old: TensorId, of: TensorId) -> Result<TensorId, OpsError> {
        let new = self.to.view(of, self.from.tensor(old).shape.clone())?;
        self.current[old.index()] = Some(new);
        Ok(new)
    }

    /// Shows a tensor in another shape with the same number of elements.
    ///
    /// # Errors
    /// As [`Graph::view`].
    pub fn view(&mut self, of: TensorId, shape: impl Into<Vec<i64>>) -> Result<TensorId, OpsError> {
        self.to.view(of, shape)
    }

    /// The same elements under the name of another plain format, such as `ND` for `NCHW`. No element moves.
    ///
    /// # Errors
    /// [`OpsError::Storage`], if that format has another order of dimensions.
    pub fn label(&mut self, of: TensorId, format: &str) -> Result<TensorId, OpsError> {
        let tensor = self.to.tensor(of);
        let storage = Storage { format: format.to_owned(), ..Storage::of(tensor) };
        let labelled = storage.apply(tensor)?;
        if is_blocked(format) || is_blocked(&tensor.format) || labelled.shape != tensor.shape {
            let (shape, dtype) = (logical(tensor).shape.clone(), tensor.dtype.clone());
            return Err(OpsError::Storage { shape, dtype, format: format.to_owned() });
        }
        Ok(self.to.push(labelled, Origin::View(of)))
    }

    /// Whole numbers that compilers of nodes need, as [`Graph::parameter`].
    pub fn parameter(&mut self, dtype: &str, values: &[i64]) -> TensorId {
        self.to.parameter(dtype, values)
    }

    /// Adds a node that converts `input` to the logical tensor `means`, stored as `storage`.
    ///
    /// # Errors
    /// An operator that does not accept `input`, or computes another type or number of elements; a shape without such a
    /// format.
    pub fn convert(
        &mut self,
        conversion: Conversion<'_>,
        input: TensorId,
        means: &Tensor,
        storage: &Storage,
    ) -> Result<TensorId, OpsError> {
        let Conversion { name, op_type, attrs, function } = conversion;
        let spec = find(op_type).ok_or_else(|| OpsError::UnknownOp { op_type: op_type.to_owned() })?;
        let from = logical(self.to.tensor(input)).into_owned();
        let call = Call::new(spec, vec![vec![&from]], attrs)?;
        let made = call.infer()?.into_iter().flatten().next();
        let attrs = call.every_attr()?;
        let output = storage.apply(means)?;
        let fits = made.as_ref().is_some_and(|made| {
            made.dtype == output.dtype && elements(&made.shape) == elements(&logical(means).shape)
        });
        if !fits {
            let made = made.map_or_else(String::new, |made| format!("{} {:?}", made.dtype, made.shape));
            let expected = format!("{} {:?}", output.dtype, logical(means).shape);
            let problem = format!("`{name}` makes {made}, expected {expected}");
            return Err(OpsError::Misfit { op_type: op_type.to_owned(), problem });
        }
        let node = Node {
            name: name.to_owned(),
            op_type: op_type.to_owned(),
            inputs: vec![vec![input]],
            outputs: Vec::new(),
            attrs,
            function,
        };
        Ok(self.push(node, vec![output])[0])
    }

    /// Adds the old node `at` with new inputs; its outputs are stored as `storages`.
    ///
    /// # Errors
    /// Inputs whose logical tensors differ from the old ones, or storages whose number is wrong or that the outputs
    /// cannot have.
    pub fn keep(
        &mut self,
        at: usize,
        inputs: Vec<Vec<TensorId>>,
        storages: &[Storage],
        function: Option<Function>,
    ) -> Result<Vec<TensorId>, OpsError> {
        let Some(old) = self.from.nodes().get(at) else {
            return Err(OpsError::NoSuchTensor { id: at, count: self.from.nodes().len() });
        };
        self.same_meaning(old, &inputs)?;
        if storages.len() != old.outputs.len() {
            let (expected, found) = (old.outputs.len(), storages.len());
            return Err(OpsError::Count { op_type: old.op_type.clone(), ports: "outputs", expected, found });
        }
        let stored = old.outputs.iter().zip(storages);
        let outputs = stored.map(|(id, storage)| storage.apply(self.from.tensor(*id)));
        let outputs = outputs.collect::<Result<Vec<_>, _>>()?;
        let node = Node { inputs, outputs: Vec::new(), function, ..old.clone() };
        let new = self.push(node, outputs);
        for (old, new) in old.outputs.iter().zip(&new) {
            self.current[old.index()] = Some(*new);
        }
        Ok(new)
    }

    /// The graph, with `outputs` as the network's outputs.
    ///
    /// # Errors
    /// Nodes that were left out, or outputs that are not stored as in the original network.
    pub fn finish(mut self, outputs: &[TensorId]) -> Result<Graph, OpsError> {
        let is_kept = |node: &&Node| node.outputs.iter().all(|id| self.current(*id).is_some());
        let kept = self.from.nodes().iter().filter(is_kept).count();
        let counts = [(kept, self.from.nodes().len()), (outputs.len(), self.from.outputs().len())];
        if let Some((found, expected)) = counts.into_iter().find(|(found, expected)| found != expected) {
            let problem = format!("found {found} of {expected}: nodes or outputs are missing");
            return Err(OpsError::Misfit { op_type: self.from.name().to_owned(), problem });
        }
        for ((name, old), new) in self.from.outputs().iter().zip(outputs) {
            let (old, found) = (self.from.tensor(*old), self.to.tensor(*new));
            let plain = matches!(logical(found), Cow::Borrowed(_));
            if !plain || (&old.dtype, &old.shape) != (&found.dtype, &found.shape) {
                let tensor = format!("output `{name}`, {} {:?},", old.dtype, old.shape);
                let format = format!("{} {:?} {}", found.dtype, found.shape, found.format);
                return Err(OpsError::NotPlain { tensor, format });
            }
            self.to.output(name, *new)?;
        }
        Ok(self.to)
    }

    fn same_meaning(&self, old: &Node, inputs: &[Vec<TensorId>]) -> Result<(), OpsError> {
        let shapes = |graph: &Graph, inputs: &[Vec<TensorId>]| -> Vec<Vec<Vec<i64>>> {
            let shape = |id: &TensorId| logical(graph.tensor(*id)).shape.clone();
            inputs.iter().map(|ids| ids.iter().map(shape).collect()).collect()
        };
        let (expected, found) = (shapes(self.from, &old.inputs), shapes(&self.to, inputs));
        if expected == found {
            return Ok(());
        }
        let problem = format!("`{}` read {expected:?}, and is to read {found:?}", old.name);
        Err(OpsError::Misfit { op_type: old.op_type.clone(), problem })
    }

    fn push(&mut self, node: Node, outputs: Vec<Tensor>) -> Vec<TensorId> {
        let at = self.to.nodes().len();
        let origin = |output| Origin::Node { node: at, output };
        let made = outputs.into_iter().enumerate();
        let ids: Vec<TensorId> = made.map(|(output, tensor)| self.to.push(tensor, origin(output))).collect();
        self.to.add_node(Node { outputs: ids.clone(), ..node });
        ids
    }
}
