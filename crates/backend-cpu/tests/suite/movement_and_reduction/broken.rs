//! Kernels that are broken on purpose, which the tests must detect.

use opkeep_backend_cpu::{CpuBackend, CpuConfig, Rewrite};

use crate::movement_and_reduction::case::{Case, Node, bytes_of};
use crate::movement_and_reduction::movement;
use crate::movement_and_reduction::reduction;
use opkeep_testkit::TestContext;

// None of the changes below leaves a tensor's memory.

/// A backend that writes `with` where its C of `op_type` has `text`.
fn breaking(op_type: &'static str, text: &'static str, with: &'static str) -> CpuBackend {
    let mut config = CpuConfig::new(crate::common::path());
    config.rewrite = Some(Rewrite::new(move |op, c| match op.op_type == op_type {
        true => c.replace(text, with),
        false => c,
    }));
    CpuBackend::new(config)
}

/// Whether a change is seen: some case that is right otherwise is wrong with it.
fn seen(cases: &[Case], op_type: &'static str, text: &'static str, with: &'static str) {
    let broken = breaking(op_type, text, with);
    let changed = |case: &&Case| {
        let own = case.job.ops[0].op_type == op_type;
        own && opkeep_backend_cpu::generate(&case.job, "KERNEL", |_| None).unwrap().text.contains(text)
    };
    let changed: Vec<&Case> = cases.iter().filter(changed).take(12).collect();
    assert!(!changed.is_empty(), "{op_type} never has `{text}`");
    let wrong = changed.iter().any(|case| match case.run(&broken) {
        Ok(()) => false,
        // A change that does not compile proves nothing.
        Err(problem) => {
            assert!(!problem.contains("error:"), "{problem}");
            true
        }
    });
    assert!(wrong, "{op_type}: `{text}` may as well be `{with}`");
}

#[test]
fn broken_movements_are_seen() {
    seen(&movement::transposes(), "Transpose", "= x[i + j * column_step]", "= x[i]");
    let pieces = movement::concats_and_splits();
    seen(&pieces, "ConcatD", "+ from[piece]", "+ from[0]");
    seen(&pieces, "Split", "row * whole + i", "row * length[piece] + i");
    let gathers = movement::gathers();
    seen(&gathers, "GatherV2", "item < size", "item + 1 < size");
    seen(&gathers, "GatherV2", "(unsigned long)index + size", "(unsigned long)index + size - 1");
    seen(&movement::slices(), "StridedSliceV2", "[-(long)i]", "[-(long)i / 2]");
    let pads = movement::pads();
    seen(&pads, "PadV3", "? -at :", "? -at - 1 :");
    seen(&pads, "PadV3", "value = *", "value = 1 + *");
    seen(&movement::selects(), "SelectV2", "condition != 0", "condition == 0");
}

#[test]
fn broken_reductions_are_seen() {
    let reductions = reduction::reductions();
    seen(&reductions, "ReduceSum", "lane[0] += x[", "lane[0] -= x[");
    seen(&reductions, "ReduceMax", "a > b", "a < b");
    seen(&reduction::long_sums(), "ReduceSum", "double", "float");
    seen(&reduction::odd_values(), "ReduceMax", " || a != a", "");
    let softmaxes = reduction::softmaxes();
    seen(&softmaxes, "SoftmaxV2", "0.693359375f", "0.6933594f + 1e-6f");
    seen(&softmaxes, "SoftmaxV2", " - most)", ")");
    seen(&softmaxes, "LogSoftmaxV2", "- rest", "+ rest");
    let norms = reduction::layer_norms();
    seen(&norms, "LayerNorm", "(variance + 1e-5f)", "(variance + 1e-6f)");
    seen(&norms, "LayerNorm", "(x[i + l] - mean) * (x[i + l] - mean)", "x[i + l] * x[i + l]");
    seen(&reduction::local_responses(), "LRN", ": channel - radius", ": channel - radius + 1");
}

/// A softmax without the last step returns its powers of e, which must be exact to two units, also near 0.
#[test]
fn powers_of_e_are_within_two_units() {
    let plain = breaking("SoftmaxV2", "*= scale", "*= 1.0f");
    // From zero, the maximum, to inputs whose powers are 0.
    let mut values: Vec<f32> = (0..0x42d8_0000u32).step_by(3571).map(|bits| -f32::from_bits(bits)).collect();
    values.extend((0..120_000).map(|at| at as f32 * -0.000_9));
    values.extend([f32::MIN, f32::NEG_INFINITY]);
    let expected: Vec<f64> = values.iter().map(|value| f64::from(*value).exp()).collect();
    let judge = move |found: &[Vec<u8>]| {
        for (at, (expected, found)) in expected.iter().zip(crate::common::floats(&found[0])).enumerate() {
            let rounded = *expected as f32;
            let unit = f64::from(rounded.next_up()) - f64::from(rounded);
            if (f64::from(found) - expected).abs() > 2.0 * unit {
                return Err(format!("element {at} is {found:e}, expected {expected:e}"));
            }
        }
        Ok(())
    };
    let node = Node::new().tensor("float32", &[values.len() as i64], &bytes_of(&values));
    node.case("SoftmaxV2", &[], judge).run(&plain).unwrap();
}

/// Only the rewritten job counts.
#[test]
fn rewritten_kernels_have_other_sources() {
    use opkeep_backend::Backend as _;
    let case = &reduction::long_sums()[0];
    let sources = |backend: &CpuBackend| {
        backend.op_sources(&TestContext::new().cx(), &case.job, &crate::common::spec(backend)).unwrap()
    };
    let ours = sources(crate::common::backend());
    assert_eq!(sources(&breaking("ReduceSum", "no such text", "")), ours);
    assert_eq!(sources(&breaking("ReduceMax", "+=", "-=")), ours);
    assert_ne!(sources(&breaking("ReduceSum", "+=", "-=")), ours);
    let mut config = CpuConfig::new("");
    config.rewrite = Some(Rewrite::new(|_, c| c));
    assert!(format!("{config:?}").contains("Rewrite"));
}
