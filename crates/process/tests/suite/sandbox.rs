//! With real programs: their reads are observed, and reads outside the domain are denied.
#![expect(clippy::unwrap_used, reason = "helpers fail the test that calls them")]
#![expect(clippy::disallowed_methods, reason = "tests lay files and run programs over them")]

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use opkeep_digest::Digest;
use opkeep_fs::CancelToken;
use opkeep_process::{
    Inputs, InputsError, Observation, Observer, ProcessBuilder, ProcessError, ProcessOutput, Sandbox,
    Unchanged,
};

fn files(path: &Path) -> io::Result<Digest> {
    fs::read(path).map(|bytes| Digest::of(&bytes))
}

/// A directory for the files of a test, with a work directory in it.
pub(crate) struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("work")).unwrap();
        Self { dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text.replace("{}", self.dir.path().to_str().unwrap())).unwrap();
        path
    }

    /// `{}` in the script is the bench's directory.
    pub(crate) fn run(&self, script: &str, sandbox: Sandbox<'_>) -> Result<ProcessOutput, ProcessError> {
        let script = script.replace("{}", self.dir.path().to_str().unwrap());
        let args = ["-c", &script].map(OsString::from);
        let work = self.path("work");
        let environment = [
            (OsStr::new("PATH"), OsStr::new("/usr/local/bin:/usr/bin:/bin")),
            (OsStr::new("TMPDIR"), work.as_os_str()),
            (OsStr::new("LC_ALL"), OsStr::new("C")),
        ];
        let run = ProcessBuilder {
            program: Path::new("/bin/sh"),
            args: &args,
            environment: &environment,
            dir: &work,
            log: None,
            deadline: std::time::Instant::now().checked_add(Duration::from_secs(60)),
            cancel: &CancelToken::new(),
            sandbox,
        };
        run.wait_with_output()
    }

    /// Runs a script until it is observed completely, as a caller does.
    pub(crate) fn observe(&self, script: &str) -> (ProcessOutput, Observation) {
        for attempt in 1.. {
            let observer = Observer::start(&self.path("work")).unwrap();
            let ended = self.run(script, Sandbox { observer: Some(&observer), domain: None }).unwrap();
            let seen = observer.finish();
            if seen.incomplete.is_none() {
                return (ended, seen);
            }
            assert!(attempt < 20, "{script}: {:?}", seen.incomplete);
        }
        unreachable!("the attempts are not limited otherwise")
    }

    /// The result of a script in the domain of the files that `observed` read.
    fn confined(&self, observed: &str, script: &str) -> ProcessOutput {
        let (_, seen) = self.observe(observed);
        let inputs = Inputs::of(&[&seen], &files).unwrap();
        let domain = inputs.domain(&self.path("work")).unwrap();
        self.run(script, Sandbox { domain: Some(&domain), observer: None }).unwrap()
    }
}

const C: &str = "printf 'float f(float x) { return x + 1; }' > k.c && cc -O2 -shared -nostdlib -o k.o k.c";

#[test]
fn a_compilers_reads_are_observed() {
    let bench = Bench::new();
    bench.write("a.h", "#include \"sub/b.h\"\n");
    let nested = bench.write("sub/b.h", "\n");
    let (ended, seen) = bench.observe(&format!("{C} -include {{}}/a.h -L {{}}/lib"));
    assert!(ended.status.success(), "{}", ended.output);
    let names: Vec<&str> = seen.read.keys().filter_map(|path| path.file_name()?.to_str()).collect();
    for name in ["cc1", "as", "a.h", "stdc-predef.h", "liblto_plugin.so"] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    assert!(names.iter().any(|name| name.starts_with("ld-linux")), "the dynamic loader in {names:?}");
    assert!(seen.read.contains_key(&nested), "{names:?}");
    // Its temporary files are not among them.
    assert!(seen.read.keys().all(|path| !path.starts_with(bench.path("work"))));
    // The steps are in their order, with their arguments.
    let steps: Vec<&str> = seen.programs.iter().filter_map(|p| p.path.file_name()?.to_str()).collect();
    let at = |name: &str| steps.iter().position(|step| step.ends_with(name));
    assert!(at("cc1") < at("as") && at("as") < at("ld"), "{steps:?}");
    let shown = |word: &str| seen.programs.iter().flat_map(|p| &p.args).any(|arg| arg == word);
    assert!(shown("-include") && shown("-quiet"));
    assert!(seen.programs.iter().any(|program| !program.intermediate.is_empty()));
}

