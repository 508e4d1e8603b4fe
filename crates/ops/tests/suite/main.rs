//! The tests of the operator table, its rules and the graph, one module for each subject.

#[cfg(test)]
mod common;
#[cfg(test)]
mod graph;
#[cfg(test)]
mod movement;
#[cfg(test)]
mod rewrite;
#[cfg(test)]
mod rules;
#[cfg(test)]
mod windows;
