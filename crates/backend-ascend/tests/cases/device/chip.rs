//! Finding the library, and asking it which chip there is.

use std::path::Path;

use opkeep_backend::BackendError;
use opkeep_backend_ascend::{AclError, AscendBackend, AscendConfig, Runtime};
use opkeep_descriptor::BuildSpec;
use opkeep_testkit::TestContext;

use crate::common::Place;
use crate::device::Test;
use crate::device::stub::{Stub, cc};

pub(crate) const TESTS: &[Test] = &[
    ("chip::the_device_is_asked", the_device_is_asked),
    ("chip::no_device_says_why", no_device_says_why),
    ("chip::the_stub_library_is_recognized", the_stub_library_is_recognized),
    (
        "chip::a_missing_function_is_an_error_only_where_it_is_needed",
        a_missing_function_is_an_error_only_where_it_is_needed,
    ),
    ("chip::the_toolkits_library_goes_first", the_toolkits_library_goes_first),
    ("chip::without_a_library_it_says_where_it_looked", without_a_library_it_says_where_it_looked),
    ("chip::libraries_beside_the_library_are_found", libraries_beside_the_library_are_found),
    ("chip::files_that_are_no_library_are_refused", files_that_are_no_library_are_refused),
    ("chip::ascend_is_the_chip_in_this_machine", ascend_is_the_chip_in_this_machine),
];

fn the_device_is_asked() {
    let stub = Stub::new().with_control("soc Ascend910_9391\ndevices 8");
    let runtime = stub.runtime();
    assert_eq!(runtime.soc_name().unwrap(), "Ascend910_9391");
    assert_eq!(runtime.device_count().unwrap(), 8);
    // Asking takes nothing into use.
    assert_eq!(stub.log(), ["aclrtGetSocName", "aclrtGetDeviceCount = 0"]);
}

fn ascend_is_the_chip_in_this_machine() {
    let (place, stub) = (Place::new(), Stub::new());
    let dir = place.installed.path("lib64");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::copy(stub.library(), dir.join("libascendcl.so")).unwrap();
    let control = |lines: &str| std::fs::write(dir.join("control"), lines).unwrap();
    let entry = AscendBackend::entry(AscendConfig::new(place.search()));
    control("soc Ascend910B1\ndevices 1");
    let backend = entry.open("ascend").unwrap();
    assert_eq!(
        backend.resolve(&TestContext::new().cx(), &BuildSpec::new("ascend")).unwrap().target,
        "Ascend910B1"
    );
    assert!(backend.loader().is_some());
    assert!(entry.open("Ascend910A").unwrap().loader().is_none(), "it is another chip");
    control("soc -\ndevices 0");
    let error = entry.open("ascend").err().unwrap().to_string();
    assert!(error.contains("finds no device") && error.contains("such as Ascend910B1"), "{error}");
    // A caller that names the chip needs no device.
    assert!(entry.open("Ascend910B1").unwrap().loader().is_none());
}

fn no_device_says_why() {
    let stub = Stub::new().with_control("soc -\ndevices 0");
    let error = stub.runtime().soc_name().unwrap_err();
    assert!(matches!(&error, AclError::NoDevice { library, .. } if *library == stub.library()));
    assert!(error.to_string().ends_with("finds no device: can not init soc version"), "{error}");
    assert!(error.help().contains("npu-smi info") && error.help().contains("as the target"));

    let stub =
        Stub::new().with_control("soc -\nfail aclrtGetDeviceCount 0 507899 EL0003 driver is not there");
    let error = stub.runtime().soc_name().unwrap_err();
    assert!(matches!(error, AclError::NoDevice { .. }));
    let expected = "ACL_ERROR_RT_DRV_INTERNAL_ERROR (507899): EL0003 driver is not there";
    assert!(error.to_string().contains(expected), "{error}");

    let stub = Stub::new().with_control("devices 0");
    let error = stub.loader().unwrap_err();
    assert!(matches!(error, AclError::NoDevice { text: None, .. }), "{error}");
    stub.assert_all_is_given_back();
    match BackendError::from(error) {
        BackendError::Toolchain { problem, help, .. } => {
            assert!(problem.contains("finds no device") && help.contains("npu-smi"));
        }
        other => panic!("{other:?}"),
    }
}

fn the_stub_library_is_recognized() {
    let stub = Stub::new().with_control(
        "soc -\nfail aclrtGetDeviceCount 0 100039 in stub mode\nfail aclInit 0 100039 in stub mode",
    );
    for error in [stub.runtime().soc_name().unwrap_err(), stub.loader().unwrap_err()] {
        assert!(matches!(&error, AclError::Stub { library } if *library == stub.library()), "{error}");
        assert!(error.help().contains("devlib"), "{}", error.help());
    }
    assert!(stub.calls("aclFinalize").is_empty(), "what was not begun was ended");
}

