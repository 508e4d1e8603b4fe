//! The queries of the compiler: as few as possible, and always enough.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers fail the test that calls them")]
#![expect(clippy::disallowed_methods, reason = "tests lay out compilers on disk")]

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::common::job;
use opkeep_backend::{Backend, BackendError};
use opkeep_backend_cpu::{CpuBackend, CpuConfig};
use opkeep_digest::Fingerprint;
use opkeep_fs::CancelToken;
use opkeep_testkit::TestContext;
use tempfile::TempDir;

/// A compiler that records its queries.
struct LoggingCompiler(TempDir);

impl LoggingCompiler {
    /// A compiler that answers by `script`, where `$*` is the query.
    fn new(script: &str) -> Self {
        let logging = Self(tempfile::tempdir().unwrap());
        let log = logging.path("log");
        crate::common::script(
            &logging.path("cc"),
            &format!("#!/bin/sh\necho \"$*\" >> '{}'\n{script}\n", log.display()),
        );
        logging
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The real compiler, which answers as soon as there is a file `go`.
    fn held() -> Self {
        let real = crate::common::real_compiler();
        Self::new(&format!(
            "while [ ! -e \"$(dirname \"$0\")/go\" ]; do sleep 0.01; done\nexec '{}' \"$@\"",
            real.display()
        ))
    }

    fn config(&self) -> CpuConfig {
        let compiler = self.path("cc").to_str().unwrap().to_owned();
        CpuConfig::new(crate::common::path()).with_compiler(Some(compiler))
    }

    fn backend(&self) -> CpuBackend {
        CpuBackend::new(self.config())
    }

    fn until_asked(&self, questions: usize) {
        self.until(|| self.asked().len() >= questions);
    }

    fn until(&self, done: impl Fn() -> bool) {
        let began = Instant::now();
        while !done() {
            assert!(began.elapsed() < Duration::from_secs(20), "{:?}", self.asked());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The first word of each query so far, without compiles.
    fn asked(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.path("log")).unwrap_or_default();
        let mut asked: Vec<String> = log
            .lines()
            .filter(|line| !line.contains("kernel.c"))
            .map(|line| line.split(' ').next().unwrap().to_owned())
            .collect();
        asked.sort_unstable();
        asked
    }
}

fn toolchain(backend: &CpuBackend) -> Fingerprint {
    backend.toolchain(&TestContext::new().cx()).unwrap_or_else(|error| panic!("{error}"))
}

/// The note of a part.
fn note<'a>(fingerprint: &'a Fingerprint, part: &str) -> &'a str {
    &fingerprint.parts().iter().find(|found| found.name == part).unwrap().note
}

#[test]
fn a_compiler_is_asked_one_question() {
    let compiler =
        LoggingCompiler::new(&format!("exec '{}' \"$@\"", crate::common::real_compiler().display()));
    let backend = compiler.backend();
    toolchain(&backend);
    let exp = job("Exp", &[&[3]], &[]);
    backend.op_sources(&TestContext::new().cx(), &exp, &crate::common::spec(&backend)).unwrap();
    assert_eq!(compiler.asked(), ["-###"]);
}

/// A compiler whose first answer is not understood is queried for its version; the result is the same.
#[test]
fn the_long_way_leads_to_the_same_toolchain() {
    let real = crate::common::real_compiler();
    let logging = LoggingCompiler::new(&format!(
        "here=$(dirname \"$0\")\n\
         case \" $* \" in\n\
         *' -v '*) : > \"$here/told\";;\n\
         *' -### '*) [ -e \"$here/silent\" ] && [ ! -e \"$here/told\" ] && exit 1;;\n\
         esac\n\
         exec '{}' \"$@\"",
        real.display()
    ));
    let short = toolchain(&logging.backend());
    let questions = logging.asked().len();
    std::fs::write(logging.path("silent"), "").unwrap();
    assert_eq!(toolchain(&logging.backend()), short);
    assert_eq!(logging.asked().len(), questions + 3);
}

