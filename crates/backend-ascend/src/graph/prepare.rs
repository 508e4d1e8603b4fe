//! Rewrites a network so that each node's tensors have types and formats that the toolkit's operator takes.
//!
//! The nodes are visited once, in order. Of the combinations of element types and formats that the toolkit's operator
//! takes, a node gets the one that loses least precision, then needs the fewest conversions of its inputs, then moves
//! the fewest elements. [`TensorForms`] knows in which forms each tensor exists, and makes each form at most once.

use std::cell::RefCell;
use std::collections::HashMap;

use opkeep_backend::{BackendError, Unsupported};
use opkeep_cann_toolkit::{OpInfo, OpsInfo, ToolkitError};
use opkeep_descriptor::{Job, Tensor};
use opkeep_digest::Digest;
use opkeep_ops::{Function, Graph, Node, OpSpec, Rule, Storage, TensorId, find, is_blocked};

use crate::NAME;
use crate::error::toolkit_error;
use crate::graph::dtype_compat::{distance, holds, is_lossy};
use crate::graph::function::{function, refused};
use crate::graph::select::{Combination, Form, Formats, PortFormats, answered, listed};
use crate::graph::tensor_forms::{TensorForms, whole};

/// The pattern of operators that take any format, the same for all tensors.
const AGNOSTIC: &str = "formatAgnostic";
/// The pattern of operators that take any format, but a tensor of one element in a format without blocks.
const BROADCAST: &str = "broadcast";

/// Makes networks fit the operators of a toolkit.
///
/// Every node gets its module, function, flags and attributes from the operator information. Of the combinations of
/// element types and formats that its operator takes, it gets the one that loses least, needs the fewest conversions,
/// and moves the fewest elements; so the nodes after a convolution keep its format. `Cast` and `TransData` are inserted
/// where needed, once per tensor and form. An output in another element type than the network's is converted back for
/// the nodes that need it.
pub struct Prepare<'a> {
    ops: &'a OpsInfo,
    formats: &'a dyn Formats,
    /// The operators' answers.
    answers: RefCell<HashMap<Digest, Option<Vec<PortFormats>>>>,
}

impl<'a> Prepare<'a> {
    /// Prepares networks for the operators of `ops`; `formats` queries those that the operator information does not
    /// describe.
    pub fn new(ops: &'a OpsInfo, formats: &'a dyn Formats) -> Self {
        Self { ops, formats, answers: RefCell::default() }
    }

    /// The network for the toolkit, and a warning for each node that computes with less precision.
    ///
    /// # Errors
    /// The toolkit lacks an operator, an operator takes no types and formats to which its tensors can be
    /// converted, or a query fails.
    pub fn run(&self, graph: &Graph) -> Result<(Graph, Vec<String>), BackendError> {
        let mut stored = TensorForms::new(graph, self.ops);
        let mut warnings = Vec::new();
        for (at, node) in graph.nodes().iter().enumerate() {
            let info = self.info(&node.op_type)?;
            let function = function(node, info)?;
            stored.see(node)?;
            let combinations = self.combinations(graph, at, info, &function, &stored)?;
            let view = Place { graph, node, spec: spec(node)?, stored: &stored };
            let choices = combinations.iter().enumerate().filter_map(|(at, one)| view.choice(at, one));
            let choice = choices.min_by_key(|choice| choice.cost);
            let choice = choice.ok_or_else(|| view.nothing_fits(&combinations))?;
            warnings.extend(view.warning(&choice));
            let ids = stored.convert_inputs(node, &choice.inputs)?;
            stored.keep(at, ids, &choice.outputs, function)?;
        }
        Ok((stored.finish()?, warnings))
    }

