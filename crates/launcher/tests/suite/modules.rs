//! Directories in which programs look for modules and makefiles: which names in them count.

use std::fs;
use std::process::Command;

use opkeep_launcher::{How, ToolFacts};

use crate::common::{Bench, Setup, variable};

const NO_BYTE_CODE: ToolFacts =
    ToolFacts { is_movable: false, replaces_outputs: false, ignores_byte_code: true };

const RUN: &str = "python3 main.py out/k";

fn with(facts: ToolFacts) -> Setup {
    Setup { facts, env: vec![variable("PYTHONPATH", "lib")], ..Setup::default() }
}

/// A program with a directory of modules.
fn python_tree(bench: &Bench, main: &str) {
    bench.write("tree/main.py", main);
    bench.write("tree/lib/helper.py", "V = 1\n");
    bench.write("tree/lib/other.txt", "x");
}

/// Runs a command, and again after a change, with and without an adapter's word that compiled modules do not count.
fn misses(name: &str, script: &str, prepare: impl Fn(&Bench), change: impl Fn(&Bench)) {
    for facts in [ToolFacts::default(), NO_BYTE_CODE] {
        let bench = Bench::new();
        prepare(&bench);
        let clean = || {
            fs::remove_dir_all(bench.path("tree/out")).unwrap();
            fs::create_dir(bench.path("tree/out")).unwrap();
        };
        let ran = bench.run_with(&with(facts), script);
        assert_eq!((ran.how, ran.code), (How::Compiled, Some(0)), "{name} {facts:?}");
        let text = || fs::read(bench.path("tree/out/k")).ok();
        let before = text();
        clean();
        assert_eq!(bench.run_with(&with(facts), script).how, How::Hit, "{name} {facts:?}");
        clean();
        change(&bench);
        assert_eq!(bench.run_with(&with(facts), script).how, How::Compiled, "{name} {facts:?}");
        if before.is_some() {
            assert_ne!(text(), before, "{name} {facts:?}: the change has no effect");
        }
    }
}

/// What a program finds, and what it imports by a name that no text has.
#[test]
fn a_name_that_no_text_has_can_be_a_modules_name() {
    let write = "open(sys.argv[1], 'w').write(str(V))\n";
    let main = |text: &str| format!("import sys\nimport helper\nV = helper.V\n{text}{write}");
    let py = |text: &str| {
        let text = main(text);
        move |bench: &Bench| python_tree(bench, &text)
    };
    let plugin =
        |name: &'static str| move |bench: &Bench| bench.write(&format!("tree/lib/{name}"), "V = 9\n");
    misses(
        "a list",
        RUN,
        py("import os\nV = sorted(os.listdir('lib'))  # helper other\n"),
        plugin("zeta.txt"),
    );
    misses(
        "a list as an argument",
        "python3 -c 'import helper, os; open(\"out/k\", \"w\").write(str(os.listdir(\"lib\")))' other",
        py(""),
        plugin("zeta.txt"),
    );
    let plugins = "import pkgutil, importlib, plugs\nV = [importlib.import_module('plugs.' + name).V for name in \
                   sorted(it.name for it in pkgutil.iter_modules(plugs.__path__))]\n";
    let with_plugins = |bench: &Bench| {
        py(plugins)(bench);
        bench.write("tree/lib/plugs/__init__.py", "");
        bench.write("tree/lib/plugs/sub.py", "V = 'sub'\n");
    };
    misses("plugins", RUN, with_plugins, plugin("plugs/zeta.py"));
    let entry_points =
        "from importlib.metadata import entry_points\nV = [it.name for it in entry_points(group='opsx')]\n";
    misses("entry points", RUN, py(entry_points), |bench| {
        bench.write("tree/lib/zzq-1.0.dist-info/METADATA", "Name: zzq\nVersion: 1.0\n");
        bench.write("tree/lib/zzq-1.0.dist-info/entry_points.txt", "[opsx]\nname = zz:f\n");
    });
    let from_text = "import importlib\nfor line in open('names.yaml'):\n  try: V = importlib.import_module(line.strip('- \\n')).V\n  \
                     except ImportError: pass\n";
    let with_text = |bench: &Bench| {
        py(from_text)(bench);
        bench.write("tree/names.yaml", "- extra_x\n");
    };
    misses("a name in a text", RUN, with_text, plugin("extra_x.py"));
    let parts = "import importlib\nfor n in (1, 2):\n  try: V = importlib.import_module('impl_v%d' % n).V\n  except ImportError: pass\n";
    misses("a name of parts", RUN, py(parts), plugin("impl_v2.py"));
    let executed = "try: exec('from impl_' + 'v2 import V')\nexcept ImportError: pass\n";
    misses("a text of parts", RUN, py(executed), plugin("impl_v2.py"));
    let helper = "lib/helper.py";
    let in_module = |bench: &Bench| {
        py("")(bench);
        bench.write(
            &format!("tree/{helper}"),
            "V = 1\ntry: V = __import__('impl_' + 'v2').V\nexcept ImportError: pass\n",
        );
    };
    misses("in a module", RUN, in_module, plugin("impl_v2.py"));
    // It has the names from the process that it was forked from.
    let forked = "import os\nif os.fork():\n  os.wait()\n  sys.exit()\nfrom late import V\n";
    let in_fork = |bench: &Bench| {
        py(forked)(bench);
        bench.write(
            "tree/lib/late.py",
            "V = 1\ntry: V = __import__('impl_' + 'v2').V\nexcept ImportError: pass\n",
        );
    };
    misses("in a fork", RUN, in_fork, plugin("impl_v2.py"));
}

