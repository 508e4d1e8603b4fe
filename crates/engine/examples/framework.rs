//! A framework that uses these crates: it builds the operators that it knows at once, and the others when it meets them.
//!
//! ```sh
//! cargo run -p opkeep --example framework -- cpu
//! ```
//!
//! `cpu` is the only value that selects the target. `cpu-native` makes use of all that this processor has, and `tiny` is
//! the backend of the example `custom_backend`.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "an example is a program, not a library"
)]

#[path = "custom_backend/entry.rs"]
mod entry;
#[path = "custom_backend/tiny.rs"]
mod tiny;

use std::error::Error;

use opkeep::{BuildSpec, Config, Engine, Graph, Registry, Request, StoreConfig, ViewConfig, read_info};
use opkeep_backend_cpu::{CpuBackend, CpuConfig};

fn main() -> Result<(), Box<dyn Error>> {
    let target = std::env::args().nth(1).unwrap_or_else(|| "cpu".to_owned());
    let spec = BuildSpec::new(target.as_str());

    // The framework chooses its backends.
    let mut registry = Registry::new();
    registry.add(CpuBackend::entry(CpuConfig::new("/usr/local/bin:/usr/bin:/bin")));
    registry.add(entry::entry());

    let dir = tempfile::tempdir()?;
    let mut config = Config::with_store(StoreConfig::new(dir.path().join("store")));
    config.view = Some(ViewConfig::rank(dir.path(), "0"));
    let engine = Engine::new(registry.open(&target)?, config).with_observer(|event| println!("  {event}"));

    println!("the known operators, at once:");
    let requests = descriptors(&spec)?;
    let report = engine.build(&requests)?;
    for kernel in &report.kernels {
        println!("{} is {}, for {}", kernel.name, kernel.outcome, kernel.requested_by.join(", "));
    }
    if let Some(placed) = report.view {
        println!("kernels where the framework looks for them: {}", placed?.names.len());
    }

    println!("one by one, from three threads:");
    let network = network(&spec)?;
    std::thread::scope(|scope| {
        for name in ["one", "two", "three"] {
            let (engine, network) = (&engine, &network);
            scope.spawn(move || {
                for operator in network {
                    match engine.get_or_build(operator) {
                        Ok(kernel) => {
                            println!("{name}: {} has {} bytes", kernel.name, kernel.artifact.object.len())
                        }
                        Err(error) => println!("{name}: no kernel for {}: {error}", operator.name()),
                    }
                }
            });
        }
    });
    Ok(())
}

/// Descriptors of other programs, here of MindSpore, and for another chip.
fn descriptors(spec: &BuildSpec) -> Result<Vec<Request>, Box<dyn Error>> {
    let mut requests = Vec::new();
    for file in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/mindspore"))? {
        let path = file?.path();
        if path.extension().is_some_and(|extension| extension == "info") {
            let descriptor = read_info(&std::fs::read(&path)?)?;
            requests.push(Request::new(descriptor).with_spec(spec.clone()));
        }
    }
    Ok(requests)
}

/// The framework's own network. Two of the three operators are equal, so they are one kernel.
fn network(spec: &BuildSpec) -> Result<Vec<Request>, Box<dyn Error>> {
    let mut graph = Graph::new("example");
    let x = graph.input("x", "float32", [8, 16]);
    let first = graph.node("first", "Neg", &[x], [])?;
    let square = graph.node("square", "Square", &[first], [])?;
    graph.node("second", "Neg", &[square], [])?;
    Ok(opkeep::requests(&graph, spec))
}
