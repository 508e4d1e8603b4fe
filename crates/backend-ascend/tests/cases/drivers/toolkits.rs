//! Toolkits that are edited, extended, newer or incomplete.

use super::*;

pub(crate) fn edited() {
    for driver in DRIVERS {
        let bench = Bench::settled(driver);
        let first = bench.made(&square()).object;
        assert_eq!(bench.made(&square()).object, first);
        let file = bench.place.installed.impl_file("dynamic/square.py");
        bench.place.installed.append(&file, "\n# another\n").unwrap();
        let second = bench.made(&square()).object;
        assert_ne!(first, second, "{driver:?}: the operator's file");
        let file = bench.place.installed.impl_file("util/util_common.py");
        bench.place.installed.append(&file, "\n# another\n").unwrap();
        assert_ne!(bench.made(&square()).object, second, "{driver:?}: what it imports");
    }
}

pub(crate) fn known_again() {
    let bench = Bench::new(Driver::Process);
    bench.made(&square());
    // One that was opened before, and has not been asked yet what its toolchain is.
    let opened = AscendBackend::open(&driven(&bench.place, Driver::Process), SOC).unwrap();
    let path = bench.place.installed.op_info("ascend910b");
    let info = std::fs::read_to_string(&path).unwrap();
    let mut ops: Value = serde_json::from_str(&info).unwrap();
    let none = json!({"value": "Null"});
    ops["Square"]["opFile"] = none;
    std::fs::write(&path, ops.to_string()).unwrap();
    let caller = TestContext::new();
    for backend in [&bench.backend, &opened] {
        backend.toolchain(&caller.cx()).unwrap();
        let error = backend.op_sources(&caller.cx(), &square(), &bench.spec).unwrap_err().to_string();
        assert!(error.contains("opFile"), "{error}");
    }
}

pub(crate) fn vendors() {
    for driver in DRIVERS {
        let place = Place::of(&Toolkit::new().vendor(Vendor::new("listed").op("ListedOp", "Square")));
        let dir = place.below("mine");
        place.installed.write_vendor(&Vendor::new("mine").op("MyOp", "Square"), &dir).unwrap();
        let mut config = driven(&place, driver);
        let custom = dir.clone().into_os_string();
        config.search.environment.insert("ASCEND_CUSTOM_OPP_PATH".to_owned(), custom);
        let bench = Bench::with(place, &config);
        for op_type in ["ListedOp", "MyOp"] {
            let made = bench.made(&crate::common::job(op_type));
            assert!(!made.object.is_empty());
        }
        let types: Vec<String> =
            bench.place.installed.compiles().unwrap().into_iter().map(|compile| compile.op).collect();
        assert_eq!(types, ["ListedOp", "MyOp"]);
    }
}

pub(crate) fn newer() {
    let place = Place::of(&Toolkit::new().version("9.1.0", "9.1.0.1").layout(Layout::Cann));
    let toolkit = driven(&place, Driver::Process).search.find().unwrap();
    if let Some(opc) = &toolkit.opc {
        place.installed.remove(opc).unwrap();
    }
    let bench = Bench::of(place, Driver::Process);
    assert!(bench.backend.toolkit().asc_opc.is_some() && bench.backend.toolkit().opc.is_none());
    bench.made(&square());
    bench.rules(&[Rule::new(Fault::Fail { code: "E80008".to_owned(), message: "no int4".to_owned() })]);
    assert!(bench.error(&square()).contains("exit status: 1"), "{}", bench.error(&square()));
    let mut spec = BuildSpec::new(SOC);
    let bank = bench.place.below("home");
    std::fs::create_dir_all(&bank).unwrap();
    spec.options.insert("op_bank_path".to_owned(), bank.to_str().unwrap().into());
    let bench = Bench { spec: bench.backend.resolve(&TestContext::new().cx(), &spec).unwrap(), ..bench };
    assert!(bench.error(&square()).contains("asc_opc"), "{}", bench.error(&square()));
}

pub(crate) fn pythons() {
    for driver in DRIVERS {
        for (plan, says) in [
            (Toolkit::new().protobuf("4.25.1"), "protobuf<=3.20.3"),
            (Toolkit::new().without_module("google"), "install that module"),
        ] {
            let bench = Bench::of(Place::of(&plan), driver);
            let (_work, failed) = bench.compile(&square());
            let error = failed.unwrap_err();
            assert!(matches!(error, BackendError::Toolchain { .. }), "{driver:?}: {error}");
            assert!(error.to_string().contains(says), "{driver:?}: {error}");
        }
        let place = Place::new();
        let mut config = driven(&place, driver);
        config.search.environment.insert("HI_PYTHON".to_owned(), "/nowhere/python3".into());
        let bench = Bench::with(place, &config);
        let error = bench.backend.toolchain(&TestContext::new().cx()).unwrap_err();
        assert!(error.to_string().contains("/nowhere/python3"), "{driver:?}: {error}");
    }
}
