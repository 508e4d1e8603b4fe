//! The same in a long-running process: `opc_tool.opc_api.compile_op`.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use super::Case;
use super::bench::{Bench, attention, good_conv2d, params, reduce_sum, report, square};

pub(crate) const CASES: &[Case] = &[
    ("a_worker_makes_the_same_as_opc", as_opc),
    ("a_worker_never_sees_an_edit_but_of_a_file_it_is_given", edits),
    ("a_worker_needs_a_name", needs_a_name),
    ("every_operator_compiles", every_operator),
    ("frameworks_ask_with_text", frameworks),
];

const SERVE: &str = "
import importlib, json, os, sys
sys.path.insert(0, os.path.join(os.environ['ASCEND_HOME_PATH'], 'python/site-packages/opc_tool'))
from opc_tool.opc_api import compile_op
for line in sys.stdin:
    asked = json.loads(line)
    if 'select' in asked:
        module, arguments = asked['select']
        answer = json.loads(importlib.import_module(module).op_select_format(*arguments))
    else:
        answer = compile_op(*asked['compile'])
    print('answer ' + json.dumps(answer), flush=True)
";

/// A Python that has imported the toolkit.
pub(crate) struct Worker<'a> {
    bench: &'a Bench,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    /// Its output other than answers.
    printed: String,
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        // It exits at the end of its input.
        self.stdin = None;
        let _ = self.child.wait();
    }
}