fn a_missing_function_is_an_error_only_where_it_is_needed() {
    let stub = Stub::without(&["aclrtGetSocName"]);
    let runtime = stub.runtime();
    assert_eq!(runtime.device_count().unwrap(), 1);
    let error = runtime.soc_name().unwrap_err();
    assert!(matches!(&error, AclError::Symbol { symbol: "aclrtGetSocName", .. }));
    let text = error.to_string();
    assert!(text.contains(stub.library().to_str().unwrap()) && text.contains("CANN 8.1"), "{text}");
    assert!(error.help().contains("8.1"));

    let stub = Stub::without(&["aclGetRecentErrMsg"]).with_control("fail aclInit 0 500004 lost");
    let error = stub.loader().unwrap_err().to_string();
    assert_eq!(error, "`aclInit` failed: ACL_ERROR_DRV_FAILURE (500004)");
}

/// A toolkit's directory of libraries, with a copy of the stand-in in it.
fn with_library(place: &Place, stub: &Stub) -> std::path::PathBuf {
    let dir = place.found().root.join("lib64");
    std::fs::create_dir_all(&dir).unwrap();
    let library = dir.join("libascendcl.so");
    std::fs::copy(stub.library(), &library).unwrap();
    std::fs::write(dir.join("control"), "soc Ascend310P3").unwrap();
    library
}

fn the_toolkits_library_goes_first() {
    let place = Place::new();
    let library = with_library(&place, &Stub::new());
    let runtime = Runtime::open(Some(&place.found())).unwrap();
    assert_eq!(runtime.library(), library);
    assert_eq!(runtime.soc_name().unwrap(), "Ascend310P3");
}

fn without_a_library_it_says_where_it_looked() {
    let place = Place::new();
    let toolkit = place.found();
    match Runtime::open(Some(&toolkit)) {
        Err(AclError::NoLibrary { looked, problem }) => {
            assert_eq!(looked[0], toolkit.root.join("lib64/libascendcl.so"));
            assert_eq!(looked.last().unwrap(), Path::new("libascendcl.so"));
            assert!(problem.contains("libascendcl.so"), "{problem}");
        }
        // A machine with CANN, whose own library is found by its name.
        Ok(runtime) => assert_eq!(runtime.library(), Path::new("libascendcl.so")),
        Err(other) => panic!("{other}"),
    }
}

/// Without sourcing `set_env.sh`: a library that needs others, which are only beside it.
fn libraries_beside_the_library_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write("hal.c", "unsigned hal(void) { return 3; }");
    write("runtime.c", "unsigned hal(void); unsigned count(void) { return hal(); }");
    write("acl.c", "unsigned count(void); int aclrtGetDeviceCount(unsigned *n) { *n = count(); return 0; }");
    cc(dir.path(), &["-shared", "-fPIC", "-o", "libown_hal.so", "-Wl,-soname,libown_hal.so", "hal.c"]);
    cc(
        dir.path(),
        &[
            "-shared",
            "-fPIC",
            "-o",
            "libown_rt.so",
            "-Wl,-soname,libown_rt.so",
            "runtime.c",
            "-L.",
            "-lown_hal",
        ],
    );
    let last = ["-shared", "-fPIC", "-o", "libascendcl.so", "acl.c", "-L.", "-lown_rt", "-Wl,-rpath-link,."];
    cc(dir.path(), &last);
    let library = dir.path().join("libascendcl.so");

    std::fs::rename(dir.path().join("libown_hal.so"), dir.path().join("elsewhere")).unwrap();
    let error = Runtime::open_library(&library).unwrap_err();
    assert!(matches!(error, AclError::Unloadable { .. }));
    assert!(error.to_string().contains("libown_hal.so: cannot open"), "{error}");
    assert!(error.help().contains("driver"));

    std::fs::rename(dir.path().join("elsewhere"), dir.path().join("libown_hal.so")).unwrap();
    assert_eq!(Runtime::open_library(&library).unwrap().device_count().unwrap(), 3);
}

fn files_that_are_no_library_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let library = dir.path().join("libascendcl.so");
    std::fs::write(&library, "INPUT(libother.so)").unwrap();
    match Runtime::open_library(&library).unwrap_err() {
        AclError::Unloadable { library: named, problem } => {
            assert_eq!(named, library);
            assert!(!problem.is_empty());
        }
        other => panic!("{other}"),
    }
}
