//! Loading and launching: buffers that do not fit are refused before a kernel runs, and kernels are separate.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers fail the test that calls them")]
#![expect(clippy::disallowed_methods, reason = "file descriptors are counted in /proc")]

use std::num::NonZeroUsize;

use crate::common::{backend, compile, float, floats, job, kernel, launch, runs_alone};
use opkeep_artifact::Artifact;
use opkeep_backend::{Backend, BackendError, Buffer, LoadedKernel, Slot};
use opkeep_cann_meta::{KernelMeta, Workspace};
use opkeep_descriptor::Job;
use opkeep_testkit::TestContext;

const ONE: NonZeroUsize = NonZeroUsize::MIN;

/// Launches, expects a refusal that names `what`, and that nothing was written.
fn refused(kernel: &dyn LoadedKernel, inputs: &[&[u8]], outputs: &mut [&mut [u8]], what: &str) {
    outputs.iter_mut().for_each(|output| output.fill(0xa5));
    match kernel.launch(inputs, outputs, ONE) {
        Err(BackendError::Launch { kernel, what: found, expected, found: given }) => {
            assert_eq!(found, what);
            assert!(kernel.starts_with("less_") && kernel.ends_with("__kernel0"), "{kernel}");
            assert_ne!(expected, given);
        }
        other => panic!("{what}: {other:?}"),
    }
    assert!(outputs.iter().all(|output| output.iter().all(|byte| *byte == 0xa5)), "{what}: it ran");
}

#[test]
fn buffers_that_do_not_fit_are_named_and_nothing_runs() {
    let kernel = kernel(backend(), &job("Less", &[&[2, 3], &[3]], &[]));
    let kernel = &*kernel;
    let bytes = |slots: &[Slot]| slots.iter().map(|slot| slot.bytes).collect::<Vec<_>>();
    assert_eq!((bytes(kernel.inputs()), bytes(kernel.outputs())), (vec![24, 12], vec![6]));
    let (a, b, spare) = (Buffer::of_f32(&[1.0; 6]), Buffer::of_f32(&[2.0; 3]), Buffer::of_f32(&[0.0; 8]));
    let (mut y, mut z) = (Buffer::zeroed(8), Buffer::zeroed(8));
    let (a, b, spare) = (a.bytes(), b.bytes(), spare.bytes());
    let (y, z) = (y.bytes_mut(), z.bytes_mut());

    refused(kernel, &[a], &mut [&mut y[..6]], "number of inputs");
    refused(kernel, &[a, b, a], &mut [&mut y[..6]], "number of inputs");
    refused(kernel, &[a, b], &mut [], "number of outputs");
    refused(kernel, &[a, b], &mut [&mut y[..6], &mut z[..6]], "number of outputs");
    refused(kernel, &[&a[..23], b], &mut [&mut y[..6]], "bytes of input 0");
    refused(kernel, &[b, a], &mut [&mut y[..6]], "bytes of input 0");
    refused(kernel, &[a, &spare[..16]], &mut [&mut y[..6]], "bytes of input 1");
    refused(kernel, &[a, &spare[1..13]], &mut [&mut y[..6]], "alignment of input 1");
    refused(kernel, &[&spare[2..26], b], &mut [&mut y[..6]], "alignment of input 0");
    refused(kernel, &[a, b], &mut [&mut y[..5]], "bytes of output 0");
    refused(kernel, &[a, b], &mut [&mut y[..7]], "bytes of output 0");

    // A truth value is one byte and may lie anywhere; one memory may be both inputs.
    kernel.launch(&[a, b], &mut [&mut y[1..7]], ONE).unwrap();
    assert_eq!(y[1..7], [1; 6]);
    kernel.launch(&[a, &a[..12]], &mut [&mut y[1..7]], ONE).unwrap();
    assert_eq!(y[1..7], [0; 6]);
}

#[test]
fn outputs_of_floats_are_aligned() {
    let kernel = kernel(backend(), &job("Neg", &[&[2]], &[]));
    let x = Buffer::of_f32(&[1.0, 2.0]);
    let mut y = Buffer::zeroed(12);
    match kernel.launch(&[x.bytes()], &mut [&mut y.bytes_mut()[1..9]], ONE) {
        Err(BackendError::Launch { what, .. }) => assert_eq!(what, "alignment of output 0"),
        other => panic!("{other:?}"),
    }
    assert_eq!(y.bytes(), [0; 12]);
}

#[test]
fn empty_and_scalar_tensors_launch() {
    let empty = kernel(backend(), &job("Neg", &[&[3, 0]], &[]));
    assert!(launch(&*empty, &[&[]], 2).is_empty());
    let scalar = kernel(backend(), &job("Neg", &[&[]], &[]));
    assert_eq!(floats(&launch(&*scalar, &[&[4.0]], 2)), [-4.0]);
}

fn load(artifact: &Artifact, job: &Job) -> Result<Box<dyn LoadedKernel>, BackendError> {
    backend().loader().unwrap().load(artifact, job)
}

