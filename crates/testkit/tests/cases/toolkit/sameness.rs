//! Inputs that change a kernel's bytes, and those that do not.

use std::fs;

use opkeep_testkit::toolkit::{Fault, Rule};
use serde_json::json;

use super::Case;
use super::bench::{Bench, attention, params, reduce_sum, square, tensor, unary};
use super::worker::Worker;

pub(crate) const CASES: &[Case] = &[
    ("all_that_a_compiler_reads_changes_the_code", changes),
    ("nothing_else_does", same),
    ("sources_of_the_operator_change_it", sources),
    ("knowledge_and_versions_change_it", versions),
];

fn changes() {
    let bench = Bench::new();
    let mut worker = Worker::start(&bench);
    let with = |dtype: &str, format: &str, shape: &[i64]| {
        let x = tensor(dtype, format, shape);
        unary("Square", &x, &[])
    };
    let (none, soc) = (json!({}), "Ascend910B1");
    let mut objects = Vec::new();
    let mut add = |object: Vec<u8>| objects.push(object);
    add(worker.object(soc, &square(), &none));
    add(worker.object(soc, &with("float16", "ND", &[3]), &none));
    add(worker.object(soc, &with("float32", "NCHW", &[1, 1, 1, 3]), &none));
    add(worker.object(soc, &with("float32", "ND", &[4]), &none));
    add(worker.object(soc, &with("float32", "ND", &[-1]), &none));
    add(worker.object("Ascend910B2", &square(), &none));
    add(worker.object(soc, &square(), &json!({"core_type": "AiCore"})));
    add(worker.object(soc, &square(), &json!({"aicore_num": 8})));
    add(worker.object(soc, &square(), &json!({"op_debug_level": 1})));
    add(worker.object(soc, &square(), &json!({"op_debug_level": 2})));
    add(worker.object(soc, &square(), &json!({"op_debug_config": "oom"})));
    add(worker.object(soc, &square(), &json!({"op_mode": "dynamic"})));
    add(worker.object(soc, &reduce_sum(), &json!({"deterministic": "true"})));
    add(worker.object(soc, &reduce_sum(), &json!({"deterministic": "false"})));
    add(worker.object(soc, &reduce_sum(), &json!({"impl_mode": "high_precision"})));
    add(worker.object(soc, &reduce_sum(), &json!({"impl_mode": "high_performance"})));
    let count = objects.len();
    objects.sort_unstable();
    objects.dedup();
    assert_eq!(objects.len(), count);
}

fn same() {
    let bench = Bench::new();
    let (object, _) = bench.compiled("Ascend910B1", &square(), &[]);
    let elsewhere = Bench::new();
    assert!(
        elsewhere.compiled("Ascend910B1", &square(), &["--debug_dir=elsewhere", "--log=info"]).0 == object
    );
    // An operator does not depend on an input that it does not report.
    assert!(bench.compiled("Ascend910B1", &square(), &["--deterministic=true"]).0 == object);
    assert!(bench.compiled("Ascend910B1", &square(), &["--impl_mode=high_precision"]).0 == object);
    bench.installed.append(&bench.installed.impl_file("dynamic/relu.py"), "# new\n").unwrap();
    assert!(bench.compiled("Ascend910B1", &square(), &[]).0 == object);
    bench.installed.rules(&[Rule::new(Fault::Chance).times(1)]).unwrap();
    assert!(bench.compiled("Ascend910B1", &square(), &[]).0 != object);
    assert!(bench.compiled("Ascend910B1", &square(), &[]).0 == object);
}

