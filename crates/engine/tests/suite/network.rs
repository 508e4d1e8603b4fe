//! Networks: built node by node, run as a whole.

use std::num::NonZeroUsize;
use std::sync::Arc;

use opkeep::{BuiltNetwork, Engine, Outcome, RunError, Session};
use opkeep_backend::{Backend, Buffer};
use opkeep_backend_cpu::{CpuBackend, CpuConfig};
use opkeep_descriptor::BuildSpec;
use opkeep_fs::CancelToken;
use opkeep_ops::{Constant, Graph, TensorId};

use crate::common::Bench;

fn backend() -> Arc<CpuBackend> {
    Arc::new(CpuBackend::new(CpuConfig::new("/usr/local/bin:/usr/bin:/bin")))
}

fn built(engine: &Engine, graph: Graph) -> BuiltNetwork {
    let built = engine.build_network(graph, &BuildSpec::new("cpu")).unwrap();
    assert_eq!(built.report.count(Outcome::Failed), 0, "{:?}", built.report.kernels);
    built
}

/// The outputs of one run, and the nodes in the order in which they ran.
fn run(built: &BuiltNetwork, inputs: &[&[f32]], threads: usize) -> (Vec<Vec<f32>>, Vec<usize>) {
    let backend = backend();
    let session = built.load(backend.loader().unwrap()).unwrap();
    let inputs: Vec<Buffer> = inputs.iter().map(|values| Buffer::of_f32(values)).collect();
    let inputs: Vec<&[u8]> = inputs.iter().map(Buffer::bytes).collect();
    let mut ran = Vec::new();
    let threads = NonZeroUsize::new(threads).unwrap();
    let outputs = session.run(&inputs, threads, &CancelToken::new(), |step| ran.push(step.node)).unwrap();
    (outputs.iter().map(Buffer::to_f32).collect(), ran)
}

fn weights(graph: &mut Graph, values: &[f32]) -> TensorId {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    graph.constant("float32", [values.len() as i64], Constant::of_bytes(bytes))
}

#[test]
fn a_network_of_every_kind_of_tensor_runs() {
    let bench = Bench::new();
    let engine = bench.engine_of(backend());
    let mut graph = Graph::new("kinds");
    let x = graph.input("x", "float32", [2, 3]);
    let row = weights(&mut graph, &[10.0, 20.0, 30.0]);
    let two = graph.constant("float32", [], Constant::Fill(2f32.to_le_bytes().to_vec()));
    let sum = graph.node("sum", "Add", &[x, row], []).unwrap();
    let flat = graph.view(sum, [6]).unwrap();
    let doubled = graph.node("doubled", "Mul", &[flat, two], []).unwrap();
    // The same job again: another node, the same kernel.
    let again = graph.node("again", "Mul", &[doubled, two], []).unwrap();
    let back = graph.view(again, [2, 3]).unwrap();
    for (name, id) in
        [("result", back), ("twice", again), ("input", x), ("weights", row), ("two", two), ("flat", flat)]
    {
        graph.output(name, id).unwrap();
    }
    let network = built(&engine, graph.clone());
    assert_eq!((network.report.requests, network.report.kernels.len()), (3, 2));

    let (outputs, ran) = run(&network, &[&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]], 2);
    let sums = [11.0, 22.0, 33.0, 14.0, 25.0, 36.0];
    let fourfold = sums.map(|value| value * 4.0).to_vec();
    assert_eq!(outputs[0], fourfold);
    assert_eq!(outputs[1], fourfold);
    assert_eq!(outputs[2], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(outputs[3], [10.0, 20.0, 30.0]);
    assert_eq!(outputs[4], [2.0]);
    assert_eq!(outputs[5], sums);
    assert_eq!(ran, [0, 1, 2]);

    let again = built(&engine, graph);
    assert_eq!(again.report.count(Outcome::Reused), 2);
}

/// The memory of a tensor is reused for another one. In any graph, no tensor is overwritten before its last read.
#[test]
fn memory_is_reused_only_after_its_last_read() {
    let bench = Bench::new();
    let engine = bench.engine_of(backend());
    let mut state = 7u64;
    let mut below = move |bound: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % bound
    };
    for _ in 0..12 {
        let mut graph = Graph::new("random");
        let length = 2000;
        let start: Vec<f32> = (0..length).map(|i| (i as f32 * 0.37).sin()).collect();
        let mut values = vec![start.clone()];
        let mut tensors = vec![graph.input("x", "float32", [length as i64])];
        for at in 0..40 {
            // Mostly the latest tensors, so that the last reads of older ones are spread over the run.
            let newest = tensors.len();
            let mut pick = || newest - 1 - below(newest.min(6));
            let (a, b) = (pick(), pick());
            let (op_type, made): (_, Vec<f32>) = match below(4) {
                0 => ("Add", values[a].iter().zip(&values[b]).map(|(a, b)| a + b).collect()),
                1 => ("Maximum", values[a].iter().zip(&values[b]).map(|(a, b)| a.max(*b)).collect()),
                2 => ("Neg", values[a].iter().map(|a| -a).collect()),
                _ => ("Abs", values[a].iter().map(|a| a.abs()).collect()),
            };
            let inputs = [tensors[a], tensors[b]];
            let inputs = if matches!(op_type, "Neg" | "Abs") { &inputs[..1] } else { &inputs[..] };
            let name = format!("{op_type}_{at}");
            let mut made_id = graph.node(&name, op_type, inputs, []).unwrap();
            if below(3) == 0 {
                made_id = graph.view(made_id, [1, length as i64]).unwrap();
                made_id = graph.view(made_id, [length as i64]).unwrap();
            }
            tensors.push(made_id);
            values.push(made);
        }
        let mut expected = Vec::new();
        for at in (0..tensors.len()).filter(|_| below(5) == 0).collect::<Vec<_>>() {
            graph.output(&format!("tap {at}"), tensors[at]).unwrap();
            expected.push(values[at].clone());
        }
        let network = built(&engine, graph);
        let (outputs, _) = run(&network, &[&start], 1);
        assert_eq!(outputs, expected);
    }
}