#[test]
fn searches_for_missing_files_are_observed() {
    let bench = Bench::new();
    let (_, seen) = bench.observe(
        "cat {}/one 2>/dev/null; test -e {}/two; ls {}/three 2>/dev/null; cd {}/four 2>/dev/null; cat ../five 2>/dev/null; \
         readlink {}/six; exec {}/seven",
    );
    let inputs = Inputs::of(&[&seen], &files).unwrap();
    assert_eq!(inputs.unchanged(&files), Unchanged::Yes);
    for name in ["one", "two", "three", "four", "five", "six", "seven"] {
        let path = bench.write(name, "");
        assert!(matches!(inputs.unchanged(&files), Unchanged::No(_)), "`{name}` appeared");
        fs::remove_file(path).unwrap();
        assert_eq!(inputs.unchanged(&files), Unchanged::Yes, "`{name}` is gone again");
    }
}

/// As linkers look at the directories of libraries when `/lib` is a link.
#[test]
fn a_directory_is_the_same_by_whatever_name() {
    let bench = Bench::new();
    bench.write("real/file", "");
    symlink("real", bench.path("link")).unwrap();
    let (_, seen) = bench.observe("[ -d {}/link/. ]; [ -d {}/link ]; [ -d {}/link/./ ]; [ -d {}/real/. ]");
    let inputs = Inputs::of(&[&seen], &files).unwrap();
    assert_eq!(inputs.unchanged(&files), Unchanged::Yes);
}

