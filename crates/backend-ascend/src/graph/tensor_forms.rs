//! The new graph, and the forms in which it has each tensor of the old graph.

use std::collections::HashSet;

use opkeep_backend::{BackendError, Unsupported};
use opkeep_cann_toolkit::OpsInfo;
use opkeep_ops::{
    Conversion, Function, Graph, Node, Origin, Rewriter, Storage, TensorId, ge_number, int_attr, is_blocked,
    str_attr,
};

use crate::graph::conversions::{CAST, Conversions, Step, TRANS_DATA, kernel_count};
use crate::graph::function::{function, refused};

/// The new graph under construction.
pub(crate) struct TensorForms<'a> {
    from: &'a Graph,
    ops: &'a OpsInfo,
    to: Rewriter<'a>,
    conversions: Conversions,
    /// The forms of each old tensor; the first is the one in which it is written.
    forms: Vec<Vec<(Storage, TensorId)>>,
    /// The names of nodes in use.
    names: HashSet<String>,
}

/// The reader of a tensor in another form: a node and its port, or an output of the network.
#[derive(Clone, Copy)]
struct Reader<'n> {
    name: &'n str,
    port: &'n str,
    /// The index in a list of tensors.
    number: Option<usize>,
}

impl<'a> TensorForms<'a> {
    pub(crate) fn new(from: &'a Graph, ops: &'a OpsInfo) -> Self {
        let to = Rewriter::new(from);
        let form = |id| to.current(id).map(|new| (Storage::of(to.graph().tensor(new)), new));
        let forms = from.tensors().map(|id| form(id).into_iter().collect()).collect();
        let names = from.nodes().iter().map(|node| node.name.clone()).collect();
        Self { from, ops, conversions: Conversions::of(ops), forms, names, to }
    }

    /// The existing forms of an old tensor.
    pub(crate) fn storages(&self, id: TensorId) -> impl Iterator<Item = &Storage> {
        self.forms.get(id.index()).into_iter().flatten().map(|(storage, _)| storage)
    }

    /// The format of an old tensor without blocks.
    pub(crate) fn plain(&self, id: TensorId) -> String {
        let plain = self.storages(id).find(|storage| !is_blocked(&storage.format));
        plain.map_or_else(|| self.from.tensor(id).format.clone(), |storage| storage.format.clone())
    }

    /// The number of kernels that convert an old tensor to a form; None if there is no path.
    pub(crate) fn kernel_count(&self, id: TensorId, to: &Storage) -> Option<usize> {
        self.path(id, to).map(|(_, path)| kernel_count(&path))
    }

    /// The form to start from, and the path from there.
    fn path(&self, id: TensorId, to: &Storage) -> Option<(TensorId, Vec<Step>)> {
        let tensor = self.from.tensor(id);
        let forms = self.forms.get(id.index())?.iter();
        let paths = forms.filter_map(|(from, new)| Some((*new, self.conversions.path(tensor, from, to)?)));
        paths.min_by_key(|(_, path)| (kernel_count(path), path.len()))
    }

    /// Adds the views that a node reads to the new graph.
    pub(crate) fn see(&mut self, node: &Node) -> Result<(), BackendError> {
        let names = ports(node);
        for (ids, port) in node.inputs.iter().zip(names) {
            for (at, id) in ids.iter().enumerate() {
                let number = (ids.len() > 1).then_some(at);
                self.show(*id, Reader { name: &node.name, port, number })?;
            }
        }
        Ok(())
    }

    /// Adds a view to the new graph. Its source is converted to a form without blocks first, since a view needs its
    /// elements in order.
    fn show(&mut self, id: TensorId, reader: Reader<'_>) -> Result<(), BackendError> {
        let Origin::View(of) = self.from.origin(id) else { return Ok(()) };
        if !self.forms[id.index()].is_empty() || of == id {
            return Ok(());
        }
        self.show(of, reader)?;
        // In the network's type, which most readers need.
        let plain = Storage::new(&self.from.tensor(of).dtype, self.plain(of));
        let shown = self.convert(of, &plain, reader)?;
        let new = self.to.show(id, shown).map_err(Unsupported::Invalid)?;
        self.remember(id, new);
        Ok(())
    }

