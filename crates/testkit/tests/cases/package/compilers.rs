//! The compiler and the linker by themselves.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use opkeep_testkit::toolkit::package::{PackageInstallation, PackageToolkit};
use tempfile::TempDir;

use super::Case;
use super::bench::{Run, run};

pub(super) const CASES: &[Case] = &[
    ("the_stamp_is_in_objects_and_in_no_preprocessed_text", the_stamp_is_in_objects_only),
    ("unknown_flags_are_in_the_object", unknown_flags_are_in_the_object),
    ("a_file_of_dependencies_names_all_headers", a_file_of_dependencies_names_all_headers),
    ("two_ways_to_say_the_language", two_ways_to_say_the_language),
    ("what_the_linker_refuses", what_the_linker_refuses),
];

struct Bench {
    dir: TempDir,
    installed: PackageInstallation,
}

impl Bench {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let installed = PackageToolkit::new().write(&dir.path().join("Ascend")).unwrap();
        let kernel =
            "#include \"part.h\"\nextern \"C\" __cce_entry__ __aicore__ void k(int *x) { *x = PART; }\n";
        fs::write(dir.path().join("k.cpp"), kernel).unwrap();
        fs::write(dir.path().join("part.h"), "#define PART 1\n").unwrap();
        Self { dir, installed }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A program of the toolkit, in the directory of the source.
    fn tool(&self, name: &str, words: &str) -> Run {
        run(Command::new(self.installed.tool(name))
            .args(words.split_whitespace())
            .current_dir(self.dir.path()))
    }

    /// The object of a compile with these options.
    fn object(&self, options: &str) -> Vec<u8> {
        let ran = self.tool("bisheng", &format!("-c -O2 k.cpp -o k.o {options}"));
        assert_eq!(ran.code, Some(0), "{ran:?}");
        fs::read(self.at("k.o")).unwrap()
    }
}

const KERNEL: &str = "-x cce --cce-aicore-arch=dav-c220-vec --cce-aicore-only";

fn the_stamp_is_in_objects_only() {
    let mut bench = Bench::new();
    let has_stamp = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains("2026-07-30T01:02:03");
    assert!(has_stamp(&bench.object(KERNEL)));
    let preprocessed = |bench: &Bench| bench.tool("bisheng", &format!("-E k.cpp {KERNEL}")).stdout;
    let text = preprocessed(&bench);
    assert!(text.contains("*x = 1") && !has_stamp(text.as_bytes()));
    let before = bench.object(KERNEL);
    bench.installed.upgrade("9.1.0.1.101", "20260801_000000000").unwrap();
    assert_eq!(preprocessed(&bench), text);
    assert!(bench.object(KERNEL) != before);
    for name in ["bisheng", "ccec"] {
        let said = bench.tool(name, "--version").stdout;
        assert!(said.contains("clang version 15.0.5 (2026-08-01T00:00:00"), "{said}");
    }
}

/// The machine's clang knows nothing of them, and the vendor's compiles other code with them.
fn unknown_flags_are_in_the_object() {
    let bench = Bench::new();
    let first = bench.object(KERNEL);
    assert!(bench.object(KERNEL) == first);
    for flag in [
        "-mllvm -cce-aicore-stack-size=0x4000",
        "--cce-auto-sync",
        "--cce-aicore-arch=dav-c220-cube",
        "-O0",
        "-g",
        "-DPART=2 -include /dev/null",
    ] {
        let with = bench.object(&format!("{KERNEL} {flag}"));
        assert_eq!(with == first, flag.starts_with("-D"), "{flag}");
    }
}

fn a_file_of_dependencies_names_all_headers() {
    let bench = Bench::new();
    fs::write(bench.at("forced.h"), "#define FORCED 1\n").unwrap();
    bench.object(&format!("{KERNEL} -include{} -MD -MF k.d -MT target", bench.at("forced.h").display()));
    let text = fs::read_to_string(bench.at("k.d")).unwrap();
    assert!(text.starts_with("target:"), "{text}");
    for name in ["k.cpp", "part.h", "forced.h", "__clang_cce_runtime.h"] {
        assert!(text.contains(name), "{name} is not in {text}");
    }
}

fn two_ways_to_say_the_language() {
    let bench = Bench::new();
    let first = bench.object(KERNEL);
    assert!(bench.object(&KERNEL.replace("-x cce", "--cce-aicore-lang")) == first);
    // Without it the qualifiers of kernels are unknown.
    let ran = bench.tool("bisheng", "-c k.cpp -o other.o");
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("__cce_entry__"), "{ran:?}");
    let ran = bench.tool("bisheng", "-c -o other.o");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(1), "bisheng: error: no input files\n"));
}

fn what_the_linker_refuses() {
    let bench = Bench::new();
    bench.object(KERNEL);
    for (words, text) in [
        ("-r k.o -o all.o", "unknown emulation"),
        ("-m aicorelinux -r missing.o -o all.o", "missing.o"),
        ("-m aicorelinux k.o -o all.o", "no kernel is described"),
        ("-m aicorelinux missing.o -o all.o", "cannot open missing.o"),
        ("-m aicorelinux k.cpp -o all.o", "not an object file"),
    ] {
        let ran = bench.tool("ld.lld", words);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.stderr.contains(text), "{ran:?}");
        assert!(!bench.at("all.o").exists());
    }
}
