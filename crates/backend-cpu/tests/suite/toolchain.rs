//! The inputs of the toolchain's fingerprint, and the errors without a toolchain.
#![expect(clippy::panic, reason = "helpers fail the test that calls them")]
#![expect(clippy::disallowed_methods, reason = "tests lay out compilers on disk")]

use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::{
    attr, backend, backend_with, compile, float, job, kernel, launch, real_compiler, script,
};
use opkeep_backend::{Backend, BackendError};
use opkeep_backend_cpu::{CpuBackend, CpuConfig, Features};
use opkeep_descriptor::AttrValue;
use opkeep_digest::Fingerprint;
use opkeep_fs::CancelToken;
use opkeep_testkit::TestContext;

fn fingerprint(backend: &CpuBackend) -> Fingerprint {
    backend.toolchain(&TestContext::new().cx()).unwrap_or_else(|error| panic!("{error}"))
}

/// The names of the parts that differ.
fn changed(old: &Fingerprint, new: &Fingerprint) -> Vec<String> {
    old.diff(new).into_iter().map(|change| change.name).collect()
}

fn with_path(path: impl Into<OsString>) -> CpuBackend {
    CpuBackend::new(CpuConfig::new(path))
}

/// `directory` first, then the usual places.
fn before_path(dir: &Path) -> OsString {
    let mut path = dir.as_os_str().to_owned();
    path.push(":");
    path.push(crate::common::path());
    path
}

#[test]
fn two_probes_agree_and_name_every_program() {
    let (one, two) = (fingerprint(&backend_with(None)), fingerprint(&backend_with(None)));
    assert_eq!(one, two);
    let names: Vec<&str> = one.parts().iter().map(|part| part.name.as_str()).collect();
    for name in ["version", "triple", "driver", "flags", "arguments of each step", "launch ABI"] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    // The driver, what compiles and what links.
    assert!(names.len() >= 6 + 2, "{names:?}");
}

#[test]
fn the_fingerprint_of_gcc_has_its_programs() {
    if crate::common::program("gcc").is_none() {
        return;
    }
    let fingerprint = fingerprint(&backend_with(Some("gcc")));
    for program in ["driver", "cc1", "as", "collect2", "ld"] {
        let found = fingerprint.parts().iter().filter(|part| part.name == program).count();
        assert_eq!(found, 1, "{program} in {fingerprint:?}");
    }
}

#[test]
fn a_compiler_in_another_dir_is_the_same_compiler() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (dir.path().join("one"), dir.path().join("two/deeper"));
    for bin in [&one, &two] {
        std::fs::create_dir_all(bin).unwrap();
        symlink(real_compiler(), bin.join("cc")).unwrap();
    }
    let usual = fingerprint(&backend_with(None));
    assert_eq!(fingerprint(&with_path(before_path(&one))), usual);
    assert_eq!(fingerprint(&with_path(before_path(&two))), usual);
    let named = backend_with(Some(two.join("cc").to_str().unwrap()));
    assert_eq!(fingerprint(&named), usual);

    // A directory of links to all programs, and no other directory.
    let farm = dir.path().join("farm");
    std::fs::create_dir(&farm).unwrap();
    symlink(real_compiler(), farm.join("cc")).unwrap();
    for program in ["as", "ld"] {
        symlink(crate::common::program(program).unwrap(), farm.join(program)).unwrap();
    }
    let farm = with_path(&farm);
    assert_eq!(fingerprint(&farm), usual);
    let job = job("Neg", &[&[2]], &[]);
    assert_eq!(compile(&farm, &job).unwrap(), compile(backend(), &job).unwrap());
}

#[test]
fn relative_names_mean_the_callers_dir() {
    let dir = tempfile::tempdir_in(".").unwrap();
    symlink(real_compiler(), dir.path().join("cc")).unwrap();
    let relative = Path::new(dir.path().file_name().unwrap());
    let named = backend_with(Some(&format!("./{}/cc", relative.display())));
    assert_eq!(fingerprint(&named), fingerprint(backend()));
    let listed = with_path(before_path(relative));
    assert_eq!(fingerprint(&listed), fingerprint(backend()));
    let kernel = kernel(&listed, &job("Neg", &[&[1]], &[]));
    assert_eq!(crate::common::floats(&launch(&*kernel, &[&[1.0]], 1)), [-1.0]);
}

#[test]
fn the_output_of_a_wrapper_counts() {
    let dir = tempfile::tempdir().unwrap();
    let cc = dir.path().join("cc");
    let real = real_compiler();
    let wrapper = |comment: &str| {
        script(&cc, &format!("#!/bin/sh\n# {comment}\nexec {} \"$@\"\n", real.display()));
        backend_with(Some(cc.to_str().unwrap()))
    };
    let backend = wrapper("one");
    let one = fingerprint(&backend);
    assert_eq!(fingerprint(&wrapper("one")), one);
    assert_eq!(changed(&fingerprint(&wrapper("two")), &one), ["driver"]);
    // Also with a backend that is in use: answers of the compiler are kept, digests of files are not.
    assert_eq!(changed(&one, &fingerprint(&backend)), ["driver"]);
}