    /// The new tensors that a node reads.
    pub(crate) fn convert_inputs(
        &mut self,
        node: &Node,
        storages: &[Vec<Storage>],
    ) -> Result<Vec<Vec<TensorId>>, BackendError> {
        let mut inputs = Vec::with_capacity(node.inputs.len());
        for ((ids, storages), port) in node.inputs.iter().zip(storages).zip(ports(node)) {
            let mut new = Vec::with_capacity(ids.len());
            for (at, (id, storage)) in ids.iter().zip(storages).enumerate() {
                let number = (ids.len() > 1).then_some(at);
                new.push(self.convert(*id, storage, Reader { name: &node.name, port, number })?);
            }
            inputs.push(new);
        }
        Ok(inputs)
    }

    /// Adds the old node `at` to the new graph.
    pub(crate) fn keep(
        &mut self,
        at: usize,
        inputs: Vec<Vec<TensorId>>,
        outputs: &[Storage],
        function: Function,
    ) -> Result<(), BackendError> {
        let made = self.to.keep(at, inputs, outputs, Some(function)).map_err(Unsupported::Invalid)?;
        for (old, new) in self.from.nodes()[at].outputs.iter().zip(made) {
            self.remember(*old, new);
        }
        Ok(())
    }

    /// The new graph; its outputs have the network's types and formats.
    pub(crate) fn finish(mut self) -> Result<Graph, BackendError> {
        let mut outputs = Vec::with_capacity(self.from.outputs().len());
        for (name, id) in self.from.outputs() {
            let reader = Reader { name, port: "", number: None };
            self.show(*id, reader)?;
            outputs.push(self.convert(*id, &Storage::of(self.from.tensor(*id)), reader)?);
        }
        self.to.finish(&outputs).map_err(|error| Unsupported::Invalid(error).into())
    }

    /// An old tensor in a form, converted if it does not exist yet.
    fn convert(&mut self, id: TensorId, to: &Storage, reader: Reader<'_>) -> Result<TensorId, BackendError> {
        if let Some(new) = self.retyped(id, to) {
            return Ok(new);
        }
        let Some((mut new, path)) = self.path(id, to) else { return Err(no_way(self.from, id, to, reader)) };
        for step in path {
            let made = match &step {
                Step::Relabel(to) => self.to.label(new, &to.format).map_err(Unsupported::Invalid)?,
                Step::Cast(to) => self.add(CAST, id, new, to, reader)?,
                Step::TransData(to) => self.add(TRANS_DATA, id, new, to, reader)?,
            };
            self.remember(id, made);
            new = made;
        }
        Ok(new)
    }

    /// A tensor of known integers in another type.
    fn retyped(&mut self, id: TensorId, to: &Storage) -> Option<TensorId> {
        let forms = &self.forms[id.index()];
        let tensor = self.from.tensor(id);
        let values = tensor.const_value.as_ref()?.to_ints()?;
        if forms.iter().any(|(storage, _)| storage.dtype == to.dtype)
            || !crate::graph::dtype_compat::holds(&to.dtype, &values)
        {
            return None;
        }
        let new = self.to.parameter(&to.dtype, &values);
        self.remember(id, new);
        (Storage::of(self.to.graph().tensor(new)) == *to).then_some(new)
    }

