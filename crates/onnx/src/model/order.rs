//! The definitions of a graph's names, the nodes that lead to an output, and their order.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use crate::ModelError;
use crate::wire::proto::{GraphProto, NodeProto};

/// The definition of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Definition {
    /// An input of the graph: its index.
    Input(usize),
    /// An initializer: its index. It may be an input too, as in models of the format's version 3.
    Initializer(usize),
    /// An output of a node: the node's index.
    Node(usize),
}

/// The part of a graph that its outputs need.
#[derive(Debug)]
pub(crate) struct Plan<'g> {
    /// The definition of each name.
    pub(crate) definitions: HashMap<&'g str, Definition>,
    /// The nodes that lead to an output, each after those whose outputs it reads; in the model's order if possible.
    pub(crate) nodes: Vec<usize>,
    /// The names that these nodes read, and those of the outputs.
    pub(crate) read: HashSet<&'g str>,
}

impl<'g> Plan<'g> {
    /// The plan for `graph`.
    ///
    /// # Errors
    /// Names that are defined twice or not at all, outputs without a unique name, nodes that form a cycle.
    pub(crate) fn of(graph: &'g GraphProto) -> Result<Self, ModelError> {
        check_outputs(graph)?;
        let definitions = definitions(graph)?;
        let (needed, read) = needed(graph, &definitions)?;
        let nodes = sorted(graph, &definitions, &needed)?;
        Ok(Self { definitions, nodes, read })
    }
}

/// The name of a node in messages and in the graph.
pub(crate) fn node_name(index: usize, node: &NodeProto) -> String {
    match node.name.as_str() {
        "" => format!("{}_{index}", node.op_type),
        name => name.to_owned(),
    }
}

/// A domain; the default domain has two names, of which this returns the empty one.
pub(crate) fn short(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

/// The names that a node reads; an omitted input has none.
pub(crate) fn reads(node: &NodeProto) -> impl Iterator<Item = &str> {
    node.input.iter().map(String::as_str).filter(|name| !name.is_empty())
}

fn check_outputs(graph: &GraphProto) -> Result<(), ModelError> {
    if graph.output.is_empty() {
        return Err(ModelError::NoOutputs);
    }
    let mut seen = HashSet::new();
    match graph.output.iter().enumerate().find(|(_, info)| info.name.is_empty() || !seen.insert(&info.name)) {
        Some((index, info)) => Err(ModelError::Output { index, name: info.name.clone() }),
        None => Ok(()),
    }
}

fn definitions(graph: &GraphProto) -> Result<HashMap<&str, Definition>, ModelError> {
    let mut definitions = HashMap::new();
    let inputs = graph.input.iter().enumerate().map(|(at, info)| (&info.name, Definition::Input(at)));
    let constants =
        graph.initializer.iter().enumerate().map(|(at, tensor)| (&tensor.name, Definition::Initializer(at)));
    let outputs = graph.node.iter().enumerate().flat_map(|(at, node)| {
        node.output.iter().filter(|name| !name.is_empty()).map(move |name| (name, Definition::Node(at)))
    });
    for (name, second) in inputs.chain(constants).chain(outputs) {
        let first = definitions.insert(name.as_str(), second);
        let same_thing =
            |first| matches!((first, second), (Definition::Input(_), Definition::Initializer(_)));
        if let Some(first) = first.filter(|first| !same_thing(*first)) {
            let (first, second) = (described(graph, first), described(graph, second));
            return Err(ModelError::DefinedTwice { name: name.clone(), first, second });
        }
    }
    Ok(definitions)
}

fn described(graph: &GraphProto, definition: Definition) -> String {
    match definition {
        Definition::Input(_) => "an input".to_owned(),
        Definition::Initializer(_) => "an initializer".to_owned(),
        Definition::Node(at) => format!("an output of node `{}`", node_name(at, &graph.node[at])),
    }
}

/// The nodes that lead to an output, and the names that are read on the way.
fn needed<'g>(
    graph: &'g GraphProto,
    definitions: &HashMap<&'g str, Definition>,
) -> Result<(Vec<bool>, HashSet<&'g str>), ModelError> {
    let mut needed = vec![false; graph.node.len()];
    let mut read = HashSet::new();
    // Names still to be visited, each with the node that reads it.
    let mut open: Vec<(&str, Option<usize>)> =
        graph.output.iter().map(|info| (info.name.as_str(), None)).collect();
    while let Some((name, reader)) = open.pop() {
        if !read.insert(name) {
            continue;
        }
        match definitions.get(name) {
            Some(Definition::Node(at)) if !std::mem::replace(&mut needed[*at], true) => {
                open.extend(reads(&graph.node[*at]).map(|name| (name, Some(*at))));
            }
            Some(_) => {}
            None => {
                let reader = match reader {
                    Some(at) => format!("node `{}`", node_name(at, &graph.node[at])),
                    None => "the list of outputs".to_owned(),
                };
                return Err(ModelError::Undefined { name: name.to_owned(), reader });
            }
        }
    }
    Ok((needed, read))
}

/// The needed nodes, each after those whose outputs it reads; if there is a choice, the first in the model.
fn sorted(
    graph: &GraphProto,
    definitions: &HashMap<&str, Definition>,
    needed: &[bool],
) -> Result<Vec<usize>, ModelError> {
    let sources = |at: usize| {
        reads(&graph.node[at]).filter_map(|name| match definitions.get(name) {
            Some(Definition::Node(source)) => Some(*source),
            _ => None,
        })
    };
    let nodes: Vec<usize> = (0..graph.node.len()).filter(|at| needed[*at]).collect();
    let mut waiting = vec![0usize; graph.node.len()];
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); graph.node.len()];
    for at in &nodes {
        for source in sources(*at) {
            waiting[*at] += 1;
            readers[source].push(*at);
        }
    }
    let mut ready: BinaryHeap<Reverse<usize>> =
        nodes.iter().filter(|at| waiting[**at] == 0).map(|at| Reverse(*at)).collect();
    let mut sorted = Vec::with_capacity(nodes.len());
    while let Some(Reverse(at)) = ready.pop() {
        sorted.push(at);
        for reader in &readers[at] {
            waiting[*reader] -= 1;
            if waiting[*reader] == 0 {
                ready.push(Reverse(*reader));
            }
        }
    }
    match nodes.iter().find(|at| waiting[**at] > 0) {
        None => Ok(sorted),
        Some(first) => Err(cycle(graph, *first, |at| sources(at).find(|source| waiting[*source] > 0))),
    }
}

/// The cycle that is reached from the waiting node `at` by following the nodes that are waited for.
fn cycle(graph: &GraphProto, mut at: usize, waits_for: impl Fn(usize) -> Option<usize>) -> ModelError {
    let mut path: Vec<usize> = Vec::new();
    let mut place: HashMap<usize, usize> = HashMap::new();
    let start = loop {
        if let Some(start) = place.get(&at) {
            break *start;
        }
        place.insert(at, path.len());
        path.push(at);
        // A waiting node always waits for another.
        at = waits_for(at).unwrap_or(at);
    };
    // The walk went against the data flow.
    let name = |at: &usize| node_name(*at, &graph.node[*at]);
    ModelError::Cycle { nodes: std::iter::once(&at).chain(path[start..].iter().rev()).map(name).collect() }
}