fn sources() {
    let bench = Bench::new();
    let installed = &bench.installed;
    let x = tensor("float32", "ND", &[4]);
    let div = params("RealDiv", &[x.clone(), x.clone()], std::slice::from_ref(&x), &[]);
    let matmul = {
        let x = tensor("float16", "ND", &[1, 16, 16]);
        let attrs = [("adj_x1", false), ("adj_x2", false)]
            .map(|(name, value)| super::bench::attr(name, "bool", value));
        params("BatchMatMulV2", &[x.clone(), x.clone(), json!(null), json!(null)], &[x], &attrs)
    };
    let norm = {
        let attrs = [super::bench::attr("epsilon", "float", 1e-6)];
        params("AddRmsNorm", &[x.clone(), x.clone(), x.clone()], &[x.clone(), x.clone(), x.clone()], &attrs)
    };
    let cases = [
        (square(), "dynamic/square.py", "# new\n"),
        (square(), "util/util_common.py", "# new\n"),
        (square(), "util/platform_adapter.py", "# new\n"),
        // It imports its neighbour.
        (div.clone(), "dynamic/mul.py", "# new\n"),
        (div, "util/util_broadcast.py", "# new\n"),
        // By a name that is computed at run time.
        (matmul, "util/util_cube_910b.py", "# new\n"),
        (norm.clone(), "ascendc/add_rms_norm/add_rms_norm.cpp", "// new\n"),
        (norm, "ascendc/add_rms_norm/add_rms_norm.h", "// new\n"),
        (attention(16), "ascendc/flash_attention_score/flash_attention_score.cpp", "// new\n"),
    ];
    // Each in its own process, since a running one does not see edits.
    for (params, file, text) in cases {
        let before = Worker::start(&bench).object("Ascend910B1", &params, &json!({}));
        installed.append(&installed.impl_file(file), text).unwrap();
        let after = Worker::start(&bench).object("Ascend910B1", &params, &json!({}));
        assert!(before != after, "{file}");
    }
    // An operator's module serves both kinds of shapes, unless it has two modules.
    let (object, _) = bench.compiled("Ascend910B1", &square(), &[]);
    installed.append(&installed.impl_file("square.py"), "# new\n").unwrap();
    assert!(bench.compiled("Ascend910B1", &square(), &[]).0 == object);
    let (object, _) = bench.compiled("Ascend910B1", &super::bench::good_conv2d(), &[]);
    installed.append(&installed.impl_file("conv2d.py"), "# new\n").unwrap();
    assert!(bench.compiled("Ascend910B1", &super::bench::good_conv2d(), &[]).0 != object);
}

fn versions() {
    let mut bench = Bench::new();
    let soc = "Ascend910B1";
    let once = |bench: &Bench, options: &[&str]| {
        let (object, json) = bench.compiled(soc, &square(), options);
        (object, json["KBHit"].clone())
    };
    let (plain, hit) = once(&bench, &[]);
    assert_eq!(hit, json!(false));
    let own = bench.dir.path().join("bank");
    let path = bench.installed.write_bank(Some(&own), soc, "square", &json!({"block_factor": 8})).unwrap();
    let option = format!("--op_bank_path={}", own.display());
    let (tuned, hit) = once(&bench, &[&option]);
    assert!(hit == json!(true) && tuned != plain);
    bench.installed.write_bank(Some(&own), soc, "square", &json!({"block_factor": 16})).unwrap();
    assert!(once(&bench, &[&option]).0 != tuned);
    fs::write(path, "{").unwrap();
    assert_eq!(once(&bench, &[&option]), (plain.clone(), json!(false)));
    bench.installed.write_bank(None, soc, "square", &json!({"block_factor": 8})).unwrap();
    assert_eq!(once(&bench, &[]), (tuned.clone(), json!(true)));

    bench
        .installed
        .edit(&bench.installed.platform_config(soc), |text| text.replace("ub_size=196608", "ub_size=1"))
        .unwrap();
    let (other_chip, _) = once(&bench, &[]);
    assert!(other_chip != tuned);
    bench.installed.upgrade("7.8.0.1.1", "20251231_000000000").unwrap();
    let (upgraded, _) = once(&bench, &[]);
    assert!(upgraded != other_chip);
    let comment = b"2025-12-31T00:00:00+08:00 clang version 15.0.5";
    assert!(upgraded.windows(comment.len()).any(|window| window == comment));
    bench.installed.append(&bench.installed.tool("ccec"), "# patched\n").unwrap();
    assert!(once(&bench, &[]).0 != upgraded);
}