    /// Adds a node that converts `input`, a form of the old tensor `id`.
    fn add(
        &mut self,
        op_type: &str,
        id: TensorId,
        input: TensorId,
        to: &Storage,
        reader: Reader<'_>,
    ) -> Result<TensorId, BackendError> {
        let tensor = self.from.tensor(id);
        let from = Storage::of(self.to.graph().tensor(input));
        let attrs = if op_type == CAST {
            // Types without a number are in no combination of `Cast`.
            vec![int_attr("dst_type", ge_number(&to.dtype).unwrap_or_default())]
        } else {
            let groups = from.groups.max(to.groups);
            let formats = [str_attr("src_format", &from.format), str_attr("dst_format", &to.format)];
            [&formats[..], &[int_attr("groups", groups)]].concat()
        };
        let name = self.free_name(op_type, reader);
        // `TransData` sees a tensor of one or three dimensions with all four; afterwards it is viewed with its own
        // again.
        let whole = whole(&tensor.shape).filter(|_| op_type == TRANS_DATA);
        let (blocked, mut input) = (is_blocked(&to.format), input);
        if let Some(whole) = whole.clone().filter(|_| blocked) {
            input = self.to.view(input, whole).map_err(Unsupported::Invalid)?;
        }
        let mut node = Node {
            name: name.clone(),
            op_type: op_type.to_owned(),
            inputs: vec![vec![input]],
            outputs: Vec::new(),
            attrs: attrs.clone(),
            function: None,
        };
        let info = self.ops.get(op_type).ok_or_else(|| {
            refused(
                &node,
                "the operator information does not have it; install the operator package again".to_owned(),
            )
        })?;
        node.function = Some(function(&node, info)?);
        let conversion = Conversion { name: &name, op_type, attrs: &attrs, function: node.function.take() };
        let mut means = tensor.clone();
        if let Some(whole) = whole.filter(|_| !blocked) {
            (means.shape, means.format) = (whole, to.format.clone());
        }
        let made = self.to.convert(conversion, input, &means, to).map_err(Unsupported::Invalid)?;
        let made = if blocked { Ok(made) } else { self.to.view(made, tensor.shape.clone()) };
        Ok(made.map_err(Unsupported::Invalid)?)
    }

    /// A free name for a node, after its reader: `conv1/TransData_x`.
    fn free_name(&mut self, op_type: &str, reader: Reader<'_>) -> String {
        let Reader { name, port, number } = reader;
        let mut free = format!("{name}/{op_type}");
        if !port.is_empty() {
            free = format!("{free}_{port}");
        }
        if let Some(number) = number {
            free = format!("{free}{number}");
        }
        let numbered = (2..).map(|number| format!("{free}_{number}"));
        let names = &self.names;
        let free = std::iter::once(free.clone()).chain(numbered).find(|name| !names.contains(name));
        let free = free.unwrap_or_default();
        self.names.insert(free.clone());
        free
    }

    fn remember(&mut self, old: TensorId, new: TensorId) {
        let storage = Storage::of(self.to.graph().tensor(new));
        self.forms[old.index()].push((storage, new));
    }
}

/// The four dimensions, as blocks have them, of a tensor with one (the channels) or three (all but the batch).
pub(crate) fn whole(shape: &[i64]) -> Option<Vec<i64>> {
    match shape {
        [channels] => Some(vec![1, *channels, 1, 1]),
        [c, h, w] => Some(vec![1, *c, *h, *w]),
        _ => None,
    }
}

/// The names of a node's inputs.
fn ports(node: &Node) -> impl Iterator<Item = &'static str> + use<> {
    let ports = opkeep_ops::find(&node.op_type).map_or(&[][..], |spec| spec.inputs);
    ports.iter().map(|port| port.name)
}

fn no_way(graph: &Graph, id: TensorId, to: &Storage, reader: Reader<'_>) -> BackendError {
    let tensor = graph.tensor(id);
    let problem = format!(
        "`{}` needs a tensor {:?} of {} as {} {}, and no `Cast` and `TransData` of the toolkit lead there; install the \
         operator package again, in the version of the toolkit",
        reader.name, tensor.shape, tensor.dtype, to.dtype, to.format
    );
    Unsupported::Other { backend: crate::NAME, op_type: TRANS_DATA.to_owned(), problem }.into()
}
