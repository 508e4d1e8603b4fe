//! `opkeep targets`: lists the targets, their toolchains and their operators.

pub(crate) mod ascend;

use std::time::Duration;

use opkeep_backend::Registry;
use opkeep_backend_cpu::CpuBackend;
use serde::Serialize;

use crate::config::Settings;
use crate::setup::{ascend_config, cpu_config};
use crate::ui::help::{DEFAULT_WIDTH, wrapped};
use crate::ui::output::{ExitStatus, Output};
use crate::ui::text::Text;
use crate::ui::wrap::{headed, terminal_width};
use ascend::{AscendOutput, ascend};

/// The details of targets.
const DETAILS: &str = "\
Exit code 0: the C compiler works, and CANN works or is not installed; 1: the C compiler is missing, or
CANN is incomplete, or not where a variable or a setting says. The report states what is missing.

Examples:
  ASCEND_HOME_PATH=/usr/local/Ascend/latest opkeep targets
    reports what a toolkit has";

/// List the targets, their toolchains and their operators
#[derive(Debug, clap::Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct Args {
    #[command(flatten)]
    config: Settings,
}

/// The result as JSON.
#[derive(Serialize)]
struct TargetsOutput<'a> {
    backends: Vec<BackendOutput<'a>>,
    ascend: AscendOutput,
    onnx_operators: Vec<&'a str>,
}

#[derive(Serialize)]
struct BackendOutput<'a> {
    backend: &'a str,
    targets: Vec<&'a str>,
    about: String,
    toolchain: Option<String>,
    reads: Option<String>,
    problem: Option<String>,
    operators: Vec<&'a str>,
}

/// The indentation of lists of operators.
const INDENT: &str = "    ";

/// The time limit of a query to a compiler.
const TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitStatus> {
    let mut registry = Registry::new();
    let config = cpu_config(&args.config, TIMEOUT)?;
    registry.add(CpuBackend::entry(config.clone()));
    let backend = CpuBackend::new(config);
    let compiler = backend.compiler();
    let state = compiler.as_ref().map_or_else(ToString::to_string, Clone::clone);
    let confinement = backend.confinement().ok();
    let operators: Vec<&str> = opkeep_ops::all().iter().map(|row| row.op_type).collect();
    let (mut text, mut backends) = (Text::default(), Vec::new());
    for entry in registry.entries() {
        text.append(&headed(&format!("{}: ", entry.targets), &entry.about));
        text.line(format_args!("  backend    {}", entry.name));
        text.append(&headed("  toolchain  ", &state));
        if let Some(confinement) = &confinement {
            text.append(&headed("  reads      ", confinement));
        }
        let count = operators.len();
        text.append(&headed(
            "  operators  ",
            format_args!("{count} (on float32; some on whole numbers and truth values too):"),
        ));
        add_words(&mut text, &operators);
        backends.push(BackendOutput {
            backend: entry.name,
            targets: entry.targets.split(", ").collect(),
            about: entry.about.clone(),
            toolchain: compiler.as_ref().ok().cloned(),
            reads: confinement.clone(),
            problem: compiler.as_ref().err().map(ToString::to_string),
            operators: operators.clone(),
        });
    }
    let ascend = ascend(&ascend_config(&args.config)?);
    text.append(&ascend.text);
    let mut onnx: Vec<&str> =
        opkeep_onnx::operators().filter(|row| row.domain.is_empty()).map(|row| row.op_type).collect();
    opkeep_order::sort(&mut onnx);
    onnx.dedup();
    text.line("onnx: networks of these operators can be built");
    text.line(format_args!("  operators  {}:", onnx.len()));
    add_words(&mut text, &onnx);
    let json = TargetsOutput { backends, ascend: ascend.output, onnx_operators: onnx };
    output.print_result(&text, &json)?;
    Ok(if compiler.is_ok() && ascend.is_ok { ExitStatus::Success } else { ExitStatus::Problems })
}

/// Adds words in indented lines.
fn add_words(text: &mut Text, words: &[&str]) {
    let width = terminal_width().unwrap_or(DEFAULT_WIDTH) - INDENT.len();
    for line in wrapped(&words.join(" "), width, width) {
        text.line(format_args!("{INDENT}{line}"));
    }
}
