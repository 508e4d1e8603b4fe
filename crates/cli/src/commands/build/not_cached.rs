//! Kernels that the mode `require` does not compile: each reason once, and the command that explains it.

use std::path::Path;

use opkeep::{BuildReport, KernelError, KernelReport};

use crate::flags::compile::CompileArgs;
use crate::ui::text::{by_reason, counted, quoted_path};

/// The maximum number of kernels that are named for a reason.
const NAMED: usize = 3;
/// The maximum number of inputs in advice.
const MAX_INPUTS: usize = 8;

/// How kernels that are missing in the mode `require` are made.
const BUILD: &str =
    "build where compiling is allowed, with the mode `enable` and the same store or remote cache";

/// Whether a kernel was not built because the mode forbids it.
pub(crate) fn is_not_cached(kernel: &KernelReport) -> bool {
    why(kernel).is_some()
}

fn why(kernel: &KernelReport) -> Option<&str> {
    match kernel.error.as_deref() {
        Some(KernelError::NotCached { why, .. }) => Some(why),
        _ => None,
    }
}

/// Returns a line for each reason: `13 kernels cannot be reused (not in the store), and the mode ... : conv2d_1, relu_2, add_3 and 10
/// more`. With `all`, each kernel is named.
pub(crate) fn lines(report: &BuildReport, all: bool) -> Vec<String> {
    let missing = report.kernels.iter().filter_map(|kernel| Some((why(kernel)?, kernel.name.as_str())));
    let line = |(why, names): (&str, Vec<&str>)| {
        let shown = if all { names.len() } else { NAMED.min(names.len()) };
        let more = match names.len() - shown {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let (kernels, shown) = (counted(names.len(), "kernel"), names[..shown].join(", "));
        format!("{kernels} cannot be reused ({why}), and the mode `require` compiles none: {shown}{more}")
    };
    by_reason(missing).into_iter().map(line).collect()
}

/// Returns what helps if kernels are missing: how they are made, and the command that explains them, unless that was done.
pub(crate) fn help(report: &BuildReport, explanation: Option<String>) -> Vec<String> {
    match report.kernels.iter().any(is_not_cached) {
        true => std::iter::once(BUILD.to_owned()).chain(explanation).collect(),
        false => Vec::new(),
    }
}

/// Returns how `opkeep explain` explains a build of `inputs`.
pub(crate) fn explanation<'a>(
    inputs: impl ExactSizeIterator<Item = &'a Path>,
    common: &CompileArgs,
    has_other_flags: bool,
) -> String {
    let what = "states what differs from what is stored";
    let is_short = inputs.len() <= MAX_INPUTS && !has_other_flags;
    let arguments = || Some((inputs.map(quoted_path).collect::<Vec<_>>(), common.key_flags()?));
    match is_short.then(arguments).flatten() {
        Some((inputs, flags)) => {
            let words = inputs.iter().chain(&flags).map(|word| format!(" {word}"));
            format!("`opkeep explain{}` {what}", words.collect::<String>())
        }
        None => format!("`opkeep explain` with the same inputs, options and remote cache {what}"),
    }
}
