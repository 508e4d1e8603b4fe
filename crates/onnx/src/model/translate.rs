//! Translation of a model to a graph.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use opkeep_ops::Graph;
use opkeep_text::counted;

use crate::fold::BUDGET;
use crate::model::declared::{Sizes, check_output};
use crate::model::functions::{FUNCTION, functions};
use crate::model::network::{Network, Options, ValueInfo};
use crate::model::order::{Definition, Plan, node_name, short};
use crate::model_error::{ModelError, Problem};
use crate::node::Node;
use crate::value::{Value, count, described};
use crate::wire::proto::{GraphProto, ModelProto, NodeProto, TensorProto};
use crate::{OnnxError, table, tensor};

/// Translates a model; `base` is the path of its file, for tensors in files beside it.
pub(crate) fn translate(
    model: &ModelProto,
    base: Option<&Path>,
    options: &Options,
) -> Result<Network, OnnxError> {
    let graph = model.graph.as_ref().ok_or(ModelError::NoGraph)?;
    if !graph.sparse_initializer.is_empty() {
        return Err(ModelError::Sparse { count: graph.sparse_initializer.len() }.into());
    }
    let opsets = opsets(model)?;
    let plan = Plan::of(graph)?;
    let mut translation = Translation {
        proto: graph,
        base,
        opsets,
        functions: functions(model),
        plan: &plan,
        graph: Graph::new(&graph.name),
        values: HashMap::new(),
        problems: Vec::new(),
        budget: BUDGET,
    };
    let inputs = translation.inputs(options)?;
    translation.initializers()?;
    plan.nodes.iter().for_each(|at| translation.node(*at));
    if !translation.problems.is_empty() {
        return Err(OnnxError::Unmappable(translation.problems));
    }
    let outputs = translation.outputs()?;
    Ok(Network { graph: translation.graph.pruned(), inputs, outputs })
}

/// Versions by domain. Both names of the default domain count as the empty one.
fn opsets(model: &ModelProto) -> Result<HashMap<&str, i64>, ModelError> {
    let mut opsets = HashMap::new();
    for import in &model.opset_import {
        let domain = short(&import.domain);
        match opsets.insert(domain, import.version) {
            Some(first) if first != import.version => {
                return Err(ModelError::Opsets { domain: domain.to_owned(), first, second: import.version });
            }
            _ => {}
        }
    }
    let (oldest, newest) = (table::OLDEST, table::NEWEST);
    let mut nodes = model.graph.iter().flat_map(|graph| &graph.node);
    let default = opsets.get("").copied();
    match default.or_else(|| nodes.any(|node| short(&node.domain).is_empty()).then_some(0)) {
        Some(found) if !(oldest..=newest).contains(&found) => {
            Err(ModelError::Opset { found, oldest, newest })
        }
        _ => Ok(opsets),
    }
}

struct Translation<'m> {
    proto: &'m GraphProto,
    base: Option<&'m Path>,
    opsets: HashMap<&'m str, i64>,
    /// The domains and names of operators that the model defines itself.
    functions: HashSet<(String, String)>,
    plan: &'m Plan<'m>,
    graph: Graph,
    /// The values of names. `None` for the outputs of nodes that cannot be mapped, and of nodes that need them.
    values: HashMap<&'m str, Option<Value>>,
    problems: Vec<Problem>,
    /// The number of bytes that may still be computed.
    budget: usize,
}

impl<'m> Translation<'m> {
    /// The inputs that have no value in the model.
    fn inputs(&mut self, options: &Options) -> Result<Vec<ValueInfo>, ModelError> {
        let mut sizes = Sizes::new(options);
        let mut inputs = Vec::new();
        for (at, info) in self.proto.input.iter().enumerate() {
            if self.plan.definitions.get(info.name.as_str()) == Some(&Definition::Input(at)) {
                inputs.push((info.name.as_str(), sizes.input(info)?));
            }
        }
        sizes.check()?;
        let mut infos = Vec::new();
        for (name, info) in inputs {
            if count(&info.shape).is_none() {
                let problem = format!("has shape {:?}, which is absurdly large", info.shape);
                return Err(ModelError::Input { input: info.name, problem });
            }
            let id = self.graph.input(name, &info.dtype, described(&info.shape));
            self.values.insert(name, Some(Value { id, shape: info.shape.clone() }));
            infos.push(info);
        }
        Ok(infos)
    }

    /// The initializers that are read.
    fn initializers(&mut self) -> Result<(), OnnxError> {
        for (at, proto) in self.proto.initializer.iter().enumerate() {
            let name = proto.name.as_str();
            let is_it = self.plan.definitions.get(name) == Some(&Definition::Initializer(at));
            if is_it && self.plan.read.contains(name) {
                let value = initializer(&mut self.graph, proto, self.base)?;
                self.values.insert(name, Some(value));
            }
        }
        Ok(())
    }

