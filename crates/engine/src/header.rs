//! What an entry says of itself, for people and for explanations.

use std::time::Duration;

use opbuild_artifact::Member;
use opbuild_descriptor::{BuildSpec, Descriptor, EffectiveSpec, Envelope, Job, write_info};
use opbuild_digest::Fingerprint;
use opbuild_store::Entry;
use serde_json::{Value, json};

use crate::plan::Keyed;

/// The job without who asked: what is stored as `.info`.
pub(crate) fn canonical_info(job: &Job, spec: &EffectiveSpec) -> String {
    let mut canonical = BuildSpec::new(spec.target.clone());
    canonical.options.extend(spec.options.iter().map(|(name, value)| (name.clone(), value.as_str().into())));
    let mut job = job.clone();
    job.ops.iter_mut().for_each(|op| op.module_path = None);
    write_info(&Descriptor { job, spec: canonical, envelope: Envelope::default() })
}

/// Names, part digests, the toolchain, and what the compile cost.
pub(crate) fn render(keyed: &Keyed, op_type: &str, compile_time: Option<Duration>, rules: u32) -> String {
    let Keyed { spec, parts, key, name } = keyed;
    let header = json!({
        "name": name.as_str(),
        "key": key.to_string(),
        "op_type": op_type,
        "target": spec.target,
        "options": spec.options,
        "backend": parts.backend,
        "parts": {
            "job": parts.job.to_string(),
            "spec": parts.spec.to_string(),
            "toolchain": fingerprint(&parts.toolchain),
            "op_sources": fingerprint(&parts.op_sources),
        },
        "compile_us": compile_time.map(|time| time.as_micros() as u64),
        "validated_by_rules": rules,
        "made_by": concat!("opbuild ", env!("CARGO_PKG_VERSION")),
        "provenance": "compiled",
    });
    header.to_string()
}

fn fingerprint(fingerprint: &Fingerprint) -> Value {
    let part = |part: &opbuild_digest::Part| json!({ "name": part.name, "digest": part.digest.to_string(), "note": part.note });
    json!({
        "digest": fingerprint.digest().to_string(),
        "parts": fingerprint.parts().iter().map(part).collect::<Vec<_>>(),
    })
}

/// Further files of the kernel.
pub(crate) fn extra_members(entry: &Entry) -> Vec<Member> {
    let extra = entry.names().filter_map(|name| Some((name, name.strip_prefix("x/")?)));
    extra
        .filter_map(|(name, file)| {
            Some(Member { name: file.to_owned(), bytes: entry.member(name)?.to_vec() })
        })
        .collect()
}
