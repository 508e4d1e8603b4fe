//! Kernels that somebody else compiled: what is said of them in the store, and how they are taken from there.
//!
//! An entry with an imported kernel has a member that none of ours has, and its key is in a domain of its own
//! ([`import_key`]). Whoever looks under a key of one kind takes nothing of the other kind.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opkeep_artifact::Artifact;
use opkeep_descriptor::{IMPORT_SCHEMA, Key, ResolvedSpec, import_key, read_info};
use opkeep_digest::Digest;
use opkeep_store::{Entry, Lookup, Miss, TargetStore};
use serde_json::{Value, json};

use crate::event::Event;
use crate::further::Files;
use crate::header;
use crate::make::{HEADER, INFO, JSON, KernelPipeline, MissReason, OBJECT, ReadyKernel};
use crate::plan::PlannedKernel;
use crate::report::KernelReport;
use crate::warnings::WarningKind;
use crate::{EntryError, Outcome};

/// The member that says where a kernel came from.
pub(crate) const IMPORTED: &str = "imported";
/// What the header of such an entry calls it.
pub(crate) const PROVENANCE: &str = "imported";

/// Where an imported kernel came from, and what little is known of its making.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Provenance {
    /// The folder it was in.
    pub folder: String,
    /// What it was called there.
    pub name: String,
    /// Which releases of which framework had it compiled.
    pub framework: String,
    /// What its descriptor says of the toolchain; mostly nothing.
    pub said: BTreeMap<String, String>,
    /// Whether its descriptor says with which options it was compiled.
    pub has_options: bool,
    /// When it was imported.
    pub at: SystemTime,
}

impl Provenance {
    pub(crate) fn render(&self) -> Value {
        let Self { folder, name, framework, said, has_options, at } = self;
        let at = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        json!({
            "folder": folder, "name": name, "framework": framework, "said": said,
            "has_options": has_options, "at": at,
        })
    }

    /// What an entry says; none if it is of another kind.
    pub fn of(entry: &Entry) -> Option<Self> {
        let json: Value = serde_json::from_slice(entry.member(IMPORTED)?).ok()?;
        let text = |name: &str| json[name].as_str().map(str::to_owned);
        let said = json["said"].as_object()?.iter();
        Some(Self {
            folder: text("folder")?,
            name: text("name")?,
            framework: text("framework")?,
            said: said
                .map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
                .collect::<Option<_>>()?,
            has_options: json["has_options"].as_bool()?,
            at: UNIX_EPOCH.checked_add(Duration::from_secs(json["at"].as_u64()?))?,
        })
    }

    /// Whether one of the same job was compiled since, at `at` by the dates of its files. A date that is still to come is of
    /// a clock that is wrong, and says nothing.
    pub(crate) fn is_older(&self, at: SystemTime) -> bool {
        // Whole seconds are kept of the other time.
        let since = self.at.checked_add(Duration::from_secs(1));
        since.is_some_and(|since| at > since) && at <= SystemTime::now()
    }

    /// What is not known of its making, in words.
    pub fn unknown(&self) -> &'static str {
        match self.has_options {
            true => "by which toolchain and from which sources is not known",
            false => "by which toolchain, from which sources and with which options is not known",
        }
    }

    /// What it says of its toolchain that `wanted` says otherwise.
    fn contradicts(&self, wanted: &BTreeMap<String, String>) -> Option<String> {
        let mut said = self.said.iter();
        said.find_map(|(name, value)| {
            let wanted = wanted.get(name).filter(|wanted| *wanted != value)?;
            Some(format!("an imported kernel is of `{name}` {value}, and {wanted} is asked for"))
        })
    }
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { folder, name, framework, said, .. } = self;
        write!(f, "imported from `{folder}` ({name}, of {framework}")?;
        said.iter().try_for_each(|(name, value)| write!(f, ", {name} {value}"))?;
        write!(f, "); {}", self.unknown())
    }
}

/// What is looked for among imported kernels.
pub(crate) struct ImportQuery {
    pub(crate) key: Key,
    said: BTreeMap<String, String>,
}

impl ImportQuery {
    pub(crate) fn new(job: &Digest, spec: &ResolvedSpec) -> Self {
        Self { key: import_key(job, spec), said: spec.clone().split_unkeyed_options() }
    }

    /// Whether an entry under the key will do.
    pub(crate) fn check(&self, entry: &Entry) -> Result<Provenance, String> {
        let imported = Provenance::of(entry).ok_or("what is there is no imported kernel")?;
        match imported.contradicts(&self.said) {
            Some(other) => Err(other),
            None => Ok(imported),
        }
    }
}

/// An imported kernel that will do. None if there is none; an error if there is one that will not, and why.
pub(crate) fn peek(shelf: &TargetStore, wanted: &ImportQuery) -> Option<Result<Provenance, String>> {
    match shelf.peek(wanted.key.digest()) {
        Lookup::Hit(entry) => Some(wanted.check(&entry)),
        Lookup::Miss(Miss::Absent) => None,
        Lookup::Miss(miss) => Some(Err(format!("an imported kernel cannot be used: {miss}"))),
    }
}

