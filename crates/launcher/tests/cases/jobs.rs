//! Commands that run make, with the tokens of the make that runs them.

use std::process::{Command, Stdio};

use crate::processes::{Bench, CHILD};

/// Two jobs of the inner make, each of which waits for the other: they end only if both run at the same time.
const INNER: &str = "all: one two\n\
    one two:\n\
    \t@: > \"$$TMPDIR/$@\"; for i in `seq 500`; do \
    if [ -e \"$$TMPDIR/one\" ] && [ -e \"$$TMPDIR/two\" ]; then exit 0; fi; sleep 0.02; done; exit 1\n";

pub(crate) fn by_descriptors() {
    tokens("pipe");
}

pub(crate) fn by_a_named_pipe() {
    tokens("fifo");
}

/// Whether this make can give tokens by a named pipe: GNU make before 4.4 has descriptors only.
pub(crate) fn has_named_pipes() -> bool {
    let help = Command::new("make").arg("--help").output().unwrap();
    String::from_utf8_lossy(&help.stdout).contains("--jobserver-style")
}

fn tokens(style: &str) {
    let bench = Bench::new();
    bench.write("tree/inner.mk", INNER);
    let this = std::env::current_exe().unwrap();
    let script = "make -f inner.mk && echo x > out/k";
    let recipe = format!(
        "all:\n\t+@'{}' {CHILD} '{}' '{script}'\n",
        this.display(),
        bench.path("").display().to_string().trim_end_matches('/')
    );
    bench.write("outer.mk", &recipe);
    for expected in ["Compiled", "Hit"] {
        let mut make = Command::new("make");
        if has_named_pipes() {
            make.arg(format!("--jobserver-style={style}"));
        }
        make.args(["-j3", "-f"]).arg(bench.path("outer.mk"));
        let ended =
            make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL").stdin(Stdio::null()).output().unwrap();
        let warnings = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success() && !warnings.contains("jobserver"), "{warnings}");
        assert_eq!(bench.hows(), [expected]);
    }
}
