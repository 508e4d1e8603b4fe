//! Operator projects, with the build files of the three build systems that compile packages today.
//!
//! A project has its sources where its kind has them, and copies of kernels, generated Python, parameter files and scripts in its
//! build tree. [`write`](Project::write) writes all of it, as a configured project is; from then on only make (or Ninja) runs.

mod built;
mod files;
mod msopgen;
mod nn;
mod plan;
mod scripted;
mod tree;
mod vllm;

pub use built::ProjectTree;
pub use plan::{Project, System};
pub use tree::ProjectTask;
