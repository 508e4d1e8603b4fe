//! Compiles of single tiling keys with opkeep before the compiler.
#![expect(clippy::disallowed_methods, reason = "tests look at files")]
#![expect(clippy::unwrap_used, reason = "these tests are functions without `#[test]`")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use opkeep_testkit::toolkit::package::{PackageInstallation, PackageToolkit, Project, ProjectTree, tools};
use opkeep_testkit::toolkit::{Fault, Rule};

use crate::common::Place;

type Test = fn() -> Result<(), Failed>;

pub(crate) fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 5] = [
        ("an_added_key_compiles_alone", an_added_key_compiles_alone),
        ("a_script_before_the_compiler_is_a_launcher", a_script_before_the_compiler_is_a_launcher),
        ("links_on_the_path_lead_to_the_compiler", links_on_the_path_lead_to_the_compiler),
        ("of_eight_at_once_one_compiles", of_eight_at_once_one_compiles),
        ("a_killed_compile_leaves_nothing_wrong", a_killed_compile_leaves_nothing_wrong),
    ];
    let trial = |(name, test): (&str, Test)| {
        Trial::test(format!("tiling_keys::{name}"), test).with_ignored_flag(tools().is_none())
    };
    tests.into_iter().map(trial).collect()
}

/// A toolkit, a store, and a directory with links.
struct Bench {
    place: Place,
    at: PathBuf,
    installed: PackageInstallation,
}

impl Bench {
    fn new(names: &str) -> Self {
        let place = Place::new();
        let at = fs::canonicalize(place.dir.path()).unwrap();
        let installed = PackageToolkit::new().write(&at.join("Ascend")).unwrap();
        place.run(&["shim", "install", "shims", "--for", names]).ended_with(0);
        Self { place, at, installed }
    }

    fn project(&self, project: &Project, folder: &str) -> ProjectTree {
        let store = self.at.join("store").to_str().unwrap().to_owned();
        let project = project.clone().env("OPKEEP_CACHE_DIR", &store).env("OPKEEP_CONFIG", "/dev/null");
        project.write(&self.at.join(folder), &self.installed).unwrap()
    }

    fn build(&self, project: &ProjectTree) {
        let ended = project.build(4).output().unwrap();
        assert!(ended.status.success(), "{ended:?}");
    }

    /// The number of compiles since the last call.
    fn compiles(&self) -> usize {
        let compiles = self.installed.kernel_compiles().unwrap().len();
        self.installed.forget().unwrap();
        compiles
    }

