//! The element types and formats that operators take.

use opkeep_backend::BackendError;
use opkeep_cann_toolkit::{OpInfo, PortInfo};
use opkeep_descriptor::Job;
use serde_json::{Map, Value};

use crate::graph::dtype_compat::spelt;

/// Queries operators for the element types and formats that they take, if the operator information does not list them:
/// each of these operators has a function `op_select_format(*inputs, *outputs, *attrs, kernel_name)` for it.
pub trait Formats {
    /// The types and formats that operator `op_index` of `job` takes; None if it has no such function, or does not
    /// answer. [`parse_formats`] parses the answer.
    ///
    /// # Errors
    /// The operator cannot be queried.
    fn select(&self, job: &Job, op_index: usize) -> Result<Option<Vec<PortFormats>>, BackendError>;
}

/// The types and formats of one input or output. Items at the same position in the lists of all ports form one
/// combination.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortFormats {
    /// Whether it is an output.
    pub is_output: bool,
    /// The index among the inputs or the outputs.
    pub number: usize,
    /// Its name.
    pub name: String,
    /// Element types.
    pub dtypes: Vec<String>,
    /// Formats.
    pub formats: Vec<String>,
    /// Formats for unknown shapes.
    pub unknown_shape_formats: Vec<String>,
}

/// Reads an operator's answer: `{"input0": {"name": "x", "dtype": "float16,float", "format": "NCHW,NCHW"}, ...}`.
///
/// # Errors
/// The answer has another form; the message names the operator and the field.
///
/// ```
/// # use opkeep_backend_ascend::parse_formats;
/// let answer = r#"{"output0": {"name": "y", "dtype": "float16,float", "format": "ND,ND"}}"#;
/// let ports = parse_formats("Add", answer)?;
/// assert_eq!((ports[0].is_output, ports[0].number, ports[0].dtypes[1].as_str()), (true, 0, "float"));
/// # Ok::<(), opkeep_backend::BackendError>(())
/// ```
pub fn parse_formats(op_type: &str, answer: &str) -> Result<Vec<PortFormats>, BackendError> {
    let wrong = |problem: String| BackendError::Toolchain {
        problem: format!("`op_select_format` of `{op_type}` answers what cannot be read: {problem}"),
        help: "install the package that the operator belongs to again".to_owned(),
        tool: None,
    };
    let ports: Map<String, Value> = serde_json::from_str(answer)
        .map_err(|error| wrong(format!("expected an object with a field for each port: {error}")))?;
    let mut found = Vec::with_capacity(ports.len());
    for (field, value) in &ports {
        let (is_output, number) = port_number(field)
            .ok_or_else(|| wrong(format!("`{field}`, expected `input0`, `output0` and so on")))?;
        let port = value.as_object().ok_or_else(|| wrong(format!("`{field}`: expected an object")))?;
        let text = |name: &str| match port.get(name) {
            None | Some(Value::Null) => Ok(""),
            Some(Value::String(text)) => Ok(text.as_str()),
            Some(other) => Err(wrong(format!("`{field}.{name}` is `{other}`, expected a text"))),
        };
        let list = |name: &str| -> Result<Vec<String>, BackendError> {
            let words = text(name)?.split(',').map(str::trim).filter(|word| !word.is_empty());
            Ok(words.map(str::to_owned).collect())
        };
        found.push(PortFormats {
            is_output,
            number,
            name: text("name")?.to_owned(),
            dtypes: list("dtype")?,
            formats: list("format")?,
            unknown_shape_formats: list("unknownshape_format")?,
        });
    }
    opkeep_order::by_key(&mut found, |port| (port.is_output, port.number));
    Ok(found)
}

fn port_number(field: &str) -> Option<(bool, usize)> {
    let (is_output, number) = match field.strip_prefix("input") {
        Some(number) => (false, number),
        None => (true, field.strip_prefix("output")?),
    };
    number.parse().ok().map(|number| (is_output, number))
}

/// The type and format that a tensor at a port must have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Form {
    /// The element type; None for any.
    pub(crate) dtype: Option<String>,
    /// The format; None for any without blocks.
    pub(crate) format: Option<String>,
}

/// A combination of types and formats that an operator takes, by the index of the port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Combination {
    pub(crate) inputs: Vec<Form>,
    pub(crate) outputs: Vec<Form>,
}

