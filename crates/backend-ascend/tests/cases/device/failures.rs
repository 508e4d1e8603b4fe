//! Each call fails in turn, and what was made before it is given back.

use std::collections::BTreeMap;

use opkeep_backend::{BackendError, Loader};
use opkeep_cann_meta::{Parameter, Workspace};

use crate::device::Test;
use crate::device::artifact::{artifact, changed, job, launch, load, square};
use crate::device::stub::Stub;

pub(crate) const TESTS: &[Test] = &[
    ("failures::each_call_fails_in_turn", each_call_fails_in_turn),
    ("failures::a_call_that_gives_nothing_has_failed", a_call_that_gives_nothing_has_failed),
    (
        "failures::a_launch_needs_functions_that_older_runtimes_lack",
        a_launch_needs_functions_that_older_runtimes_lack,
    ),
    ("failures::a_failed_launch_leaves_the_kernel_as_it_was", a_failed_launch_leaves_the_kernel_as_it_was),
];

/// Calls that release or only query: their failures are tolerated.
const TOLERATED: [&str; 6] = [
    "aclFinalize",
    "aclrtResetDevice",
    "aclrtFree",
    "aclrtDestroyStream",
    "aclrtBinaryUnLoad",
    "aclrtGetCurrentContext",
];

/// A loader, a kernel that takes all there is, a launch, and the end of them. The first error.
fn everything(stub: &Stub) -> Result<(), String> {
    let loader = stub.loader().map_err(|error| format!("{error}; {}", error.help()))?;
    let artifact = changed("add_1", |meta| {
        meta.workspace = Some(Workspace { size: vec![64], ..Default::default() });
        meta.parameters = Some([0, 0, 0, 1].map(Parameter::Int).to_vec());
    });
    let kernel = match loader.load(&artifact, &job("Add", 2)) {
        Ok(kernel) => kernel,
        Err(BackendError::Load { kernel, problem }) => {
            assert_eq!(kernel, "add_1__kernel0");
            return Err(problem);
        }
        Err(other) => panic!("{other}"),
    };
    drop(loader);
    match launch(&*kernel, &[&[1.0; 4], &[2.0; 4]]) {
        Ok(sum) => {
            assert_eq!(sum, [3.0; 4]);
            Ok(())
        }
        Err(error @ BackendError::Launch { .. }) => Err(error.to_string()),
        Err(other) => panic!("{other}"),
    }
}

fn each_call_fails_in_turn() {
    let stub = Stub::new();
    everything(&stub).unwrap();
    stub.assert_all_is_given_back();
    let mut calls: BTreeMap<String, usize> = BTreeMap::new();
    for line in stub.log() {
        *calls.entry(line.split(' ').next().unwrap().to_owned()).or_default() += 1;
    }
    assert_eq!(calls["aclrtMalloc"], 4);
    assert_eq!(calls["aclrtKernelArgsAppend"], 4);
    assert!(calls.len() >= 20, "{calls:?}");

    for (call, times) in calls {
        for nth in 1..=times {
            let stub = Stub::new().with_control(&format!("fail {call} {nth} 507000 E19999 test"));
            let error = everything(&stub).err();
            let what = format!("{call}, time {nth}: {error:?}");
            if let Some(error) = &error {
                let expected = format!("`{call}` failed: ACL_ERROR_RT_INTERNAL_ERROR (507000): E19999 test");
                assert!(error.contains(&expected) && error.contains("see the runtime's log"), "{what}");
            } else {
                // A thread's context is set again, and set to unload, when no error can be reported any more.
                let late = call == "aclrtSetCurrentContext" && nth > 1;
                assert!(late || TOLERATED.contains(&call.as_str()), "{what}: nobody noticed");
            }
            let gives_back = TOLERATED[..5].contains(&call.as_str());
            if call == "aclrtSetCurrentContext" {
                stub.assert_memory_is_freed();
            } else if !gives_back {
                stub.assert_all_is_given_back();
            }
        }
    }
}

fn a_call_that_gives_nothing_has_failed() {
    for call in ["aclrtMalloc", "aclrtBinaryLoadFromData"] {
        let stub = Stub::new().with_control(&format!("nothing {call}"));
        let error = everything(&stub).unwrap_err();
        assert!(error.contains(&format!("`{call}` reported success, but gave nothing")), "{error}");
    }
}

fn a_launch_needs_functions_that_older_runtimes_lack() {
    let stub = Stub::without(&["aclrtLaunchKernelWithConfig"]);
    let (artifact, job) = square();
    let kernel = load(&stub, &artifact, &job).unwrap();
    let error = launch(&*kernel, &[&[1.0; 4]]).unwrap_err().to_string();
    assert!(
        error.contains("no function `aclrtLaunchKernelWithConfig`, which CANN 8.1 and later have"),
        "{error}"
    );
    drop(kernel);
    stub.assert_all_is_given_back();
}

fn a_failed_launch_leaves_the_kernel_as_it_was() {
    let stub = Stub::new();
    // A kernel with two arguments that reads three: the stand-in's device stumbles.
    let kernel = load(&stub, &artifact("add_1"), &job("Square", 1)).unwrap();
    let error = launch(&*kernel, &[&[1.0; 4]]).unwrap_err().to_string();
    let expected = "`aclrtSynchronizeStream` failed: ACL_ERROR_RT_AICORE_EXCEPTION (507015): the kernel met a bad address";
    assert!(error.contains(expected) && error.contains("compiled for this chip?"), "{error}");
    stub.assert_memory_is_freed();

    let stub = Stub::new().with_control("fail aclrtMalloc 2 207001 no memory");
    let (artifact, job) = square();
    let kernel = load(&stub, &artifact, &job).unwrap();
    let error = launch(&*kernel, &[&[2.0; 4]]).unwrap_err().to_string();
    assert!(error.contains("ACL_ERROR_RT_MEMORY_ALLOCATION (207001): no memory"), "{error}");
    assert!(error.contains("npu-smi info"), "{error}");
    assert_eq!(launch(&*kernel, &[&[2.0; 4]]).unwrap(), [4.0; 4]);
    drop(kernel);
    stub.assert_all_is_given_back();
}