    fn info(&self, op_type: &str) -> Result<&'a OpInfo, BackendError> {
        let none = |problem: &str| {
            let (op_type, problem) = (op_type.to_owned(), problem.to_owned());
            let looked = self.ops.files.clone();
            toolkit_error(ToolkitError::NoImplementation { op_type, problem, looked })
        };
        let info = self.ops.get(op_type).ok_or_else(|| none("the operator information does not have it"))?;
        if info.is_null() {
            return Err(none("the operator information says that it has no kernel (`opFile` is `Null`)"));
        }
        Ok(info)
    }

    /// The combinations of types and formats that the operator takes.
    fn combinations(
        &self,
        graph: &Graph,
        at: usize,
        info: &OpInfo,
        function: &Function,
        stored: &TensorForms<'_>,
    ) -> Result<Vec<Combination>, BackendError> {
        if info.must_be_asked()
            // The query describes the tensors of the original network.
            && let Some(job) = graph.job_as(at, function.clone())
            && let Some(answer) = self.answer(&job)?
        {
            return Ok(answered(&answer));
        }
        let listed = listed(info);
        let node = &graph.nodes()[at];
        match info.pattern.as_deref() {
            Some(AGNOSTIC) => Ok(any_format(graph, node, &listed, stored, false)),
            Some(BROADCAST) => Ok(any_format(graph, node, &listed, stored, true)),
            _ if listed.is_empty() => {
                let problem = "the operator information lists no element types, and the operator does not answer \
                               which it takes; install the operator package again, in the version of the toolkit";
                Err(refused(node, problem.to_owned()))
            }
            _ => Ok(listed),
        }
    }

    fn answer(&self, job: &Job) -> Result<Option<Vec<PortFormats>>, BackendError> {
        let digest = job.digest();
        if let Some(answer) = self.answers.borrow().get(&digest) {
            return Ok(answer.clone());
        }
        let answer = self.formats.select(job, 0)?;
        self.answers.borrow_mut().insert(digest, answer.clone());
        Ok(answer)
    }
}

/// The format of a tensor without blocks: that of `first` if the tensor can have it, or else its own.
fn like(tensor: &Tensor, first: Option<&Storage>) -> String {
    let same = first.map(|first| Storage { dtype: tensor.dtype.clone(), ..first.clone() });
    let same = same.filter(|same| !is_blocked(&same.format) && same.apply(tensor).is_ok());
    same.map_or_else(|| tensor.format.clone(), |same| same.format)
}

fn spec(node: &Node) -> Result<&'static OpSpec, BackendError> {
    let unknown = || Unsupported::Op { backend: NAME, op_type: node.op_type.clone() };
    find(&node.op_type).ok_or_else(|| unknown().into())
}

/// Every listed combination of element types, without blocks and in every blocked format of an input.
fn any_format(
    graph: &Graph,
    node: &Node,
    listed: &[Combination],
    stored: &TensorForms<'_>,
    scalars_stay: bool,
) -> Vec<Combination> {
    let mut formats: Vec<Option<String>> = vec![None];
    for storage in node.inputs.iter().flatten().flat_map(|id| stored.storages(*id)) {
        let blocked = Some(storage.format.clone()).filter(|format| is_blocked(format));
        if blocked.is_some() && !formats.contains(&blocked) {
            formats.push(blocked);
        }
    }
    let stays = |number: usize| {
        let ids = node.inputs.get(number).map_or(&[][..], Vec::as_slice);
        scalars_stay && ids.iter().all(|id| graph.tensor(*id).shape.iter().all(|dim| *dim == 1))
    };
    let with = |combination: &Combination, format: &Option<String>| {
        let form = |form: &Form, stays: bool| Form {
            dtype: form.dtype.clone(),
            format: format.clone().filter(|_| !stays),
        };
        let inputs = combination.inputs.iter().enumerate();
        Combination {
            inputs: inputs.map(|(number, one)| form(one, number > 0 && stays(number))).collect(),
            outputs: combination.outputs.iter().map(|one| form(one, false)).collect(),
        }
    };
    formats.iter().flat_map(|format| listed.iter().map(|one| with(one, format))).collect()
}

