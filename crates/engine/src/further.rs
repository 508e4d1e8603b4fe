//! The further kernels of an artifact: the twin that computes the same each time, and the parts of a mixed kernel of old,
//! whose `.json` only lists theirs. Nothing of them is let in that the first one would not be.

use opkeep_artifact::{Artifact, Expectations, Member};
use opkeep_cann_meta::{KernelMeta, targets};
use opkeep_store::Entry;
use opkeep_validator::{Problem, Report, Validator, expectations_of, parts, validate, validate_json};

use crate::compile::is_of;
use crate::make::{JSON, OBJECT};

/// The files of an artifact.
pub(crate) struct Files<'a> {
    json: &'a [u8],
    object: &'a [u8],
    extra: Vec<(&'a str, &'a [u8])>,
}

impl<'a> Files<'a> {
    pub(crate) fn of(artifact: &'a Artifact) -> Self {
        let extra = artifact.extra.iter().map(|member| (member.name.as_str(), member.bytes.as_slice()));
        Self { json: &artifact.json, object: &artifact.object, extra: extra.collect() }
    }

    /// Those of a stored entry, if it has a kernel.
    pub(crate) fn in_entry(entry: &'a Entry) -> Result<Self, &'static str> {
        let member = |name: &'static str| entry.member(name).ok_or(name);
        let extra = entry.names().filter_map(|name| Some((name.strip_prefix("x/")?, entry.member(name)?)));
        Ok(Self { json: member(JSON)?, object: member(OBJECT)?, extra: extra.collect() })
    }

    pub(crate) fn expectations(&self) -> Expectations {
        expectations_of(Some(self.json), self.object)
    }

    /// Judges all of them; the kernels should go by `name`. The report is the first kernel's, with what is wrong of the
    /// others.
    pub(crate) fn judge(&self, name: Option<&str>, expect: &Expectations, validator: &Validator) -> Report {
        if !targets::is_cann_kernel(expect) {
            return validator.validate(&self.to_artifact(), expect);
        }
        let meta = KernelMeta::parse(self.json).ok();
        let listed = meta.as_ref().and_then(parts);
        let mut report = match &listed {
            Some(_) if self.object.is_empty() => validate_json(self.json, Some(expect)),
            _ => validate(self.json, self.object, expect),
        };
        for part in listed.into_iter().flatten().filter(|part| self.find(part).is_none()) {
            report.add(Problem::Part { part: part.to_owned(), problem: "it is not there".to_owned() });
        }
        for (part, json) in self.extra.iter().filter(|(name, _)| name.ends_with(".json")) {
            if let Err(problem) = self.judge_pair(json, name, expect) {
                report.add(Problem::Part { part: (*part).to_owned(), problem });
            }
        }
        report
    }

    /// A further `.json` with the object that it names.
    fn judge_pair(&self, json: &[u8], kernel: Option<&str>, expect: &Expectations) -> Result<(), String> {
        let meta = KernelMeta::parse(json).map_err(|error| error.to_string())?;
        let stem = meta.bin_file_name.ok_or("it names no object")?;
        let name = format!("{stem}{}", meta.bin_file_suffix.as_deref().unwrap_or(".o"));
        let object = self.find(&name).ok_or_else(|| format!("its object `{name}` is not there"))?;
        let report = validate(json, object, expect);
        if let Some(error) = report.errors().next() {
            return Err(error.to_string());
        }
        let names = report.meta.iter().flat_map(KernelMeta::entry_names);
        match names.into_iter().find(|found| kernel.is_some_and(|kernel| !is_of(found, kernel))) {
            Some(other) => Err(format!("it holds `{other}`, which is another kernel")),
            None => Ok(()),
        }
    }

    fn to_artifact(&self) -> Artifact {
        let member =
            |(name, bytes): &(&str, &[u8])| Member { name: (*name).to_owned(), bytes: bytes.to_vec() };
        let extra = self.extra.iter().map(member).collect();
        Artifact { json: self.json.to_vec(), object: self.object.to_vec(), extra }
    }

    fn find(&self, name: &str) -> Option<&'a [u8]> {
        self.extra.iter().find(|(found, _)| *found == name).map(|(_, bytes)| *bytes)
    }
}