/// Its children end while it looks for files, and a signal reports that: an interrupted look is not observed, and to a
/// shell the file is missing. Such runs are repeated.
#[test]
fn a_wrapper_whose_looks_signals_interrupt_has_one_fingerprint() {
    let dir = tempfile::tempdir().unwrap();
    let cc = dir.path().join("cc");
    let looks: String =
        (0..8).map(|at| format!("(:) & [ -e /missing/{at}.a ]; [ -e /missing/{at}.b ]\n")).collect();
    script(&cc, &format!("#!/bin/sh\n{looks}wait\nexec {} \"$@\"\n", real_compiler().display()));
    let first = backend_with(Some(cc.to_str().unwrap()));
    let expected = fingerprint(&first);
    for _ in 0..3 {
        let again = backend_with(Some(cc.to_str().unwrap()));
        assert_eq!(changed(&fingerprint(&again), &expected), Vec::<String>::new());
        compile(&again, &job("Relu", &[&[3]], &[])).unwrap();
    }
}

#[test]
fn arguments_of_the_compiler_are_honoured_and_count() {
    let real = real_compiler();
    let with = |arguments: &str| backend_with(Some(&format!("{}{arguments}", real.display())));
    let plain = fingerprint(&with(""));
    assert_ne!(fingerprint(&with(" -O1")), plain);
    for (bad, says) in [
        (" kernel.c", "no option"),
        (" -O1 -o x", "not CC's to say"),
        (" -c", "not CC's to say"),
        (" -include", "without its argument"),
    ] {
        match with(bad).toolchain(&TestContext::new().cx()) {
            Err(error @ BackendError::Toolchain { .. }) => {
                assert!(error.to_string().contains(says), "{error}")
            }
            other => panic!("{bad}: {other:?}"),
        }
    }
    // Files count by their content, not by their path: another header gives another kernel.
    let dir = tempfile::tempdir().unwrap();
    let including = |name: &str, text: &str| {
        let header = dir.path().join(name);
        std::fs::write(&header, text).unwrap();
        with(&format!(" -include {}", header.display()))
    };
    let text = "#define __builtin_fabsf(x) -__builtin_fabsf(x)\n";
    let turned = including("turned.h", text);
    let before = fingerprint(&turned);
    assert_ne!(before, plain);
    assert_eq!(fingerprint(&including("elsewhere.h", text)).digest(), before.digest());
    assert!(
        changed(&before, &fingerprint(&including("turned.h", "\n")))
            .iter()
            .any(|part| part.starts_with("file"))
    );
    let turned = including("turned.h", text);

    let job = job("Abs", &[&[1]], &[]);
    assert_eq!(crate::common::floats(&launch(&*kernel(&turned, &job), &[&[3.0]], 1)), [-3.0]);
    match compile(&with(" --no-such-flag"), &job) {
        Err(error @ BackendError::Toolchain { .. }) => {
            assert!(error.to_string().contains("--no-such-flag"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

/// In any form of argument, another content of the file is another toolchain.
#[test]
fn files_count_in_any_form_of_argument() {
    let real = real_compiler();
    let dir = tempfile::tempdir().unwrap();
    for (at, before) in ["--include=", "-imacros ", "-include ", "@"].iter().enumerate() {
        let file = dir.path().join(format!("file-{at}"));
        let with = |text: &str| {
            std::fs::write(&file, text).unwrap();
            fingerprint(&backend_with(Some(&format!("{} {before}{}", real.display(), file.display()))))
        };
        let (one, two) = if *before == "@" { ("-O1", "-O2") } else { ("#define ONE 1\n", "#define ONE 2\n") };
        assert_ne!(with(one), with(two), "{before}");
        assert_eq!(with(one), with(one), "{before}");
    }
}

/// The libraries that the compiler's programs load are part of the compiler.
#[test]
fn the_compilers_libraries_count() {
    for (name, program) in ["gcc", "clang"].map(|name| (name, crate::common::program(name))) {
        let Some(program) = program else { continue };
        let fingerprint = fingerprint(&backend_with(Some(program.to_str().unwrap())));
        let names: Vec<&str> = fingerprint.parts().iter().map(|part| part.name.as_str()).collect();
        assert!(names.iter().any(|name| name.starts_with("libc.") || name.starts_with("libc-")), "{names:?}");
        let llvm = names.iter().any(|part| part.starts_with("libLLVM") || part.starts_with("libclang"));
        assert_eq!(llvm, name == "clang", "{names:?}");
    }
}

/// One more byte in cc1 is another compiler.
#[test]
fn the_content_of_every_program_counts() {
    if crate::common::program("gcc").is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let gcc = || fingerprint(&backend_with(Some(&format!("gcc -B{}/", dir.path().display()))));
    for program in ["cc1", "as", "ld"] {
        let asked =
            std::process::Command::new("gcc").arg(format!("-print-prog-name={program}")).output().unwrap();
        let path = String::from_utf8(asked.stdout).unwrap();
        let path = crate::common::program(path.trim()).unwrap_or_else(|| path.trim().into());
        std::fs::copy(path, dir.path().join(program)).unwrap();
    }
    let before = gcc();
    for program in ["cc1", "as", "ld"] {
        let path = dir.path().join(program);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.push(0);
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(changed(&before, &gcc()), [program]);
        bytes.pop();
        std::fs::write(&path, &bytes).unwrap();
    }
}

#[test]
fn native_is_another_toolchain() {
    let native = CpuBackend::new(CpuConfig::new(crate::common::path()).with_features(Features::Native));
    let changed = changed(&fingerprint(backend()), &fingerprint(&native));
    assert!(
        changed.contains(&"flags".to_owned()) && changed.contains(&"arguments of each step".to_owned()),
        "{changed:?}"
    );
    assert_ne!(crate::common::spec(&native).target, crate::common::spec(backend()).target);
    // The results of float operations do not depend on the compiler or its instructions, fused ones included.
    let values = crate::common::numbers(1000, 8);
    let job = job("Axpy", &[&[1000], &[1000]], &[float("alpha", 0.1)]);
    let run = |backend: &CpuBackend| {
        launch(&*kernel(backend, &job), &[&values, &crate::common::numbers(1000, 9)], 1)
    };
    for compiler in ["gcc", "clang"].into_iter().filter(|name| crate::common::program(name).is_some()) {
        let config = CpuConfig::new(crate::common::path()).with_compiler(Some(compiler.to_owned()));
        let native = CpuBackend::new(config.with_features(Features::Native));
        assert_eq!(run(&native), run(backend()), "{compiler}");
    }
    // The features themselves are named, not the word `native`.
    let parts = fingerprint(&native);
    let resolved = parts.parts().iter().find(|part| part.name == "arguments of each step").unwrap();
    assert!(!resolved.note.contains("=native"), "{}", resolved.note);
}

/// A refusal with help.
fn no_toolchain(backend: &CpuBackend, told: &str) {
    let began = Instant::now();
    for _ in 0..2 {
        match backend.toolchain(&TestContext::new().cx()) {
            Err(error @ BackendError::Toolchain { .. }) => {
                let text = error.to_string();
                assert!(text.contains(told), "{text}");
                let helps = text.contains("apt install gcc") || text.contains("name files by absolute paths");
                assert!(helps && text.contains("CC"), "{text}");
            }
            other => panic!("{told}: {other:?}"),
        }
    }
    assert!(matches!(compile(backend, &job("Neg", &[&[1]], &[])), Err(BackendError::Toolchain { .. })));
    assert!(backend.compiler().is_err());
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[test]
fn without_a_compiler_the_error_names_the_missing_one() {
    let dir = tempfile::tempdir().unwrap();
    no_toolchain(&with_path(dir.path()), "no cc, gcc or clang in PATH");
    no_toolchain(&with_path(""), "no cc, gcc or clang in PATH");
    no_toolchain(&backend_with(Some("no-such-cc")), "CC names `no-such-cc`");
    no_toolchain(&backend_with(Some("/no/such/cc")), "CC names `/no/such/cc`");
    no_toolchain(&backend_with(Some("  ")), "CC is empty");
    // A file that is not executable.
    std::fs::write(dir.path().join("cc"), "not executable").unwrap();
    no_toolchain(&with_path(dir.path()), "no cc, gcc or clang in PATH");
}

#[test]
fn programs_that_are_no_compilers_are_refused_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let cc = dir.path().join("cc");
    let with = |text: &str| {
        script(&cc, text);
        let config =
            CpuConfig::new(crate::common::path()).with_compiler(Some(cc.to_str().unwrap().to_owned()));
        CpuBackend::new(config.with_probe_deadline(Duration::from_millis(300)))
    };
    no_toolchain(&with("#!/bin/sh\necho 'I am a teapot'\n"), "does not answer as gcc or clang do");
    no_toolchain(&with("#!/bin/sh\nexit 0\n"), "does not answer as gcc or clang do");
    no_toolchain(&with("#!/bin/sh\necho broken >&2; exit 7\n"), "exit status: 7");
    no_toolchain(&with("#!/bin/sh\nsleep 1000\n"), "deadline");
    no_toolchain(&with("#!/bin/sh\nyes\n"), "deadline");
    no_toolchain(&with("#!/no/such/shell\n"), "cannot run");
    let answers = "#!/bin/sh\necho 'Target: x86_64-linux-gnu'; echo 'gcc version 99 (made up)'\n";
    no_toolchain(&with(answers), "cannot compile a small source");
}

/// Several callers query a compiler that does not answer, and stop waiting. That is not an error of the compiler.
#[test]
fn no_caller_waits_for_a_compiler_that_does_not_answer() {
    let dir = tempfile::tempdir().unwrap();
    let (cc, asked) = (dir.path().join("cc"), dir.path().join("asked"));
    script(&cc, &format!("#!/bin/sh\necho \"$1\" >> '{}'\nexec sleep 1000\n", asked.display()));
    let backend = backend_with(cc.to_str());
    let began = Instant::now();
    let cancel = CancelToken::new();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let told = backend.toolchain(&TestContext::cancelled_by(&cancel).cx());
                assert!(matches!(told, Err(BackendError::Cancelled)), "{told:?}");
            });
        }
        while !asked.is_file() {
            std::thread::sleep(Duration::from_millis(2));
        }
        std::thread::sleep(Duration::from_millis(100));
        cancel.cancel();
    });
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    // Each query was made once.
    let asked = std::fs::read_to_string(&asked).unwrap();
    let mut questions: Vec<&str> = asked.lines().collect();
    questions.sort_unstable();
    assert!(["-###", "-print-prog-name=ld"].starts_with(&questions) && !questions.is_empty(), "{asked}");
    let real = real_compiler();
    script(&cc, &format!("#!/bin/sh\nexec '{}' \"$@\"\n", real.display()));
    assert!(!fingerprint(&backend).parts().is_empty());
}