/// A node in its graph.
struct Place<'p, 'a> {
    graph: &'a Graph,
    node: &'a Node,
    spec: &'static OpSpec,
    stored: &'p TensorForms<'a>,
}

/// The storages of a node's tensors for one combination, and their cost.
struct Choice {
    cost: Cost,
    inputs: Vec<Vec<Storage>>,
    outputs: Vec<Storage>,
}

/// The cost of a combination; the fields are compared in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Cost {
    /// The sum of the distances between the network's element types and these.
    distance: u32,
    conversions: usize,
    /// Elements that conversions move.
    moved: u64,
    /// The position in the operator's list.
    number: usize,
}

impl Place<'_, '_> {
    /// The choice of the combination; None if the node's tensors cannot be converted to it.
    fn choice(&self, number: usize, combination: &Combination) -> Option<Choice> {
        let mut choice =
            Choice { cost: Cost { number, ..Cost::default() }, inputs: Vec::new(), outputs: Vec::new() };
        for (at, ids) in self.node.inputs.iter().enumerate() {
            let form = combination.inputs.get(at).cloned().unwrap_or_default();
            let mut storages = Vec::with_capacity(ids.len());
            for id in ids {
                let first = choice.inputs.iter().flatten().chain(&storages).next();
                storages.push(self.input(at, *id, &form, first, &mut choice.cost)?);
            }
            choice.inputs.push(storages);
        }
        let is_list = self.spec.outputs.len() == 1;
        for (at, id) in self.node.outputs.iter().enumerate() {
            let form = combination.outputs.get(if is_list { 0 } else { at }).cloned().unwrap_or_default();
            let tensor = self.graph.tensor(*id);
            let storage = Storage {
                dtype: form.dtype.unwrap_or_else(|| tensor.dtype.clone()),
                format: form.format.unwrap_or_else(|| like(tensor, choice.inputs.iter().flatten().next())),
                groups: 1,
            };
            choice.cost.distance += distance(&tensor.dtype, &storage.dtype)?;
            storage.apply(tensor).ok()?;
            choice.outputs.push(storage);
        }
        self.blocks_agree(&choice).then_some(choice)
    }

    fn input(
        &self,
        at: usize,
        id: TensorId,
        form: &Form,
        first: Option<&Storage>,
        cost: &mut Cost,
    ) -> Option<Storage> {
        let tensor = self.graph.tensor(id);
        let port = self.spec.inputs.get(at)?;
        let dtype = form.dtype.clone().unwrap_or_else(|| tensor.dtype.clone());
        let format = form.format.clone().unwrap_or_else(|| match first {
            None => self.stored.plain(id),
            first => like(tensor, first),
        });
        let groups = self.groups(at).filter(|_| format == "FRACTAL_Z").unwrap_or(1);
        let storage = Storage { dtype, format, groups };
        storage.apply(tensor).ok().filter(|_| self.is_known(at, tensor, &storage))?;
        if port.kind.is_value() {
            let values = tensor.const_value.as_ref().and_then(|value| value.to_ints())?;
            let fits = tensor.dtype == storage.dtype || holds(&storage.dtype, &values);
            return fits.then_some(storage);
        }
        cost.distance += distance(&tensor.dtype, &storage.dtype)?;
        let kernels = self.stored.kernel_count(id, &storage)?;
        cost.conversions += kernels;
        let elements = tensor.shape.iter().map(|dim| dim.unsigned_abs()).product::<u64>();
        cost.moved = cost.moved.saturating_add(elements.saturating_mul(kernels as u64));
        Some(storage)
    }

    /// Whether the meaning of a tensor's dimensions is known, if it has fewer than four: a single one has the channels
    /// if the operator works per channel, and three are all but the batch if tensors are broadcast.
    fn is_known(&self, at: usize, tensor: &Tensor, storage: &Storage) -> bool {
        match tensor.shape.len() {
            _ if !is_blocked(&storage.format) || storage.format == "FRACTAL_NZ" => true,
            1 => self.spec.rule == Rule::PerChannel && at > 0,
            3 => self.is_pointwise(),
            _ => true,
        }
    }

