//! `opbuild targets`.

use std::time::Duration;

use opbuild_backend::Registry;
use opbuild_backend_cpu::CpuBackend;
use serde_json::json;

use crate::env;
use crate::output::{Output, Verdict};
use crate::targets_ascend::ascend;

/// How long a compiler may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn targets(output: &Output) -> anyhow::Result<Verdict> {
    let mut registry = Registry::new();
    let config = env::cpu_config(PATIENCE, &[])?;
    registry.add(CpuBackend::entry(config.clone()));
    let backend = CpuBackend::new(config);
    let compiler = backend.compiler();
    let state = compiler.as_ref().map_or_else(ToString::to_string, Clone::clone);
    let confinement = backend.confinement().ok();
    let operators: Vec<&str> = opbuild_ops::all().iter().map(|row| row.op_type).collect();
    let (mut text, mut json_backends) = (String::new(), Vec::new());
    for entry in registry.entries() {
        text.push_str(&format!("{}: {}\n  backend    {}\n", entry.targets, entry.about, entry.name));
        text.push_str(&format!("  toolchain  {state}\n"));
        if let Some(confinement) = &confinement {
            text.push_str(&format!("  reads      {confinement}\n"));
        }
        let count = operators.len();
        text.push_str(&format!(
            "  operators  {count} (on float32; some on whole numbers and truth values too): {}\n",
            wrapped(&operators)
        ));
        json_backends.push(json!({
            "backend": entry.name,
            "targets": entry.targets.split(", ").collect::<Vec<_>>(),
            "about": entry.about,
            "toolchain": compiler.as_ref().ok(),
            "reads": confinement,
            "problem": compiler.as_ref().err().map(ToString::to_string),
            "operators": operators,
        }));
    }
    let ascend = ascend(&env::ascend_search(None));
    text.push_str(&ascend.text);
    let mut onnx: Vec<&str> =
        opbuild_onnx::operators().filter(|row| row.domain.is_empty()).map(|row| row.op_type).collect();
    onnx.sort_unstable();
    onnx.dedup();
    text.push_str(&format!(
        "onnx: networks of these operators can be built\n  operators  {}: {}\n",
        onnx.len(),
        wrapped(&onnx)
    ));
    let json = json!({ "backends": json_backends, "ascend": ascend.json, "onnx_operators": onnx });
    output.result(&text, &json)?;
    Ok(if compiler.is_ok() && ascend.is_good { Verdict::Good } else { Verdict::Problems })
}

/// Words in lines of about a hundred characters, behind an indent.
fn wrapped(words: &[&str]) -> String {
    let mut text = String::new();
    let mut width = 0;
    for word in words {
        if width == 0 || width + word.len() > 90 {
            text.push_str("\n    ");
            width = 0;
        }
        text.push_str(word);
        text.push(' ');
        width += word.len() + 1;
    }
    text.trim_end().to_owned()
}
