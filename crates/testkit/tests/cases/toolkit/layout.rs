//! The installed files and their places.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use opkeep_testkit::toolkit::{Layout, Part, SOCS, Soc, Toolkit, Vendor};
use serde_json::{Value, json};

use super::Case;
use super::bench::{Bench, params, run, square, tensor, unary};

pub(crate) const CASES: &[Case] = &[
    ("files_are_where_they_belong", files),
    ("roots_are_called_as_in_their_time", roots),
    ("the_environment_is_that_of_the_script", environment),
    ("versions_are_stated_in_all_files", versions),
    ("chips_are_distinguished", chips),
    ("operators_state_their_inputs", op_info),
    ("an_installation_may_lack_parts", parts),
    ("vendors_go_in_their_order", vendors),
    ("a_tree_may_be_large", large),
];

fn files() {
    let bench = Bench::new();
    let tbe = "opp/built-in/op_impl/ai_core/tbe";
    for path in [
        "set_env.sh",
        "version.cfg",
        "bin/opc",
        "compiler/bin/opc",
        "compiler/version.info",
        "compiler/ccec_compiler/bin/ccec",
        "tools/ccec_compiler/bin/ld.lld",
        "lib64/libte_fusion.so",
        "python/site-packages/opc_tool/opc_api.py",
        "python/site-packages/te_fusion/parallel_compilation.py",
        "opp/version.info",
        "opp/built-in/data/op/Ascend910B1/unified_bank",
    ] {
        assert!(bench.installed.path(path).exists(), "{path}");
    }
    for path in [
        "impl/square.py",
        "impl/dynamic/square.py",
        "impl/util/platform_adapter.py",
        "impl/ascendc/add_rms_norm/add_rms_norm.cpp",
        "impl_mode/high_precision.ini",
        "config/ascend910b/aic-ascend910b-ops-info.json",
        "config/ascend310p/aic-ascend310p-ops-info.json",
        "kernel/config/ascend910b",
    ] {
        assert!(bench.installed.path(tbe).join(path).exists(), "{path}");
    }
    for tool in ["opc", "ccec", "ld.lld"] {
        let mode = fs::metadata(bench.installed.tool(tool)).unwrap().permissions().mode();
        assert_eq!(mode & 0o111, 0o111, "{tool}");
    }
    assert!(bench.installed.impl_file("square.py").exists());
    let arch = std::env::consts::ARCH;
    let text = fs::read_to_string(bench.installed.path(&format!("{arch}-linux/ascend_toolkit_install.info")))
        .unwrap();
    assert!(text.contains("version=8.1.RC1\n") && text.contains(&format!("arch={arch}\n")));
}

fn roots() {
    let ends = |bench: &Bench| {
        let below = |path: &std::path::Path| {
            path.strip_prefix(bench.installed.folder()).unwrap().display().to_string()
        };
        (below(bench.installed.versioned_root()), below(bench.installed.root()))
    };
    let pair = |one: &str, two: &str| (one.to_owned(), two.to_owned());
    assert_eq!(ends(&Bench::new()), pair("ascend-toolkit/8.1.RC1", "ascend-toolkit/latest"));
    let later = Bench::of(&Toolkit::new().version("9.1.0", "9.1.0.1").layout(Layout::Cann));
    assert_eq!(ends(&later), pair("cann-9.1.0", "cann"));
    assert!(later.installed.path("set_env.sh").exists() && later.installed.tool("asc_opc").exists());
}

fn environment() {
    let bench = Bench::new();
    let path = std::env::var("PATH").unwrap();
    let script = ". \"$1\" && env";
    let mut shell = std::process::Command::new("/bin/sh");
    shell.env_clear().env("PATH", &path);
    let run = run(shell.args(["-c", script, "sh"]).arg(bench.installed.path("set_env.sh")));
    let root = bench.installed.root().display().to_string();
    let tbe = format!("{root}/opp/built-in/op_impl/ai_core/tbe");
    for line in [
        format!("ASCEND_HOME_PATH={root}"),
        format!("ASCEND_TOOLKIT_HOME={root}"),
        format!("ASCEND_AICPU_PATH={root}"),
        format!("ASCEND_OPP_PATH={root}/opp"),
        format!("TOOLCHAIN_HOME={root}/toolkit"),
        format!("PYTHONPATH={root}/python/site-packages:{tbe}:"),
        format!("PATH={root}/bin:{root}/compiler/ccec_compiler/bin:{root}/tools/ccec_compiler/bin:{path}"),
    ] {
        assert!(run.stdout.lines().any(|other| other == line), "{line}");
    }
    for (name, value) in bench.installed.environment(&path) {
        let line = run.stdout.lines().find(|line| line.starts_with(&format!("{name}="))).unwrap();
        // If the variable was empty, the script leaves a colon.
        assert_eq!(line.trim_end_matches(':'), format!("{name}={}", value.to_str().unwrap()));
    }
}

