//! Kernels and buffers that do not fit are refused before the device is touched.

use opkeep_artifact::Artifact;
use opkeep_backend::{BackendError, Buffer, LoadedKernel, Loader, Unsupported};
use opkeep_cann_meta::{
    BlockDim, GlobalWorkspace, KernelEntry, KernelMeta, Magic, Parameter, Placeholder, SubJson, Word,
    Workspace,
};
use opkeep_descriptor::{Arg, OmittedArg};

use crate::device::Test;
use crate::device::artifact::{artifact, changed, job, load, square};
use crate::device::stub::Stub;

pub(crate) const TESTS: &[Test] = &[
    (
        "refusals::artifacts_that_cannot_be_launched_are_not_loaded",
        artifacts_that_cannot_be_launched_are_not_loaded,
    ),
    ("refusals::other_bytes_than_described_are_not_loaded", other_bytes_than_described_are_not_loaded),
    ("refusals::jobs_of_unknown_size_are_not_loaded", jobs_of_unknown_size_are_not_loaded),
    ("refusals::a_kernel_that_is_not_there_is_named", a_kernel_that_is_not_there_is_named),
    ("refusals::buffers_that_do_not_fit_are_named", buffers_that_do_not_fit_are_named),
];

/// The loader's error; the device was not asked.
fn refusal(stub: &Stub, loader: &dyn Loader, artifact: &Artifact) -> String {
    let before = stub.log();
    let problem = match loader.load(artifact, &job("Square", 1)).map(|_| ()) {
        Err(BackendError::Load { problem, .. }) => problem,
        other => panic!("{other:?}"),
    };
    assert_eq!(stub.log(), before, "{problem}: the device was asked");
    problem
}

/// A change of a description.
type Change = fn(&mut KernelMeta);

fn workspace(sizes: &[i64], kinds: &[i64]) -> Option<Workspace> {
    Some(Workspace { num: None, size: sizes.to_vec(), kind: Some(kinds.to_vec()), ..Default::default() })
}

fn listed(name: &str) -> KernelEntry {
    KernelEntry { kernel_name: name.to_owned(), ..Default::default() }
}

fn artifacts_that_cannot_be_launched_are_not_loaded() {
    let stub = Stub::new();
    let loader = stub.loader().unwrap();
    let changes: [(Change, &str); 22] = [
        (|meta| meta.sha256 = None, "its .json says None"),
        (|meta| meta.kernel_name = None, "names no kernel"),
        (|meta| meta.kernel_name = Some(String::new()), "names no kernel"),
        (|meta| meta.kernel_name = Some("a\0b".to_owned()), "nul byte"),
        (|meta| meta.kernel_list = Some(vec![listed("a_0"), listed("a_1")]), "several tiling keys"),
        (|meta| meta.json_list = Some(vec![SubJson::default()]), "jsonList"),
        (|meta| meta.magic = None, "magic is missing"),
        (|meta| meta.magic = Some(Word::Known(Magic::Plain)), "MAGIC_PLAIN"),
        (|meta| meta.magic = Some(Word::Known(Magic::ElfAicpu)), "AI CPU"),
        (|meta| meta.magic = Some(Word::Other("CUBE".to_owned())), "magic is CUBE"),
        (|meta| meta.block_dim = None, "blockDim is missing"),
        (|meta| meta.block_dim = Some(BlockDim::Dynamic), "blockDim is -1"),
        (|meta| meta.block_dim = Some(BlockDim::Fixed(0)), "blockDim is 0"),
        (|meta| meta.op_para_size = Some(64), "64 bytes of tiling data"),
        (|meta| meta.workspace = workspace(&[32, -1], &[0, 0]), "a workspace is of size -1"),
        (|meta| meta.workspace = workspace(&[32], &[1]), "memory kind 1"),
        (|meta| meta.workspace = workspace(&[1; 127], &[0; 127]), "129 arguments"),
        (
            |meta| meta.spec_workspace = Some(GlobalWorkspace { size: 32, ..Default::default() }),
            "status check",
        ),
        (|meta| meta.dynamic_param_mode = Some("folded_with_desc".to_owned()), "folded_with_desc"),
        (|meta| meta.parameters = Some(vec![Parameter::Int(1)]), "no output and no workspace"),
        (
            |meta| meta.parameters = Some([0, 0, 1].map(Parameter::Int).to_vec()),
            "argument 2 must be cleared, but the kernel has 2",
        ),
        (|meta| meta.schedule_mode = Some(256), "schedule_mode"),
    ];
    for (change, expected) in changes {
        let problem = refusal(&stub, &loader, &changed("square_1", change));
        assert!(problem.contains(expected), "{expected}: {problem}");
    }
    let cut = Artifact { metadata: b"{".to_vec(), ..artifact("square_1") };
    assert!(refusal(&stub, &loader, &cut).contains("JSON"));
    // A dynamic kernel as compilers leave it.
    let pair = opkeep_testkit::ascend::Kernel::new(opkeep_testkit::ascend::Chip::Ascend910B, "a").build();
    let dynamic = Artifact { metadata: pair.json, object: pair.object, extra: Vec::new() };
    assert!(refusal(&stub, &loader, &dynamic).contains("tiling function"));
}

