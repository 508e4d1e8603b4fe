//! Broken kernels are found: a network with reference outputs detects one wrong pad, stride, epsilon or axis.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use opkeep_backend::{Backend, Buffer};
use opkeep_backend_cpu::{CpuBackend, CpuConfig, Rewrite, generate};
use opkeep_descriptor::{Arg, AttrValue, BuildSpec, Data, Extra, Float, Job, Op};
use opkeep_fs::CancelToken;
use opkeep_onnx::{Options, read, read_tensor};

use crate::common::Bench;

/// The maximum error of an element, relative to the root mean square of the reference.
const LIMIT: f64 = 1e-3;

fn fixture(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/networks")).join(name)
}

/// Returns the greatest error of each output of a fixture, relative to its root mean square.
fn errors(bench: &Bench, network: &str, rewrite: Option<Rewrite>) -> Vec<f64> {
    let mut config = CpuConfig::new("/usr/local/bin:/usr/bin:/bin");
    config.rewrite = rewrite;
    let backend = Arc::new(CpuBackend::new(config));
    let dir = fixture(network);
    let model = read(&dir.join("model.onnx"), &Options::default()).unwrap();
    let given = (0..model.inputs.len()).map(|at| read_tensor(&dir.join(format!("input_{at}.pb"))).unwrap());
    let given: Vec<_> = given.collect();
    let inputs = model.inputs.iter().map(|input| {
        let tensor = given.iter().find(|tensor| tensor.name == input.name).unwrap();
        let mut buffer = Buffer::zeroed(tensor.bytes.len());
        buffer.bytes_mut().copy_from_slice(&tensor.bytes);
        buffer
    });
    let inputs: Vec<Buffer> = inputs.collect();
    let inputs: Vec<&[u8]> = inputs.iter().map(Buffer::bytes).collect();

    let engine = bench.engine_of(Arc::<CpuBackend>::clone(&backend));
    let built = engine.build_network(model.graph, &BuildSpec::new("cpu")).unwrap();
    let session = built.load(backend.loader().unwrap()).unwrap();
    let outputs = session.run(&inputs, NonZeroUsize::MIN, &CancelToken::new(), |_| ()).unwrap();
    let error = |(at, output): (usize, &Buffer)| {
        let reference = read_tensor(&dir.join(format!("output_{at}.pb"))).unwrap();
        assert_eq!(reference.name, model.outputs[at].name);
        let (words, _) = reference.bytes.as_chunks::<4>();
        let expected: Vec<f64> = words.iter().map(|word| f64::from(f32::from_le_bytes(*word))).collect();
        let square = expected.iter().map(|value| value * value).sum::<f64>() / expected.len() as f64;
        let found = output.to_f32();
        assert_eq!(found.len(), expected.len());
        let distances =
            found.iter().zip(&expected).map(|(found, expected)| (f64::from(*found) - expected).abs());
        // A value that is not a number is the largest error.
        distances.map(|error| if error.is_nan() { f64::INFINITY } else { error }).fold(0.0, f64::max)
            / square.sqrt()
    };
    outputs.iter().enumerate().map(error).collect()
}

/// A change to the kernel of the first operator that it fits.
fn broken(
    change: impl Fn(&Op, &str) -> Option<String> + Send + Sync + 'static,
) -> (Rewrite, Arc<AtomicUsize>) {
    let broken = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&broken);
    // The C of a kernel is generated several times. The change must apply to the same operator each time.
    let chosen: Mutex<Option<Op>> = Mutex::new(None);
    let rewrite = Rewrite::new(move |op, c| {
        let mut chosen = chosen.lock().unwrap();
        if chosen.as_ref().is_some_and(|chosen| chosen != op) {
            return c;
        }
        match change(op, &c) {
            Some(changed) if changed != c => {
                *chosen = Some(op.clone());
                count.fetch_add(1, Ordering::Relaxed);
                changed
            }
            _ => c,
        }
    });
    (rewrite, broken)
}