fn versions() {
    let mut bench = Bench::new();
    let read = |bench: &Bench, path: &str| fs::read_to_string(bench.installed.path(path)).unwrap();
    let before = read(&bench, "compiler/version.info");
    assert!(
        before.starts_with("Version=7.7.0.1.238\nversion_dir=8.1.RC1\ntimestamp=20250428_203017761\n"),
        "{before}"
    );
    assert!(
        read(&bench, "version.cfg")
            .starts_with("# version: 1.0\ncompiler_running_version=[7.7.0.1.238:8.1.RC1]\n")
    );
    assert!(!read(&bench, "compiler/scene.info").ends_with('\n'));
    bench.installed.upgrade("7.8.0.0.1", "20260101_000000000").unwrap();
    for path in ["compiler/version.info", "opp/version.info", "version.cfg"] {
        assert!(read(&bench, path).contains("7.8.0.0.1"), "{path}");
    }
}

fn chips() {
    let bench = Bench::new();
    let value = |soc: &str, key: &str| {
        let text = fs::read_to_string(bench.installed.platform_config(soc)).unwrap();
        let line = text.lines().find(|line| line.starts_with(&format!("{key}="))).map(str::to_owned);
        line.map(|line| line[key.len() + 1..].to_owned())
    };
    assert_eq!(value("Ascend910B1", "Short_SoC_version").as_deref(), Some("Ascend910B"));
    assert_eq!(value("Ascend910B1", "CCEC_VECTOR_version").as_deref(), Some("dav-c220-vec"));
    assert_eq!(value("Ascend910B1", "cube_vector_combine").as_deref(), Some("split"));
    assert_eq!(value("Ascend910B1", "vector_core_cnt").as_deref(), Some("48"));
    // Without a further digit, it is a chip of the first generation.
    assert_eq!(value("Ascend910B", "Short_SoC_version").as_deref(), Some("Ascend910"));
    assert_eq!(value("Ascend910B", "CCEC_AIC_version").as_deref(), Some("dav-c100"));
    assert_eq!(value("Ascend910B", "cube_vector_combine"), None);
    let mut names: Vec<&str> = SOCS.iter().map(|soc| soc.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!((names.len(), Soc::find("Ascend910B9")), (SOCS.len(), None));
    assert!(Toolkit::new().socs(&["Ascend910B9"]).is_err());
    let few = Bench::of(&Toolkit::new().socs(&["Ascend310P3"]).unwrap());
    assert!(few.installed.platform_config("Ascend310P3").exists());
    assert!(!few.installed.platform_config("Ascend910B1").exists());
}

fn op_info() {
    let bench = Bench::new();
    let of = |short: &str| -> Value {
        serde_json::from_str(&fs::read_to_string(bench.installed.op_info(short)).unwrap()).unwrap()
    };
    let (new, old) = (of("Ascend910B"), of("Ascend910"));
    for op in "Conv2D BNInfer Relu MaxPoolV3 Add ReduceMean MatMulV2 BatchMatMulV2 Flatten SoftmaxV2 Square TransData \
               Cast Mul Muls GatherV2 Transpose ConcatD LRN AvgPoolV2"
        .split_whitespace()
    {
        assert!(new.get(op).is_some() && old.get(op).is_some(), "{op}");
        let function = opkeep_ops::func_name(op);
        for file in [format!("{function}.py"), format!("dynamic/{function}.py")] {
            assert!(bench.installed.impl_file(&file).exists(), "{file}");
        }
    }
    // Of the vendor's own operators, convolutions list nothing, and are not compiled from their dynamic variants.
    let conv = &new["Conv2D"];
    assert_eq!(conv["attr"]["list"], "strides,pads,dilations,groups,data_format,offset_x");
    assert_eq!((&conv["dynamicFormat"]["flag"], conv.get("dynamicCompileStatic")), (&json!("true"), None));
    assert_eq!(conv["input1"], json!({"name": "filter", "paramType": "required", "shape": "all"}));
    assert_eq!(
        conv["attr_groups"],
        json!({"defaultValue": "1", "paramType": "optional", "type": "int", "value": "all"})
    );
    assert_eq!(new["MatMulV2"]["opFile"]["value"], "mat_mul");
    assert_eq!(new["MaxPoolV3"]["input0"]["format"], "NC1HWC0,NC1HWC0");
    assert_eq!(new["Relu"]["op"]["pattern"], "formatAgnostic");
    assert_eq!(new["BNInfer"]["input1"]["dtype"], "float,float");
    assert_eq!(new["Reshape"]["opFile"]["value"], "Null");
    let conversions = &new["TransData"];
    let pair =
        |port: &str, at| conversions[port]["format"].as_str().unwrap().split(',').nth(at).unwrap().to_owned();
    assert_eq!((pair("input0", 2), pair("output0", 2)), ("NCHW".to_owned(), "FRACTAL_Z".to_owned()));
    assert_eq!(old["Relu"]["input0"]["dtype"], "float16,float32");
    assert!(old.get("AddRmsNorm").is_none() && new.get("AddRmsNorm").is_some());
    let text = fs::read_to_string(bench.installed.op_info("Ascend910B")).unwrap();
    assert!(text.contains("\"attr\":{") && !text.contains("\": "));
}

fn parts() {
    let is_there =
        |part: Part, path: &str| Bench::of(&Toolkit::new().without(part)).installed.path(path).exists();
    assert!(!is_there(Part::Opc, "bin/opc"));
    assert!(!is_there(Part::Compiler, "compiler/ccec_compiler/bin/ccec"));
    assert!(!is_there(Part::Opp, "opp/version.info") && !is_there(Part::Opp, "opp/built-in"));
    assert!(!is_there(Part::CompilerVersion, "compiler/version.info"));
    assert!(
        is_there(Part::CompilerVersion, "opp/version.info")
            && !is_there(Part::OppVersion, "opp/version.info")
    );
    assert!(!is_there(Part::PlatformConfig, &format!("{}-linux/data", std::env::consts::ARCH)));
    assert!(!is_there(Part::Python, "python") && !is_there(Part::LogLibrary, "lib64/libascendalog.so"));
    let bench = Bench::of(&Toolkit::new().without(Part::OpInfo));
    let run = bench.compile("Ascend910B1", &square(), &["--log=warning"]);
    assert!(run.stdout.contains("load file[") && run.stdout.contains("Op Square is not found in opstore."));
}

fn vendors() {
    let toolkit = Toolkit::new()
        .vendor(Vendor::new("first").op("AddCustom", "Add").op("NMSSquare", "Square"))
        .vendor(Vendor::new("second").op("AddCustom", "Mul").op("Sub", "Sub"));
    let bench = Bench::of(&toolkit);
    let vendors = bench.installed.opp().join("vendors");
    assert_eq!(fs::read_to_string(vendors.join("config.ini")).unwrap(), "load_priority=first,second\n");
    let info = "op_impl/ai_core/tbe/config/ascend910b/aic-ascend910b-ops-info.json";
    for path in
        ["version.info", "bin/set_env.bash", info, "op_impl/ai_core/tbe/first_impl/dynamic/add_custom.py"]
    {
        assert!(vendors.join("first").join(path).exists(), "{path}");
    }
    let x = tensor("float32", "ND", &[4]);
    let add = params("AddCustom", &[x.clone(), x.clone()], std::slice::from_ref(&x), &[]);
    let first = bench.compiled("Ascend910B1", &add, &[]).0;
    let config = vendors.join("config.ini");
    bench.installed.edit(&config, |_| "load_priority=second,first\n".to_owned()).unwrap();
    let second = bench.compiled("Ascend910B1", &add, &[]).0;
    assert!(first != second);
    bench.installed.edit(&config, |_| "load_priority = first \n".to_owned()).unwrap();
    assert!(bench.compiled("Ascend910B1", &add, &[]).0 == first);
    bench.installed.edit(&config, |_| "load_priority=second,first\n".to_owned()).unwrap();
    // Its file is found by the naming rule.
    assert!(vendors.join("first/op_impl/ai_core/tbe/first_impl/n_ms_square.py").exists());
    bench.compiled("Ascend910B1", &unary("NMSSquare", &x, &[]), &[]);
    // A vendor's operator takes precedence over the built-in one of the same type.
    let sub = params("Sub", &[x.clone(), x.clone()], std::slice::from_ref(&x), &[]);
    let theirs = bench.compiled("Ascend910B1", &sub, &[]).0;
    bench.installed.remove(&config).unwrap();
    assert!(bench.compiled("Ascend910B1", &sub, &[]).0 != theirs);

    // In a package that a variable names, only explicitly named files are found.
    let dir = bench.dir.path().join("custom");
    bench.installed.write_vendor(&Vendor::new("custom").op("CubeCustom", "Square"), &dir).unwrap();
    let cube = unary("CubeCustom", &x, &[]);
    let compile = |arguments: &[String]| {
        let mut command = bench.command(&bench.installed.tool("opc"));
        command.env("ASCEND_CUSTOM_OPP_PATH", &dir).args(arguments);
        run(&mut command)
    };
    let mut arguments = bench.arguments("Ascend910B1", &cube);
    arguments.push("--deterministic=false".to_owned());
    let unnamed = compile(&arguments);
    assert!(unnamed.stdout.contains("compile failed"), "{}", unnamed.stdout);
    let file = dir.join("op_impl/ai_core/tbe/custom_impl/dynamic/cube_custom.py");
    arguments.insert(0, file.display().to_string());
    arguments.push("--main_func=cube_custom".to_owned());
    let named = compile(&arguments);
    assert!(bench.pair("CubeCustom_0123abcd").is_some(), "{}", named.stdout);
    assert!(Toolkit::new().vendor(Vendor::new("x").op("A", "Nothing")).write(&bench.work()).is_err());
}

fn large() {
    let bench = Bench::of(&Toolkit::new().more_ops(1000).socs(&["Ascend910B1"]).unwrap());
    let files = fs::read_dir(bench.installed.impl_file("dynamic")).unwrap().count();
    assert!(files > 1040, "{files}");
}