/// The combinations that the operator information lists.
pub(crate) fn listed(info: &OpInfo) -> Vec<Combination> {
    fn lists(ports: &[PortInfo]) -> Vec<Lists<'_>> {
        ports.iter().map(|port| (port.dtypes.as_slice(), port.formats.as_slice())).collect()
    }
    columns(&lists(&info.inputs), &lists(&info.outputs))
}

/// The combinations of an answer.
pub(crate) fn answered(ports: &[PortFormats]) -> Vec<Combination> {
    let side = |is_output: bool| {
        let of_side = || ports.iter().filter(move |port| port.is_output == is_output);
        let count = of_side().map(|port| port.number + 1).max().unwrap_or_default();
        let at = |number| of_side().find(|port| port.number == number);
        // A port's number may be huge, and the ports before it missing.
        let count = count.min(ports.len());
        (0..count)
            .map(|number| at(number).map_or((&[][..], &[][..]), |port| (&port.dtypes[..], &port.formats[..])))
            .collect::<Vec<Lists<'_>>>()
    };
    columns(&side(false), &side(true))
}

/// Element types and formats of a port.
type Lists<'a> = (&'a [String], &'a [String]);

fn columns(inputs: &[Lists<'_>], outputs: &[Lists<'_>]) -> Vec<Combination> {
    let all = || inputs.iter().chain(outputs).flat_map(|(dtypes, formats)| [*dtypes, *formats]);
    let count = all().map(<[String]>::len).max().unwrap_or_default();
    let is_whole = |column: usize| all().all(|list| list.is_empty() || column < list.len());
    let forms = |ports: &[Lists<'_>], column: usize| {
        let form = |(dtypes, formats): &Lists<'_>| Form {
            dtype: dtypes.get(column).map(|dtype| spelt(dtype).to_owned()),
            format: formats.get(column).cloned(),
        };
        ports.iter().map(form).collect()
    };
    let column = |column| Combination { inputs: forms(inputs, column), outputs: forms(outputs, column) };
    (0..count).filter(|at| is_whole(*at)).map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONV: &str = r#"{
        "output0": {"name": "y", "dtype": "float16,float", "format": "NC1HWC0,NC1HWC0"},
        "input1": {"name": "filter", "dtype": "float16,float", "format": "FRACTAL_Z,FRACTAL_Z"},
        "input0": {"name": "x", "dtype": "float16, float", "format": "NC1HWC0,NC1HWC0",
                   "unknownshape_format": "NC1HWC0,ND"},
        "input2": {"name": "bias", "dtype": "", "format": null}}"#;

    #[test]
    fn an_answer_is_read_whole_and_its_columns_belong_together() {
        let ports = parse_formats("Conv2D", CONV).unwrap();
        let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
        assert_eq!(names, ["x", "filter", "bias", "y"]);
        assert_eq!(ports[0].unknown_shape_formats, ["NC1HWC0", "ND"]);
        let all = answered(&ports);
        assert_eq!(all.len(), 2);
        let form =
            |dtype: &str, format: &str| Form { dtype: Some(dtype.into()), format: Some(format.into()) };
        assert_eq!(
            all[1].inputs,
            [form("float32", "NC1HWC0"), form("float32", "FRACTAL_Z"), Form::default()]
        );
        assert_eq!(all[0].outputs, [form("float16", "NC1HWC0")]);
        // A column that one of the lists lacks is left out.
        let short = parse_formats("Conv2D", &CONV.replace("FRACTAL_Z,FRACTAL_Z", "FRACTAL_Z")).unwrap();
        assert_eq!(answered(&short), all[..1]);
        assert!(answered(&[]).is_empty());
    }

    #[test]
    fn unreadable_answers_are_reported_with_their_place() {
        for (answer, says) in [
            ("", "expected an object"),
            ("[]", "expected an object"),
            (r#"{"in0": {}}"#, "`in0`, expected `input0`"),
            (r#"{"input": {}}"#, "`input`, expected"),
            (r#"{"input0": "x"}"#, "`input0`: expected an object"),
            (r#"{"input0": {"dtype": ["float"]}}"#, "`input0.dtype` is `[\"float\"]`"),
        ] {
            let error = parse_formats("Conv2D", answer).unwrap_err().to_string();
            assert!(error.contains(says) && error.contains("Conv2D") && error.contains("again"), "{error}");
        }
        let far = parse_formats("Add", r#"{"input4000000000": {"name": "x", "dtype": "float"}}"#).unwrap();
        assert!(answered(&far).iter().all(|combination| combination.inputs.len() <= 1));
    }
}
