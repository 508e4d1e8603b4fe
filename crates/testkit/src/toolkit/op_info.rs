//! The operator information: `aic-<short SoC>-ops-info.json`.

use serde_json::{Map, Value, json};

use super::ops::{Forms, Op, Source};
use super::platform::Soc;
use super::port::Port;

/// The file for a chip, with these operators.
pub(super) fn file<'a>(ops: impl IntoIterator<Item = &'a Op>, soc: &Soc) -> String {
    let is_there = |op: &&Op| soc.has_ascend_c() || !matches!(op.source, Source::AscendC | Source::Mix(..));
    let entries: Map<String, Value> = ops
        .into_iter()
        .filter(is_there)
        .map(|op| (op.op_type.to_owned(), Value::Object(entry(op, soc))))
        .collect();
    // The vendor's files have no space behind a colon.
    serde_json::to_string_pretty(&entries).unwrap_or_default().replace("\": ", "\":")
}

fn entry(op: &Op, soc: &Soc) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut set = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    let attrs = op.attrs();
    if !attrs.is_empty() {
        let names: Vec<&str> = attrs.iter().map(|attr| attr.name).collect();
        set("attr", json!({"list": names.join(",")}));
    }
    for attr in attrs {
        let kind = if attr.default.is_some() { "optional" } else { "required" };
        let mut value = json!({"paramType": kind, "type": attr.kind, "value": "all"});
        if let Some(default) = attr.default {
            value["defaultValue"] = json!(default);
        }
        set(&format!("attr_{}", attr.name), value);
    }
    if let Some(core) = op.core {
        set("coreType", json!({"value": core}));
    }
    if let Some(file) = op.file {
        set("opFile", json!({"value": file}));
        set("opInterface", json!({"value": file}));
    }
    match op.source {
        Source::Null => {}
        Source::Apart => drop(set("dynamicShapeSupport", json!({"flag": "true"}))),
        Source::Both | Source::AscendC | Source::Mix(..) => {
            for name in ["dynamicCompileStatic", "dynamicRankSupport", "dynamicShapeSupport"] {
                set(name, json!({"flag": "true"}));
            }
        }
    }
    match op.forms {
        Forms::Listed => {}
        Forms::Asked => drop(set("dynamicFormat", json!({"flag": "true"}))),
        Forms::Pattern(pattern) => drop(set("op", json!({"pattern": pattern}))),
    }
    let ports = op.ports();
    let columns = columns(ports.iter().flatten(), soc);
    for (side, ports) in ["input", "output"].into_iter().zip(&ports) {
        for (at, port) in ports.iter().enumerate() {
            set(&format!("{side}{at}"), described(port, op, &columns));
        }
    }
    fields
}

/// The columns that the chip computes.
fn columns<'a>(ports: impl Iterator<Item = &'a Port>, soc: &Soc) -> Vec<usize> {
    let ports: Vec<&Port> = ports.collect();
    let all = ports.first().map_or(0, |port| port.dtypes.len());
    let computes = |column: &usize| {
        soc.has_bfloat16() || ports.iter().all(|port| port.dtypes.get(*column) != Some(&"bfloat16"))
    };
    (0..all).filter(computes).collect()
}

fn described(port: &Port, op: &Op, columns: &[usize]) -> Value {
    let mut fields = json!({"name": port.name, "paramType": port.kind, "shape": "all"});
    let of = |list: &[&str]| -> String {
        columns.iter().filter_map(|column| list.get(*column).copied()).collect::<Vec<_>>().join(",")
    };
    if op.forms != Forms::Asked {
        fields["dtype"] = json!(of(&port.dtypes));
    }
    if op.forms == Forms::Listed {
        fields["format"] = json!(of(&port.formats));
        fields["unknownshape_format"] = json!(of(&port.formats));
    }
    fields
}
