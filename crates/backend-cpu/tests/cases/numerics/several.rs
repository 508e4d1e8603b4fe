//! Operators with more than two inputs, or with element types other than floats.

use std::sync::Arc;

use libtest_mimic::{Failed, Trial};
use opkeep_backend::Backend;
use opkeep_backend_cpu::CpuBackend;
use opkeep_descriptor::Attr;
use opkeep_ops::{Graph, float_attr, ge_number, int_attr};

use crate::numerics::inputs;

type Check = Box<dyn Fn(&CpuBackend) -> Result<(), Failed> + Send>;

/// Tests of `backend`, whose compiler is called `compiler`.
pub(crate) fn trials(compiler: &str, backend: &Arc<CpuBackend>) -> Vec<Trial> {
    let named = |name: String, check: Check| {
        let backend = Arc::clone(backend);
        Trial::test(format!("{compiler}::{name}"), move || check(&backend))
    };
    let mut trials = vec![
        named("ClipByValue".into(), Box::new(clip)),
        named("AccumulateNV2".into(), Box::new(accumulate)),
        named("PRelu".into(), Box::new(p_relu)),
        named("BNInfer".into(), Box::new(bn_infer)),
    ];
    for (op_type, truth) in LOGIC {
        trials.push(named(format!("{op_type}_of_bool"), Box::new(move |b| logic(b, op_type, truth))));
    }
    for dtype in ["int32", "int64"] {
        for (op_type, f) in WHOLE {
            trials
                .push(named(format!("{op_type}_of_{dtype}"), Box::new(move |b| whole(b, dtype, op_type, f))));
        }
    }
    for from in CASTS {
        trials.push(named(format!("Cast_from_{from}"), Box::new(move |b| casts(b, from))));
    }
    trials
}

