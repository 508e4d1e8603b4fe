//! Kernels for Ascend are compiled from what their keys cover, by any means of the host, whichever program reads: the
//! worker's Python, a library, a program that it starts, `opc`. Everything is ignored where there is no Python. Of the ways
//! to read a run takes one in three, and of the drivers one for each test, by `OPKEEP_MUTATION_SEEDS`, as of mutations of
//! compilers; `all` takes each.

#![expect(clippy::unwrap_used, reason = "helpers of tests are not themselves marked as tests")]
#![expect(clippy::disallowed_methods, reason = "tests make and change files")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::ascend_mutations::scene::Scene;
use crate::common::Ran;
use libtest_mimic::{Failed, Trial};
use opkeep_testkit::{Means, is_turn, toolkit};
use opkeep_toolchain_mutations::is_played;

const DRIVERS: [&str; 2] = ["workers", "process"];

/// A test by one of them.
type ByDriver = fn(&'static str);

/// Hosts, and the reported means of each.
const HOSTS: [(&[Means], &str); 4] = [
    (&[], "compiles are confined by Landlock and observed by seccomp: "),
    (&[Means::Landlock], "compiles are observed by seccomp ("),
    (&[Means::Notification], "compiles are confined by Landlock (programs cannot be observed: "),
    (&[Means::Landlock, Means::Notification], "compiles are not kept ("),
];

/// Ways to read the file `@`, each with the action if that fails. The kernel's code depends on `T`.
const READS: &[(&str, &str)] = &[
    ("open", "T = open('@').read()"),
    ("os_open", "T = os.read(os.open('@', os.O_RDONLY), 99).decode()"),
    ("a_link", "os.symlink('@', 'link'); T = open('link').read()"),
    ("a_hard_link", "os.link('@', 'hard'); T = open('hard').read(); os.remove('hard')"),
    ("a_path_with_dots", "T = open(os.path.dirname(__file__) + '/..' * 30 + '@').read()"),
    ("proc_root", "T = open('/proc/self/root@').read()"),
    ("a_fork", "os.fork() or (open('@').read(), os._exit(0)); os.wait()"),
    ("a_program", "T = subprocess.run(['cat', '@'], stdout=-1, stderr=-3).stdout.decode()"),
    ("a_shell", "T = os.popen('{ read x < @; } 2> /dev/null; echo $x').read()"),
    (
        "posix_spawn",
        "os.waitpid(os.posix_spawn('/bin/sh', ['sh', '-c', 'read x < @; echo $x > copy'], os.environ), 0); \
         T = open('copy').read()",
    ),
    ("a_program_elsewhere", "os.waitpid(os.posix_spawn('@', ['x'], {}), 0)"),
    (
        "ctypes",
        "c = ctypes.CDLL(None); b = ctypes.create_string_buffer(99); \
         c.read(c.open(b'@', 0), b, 99); T = b.value.decode()",
    ),
    ("a_library", "ctypes.CDLL('@')"),
    ("a_list", "T = str(os.listdir(os.path.dirname('@')))"),
    (
        "a_module_by_its_path",
        "import importlib.machinery as m; T = m.SourceFileLoader('x', '@').get_code('x').co_consts[0]",
    ),
];

pub(crate) fn trials() -> Vec<Trial> {
    let has_python = toolkit::python().is_some();
    let trial = |name: String, run: Box<dyn Fn() + Send>| {
        let run = move || {
            run();
            Ok::<(), Failed>(())
        };
        Trial::test(name, run).with_ignored_flag(!has_python)
    };
    let mut trials = Vec::new();
    for (nth, driver) in DRIVERS.into_iter().enumerate() {
        // Confinement and observation are the same for both drivers, so hosts that lack some means are tested with one.
        let hosts = if driver == "workers" { 3 } else { 1 };
        for (at, host) in ["all", "no_landlock", "no_observer"].iter().take(hosts).enumerate() {
            let run = move || reads(driver, HOSTS[at].0);
            let trial = trial(format!("reads_reach_no_kernel_unsaid::{driver}::{host}"), Box::new(run));
            let is_turn = has_python && (at > 0 || is_turn(nth, DRIVERS.len()));
            trials.push(trial.with_ignored_flag(!is_turn));
        }
        let more: [(&str, ByDriver); 8] = [
            ("a_toolkit_that_moves_while_it_compiles_is_probed_again", moving),
            ("files_beside_operators_count_or_are_refused", beside),
            ("inherited_descriptors_reach_no_kernel", inherited),
            ("what_is_declared_counts", declared),
            ("nothing_is_kept_where_nothing_can_be_known", unkept),
            ("operators_may_use_files_of_their_own", own_files),
            ("system_headers_of_the_device_compiler_count", headers),
            ("an_operator_elsewhere_has_its_own_domain", custom),
        ];
        for (at, (name, run)) in more.into_iter().enumerate() {
            let is_turn = has_python && is_turn(nth + at, DRIVERS.len());
            let trial = trial(format!("{name}::{driver}"), Box::new(move || run(driver)));
            trials.push(trial.with_ignored_flag(!is_turn));
        }
    }
    let single: [(&str, fn()); 3] = [
        ("hosts_say_by_what_means", said),
        ("what_opc_reads_counts_or_is_refused", opc),
        ("a_warm_build_walks_through_the_toolkit_once", walks),
    ];
    let has_strace = Command::new("strace").arg("-V").output().is_ok();
    trials.extend(single.map(|(name, run)| {
        let is_possible = has_python && (has_strace || !name.contains("walks"));
        trial(name.to_owned(), Box::new(run)).with_ignored_flag(!is_possible)
    }));
    trials
}

/// The original operator, and a way to change it.
struct Operator {
    texts: Vec<(PathBuf, String)>,
}

impl Operator {
    fn of(scene: &Scene) -> Self {
        let files = ["square.py", "dynamic/square.py"].map(|file| scene.installed.impl_file(file));
        Self { texts: files.map(|path| (path.clone(), fs::read_to_string(path).unwrap())).into() }
    }

    /// Makes it execute a statement when it is compiled, and ignore errors.
    fn does(&self, scene: &Scene, statement: &str) {
        self.texts.iter().for_each(|(path, text)| fs::write(path, text).unwrap());
        scene.operator(&format!(
            "global GENERATES\n    import ctypes, os, subprocess\n    T = 'none'\n    try:\n        {statement}\n    \
             except Exception:\n        pass\n    GENERATES = str(T)"
        ));
    }
}

fn is_refused(ran: &Ran, path: &str) -> bool {
    ran.code == Some(1) && ran.count("failed") == 1 && ran.stdout.contains(path)
}

/// Either the read is named, or the content does not change the kernel.
fn reads(driver: &'static str, lacks: &[Means]) {
    let mut scene = Scene::quick(driver);
    scene.lacks = lacks.to_vec();
    let operator = Operator::of(&scene);
    scene.write("secret/table", "x = 'one'\n");
    let secret = scene.place.path("secret/table").display().to_string();
    for (name, statement) in READS.iter().filter(|(name, _)| is_played(name)) {
        operator.does(&scene, &statement.replace('@', &secret));
        let ran = scene.run("cache");
        let named = match *name {
            "a_list" => secret.trim_end_matches("/table"),
            // The program itself is unknown.
            "a_program" => "bin/cat",
            _ => &secret,
        };
        if is_refused(&ran, named) {
            assert!(ran.stdout.contains("--toolchain-input"), "{name}: {ran:?}");
            continue;
        }
        // Only silent denials may pass: by programs, on hosts without an observer.
        assert!(lacks.contains(&Means::Notification), "{name} is not refused: {ran:?}");
        let kernels = scene.build("cache").1;
        for text in ["x = 'two'\n", "x = 'one'\n"] {
            scene.write("secret/table", text);
            assert_eq!(scene.build("fresh").1.last(), kernels.last(), "{name}: it depends on `{text}`");
            fs::remove_dir_all(scene.place.path("fresh")).unwrap();
            fs::remove_dir_all(scene.place.path("view-fresh")).unwrap();
        }
    }
    if !lacks.contains(&Means::Notification) {
        assert!(scene.place.entries().is_empty(), "a kernel was kept");
    }
}

/// Files that the use of a toolkit creates in it are in no key, nor are headers that no operator includes.
fn beside(driver: &'static str) {
    let scene = Scene::quick(driver);
    let operator = Operator::of(&scene);
    let names = ["table.lock", "table.pyo", "__pycache__/table", "table.h", "libtable.so", "square.pyc"];
    for name in names.into_iter().filter(|name| is_played(name)) {
        let path = scene.installed.impl_file(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "one").unwrap();
        operator.does(&scene, &format!("T = os.popen('read x < {}; echo $x').read()", path.display()));
        let ran = scene.run("cache");
        assert!(is_refused(&ran, name), "{name}: {ran:?}");
    }
    assert!(scene.place.entries().is_empty());
    // Others count for all operators.
    let path = scene.installed.impl_file("table.txt");
    fs::write(&path, "one").unwrap();
    operator.does(&scene, &format!("T = os.popen('read x < {}; echo $x').read()", path.display()));
    assert_eq!((scene.build("cache").0, scene.build("cache").0), (1, 0));
    fs::write(&path, "two").unwrap();
    assert_eq!(scene.build("cache").0, 1);
}

/// A compile has a module that it imports import another one, which it reads: no key covers that one yet.
fn moving(driver: &'static str) {
    let scene = Scene::quick(driver);
    scene.helper("a", "one").write("path/b/other.py", "TEXT = 'other'\n");
    let [helper, other] = ["a/helper", "b/other"].map(|it| scene.place.path(&format!("path/{it}.py")));
    let (helper, other) = (helper.display(), other.display());
    scene.operator(&format!(
        "import helper\n    text = open('{helper}').read()\n    \
         'other' in text or open('{helper}', 'a').write('import other\\n')\n    open('{other}').read()"
    ));
    let ran = scene.run("cache").ended_with(0);
    assert_eq!(ran.count("compiled"), 1, "{ran:?}");
    // A kernel that was compiled with another module than that of its key is not stored.
    assert_eq!(scene.place.entries().len(), 0, "{ran:?}");
    assert_eq!((scene.build("cache").0, scene.build("cache").0), (1, 0));
}

fn inherited(driver: &'static str) {
    let scene = Scene::quick(driver);
    Operator::of(&scene).does(&scene, "T = os.pread(9, 99, 0).decode()");
    let mut kernels = Vec::new();
    for text in ["one", "two"] {
        let secret = scene.place.write("secret", text);
        let build = scene.command(&["build", "--target", "Ascend910B1", "--cann-driver", driver], text);
        let mut command = Command::new("sh");
        command.args(["-c", "exec 9< \"$0\"; exec \"$@\""]).arg(&secret).arg(build.get_program());
        command.args(build.get_args()).arg(crate::common::SQUARE).env_clear();
        command.envs(build.get_envs().filter_map(|(name, value)| Some((name, value?))));
        crate::common::ran(command.current_dir(build.get_current_dir().unwrap())).ended_with(0);
        kernels.push(objects(&scene, text));
    }
    assert_eq!(kernels[0], kernels[1]);
}

fn objects(scene: &Scene, store: &str) -> Vec<Vec<u8>> {
    let files = crate::common::files(&scene.place.path(&format!("view-{store}")));
    let objects: Vec<_> =
        files.iter().filter(|path| path.extension().is_some_and(|end| end == "o")).collect();
    assert!(!objects.is_empty());
    objects.into_iter().map(|path| fs::read(path).unwrap()).collect()
}

fn declared(driver: &'static str) {
    let mut scene = Scene::quick(driver);
    let operator = Operator::of(&scene);
    scene.write("tables/one", "1").write("tables/deep/two", "2");
    let tables = scene.place.path("tables").display().to_string();
    let reads = "read x < @/one; read y < @/deep/two; echo $x $y @/*".replace('@', &tables);
    operator.does(&scene, &format!("T = os.popen('{reads}').read()"));
    assert!(is_refused(&scene.run("cache"), "tables/one"));
    scene.args = vec!["--toolchain-input".to_owned(), tables];
    assert_eq!((scene.build("cache").0, scene.build("cache").0), (1, 0));
    for (name, text) in [("tables/deep/two", "3"), ("tables/one", "4"), ("tables/new", "")] {
        scene.write(name, text);
        assert_eq!((scene.build("cache").0, scene.build("cache").0), (1, 0), "{name}");
    }
    scene.write("others", "5");
    assert_eq!(scene.build("cache").0, 0);
    scene.args = vec!["--toolchain-input".to_owned(), scene.place.path("nothing").display().to_string()];
    assert!(scene.run("cache").stderr.contains("nothing"), "what is not there cannot be declared");
}

fn unkept(driver: &'static str) {
    let mut scene = Scene::quick(driver);
    scene.lacks = vec![Means::Landlock, Means::Notification];
    for _ in 0..2 {
        let ran = scene.run("cache").ended_with(0);
        assert_eq!((ran.count("compiled"), scene.place.entries().len()), (1, 0), "{ran:?}");
        assert!(ran.stderr.contains("not kept"), "{ran:?}");
    }
}

/// A compile may read the files that it writes, wherever they are; no other compile sees them.
fn own_files(driver: &'static str) {
    let scene = Scene::quick(driver);
    let operator = Operator::of(&scene);
    let own = scene.place.path("own").display().to_string();
    let cases = [
        "import tempfile; open(tempfile.mkstemp()[1], 'w').write('x'); T = 'own'".to_owned(),
        format!("open('{own}', 'w').write('own'); T = open('{own}').read(); os.remove('{own}')"),
        "c = ctypes.CDLL(None); T = 'own' if c.sem_open(b'/opkeep', os.O_CREAT, 0o600, 1) else 'none'; \
         c.sem_unlink(b'/opkeep')"
            .to_owned(),
    ];
    for case in cases {
        operator.does(&scene, &case);
        assert_eq!((scene.build("cache").0, scene.build("cache").0), (1, 0), "{case}");
        let made = objects(&scene, "cache");
        operator.does(&scene, "T = 'own'");
        scene.build("plain");
        assert!(made.len() == 1 || objects(&scene, "plain") != made, "{case}");
        assert_eq!(
            fs::read_dir(scene.place.path("tmp-cache")).unwrap().count(),
            1,
            "{case}: temporary files are left"
        );
    }
    // The next compile finds the remains.
    operator.does(&scene, &format!("open('{own}', 'w').write('left'); T = 'left'"));
    assert_eq!(scene.build("cache").0, 1);
    operator.does(&scene, &format!("T = open('{own}').read()"));
    assert!(is_refused(&scene.run("cache"), &own));
}

fn said() {
    let mut scene = Scene::quick("workers");
    for (at, (lacks, says)) in HOSTS.iter().enumerate() {
        scene.lacks = lacks.to_vec();
        let ran = crate::common::ran(&mut scene.command(&["targets"], &format!("host-{at}")));
        assert!(ran.stdout.contains(says), "{says}: {ran:?}");
    }
}

/// Files that each compile reads count. Files that it reads for one kernel only are refused.
fn opc() {
    let scene = Scene::quick("process");
    scene.write("each", "1").write("some", "1");
    let program = scene.installed.tool("opc");
    let text = fs::read_to_string(&program).unwrap();
    let path = |name: &str| scene.place.path(name).display().to_string();
    let with = |line: &str| fs::write(&program, text.replacen('\n', &format!("\n{line}\n"), 1)).unwrap();
    with(&format!("x=$(cat {})", path("each")));
    assert_eq!((scene.build("cache").0, scene.build("cache").0), (1, 0));
    scene.write("each", "2");
    assert_eq!((scene.build("cache").0, scene.build("cache").0), (1, 0));
    scene.write("some", "2");
    assert_eq!(scene.build("cache").0, 0);
    let kept = scene.place.entries().len();
    for reads in ["{ : < @; } > /dev/null 2>&1", "{ read x < @; } 2> /dev/null", ". @"] {
        with(&format!("case $1 in --help) ;; *) {} ;; esac", reads.replace('@', &path("some"))));
        let ran = scene.run("cache");
        assert!(is_refused(&ran, &path("some")), "{reads}: {ran:?}");
    }
    assert_eq!(scene.place.entries().len(), kept);
}

/// The device compiler reads headers of the system for the sources that it compiles: those that it finds for the headers of
/// the C and C++ libraries count.
fn headers(driver: &'static str) {
    let scene = Scene::quick(driver);
    scene.write("stdint.h", "1").write("other.h", "1");
    let program = scene.installed.tool("ccec");
    let text = fs::read_to_string(&program).unwrap();
    let path = |name: &str| scene.place.path(name).display().to_string();
    let with = |line: &str| fs::write(&program, text.replacen('\n', &format!("\n{line}\n"), 1)).unwrap();
    with(&format!("case \" $* \" in *--version*) ;; *) read x < {} ;; esac", path("stdint.h")));
    assert_eq!((scene.build("cache").0, scene.build("cache").0), (1, 0), "{driver}");
    scene.write("stdint.h", "2");
    assert_eq!((scene.build("cache").0, scene.build("cache").0), (1, 0), "{driver}");
    with(&format!("case \" $* \" in *.cce*) read x < {} ;; esac", path("other.h")));
    assert!(is_refused(&scene.run("cache"), &path("other.h")), "{driver}");
}

/// An operator that a descriptor names by its path reads its own sources, and other files there are refused.
fn custom(driver: &'static str) {
    let scene = Scene::quick(driver);
    let text = fs::read_to_string(scene.installed.impl_file("dynamic/square.py")).unwrap();
    let does = |statement: &str| {
        let statement = format!("    {statement}\n    tensors = [");
        scene.write("mine/my_square.py", &text.replacen("    tensors = [", &statement, 1));
    };
    does("pass");
    scene.write("mine/table.txt", "1").write("mine/other.py", "1").write("mine/table.h", "1");
    let square = fs::read_to_string(crate::common::SQUARE).unwrap();
    let descriptor = custom_descriptor(&square, &scene.place.path("mine/my_square.py"));
    let info = scene.place.write("mine.info", &descriptor);
    let build = |outcome: &str| {
        let args = ["build", "--target", "Ascend910B1", "--format", "json", "--cann-driver", driver];
        let ran = crate::common::ran(scene.command(&args, "cache").arg(&info));
        assert_eq!(ran.count(outcome), 1, "{driver}: {ran:?}");
        ran
    };
    build("compiled");
    build("reused");
    scene.write("mine/table.txt", "2").write("mine/other.py", "2");
    build("reused");
    does("assert True");
    build("compiled");
    for name in ["table.txt", "other.py", "table.h"] {
        let path = scene.place.path("mine").join(name).display().to_string();
        does(&format!("import os; os.popen('{{ read x < {path}; }} 2> /dev/null').read()"));
        assert!(is_refused(&build("failed"), &path), "{driver}: {name}");
    }
}

/// The descriptor of the same operator, implemented in a file of the user.
fn custom_descriptor(square: &str, file: &Path) -> String {
    let mut json: serde_json::Value = serde_json::from_str(square).unwrap();
    let changed = name_file(&mut json, &file.display().to_string());
    assert!(changed, "the descriptor names no module: {square}");
    json.to_string()
}

fn name_file(json: &mut serde_json::Value, file: &str) -> bool {
    match json {
        serde_json::Value::Object(fields) => {
            let mut changed = false;
            for (name, value) in fields {
                if name == "py_module_path" {
                    *value = file.into();
                    changed = true;
                } else {
                    changed |= name_file(value, file);
                }
            }
            changed
        }
        serde_json::Value::Array(items) => {
            let changed: Vec<bool> = items.iter_mut().map(|item| name_file(item, file)).collect();
            changed.contains(&true)
        }
        _ => false,
    }
}

/// Counted in lists of the toolkit's largest directory of Python.
fn walks() {
    let scene = Scene::quick("workers");
    // A directory that has just changed is listed each time.
    std::thread::sleep(std::time::Duration::from_millis(2200));
    scene.build("cache");
    let directory = scene.installed.path("python/site-packages/tbe").canonicalize().unwrap();
    let args = ["build", "--target", "Ascend910B1", "--cann-driver", "workers", crate::common::SQUARE];
    let build = scene.command(&args, "cache");
    let log = scene.place.path("calls");
    let mut command = Command::new("strace");
    command.args(["-f", "-y", "-e", "trace=getdents64", "-o"]).arg(&log).arg(build.get_program());
    command.args(build.get_args()).env_clear().current_dir(build.get_current_dir().unwrap());
    command.envs(build.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = fs::read_to_string(log).unwrap();
    let lists = text.lines().filter(|line| line.contains(&format!("<{}>", directory.display())));
    // Each list ends with a call that gives nothing.
    assert_eq!(lists.count(), 2, "{text}");
}