/// Returns the C of `op` with other attributes, under the name that `c` has.
fn with_attribute(op: &Op, c: &str, name: &str, value: AttrValue) -> Option<String> {
    let mut op = op.clone();
    let attr = op.attrs.as_mut()?.iter_mut().find(|attr| attr.name == name)?;
    attr.value = value;
    let tensors = |arg: &Arg<opkeep_descriptor::Input>| match arg {
        Arg::One(input) => vec![Arg::One(input.tensor.clone())],
        Arg::Many(inputs) => vec![Arg::Many(inputs.iter().map(|input| input.tensor.clone()).collect())],
        Arg::Absent(_) => Vec::new(),
    };
    let data = op.inputs.iter().map(tensors).filter(|outputs| !outputs.is_empty());
    let data = data.map(|outputs| Data { outputs, extra: Extra::new() }).collect();
    let (before, _) = c.split_once("(const void *const *inputs")?;
    let symbol = before.rsplit(' ').next()?;
    let job = Job { data, ops: vec![op], l1_size: -1, extra: Extra::new() };
    Some(generate(&job, symbol, |_| None).unwrap().text)
}

fn attribute<'a>(op: &'a Op, name: &str) -> Option<&'a AttrValue> {
    op.attrs.as_ref()?.iter().find(|attr| attr.name == name).map(|attr| &attr.value)
}

#[track_caller]
fn is_found(network: &str, what: &str, (rewrite, broken): (Rewrite, Arc<AtomicUsize>)) {
    let errors = errors(&Bench::new(), network, Some(rewrite));
    assert!(broken.load(Ordering::Relaxed) > 0, "{network} has no kernel to break: {what}");
    assert!(errors.iter().any(|error| *error > LIMIT), "{network} does not see {what}: {errors:?}");
}

/// The reference: no flaw, no finding.
#[test]
fn kernels_that_are_right_pass() {
    let bench = Bench::new();
    for network in ["lenet", "squeezenet", "resnet18", "bert"] {
        let errors = errors(&bench, network, None);
        assert!(errors.len() > 4 && errors.iter().all(|error| *error <= LIMIT), "{network}: {errors:?}");
    }
}

#[test]
fn one_pad_is_seen() {
    // One row less at the top and one more at the bottom: the shape is the same.
    let shift = |op: &Op, c: &str| match attribute(op, "pads")?.to_ints()?.as_slice() {
        [top, bottom, left, right] if *top > 0 => {
            with_attribute(op, c, "pads", AttrValue::ints(&[top - 1, bottom + 1, *left, *right]))
        }
        _ => None,
    };
    let of =
        |op_type: &'static str| broken(move |op, c| if op.op_type == op_type { shift(op, c) } else { None });
    for network in ["lenet", "squeezenet", "resnet18"] {
        is_found(network, "a pad of a convolution", of("Conv2D"));
    }
    is_found("resnet18", "a pad of a pooling", of("MaxPoolV3"));
}

#[test]
fn one_stride_is_seen() {
    let stride = || {
        broken(|op, c| {
            (op.op_type == "Conv2D").then(|| c.replace("#define STRIDE_X 2", "#define STRIDE_X 1"))
        })
    };
    is_found("resnet18", "a stride", stride());
    is_found("squeezenet", "a stride", stride());
}

#[test]
fn one_epsilon_is_seen() {
    let epsilon = |op_type: &'static str| {
        broken(move |op, c| {
            let larger = AttrValue::Float(Float::new(0.01));
            if op.op_type == op_type { with_attribute(op, c, "epsilon", larger) } else { None }
        })
    };
    is_found("resnet18", "an epsilon", epsilon("BNInfer"));
    is_found("bert", "an epsilon", epsilon("LayerNorm"));
}

#[test]
fn one_axis_is_seen() {
    // The matrices of attention are square, so the neighbouring axis has the same length.
    let axis = broken(|op, c| match (op.op_type.as_str(), attribute(op, "axes")) {
        ("SoftmaxV2", Some(_)) => with_attribute(op, c, "axes", AttrValue::ints(&[2])),
        _ => None,
    });
    is_found("bert", "an axis", axis);
}
