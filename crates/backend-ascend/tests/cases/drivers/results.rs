//! The kernels of both drivers, with their options.

use super::*;

/// The kernel without the path that it was compiled at.
fn placeless(artifact: &Artifact) -> (Value, &[u8]) {
    let mut json: Value = serde_json::from_slice(&artifact.metadata).unwrap();
    json.as_object_mut().unwrap().remove("filePath");
    (json, &artifact.object)
}

pub(crate) fn same() {
    let place = Arc::new(Place::new());
    let [process, workers] = DRIVERS.map(|driver| AscendBackend::open(&driven(&place, driver), SOC).unwrap());
    assert_eq!((process.driver(), workers.driver()), (Driver::Process, Driver::Workers));
    let jobs = [
        square(),
        relu(),
        job("Add", &[&[4, 8], &[4, 8]]),
        job("SoftmaxV2", &[&[3, 5]]),
        job("Sqrt", &[&[3, 5]]),
    ];
    let options =
        [json!({}), json!({"deterministic": "true", "op_impl_mode": "high_precision", "coreNum": "8"})];
    let mut objects = BTreeSet::new();
    let mut pairs = 0;
    for options in &options {
        let mut spec = BuildSpec::new(SOC);
        let options = options.as_object().unwrap().iter();
        spec.options = options.map(|(name, value)| (name.clone(), value.clone())).collect();
        for job in jobs.iter().filter(|job| {
            !matches!(process.supports(job, &ResolvedSpec::default()), opkeep_backend::Support::No(_))
        }) {
            let made = [&process, &workers].map(|backend| {
                let spec = backend.resolve(&TestContext::new().cx(), &spec).unwrap();
                let work = TempDir::new().unwrap();
                let name = name_of(backend, job, &spec);
                let request = CompileRequest { job, spec: &spec, name: &name, work_dir: work.path() };
                backend
                    .compile(&TestContext::new().cx(), &request)
                    .unwrap_or_else(|error| panic!("{}: {error}", job.ops[0].op_type))
            });
            assert_eq!(placeless(&made[0]), placeless(&made[1]), "{}", job.ops[0].op_type);
            objects.insert(made[0].object.clone());
            pairs += 1;
        }
    }
    assert!(pairs >= 6 && objects.len() == pairs, "{} objects of {pairs}", objects.len());
}

pub(crate) fn options() {
    for (driver, mut bench) in Bench::each() {
        let bank = bench.place.below("bank");
        bench.place.installed.write_bank(Some(&bank), SOC, "square", &json!({"tiling": 7})).unwrap();
        let mut objects = vec![bench.made(&square()).object];
        for (name, value) in [
            ("op_debug_level", "2"),
            ("op_debug_config", "oom"),
            ("deterministic", "true"),
            ("aicore_num", "4"),
            ("op_bank_path", bank.to_str().unwrap()),
        ] {
            let mut spec = BuildSpec::new(SOC);
            spec.options.insert(name.to_owned(), value.into());
            bench.spec = bench.backend.resolve(&TestContext::new().cx(), &spec).unwrap();
            objects.push(bench.made(&square()).object);
        }
        let different: BTreeSet<&Vec<u8>> = objects.iter().collect();
        assert!(different.len() >= 4, "{driver:?}: {} kinds of {}", different.len(), objects.len());
        let spec = |name: &str, value: &str| {
            let mut spec = BuildSpec::new(SOC);
            spec.options.insert(name.to_owned(), value.into());
            spec
        };
        let refused = bench
            .backend
            .resolve(&TestContext::new().cx(), &spec("op_bank_path", "/nowhere"))
            .unwrap_err()
            .to_string();
        assert!(refused.contains("op_bank_path") && refused.contains("/nowhere"), "{refused}");
    }
}

pub(crate) fn once() {
    for (driver, bench) in Bench::each() {
        let names: Vec<_> = [square(), relu()].iter().map(|job| bench.made(job)).collect();
        let compiles = bench.place.installed.compiles().unwrap();
        assert_eq!(compiles.len(), 2, "{driver:?}");
        assert!(compiles.iter().all(|compile| compile.deterministic == "false" && compile.soc == SOC));
        for (made, compile) in names.iter().zip(&compiles) {
            let meta = KernelMeta::parse(&made.metadata).unwrap();
            assert_eq!(meta.bin_file_name.unwrap(), compile.kernel);
        }
    }
}

pub(crate) fn split() {
    for (driver, bench) in Bench::each() {
        bench.rules(&[Rule::new(Fault::SplitMix)]);
        let made = bench.made(&square());
        let names: Vec<&str> = made.extra.iter().map(|member| member.name.as_str()).collect();
        assert!(made.object.is_empty() && names.len() == 4, "{driver:?}: {names:?}");
        assert!(names.iter().filter(|name| name.ends_with(".o")).count() == 2, "{names:?}");
    }
}
