//! Jobs that no front end would make are refused or compiled, and never crash the backend.

use opkeep_backend::{Backend, BackendError, Support};
use opkeep_descriptor::{Arg, AttrValue, ConstValue, Job};

use crate::movement_and_reduction::case::{Case, Rng, stands_alone};
use crate::movement_and_reduction::movement;
use crate::movement_and_reduction::reduction;

/// Numbers at which arithmetic overflows.
const ODD: [i64; 12] =
    [i64::MIN, i64::MIN + 1, -(1 << 40), -2, -1, 0, 1, 2, 1 << 20, 1 << 47, i64::MAX - 1, i64::MAX];

/// Puts such a number into a field of the job.
fn damage(job: &mut Job, rng: &mut Rng) {
    let odd = ODD[rng.int(0, ODD.len() as i64 - 1) as usize];
    let op = &mut job.ops[0];
    let inputs = op.inputs.len() as i64;
    if inputs == 0 {
        return;
    }
    match rng.int(0, 4) {
        0 => {
            let at = rng.int(0, inputs - 1) as usize;
            if let Arg::One(input) = &mut op.inputs[at]
                && let Some(value) = &mut input.tensor.const_value
            {
                let mut values = value.to_ints().unwrap_or_default();
                if !values.is_empty() {
                    let at = rng.int(0, values.len() as i64 - 1) as usize;
                    values[at] = odd;
                }
                *value = ConstValue::ints("int64", &values);
            }
        }
        1 => {
            let at = rng.int(0, inputs - 1) as usize;
            let change = |tensor: &mut opkeep_descriptor::Tensor, rng: &mut Rng| {
                if !tensor.shape.is_empty() {
                    let at = rng.int(0, tensor.shape.len() as i64 - 1) as usize;
                    tensor.shape[at] = odd;
                }
            };
            match &mut op.inputs[at] {
                Arg::One(input) => change(&mut input.tensor, rng),
                Arg::Many(inputs) => inputs.iter_mut().for_each(|input| change(&mut input.tensor, rng)),
                Arg::Absent(_) => {}
            }
        }
        2 => {
            let attrs = op.attrs.get_or_insert_default();
            if !attrs.is_empty() {
                let at = rng.int(0, attrs.len() as i64 - 1) as usize;
                attrs[at].value = match &attrs[at].value {
                    AttrValue::Int(_) => AttrValue::Int(odd),
                    AttrValue::List(items) => AttrValue::ints(&vec![odd; items.len()]),
                    other => other.clone(),
                };
            }
        }
        3 => {
            op.inputs.pop();
        }
        _ => {
            let at = rng.int(0, inputs - 1) as usize;
            if let Arg::One(input) = &mut op.inputs[at] {
                input.tensor.dtype = ["float16", "", "x */", "int64", "bool"][rng.int(0, 4) as usize].into();
            }
        }
    }
}

/// Makes the rest of the job consistent with its inputs, as far as possible.
fn agree(job: &mut Job) {
    let op = &mut job.ops[0];
    let mut data = job.data.iter_mut();
    for arg in op.inputs.iter().filter(|arg| !matches!(arg, Arg::Absent(_))) {
        // Each input of these jobs has data of its own, in their order.
        for input in arg.iter() {
            if let Some(data) = data.next() {
                data.outputs = vec![Arg::One(input.tensor.clone())];
            }
        }
    }
    let Ok(made) = opkeep_ops::Call::of(&job.ops[0]).and_then(|call| call.infer()) else { return };
    for (output, made) in job.ops[0].outputs.iter_mut().zip(made) {
        let tensor = |made: opkeep_ops::TensorType| opkeep_descriptor::Tensor::new(made.dtype, made.shape);
        match output {
            Arg::Many(tensors) => *tensors = made.into_iter().map(tensor).collect(),
            one => {
                if let Some(made) = made.into_iter().next() {
                    *one = Arg::One(tensor(made));
                }
            }
        }
    }
}

fn cases() -> Vec<Case> {
    [
        movement::transposes(),
        movement::concats_and_splits(),
        movement::gathers(),
        movement::slices(),
        movement::pads(),
        movement::repeats(),
        movement::selects(),
        reduction::reductions(),
        reduction::softmaxes(),
        reduction::layer_norms(),
        reduction::local_responses(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Any descriptor is refused with a reason, or there is code for it, in blocks that can be launched.
#[test]
fn odd_jobs_are_refused_or_have_code() {
    let mut rng = Rng::new(21);
    let (mut refused, mut made) = (0, 0);
    for case in cases() {
        for _ in 0..25 {
            let mut job = case.job.clone();
            (0..rng.int(1, 2)).for_each(|_| damage(&mut job, &mut rng));
            agree(&mut job);
            match opkeep_backend_cpu::generate(&job, "KERNEL", |_| None) {
                Ok(code) => {
                    assert!((1..=65_535).contains(&code.blocks), "{}", case.name);
                    assert!(!code.text.contains("x */"), "{}", code.text);
                    made += 1;
                }
                Err(BackendError::Unsupported(reason)) => {
                    assert!(!reason.to_string().is_empty());
                    refused += 1;
                }
                Err(other) => panic!("{}: {other}", case.name),
            }
        }
    }
    assert!(refused > 1000 && made > 1000, "{refused} refused, {made} made: the test sees one side only");
}

/// Code for absurd sizes compiles without a warning, too.
#[test]
fn absurd_sizes_compile_without_warnings() {
    let mut rng = Rng::new(22);
    let mut jobs: Vec<(String, Job)> = Vec::new();
    for (at, case) in cases().into_iter().enumerate() {
        if at % 12 == 0 {
            jobs.push((case.name.clone(), case.job.clone()));
        }
        for _ in (0..20).filter(|_| at % 3 == 0) {
            let mut job = case.job.clone();
            damage(&mut job, &mut rng);
            agree(&mut job);
            let fits = opkeep_backend_cpu::generate(&job, "KERNEL", |_| None).is_ok();
            let elements = |job: &Job| -> u128 {
                let tensors = job.ops[0].outputs.iter().flat_map(Arg::iter);
                tensors
                    .map(|tensor| {
                        tensor.shape.iter().map(|dim| u128::from(dim.unsigned_abs())).product::<u128>()
                    })
                    .sum()
            };
            if fits && elements(&job) > 1 << 30 {
                jobs.push((case.name.clone(), job));
                break;
            }
        }
    }
    assert!(jobs.len() > 40, "{}", jobs.len());
    let numbered: Vec<_> = jobs.iter().enumerate().collect();
    crate::common::each(&numbered, |(at, (name, job))| {
        let made = crate::common::compile(&crate::common::strict()[at % crate::common::strict().len()], job);
        let made = made.map_err(|error| error.to_string()).and_then(|made| stands_alone(&made.object));
        made.unwrap_or_else(|problem| panic!("{name}: {problem}"));
    });
}

/// Element types that a rule accepts and for which there is no code.
#[test]
fn other_element_types_are_refused_by_name() {
    let mut job = reduction::long_sums().swap_remove(0).job;
    for dtype in ["float16", "bool", "uint8"] {
        if let Arg::One(input) = &mut job.ops[0].inputs[0] {
            input.tensor.dtype = dtype.into();
        }
        agree(&mut job);
        match crate::common::backend().supports(&job, &crate::common::spec(crate::common::backend())) {
            Support::No(reason) => assert!(reason.to_string().contains(dtype), "{reason}"),
            other => panic!("{dtype}: {other:?}"),
        }
    }
}
