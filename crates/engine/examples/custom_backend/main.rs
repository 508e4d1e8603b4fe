//! A backend of one's own. It is all in `tiny.rs`; `entry.rs` is for the registry, and what is here is as with any other.
//!
//! ```sh
//! cargo run -p opkeep --example custom_backend
//! ```
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "an example is a program, not a library"
)]

mod entry;
mod tiny;

use std::error::Error;
use std::path::Path;

use opkeep::{BuildSpec, Config, Engine, Graph, Registry, StoreConfig};
use opkeep_backend_cpu::{CpuBackend, CpuConfig};

fn main() -> Result<(), Box<dyn Error>> {
    let mut registry = Registry::new();
    registry.add(entry::entry());
    registry.add(CpuBackend::entry(CpuConfig::new("/usr/local/bin:/usr/bin:/bin")));

    let store = tempfile::tempdir()?;
    println!("compiled, but for an operator that it does not have:");
    print!("{}", build(&registry, "tiny", store.path())?);
    println!("and reused:");
    print!("{}", build(&registry, "tiny", store.path())?);

    println!("two backends at once on one store, where neither's kernels are taken for the other's:");
    let told = std::thread::scope(|scope| {
        let build = |target| build(&registry, target, store.path()).map_err(|error| error.to_string());
        let both = ["tiny", "cpu"].map(|target| scope.spawn(move || build(target)));
        both.map(|thread| thread.join().unwrap_or_else(|_| Err("a build panicked".to_owned())))
    });
    for told in told {
        print!("{}", told?);
    }
    Ok(())
}

/// Builds a small network for `target`, and prints the outcome of each kernel.
fn build(registry: &Registry, target: &str, store: &Path) -> Result<String, Box<dyn Error>> {
    let mut graph = Graph::new("example");
    let x = graph.input("x", "float32", [2, 3]);
    let square = graph.node("square", "Square", &[x], [])?;
    let negative = graph.node("negative", "Neg", &[square], [])?;
    graph.node("exponential", "Exp", &[negative], [])?;

    let engine = Engine::new(registry.open(target)?, Config::with_store(StoreConfig::new(store)));
    let report = engine.build(&opkeep::requests(&graph, &BuildSpec::new(target)))?;
    let line = |kernel: &opkeep::KernelReport| {
        let why = kernel.reason.as_deref().unwrap_or("in the store");
        format!("  {target:4} {:8} {} ({why})\n", kernel.outcome, kernel.name)
    };
    Ok(report.kernels.iter().map(line).collect())
}
