//! Operators to build: of networks, and generated ones.
#![allow(dead_code, reason = "each benchmark uses its own part of this")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot be set up has no figures")]

use std::path::Path;

use opkeep::{Request, requests};
use opkeep_backend_cpu::{CpuBackend, CpuConfig};
use opkeep_benches::search_path;
use opkeep_descriptor::{Arg, BuildSpec, Source};
use opkeep_ops::Graph;
use opkeep_testkit::{corpus, descriptor};

/// The backend of this machine, with the caller's compiler.
pub(crate) fn cpu() -> CpuBackend {
    CpuBackend::new(CpuConfig::new(search_path()))
}

/// The directory of the project's own networks.
const OURS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/networks");

/// The project's own network called `name`.
pub(crate) fn ours(name: &str) -> Graph {
    read(&Path::new(OURS).join(name).join("model.onnx"))
}

/// The ONNX project's network called `name`, if there is a corpus.
pub(crate) fn theirs(name: &str) -> Option<Graph> {
    let path = corpus::directory()?.join("onnx").join(name);
    path.is_file().then(|| read(&path))
}

fn read(path: &Path) -> Graph {
    opkeep_onnx::read(path, &opkeep_onnx::Options::default()).unwrap().graph
}

/// The requests of a framework that runs `graph` on this machine.
pub(crate) fn of(graph: &Graph) -> Vec<Request> {
    requests(graph, &BuildSpec::new("cpu"))
}

/// Different operators of one type.
pub(crate) fn alike(kernels: usize) -> Vec<Request> {
    (1..=kernels as i64).map(|length| Request::new(descriptor("node", "Square", &[&[length]]))).collect()
}

/// One job of several operators, each of which takes the output of the one before it.
pub(crate) fn fused(operators: usize) -> Request {
    let mut request = alike(1).remove(0);
    let job = &mut request.descriptor.job;
    for before in 0..operators - 1 {
        let mut op = job.ops[0].clone();
        for input in &mut op.inputs {
            if let Arg::One(input) = input {
                input.source = Source::Op { op: before, output: 0 };
            }
        }
        job.ops.push(op);
    }
    request
}