impl KernelPipeline<'_> {
    /// The imported kernel for what is missing, if that may be taken.
    pub(crate) fn look_up_imported(
        &self,
        planned: &PlannedKernel<'_>,
        mut missing: MissReason,
    ) -> Result<KernelReport, MissReason> {
        let found = planned.wanted().filter(|(_, spec)| self.builder.trust_imported && !spec.debug);
        let Some((job, spec)) = found.filter(|_| self.builder.mode.reads()) else { return Err(missing) };
        let Some(shelf) = self.shelf_of(&spec.target) else { return Err(missing) };
        let wanted = ImportQuery::new(job, spec);
        let mut taken = None;
        let found = shelf.get_if(wanted.key.digest(), |entry| {
            taken.insert(self.take_imported(shelf, &wanted, spec, entry)).is_ok()
        });
        let why = match found {
            Lookup::Hit(entry) => {
                match taken.unwrap_or_else(|| self.take_imported(shelf, &wanted, spec, &entry)) {
                    Ok(made) => {
                        self.builder.tell(Event::Hit { kernel: planned.name(), artifact: &made.artifact });
                        let key = Some(planned.keyed().map_or(wanted.key, |keyed| keyed.key));
                        return Ok(KernelReport { key, ..KernelReport::new(planned, Ok(made)) });
                    }
                    Err(why) => why,
                }
            }
            Lookup::Miss(Miss::Absent) => return Err(missing),
            Lookup::Miss(miss) => {
                let path = shelf.path(wanted.key.digest());
                let text = format!(
                    "an imported kernel cannot be used: `{}`: {miss}; `opkeep repair` sets aside \
                    what is damaged, and it can be imported again",
                    path.display()
                );
                self.shop.warnings.tell(WarningKind::Reading, &text);
                format!("an imported kernel cannot be used: {miss}")
            }
        };
        missing.reason = format!("{}; {why}", missing.reason);
        Err(missing)
    }

    fn take_imported(
        &self,
        shelf: &TargetStore,
        wanted: &ImportQuery,
        spec: &ResolvedSpec,
        entry: &Entry,
    ) -> Result<ReadyKernel, String> {
        let imported = wanted.check(entry)?;
        let (artifact, digests) =
            artifact(entry).map_err(|member| format!("an imported kernel has no `{member}`"))?;
        let expected = self.expected(spec);
        if !expected.covers(entry) {
            let validator = &self.shop.judging.validator;
            let report = Files::of(&artifact).judge(None, &expected.expectations, validator);
            if let Some(error) = report.errors().next() {
                return Err(format!("an imported kernel is not valid: {error}"));
            }
            if self.shop.shelves.keep_in(shelf) {
                let _ = expected.record(shelf, entry);
            }
        }
        Ok(ReadyKernel {
            artifact: Arc::new(artifact),
            digests,
            outcome: Outcome::Reused,
            reason: Some(imported.to_string()),
            compile_time: None,
            imported: Some(imported),
        })
    }
}

/// What a hit returns, and the digests of object and `.json`.
pub(crate) fn artifact(entry: &Entry) -> Result<(Artifact, (Digest, Digest)), &'static str> {
    let member = |name: &'static str| match (entry.member(name), entry.member_digest(name)) {
        (Some(bytes), Some(digest)) => Ok((bytes.to_vec(), *digest)),
        _ => Err(name),
    };
    let ((json, json_digest), (object, object_digest)) = (member(JSON)?, member(OBJECT)?);
    Ok((Artifact { json, object, extra: header::extra_members(entry) }, (object_digest, json_digest)))
}

/// What the header of an imported kernel's entry says. By what it was compiled and from what is left unsaid.
pub(crate) fn render(
    key: &Key,
    job: &Digest,
    op_type: &str,
    spec: &ResolvedSpec,
    imported: &Provenance,
    stamp: u32,
) -> String {
    let header = json!({
        "name": imported.name,
        "key": key.to_string(),
        "import_schema": IMPORT_SCHEMA,
        "op_type": op_type,
        "target": spec.target,
        "options": spec.options,
        "backend": null,
        "parts": {
            "job": job.to_string(),
            "spec": spec.digest().to_string(),
            "toolchain": null,
            "op_sources": null,
        },
        "compile_us": null,
        "validated_by_rules": stamp,
        "made_by": concat!("opkeep ", env!("CARGO_PKG_VERSION")),
        "provenance": PROVENANCE,
        "imported": imported.render(),
    });
    header.to_string()
}

/// Whether an entry that says it is imported stands under the key of what it says.
pub(crate) fn judge_entry(entry: &Entry, target: &str) -> Result<(), EntryError> {
    let missing = |member| EntryError::Incomplete { member };
    let lazy = |name: &'static str| entry.lazy_member(name).ok().flatten().ok_or(missing(name));
    Provenance::of(entry).ok_or(missing(IMPORTED))?;
    let header: Value = serde_json::from_slice(lazy(HEADER)?).map_err(|_| missing(HEADER))?;
    let key = Key::from(*entry.key());
    let said = |name: &str| header[name].as_str().unwrap_or_default();
    for (what, expected) in
        [("key", key.to_string().as_str()), ("target", target), ("provenance", PROVENANCE)]
    {
        if said(what) != expected {
            let (expected, found) = (expected.to_owned(), said(what).to_owned());
            return Err(EntryError::HeaderMismatch { what, expected, found });
        }
    }
    if header["import_schema"].as_u64() != Some(IMPORT_SCHEMA) {
        // Made by rules that are no more: nobody can tell.
        return Ok(());
    }
    let job = read_info(lazy(INFO)?).map_err(|_| missing(INFO))?.job.digest();
    let option = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
    let options = header["options"].as_object().and_then(|options| options.iter().map(option).collect());
    let options = options.ok_or(missing(HEADER))?;
    let spec = ResolvedSpec { target: target.to_owned(), options, debug: false };
    match import_key(&job, &spec) {
        found if found == key => Ok(()),
        found => Err(EntryError::KeyMismatch { expected: key, found }),
    }
}
