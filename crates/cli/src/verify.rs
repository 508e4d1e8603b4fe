//! `opbuild verify`.

use std::collections::HashSet;

use anyhow::Context;
use opbuild_artifact::Expectations;
use opbuild_validator::{Finding, Report};
use serde_json::{Value, json};

use crate::args::VerifyArgs;
use crate::output::{Output, Verdict, chain, counted, one_line};
use crate::pairs::{Judged, judge};

/// What was judged so far.
#[derive(Default)]
struct Tally {
    text: String,
    files: Vec<Value>,
    valid: usize,
    refused: usize,
    unusable: usize,
}

pub(crate) fn verify(args: &VerifyArgs, output: &Output) -> anyhow::Result<Verdict> {
    let expect = args.target.as_deref().map(named).transpose()?;
    let mut tally = Tally::default();
    let mut seen = HashSet::new();
    for path in &args.files {
        match judge(path, expect.as_ref()) {
            Ok(kernels) => {
                // A pattern such as `*` names both files of a pair.
                let new = |judged: &Judged| seen.insert((judged.file.clone(), judged.object.clone()));
                kernels.into_iter().filter(new).for_each(|judged| tally.add(&judged));
            }
            Err(error) => {
                output.error(&error);
                tally.unusable += 1;
                tally.files.push(json!({ "file": path.to_string_lossy(), "error": chain(&error) }));
            }
        }
    }
    tally.tell(output)
}

fn named(target: &str) -> anyhow::Result<Expectations> {
    Expectations::named(target).with_context(|| {
        format!("the target `{target}` is not known: expected cpu, aicpu, or a chip such as Ascend910B1")
    })
}

impl Tally {
    fn add(&mut self, judged: &Judged) {
        let Judged { file, object, target, report } = judged;
        let valid = report.is_valid();
        let (verdict, count) = match valid {
            true => ("valid", &mut self.valid),
            false => ("refused", &mut self.refused),
        };
        *count += 1;
        let name = |path: &std::path::Path| one_line(&path.to_string_lossy());
        let beside = object.as_ref().map(|object| {
            format!(" and {}", one_line(&object.file_name().unwrap_or_default().to_string_lossy()))
        });
        let beside = beside.unwrap_or_default();
        self.text.push_str(&format!("{verdict:<8} {}{beside} for {}\n", name(file), one_line(target)));
        self.text.push_str(&findings_text(report));
        self.files.push(json!({
            "file": file.to_string_lossy(),
            "object": object.as_ref().map(|object| object.to_string_lossy()),
            "target": target,
            "valid": valid,
            "findings": findings_json(report),
        }));
    }

    fn tell(self, output: &Output) -> anyhow::Result<Verdict> {
        let Self { mut text, files, valid, refused, unusable } = self;
        let checked = valid + refused;
        text.push_str(&format!(
            "{} checked: {valid} valid, {refused} refused; {} unusable\n",
            counted(checked, "kernel"),
            counted(unusable, "file")
        ));
        let json = json!({
            "checked": checked, "valid": valid, "refused": refused, "unusable": unusable, "files": files,
        });
        output.result(&text, &json)?;
        Ok(match (unusable, refused) {
            (1.., _) => Verdict::Unusable,
            (0, 1..) => Verdict::Problems,
            (0, 0) => Verdict::Good,
        })
    }
}

/// A line for each finding.
pub(crate) fn findings_text(report: &Report) -> String {
    let line =
        |finding: &Finding| format!("  {:<8} {}\n", finding.severity(), one_line(&finding.to_string()));
    report.findings.iter().map(line).collect()
}

/// The findings for programs: the code says what it is, the message what was found, the hint what to do.
pub(crate) fn findings_json(report: &Report) -> Value {
    let one = |finding: &Finding| {
        json!({
            "code": finding.code().to_string(),
            "severity": finding.severity().name(),
            "message": finding.message(),
            "hint": finding.rule().remedy,
            "more": finding.more,
        })
    };
    report.findings.iter().map(one).collect()
}