    /// Translates a node, or records why it cannot be translated.
    fn node(&mut self, at: usize) {
        let proto: &'m NodeProto = &self.proto.node[at];
        let name = node_name(at, proto);
        let made = match self.mapped(proto, &name) {
            Ok(made) => made,
            Err(why) => {
                let why = shortened(why);
                let (domain, op_type) = (short(&proto.domain).to_owned(), proto.op_type.clone());
                let opset = self.opsets.get(domain.as_str()).copied().unwrap_or(0);
                self.problems.push(Problem { node: name, op_type, domain, opset, why });
                None
            }
        };
        let mut made = made.map(Vec::into_iter);
        for name in &proto.output {
            self.values.insert(name, made.as_mut().and_then(Iterator::next));
        }
    }

    /// The values of a node's outputs; `None` if an input comes from a node that cannot be mapped.
    fn mapped(&mut self, proto: &'m NodeProto, name: &str) -> Result<Option<Vec<Value>>, String> {
        let mut inputs = Vec::with_capacity(proto.input.len());
        for input in &proto.input {
            match (input.as_str(), self.values.get(input.as_str())) {
                ("", _) => inputs.push(None),
                (_, Some(Some(value))) => inputs.push(Some(value.clone())),
                (_, _) => return self.row(proto).map(|_| None),
            }
        }
        while inputs.last().is_some_and(Option::is_none) {
            inputs.pop();
        }
        let (row, opset) = self.row(proto)?;
        check(row, &inputs, proto)?;
        let used: Vec<bool> =
            proto.output.iter().map(|name| self.plan.read.contains(name.as_str())).collect();
        let mut node = Node {
            proto,
            name: name.to_owned(),
            opset,
            inputs,
            graph: &mut self.graph,
            base: self.base,
            used: used.clone(),
            budget: &mut self.budget,
        };
        let made = (row.map)(&mut node)?;
        match used.iter().rposition(|used| *used) {
            Some(last) if last >= made.len() => {
                Err(format!("its output `{}` is used, and it has {} here", proto.output[last], made.len()))
            }
            _ => Ok(Some(made)),
        }
    }

    /// The row of the table for a node, and the version of its operator set.
    fn row(&self, proto: &NodeProto) -> Result<(&'static table::Operator, i64), String> {
        let (domain, op_type) = (short(&proto.domain), proto.op_type.as_str());
        if !self.functions.is_empty() && self.functions.contains(&(domain.to_owned(), op_type.to_owned())) {
            return Err(FUNCTION.to_owned());
        }
        match self.opsets.get(domain) {
            Some(opset) => table::find(domain, op_type, *opset).map(|row| (row, *opset)),
            None => Err(format!("the model imports no operator set of its domain `{domain}`")),
        }
    }

    fn outputs(&mut self) -> Result<Vec<ValueInfo>, ModelError> {
        let mut infos = Vec::new();
        for declared in &self.proto.output {
            let value = self.values.get(declared.name.as_str()).cloned().flatten();
            let Some(Value { id, shape }) = value else { continue };
            let dtype = self.graph.tensor(id).dtype.clone();
            let info = ValueInfo { name: declared.name.clone(), dtype, shape };
            check_output(declared, &info)?;
            self.graph.output(&info.name, id)?;
            infos.push(info);
        }
        Ok(infos)
    }
}

/// Checks the number of a node's inputs, and that all of its attributes are known.
fn check(row: &table::Operator, inputs: &[Option<Value>], proto: &NodeProto) -> Result<(), String> {
    let (least, most) = row.inputs;
    let given = inputs.iter().take(least).flatten().count();
    if given < least || inputs.len() > most {
        let expected =
            if most == usize::MAX { format!("{least} or more") } else { format!("{least} to {most}") };
        return Err(format!(
            "it has {}, expected {expected}",
            counted(inputs.iter().flatten().count(), "input")
        ));
    }
    match proto.attribute.iter().find(|attr| !row.attributes.contains(&attr.name.as_str())) {
        Some(attr) => Err(format!("it has an attribute `{}`; known are {:?}", attr.name, row.attributes)),
        None => Ok(()),
    }
}

/// A reason, truncated: it may quote any number of values, for each of any number of nodes.
fn shortened(mut why: String) -> String {
    const MOST: usize = 500;
    if why.len() > MOST {
        why.truncate(why.floor_char_boundary(MOST));
        why.push('…');
    }
    why
}

fn initializer(graph: &mut Graph, proto: &TensorProto, base: Option<&Path>) -> Result<Value, OnnxError> {
    let data = tensor::read(proto, base)?;
    let id = graph.constant(data.dtype, described(&data.shape), data.constant);
    Ok(Value { id, shape: data.shape })
}
