//! What an entry says of itself, for people and for explanations.

use std::collections::BTreeMap;
use std::time::Duration;

use opkeep_artifact::Member;
use opkeep_descriptor::{BuildSpec, Descriptor, Envelope, Job, KEY_SCHEMA, ResolvedSpec, write_info};
use opkeep_digest::{Digest, Fingerprint};
use opkeep_store::Entry;
use serde_json::{Value, json};

use crate::plan::KeyedKernel;

/// The job without who asked: what is stored as `.info`.
pub(crate) fn canonical_info(job: &Job, spec: &ResolvedSpec) -> String {
    let mut canonical = BuildSpec::new(spec.target.clone());
    canonical.options.extend(spec.options.iter().map(|(name, value)| (name.clone(), value.as_str().into())));
    let mut job = job.clone();
    job.ops.iter_mut().for_each(|op| op.module_path = None);
    write_info(&Descriptor { job, spec: canonical, envelope: Envelope::default() })
}

/// Names, part digests, the toolchain, and what the compile cost.
pub(crate) fn render(
    keyed: &KeyedKernel,
    op_type: &str,
    compile_time: Option<Duration>,
    rules: u32,
) -> String {
    let KeyedKernel { spec, parts, key, name } = keyed;
    let header = json!({
        "name": name.as_str(),
        "key": key.to_string(),
        "key_schema": KEY_SCHEMA,
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
        "made_by": concat!("opkeep ", env!("CARGO_PKG_VERSION")),
        "provenance": "compiled",
    });
    header.to_string()
}

fn fingerprint(fingerprint: &Fingerprint) -> Value {
    let part = |part: &opkeep_digest::Part| json!({ "name": part.name, "digest": part.digest.to_string(), "note": part.note });
    json!({
        "digest": fingerprint.digest().to_string(),
        "parts": fingerprint.parts().iter().map(part).collect::<Vec<_>>(),
    })
}

/// What a stored header says, as far as a miss is explained by it.
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) name: String,
    pub(crate) key: Option<String>,
    /// By which rules the key was made; the first headers do not say, and are of the first.
    pub(crate) key_schema: u64,
    pub(crate) op_type: String,
    pub(crate) target: String,
    pub(crate) options: BTreeMap<String, String>,
    pub(crate) backend: String,
    pub(crate) toolchain: Fingerprint,
    pub(crate) op_sources: Fingerprint,
}

impl Header {
    /// What [`render`] wrote; `None` for anything else.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let json: Value = serde_json::from_slice(bytes).ok()?;
        let text = |name: &str| json[name].as_str().map(str::to_owned);
        let option = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
        Some(Self {
            name: text("name")?,
            key: text("key"),
            key_schema: json["key_schema"].as_u64().unwrap_or(1),
            op_type: text("op_type")?,
            target: text("target")?,
            options: json["options"].as_object()?.iter().map(option).collect::<Option<_>>()?,
            backend: text("backend")?,
            toolchain: parts(&json["parts"]["toolchain"])?,
            op_sources: parts(&json["parts"]["op_sources"])?,
        })
    }
}

/// The inverse of [`fingerprint`].
fn parts(json: &Value) -> Option<Fingerprint> {
    let mut fingerprint = Fingerprint::new();
    for part in json["parts"].as_array()? {
        let digest: Digest = part["digest"].as_str()?.parse().ok()?;
        fingerprint.add(part["name"].as_str()?, digest, part["note"].as_str()?);
    }
    Some(fingerprint)
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use opkeep_descriptor::{KernelName, KeyParts};

    use super::*;

    #[test]
    fn a_header_comes_back() {
        let mut toolchain = Fingerprint::new();
        toolchain.add("cc1", Digest::of(b"cc1"), "gcc 12.2");
        toolchain.add("cc1", Digest::of(b"another"), "");
        let mut op_sources = Fingerprint::new();
        op_sources.add("c", Digest::of(b"int x;"), "generated");
        let spec = ResolvedSpec {
            target: "cpu-x86_64".into(),
            options: BTreeMap::from([("op_debug_level".into(), "0".into())]),
            debug: false,
        };
        let job = Job { data: Vec::new(), ops: Vec::new(), l1_size: -1, extra: Default::default() };
        let parts = KeyParts::new("cpu", &job, &spec, Arc::new(toolchain.clone()), op_sources.clone());
        let key = parts.key();
        let keyed = KeyedKernel { name: KernelName::new(&job, &key), spec, parts, key };
        let text = render(&keyed, "Square", None, 1);
        let header = Header::parse(text.as_bytes()).unwrap();
        assert_eq!((header.name.as_str(), header.op_type.as_str()), (keyed.name.as_str(), "Square"));
        assert_eq!((&header.target, &header.options), (&keyed.spec.target, &keyed.spec.options));
        assert_eq!(header.backend, "cpu");
        assert_eq!((header.key, header.key_schema), (Some(key.to_string()), KEY_SCHEMA));
        assert_eq!((header.toolchain, header.op_sources), (toolchain, op_sources));
        assert!(Header::parse(br#"{"name": "x"}"#).is_none());
    }
}