#[test]
fn inputs_that_do_not_fit_are_refused() {
    let bench = Bench::new();
    let engine = bench.engine_of(backend());
    let mut graph = Graph::new("small");
    let x = graph.input("x", "float32", [4]);
    let y = graph.node("y", "Neg", &[x], []).unwrap();
    graph.output("y", y).unwrap();
    let network = built(&engine, graph);
    let backend = backend();
    let session = network.load(backend.loader().unwrap()).unwrap();
    let refused = |inputs: &[&[u8]]| {
        session.run(inputs, NonZeroUsize::MIN, &CancelToken::new(), |_| ()).unwrap_err().to_string()
    };
    assert_eq!(refused(&[]), "input count: expected 1, found 0");
    assert_eq!(refused(&[&[0; 12]]), "input `x`, bytes: expected 16, found 12");
    let cancel = CancelToken::new();
    cancel.cancel();
    let cancelled = session.run(&[&[0; 16]], NonZeroUsize::MIN, &cancel, |_| ());
    assert!(matches!(cancelled, Err(RunError::Cancelled)));

    let other = Graph::new("other");
    let mismatched = Session::new(&other, &network.report, backend.loader().unwrap());
    assert!(matches!(mismatched, Err(RunError::Report { expected: _, found: _ })));
}

#[test]
fn a_node_without_a_kernel_is_named() {
    let bench = Bench::new();
    let engine = bench.engine_of(backend());
    let mut graph = Graph::new("half");
    let x = graph.input("x", "float16", [4]);
    let y = graph.node("half/neg", "Neg", &[x], []).unwrap();
    graph.output("y", y).unwrap();
    let network = engine.build_network(graph, &BuildSpec::new("cpu")).unwrap();
    assert_eq!(network.report.count(Outcome::Failed), 1);
    let error = network.load(backend().loader().unwrap()).err().unwrap().to_string();
    assert!(error.contains("half/neg") && error.contains("float16"), "{error}");
}

/// A constant that cannot be read is an error of the run, not of the build, which does not need it.
#[test]
fn constants_are_read_when_a_run_needs_them() {
    #[derive(Debug)]
    struct Gone;
    impl opkeep_ops::Elements for Gone {
        fn copy_to(&self, _: &mut [u8]) -> std::io::Result<()> {
            Err(std::io::Error::other("the file is gone"))
        }
    }
    let bench = Bench::new();
    let mut graph = Graph::new("gone");
    let x = graph.input("x", "float32", [4]);
    let gone = graph.constant("float32", [4], Constant::Elements(Arc::new(Gone)));
    let y = graph.node("y", "Add", &[x, gone], []).unwrap();
    graph.output("y", y).unwrap();
    let network = built(&bench.engine_of(backend()), graph);
    let error = network.load(backend().loader().unwrap()).err().unwrap().to_string();
    assert!(error.contains("[4]") && error.contains("the file is gone"), "{error}");
}

/// The query of the compiler begins while the caller still reads the network.
#[test]
#[expect(clippy::disallowed_methods, reason = "a compiler is laid out on disk")]
fn the_compiler_is_asked_ahead() {
    let bench = Bench::new();
    let dir = tempfile::tempdir().unwrap();
    let (script, log) = (dir.path().join("cc.sh"), dir.path().join("log"));
    std::fs::write(&script, format!("#!/bin/sh\necho asked >> '{}'; exec cc \"$@\"\n", log.display()))
        .unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut config = CpuConfig::new("/usr/local/bin:/usr/bin:/bin");
    config.compiler = Some(script.display().to_string());
    let backend: Arc<dyn Backend> = Arc::new(CpuBackend::new(config));
    let asked = || std::fs::read_to_string(&log).unwrap_or_default().lines().count();
    let began = std::time::Instant::now();
    let engine = bench.engine_of(backend);
    engine.warm_up();
    while asked() == 0 {
        assert!(began.elapsed().as_secs() < 60, "nobody asked");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}