#[test]
fn artifacts_that_cannot_be_loaded_are_refused() {
    let job = job("Neg", &[&[2]], &[]);
    let good = compile(backend(), &job).unwrap();
    let with = |change: &dyn Fn(&mut KernelMeta)| {
        let mut meta = KernelMeta::parse(&good.metadata).unwrap();
        change(&mut meta);
        Artifact { metadata: meta.to_json().into_bytes(), ..good.clone() }
    };
    // Their digest is right, so they reach the system's loader.
    let object = |object: &[u8]| {
        let sha256 = opkeep_digest::Digest::of(object).to_string();
        Artifact { object: object.to_vec(), ..with(&|meta| meta.sha256 = Some(sha256.clone())) }
    };
    let workspace = Workspace { size: vec![64], ..Workspace::default() };
    for (artifact, told) in [
        (with(&|meta| meta.kernel_name = Some("nobody__kernel0".into())), "nobody__kernel0"),
        (with(&|meta| meta.kernel_name = None), ""),
        (with(&|meta| meta.kernel_name = Some("a\0b".into())), ""),
        (with(&|meta| meta.workspace = Some(workspace.clone())), "workspace"),
        (with(&|meta| meta.block_dim = Some(opkeep_cann_meta::BlockDim::Dynamic)), "blockDim"),
        (with(&|meta| meta.block_dim = None), "blockDim"),
        (Artifact { metadata: b"{".to_vec(), ..good.clone() }, "JSON"),
        (object(b""), ""),
        (object(b"int main(void) { return 0; }"), ""),
        (object(&good.object[..100]), ""),
    ] {
        match load(&artifact, &job) {
            Err(error @ BackendError::Load { .. }) => assert!(error.to_string().contains(told), "{error}"),
            Err(other) => panic!("{told}: {other:?}"),
            Ok(_) => panic!("{told}: loaded"),
        }
    }
    // An empty workspace counts as none.
    let none = Workspace::default();
    assert!(load(&with(&|meta| meta.workspace = Some(none.clone())), &job).is_ok());
}

/// A kernel for fifty elements must not be launched with buffers of two.
#[test]
fn a_kernel_is_loaded_for_its_own_job_only() {
    let (small, large) = (job("Neg", &[&[2]], &[]), job("Neg", &[&[50]], &[]));
    let artifact = compile(backend(), &large).unwrap();
    assert!(load(&artifact, &large).is_ok());
    match load(&artifact, &small).map(drop) {
        Err(BackendError::Load { problem, .. }) => assert!(problem.contains("another job"), "{problem}"),
        other => panic!("{other:?}"),
    }
    let mut changed = artifact;
    changed.object.push(0);
    match load(&changed, &large).map(drop) {
        Err(BackendError::Load { problem, .. }) => assert!(problem.contains("SHA-256"), "{problem}"),
        other => panic!("{other:?}"),
    }
}

/// Kernels with one symbol name: the C library must not confuse them, in whatever order they are dropped.
#[test]
fn kernels_of_one_name_compute_their_own_results() {
    let make = |value: f64| {
        let job = job("Adds", &[&[1]], &[float("value", value)]);
        // All kernels have the symbol of the first one.
        let name = crate::common::name(&crate::common::job("Adds", &[&[1]], &[float("value", 0.0)]));
        let (dir, spec) = (tempfile::tempdir().unwrap(), crate::common::spec(backend()));
        let request =
            opkeep_backend::CompileRequest { job: &job, spec: &spec, name: &name, work_dir: dir.path() };
        (backend().compile(&TestContext::new().cx(), &request).unwrap(), job)
    };
    let made: Vec<_> = [1.0, 2.0, 3.0].into_iter().map(make).collect();
    let fresh = |at: usize| load(&made[at].0, &made[at].1).unwrap();
    let result = |kernel: &dyn LoadedKernel| floats(&launch(kernel, &[&[10.0]], 1))[0];

    let (first, second) = (fresh(0), fresh(1));
    assert_eq!((result(&*first), result(&*second)), (11.0, 12.0));
    drop(first);
    let third = fresh(2);
    assert_eq!((result(&*second), result(&*third)), (12.0, 13.0));
    let first = fresh(0);
    drop(second);
    assert_eq!((result(&*first), result(&*third)), (11.0, 13.0));
    drop(third);
    // Each open file gets the descriptor number that the last one released.
    for at in [0, 1, 2, 1, 0] {
        assert_eq!(result(&*fresh(at)), 11.0 + at as f32);
    }
    assert_eq!(result(&*first), 11.0);
}

#[test]
fn kernels_leave_no_descriptors_and_no_mappings_behind() {
    if !runs_alone("loader::kernels_leave_no_descriptors_and_no_mappings_behind") {
        return;
    }
    let job = job("Neg", &[&[1]], &[]);
    let artifact = compile(backend(), &job).unwrap();
    let garbage = Artifact { object: vec![0; 64], ..artifact.clone() };
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let mapped = || {
        std::fs::read_to_string("/proc/self/maps").unwrap().lines().filter(|l| l.contains("opkeep-")).count()
    };
    drop(load(&artifact, &job).unwrap());
    let before = (open(), mapped());
    assert_eq!(before.1, 0);
    let kernels: Vec<_> = (0..300).map(|_| load(&artifact, &job).unwrap()).collect();
    assert!(open() >= before.0 + 300 && mapped() >= 300);
    assert_eq!(floats(&launch(&*kernels[299], &[&[1.0]], 1)), [-1.0]);
    drop(kernels);
    for _ in 0..10 {
        assert!(load(&garbage, &job).is_err());
    }
    assert_eq!((open(), mapped()), before);
}
