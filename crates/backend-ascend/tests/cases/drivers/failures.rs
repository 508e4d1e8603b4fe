//! Compiles that fail: the error names the problem, and no other compile fails with them.

use super::*;

pub(crate) fn failures() {
    for (driver, bench) in Bench::each() {
        let fail = |code: &str, message: &str| {
            Rule::new(Fault::Fail { code: code.to_owned(), message: message.to_owned() }).times(1)
        };
        bench.rules(&[fail("E80012", "the number of dimensions of `x` must be in [0, 8]")]);
        let (_work, failed) = bench.compile(&square());
        let BackendError::Compile { command, log_tail, log, .. } = failed.unwrap_err() else {
            panic!("{driver:?}: another error")
        };
        assert!(log_tail.contains("E80012") && log_tail.contains("must be in [0, 8]"), "{log_tail}");
        assert!(log_tail.contains("fewer or more dimensions"), "no hint: {log_tail}");
        assert!(command.contains(if driver == Driver::Process { "opc" } else { "compile_op" }), "{command}");
        let log = std::fs::read_to_string(log.unwrap()).unwrap();
        assert!(log.contains("E80012"), "{log}");
        // One failure is no verdict.
        bench.made(&square());
        bench.rules(&[Rule::new(Fault::CompilerFails { attempts: 3 })]);
        assert!(bench.error(&square()).contains("E40021"), "{}", bench.error(&square()));
    }
}

pub(crate) fn statuses() {
    for (driver, bench) in Bench::each() {
        // Well, whatever the status says.
        if driver == Driver::Process {
            bench.rules(&[Rule::new(Fault::ExitAfter { code: 3 })]);
            bench.made(&square());
        }
        for fault in [Fault::Nothing, Fault::NoObject, Fault::NoJson] {
            bench.rules(&[Rule::new(fault.clone())]);
            let error = bench.error(&square());
            assert!(error.contains("ended without an error, but"), "{driver:?} {fault:?}: {error}");
            assert!(error.contains("is not there"), "{driver:?} {fault:?}: {error}");
        }
        bench.rules(&[Rule::new(Fault::CutJson { bytes: 40 })]);
        assert!(bench.error(&square()).contains("cannot be used"), "{}", bench.error(&square()));
        bench.rules(&[Rule::new(Fault::Exit { code: 9 })]);
        let error = bench.error(&square());
        assert!(error.contains("exit status: 9"), "{driver:?}: {error}");
    }
}

pub(crate) fn missing() {
    let place = Place::new();
    let open = |soc: &str| AscendBackend::open(&driven(&place, Driver::Process), soc);
    let error = open("Ascend910B9").err().unwrap().to_string();
    assert!(error.contains("Ascend910B9") && error.contains("Ascend910B1"), "{error}");
    let bench = Bench::of(Place::new(), Driver::Process);
    let mut none = square();
    none.ops[0].op_type = "Nonsense".to_owned();
    none.ops[0].func_name = "nonsense".to_owned();
    none.ops[0].module_name = "impl.nonsense".to_owned();
    let opkeep_backend::Support::No(reason) = bench.backend.supports(&none, &bench.spec) else { panic!() };
    assert!(reason.to_string().contains("Nonsense") && reason.to_string().contains("ASCEND_CUSTOM_OPP_PATH"));
    let half = Place::of(&Toolkit::new().without(Part::Compiler));
    let error = AscendBackend::open(&driven(&half, Driver::Workers), SOC).err().unwrap().to_string();
    assert!(error.contains("ccec") && error.contains("not complete"), "{error}");
}

pub(crate) fn floods() {
    for (driver, bench) in Bench::each() {
        bench.rules(&[
            Rule::new(Fault::Flood { bytes: 20 << 20 }),
            Rule::new(Fault::Fail { code: "E60004".to_owned(), message: "after the flood".to_owned() }),
        ]);
        let (_work, failed) = bench.compile(&square());
        let BackendError::Compile { log_tail, log, .. } = failed.unwrap_err() else { panic!("{driver:?}") };
        assert!(log_tail.contains("after the flood"), "{log_tail}");
        let length = std::fs::metadata(log.unwrap()).unwrap().len();
        assert!((1000..200_000).contains(&length), "{length}");
    }
}

pub(crate) fn crashes() {
    for (driver, bench) in Bench::each() {
        bench.rules(&[Rule::new(Fault::Crash).op("Relu")]);
        std::thread::scope(|scope| {
            let well: Vec<_> = (1..4)
                .map(|count| {
                    let bench = &bench;
                    scope.spawn(move || bench.made(&job("Square", &[&[count]])))
                })
                .collect();
            let error = bench.error(&relu());
            // The shell around `opc` reports a signal by its exit status.
            assert!(
                error.contains("signal: 11") || error.contains("exit status: 139"),
                "{driver:?}: {error}"
            );
            well.into_iter().for_each(|one| drop(one.join().unwrap()));
        });
        bench.rules(&[]);
        bench.made(&relu());
    }
}