/// A made-up compiler for `target`, of `version`, that takes flags only if its own is among them.
fn made_up(target: &str, version: &str, own: &str) -> LoggingCompiler {
    LoggingCompiler::new(&format!(
        "case \"$*\" in *kernel.c*) exec '{}' -shared -nostdlib -o kernel.o kernel.c;; esac\n\
         [ \"$1\" = '-###' ] && case \" $* \" in *' {own} '*) ;; *) echo 'unknown flag' >&2; exit 1;; esac\n\
         printf '%s\\n' '{version}' 'Target: {target}'\n\
         [ \"$1\" = '-###' ] && echo ' /bin/sh -quiet -'\n\
         exit 0",
        crate::common::real_compiler().display()
    ))
}

#[test]
fn compilers_are_queried_with_the_flags_of_their_kind() {
    let arm = ("aarch64-linux-gnu", "-march=armv8-a");
    let x86 = ("x86_64-linux-gnu", "-march=x86-64");
    let (host, other) = if cfg!(target_arch = "x86_64") { (x86, arm) } else { (arm, x86) };
    let gcc = ("gcc version 99 (made up)", "-fno-tree-loop-distribute-patterns");
    let clang = ("made up clang version 99", "-fno-builtin");
    for ((target, arch), (version, kind)) in [(host, gcc), (other, gcc), (host, clang), (other, clang)] {
        for own in [arch, kind] {
            let fingerprint = toolchain(&made_up(target, version, own).backend());
            let flags: Vec<&str> = note(&fingerprint, "flags").split(' ').collect();
            assert!(flags.contains(&arch) && flags.contains(&kind), "{target}, {version}: {flags:?}");
            assert_eq!((note(&fingerprint, "triple"), note(&fingerprint, "version")), (target, version));
        }
    }
}

/// Kernels are not compiled with the flags for other compilers, even if it only warns of them.
#[test]
fn a_compiler_that_takes_all_flags_is_given_its_own() {
    let clang = made_up(&format!("{}-linux-gnu", std::env::consts::ARCH), "clang version 99", "-std=c11");
    let fingerprint = toolchain(&clang.backend());
    assert!(note(&fingerprint, "flags").contains("-fno-builtin"), "{fingerprint:?}");
    assert_eq!(clang.asked().iter().filter(|question| *question == "-###").count(), 2);
}

#[test]
fn clang_is_known_by_its_name() {
    let target = format!("{}-linux-gnu", std::env::consts::ARCH);
    let clang = made_up(&target, "clang version 99", "-fno-builtin");
    std::fs::rename(clang.path("cc"), clang.path("clang-99")).unwrap();
    symlink(clang.path("clang-99"), clang.path("cc")).unwrap();
    toolchain(&clang.backend());
    assert_eq!(clang.asked(), ["-###"]);
}

/// A query that was begun ahead does not block, and is not repeated.
#[test]
fn warming_up_asks_all_questions() {
    let logging = LoggingCompiler::held();
    let backend = logging.backend();
    backend.warm_up(&TestContext::new().cx());
    backend.warm_up(&TestContext::new().cx());
    logging.until_asked(1);
    std::fs::write(logging.path("go"), "").unwrap();
    assert_eq!(toolchain(&backend), toolchain(&backend));
    backend.warm_up(&TestContext::new().cx());
    assert_eq!(logging.asked(), ["-###"]);
}

/// The caller's deadline applies to the query. A query of a thread that has ended is begun again.
#[test]
fn a_question_asked_ahead_binds_no_caller() {
    let hangs = LoggingCompiler::new("exec sleep 1000");
    let backend = hangs.backend();
    backend.warm_up(&TestContext::new().cx());
    let (cancel, began) = (CancelToken::new(), Instant::now());
    std::thread::scope(|scope| {
        let asks = scope.spawn(|| backend.toolchain(&TestContext::cancelled_by(&cancel).cx()));
        hangs.until_asked(1);
        std::thread::sleep(Duration::from_millis(50));
        cancel.cancel();
        assert!(matches!(asks.join().unwrap(), Err(BackendError::Cancelled)));
    });
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());

    let real = crate::common::real_compiler();
    let slow = LoggingCompiler::new(&format!("sleep 0.1\nexec '{}' \"$@\"", real.display()));
    let backend = slow.backend();
    std::thread::scope(|scope| scope.spawn(|| backend.warm_up(&TestContext::new().cx())).join().unwrap());
    assert!(!toolchain(&backend).parts().is_empty());
}

