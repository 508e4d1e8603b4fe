//! Compiles that end early, by a deadline, a caller or a signal: no process stays.

use super::*;

/// How many processes have `marker` on their command line, or work in a directory below it.
fn processes(marker: &Path) -> usize {
    let marker = marker.to_str().unwrap();
    let mut count = 0;
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let is = |link: &str| {
            std::fs::read_link(entry.path().join(link))
                .is_ok_and(|target| target.to_string_lossy().starts_with(marker))
        };
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let own = entry.file_name().to_string_lossy() == std::process::id().to_string();
        let alive =
            std::fs::read_to_string(entry.path().join("stat")).is_ok_and(|stat| !stat.contains(") Z "));
        count += usize::from(!own && alive && (is("cwd") || String::from_utf8_lossy(&line).contains(marker)));
    }
    count
}

/// Waits until it is so.
fn wait_for(what: &str, mut so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !so() {
        assert!(Instant::now() < until, "not within a minute: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn late() {
    for (driver, bench) in Bench::each() {
        // The toolkit is imported, so that the deadline meets the compile.
        bench.made(&relu());
        for fault in [Fault::Hang { deaf: true }, Fault::CompilerHangs] {
            bench.rules(&[Rule::new(fault.clone()).op("Square")]);
            let begun = bench.compiles();
            // On a busy machine a short deadline is over before the compile begins.
            let mut limit = Duration::from_millis(500);
            while bench.compiles() == begun {
                limit *= 2;
                let (work, failed) = bench.compile_within(&square(), Some(limit), &CancelToken::new());
                let error = failed.unwrap_err();
                assert!(matches!(error, BackendError::TimedOut { .. }), "{driver:?} {fault:?}: {error}");
                wait_for("no process works there", || processes(work.path()) == 0);
                assert!(limit < Duration::from_secs(100), "it never begins");
            }
            bench.rules(&[]);
            bench.made(&square());
        }
    }
}

pub(crate) fn cancelled() {
    for (_, bench) in Bench::each() {
        bench.rules(&[Rule::new(Fault::Hang { deaf: true })]);
        let cancel = CancelToken::new();
        let ended = std::thread::scope(|scope| {
            let compile = scope.spawn(|| bench.compile_within(&square(), None, &cancel));
            wait_for("a compile began", || bench.compiles() == 1);
            cancel.cancel();
            compile.join().unwrap()
        });
        assert!(matches!(ended.1, Err(BackendError::Cancelled)), "{:?}", ended.1);
        wait_for("no process works there", || processes(ended.0.path()) == 0);
    }
}

/// Starts a compile that never ends; the test kills this process.
pub(crate) fn hold(dir: &Path) {
    let driver = match dir.join("workers").exists() {
        true => Driver::Workers,
        false => Driver::Process,
    };
    let mut search = crate::common::search_below(dir);
    search.environment.extend([("PATH".to_owned(), std::env::var_os("PATH").unwrap())]);
    search.environment.extend(toolkit::python().map(|path| ("HI_PYTHON".to_owned(), path.into_os_string())));
    let mut config = AscendConfig::new(search);
    config.driver = driver;
    let backend = AscendBackend::open(&config, SOC).unwrap();
    let spec = backend.resolve(&TestContext::new().cx(), &BuildSpec::new(SOC)).unwrap();
    let work_dir = dir.join("work");
    let job = square();
    let name = name_of(&backend, &job, &spec);
    let request = CompileRequest { job: &job, spec: &spec, name: &name, work_dir: &work_dir };
    drop(backend.compile(&TestContext::new().cx(), &request));
}

pub(crate) fn killed() {
    for driver in DRIVERS {
        let place = Place::new();
        let dir = place.dir.path().to_owned();
        std::fs::create_dir(dir.join("work")).unwrap();
        if driver == Driver::Workers {
            std::fs::write(dir.join("workers"), "").unwrap();
        }
        place.installed.rules(&[Rule::new(Fault::Hang { deaf: true })]).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .env(HELD, &dir)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        wait_for("a compile began", || !place.installed.compiles().unwrap().is_empty());
        let pid = place.installed.compiles().unwrap()[0].pid;
        let alive = || {
            Path::new(&format!("/proc/{pid}/cmdline")).exists()
                && !std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default().contains(") Z ")
        };
        assert!(alive());
        child.kill().unwrap();
        child.wait().unwrap();
        // Children of `opc`, a shell script, may run to their own end; a worker's group may not.
        if driver == Driver::Workers {
            wait_for("the worker is gone", || !alive());
            wait_for("no process works there", || processes(&dir.join("work")) == 0);
        } else if alive() {
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
        }
    }
}
