//! Kernels that run.

use opkeep_backend::{BackendError, Loader};
use opkeep_cann_meta::{BlockDim, KernelEntry, KernelMeta, Magic, Parameter, Placeholder, Word, Workspace};
use opkeep_descriptor::{Arg, OmittedArg};

use crate::device::Test;
use crate::device::artifact::{artifact, changed, job, launch, load, square};
use crate::device::stub::Stub;

pub(crate) const TESTS: &[Test] = &[
    ("kernels::a_kernel_runs_and_leaves_nothing", a_kernel_runs_and_leaves_nothing),
    ("kernels::inputs_stand_in_the_jobs_order", inputs_stand_in_the_jobs_order),
    ("kernels::the_launch_is_as_the_json_says", the_launch_is_as_the_json_says),
    ("kernels::the_one_kernel_of_a_list_is_taken", the_one_kernel_of_a_list_is_taken),
    ("kernels::memory_that_must_be_zero_is_cleared", memory_that_must_be_zero_is_cleared),
    ("kernels::absent_tensors_are_null", absent_tensors_are_null),
    ("kernels::empty_tensors_launch", empty_tensors_launch),
    ("kernels::older_runtimes_load_from_files", older_runtimes_load_from_files),
    ("kernels::a_frameworks_runtime_stays_as_it_was", a_frameworks_runtime_stays_as_it_was),
    ("kernels::threads_launch_at_once", threads_launch_at_once),
];

fn a_kernel_runs_and_leaves_nothing() {
    let stub = Stub::new();
    let (artifact, job) = square();
    let kernel = load(&stub, &artifact, &job).unwrap();
    assert_eq!((kernel.inputs()[0].bytes, kernel.outputs()[0].bytes), (16, 16));
    for values in [[1.0, 2.0, 3.0, 4.0], [0.5, -1.0, 0.0, 8.0]] {
        assert_eq!(launch(&*kernel, &[&values]).unwrap(), values.map(|value: f32| value * value));
        stub.assert_memory_is_freed();
    }
    // It outlives its loader, which is gone already.
    drop(kernel);
    stub.assert_all_is_given_back();
    let magic = format!("aclrtBinaryLoadFromData {} magic {:x} = 0", artifact.object.len(), 0x4141_5246);
    assert_eq!(stub.calls("aclrtBinaryLoadFromData"), [magic], "an object for vector cores");
    assert_eq!(stub.calls("aclrtBinaryGetFunction"), ["aclrtBinaryGetFunction square_1__kernel0 = 0"]);
}

fn inputs_stand_in_the_jobs_order() {
    // The stand-in's device adds the first two arguments; a kernel of `pick` is the first one alone.
    let stub = Stub::new();
    let kernel = load(&stub, &artifact("add_1"), &job("Add", 2)).unwrap();
    assert_eq!(launch(&*kernel, &[&[1.0; 4], &[10.0, 20.0, 30.0, 40.0]]).unwrap(), [11.0, 21.0, 31.0, 41.0]);
    let stub = Stub::new();
    let kernel = load(&stub, &artifact("pick_1"), &job("Sub", 2)).unwrap();
    assert_eq!(launch(&*kernel, &[&[1.0, 2.0, 3.0, 4.0], &[9.0; 4]]).unwrap(), [1.0, 2.0, 3.0, 4.0]);
}

fn the_launch_is_as_the_json_says() {
    let stub = Stub::new();
    let artifact = changed("square_1", |meta| {
        meta.block_dim = Some(BlockDim::Fixed(24));
        meta.schedule_mode = Some(1);
        meta.magic = Some(Word::Known(Magic::Elf));
        meta.workspace =
            Some(Workspace { size: vec![4096, 0], kind: Some(vec![0, 0]), ..Default::default() });
    });
    let kernel = load(&stub, &artifact, &job("Square", 1)).unwrap();
    assert_eq!(launch(&*kernel, &[&[1.0, 2.0, 3.0, 4.0]]).unwrap(), [1.0, 4.0, 9.0, 16.0]);
    let launched = "aclrtLaunchKernelWithConfig blocks 24 mode 1 arguments 4 = 0";
    assert_eq!(stub.calls("aclrtLaunchKernelWithConfig"), [launched]);
    let sizes = ["aclrtMalloc 16 = 0", "aclrtMalloc 16 = 0", "aclrtMalloc 4096 = 0", "aclrtMalloc 1 = 0"];
    assert_eq!(stub.calls("aclrtMalloc"), sizes);
    assert!(stub.calls("aclrtBinaryLoadFromData")[0].contains("magic 43554245"));
    assert!(stub.calls("aclrtMemset").is_empty());
}