    fn is_pointwise(&self) -> bool {
        use Rule::{Accumulate, Clip, Elementwise, Predicate, Select};
        matches!(self.spec.rule, Elementwise | Predicate | Select | Clip | Accumulate)
    }

    /// The groups of a convolution, for its weights.
    fn groups(&self, at: usize) -> Option<i64> {
        let attr = self.node.attrs.iter().find(|attr| attr.name == "groups")?;
        match attr.value {
            opkeep_descriptor::AttrValue::Int(groups) if at == 1 && groups > 1 => Some(groups),
            _ => None,
        }
    }

    /// Whether the blocks of all inputs correspond. An elementwise kernel computes block by block, so broadcast tensors
    /// need the same channels in `NC1HWC0`, and the same shape in other formats.
    fn blocks_agree(&self, choice: &Choice) -> bool {
        let inputs = || self.node.inputs.iter().flatten().zip(choice.inputs.iter().flatten());
        let shape = |id: &TensorId| {
            let shape = &self.graph.tensor(*id).shape;
            whole(shape).unwrap_or_else(|| shape.clone())
        };
        let first = inputs().find(|(_, storage)| is_blocked(&storage.format)).filter(|_| self.is_pointwise());
        let Some((first, blocked)) = first else { return true };
        let alike = |id: &TensorId| match (shape(id), shape(first)) {
            (shape, first) if shape == first => true,
            (shape, first) => blocked.format == "NC1HWC0" && shape.get(1) == first.get(1),
        };
        let one = |id: &TensorId| self.graph.tensor(*id).shape.iter().all(|dim| *dim == 1);
        inputs().all(|(id, storage)| if is_blocked(&storage.format) { alike(id) } else { one(id) })
    }

    /// A warning if the node computes with less precision than the network.
    fn warning(&self, choice: &Choice) -> Option<String> {
        let Node { name, op_type, .. } = self.node;
        let ports = self.spec.inputs.iter().zip(self.node.inputs.iter().zip(&choice.inputs));
        let read =
            ports.filter(|(port, _)| !port.kind.is_value()).flat_map(|(_, (ids, to))| ids.iter().zip(to));
        let mut types = read
            .chain(self.node.outputs.iter().zip(&choice.outputs))
            .map(|(id, storage)| (&self.graph.tensor(*id).dtype, &storage.dtype));
        let (from, to) = types.find(|(from, to)| distance(from, to).is_some_and(is_lossy))?;
        Some(format!(
            "`{name}` ({op_type}) computes in {to}, since the toolkit's operator does not take {from}: not every value of \
             {from} is one of {to}"
        ))
    }

    fn nothing_fits(&self, combinations: &[Combination]) -> BackendError {
        let described = |id: &TensorId| {
            let Tensor { dtype, shape, .. } = self.graph.tensor(*id);
            format!("{dtype} {shape:?}")
        };
        let given: Vec<String> = self.node.inputs.iter().flatten().map(described).collect();
        let form = |form: &Form| {
            let any = || "any".to_owned();
            format!("{} {}", form.dtype.clone().unwrap_or_else(any), form.format.clone().unwrap_or_else(any))
        };
        let mut takes: Vec<String> = combinations
            .iter()
            .map(|one| one.inputs.iter().map(form).collect::<Vec<_>>().join(", "))
            .collect();
        let more = takes.len().saturating_sub(4);
        takes.truncate(4);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        refused(
            self.node,
            format!(
                "its inputs are {}, and it takes ({}){more}; there is no conversion to any of these, so convert the \
                 network's tensors before this node, or install an operator package that takes them",
                given.join(", "),
                takes.join("), (")
            ),
        )
    }
}