/// Modules whose text was not read: it may import anything.
#[test]
fn a_module_without_a_text_can_import_anything() {
    let source = "try:\n  from fastpath_x import V\nexcept ImportError:\n  V = 0\n";
    let main = "import sys\nimport helper, compiled\nopen(sys.argv[1], 'w').write(str(compiled.V))\n";
    let zip_main = "import sys\nsys.path.insert(0, 'mods.zip')\nimport helper, compiled\nopen(sys.argv[1], 'w').write(str(compiled.V))\n";
    let python = |bench: &Bench, text: &str| {
        assert!(
            Command::new("python3")
                .args(["-c", text])
                .current_dir(bench.path(""))
                .status()
                .unwrap()
                .success()
        );
    };
    let compiled = |bench: &Bench| {
        python_tree(bench, main);
        bench.write("src.py", source);
        python(
            bench,
            "import py_compile; py_compile.compile('src.py', cfile='tree/lib/compiled.pyc', \
                       invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)",
        );
    };
    let zipped = |bench: &Bench| {
        python_tree(bench, zip_main);
        bench.write("compiled.py", source);
        python(bench, "import zipfile; zipfile.ZipFile('tree/mods.zip', 'w').write('compiled.py')");
    };
    let fast = |bench: &Bench| bench.write("tree/lib/fastpath_x.py", "V = 9\n");
    misses("compiled", RUN, compiled, fast);
    misses("zipped", RUN, zipped, fast);
}

/// Modules that Python itself imports, and directories that it finds.
#[test]
fn what_python_finds_by_itself_counts() {
    let main = |bench: &Bench| {
        python_tree(bench, "import sys\nimport helper\nopen(sys.argv[1], 'w').write(str(helper.V))\n")
    };
    let customize = "import helper\nhelper.V = 7\n";
    misses("sitecustomize", RUN, main, |bench| bench.write("tree/lib/sitecustomize.py", customize));
    misses("usercustomize", RUN, main, |bench| bench.write("tree/lib/usercustomize.py", customize));
    misses("a package", RUN, main, |bench| bench.write("tree/lib/helper/__init__.py", "V = 8\n"));
    misses("another directory", RUN, main, |bench| bench.write("tree/helper.py", "V = 8\n"));
}

#[test]
fn the_first_of_several_makefiles_counts() {
    let makefile = |bench: &Bench| bench.write("tree/Makefile", "all:\n\t@echo one > out/k\n");
    for name in ["GNUmakefile", "makefile"] {
        misses(name, "make -s", makefile, |bench| {
            bench.write(&format!("tree/{name}"), "all:\n\t@echo two > out/k\n")
        });
    }
}