impl<'a> Worker<'a> {
    pub(crate) fn start(bench: &'a Bench) -> Self {
        let mut command = bench.command(&super::bench::python());
        let mut child =
            command.args(["-c", SERVE]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { bench, child, stdin, stdout, printed: String::new() }
    }

    fn ask(&mut self, question: &Value) -> Value {
        writeln!(self.stdin.as_mut().unwrap(), "{question}").unwrap();
        loop {
            let mut line = String::new();
            assert_ne!(self.stdout.read_line(&mut line).unwrap(), 0, "it ended: {}", self.printed);
            match line.strip_prefix("answer ") {
                Some(answer) => return serde_json::from_str(answer).unwrap(),
                None => self.printed += &line,
            }
        }
    }

    /// Whether `params` compile; `options` come before the mandatory ones.
    fn compile(&mut self, soc: &str, params: &Value, options: &Value) -> bool {
        let work = self.bench.work();
        let mut all = json!({"soc_version": soc, "output": work.join("output"), "debug_dir": work.join("debug"),
            "bin_filename": params["op_list"][0]["bin_filename"], "deterministic": "false"});
        all.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        self.ask(&json!({"compile": [params, all]})) == json!(true)
    }

    /// The object of `params`.
    pub(crate) fn object(&mut self, soc: &str, params: &Value, options: &Value) -> Vec<u8> {
        let _ = fs::remove_dir_all(self.bench.work().join("output"));
        let compiled = self.compile(soc, params, options);
        assert!(compiled, "{params}: {}", self.printed);
        self.bench.pair(params["op_list"][0]["bin_filename"].as_str().unwrap()).unwrap().1
    }
}

fn as_opc() {
    let bench = Bench::new();
    let mut worker = Worker::start(&bench);
    for params in [square(), good_conv2d(), reduce_sum(), attention(16), attention(-1)] {
        let kernel = params["op_list"][0]["bin_filename"].as_str().unwrap();
        let (object, mut json) = bench.compiled("Ascend910B1", &params, &["--debug_dir=one"]);
        assert!(
            worker.object("Ascend910B1", &params, &json!({"output": bench.work().join("output")})) == object
        );
        let mut other: Value = serde_json::from_slice(&bench.pair(kernel).unwrap().0).unwrap();
        assert_eq!(json, other);
        // In other places only one field differs.
        let elsewhere = bench.work().join("elsewhere");
        assert!(worker.compile("Ascend910B1", &params, &json!({"output": elsewhere})));
        other = serde_json::from_slice(&fs::read(elsewhere.join(format!("{kernel}.json"))).unwrap()).unwrap();
        assert_ne!(json, other);
        for json in [&mut json, &mut other] {
            json.as_object_mut().unwrap().remove("filePath");
        }
        assert_eq!(json, other);
    }
}

fn edits() {
    let bench = Bench::new();
    let file = bench.installed.impl_file("dynamic/square.py");
    let by_file = json!({"op_path": file, "main_func": "square"});
    let mut worker = Worker::start(&bench);
    let before = worker.object("Ascend910B1", &square(), &json!({}));
    assert!(worker.object("Ascend910B1", &square(), &by_file) == before);
    bench.installed.append(&file, "# new\n").unwrap();
    assert!(worker.object("Ascend910B1", &square(), &json!({})) == before);
    let after = worker.object("Ascend910B1", &square(), &by_file);
    assert!(after != before);
    assert!(Worker::start(&bench).object("Ascend910B1", &square(), &json!({})) == after);
}

fn needs_a_name() {
    let bench = Bench::new();
    let mut worker = Worker::start(&bench);
    assert!(!worker.compile("Ascend910B1", &square(), &json!({"bin_filename": ""})));
    assert!(worker.printed.contains("bin_filename is empty."), "{}", worker.printed);
    assert!(worker.compile("Ascend910B1", &square(), &json!({"unheard_of": 1})));
    assert!(worker.printed.contains("build_options unheard_of not supported."), "{}", worker.printed);
    // The worker survives a failure.
    assert!(!worker.compile("Ascend910B1", &super::bench::conv2d("NCHW", &[1, 16, 8, 8]), &json!({})));
    assert!(worker.compile("Ascend910B1", &square(), &json!({})));
}

/// A shape that fits a format.
fn shape_of(format: &str) -> Vec<i64> {
    vec![
        16;
        match format {
            "NC1HWC0" => 5,
            "NDC1HWC0" => 6,
            "ND" => 2,
            _ => 4,
        }
    ]
}

/// The first form of each port, as listed by the operator information or by the operator itself.
fn first_forms(worker: &mut Worker<'_>, entry: &Value, module: &str) -> [Vec<Value>; 2] {
    let is_asked = entry["dynamicFormat"]["flag"] == "true";
    let count = |side: &str| (0..).take_while(|at| entry.get(format!("{side}{at}")).is_some()).count();
    let attrs = entry["attr"]["list"].as_str().map_or(0, |list| list.split(',').count());
    let arguments = vec![Value::Null; count("input") + count("output") + attrs];
    let asked = if is_asked { worker.ask(&json!({"select": [module, arguments]})) } else { Value::Null };
    ["input", "output"].map(|side| {
        (0..count(side))
            .map(|at| {
                let port = format!("{side}{at}");
                let forms = if is_asked { &asked[&port] } else { &entry[&port] };
                assert_eq!(is_asked, entry[&port].get("dtype").is_none(), "{port}");
                let first =
                    |key: &str| forms[key].as_str().and_then(|list| list.split(',').next()).unwrap_or("ND");
                let dtype = if first("dtype") == "float" { "float32" } else { first("dtype") };
                let tensor = super::bench::tensor(dtype, first("format"), &shape_of(first("format")));
                match entry[&port]["paramType"].as_str() {
                    Some("dynamic") => json!([tensor.clone(), tensor]),
                    Some("optional") => Value::Null,
                    _ => tensor,
                }
            })
            .collect()
    })
}

fn value_of(kind: &str) -> Value {
    match kind {
        "listInt" => json!([1, 1, 1, 1]),
        "str" => json!("NCHW"),
        "bool" => json!(false),
        "float" => json!(0.5),
        _ => json!(1),
    }
}

fn every_operator() {
    let bench = Bench::new();
    let text = fs::read_to_string(bench.installed.op_info("Ascend910B")).unwrap();
    let entries: serde_json::Map<String, Value> = serde_json::from_str(&text).unwrap();
    let mut worker = Worker::start(&bench);
    let mut compiled = 0;
    for (op_type, entry) in &entries {
        if entry["opFile"]["value"] == "Null" {
            continue;
        }
        let function = opkeep_ops::func_name(op_type);
        let is_both = entry["dynamicCompileStatic"]["flag"] == "true";
        let module = if is_both { format!("impl.dynamic.{function}") } else { format!("impl.{function}") };
        let [inputs, outputs] = first_forms(&mut worker, entry, &module);
        let kinds = [
            ("bool", "bool"),
            ("int", "int"),
            ("float", "float"),
            ("str", "string"),
            ("listInt", "list_int"),
        ];
        let names =
            entry["attr"]["list"].as_str().unwrap_or_default().split(',').filter(|name| !name.is_empty());
        let attrs: Vec<Value> = names
            .map(|name| {
                let kind = entry[format!("attr_{name}")]["type"].as_str().unwrap();
                let dtype = kinds.iter().find(|(own, _)| *own == kind).unwrap().1;
                super::bench::attr(name, dtype, value_of(kind))
            })
            .collect();
        let params = params(op_type, &inputs, &outputs, &attrs);
        let object = worker.object("Ascend910B1", &params, &json!({}));
        let (json, _) = bench.pair(&format!("{op_type}_0123abcd")).unwrap();
        assert_eq!(report("Ascend910B1", &json, &object).findings, [], "{op_type}");
        compiled += 1;
    }
    assert!(compiled > 40, "{compiled}");
}

fn frameworks() {
    let bench = Bench::new();
    let x =
        json!({"data_type": "float32", "format": "ND", "shape": [3], "ori_shape": [3], "ori_format": "ND"});
    let request = json!({"fusion_op_name": "te_square_1f", "SocInfo": {"socVersion": "Ascend910B1"}, "l1_size": -1,
        "op_list": [{"type": "Data"}, {"type": "Square", "input_desc": [x], "output_desc": [x]}]});
    let code =
        "import sys; from te_fusion.parallel_compilation import compile_op; print(compile_op(sys.argv[1]))";
    let mut command = bench.command(&super::bench::python());
    let run = super::bench::run(command.args(["-c", code, &request.to_string()]));
    assert!(run.stdout.contains("'status_code': 0"), "{}{}", run.stdout, run.stderr);
    assert!(bench.work().join("kernel_meta/te_square_1f.o").exists());
}
