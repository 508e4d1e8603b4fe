//! A backend for a device that no crate here knows. It is all in `ptx.rs`.
//!
//! ```sh
//! cargo run -p opkeep --example ptx_backend
//! ```
#![expect(clippy::print_stdout, reason = "an example is a program, not a library")]

mod ptx;

use std::error::Error;
use std::sync::Arc;

use opkeep::{BuildSpec, Config, Engine, Graph, StoreConfig};

fn main() -> Result<(), Box<dyn Error>> {
    let mut graph = Graph::new("example");
    let x = graph.input("x", "float32", [2, 3]);
    let square = graph.node("square", "Square", &[x], [])?;
    graph.node("negative", "Neg", &[square], [])?;
    let requests = opkeep::requests(&graph, &BuildSpec::new(ptx::TARGET));

    let store = tempfile::tempdir()?;
    let backend = Arc::new(ptx::Ptx { has_check: true });
    let engine = Engine::new(backend, Config::with_store(StoreConfig::new(store.path())));
    for _ in 0..2 {
        for kernel in engine.build(&requests)?.kernels {
            let bytes = kernel.bytes.unwrap_or_default();
            println!("{:8} {} for {}, {bytes} bytes", kernel.outcome, kernel.name, ptx::TARGET);
        }
    }
    let kernel = engine.get_or_build(&requests[0])?;
    print!("{}", String::from_utf8_lossy(&kernel.artifact.object));
    Ok(())
}
