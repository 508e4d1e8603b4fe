//! Compiles of kernels by the stand-in of the toolkit: one file with a block for each tiling key.

use std::fs;

use opkeep_testkit::toolkit::package::PackageToolkit;

use super::Case;
use super::bench::{Bench, Did, Line};

pub(super) const CASES: &[Case] = &[
    ("bisheng::an_added_key_misses_alone", an_added_key_misses_alone),
    ("bisheng::two_chips_share_what_is_equal", two_chips_share_what_is_equal),
    ("bisheng::a_kernel_for_the_host_as_well_is_not_cached", a_kernel_for_the_host_as_well_is_not_cached),
];

/// The file that `opc` writes of a kernel: the source by its path, and a block for each key.
fn stub(keys: &[u32]) -> String {
    let block = |key: &u32| {
        format!(
            "#if TILING_KEY_VAR == {key}UL\nstatic const int meta_{key}[] = {{{key}, TILING_DATA}};\nconst int *at_{key}() {{ return meta_{key}; }}\n#endif\n"
        )
    };
    format!("#include \"{{}}/p/add.cpp\"\n{}", keys.iter().map(block).collect::<String>())
}

const SOURCE: &str = "#include \"common.h\"\nextern \"C\" int NAME(int a) { return SCALE * a; }\n";

/// The compile of one key in a work directory. (asc-devkit 9.1, `ascendc_compile_v220.py`)
fn key(work: &str, key: u32, arch: &str) -> Line {
    let args = format!(
        "-c -O3 -I{{}}/p -DDTYPE_X=half --cce-auto-sync -mllvm -api-deps-filter --cce-disable-kernel-global-attr-check --cce-aicore-lang \
         {{}}/{work}/add_kernel.cpp --cce-aicore-arch={arch} --cce-aicore-only -o {{}}/{work}/add_{key}.o -mllvm -cce-aicore-stack-size=0x8000 \
         -mllvm -cce-aicore-record-overflow=false -include {{}}/{work}/add_tiling_data.h -std=c++17 -DNAME=add_{key} -DTILING_KEY_VAR={key}UL"
    );
    Line { object: format!("{work}/add_{key}.o"), ..Line::of(&args) }
}

fn bench() -> Bench {
    let bench = Bench::empty("unused/bisheng");
    let installed = PackageToolkit::new().write(&bench.path("Ascend")).unwrap();
    let bench = bench.with_program(&installed.path("compiler/ccec_compiler/bin/bisheng"));
    bench.write("p/add.cpp", SOURCE);
    bench.write("p/common.h", "#define SCALE 2\n");
    fs::create_dir(bench.path("w")).unwrap();
    bench
}

fn lay(bench: &Bench, work: &str, keys: &[u32]) {
    bench.write(&format!("{work}/add_kernel.cpp"), &stub(keys));
    bench.write(&format!("{work}/add_tiling_data.h"), "#define TILING_DATA 64\n");
}

fn an_added_key_misses_alone() {
    const ARCH: &str = "dav-c220-vec";
    let bench = bench();
    lay(&bench, "one", &[264, 520]);
    for number in [264, 520] {
        bench.keep(&key("one", number, ARCH));
    }
    // Another work directory, since that of each run is new; the new key is before the others, so that these have other lines.
    lay(&bench, "two", &[8, 264, 520]);
    assert_eq!(bench.run(&key("two", 264, ARCH)), Did::Hit);
    assert_eq!(bench.run(&key("two", 520, ARCH)), Did::Hit);
    assert_eq!(bench.run(&key("two", 8, ARCH)), Did::Compiled);
    // What all keys have in common.
    bench.write("p/common.h", "#define SCALE 3\n");
    for number in [8, 264, 520] {
        assert_eq!(bench.run(&key("two", number, ARCH)), Did::Compiled);
    }
    // What one key has alone.
    bench.write("two/add_tiling_data.h", "#define TILING_DATA 128\n");
    assert_eq!(bench.run(&key("two", 8, ARCH)), Did::Compiled);
}

/// `opc` compiles for the architecture, and says nothing of the chip.
fn two_chips_share_what_is_equal() {
    let bench = bench();
    lay(&bench, "ascend910b", &[1]);
    bench.keep(&key("ascend910b", 1, "dav-c220-vec"));
    lay(&bench, "ascend910_93", &[1]);
    assert_eq!(bench.run(&key("ascend910_93", 1, "dav-c220-vec")), Did::Hit);
    assert_eq!(bench.run(&key("ascend910_93", 1, "dav-c220-cube")), Did::Compiled);
}

fn a_kernel_for_the_host_as_well_is_not_cached() {
    let bench = bench();
    lay(&bench, "one", &[1]);
    let line = key("one", 1, "dav-c220-vec");
    let both = Line { args: line.args.replace(" --cce-aicore-only", ""), ..line };
    assert!(matches!(bench.run(&both), Did::NotCached(_)));
}
