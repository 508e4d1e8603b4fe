//! Jobs that are refused before a compile, and the reasons.
#![expect(clippy::panic, reason = "helpers fail the test that calls them")]

use crate::common::{attr, backend, float, job};
use opkeep_backend::{Backend, BackendError, Support, Unsupported};
use opkeep_descriptor::{Arg, AttrValue, BuildSpec, Extra, Job, OmittedArg, Source, Tensor};
use opkeep_ops::OpsError;
use opkeep_testkit::TestContext;

/// Returns the reason why `job` is refused. A compile must refuse it for the same reason.
fn refusal(job: &Job) -> Unsupported {
    let Support::No(reason) = backend().supports(job, &crate::common::spec(backend())) else {
        panic!("it is not refused");
    };
    match crate::common::compile(backend(), job) {
        Err(BackendError::Unsupported(_)) => {}
        other => panic!("{reason}: the compile says {other:?}"),
    }
    assert!(backend().op_sources(&TestContext::new().cx(), job, &crate::common::spec(backend())).is_err());
    reason
}

/// `job` with a change to it.
fn but(mut job: Job, change: impl FnOnce(&mut Job)) -> Job {
    change(&mut job);
    job
}

fn add() -> Job {
    job("Add", &[&[2, 3], &[3]], &[])
}

fn input(job: &mut Job, at: usize) -> &mut opkeep_descriptor::Input {
    let Arg::One(input) = &mut job.ops[0].inputs[at] else {
        panic!("input {at} is not one tensor");
    };
    input
}

fn set(args: &mut [Arg<Tensor>], change: impl Fn(&mut Tensor)) {
    for arg in args {
        if let Arg::One(tensor) = arg {
            change(tensor);
        }
    }
}

#[test]
fn every_elementwise_operator_is_supported() {
    for row in crate::common::on_floats() {
        let required = row.attrs.iter().filter(|attr| attr.default_value().is_none());
        let attrs: Vec<_> = required.map(|attr| float(attr.name, 0.5)).collect();
        let job = job(row.op_type, &vec![&[3][..]; row.inputs.len()], &attrs);
        assert_eq!(
            backend().supports(&job, &crate::common::spec(backend())),
            Support::Yes,
            "{}",
            row.op_type
        );
    }
}

#[test]
fn jobs_of_another_kind_are_refused() {
    let fused = but(add(), |job| job.ops.push(job.ops[0].clone()));
    assert_eq!(refusal(&fused), Unsupported::Fused { backend: "cpu", ops: 2 });
    let nothing = but(add(), |job| job.ops.clear());
    assert_eq!(refusal(&nothing), Unsupported::Fused { backend: "cpu", ops: 0 });
    let unknown = but(add(), |job| job.ops[0].op_type = "Conv9D".into());
    assert_eq!(refusal(&unknown), Unsupported::Op { backend: "cpu", op_type: "Conv9D".into() });
}

