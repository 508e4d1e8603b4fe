//! Workers must notice changed files, and the directory that the toolkit's programs run in must not matter.

use super::*;

/// One that was edited once is out of date for all workers.
pub(crate) fn many_out_of_date() {
    // Compiles take long enough for all of them to be on at once.
    let plan = Toolkit::new().compile_time(Duration::from_secs(2));
    let place = Place::of(&plan);
    let config = settled(&place, Driver::Workers);
    let bench = Bench::with(place, &config);
    let workers = || pids(&bench).into_iter().collect::<BTreeSet<_>>().len();
    // On a busy machine the first ones are done before the others are started: then all are asked again.
    for _ in 0..10 {
        std::thread::scope(|scope| {
            for count in 1..8 {
                let bench = &bench;
                scope.spawn(move || bench.made(&job("Square", &[&[count]])));
            }
        });
        if workers() > 4 {
            break;
        }
    }
    assert!(workers() > 4, "too few workers for this test: {}", workers());
    let file = bench.place.installed.impl_file("dynamic/square.py");
    bench.place.installed.append(&file, "\n# another\n").unwrap();
    bench.made(&square());
}

fn pids(bench: &Bench) -> Vec<u32> {
    bench.place.installed.compiles().unwrap().into_iter().map(|compile| compile.pid).collect()
}

/// Files that are no modules may have been read when the worker was started.
pub(crate) fn dismissed() {
    let bench = Bench::settled(Driver::Workers);
    bench.backend.toolchain(&TestContext::new().cx()).unwrap();
    bench.made(&square());
    bench.backend.toolchain(&TestContext::new().cx()).unwrap();
    bench.made(&square());
    let path = bench.place.installed.op_info("ascend910b");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{text}\n")).unwrap();
    bench.backend.toolchain(&TestContext::new().cx()).unwrap();
    bench.made(&square());
    let pids = pids(&bench);
    assert!(pids[0] == pids[1] && pids[1] != pids[2], "{pids:?}");
}

/// Two users' directories have a package of the same name, with the same module in it that operators import.
pub(crate) fn namesakes() {
    let bench = Bench::settled(Driver::Workers);
    let text = std::fs::read_to_string(bench.place.installed.impl_file("dynamic/square.py")).unwrap();
    let own = |user: &str| {
        let base = bench.place.below(user);
        let package = base.join("own_impl");
        std::fs::create_dir_all(&package).unwrap();
        let path = format!("import sys\nsys.path.insert(0, {base:?})\nfrom own_impl import helper\n");
        std::fs::write(package.join("own_square.py"), format!("{path}{text}")).unwrap();
        std::fs::write(package.join("__init__.py"), "").unwrap();
        std::fs::write(package.join("helper.py"), format!("USER = {user:?}\n")).unwrap();
        let mut job = square();
        job.ops[0].module_path = Some(package.join("own_square.py").to_str().unwrap().to_owned());
        job.ops[0].func_name = "square".to_owned();
        job
    };
    let jobs = [own("ann"), own("bob")];
    let config = driven(&bench.place, Driver::Process);
    let alone = AscendBackend::open(&config, SOC).unwrap();
    for job in jobs.iter().chain(&jobs) {
        let by_worker = bench.made(job);
        let name = name_of(&bench.backend, job, &bench.spec);
        let work = TempDir::new().unwrap();
        let (spec, work_dir) = (&bench.spec, work.path());
        let request = CompileRequest { job, spec, name: &name, work_dir };
        let by_process = alone.compile(&TestContext::new().cx(), &request).unwrap();
        assert!(by_worker.object == by_process.object, "not as by a process");
    }
    // Their imports are watched as the toolkit's own modules are.
    let helper = bench.place.below("ann/own_impl/helper.py");
    let before = pids(&bench).len();
    let first = bench.made(&jobs[0]).object;
    bench.made(&jobs[0]);
    std::fs::write(&helper, "USER = 'somebody else'\n").unwrap();
    assert_ne!(bench.made(&jobs[0]).object, first);
    let pids = &pids(&bench)[before..];
    assert_ne!(pids[1], pids[2], "{pids:?}");
}

/// The toolkit's programs run elsewhere than we do.
pub(crate) fn relative() {
    let here = std::env::current_dir().unwrap();
    // There is `src` here, and nowhere else.
    let up = format!("src/../{}", "../".repeat(here.components().count() - 1));
    let from_here = |path: &Path| format!("{up}{}", path.strip_prefix("/").unwrap().to_str().unwrap());
    for driver in DRIVERS {
        let place = Place::new();
        let dir = place.below("mine");
        place.installed.write_vendor(&Vendor::new("mine").op("MyOp", "Square"), &dir).unwrap();
        let bank = place.below("bank");
        std::fs::create_dir(&bank).unwrap();
        let mut config = driven(&place, driver);
        let custom = from_here(&dir).into();
        config.search.environment.insert("ASCEND_CUSTOM_OPP_PATH".to_owned(), custom);
        let bench = Bench::with(place, &config);
        assert!(!bench.made(&crate::common::job("MyOp")).object.is_empty());
        let mut spec = BuildSpec::new(SOC);
        spec.options.insert("op_bank_path".to_owned(), from_here(&bank).into());
        let resolved =
            bench.backend.resolve(&TestContext::new().cx(), &spec).unwrap().options["op_bank_path"].clone();
        assert!(Path::new(&resolved).is_absolute(), "{resolved}");
        assert_eq!(std::fs::canonicalize(&resolved).unwrap(), std::fs::canonicalize(&bank).unwrap());
    }
}

pub(crate) fn recycled() {
    let place = Place::new();
    let mut config = settled(&place, Driver::Workers);
    config.jobs_per_worker = 3;
    let bench = Bench::with(place, &config);
    (1..8).for_each(|count| drop(bench.made(&job("Square", &[&[count]]))));
    let pids: Vec<u32> =
        bench.place.installed.compiles().unwrap().into_iter().map(|compile| compile.pid).collect();
    let mut runs: Vec<usize> = Vec::new();
    for (at, pid) in pids.iter().enumerate() {
        match at > 0 && pids[at - 1] == *pid {
            true => *runs.last_mut().unwrap() += 1,
            false => runs.push(1),
        }
    }
    assert_eq!(runs, [3, 3, 1], "{pids:?}");
}