/// The outputs of an operator: element type, shape, bytes.
fn run(
    backend: &CpuBackend,
    op_type: &str,
    inputs: &[(&str, &[i64], Vec<u8>)],
    attrs: &[Attr],
) -> Result<Vec<u8>, Failed> {
    let mut graph = Graph::new("case");
    let ids: Vec<_> = inputs
        .iter()
        .enumerate()
        .map(|(at, (dtype, shape, _))| graph.input(&at.to_string(), dtype, *shape))
        .collect();
    graph.node("node", op_type, &ids, attrs)?;
    let job = graph.jobs().remove(0).1;
    let artifact = crate::common::compile(backend, &job)?;
    let kernel = backend.loader().ok_or("no loader")?.load(&artifact, &job)?;
    let bytes: Vec<Vec<u8>> = inputs.iter().map(|input| input.2.clone()).collect();
    Ok(crate::common::launch_bytes(&*kernel, &bytes, 2).remove(0))
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

/// Whether the bits are equal, or both are NaN.
fn equal(expected: &[f32], found: &[u8]) -> Result<(), Failed> {
    let found = crate::common::floats(found);
    let differ = |(expected, found): (&f32, &f32)| {
        expected.to_bits() != found.to_bits() && !(expected.is_nan() && found.is_nan())
    };
    match expected.iter().zip(&found).position(differ) {
        None if expected.len() == found.len() => Ok(()),
        at => {
            Err(format!("{at:?} of {}: {:?}", expected.len(), at.map(|at| (expected[at], found[at]))).into())
        }
    }
}

fn clip(backend: &CpuBackend) -> Result<(), Failed> {
    let x = inputs::unary();
    let shape = [x.len() as i64];
    // The last bounds contradict each other: the upper one holds.
    for (low, high) in [(-1.5f32, 2.0f32), (0.0, 6.0), (f32::MIN, f32::MAX), (3.0, -3.0)] {
        let expected: Vec<f32> = x
            .iter()
            .map(|x| {
                let raised = if *x > low || x.is_nan() { *x } else { low };
                if raised < high || x.is_nan() { raised } else { high }
            })
            .collect();
        let inputs = [
            ("float32", &shape[..], bytes(&x)),
            ("float32", &[1], bytes(&[low])),
            ("float32", &[1], bytes(&[high])),
        ];
        equal(&expected, &run(backend, "ClipByValue", &inputs, &[])?)?;
    }
    let x = [i32::MIN, -5, -4, 0, 6, 7, 8, i32::MAX];
    let of = |values: &[i32]| values.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<u8>>();
    for (low, high, expected) in [(-4, 7, [-4, -4, -4, 0, 6, 7, 7, 7]), (7, -4, [-4; 8])] {
        let inputs = [("int32", &[8][..], of(&x)), ("int32", &[1], of(&[low])), ("int32", &[1], of(&[high]))];
        let found = run(backend, "ClipByValue", &inputs, &[])?;
        if found != of(&expected) {
            return Err(format!("{low} to {high}: {found:?}").into());
        }
    }
    Ok(())
}

fn accumulate(backend: &CpuBackend) -> Result<(), Failed> {
    let (a, b, c) =
        (crate::common::numbers(60, 1), crate::common::numbers(12, 2), crate::common::numbers(5, 3));
    let expected: Vec<f32> = (0..60).map(|at| (a[at] + b[at / 5]) + c[at % 5]).collect();
    let inputs = [
        ("float32", &[3, 4, 5][..], bytes(&a)),
        ("float32", &[3, 4, 1], bytes(&b)),
        ("float32", &[5], bytes(&c)),
    ];
    equal(&expected, &run(backend, "AccumulateNV2", &inputs, &[int_attr("N", 3)])?)?;
    equal(&a, &run(backend, "AccumulateNV2", &inputs[..1], &[int_attr("N", 1)])?)?;
    let of = |values: [i64; 3]| values.into_iter().flat_map(i64::to_ne_bytes).collect::<Vec<u8>>();
    let inputs = [("int64", &[3][..], of([i64::MAX, 2, -9])), ("int64", &[3], of([1, 3, -9]))];
    let found = run(backend, "AccumulateNV2", &inputs, &[int_attr("N", 2)])?;
    if found != of([i64::MIN, 5, -18]) {
        return Err("whole numbers do not wrap".into());
    }
    // Many inputs are added in a loop, in the same order.
    let length = 40_000;
    let many: Vec<Vec<f32>> = (0..100).map(|seed| crate::common::numbers(length, seed)).collect();
    let add = |so_far: Vec<f32>, next: &Vec<f32>| so_far.iter().zip(next).map(|(a, b)| a + b).collect();
    let expected = many[1..].iter().fold(many[0].clone(), add);
    let inputs: Vec<_> = many.iter().map(|values| ("float32", &[200, 200][..], bytes(values))).collect();
    equal(&expected, &run(backend, "AccumulateNV2", &inputs, &[int_attr("N", 100)])?)?;
    let inputs: Vec<_> = (0..50).map(|at| ("int64", &[3][..], of([i64::MAX, at, -9]))).collect();
    let found = run(backend, "AccumulateNV2", &inputs, &[int_attr("N", 50)])?;
    if found == of([-50, 1225, -450]) { Ok(()) } else { Err("many whole numbers do not wrap".into()) }
}

/// One value for each channel, or one for all.
fn p_relu(backend: &CpuBackend) -> Result<(), Failed> {
    let (x, slopes) = (crate::common::numbers(2 * 3 * 35, 4), [0.25f32, -2.0, 0.0]);
    let shape = [2, 3, 5, 7];
    let relu = |x: f32, slope: f32| if x > 0.0 { x } else { slope * x };
    let expected: Vec<f32> = x.iter().enumerate().map(|(at, x)| relu(*x, slopes[at / 35 % 3])).collect();
    let inputs = [("float32", &shape[..], bytes(&x)), ("float32", &[3], bytes(&slopes))];
    equal(&expected, &run(backend, "PRelu", &inputs, &[])?)?;
    let expected: Vec<f32> = x.iter().map(|x| relu(*x, 0.125)).collect();
    let inputs = [("float32", &shape[..], bytes(&x)), ("float32", &[1], bytes(&[0.125]))];
    equal(&expected, &run(backend, "PRelu", &inputs, &[])?)?;
    let expected: Vec<f32> = x[..6].iter().enumerate().map(|(at, x)| relu(*x, slopes[at % 3])).collect();
    let inputs = [("float32", &[2, 3][..], bytes(&x[..6])), ("float32", &[3], bytes(&slopes))];
    equal(&expected, &run(backend, "PRelu", &inputs, &[])?)
}

fn bn_infer(backend: &CpuBackend) -> Result<(), Failed> {
    for (shape, epsilon) in [(vec![2, 5, 6, 6], 1e-5f32), (vec![40, 5], 0.5), (vec![3, 5, 2], 1e-3)] {
        let count = shape.iter().product::<i64>() as usize;
        let pixels = count / 5 / shape[0] as usize;
        let x = crate::common::numbers(count, 5);
        let of = |seed, off: f32| {
            crate::common::numbers(5, seed).iter().map(|v| v / 64.0 + off).collect::<Vec<f32>>()
        };
        let (scale, offset, mean, variance) = (of(6, 0.5), of(7, 0.0), of(8, 1.0), of(9, 2.5));
        let parameter = |values: &Vec<f32>| ("float32", &[5i64][..], bytes(values));
        let inputs = [
            ("float32", &shape[..], bytes(&x)),
            parameter(&scale),
            parameter(&offset),
            parameter(&mean),
            parameter(&variance),
        ];
        let found =
            crate::common::floats(&run(backend, "BNInfer", &inputs, &[float_attr("epsilon", epsilon)])?);
        for (at, (x, found)) in x.iter().zip(found).enumerate() {
            let channel = at / pixels % 5;
            let of = |values: &[f32]| f64::from(values[channel]);
            let deviation = (of(&variance) + f64::from(epsilon)).sqrt();
            let scaled = (f64::from(*x) - of(&mean)) / deviation * of(&scale);
            let expected = scaled + of(&offset);
            if (f64::from(found) - expected).abs() > 3e-7 * (scaled.abs() + of(&offset).abs()) {
                return Err(format!("{shape:?} at {at}: expected {expected:e}, found {found:e}").into());
            }
        }
    }
    Ok(())
}

type Truth = fn(bool, bool) -> bool;

const LOGIC: [(&str, Truth); 6] = [
    ("LogicalAnd", |a, b| a && b),
    ("LogicalOr", |a, b| a || b),
    ("LogicalXor", |a, b| a ^ b),
    ("LogicalNot", |a, _| !a),
    ("Equal", |a, b| a == b),
    ("NotEqual", |a, b| a != b),
];

fn logic(backend: &CpuBackend, op_type: &str, truth: Truth) -> Result<(), Failed> {
    let (a, b) = ([0u8, 0, 1, 1], [0u8, 1, 0, 1]);
    let inputs = [("bool", &[4][..], a.to_vec()), ("bool", &[4], b.to_vec())];
    let count = if op_type == "LogicalNot" { 1 } else { 2 };
    let found = run(backend, op_type, &inputs[..count], &[])?;
    let expected: Vec<u8> = a.iter().zip(b).map(|(a, b)| u8::from(truth(*a == 1, b == 1))).collect();
    if found == expected { Ok(()) } else { Err(format!("{found:?}").into()) }
}

/// A function of whole numbers, before its result is truncated to the type's bits.
type WholeFn = fn(i128, i128) -> i128;

const WHOLE: [(&str, WholeFn); 23] = [
    ("Abs", |a, _| a.abs()),
    ("Add", |a, b| a + b),
    ("AddV2", |a, b| a + b),
    ("Div", |a, b| a.checked_div(b).unwrap_or(0)),
    ("Equal", |a, b| i128::from(a == b)),
    ("FloorDiv", |a, b| if b == 0 { 0 } else { (a - floor_mod(a, b)) / b }),
    ("FloorMod", floor_mod),
    ("Greater", |a, b| i128::from(a > b)),
    ("GreaterEqual", |a, b| i128::from(a >= b)),
    ("Less", |a, b| i128::from(a < b)),
    ("LessEqual", |a, b| i128::from(a <= b)),
    ("Maximum", |a, b| a.max(b)),
    ("Minimum", |a, b| a.min(b)),
    ("Mod", |a, b| a.checked_rem(b).unwrap_or(0)),
    ("Mul", |a, b| a * b),
    ("Neg", |a, _| -a),
    ("NotEqual", |a, b| i128::from(a != b)),
    ("RealDiv", |a, b| a.checked_div(b).unwrap_or(0)),
    ("Sign", |a, _| a.signum()),
    ("Square", |a, _| a * a),
    ("Sub", |a, b| a - b),
    ("TruncateDiv", |a, b| a.checked_div(b).unwrap_or(0)),
    ("TruncateMod", |a, b| a.checked_rem(b).unwrap_or(0)),
];

/// The remainder with the divisor's sign.
fn floor_mod(a: i128, b: i128) -> i128 {
    match b {
        0 => 0,
        b if b > 0 => a.rem_euclid(b),
        b => -(-a).rem_euclid(-b),
    }
}

fn whole(backend: &CpuBackend, dtype: &str, op_type: &str, f: WholeFn) -> Result<(), Failed> {
    let (least, most) = match dtype {
        "int32" => (i128::from(i32::MIN), i128::from(i32::MAX)),
        _ => (i128::from(i64::MIN), i128::from(i64::MAX)),
    };
    let edges = [least, least + 1, -1000, -7, -3, -2, -1, 0, 1, 2, 3, 7, 46_341, most - 1, most];
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for left in edges {
        for right in edges {
            a.push(left);
            b.push(right);
        }
    }
    let cut = |values: &[i128]| -> Vec<u8> {
        match dtype {
            "int32" => values.iter().flat_map(|value| (*value as i32).to_ne_bytes()).collect(),
            _ => values.iter().flat_map(|value| (*value as i64).to_ne_bytes()).collect(),
        }
    };
    let shape = [a.len() as i64];
    let inputs = [(dtype, &shape[..], cut(&a)), (dtype, &shape[..], cut(&b))];
    let count = opkeep_ops::find(op_type).map_or(0, |spec| spec.inputs.len());
    let found = run(backend, op_type, &inputs[..count], &[])?;
    let expected: Vec<i128> = a.iter().zip(&b).map(|(a, b)| f(*a, *b)).collect();
    let expected = match op_type {
        "Equal" | "NotEqual" | "Less" | "LessEqual" | "Greater" | "GreaterEqual" => {
            expected.iter().map(|truth| *truth as u8).collect()
        }
        _ => cut(&expected),
    };
    let size = expected.len() / a.len();
    match expected.chunks(size).zip(found.chunks(size)).position(|(expected, found)| expected != found) {
        None => Ok(()),
        Some(at) => Err(format!("{} and {}: {:?}", a[at], b[at], &found[at * size..][..size]).into()),
    }
}

const CASTS: [&str; 11] =
    ["float32", "float64", "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"];

/// A number of any type.
#[derive(Clone, Copy, Debug)]
enum Number {
    Single(f32),
    Double(f64),
    Whole(i128),
}

/// Numbers of a type: its limits, those of other types, and others.
fn numbers(dtype: &str) -> Vec<Number> {
    let powers = || [7, 8, 15, 16, 24, 31, 32, 53, 63, 64].into_iter().map(|bits| 1i128 << bits);
    let near = |power: i128| [power - 1, power, power + 1, -power - 1, -power, 1 - power];
    let whole = powers().flat_map(near).chain([0, 1, 2, 99, -1, -99]);
    let floats = [
        0.5f64,
        0.999,
        1.5,
        127.4,
        127.6,
        128.5,
        254.9,
        255.5,
        3e9,
        1e30,
        1e300,
        f64::INFINITY,
        f64::NAN,
        1e-40,
    ]
    .into_iter()
    .flat_map(|value| [value, -value])
    .chain(whole.clone().map(|value| value as f64));
    match dtype {
        "float32" => floats.map(|value| Number::Single(value as f32)).collect(),
        "float64" => floats.map(Number::Double).collect(),
        _ => {
            whole.map(|value| read(dtype, &stored(dtype, Number::Whole(value)))).map(Number::Whole).collect()
        }
    }
}

/// The bytes of a number converted to a type, as Rust's `as` converts.
fn stored(dtype: &str, number: Number) -> Vec<u8> {
    macro_rules! to {
        ($kind:ty) => {
            match number {
                Number::Single(value) => value as $kind,
                Number::Double(value) => value as $kind,
                Number::Whole(value) => value as $kind,
            }
            .to_ne_bytes()
            .to_vec()
        };
    }
    match dtype {
        "float32" => to!(f32),
        "float64" => to!(f64),
        "int8" => to!(i8),
        "uint8" => to!(u8),
        "int16" => to!(i16),
        "uint16" => to!(u16),
        "int32" => to!(i32),
        "uint32" => to!(u32),
        "int64" => to!(i64),
        "uint64" => to!(u64),
        _ => vec![u8::from(match number {
            Number::Single(value) => value != 0.0,
            Number::Double(value) => value != 0.0,
            Number::Whole(value) => value != 0,
        })],
    }
}

/// The whole number in the bytes of a type.
fn read(dtype: &str, bytes: &[u8]) -> i128 {
    let unsigned = bytes.iter().rev().fold(0i128, |number, byte| number << 8 | i128::from(*byte));
    let bits = bytes.len() * 8;
    if dtype.starts_with("int") && unsigned >> (bits - 1) == 1 { unsigned - (1 << bits) } else { unsigned }
}

fn casts(backend: &CpuBackend, from: &str) -> Result<(), Failed> {
    let numbers = numbers(from);
    let input: Vec<u8> = numbers.iter().flat_map(|number| stored(from, *number)).collect();
    let shape = [numbers.len() as i64];
    for to in CASTS {
        let attrs = [int_attr("dst_type", ge_number(to).unwrap_or(-1))];
        let found = run(backend, "Cast", &[(from, &shape[..], input.clone())], &attrs)?;
        let expected: Vec<Vec<u8>> = numbers.iter().map(|number| stored(to, *number)).collect();
        let size = expected[0].len();
        for ((number, expected), found) in numbers.iter().zip(&expected).zip(found.chunks(size)) {
            // No number has one pattern of bits in every type.
            let nan = matches!(number, Number::Single(v) if v.is_nan())
                || matches!(number, Number::Double(v) if v.is_nan());
            if expected.as_slice() != found && !(nan && to.starts_with("float")) {
                return Err(format!("{number:?} to {to}: expected {expected:?}, found {found:?}").into());
            }
        }
    }
    Ok(())
}