    /// The compile of a small kernel to `object`.
    fn compile(&self, program: &Path, args: &[&str], object: &str) -> Command {
        let object = self.at.join(object);
        fs::create_dir_all(object.parent().unwrap()).unwrap();
        let mut all = args.to_vec();
        let source = self.at.join("k_kernel.cpp");
        all.extend([
            "-c",
            "-O3",
            "-Dauto_gen_k_kernel=k",
            "--cce-aicore-lang",
            "--cce-aicore-only",
            "--cce-aicore-arch=dav-c220-vec",
        ]);
        all.extend([source.to_str().unwrap(), "-o", object.to_str().unwrap()]);
        let mut command = self.place.program(program, &all);
        command.env("OPKEEP_CACHE_DIR", self.at.join("store")).current_dir(&self.at);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn bisheng(&self) -> PathBuf {
        self.installed.path("compiler/ccec_compiler/bin/bisheng")
    }
}

/// The file that `opc` writes has one block more, and the compiles of the other keys are the same.
fn an_added_key_compiles_alone() -> Result<(), Failed> {
    let bench = Bench::new("opkeep-ccache");
    let launcher = bench.at.join("shims/opkeep-ccache");
    let kind = Project::nn().operators(&["AddCustom"])?.tasks(1).ccache(&launcher);
    let one = bench.project(&kind.clone().tiling_keys("1"), "one");
    bench.build(&one);
    let first = bench.compiles();
    assert!(first > 0);
    one.clean()?;
    bench.build(&one);
    assert_eq!(bench.compiles(), 0);
    // Both keys, from sources in another directory.
    let both = bench.project(&kind.clone().tiling_keys("1,2"), "both");
    bench.build(&both);
    assert_eq!(bench.compiles(), first);
    // What opc makes of these objects is what it makes of the compiler's.
    let plain = Project::nn().operators(&["AddCustom"])?.tasks(1).tiling_keys("1,2");
    let plain = bench.project(&plain, "plain");
    bench.build(&plain);
    assert_eq!(bench.compiles(), 2 * first);
    for (built, expected) in both.tasks()?.iter().zip(plain.tasks()?) {
        for (built, expected) in built.files().iter().zip(expected.files()) {
            assert_eq!(fs::read(built)?, fs::read(expected)?);
        }
    }
    let listed = bench.place.run(&["ls", "--cache-dir", "store", "--format", "json"]).ended_with(0).json();
    let kernels = listed["kernels"].as_array().unwrap();
    assert!(kernels.iter().any(|kernel| kernel["framework"] == "bisheng"), "{listed}");
    Ok(())
}

/// vllm-ascend writes one that runs a given ccache before the compiler.
fn a_script_before_the_compiler_is_a_launcher() -> Result<(), Failed> {
    let bench = Bench::new("opkeep-ccache");
    let kind = Project::vllm().operators(&["AddCustom"])?.ccache(&bench.at.join("shims/opkeep-ccache"));
    let project = bench.project(&kind, "project");
    bench.build(&project);
    assert!(bench.compiles() > 0);
    project.clean()?;
    bench.build(&project);
    assert_eq!(bench.compiles(), 0);
    Ok(())
}

/// The operator's Python takes headers from beside the real compiler, whose path is given.
fn links_on_the_path_lead_to_the_compiler() -> Result<(), Failed> {
    let bench = Bench::new("bisheng,ccec");
    let kind = Project::nn().operators(&["AddCustom"])?.tasks(1).path(&bench.at.join("shims"));
    let kind = kind.env("BISHENG_REAL_PATH", bench.bisheng().to_str().unwrap());
    let project = bench.project(&kind, "project");
    bench.build(&project);
    assert!(bench.compiles() > 0);
    project.clean()?;
    bench.build(&project);
    assert_eq!(bench.compiles(), 0);
    Ok(())
}

fn of_eight_at_once_one_compiles() -> Result<(), Failed> {
    let bench = Bench::new("opkeep-ccache");
    fs::write(bench.at.join("k_kernel.cpp"), "extern \"C\" int k(int a) { return a + 1; }\n")?;
    bench
        .installed
        .rules(&[Rule::new(Fault::Sleep(Duration::from_millis(300))).tool("bisheng").kernel("k.o")])?;
    let launcher = bench.at.join("shims/opkeep-ccache");
    let bisheng = bench.bisheng();
    let start = |number: usize| {
        bench.compile(&launcher, &[bisheng.to_str().unwrap()], &format!("{number}/k.o")).spawn()
    };
    let running: Vec<Child> = (0..8).map(start).collect::<Result<_, _>>()?;
    for mut child in running {
        assert!(child.wait()?.success());
    }
    assert_eq!(bench.compiles(), 1);
    bench.installed.rules(&[])?;
    assert!(bench.compile(&bisheng, &[], "plain/k.o").status()?.success());
    let expected = fs::read(bench.at.join("plain/k.o"))?;
    for number in 0..8 {
        assert_eq!(fs::read(bench.at.join(format!("{number}/k.o")))?, expected, "{number}");
    }
    Ok(())
}

/// At any moment: before the compile, in it, while the object is written or stored.
fn a_killed_compile_leaves_nothing_wrong() -> Result<(), Failed> {
    let bench = Bench::new("opkeep-ccache");
    let launcher = bench.at.join("shims/opkeep-ccache");
    let bisheng = bench.bisheng();
    let with = [bisheng.to_str().unwrap()];
    for number in 0..20_u64 {
        let text = format!("extern \"C\" int k(int a) {{ return a + {number}; }}\n");
        fs::write(bench.at.join("k_kernel.cpp"), text)?;
        let mut child = bench.compile(&launcher, &with, "one/k.o").spawn()?;
        std::thread::sleep(Duration::from_millis(number * 15));
        child.kill()?;
        child.wait()?;
        // The waiter of a killed process, and a later one.
        for name in ["one/k.o", "other/k.o"] {
            assert!(bench.compile(&launcher, &with, name).status()?.success());
        }
        assert!(bench.compile(&bisheng, &[], "plain/k.o").status()?.success());
        let expected = fs::read(bench.at.join("plain/k.o"))?;
        for name in ["one/k.o", "other/k.o"] {
            assert_eq!(fs::read(bench.at.join(name))?, expected, "{number}");
        }
    }
    Ok(())
}
