//! The files of a kernel, validated together.
//!
//! In addition to its primary pair, an artifact may hold extra files: the deterministic variant of the kernel, and the
//! parts of a multi-part kernel, whose own `.json` lists the `.json` files of the parts. The rules of the primary pair
//! apply to extra files.

use opkeep_artifact::{Artifact, Expectations, Member};
use opkeep_cann_meta::{KernelMeta, targets};
use opkeep_descriptor::KernelName;
use opkeep_digest::Digest;
use opkeep_store::Entry;
use opkeep_validator::{
    DescriptionProblem, Problem, Report, Validator, expectations_of, sub_kernel_files, validate,
    validate_json,
};

use crate::group::GroupRecord;
use crate::member::{EXTRA_PREFIX, JSON, OBJECT};

/// The files of a kernel, borrowed from an artifact or from an entry.
#[derive(Clone, Debug)]
pub struct KernelBundle<'a> {
    json: &'a [u8],
    object: &'a [u8],
    extra: Vec<(&'a str, &'a [u8])>,
}

impl<'a> KernelBundle<'a> {
    /// The files of an artifact.
    pub fn of(artifact: &'a Artifact) -> Self {
        let extra = artifact.extra.iter().map(|member| (member.name.as_str(), member.bytes.as_slice()));
        Self { json: &artifact.metadata, object: &artifact.object, extra: extra.collect() }
    }

    /// The files of the kernel in an entry.
    ///
    /// # Errors
    /// The name of a missing member: the entry has no kernel of a job.
    pub fn of_entry(entry: &'a Entry) -> Result<Self, &'static str> {
        let member = |name: &'static str| kernel_member(entry, name).ok_or(name);
        let extra =
            entry.names().filter_map(|name| Some((name.strip_prefix(EXTRA_PREFIX)?, entry.member(name)?)));
        Ok(Self { json: member(JSON)?, object: member(OBJECT)?, extra: extra.collect() })
    }

    /// The kernel's `.json`.
    pub fn json(&self) -> &'a [u8] {
        self.json
    }

    /// The kernel's object.
    pub fn object(&self) -> &'a [u8] {
        self.object
    }

    /// The names and the bytes of the extra files.
    pub fn extra(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        self.extra.iter().copied()
    }

    /// The name of the kernel's files without a suffix, as its `.json` states it.
    pub fn file_stem(&self) -> Option<String> {
        KernelMeta::parse(self.json).ok()?.bin_file_name
    }

    /// The expectations that the bytes alone determine.
    pub fn expectations(&self) -> Expectations {
        expectations_of(Some(self.json), self.object)
    }

    /// Validates all files. Kernels in extra files must be named `name`, if given. The report is that of the primary
    /// pair, with the problems of the extra files added.
    pub fn validate(&self, name: Option<&str>, expect: &Expectations, validator: &Validator) -> Report {
        if !targets::is_cann_kernel(expect) {
            return validator.validate(&self.to_artifact(), expect);
        }
        let meta = KernelMeta::parse(self.json).ok();
        let listed = meta.as_ref().and_then(sub_kernel_files);
        let mut report = match &listed {
            Some(_) if self.object.is_empty() => validate_json(self.json, Some(expect)),
            _ => validate(self.json, self.object, expect),
        };
        for part in listed.into_iter().flatten().filter(|part| self.find(part).is_none()) {
            report.add(Problem::Description(DescriptionProblem::Part {
                part: part.to_owned(),
                problem: "it is missing".to_owned(),
            }));
        }
        for (part, json) in self.extra.iter().filter(|(name, _)| name.ends_with(".json")) {
            if let Err(problem) = self.validate_pair(json, name, expect) {
                report.add(Problem::Description(DescriptionProblem::Part {
                    part: (*part).to_owned(),
                    problem,
                }));
            }
        }
        report
    }

    /// Validates an extra `.json` and the object that it names.
    fn validate_pair(&self, json: &[u8], kernel: Option<&str>, expect: &Expectations) -> Result<(), String> {
        let meta = KernelMeta::parse(json).map_err(|error| error.to_string())?;
        let stem = meta.bin_file_name.ok_or("it names no object")?;
        let name = format!("{stem}{}", meta.bin_file_suffix.as_deref().unwrap_or(".o"));
        let object = self.find(&name).ok_or_else(|| format!("its object `{name}` is missing"))?;
        let report = validate(json, object, expect);
        if let Some(error) = report.errors().next() {
            return Err(error.to_string());
        }
        match report
            .entry_names()
            .into_iter()
            .find(|found| kernel.is_some_and(|kernel| !KernelName::owns(kernel, found)))
        {
            Some(other) => Err(format!("it holds `{other}`, which is another kernel")),
            None => Ok(()),
        }
    }

    fn to_artifact(&self) -> Artifact {
        let member =
            |(name, bytes): &(&str, &[u8])| Member { name: (*name).to_owned(), bytes: bytes.to_vec() };
        let extra = self.extra.iter().map(member).collect();
        Artifact { metadata: self.json.to_vec(), object: self.object.to_vec(), extra }
    }

    fn find(&self, name: &str) -> Option<&'a [u8]> {
        self.extra.iter().find(|(found, _)| *found == name).map(|(_, bytes)| *bytes)
    }
}

/// The files of the kernel in an entry, copied, with the digests of the primary pair.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KernelFiles {
    /// The files.
    pub artifact: Artifact,
    /// The digest of the object.
    pub object_digest: Digest,
    /// The digest of the `.json`.
    pub json_digest: Digest,
}

/// A member of the kernel in an entry. The files of a group are the kernel of no job, whatever else the entry holds.
fn kernel_member<'a>(entry: &'a Entry, name: &str) -> Option<&'a [u8]> {
    entry.member(name).filter(|_| !GroupRecord::is_in(entry))
}

/// Copies the kernel from an entry. The store has checked the digests.
///
/// # Errors
/// The name of a missing member: the entry has no kernel of a job.
pub fn artifact(entry: &Entry) -> Result<KernelFiles, &'static str> {
    let member = |name: &'static str| match (kernel_member(entry, name), entry.member_digest(name)) {
        (Some(bytes), Some(digest)) => Ok((bytes.to_vec(), *digest)),
        _ => Err(name),
    };
    let ((json, json_digest), (object, object_digest)) = (member(JSON)?, member(OBJECT)?);
    let extra = entry.names().filter_map(|name| {
        let file = name.strip_prefix(EXTRA_PREFIX)?;
        Some(Member { name: file.to_owned(), bytes: entry.member(name)?.to_vec() })
    });
    let extra = extra.collect();
    Ok(KernelFiles { artifact: Artifact { metadata: json, object, extra }, object_digest, json_digest })
}