#[test]
fn the_math_library_counts_only_where_it_is_called() {
    let sources = |op_type: &str, attrs: &[opkeep_descriptor::Attr]| {
        let shapes: &[&[i64]] = match opkeep_ops::find(op_type).unwrap().inputs.len() {
            1 => &[&[5]],
            _ => &[&[5], &[5]],
        };
        let job = job(op_type, shapes, attrs);
        let sources =
            backend().op_sources(&TestContext::new().cx(), &job, &crate::common::spec(backend())).unwrap();
        let artifact = compile(backend(), &job).unwrap();
        (sources.parts().iter().any(|part| part.name == "libm"), crate::common::needs(&artifact.object))
    };
    let decimals = [attr("decimals", "int32", AttrValue::Int(0))];
    for (op_type, attrs) in [
        ("Add", &[][..]),
        ("Relu6", &[]),
        ("Sqrt", &[]),
        ("Rsqrt", &[]),
        ("Shrink", &[]),
        ("IsClose", &[]),
        ("Fills", &[float("value", f64::NAN)]),
        ("ZerosLike", &[]),
        ("TensorMove", &[]),
    ] {
        assert_eq!(sources(op_type, attrs), (false, vec![]), "{op_type}");
    }
    for (op_type, symbol) in [("Exp", "expf"), ("Sigmoid", "expf"), ("Mod", "fmodf"), ("Lgamma", "lgammaf")] {
        let (counted, needed) = sources(op_type, &[]);
        assert!(counted && needed.contains(&symbol.to_owned()), "{op_type}: {needed:?}");
        assert!(needed.iter().any(|library| library.starts_with("libm.so")), "{op_type}: {needed:?}");
    }
    assert!(sources("Round", &decimals).0);
}

/// Every operator whose fingerprint lacks the math library needs no symbol of it, for any size.
#[test]
fn kernels_without_the_math_library_stand_alone() {
    let spec = crate::common::spec(backend());
    std::thread::scope(|scope| {
        for half in 0..2 {
            let spec = &spec;
            scope.spawn(move || {
                for row in crate::common::on_floats().skip(half).step_by(2) {
                    let attrs: Vec<_> = row
                        .attrs
                        .iter()
                        .filter(|attr| attr.default_value().is_none())
                        .map(|attr| float(attr.name, 0.5))
                        .collect();
                    let large: &[i64] = &[64, 4096];
                    let job = job(row.op_type, &vec![large; row.inputs.len()], &attrs);
                    let sources = backend().op_sources(&TestContext::new().cx(), &job, spec).unwrap();
                    let needed = crate::common::needs(&compile(backend(), &job).unwrap().object);
                    let counted = sources.parts().iter().any(|part| part.name == "libm");
                    assert!(counted || needed.is_empty(), "{}: {needed:?}", row.op_type);
                }
            });
        }
    });
}