fn other_bytes_than_described_are_not_loaded() {
    let stub = Stub::new();
    let loader = stub.loader().unwrap();
    let mut artifact = artifact("square_1");
    *artifact.object.last_mut().unwrap() ^= 1;
    assert!(refusal(&stub, &loader, &artifact).contains("SHA-256"));
}

fn jobs_of_unknown_size_are_not_loaded() {
    let stub = Stub::new();
    let mut dynamic = job("Square", 1);
    for arg in dynamic.data[0].outputs.iter_mut().flat_map(Arg::iter_mut) {
        arg.shape = vec![-1, 4];
    }
    match load(&stub, &artifact("square_1"), &dynamic).map(|_| ()) {
        Err(BackendError::Unsupported(Unsupported::DynamicShape { shape, .. })) => assert_eq!(shape, [-1, 4]),
        other => panic!("{other:?}"),
    }
    let mut odd = job("Square", 1);
    for arg in odd.ops[0].outputs.iter_mut().flat_map(Arg::iter_mut) {
        arg.dtype = "float33".to_owned();
    }
    match load(&Stub::new(), &artifact("square_1"), &odd).map(|_| ()) {
        Err(BackendError::Unsupported(Unsupported::Dtype { dtype, .. })) => assert_eq!(dtype, "float33"),
        other => panic!("{other:?}"),
    }
    // Placeholders say which inputs there are; the job feeds another number.
    let gapped = changed("square_1", |meta| meta.optional_input_mode = Some(Word::Known(Placeholder::Gen)));
    let mut job = job("Square", 1);
    job.ops[0].inputs = vec![Arg::Absent(OmittedArg { param_type: None, extra: Default::default() })];
    match load(&Stub::new(), &gapped, &job).map(|_| ()) {
        Err(BackendError::Load { problem, .. }) => {
            assert_eq!(problem, "its operator takes 0 tensors, but the job feeds 1");
        }
        other => panic!("{other:?}"),
    }
}

fn a_kernel_that_is_not_there_is_named() {
    let stub = Stub::new();
    let artifact = changed("square_1", |meta| meta.kernel_name = Some("nobody__kernel0".to_owned()));
    match load(&stub, &artifact, &job("Square", 1)).map(|_| ()) {
        Err(BackendError::Load { kernel, problem }) => {
            assert_eq!(kernel, "nobody__kernel0");
            let expected = "`aclrtBinaryGetFunction` failed: ACL_ERROR_RT_KERNEL_LOOKUP (507027): no kernel nobody__kernel0";
            assert!(problem.starts_with(expected), "{problem}");
            assert!(problem.ends_with("validate the object with its `.json`"), "{problem}");
        }
        other => panic!("{other:?}"),
    }
    stub.assert_all_is_given_back();
}

/// Launches, expects a refusal that names `what`, and that nothing was written.
fn refused(kernel: &dyn LoadedKernel, inputs: &[&[u8]], outputs: &mut [&mut [u8]], what: &str) {
    outputs.iter_mut().for_each(|output| output.fill(0xa5));
    match kernel.launch(inputs, outputs, std::num::NonZeroUsize::MIN) {
        Err(BackendError::Launch { kernel, what: found, expected, found: given }) => {
            assert_eq!((found.as_str(), kernel.as_str()), (what, "square_1__kernel0"));
            assert_ne!(expected, given);
        }
        other => panic!("{what}: {other:?}"),
    }
    assert!(outputs.iter().all(|output| output.iter().all(|byte| *byte == 0xa5)), "{what}: it ran");
}

fn buffers_that_do_not_fit_are_named() {
    let stub = Stub::new();
    let (artifact, job) = square();
    let kernel = load(&stub, &artifact, &job).unwrap();
    let before = stub.log();
    let (x, long) = (Buffer::of_f32(&[1.0; 4]), Buffer::of_f32(&[1.0; 6]));
    let (x, long) = (x.bytes(), long.bytes());
    let (mut y, mut z) = (Buffer::zeroed(24), Buffer::zeroed(16));
    let (y, z) = (y.bytes_mut(), z.bytes_mut());
    refused(&*kernel, &[], &mut [&mut y[..16]], "number of inputs");
    refused(&*kernel, &[x, x], &mut [&mut y[..16]], "number of inputs");
    refused(&*kernel, &[x], &mut [], "number of outputs");
    refused(&*kernel, &[x], &mut [&mut y[..16], z], "number of outputs");
    refused(&*kernel, &[&x[..15]], &mut [&mut y[..16]], "bytes of input 0");
    refused(&*kernel, &[long], &mut [&mut y[..16]], "bytes of input 0");
    refused(&*kernel, &[&long[2..18]], &mut [&mut y[..16]], "alignment of input 0");
    refused(&*kernel, &[x], &mut [&mut y[..17]], "bytes of output 0");
    refused(&*kernel, &[x], &mut [&mut y[1..17]], "alignment of output 0");
    assert_eq!(stub.log(), before, "the device was asked");
}