#[test]
fn every_change_of_a_read_file_or_listing_is_noticed() {
    let bench = Bench::new();
    let read = bench.write("flags", "-O2");
    bench.write("list/a", "");
    let link = bench.path("link");
    symlink("flags", &link).unwrap();
    let script = bench.write("tool", "#!/bin/sh\nread x < {}/flags; exec ls {}/list\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let (_, seen) = bench.observe("{}/tool; cat {}/link; readlink {}/link; [ -x {}/tool ]");
    assert!(seen.programs.iter().any(|program| program.is_script));
    let inputs = Inputs::of(&[&seen], &files).unwrap();
    let moved = || matches!(inputs.unchanged(&files), Unchanged::No(_));
    assert!(!moved());
    // Changes without effect: times, growth of a file that is only looked at, the same bytes.
    fs::write(&read, "-O2").unwrap();
    bench.write("unrelated", "");
    assert!(!moved());
    fs::write(&read, "-O3").unwrap();
    assert!(moved());
    fs::write(&read, "-O2").unwrap();
    let other = bench.write("list/b", "");
    assert!(moved());
    fs::remove_file(other).unwrap();
    bench.write("other", "-O2");
    fs::remove_file(&link).unwrap();
    symlink("other", &link).unwrap();
    assert!(moved(), "the link leads elsewhere, to the same bytes");
}

#[test]
fn only_observed_files_can_be_read() {
    let bench = Bench::new();
    bench.write("known", "known\n");
    bench.write("secret", "secret\n");
    let reads = "cat {}/known; ls {} > /dev/null; mkdir -p {}/work/x; mv x x.old";
    let cases = [
        "cat {}/secret",
        "ln -sf {}/secret {}/work/link; cat {}/work/link",
        "read x < {}/secret && echo $x",
        "ln {}/secret {}/work/hard && cat {}/work/hard",
        "mv {}/secret {}/work/moved && cat {}/work/moved",
        "cat /proc/self/root{}/secret",
        "cd {} && cat secret",
        "cat {}/work/../secret",
    ];
    for case in cases {
        let ended =
            bench.confined(&format!("{reads}; {case}").replace("secret", "absent"), &format!("{case} 2>&1"));
        assert!(!ended.output.contains("secret\n"), "{case}: {}", ended.output);
        assert!(!ended.status.success(), "{case}: {}", ended.output);
        assert!(bench.path("secret").exists(), "{case}");
    }
    let ended = bench.confined(
        reads,
        "cat {}/known; echo log >> {}/log; cat /dev/null /etc/passwd > /dev/null; \
                                       echo x > t; cat t; mv t u; cat {}/work/u",
    );
    assert!(ended.status.success(), "{}", ended.output);
    assert_eq!(ended.output, "known\nx\nx\n");
}

#[test]
fn a_confined_compile_gives_the_same_object() {
    let bench = Bench::new();
    let (ended, _) = bench.observe(C);
    assert!(ended.status.success(), "{}", ended.output);
    let free = fs::read(bench.path("work/k.o")).unwrap();
    fs::remove_file(bench.path("work/k.o")).unwrap();
    let ended = bench.confined(C, C);
    assert!(ended.status.success(), "{}", ended.output);
    assert_eq!(fs::read(bench.path("work/k.o")).unwrap(), free);
}

#[test]
fn further_reads_of_another_run_are_named() {
    let bench = Bench::new();
    let (known, extra) = (bench.write("known", ""), bench.write("extra", ""));
    let (_, seen) = bench.observe("cat {}/known; ls {}/work");
    let inputs = Inputs::of(&[&seen], &files).unwrap();
    let (_, more) = bench.observe("cat {}/known {}/work/../known {}/extra; ls {}/work");
    assert_eq!(inputs.uncovered(&more).into_iter().collect::<Vec<_>>(), [extra.as_path()]);
    assert_eq!(inputs.digest(&known), Some(Digest::of(b"")));
}

/// Temporary files have other names in each run and nothing is at them; all other paths are watched.
#[test]
fn names_that_a_program_makes_up_are_not_watched() {
    let bench = Bench::new();
    let looks = "[ -e {}/absent ]; [ -e {}/w.$$ ]; rm -f {}/x.$$; t=$(mktemp -p {}); [ -s $t ]; rm $t";
    let ((_, one), (_, other)) = (bench.observe(looks), bench.observe(looks));
    let made_up = one.made_up(&other);
    assert_eq!(made_up.len(), 6, "{made_up:?}");
    let mut inputs = Inputs::of(&[&one], &files).unwrap();
    inputs.leave_out(&made_up);
    for path in &made_up {
        fs::write(path, "").unwrap();
    }
    assert_eq!(inputs.unchanged(&files), Unchanged::Yes);
    bench.write("absent", "");
    assert!(matches!(inputs.unchanged(&files), Unchanged::No(_)));
}

/// Compiles a C program to `{}/program`.
pub(crate) fn compile(bench: &Bench, source: &str) {
    let source = bench.write("program.c", source);
    let compile = format!("cc -o {{}}/program {}", source.display());
    let ended = bench.run(&compile, Sandbox::default()).unwrap();
    assert!(ended.status.success(), "{}", ended.output);
}

#[test]
fn calls_newer_than_the_list_fail_as_on_an_older_kernel() {
    let bench = Bench::new();
    // setxattrat, one that was added after it, one that no kernel has yet, fsopen.
    compile(
        &bench,
        "#include <errno.h>\n#include <stdio.h>\n#include <unistd.h>\n
        int main(void) {
            int calls[] = {463, 467, 500, 430};
            for (int i = 0; i < 4; ++i) {
                long result = syscall(calls[i], 0, 0, 0, 0, 0, 0);
                printf(\"%ld %s\\n\", result, errno == ENOSYS ? \"ENOSYS\" : errno == EPERM ? \"EPERM\" : \"?\");
            }
            return 0;
        }",
    );
    let (ended, _) = bench.observe("{}/program");
    assert_eq!(ended.output, "-1 ENOSYS\n-1 ENOSYS\n-1 ENOSYS\n-1 EPERM\n");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_program_of_another_architecture_is_named() {
    let bench = Bench::new();
    // getpid of 32-bit programs.
    compile(
        &bench,
        "#include <stdio.h>\nint main(void) {
            long result;
            __asm__ volatile(\"int $0x80\" : \"=a\"(result) : \"a\"(20) : \"memory\", \"r8\", \"r9\", \"r10\", \"r11\");
            printf(\"%ld\\n\", result);
            return 0;
        }",
    );
    let (ended, seen) = bench.observe("{}/program");
    assert_eq!(ended.output, format!("{}\n", -rustix::io::Errno::NOSYS.raw_os_error()));
    assert_eq!(seen.foreign, Some(bench.path("program").canonicalize().unwrap()));
    let (_, seen) = bench.observe("true");
    assert_eq!(seen.foreign, None);
}

#[test]
fn pipes_and_devices_are_refused() {
    let bench = Bench::new();
    let (_, seen) = bench.observe("mkfifo {}/pipe; (echo x > {}/pipe) & cat {}/pipe; wait");
    assert!(
        matches!(Inputs::of(&[&seen], &files), Err(InputsError::NotAFile(path)) if path == bench.path("pipe"))
    );
    // Pipes between programs are not files.
    let (_, seen) = bench.observe("echo x | cat /dev/stdin | cat /proc/self/fd/0");
    Inputs::of(&[&seen], &files).unwrap();
}

/// What `/proc` says of the machine may be read, and of the program itself; what it says of others is theirs.
#[test]
fn the_environment_of_another_process_counts() {
    let bench = Bench::new();
    let own = "cat /proc/self/environ /proc/$$/environ /proc/self/cmdline /proc/meminfo > /dev/null";
    let (_, seen) = bench.observe(own);
    let inputs = Inputs::of(&[&seen], &files).unwrap();
    let (_, more) = bench.observe(&format!("{own}; cat /proc/$PPID/environ > /dev/null"));
    let path = PathBuf::from(format!("/proc/{}/environ", std::process::id()));
    assert_eq!(inputs.uncovered(&more).into_iter().collect::<Vec<_>>(), [path.as_path()]);
}

/// The observer would find another file there than the program.
#[test]
fn links_into_proc_are_no_files() {
    let bench = Bench::new();
    bench.write("a", "");
    bench.write("d/a", "");
    let links = [("/proc/self/cwd/a", "one"), ("one", "two"), ("/dev/fd", "fds"), ("/proc/self/cwd", "dir")];
    for (target, name) in links {
        symlink(target, bench.path(name)).unwrap();
    }
    for (script, link) in [
        ("cd {}/d; cat {}/one", "one"),
        ("cd {}/d; cat ../two", "two"),
        ("cd {}/d; [ -e {}/d/../dir/a ]", "dir"),
        ("cat {}/fds/0 < {}/a", "fds"),
    ] {
        let (_, seen) = bench.observe(script);
        let refused = Inputs::of(&[&seen], &files);
        assert!(
            matches!(&refused, Err(InputsError::NotAFile(path)) if *path == bench.path(link)),
            "{script}: {refused:?}"
        );
    }
    // By their own names, they are followed as the program follows them.
    for (script, name) in
        [("cd {}/d; cat /proc/self/cwd/a", "d/a"), ("cd {}/d; cat /tmp/../proc/self/cwd/a", "d/a")]
    {
        let (_, seen) = bench.observe(script);
        Inputs::of(&[&seen], &files).unwrap();
        assert!(seen.read.contains_key(&bench.path(name)), "{script}: {:?}", seen.read.keys());
    }
    let (_, seen) = bench.observe("cat /etc/mtab > /dev/null");
    Inputs::of(&[&seen], &files).unwrap();
    // A directory that becomes such a link.
    let (_, seen) =
        bench.observe("mkdir {}/new; cat {}/new/a; rmdir {}/new; ln -s /proc/self/cwd {}/new; cat {}/new/a");
    assert!(
        matches!(Inputs::of(&[&seen], &files), Err(InputsError::NotAFile(path)) if path == bench.path("new"))
    );
}

/// Its open files and its working directory are in no key.
#[test]
fn a_way_through_another_process_is_named() {
    let bench = Bench::new();
    bench.write("a", "data\n");
    let this = std::process::id();
    let file = fs::File::open(bench.path("a")).unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&file);
    for script in [
        format!("cat /proc/{this}/fd/{number}"),
        format!("readlink /proc/{this}/cwd"),
        format!("cat /proc/{this}/root{{}}/a"),
    ] {
        let (_, seen) = bench.observe(&script);
        let peers: Vec<_> = seen.peers.iter().map(ToString::to_string).collect();
        assert_eq!(peers, [format!("/proc/{this}")], "{script}");
    }
    let (ended, seen) = bench.observe("cat /proc/$$/root{}/a; cat /proc/self/fd/0; (cat /proc/$$/cwd/../a)");
    assert_eq!((ended.output.as_str(), seen.peers.len()), ("data\ndata\n", 0), "{:?}", seen.peers);
}

#[test]
fn inherited_descriptors_are_closed() {
    let bench = Bench::new();
    let secret = bench.write("secret", "secret\n");
    let file = fs::File::open(secret).unwrap();
    // One that is not closed when a program is executed, as a shell's `9<file` makes it.
    let inherited = rustix::io::dup(&file).unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&inherited);
    let script = format!("cat /proc/self/fd/{number} <&{number} 2>&1");
    let ended = bench.run(&script, Sandbox::default()).unwrap();
    assert!(!ended.status.success() && !ended.output.contains("secret\n"), "{}", ended.output);
}

#[test]
fn ways_around_the_observer_fail() {
    let bench = Bench::new();
    for case in
        ["unshare -m true", "/usr/sbin/chroot {} true", "mount -t tmpfs none {}/work", "nsenter -m -t 1 true"]
    {
        let (ended, seen) = bench.observe(case);
        assert!(!ended.status.success(), "{case}");
        // Another process's namespace may not even be opened.
        assert!(seen.refused.is_some() || case.starts_with("nsenter"), "{case}");
    }
    let (_, seen) = bench.observe("cp /bin/true {}/work/true; chmod u+s {}/work/true; {}/work/true");
    assert_eq!(seen.refused, Some(bench.path("work/true")));
    let (_, seen) = bench.observe("true");
    assert_eq!(seen.refused, None);
}

#[test]
fn programs_that_outlive_their_run_hold_up_nothing() {
    let bench = Bench::new();
    let (ended, seen) = bench.observe("setsid sh -c 'sleep 5; cat {}/late' > /dev/null 2>&1 & echo done");
    assert_eq!((ended.output.as_str(), seen.read.contains_key(&bench.path("late"))), ("done\n", false));
}

#[test]
fn programs_at_the_same_time_have_one_order() {
    let bench = Bench::new();
    let order = || {
        let (_, seen) =
            bench.observe("for i in 1 2 3 4; do cat /etc/hostname | wc -c | cat > /dev/null; done");
        seen.programs.into_iter().map(|program| (program.path, program.args)).collect::<Vec<_>>()
    };
    let first = order();
    assert!(first.len() >= 13, "{first:?}");
    (0..5).for_each(|_| assert_eq!(order(), first));
}

/// A process that serves many jobs is asked after each what it read.
#[test]
fn the_observation_so_far_can_be_taken() {
    let bench = Bench::new();
    for name in ["one", "two"] {
        bench.write(name, "");
    }
    // A pipe for each direction: what another test forks holds, until it executes its program, a copy of what this thread
    // reads from, which would take in its place what is meant for `cat`.
    for pipe in ["work/begun", "work/turn"] {
        rustix::fs::mkfifoat(rustix::fs::CWD, bench.path(pipe), 0o600.into()).unwrap();
    }
    let observer = Observer::start(&bench.path("work")).unwrap();
    let script = "cat {}/one; echo > begun; cat turn > /dev/null; cat {}/two";
    let names = |seen: &Observation| -> Vec<String> {
        let below = seen.read.keys().filter_map(|path| path.strip_prefix(bench.dir.path()).ok());
        below.map(|path| path.display().to_string()).collect()
    };
    std::thread::scope(|scope| {
        let run = scope.spawn(|| bench.run(script, Sandbox { observer: Some(&observer), domain: None }));
        fs::read(bench.path("work/begun")).unwrap();
        let first = observer.take();
        assert_eq!((names(&first), first.incomplete.is_none()), (vec!["one".to_owned()], true));
        fs::write(bench.path("work/turn"), "x").unwrap();
        assert!(run.join().unwrap().unwrap().status.success());
    });
    let second = observer.finish();
    assert_eq!((names(&second), second.incomplete.is_none()), (vec!["two".to_owned()], true));
}

#[test]
fn files_that_a_program_makes_elsewhere_and_reads_are_its_own() {
    let bench = Bench::new();
    let (_, seen) =
        bench.observe("echo x > {}/made; cat {}/made; echo y > {}/log; : <> {}/both; echo z > t; cat t");
    assert_eq!(seen.own.iter().collect::<Vec<_>>(), [&bench.path("made")]);
    // What appears there by another hand is read, and not made.
    assert!(seen.looked_at.contains_key(&bench.path("both")));
    let (_, seen) = bench.observe("mkdir -p d/e; echo x > d/e/f; mv d/e/f d/g; cat d/g; ls d");
    assert!(seen.own.is_empty(), "what is in the work directory: {:?}", seen.own);
    let (_, seen) = bench.observe("mkdir {}/d; echo x > {}/d/f; mv {}/d/f {}/g; cat {}/g");
    assert!(seen.own.contains(&bench.path("g")) && seen.read.keys().all(|path| !path.ends_with("g")));
    assert!(seen.read.keys().all(|path| !path.starts_with(bench.dir.path())), "{:?}", seen.read.keys());
}

/// A call that was to make a file may fail, and what a made name leads to may be another's.
#[test]
fn older_files_are_not_the_programs_own() {
    let bench = Bench::new();
    bench.write("kept", "of before");
    compile(
        &bench,
        "#include <stdio.h>\nint main(int count, char **words) { (void)count; return fopen(words[1], \"wx\") != 0; }",
    );
    std::thread::sleep(Duration::from_millis(50));
    let cases = [
        "mkdir {}/d; ln -s {}/kept {}/d/link; cat {}/d/link; rm -r {}/d",
        "{}/program {}/kept; cat {}/kept",
        "echo x > def; ln def {}/kept 2> /dev/null; cat {}/kept",
        "echo x > {}/def; mv -n {}/def {}/kept; cat {}/kept; rm -f {}/def",
        "mkdir {}/d; mv {}/kept {}/d/kept; cat {}/d/kept; mv {}/d/kept {}/kept; rm -r {}/d",
    ];
    for case in cases {
        let (_, seen) = bench.observe(case);
        // By the name that is the same for each run.
        assert!(seen.read.contains_key(&bench.path("kept")), "{case}: {:?}, {:?}", seen.read, seen.own);
    }
}

/// A file that could not be truncated keeps its content. (Root can write to every file without this flag.)
#[test]
fn a_file_that_cannot_be_replaced_is_nobodys_own() {
    let bench = Bench::new();
    let path = bench.write("kept", "of before");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    if rustix::fs::access(&path, rustix::fs::Access::WRITE_OK).is_ok() {
        return;
    }
    let (_, seen) = bench.observe("(echo x > {}/kept) 2> /dev/null; cat {}/kept");
    assert!(seen.read.contains_key(&path), "{:?}", seen.read.keys());
}

/// Looks for `COUNT` missing files while signals arrive, and prints how many of these calls a signal interrupted.
const INTERRUPTED: &str = r#"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/time.h>

static void nothing(int signal) { (void)signal; }

int main(void)
{
    struct sigaction action = {.sa_handler = nothing};
    struct itimerval often = {{0, 300}, {0, 300}};
    struct itimerval never = {{0, 0}, {0, 0}};
    struct stat found;
    char name[64];
    int interrupted = 0;
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &often, 0);
    for (int i = 0; i < COUNT; ++i) {
        snprintf(name, sizeof name, "/missing/%d", i);
        interrupted += stat(name, &found) != 0 && errno == EINTR;
    }
    setitimer(ITIMER_REAL, &never, 0);
    stat("/missing/end", &found);
    printf("%d", interrupted);
    return 0;
}
"#;

/// A signal ends a call that waits for the observer, and the program goes on with an error that it would not get
/// without the observer (shells take it for "not found"). Such an observation says that it is incomplete.
#[test]
fn an_observation_with_an_interrupted_call_is_incomplete() {
    const COUNT: usize = 400;
    let bench = Bench::new();
    let source = bench.write("signals.c", &INTERRUPTED.replace("COUNT", &COUNT.to_string()));
    let program = bench.path("signals");
    let built = std::process::Command::new("cc").arg("-o").arg(&program).arg(&source).status().unwrap();
    assert!(built.success());
    let mut complete = 0;
    for _ in 0..40 {
        let observer = Observer::start(&bench.path("work")).unwrap();
        let ended =
            bench.run("exec {}/signals", Sandbox { observer: Some(&observer), domain: None }).unwrap();
        let seen = observer.finish();
        assert!(ended.status.success(), "{}", ended.output);
        let looks = seen.looked_at.keys().filter(|path| path.starts_with("/missing")).count();
        if seen.incomplete.is_none() {
            complete += 1;
            assert_eq!((ended.output.as_str(), looks), ("0", COUNT + 1));
        } else {
            assert!(seen.is_interrupted(), "{:?}", seen.incomplete);
        }
    }
    println!("{complete} of 40 observations are complete");
}
