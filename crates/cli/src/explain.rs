//! `opbuild explain`: why each kernel would be a hit or a miss. It compiles nothing and writes nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use opbuild::{Builder, DigestMemo, Request};
use opbuild_backend::{Backend, BackendError, Cancel, FileDigests, Support};
use opbuild_descriptor::{Diff, EffectiveSpec, Job, KernelName, Key, KeyParts};
use opbuild_digest::Fingerprint;
use opbuild_store::{Access, Config, Lookup, Miss, Store, TargetStore};
use serde_json::{Value, json};

use crate::args::{Common, ExplainArgs};
use crate::build::{self, note_targets};
use crate::input::{self, Found};
use crate::model::Model;
use crate::nearest::{Nearest, Neighbours};
use crate::output::{Output, Verdict, counted, one_line};

pub(crate) fn explain(args: &ExplainArgs, output: &Output) -> anyhow::Result<Verdict> {
    if let Some(other) = &args.against {
        return compare(args, other, output);
    }
    let builder = build::builder(&args.common, &Cancel::new(), output)?;
    let (requests, unreadable) = requests(args, &builder);
    unreadable.iter().for_each(|(_, error)| output.error(error));
    if requests.is_empty() {
        output.quiet_result(&json!({ "unreadable": build::unreadable_json(&unreadable) }))?;
        return Ok(Verdict::Unusable);
    }
    note_targets(&requests, &args.common, output);

    let files = DigestMemo::default();
    let toolchain = Arc::new(builder.backend().toolchain(&files)?);
    let mut explainer = Explainer {
        backend: builder.backend(),
        toolchain,
        files: &files,
        store: store(&args.common),
        targets: BTreeMap::new(),
    };
    let kernels = explainer.kernels(&requests);

    let text: String = kernels.iter().map(Kernel::text).collect();
    let summary = summary(&kernels);
    let mut json = json!({ "kernels": kernels.iter().map(Kernel::json).collect::<Vec<_>>() });
    if !unreadable.is_empty() {
        json["unreadable"] = build::unreadable_json(&unreadable);
    }
    output.result(&format!("{text}{summary}"), &json)?;
    Ok(if unreadable.is_empty() { Verdict::Good } else { Verdict::Unusable })
}

type Unreadable = Vec<(PathBuf, anyhow::Error)>;

fn requests(args: &ExplainArgs, builder: &Builder) -> (Vec<Request>, Unreadable) {
    let Found { files, mut unreadable } = input::model_files(&args.inputs);
    let mut requests = Vec::new();
    let several = files.len() > 1;
    for file in files {
        match Model::read(&file, builder, &args.common, several) {
            Ok(model) => requests.extend(model.requests(&args.common)),
            Err(error) => unreadable.push((file, error)),
        }
    }
    (requests, unreadable)
}

/// What is different between two descriptors.
fn compare(args: &ExplainArgs, other: &std::path::Path, output: &Output) -> anyhow::Result<Verdict> {
    let [input] = args.inputs.as_slice() else {
        anyhow::bail!("--against takes one input, found {}", counted(args.inputs.len(), "input"));
    };
    let (old, new) = (input::read_descriptor(other)?, input::read_descriptor(input)?);
    let diff = Diff::of_jobs(&old.job, &new.job);
    let text = match diff.is_empty() {
        true => "the jobs are the same\n".to_owned(),
        false => diff.changes.iter().map(|change| format!("{}\n", one_line(&change.to_string()))).collect(),
    };
    output.result(&text, &json!({ "job": changes(&diff) }))?;
    Ok(Verdict::Good)
}

pub(crate) fn changes(diff: &Diff) -> Value {
    let one = |change: &opbuild_descriptor::Change| json!({ "path": change.path, "old": change.old, "new": change.new });
    diff.changes.iter().map(one).collect()
}

/// The store, to be read only; or why there is none.
fn store(common: &Common) -> Result<Store, String> {
    let config = build::store(common).ok_or("there is no place for a store")?;
    Store::open(Config { access: Access::ReadOnly, ..config }).map_err(|error| error.to_string())
}

/// What would become of one kernel.
struct Kernel {
    name: String,
    key: Option<Key>,
    op_type: String,
    asked_by: Vec<String>,
    fate: Fate,
}

enum Fate {
    /// It is in the store.
    Hit,
    /// It is not, and why.
    Miss { why: String, nearest: Option<Nearest> },
    /// Debug kernels are neither looked up nor kept.
    Bypassed,
    /// The backend does not take it.
    Refused { why: String },
}

struct Explainer<'a> {
    backend: &'a dyn Backend,
    toolchain: Arc<Fingerprint>,
    files: &'a dyn FileDigests,
    store: Result<Store, String>,
    targets: BTreeMap<String, Result<(TargetStore, Neighbours), String>>,
}

