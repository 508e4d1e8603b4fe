//! The answers of the stand-in's operators that must be asked, written down by hand, and whether a network's jobs keep to
//! what their operators take.

use std::cell::RefCell;

use opkeep_backend::BackendError;
use opkeep_backend_ascend::{Formats, OpsInfo, PortFormats, PortInfo, parse_formats};
use opkeep_descriptor::{Arg, Job, Tensor};

/// Answers by hand, and who was asked.
#[derive(Default)]
pub(crate) struct ByHand {
    pub(crate) asked: RefCell<Vec<String>>,
}

const HALVES: &str = "float16,float,bfloat16";
const ANY: &str = "NC1HWC0,ND,NCHW,NHWC,FRACTAL_NZ,FRACTAL_Z";

impl Formats for ByHand {
    fn select(&self, job: &Job, op_index: usize) -> Result<Option<Vec<PortFormats>>, BackendError> {
        let op = &job.ops[op_index];
        self.asked.borrow_mut().push(op.op_type.clone());
        // It is a function of so many tensors, whether they are given or not.
        assert!(op.inputs.len() == inputs_of(&op.op_type), "{}: {:?}", op.op_type, op.inputs);
        answer(&op.op_type).map(|answer| parse_formats(&op.op_type, &answer)).transpose()
    }
}

fn inputs_of(op_type: &str) -> usize {
    let answer = answer(op_type).map(|answer| parse_formats(op_type, &answer).unwrap());
    answer.unwrap_or_default().iter().filter(|port| !port.is_output).count()
}

/// One port: its name, element types, and formats of which each goes with each type.
type Port<'a> = (&'a str, &'a str, &'a str);

fn answer(op_type: &str) -> Option<String> {
    let numbers = "float16,float,bfloat16,int32,int64";
    let (inputs, outputs): (Vec<Port<'_>>, Vec<Port<'_>>) = match op_type {
        "Conv2D" => (
            vec![
                ("x", HALVES, "NC1HWC0"),
                ("filter", HALVES, "FRACTAL_Z"),
                ("bias", "float16,float,float", "ND"),
                ("offset_w", "int8,int8,int8", "ND"),
            ],
            vec![("y", HALVES, "NC1HWC0")],
        ),
        "Add" | "Mul" | "Sub" | "RealDiv" | "Maximum" | "Minimum" | "Pow" => {
            (vec![("x1", numbers, ANY), ("x2", numbers, ANY)], vec![("y", numbers, ANY)])
        }
        "MatMulV2" | "BatchMatMulV2" => (
            vec![
                ("x1", HALVES, "ND,FRACTAL_NZ"),
                ("x2", HALVES, "ND,FRACTAL_NZ"),
                ("bias", "float16,float,float", "ND,ND"),
                ("offset_w", "int8,int8,int8", "ND,ND"),
            ],
            vec![("y", HALVES, "ND,FRACTAL_NZ")],
        ),
        "SoftmaxV2" => {
            (vec![("x", HALVES, "ND,NC1HWC0,FRACTAL_NZ")], vec![("y", HALVES, "ND,NC1HWC0,FRACTAL_NZ")])
        }
        "LayerNorm" => (
            [("x", HALVES, "ND,NCHW"), ("gamma", HALVES, "ND,NCHW"), ("beta", HALVES, "ND,NCHW")].to_vec(),
            [("y", HALVES, "ND,NCHW"), ("mean", HALVES, "ND,NCHW"), ("variance", HALVES, "ND,NCHW")].to_vec(),
        ),
        "ConcatD" => (vec![("input_values", numbers, ANY)], vec![("output_data", numbers, ANY)]),
        "PadV3" => (
            vec![
                ("x", HALVES, "ND,NCHW,NC1HWC0"),
                ("paddings", "int32,int32,int32", "ND,ND,ND"),
                ("constant_values", HALVES, "ND,ND,ND"),
            ],
            vec![("y", HALVES, "ND,NCHW,NC1HWC0")],
        ),
        _ => return None,
    };
    let field = |side: &str, (number, port): (usize, &Port<'_>)| {
        let (name, dtypes, formats) = port;
        let count = formats.split(',').count();
        let dtypes: Vec<&str> = dtypes.split(',').flat_map(|dtype| vec![dtype; count]).collect();
        let formats = vec![*formats; dtypes.len() / count].join(",");
        let dtypes = dtypes.join(",");
        format!(r#""{side}{number}": {{"name": "{name}", "dtype": "{dtypes}", "format": "{formats}"}}"#)
    };
    let inputs = inputs.iter().enumerate().map(|port| field("input", port));
    let outputs = outputs.iter().enumerate().map(|port| field("output", port));
    Some(format!("{{{}}}", inputs.chain(outputs).collect::<Vec<_>>().join(", ")))
}

/// Whether the tensors of a job are, together, one of the combinations that its operator takes.
pub(crate) fn is_taken(job: &Job, ops: &OpsInfo) -> Result<(), String> {
    let op = &job.ops[0];
    let info = ops.get(&op.op_type).ok_or(format!("there is no {}", op.op_type))?;
    let answer = answer(&op.op_type).filter(|_| info.must_be_asked());
    let answer = answer.map(|text| parse_formats(&op.op_type, &text).unwrap()).unwrap_or_default();
    let asked = |is_output: bool, number: usize| {
        let port = answer.iter().find(|port| (port.is_output, port.number) == (is_output, number));
        port.map(|port| (port.dtypes.clone(), port.formats.clone()))
    };
    let listed = |ports: &[PortInfo], number: usize| {
        ports.get(number).map(|port| (port.dtypes.clone(), port.formats.clone())).unwrap_or_default()
    };
    let mut given: Vec<(Vec<String>, Vec<String>, Tensor)> = Vec::new();
    for (number, arg) in op.inputs.iter().enumerate() {
        let (dtypes, formats) = asked(false, number).unwrap_or_else(|| listed(&info.inputs, number));
        given.extend(arg.iter().map(|input| (dtypes.clone(), formats.clone(), input.tensor.clone())));
    }
    for (number, arg) in op.outputs.iter().enumerate() {
        let (dtypes, formats) = asked(true, number).unwrap_or_else(|| listed(&info.outputs, number));
        given.extend(arg.iter().map(|tensor| (dtypes.clone(), formats.clone(), tensor.clone())));
    }
    let columns = given.iter().map(|(dtypes, ..)| dtypes.len()).max().unwrap_or_default();
    let is_column = |at: usize| {
        given.iter().all(|(dtypes, formats, tensor)| {
            let dtype = dtypes.get(at).map(|dtype| if dtype == "float" { "float32" } else { dtype });
            dtype == Some(&tensor.dtype) && formats.get(at).is_none_or(|format| *format == tensor.format)
        })
    };
    let blocks: Vec<&str> =
        given.iter().map(|(.., tensor)| tensor.format.as_str()).filter(|f| f.contains('0')).collect();
    let agrees = given.iter().any(|(_, formats, _)| !formats.is_empty())
        || blocks.is_empty()
        || blocks.len() == given.iter().filter(|(.., tensor)| tensor.shape != [1]).count();
    if (0..columns).any(is_column) && agrees {
        return Ok(());
    }
    let tensors: Vec<String> = given.iter().map(|(.., t)| format!("{} {}", t.dtype, t.format)).collect();
    Err(format!("{} does not take {tensors:?}", op.op_type))
}

/// The tensors of an operator's inputs.
pub(crate) fn inputs(job: &Job) -> Vec<&Tensor> {
    job.ops[0].inputs.iter().flat_map(Arg::iter).map(|input| &input.tensor).collect()
}