fn the_one_kernel_of_a_list_is_taken() {
    let stub = Stub::new();
    let pair = opkeep_testkit::ascend::Kernel::new(opkeep_testkit::ascend::Chip::Ascend910B, "square_2");
    let pair = pair.keys([7]).build();
    let mut meta = KernelMeta::parse(&pair.json).unwrap();
    meta.block_dim = Some(BlockDim::Dynamic);
    meta.op_para_size = Some(0);
    meta.workspace = None;
    meta.parameters = None;
    let mut listed: KernelEntry = meta.kernel_list.take().unwrap().remove(0);
    listed.block_dim = Some(BlockDim::Fixed(3));
    meta.kernel_list = Some(vec![listed]);
    let artifact = opkeep_artifact::Artifact {
        metadata: meta.to_json().into_bytes(),
        object: pair.object,
        extra: Vec::new(),
    };
    let kernel = load(&stub, &artifact, &job("Square", 1)).unwrap();
    assert_eq!(launch(&*kernel, &[&[2.0; 4]]).unwrap(), [4.0; 4]);
    assert_eq!(stub.calls("aclrtBinaryGetFunction"), ["aclrtBinaryGetFunction square_2_7 = 0"]);
    assert!(stub.calls("aclrtLaunchKernelWithConfig")[0].contains("blocks 3 mode 0 arguments 2"));
}