impl Explainer<'_> {
    /// Equal requests are one kernel.
    fn kernels(&mut self, requests: &[Request]) -> Vec<Kernel> {
        let mut kernels: Vec<Kernel> = Vec::new();
        let mut known: BTreeMap<Key, usize> = BTreeMap::new();
        for request in requests {
            let keyed = self.keyed(request);
            let at = keyed.as_ref().ok().and_then(|(_, parts)| known.get(&parts.key())).copied();
            if let Some(at) = at {
                kernels[at].asked_by.push(request.name().to_owned());
                continue;
            }
            known.extend(keyed.as_ref().ok().map(|(_, parts)| (parts.key(), kernels.len())));
            kernels.push(self.kernel(request, keyed));
        }
        kernels
    }

    /// The effective spec and the parts of the key, as a build has them.
    fn keyed(&self, request: &Request) -> Result<(EffectiveSpec, KeyParts), BackendError> {
        let job = &request.descriptor.job;
        let spec = self.backend.resolve(&request.spec)?;
        if let Support::No(reason) = self.backend.supports(job, &spec) {
            return Err(reason.into());
        }
        let op_sources = self.backend.op_sources(job, &spec, self.files)?;
        let parts = KeyParts::new(self.backend.name(), job, &spec, Arc::clone(&self.toolchain), op_sources);
        Ok((spec, parts))
    }

    fn kernel(
        &mut self,
        request: &Request,
        keyed: Result<(EffectiveSpec, KeyParts), BackendError>,
    ) -> Kernel {
        let job = &request.descriptor.job;
        let op_type = job.ops.iter().map(|op| op.op_type.as_str()).collect::<Vec<_>>().join("+");
        let asked_by = vec![request.name().to_owned()];
        match keyed {
            Err(error) => {
                let (name, why) = (request.name().to_owned(), error.to_string());
                Kernel { name, key: None, op_type, asked_by, fate: Fate::Refused { why } }
            }
            Ok((spec, parts)) => {
                let key = parts.key();
                let name = KernelName::new(job, &key).to_string();
                let fate =
                    if spec.debug { Fate::Bypassed } else { self.look_up(job, &op_type, &spec, &parts) };
                Kernel { name, key: Some(key), op_type, asked_by, fate }
            }
        }
    }

    fn look_up(&mut self, job: &Job, op_type: &str, spec: &EffectiveSpec, parts: &KeyParts) -> Fate {
        let store = &self.store;
        let target = self.targets.entry(spec.target.clone()).or_insert_with(|| {
            let target = store.as_ref().map_err(Clone::clone)?.target(&spec.target);
            let target = target.map_err(|error| error.to_string())?;
            let neighbours = Neighbours::new(&target);
            Ok((target, neighbours))
        });
        let (target, neighbours) = match target {
            Ok(target) => target,
            Err(why) => return Fate::Miss { why: why.clone(), nearest: None },
        };
        match target.get(parts.key().digest()) {
            Lookup::Hit(_) => Fate::Hit,
            Lookup::Miss(miss @ Miss::Absent) => Fate::Miss {
                why: miss.to_string(),
                nearest: neighbours.nearest(target, job, op_type, spec, parts),
            },
            Lookup::Miss(miss) => Fate::Miss { why: miss.to_string(), nearest: None },
        }
    }
}

impl Kernel {
    fn outcome(&self) -> &'static str {
        match self.fate {
            Fate::Hit => "hit",
            Fate::Miss { .. } => "miss",
            Fate::Bypassed => "bypassed",
            Fate::Refused { .. } => "refused",
        }
    }

    fn text(&self) -> String {
        let Self { name, op_type, asked_by, fate, .. } = self;
        let others =
            if asked_by.len() > 1 { format!(", {} operators", asked_by.len()) } else { String::new() };
        let mut text = format!("{:8} {} ({}{others})\n", self.outcome(), one_line(name), one_line(op_type));
        match fate {
            Fate::Hit => {}
            Fate::Bypassed => {
                text.push_str("  kernels with debug options are compiled each time and never kept\n")
            }
            Fate::Refused { why } => text.push_str(&format!("  {}\n", one_line(why))),
            Fate::Miss { why, nearest } => {
                text.push_str(&format!("  {}\n", one_line(why)));
                text.extend(nearest.iter().map(Nearest::text));
            }
        }
        text
    }

    fn json(&self) -> Value {
        let mut json = json!({
            "name": self.name,
            "key": self.key.map(|key| key.to_string()),
            "op_type": self.op_type,
            "operators": self.asked_by,
            "outcome": self.outcome(),
        });
        match &self.fate {
            Fate::Hit | Fate::Bypassed => {}
            Fate::Refused { why } => json["reason"] = why.as_str().into(),
            Fate::Miss { why, nearest } => {
                json["reason"] = why.as_str().into();
                json["nearest"] = nearest.as_ref().map(Nearest::json).into();
            }
        }
        json
    }
}

fn summary(kernels: &[Kernel]) -> String {
    let count = |outcome: &str| kernels.iter().filter(|kernel| kernel.outcome() == outcome).count();
    let counts =
        ["hit", "miss", "bypassed", "refused"].map(|outcome| format!("{} {outcome}", count(outcome)));
    format!("{}: {}\n", counted(kernels.len(), "kernel"), counts.join(", "))
}
