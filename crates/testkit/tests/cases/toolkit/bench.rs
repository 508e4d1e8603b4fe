//! A toolkit in its own directory, and compiles with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::slice;
use std::sync::LazyLock;

use opkeep_cann_meta::targets;
use opkeep_testkit::toolkit::{self, Installation, Toolkit};
use opkeep_validator::{Report, validate};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) struct Bench {
    pub(crate) dir: TempDir,
    pub(crate) installed: Installation,
}

/// The interpreter itself.
pub(crate) fn python() -> PathBuf {
    static PYTHON: LazyLock<PathBuf> = LazyLock::new(|| toolkit::python().unwrap());
    PYTHON.clone()
}

/// The status and the output of a program.
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::of(&Toolkit::new())
    }

    pub(crate) fn of(toolkit: &Toolkit) -> Self {
        let dir = TempDir::new().unwrap();
        let installed = toolkit.write(&dir.path().join("Ascend")).unwrap();
        fs::create_dir(dir.path().join("work")).unwrap();
        Self { dir, installed }
    }

    /// The working directory of programs.
    pub(crate) fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    pub(crate) fn output(&self, name: &str) -> PathBuf {
        self.work().join("output").join(name)
    }

    /// A program with the environment of the toolkit, and errors on standard output.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.work()).env_clear().env("HOME", self.dir.path().join("home"));
        command.envs(self.installed.environment(&std::env::var("PATH").unwrap()));
        // Without this, the `python3` in the path may be a slow script itself.
        command.env("HI_PYTHON", python()).env("ASCEND_SLOG_PRINT_TO_STDOUT", "1");
        command
    }

    /// `opc` with these arguments.
    pub(crate) fn opc(&self, arguments: &[&str]) -> Run {
        run(self.command(&self.installed.tool("opc")).args(arguments))
    }

    /// `opc` for `params`, into `output`, once, with additional options.
    pub(crate) fn compile(&self, soc: &str, params: &Value, options: &[&str]) -> Run {
        let mut arguments = self.arguments(soc, params);
        if !options.iter().any(|option| option.starts_with("--deterministic")) {
            arguments.push("--deterministic=false".to_owned());
        }
        let arguments: Vec<&str> = options
            .iter()
            .copied()
            .filter(|option| option.contains(".py"))
            .chain(arguments.iter().map(String::as_str))
            .chain(options.iter().copied().filter(|option| !option.contains(".py")))
            .collect();
        self.opc(&arguments)
    }

    /// The arguments that `opc` always needs.
    pub(crate) fn arguments(&self, soc: &str, params: &Value) -> Vec<String> {
        let path = self.work().join("params.json");
        fs::write(&path, params.to_string()).unwrap();
        vec![
            format!("--input_param={}", path.display()),
            format!("--soc_version={soc}"),
            format!("--output={}", self.work().join("output").display()),
        ]
    }

    /// The `.json` and the object of a kernel, if both exist.
    pub(crate) fn pair(&self, kernel: &str) -> Option<(Vec<u8>, Vec<u8>)> {
        let read = |suffix: &str| fs::read(self.output(&format!("{kernel}.{suffix}"))).ok();
        Some((read("json")?, read("o")?))
    }

    /// Compiles, and returns the object and the `.json`.
    pub(crate) fn compiled(&self, soc: &str, params: &Value, options: &[&str]) -> (Vec<u8>, Value) {
        let kernel = params["op_list"][0]["bin_filename"].as_str().unwrap();
        let _ = fs::remove_dir_all(self.work().join("output"));
        let run = self.compile(soc, params, options);
        let pair = self.pair(kernel);
        assert!(pair.is_some(), "{}{}", run.stdout, run.stderr);
        let (json, object) = pair.unwrap();
        (object, serde_json::from_slice(&json).unwrap())
    }
}

/// The validator's findings for a pair. A genuine kernel has none.
pub(crate) fn report(soc: &str, json: &[u8], object: &[u8]) -> Report {
    validate(json, object, &targets::ascend(soc))
}

pub(crate) fn run(command: &mut Command) -> Run {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Run { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}

/// A tensor of a parameter file.
pub(crate) fn tensor(dtype: &str, format: &str, shape: &[i64]) -> Value {
    json!({"dtype": dtype, "format": format, "shape": shape, "ori_shape": shape, "ori_format": format,
        "paramType": "required", "range": shape.iter().map(|_| [1, -1]).collect::<Vec<_>>()})
}

/// An attribute of a parameter file.
pub(crate) fn attr(name: &str, dtype: &str, value: impl Into<Value>) -> Value {
    json!({"name": name, "dtype": dtype, "value": value.into()})
}

/// The parameter file of one operator.
pub(crate) fn params(op_type: &str, inputs: &[Value], outputs: &[Value], attrs: &[Value]) -> Value {
    let kernel = format!("{op_type}_0123abcd");
    json!({"op_type": op_type, "op_list": [
        {"bin_filename": kernel, "inputs": inputs, "outputs": outputs, "attrs": attrs}]})
}

/// The same for an operator whose output resembles its only input.
pub(crate) fn unary(op_type: &str, x: &Value, attrs: &[Value]) -> Value {
    params(op_type, slice::from_ref(x), slice::from_ref(x), attrs)
}

/// `Square` of three numbers.
pub(crate) fn square() -> Value {
    let x = tensor("float32", "ND", &[3]);
    unary("Square", &x, &[])
}

/// `ReduceSum`, which has a deterministic variant.
pub(crate) fn reduce_sum() -> Value {
    let (x, axes) = (tensor("float32", "ND", &[4, 8]), tensor("int32", "ND", &[1]));
    params("ReduceSum", &[x.clone(), axes], &[x], &[attr("keep_dims", "bool", true)])
}

/// A convolution whose input has this format.
pub(crate) fn conv2d(format: &str, shape: &[i64]) -> Value {
    let filter = tensor("float16", "FRACTAL_Z", &[9, 1, 16, 16]);
    let image = tensor("float16", format, shape);
    let attrs = [
        attr("strides", "list_int", [1, 1, 1, 1].to_vec()),
        attr("pads", "list_int", [1, 1, 1, 1].to_vec()),
        attr("dilations", "list_int", [1, 1, 1, 1].to_vec()),
        attr("groups", "int", 1),
        attr("data_format", "string", "NCHW"),
        attr("offset_x", "int", 0),
    ];
    params("Conv2D", &[image.clone(), filter, Value::Null, Value::Null], &[image], &attrs)
}

/// The same with the accepted format.
pub(crate) fn good_conv2d() -> Value {
    conv2d("NC1HWC0", &[1, 1, 8, 8, 16])
}

/// An operator in Ascend C, for cube and vector cores.
pub(crate) fn attention(dim: i64) -> Value {
    let x = tensor("float16", "ND", &[2, dim]);
    let attrs = [
        attr("head_num", "int", 2),
        attr("input_layout", "string", "BSH"),
        attr("scale_value", "float", 1.0),
    ];
    params("FlashAttentionScore", &[x.clone(), x.clone(), x.clone()], &[x], &attrs)
}