#[test]
fn dynamic_shapes_and_other_types_are_refused() {
    for shape in [vec![-1, 3], vec![-2], vec![2, -1]] {
        let dynamic = but(add(), |job| {
            input(job, 0).tensor.shape.clone_from(&shape);
            set(&mut job.data[0].outputs, |tensor| tensor.shape.clone_from(&shape));
            set(&mut job.ops[0].outputs, |tensor| tensor.shape.clone_from(&shape));
        });
        let expected = Unsupported::DynamicShape { backend: "cpu", op_type: "Add".into(), shape };
        assert_eq!(refusal(&dynamic), expected);
    }
    let half = but(add(), |job| {
        (0..2).for_each(|at| input(job, at).tensor.dtype = "float16".into());
        job.data.iter_mut().for_each(|data| set(&mut data.outputs, |tensor| tensor.dtype = "float16".into()));
        set(&mut job.ops[0].outputs, |tensor| tensor.dtype = "float16".into());
    });
    match refusal(&half) {
        Unsupported::Dtype { dtype, known, .. } => {
            assert_eq!((dtype.as_str(), known), ("float16", "float32, int32 and int64"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn operators_that_do_not_fit_the_table_are_refused() {
    let invalid = |job: Job| match refusal(&job) {
        Unsupported::Invalid(error) => error,
        other => panic!("{other:?}"),
    };
    let shape = but(add(), |job| set(&mut job.ops[0].outputs, |tensor| tensor.shape = vec![3, 2]));
    assert!(matches!(invalid(shape), OpsError::Output { name: "y", .. }));
    let dtype = but(add(), |job| set(&mut job.ops[0].outputs, |tensor| tensor.dtype = "bool".into()));
    assert!(matches!(invalid(dtype), OpsError::Output { name: "y", .. }));
    let with = |job: Job, attrs: Vec<opkeep_descriptor::Attr>| but(job, |job| job.ops[0].attrs = Some(attrs));
    let adds = || job("Adds", &[&[2]], &[float("value", 1.0)]);
    let attribute = with(job("Relu", &[&[2]], &[]), vec![float("alpha", 1.0)]);
    assert!(matches!(invalid(attribute), OpsError::UnknownAttr { attr, .. } if attr == "alpha"));
    let missing = with(adds(), vec![]);
    assert!(matches!(invalid(missing), OpsError::MissingAttr { attr: "value", .. }));
    let kind = with(adds(), vec![attr("value", "str", AttrValue::Str("1".into()))]);
    assert!(matches!(invalid(kind), OpsError::AttrType { attr: "value", .. }));
    let count = but(add(), |job| job.ops[0].inputs.truncate(1));
    assert!(matches!(invalid(count), OpsError::Count { ports: "inputs", expected: 2, found: 1, .. }));
    let outputs = but(add(), |job| job.ops[0].outputs.clear());
    assert!(matches!(invalid(outputs), OpsError::Count { ports: "outputs", .. }));
    let absent = but(add(), |job| {
        job.ops[0].inputs[1] = Arg::Absent(OmittedArg { param_type: None, extra: Extra::new() });
    });
    assert!(matches!(invalid(absent), OpsError::Port { name: "x2", .. }));
    let misfit = but(add(), |job| {
        input(job, 1).tensor.shape = vec![2];
        set(&mut job.data[1].outputs, |tensor| tensor.shape = vec![2]);
    });
    assert!(matches!(invalid(misfit), OpsError::Broadcast { .. }));
    let huge = but(job("Neg", &[&[4]], &[]), |job| {
        let shape = vec![1 << 40, 1 << 40];
        input(job, 0).tensor.shape.clone_from(&shape);
        set(&mut job.ops[0].outputs, |tensor| tensor.shape.clone_from(&shape));
    });
    assert!(matches!(invalid(huge), OpsError::Shape { .. }));
}

/// Inputs must come from the job's data and have the same type and shape: buffers are checked against the data.
#[test]
fn inputs_that_nothing_feeds_are_refused() {
    let refused = |change: &dyn Fn(&mut Job), told: &str| match refusal(&but(add(), change)) {
        Unsupported::Other { problem, .. } => assert!(problem.contains(told), "{problem}"),
        other => panic!("{told}: {other:?}"),
    };
    refused(&|job| input(job, 1).source = Source::Free(7), "fed by nothing");
    refused(&|job| input(job, 1).source = Source::Op { op: 0, output: 0 }, "fed by nothing");
    refused(&|job| input(job, 1).source = Source::Data { data: 9, tensor: 0 }, "nothing");
    refused(&|job| input(job, 1).source = Source::Data { data: 1, tensor: 1 }, "nothing");
    // The second input is read from the first data's longer buffer, or worse, the other way round.
    refused(&|job| input(job, 1).source = Source::Data { data: 0, tensor: 0 }, "[2, 3]");
    refused(&|job| input(job, 0).source = Source::Data { data: 1, tensor: 0 }, "[3]");
    refused(&|job| set(&mut job.data[0].outputs, |tensor| tensor.shape = vec![1]), "[1]");
    refused(&|job| set(&mut job.data[1].outputs, |tensor| tensor.dtype = "bool".into()), "bool");
}

/// One tensor for both inputs, and data in another order than the inputs.
#[test]
fn inputs_are_where_their_sources_say() {
    let twice = but(job("Sub", &[&[2], &[2]], &[]), |job| {
        input(job, 1).source = Source::Data { data: 0, tensor: 0 };
        job.data.truncate(1);
    });
    let kernel = crate::common::kernel(backend(), &twice);
    assert_eq!(kernel.inputs().iter().map(|slot| slot.bytes).collect::<Vec<_>>(), [8]);
    assert_eq!(crate::common::floats(&crate::common::launch(&*kernel, &[&[5.0, 7.0]], 1)), [0.0, 0.0]);

    let turned = but(job("Sub", &[&[2], &[1]], &[]), |job| {
        job.data.reverse();
        input(job, 0).source = Source::Data { data: 1, tensor: 0 };
        input(job, 1).source = Source::Data { data: 0, tensor: 0 };
    });
    let kernel = crate::common::kernel(backend(), &turned);
    assert_eq!(kernel.inputs().iter().map(|slot| slot.bytes).collect::<Vec<_>>(), [4, 8]);
    assert_eq!(
        crate::common::floats(&crate::common::launch(&*kernel, &[&[1.0], &[5.0, 7.0]], 1)),
        [4.0, 6.0]
    );

    // A variadic group counts tensor by tensor.
    let grouped = but(job("Sub", &[&[2], &[2]], &[]), |job| {
        let tensor = Tensor::new("float32", [2]);
        job.data.truncate(1);
        job.data[0].outputs = vec![Arg::Many(vec![tensor.clone(), tensor.clone()]), Arg::One(tensor)];
        input(job, 0).source = Source::Data { data: 0, tensor: 2 };
        input(job, 1).source = Source::Data { data: 0, tensor: 1 };
    });
    let kernel = crate::common::kernel(backend(), &grouped);
    let found = crate::common::launch(&*kernel, &[&[9.0, 9.0], &[1.0, 2.0], &[5.0, 7.0]], 1);
    assert_eq!(crate::common::floats(&found), [4.0, 5.0]);
}

#[test]
fn values_that_a_formula_cannot_take_are_refused() {
    let refused = |op_type: &str, attr: opkeep_descriptor::Attr| {
        let name = attr.name.clone();
        match refusal(&job(op_type, &[&[2]], &[attr])) {
            Unsupported::Other { problem, .. } => assert!(problem.contains(&name), "{problem}"),
            other => panic!("{op_type}: {other:?}"),
        }
    };
    for base in [0.0, -2.0, f64::INFINITY, f64::NAN] {
        refused("Exp", float("base", base));
        refused("Log", float("base", base));
    }
    refused("Log", float("base", 1.0));
    refused("Celu", float("alpha2", 0.0));
    refused("CeluV2", float("alpha", 0.0));
    refused("GeluV2", attr("approximate", "str", AttrValue::Str("erf".into())));
    refused("Round", attr("decimals", "int32", AttrValue::Int(31)));
    refused("Round", attr("decimals", "int32", AttrValue::Int(i64::MIN)));
}

#[test]
fn options_have_ranges_and_debug_shows() {
    let resolve = |name: &str, value: &str| {
        let mut spec = BuildSpec::new("cpu");
        spec.options.insert(name.to_owned(), value.into());
        backend().resolve(&TestContext::new().cx(), &spec)
    };
    for value in ["5", "-1", "x", "01", "0 "] {
        match resolve("op_debug_level", value) {
            Err(BackendError::Option { name, value: found, expected }) => {
                assert_eq!((name.as_str(), found.as_str()), ("op_debug_level", value));
                assert!(expected.contains('4'), "{expected}");
            }
            other => panic!("{value}: {other:?}"),
        }
    }
    let plain = backend().resolve(&TestContext::new().cx(), &BuildSpec::new("cpu")).unwrap();
    assert!(!plain.debug && plain.options.is_empty());
    // An option without effect is not in the spec, so it is not in the key.
    assert_eq!(resolve("op_debug_level", "0").unwrap(), plain);
    assert_eq!(resolve("op_debug_level", "").unwrap(), plain);
    assert_eq!(resolve("op_impl_mode", "high_performance").unwrap(), plain);
    for level in ["1", "4"] {
        let debug = resolve("op_debug_level", level).unwrap();
        assert!(debug.debug && debug.options["op_debug_level"] == level);
    }
    assert!(resolve("op_debug_config", "dump_cce,ccec_g").unwrap().debug);
    match resolve("op_debug_config", "oom,dump") {
        Err(BackendError::Option { name, value, expected }) => {
            assert_eq!((name.as_str(), value.as_str()), ("op_debug_config", "dump"));
            assert!(expected.contains("dump_cce"), "{expected}");
        }
        other => panic!("{other:?}"),
    }
    assert!(plain.target.starts_with("cpu-"));
}
