//! The Python modules of operators.

use super::ops::{Forms, Op, Source};
use super::port::{Attr, Port};
use super::python::{ASCEND_C, OPERATOR};

/// The module of an operator; the one for shapes that are not known is `dynamic`.
pub(super) fn text(op: &Op, dynamic: bool) -> String {
    let function = op.function();
    let [inputs, outputs] = op.ports();
    let ports = [inputs.as_slice(), &outputs].concat();
    let attrs = op.attrs();
    let names: Vec<&str> = ports.iter().map(|port| port.name).collect();
    let mut names = names.iter().copied().map(str::to_owned).collect::<Vec<_>>();
    distinguish(&mut names, inputs.len());
    let template = if matches!(op.source, Source::AscendC | Source::Mix(..)) { ASCEND_C } else { OPERATOR };
    let kind = if dynamic { "for shapes that are not known, too" } else { "for shapes that are known" };
    let imports = match (op.imports, dynamic) {
        ("", _) => String::new(),
        // The static modules of some packages have no such neighbour.
        (imports, false) if imports.starts_with("from .") => {
            imports.replacen("from .", "from impl.dynamic.", 1)
        }
        (imports, _) => imports.to_owned(),
    };
    let fill = [
        ("@DOC@", format!("{}, {kind}.", op.op_type)),
        ("@IMPORTS@", imports),
        ("@PORTS@", ports.iter().map(row).collect::<Vec<_>>().join("\n")),
        (
            "@SELECT@",
            if op.forms == Forms::Asked { select(&names, &inputs, &outputs, &attrs) } else { String::new() },
        ),
        ("@TYPE@", op.op_type.to_owned()),
        ("@KINDS@", kinds(&inputs, &outputs, attrs.len())),
        ("@PARAMS@", parameters(&names, &attrs)),
        ("@MODE@", if op.modes { ", impl_mode=\"high_performance\"".to_owned() } else { String::new() }),
        ("@TENSORS@", names.join(", ")),
        ("@INSTRUCTION@", op.instruction.to_owned()),
        ("@INPUTS@", inputs.len().to_string()),
        ("@OUTPUTS@", outputs.len().to_string()),
        ("@ATTRS@", attrs.iter().map(|attr| format!(", {0}={0}", attr.name)).collect()),
        ("@DETERMINISTIC@", python_bool(op.deterministic)),
        ("@MIX@", mix(op.source)),
        ("@UP@", if dynamic { "../" } else { "" }.to_owned()),
        ("@FILE@", function.clone()),
        ("@FUNCTION@", function),
    ];
    fill.iter().fold(template.to_owned(), |text, (mark, value)| text.replace(mark, value))
}

/// An output may be called as an input is, and a variable may not.
fn distinguish(names: &mut [String], inputs: usize) {
    let (before, after) = names.split_at_mut(inputs);
    for name in after {
        if before.contains(name) {
            name.push_str("_out");
        }
    }
}

fn row(port: &Port) -> String {
    format!("    (\"{}\", \"{}\", \"{}\"),", port.name, port.dtypes.join(","), port.formats.join(","))
}

fn kinds(inputs: &[Port], outputs: &[Port], attrs: usize) -> String {
    let word = |port: &Port| match port.kind {
        "optional" => "OPTION",
        "dynamic" => "DYNAMIC",
        _ => "REQUIRED",
    };
    let inputs = inputs.iter().map(|port| format!("para_check.{}_INPUT", word(port)));
    let outputs = outputs.iter().map(|port| format!("para_check.{}_OUTPUT", word(port)));
    let attrs = std::iter::repeat_n("para_check.ATTR".to_owned(), attrs);
    inputs.chain(outputs).chain(attrs).collect::<Vec<_>>().join(", ")
}

/// Tensors, then attributes: those that all behind them have a default, have theirs.
fn parameters(names: &[String], attrs: &[Attr]) -> String {
    let last_required = attrs.iter().rposition(|attr| attr.default.is_none());
    let attrs = attrs.iter().enumerate().map(|(at, attr)| match attr.default {
        Some(default) if last_required.is_none_or(|last| at > last) => {
            format!("{}={}", attr.name, literal(attr.kind, default))
        }
        _ => attr.name.to_owned(),
    });
    names.iter().cloned().chain(attrs).collect::<Vec<_>>().join(", ")
}

fn literal(kind: &str, default: &str) -> String {
    match kind {
        "bool" => python_bool(default == "true"),
        "str" => format!("\"{default}\""),
        // A list that could be changed is no default.
        kind if kind.starts_with("list") => {
            format!("({},)", default.trim_matches(['[', ']']).replace(',', ", "))
        }
        _ => default.to_owned(),
    }
}

fn python_bool(value: bool) -> String {
    if value { "True" } else { "False" }.to_owned()
}

fn mix(source: Source) -> String {
    match source {
        Source::Mix(cube, vector) => format!("({cube}, {vector})"),
        _ => "None".to_owned(),
    }
}

/// The function that is asked for element types and formats.
fn select(names: &[String], inputs: &[Port], outputs: &[Port], attrs: &[Attr]) -> String {
    let classes = (0..inputs.len())
        .map(|at| format!("input{at}"))
        .chain((0..outputs.len()).map(|at| format!("output{at}")));
    let ports = inputs.iter().chain(outputs).zip(classes);
    let rows: Vec<String> = ports
        .map(|(port, class)| {
            let (dtypes, formats) = (port.dtypes.join(","), port.formats.join(","));
            format!(
                "        gen_param(\"{class}\", \"{}\", \"{dtypes}\",\n                  \"{formats}\"),",
                port.name
            )
        })
        .collect();
    format!(
        "\n\ndef op_select_format({}, kernel_name=\"\"):\n    \"\"\"Which element types and formats there are.\"\"\"\n    \
         from impl.util.util_select_op_base import gen_param, get_dynamic_param_in_json\n    \
         return get_dynamic_param_in_json([\n{}\n    ])\n",
        parameters(names, attrs),
        rows.join("\n")
    )
}