/// Programs other than Python read them.
#[test]
fn compiled_modules_count_for_other_programs() {
    let source = |bench: &Bench| bench.write("tree/src/a", "x");
    misses("cp", "cp -r src out/src", source, |bench| bench.write("tree/src/__pycache__/new", "y"));
    misses("ls", "ls src > out/k", source, |bench| {
        fs::create_dir(bench.path("tree/src/__pycache__")).unwrap()
    });
    let bench = Bench::new();
    python_tree(&bench, "import sys\nimport helper\nopen(sys.argv[1], 'w').write(str(helper.V))\n");
    assert_eq!(bench.run_with(&with(ToolFacts::default()), RUN).how, How::Compiled);
    fs::remove_file(bench.path("tree/out/k")).unwrap();
    bench.write("tree/lib/__pycache__/helper.cpython-311.pyc", "not valid");
    // Another process's compiled modules, where nothing is known of the tool, and where it takes no notice of them.
    assert_eq!(bench.run_with(&with(ToolFacts::default()), RUN).how, How::Compiled);
    fs::remove_dir_all(bench.path("tree/lib/__pycache__")).unwrap();
    fs::remove_file(bench.path("tree/out/k")).unwrap();
    assert_eq!(bench.run_with(&with(NO_BYTE_CODE), RUN).how, How::Compiled);
    fs::remove_file(bench.path("tree/out/k")).unwrap();
    bench.write("tree/lib/__pycache__/helper.cpython-311.pyc", "not valid");
    assert_eq!(bench.run_with(&with(NO_BYTE_CODE), RUN).how, How::Hit);
}

/// What a command writes is not left out by its name.
#[test]
fn a_file_is_not_left_out_because_it_is_called_like_a_compiled_module() {
    let at = [
        "mkdir __pycache__ && echo s > __pycache__/s && echo x > out/k",
        "echo x > state.pyc; echo x > out/k",
    ];
    let cases = at.map(|script| (script, NO_BYTE_CODE)).into_iter().chain([
        (at[0], ToolFacts::default()),
        (at[1], ToolFacts::default()),
        ("mkdir __pycache__; echo s > __pycache__/s.pyc; echo x > out/k", ToolFacts::default()),
    ]);
    for (script, facts) in cases {
        let bench = Bench::new();
        assert!(matches!(bench.raw(&with(facts), script).how, How::NotKept(_)), "{script}");
    }
}

/// The names in the output directory, as the command found them.
#[test]
fn old_outputs_count_where_their_directory_is_listed() {
    let bench = Bench::new();
    let setup = Setup { facts: ToolFacts::default(), ..Setup::default() };
    let script = "ls out > \"$TMPDIR/x\"; mv \"$TMPDIR/x\" out/k";
    let text = || fs::read_to_string(bench.path("tree/out/k")).unwrap();
    assert_eq!(bench.raw(&setup, script).how, How::Compiled);
    assert_eq!(text(), "");
    assert_ne!(bench.raw(&setup, script).how, How::Hit);
    assert_eq!(text(), "k\n");
    bench.write("tree/out/other", "");
    assert_ne!(bench.raw(&setup, script).how, How::Hit);
    assert_eq!(text(), "k\nother\n");
    fs::remove_dir_all(bench.path("tree/out")).unwrap();
    fs::create_dir(bench.path("tree/out")).unwrap();
    assert_eq!(bench.raw(&setup, script).how, How::Hit);
    assert_eq!(text(), "");
    // A tool that is known to replace its outputs does not look at them.
    let facts = ToolFacts { replaces_outputs: true, ..ToolFacts::default() };
    let setup = Setup { facts, ..Setup::default() };
    let script = "ls out > /dev/null; echo x > out/k";
    assert_eq!(bench.run_with(&setup, script).how, How::Compiled);
    bench.write("tree/out/another", "");
    assert_eq!(bench.raw(&setup, script).how, How::Hit);
}