fn memory_that_must_be_zero_is_cleared() {
    let clear = |value: &str| {
        let text = format!(r#"{{"parameters": [{{"dtype": "float32", "init_value": {value}}}]}}"#);
        KernelMeta::parse(text.as_bytes()).unwrap().parameters.unwrap().remove(0)
    };
    // The device's memory is not zero, and this kernel adds to what it finds.
    for parameter in [Parameter::Int(1), clear("0"), clear("0.0")] {
        let stub = Stub::new();
        let artifact = changed("sum_1", |meta| meta.parameters = Some(vec![Parameter::Null, parameter]));
        let kernel = load(&stub, &artifact, &job("Square", 1)).unwrap();
        assert_eq!(launch(&*kernel, &[&[1.0, 2.0, 3.0, 4.0]]).unwrap(), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(stub.calls("aclrtMemset"), ["aclrtMemset 0 16 = 0"]);
    }
    let stub = Stub::new();
    let artifact = changed("sum_1", |meta| meta.parameters = Some(vec![Parameter::Null, clear("1")]));
    match load(&stub, &artifact, &job("Square", 1)).map(|_| ()) {
        Err(BackendError::Load { problem, .. }) => assert!(problem.contains("other than 0"), "{problem}"),
        other => panic!("{other:?}"),
    }
}

fn absent_tensors_are_null() {
    let stub = Stub::new();
    let artifact = changed("pick_1", |meta| {
        meta.optional_input_mode = Some(Word::Known(Placeholder::Gen));
    });
    let mut job = job("Square", 1);
    job.ops[0].inputs.push(Arg::Absent(OmittedArg { param_type: None, extra: Default::default() }));
    let kernel = load(&stub, &artifact, &job).unwrap();
    assert_eq!(launch(&*kernel, &[&[5.0, 6.0, 7.0, 8.0]]).unwrap(), [5.0, 6.0, 7.0, 8.0]);
    assert!(stub.calls("aclrtLaunchKernelWithConfig")[0].contains("arguments 3"));
    // Without placeholders it is no argument at all.
    let stub = Stub::new();
    let kernel = load(&stub, &square().0, &job).unwrap();
    assert_eq!(launch(&*kernel, &[&[2.0; 4]]).unwrap(), [4.0; 4]);
}

fn empty_tensors_launch() {
    let stub = Stub::new();
    let kernel = load(&stub, &artifact("square_1"), &opkeep_testkit::job("Square", &[&[3, 0]])).unwrap();
    assert!(launch(&*kernel, &[&[]]).unwrap().is_empty());
    assert!(stub.calls("aclrtMemcpy").is_empty());
    stub.assert_memory_is_freed();
}

fn older_runtimes_load_from_files() {
    let stub = Stub::without(&["aclrtBinaryLoadFromData"]);
    let (artifact, job) = square();
    let kernel = load(&stub, &artifact, &job).unwrap();
    assert_eq!(launch(&*kernel, &[&[3.0; 4]]).unwrap(), [9.0; 4]);
    drop(kernel);
    stub.assert_all_is_given_back();
    let file = &stub.calls("file")[0];
    assert!(file.contains("/scratch/opkeep-load-") && file.ends_with("/kernel.o, with json"), "{file}");
    let length = format!("aclrtBinaryLoadFromFile {} magic 41415246 = 0", artifact.object.len());
    assert_eq!(stub.calls("aclrtBinaryLoadFromFile"), [length], "the whole object");
    assert_eq!(std::fs::read_dir(stub.scratch()).unwrap().count(), 0, "something stays");

    // A directory that is not there, and a runtime that cannot do that either.
    let stub = Stub::without(&["aclrtBinaryLoadFromData"]);
    let loader = opkeep_backend_ascend::AscendLoader::new(&stub.runtime(), "/nowhere".into()).unwrap();
    assert!(matches!(loader.load(&artifact, &job).map(|_| ()), Err(BackendError::Io { .. })));
    let stub = Stub::without(&["aclrtBinaryLoadFromData", "aclrtBinaryLoadFromFile"]);
    match load(&stub, &artifact, &job).map(|_| ()) {
        Err(BackendError::Load { problem, .. }) => {
            assert!(problem.contains("no function `aclrtBinaryLoadFromFile`"), "{problem}");
            assert!(problem.contains("install CANN 8.1 or later"), "{problem}");
        }
        other => panic!("{other:?}"),
    }
    stub.assert_all_is_given_back();
    assert_eq!(std::fs::read_dir(stub.scratch()).unwrap().count(), 0, "something stays");
}

fn a_frameworks_runtime_stays_as_it_was() {
    let stub = Stub::new().with_control("framework");
    let (artifact, job) = square();
    let kernel = load(&stub, &artifact, &job).unwrap();
    assert_eq!(launch(&*kernel, &[&[3.0; 4]]).unwrap(), [9.0; 4]);
    drop(kernel);
    assert_eq!(stub.calls("aclInit"), ["aclInit = 100002"]);
    assert!(stub.calls("aclFinalize").is_empty() && stub.calls("aclrtResetDevice").is_empty());
    stub.assert_memory_is_freed();
    // Once when the device was first set, then in pairs around loading, launching and unloading.
    let [framework, device] =
        ["framework", "device"].map(|name| format!("aclrtSetCurrentContext {name} = 0"));
    let pairs = [&framework, &device, &framework, &device, &framework, &device, &framework];
    assert_eq!(stub.calls("aclrtSetCurrentContext").iter().collect::<Vec<_>>(), pairs);
}

fn threads_launch_at_once() {
    let stub = Stub::new();
    let (artifact, job) = square();
    let kernel = load(&stub, &artifact, &job).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let kernel = &kernel;
            scope.spawn(move || {
                for time in 0..8_u8 {
                    let value = f32::from(thread * 8 + time);
                    assert_eq!(launch(&**kernel, &[&[value; 4]]).unwrap(), [value * value; 4]);
                }
            });
        }
    });
    assert_eq!(stub.count("aclrtLaunchKernelWithConfig"), 32);
    drop(kernel);
    stub.assert_all_is_given_back();
}