/// A caller that began the same query itself would never wait for the one in progress.
#[test]
fn no_query_is_begun_while_it_is_in_progress() {
    let logging = LoggingCompiler::held();
    let backend = logging.backend();
    std::thread::scope(|scope| {
        let asks = scope.spawn(|| toolchain(&backend));
        logging.until_asked(1);
        backend.warm_up(&TestContext::new().cx());
        std::fs::write(logging.path("go"), "").unwrap();
        asks.join().unwrap();
    });
    assert_eq!(logging.asked(), ["-###"]);
}

/// A compiler that writes more than a pipe holds is blocked until its output is read, and is not at fault.
#[test]
fn time_counts_only_while_a_caller_waits() {
    let real = crate::common::real_compiler();
    let logging = LoggingCompiler::new(&format!(
        "[ \"$1\" = '-###' ] && yes | head -c 200000\nexec '{}' \"$@\"",
        real.display()
    ));
    let timeout = Duration::from_secs(2);
    let backend = CpuBackend::new(logging.config().with_probe_deadline(timeout));
    backend.warm_up(&TestContext::new().cx());
    std::thread::sleep(timeout + Duration::from_millis(100));
    toolchain(&backend);
    assert_eq!(logging.asked(), ["-###"]);
}

/// A host program may wait for all its children, those of the backend included.
#[test]
fn a_question_cancelled_by_another_caller_is_asked_again() {
    let real = crate::common::real_compiler();
    let logging = LoggingCompiler::new(&format!(
        "echo $$ >> \"$(dirname \"$0\")/ids\"\nexec '{}' \"$@\"",
        real.display()
    ));
    let ids = || std::fs::read_to_string(logging.path("ids")).unwrap_or_default();
    let backend = logging.backend();
    backend.warm_up(&TestContext::new().cx());
    logging.until(|| ids().lines().count() == 1);
    for id in ids().lines() {
        let id = rustix::process::Pid::from_raw(id.parse().unwrap());
        rustix::process::waitpid(id, rustix::process::WaitOptions::empty()).unwrap();
    }
    assert_eq!(toolchain(&backend), toolchain(&logging.backend()));
}

/// A compiler that is killed during its dry run would leave temporary files in the system's directory.
#[test]
fn an_unused_warm_up_leaves_nothing_behind() {
    let logging = LoggingCompiler::new(
        "[ \"$1\" = '-###' ] || exit 0\n\
         trap 'rm \"$TMPDIR/left\"; exit 1' TERM\n\
         : > \"$TMPDIR/left\"\n\
         while :; do sleep 0.01; done",
    );
    let scratch = logging.path("scratch");
    std::fs::create_dir(&scratch).unwrap();
    let mut config = logging.config();
    config.scratch.clone_from(&scratch);
    let backend = CpuBackend::new(config);
    backend.warm_up(&TestContext::new().cx());
    let children = |dir: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
    };
    // In the directory of this user.
    let probes = || children(&scratch).iter().flat_map(|dir| children(dir)).collect::<Vec<_>>();
    logging.until(|| probes().iter().any(|dir| dir.join("left").exists()));
    drop(backend);
    assert_eq!(probes(), [] as [PathBuf; 0]);
}

/// The version alone is not enough.
#[test]
fn a_compiler_that_cannot_compile_is_none() {
    let real = crate::common::real_compiler();
    // The real compiler must answer in that time as well.
    let (long, short) = (Duration::from_secs(30), Duration::from_secs(2));
    for (bad, says, timeout) in [
        ("echo no licence >&2; exit 7", "no licence (exit status: 7)", long),
        ("sleep 1000", "deadline", short),
        ("exit 0", "it makes no object", long),
    ] {
        let logging = LoggingCompiler::new(&format!(
            "case \"$*\" in *kernel.c*) {bad};; esac\nexec '{}' \"$@\"",
            real.display()
        ));
        let backend = CpuBackend::new(logging.config().with_probe_deadline(timeout));
        let error = backend.toolchain(&TestContext::new().cx()).unwrap_err();
        // The command is in the error, or beside it, with all that it wrote.
        let tool = match &error {
            BackendError::Toolchain { tool: Some(tool), .. } => format!("{}: {}", tool.command, tool.output),
            _ => String::new(),
        };
        let text = format!("{error} | {tool}");
        assert!(text.contains(says) && text.contains("kernel.c"), "{text}");
        assert_eq!(tool.contains("no licence"), says.contains("no licence"), "{tool}");
    }
}
