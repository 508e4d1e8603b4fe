//! The header of an entry: names, part digests, the toolchain and the compile time, for users and for explanations of
//! misses.

use std::collections::BTreeMap;

use opkeep_descriptor::{IMPORT_SCHEMA, KEY_SCHEMA};
use opkeep_digest::{Digest, Fingerprint};
use serde_json::{Value, json};

use crate::record::{KernelRecord, Origin};
use crate::texts::texts;

/// The provenance value in the header of an imported kernel's entry.
pub(crate) const IMPORTED_PROVENANCE: &str = "imported";

/// The program that stores entries, and its version, as headers state them: `opkeep 0.1.0`.
pub const MADE_BY: &str = concat!("opkeep ", env!("CARGO_PKG_VERSION"));

/// The text of the header of an entry with the validation stamp `stamp`.
pub(crate) fn render(record: &KernelRecord<'_>, stamp: u32) -> String {
    let KernelRecord { job, spec, key, origin } = record;
    let mut header = json!({
        "key": key.to_string(),
        "op_type": job.op_types(),
        "target": spec.target,
        "options": spec.options,
        "validated_by_rules": stamp,
        "made_by": MADE_BY,
    });
    match origin {
        Origin::Compiled { name, parts, compile_time } => {
            header["name"] = name.as_str().into();
            header["key_schema"] = KEY_SCHEMA.into();
            header["backend"] = parts.backend.as_str().into();
            header["parts"] = json!({
                "job": parts.job.to_string(),
                "spec": parts.spec.to_string(),
                "toolchain": fingerprint(&parts.toolchain),
                "op_sources": fingerprint(&parts.op_sources),
            });
            header["compile_us"] = json!(compile_time.map(|time| time.as_micros() as u64));
            header["provenance"] = "compiled".into();
        }
        // The compiler and the sources of an imported kernel are unknown.
        Origin::Imported(provenance) => {
            header["name"] = provenance.name.as_str().into();
            header["import_schema"] = IMPORT_SCHEMA.into();
            header["backend"] = Value::Null;
            header["parts"] = json!({
                "job": job.digest().to_string(),
                "spec": spec.digest().to_string(),
                "toolchain": null,
                "op_sources": null,
            });
            header["compile_us"] = Value::Null;
            header["provenance"] = IMPORTED_PROVENANCE.into();
            header["imported"] = provenance.to_json();
        }
    }
    header.to_string()
}

fn fingerprint(fingerprint: &Fingerprint) -> Value {
    let part = |part: &opkeep_digest::Part| json!({ "name": part.name, "digest": part.digest.to_string(), "note": part.note });
    json!({
        "digest": fingerprint.digest().to_string(),
        "parts": fingerprint.parts().iter().map(part).collect::<Vec<_>>(),
    })
}

/// The fields of a compiled kernel's header that explain a miss.
#[derive(Debug)]
#[non_exhaustive]
pub struct Header {
    /// The kernel's name.
    pub name: String,
    /// Its key in hexadecimal digits; the oldest headers have none.
    pub key: Option<String>,
    /// The [`KEY_SCHEMA`] of the key; 1 for the oldest headers, which state none.
    pub key_schema: u64,
    /// The program that stored it, with its version; empty for none.
    pub made_by: String,
    /// The types of its operators, joined by `+`.
    pub op_type: String,
    /// The target that it was built for.
    pub target: String,
    /// The effective options.
    pub options: BTreeMap<String, String>,
    /// The backend that compiled it.
    pub backend: String,
    /// The fingerprint of the toolchain.
    pub toolchain: Fingerprint,
    /// The fingerprint of the operators' own sources.
    pub op_sources: Fingerprint,
}

impl Header {
    /// Parses the member `header` of a compiled kernel's entry; `None` for anything else.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let json: Value = serde_json::from_slice(bytes).ok()?;
        let text = |name: &str| json[name].as_str().map(str::to_owned);
        Some(Self {
            name: text("name")?,
            key: text("key"),
            key_schema: json["key_schema"].as_u64().unwrap_or(1),
            made_by: text("made_by").unwrap_or_default(),
            op_type: text("op_type")?,
            target: text("target")?,
            options: texts(&json["options"])?,
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use opkeep_descriptor::{KernelName, KeyParts, ResolvedSpec, read_info};

    use super::*;

    #[test]
    fn a_header_round_trips() {
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
        let info = include_bytes!("../../../fixtures/mindspore/square_12484080525657478220_2.info");
        let job = read_info(info).unwrap().job;
        let parts = KeyParts::new("cpu", &job, &spec, Arc::new(toolchain.clone()), op_sources.clone());
        let key = parts.key();
        let name = KernelName::new(&job, &key);
        let origin = Origin::Compiled { name: &name, parts: &parts, compile_time: None };
        let text = render(&KernelRecord { job: &job, spec: &spec, key, origin }, 1);
        let header = Header::parse(text.as_bytes()).unwrap();
        assert_eq!((header.name.as_str(), header.op_type.as_str()), (name.as_str(), "Square"));
        assert_eq!((&header.target, &header.options), (&spec.target, &spec.options));
        assert_eq!(header.backend, "cpu");
        assert_eq!((header.key, header.key_schema), (Some(key.to_string()), KEY_SCHEMA));
        assert_eq!((header.toolchain, header.op_sources), (toolchain, op_sources));
        assert!(Header::parse(br#"{"name": "x"}"#).is_none());
    }
}
