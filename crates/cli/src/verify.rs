//! `opbuild verify`.

use std::collections::HashSet;
use std::path::Path;

use anyhow::Context;
use opbuild_artifact::Expectations;
use opbuild_validator::{Code, Finding, Report};
use serde_json::{Value, json};

use crate::args::VerifyArgs;
use crate::input::{self, Found};
use crate::output::{Output, Verdict, chain, counted, one_line};
use crate::pairs::{Judged, Looked, is_kernel_file, judge};

/// What was judged so far.
#[derive(Default)]
struct Tally {
    text: String,
    files: Vec<Value>,
    valid: usize,
    refused: usize,
    unusable: usize,
    /// Files that are no kernel's, and why not.
    others: Vec<String>,
    /// Remarks about MindSpore 2.0, which nearly every kernel of today gets.
    remarks: usize,
}

pub(crate) fn verify(args: &VerifyArgs, output: &Output) -> anyhow::Result<Verdict> {
    let expect = args.target.as_deref().map(named).transpose()?;
    let mut tally = Tally::default();
    let Found { mut files, unreadable } = input::files(&args.files, "kernel", is_kernel_file);
    unreadable.iter().for_each(|(path, error)| tally.fail(path, error, output));
    // A pattern such as `*` names both files of a pair, and the `.json` knows which those are.
    files.sort_by_key(|path| path.extension().is_none_or(|extension| extension != "json"));
    let (mut seen, mut objects) = (HashSet::new(), HashSet::new());
    for path in &files {
        if objects.contains(path) {
            continue;
        }
        match judge(path, expect.as_ref()) {
            Ok(Looked::Kernels(kernels)) => {
                let new = |judged: &Judged| seen.insert((judged.file.clone(), judged.object.clone()));
                for judged in kernels.into_iter().filter(new) {
                    objects.extend(judged.object.clone());
                    tally.add(&judged);
                }
            }
            Ok(Looked::Other(why)) => tally.others.push(why),
            Err(error) => tally.fail(path, &error, output),
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
    fn fail(&mut self, path: &Path, error: &anyhow::Error, output: &Output) {
        output.error(error);
        self.unusable += 1;
        self.files.push(json!({ "file": path.to_string_lossy(), "error": chain(error) }));
    }

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
        let remark = |finding: &&Finding| finding.code() == Code::MINDSPORE_LINT;
        self.remarks += report.findings.iter().filter(remark).count();
        self.text.extend(report.findings.iter().filter(|finding| !remark(finding)).map(line));
        self.files.push(json!({
            "file": file.to_string_lossy(),
            "object": object.as_ref().map(|object| object.to_string_lossy()),
            "target": target,
            "valid": valid,
            "findings": findings_json(report),
        }));
    }

    fn tell(self, output: &Output) -> anyhow::Result<Verdict> {
        let Self { mut text, files, valid, refused, unusable, others, remarks } = self;
        let checked = valid + refused;
        // Folders hold other files too; but somebody who named nothing else wants to know.
        if checked == 0 {
            others.iter().for_each(|why| output.error(&anyhow::anyhow!("{}", one_line(why))));
        }
        let passed_over = match others.len() {
            0 => String::new(),
            number => format!(", {} of other kinds passed over", counted(number, "file")),
        };
        text.push_str(&format!(
            "{} checked: {valid} valid, {refused} refused; {} unusable{passed_over}\n",
            counted(checked, "kernel"),
            counted(unusable, "file")
        ));
        if remarks > 0 {
            text.push_str(&format!(
                "{} on how MindSpore 2.0 reads them; inspect tells\n",
                counted(remarks, "note")
            ));
        }
        let json = json!({
            "checked": checked, "valid": valid, "refused": refused, "unusable": unusable,
            "passed_over": others, "files": files,
        });
        output.result(&text, &json)?;
        Ok(match (unusable, refused, checked) {
            (1.., ..) | (0, 0, 0) => Verdict::Unusable,
            (0, 1.., _) => Verdict::Problems,
            (0, 0, 1..) => Verdict::Good,
        })
    }
}

/// A line for each finding.
pub(crate) fn findings_text(report: &Report) -> String {
    report.findings.iter().map(line).collect()
}

fn line(finding: &Finding) -> String {
    format!("  {:<8} {}\n", finding.severity(), one_line(&finding.to_string()))
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
