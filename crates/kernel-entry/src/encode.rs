//! The encoding of a kernel as an entry.

use std::time::Duration;

use opkeep_descriptor::{BuildSpec, Descriptor, Envelope, Job, ResolvedSpec, write_info};
use opkeep_store::EntryBuilder;

use crate::bundle::KernelBundle;
use crate::expectations::StoredExpectations;
use crate::header;
use crate::member::{EXPECTATIONS, EXTRA_PREFIX, HEADER, IMPORTED, INFO, JSON, OBJECT};
use crate::record::{KernelRecord, Origin};

/// An entry with rendered members, ready to be written.
#[derive(Debug)]
pub struct EncodedEntry<'a> {
    json: &'a [u8],
    object: &'a [u8],
    extra: Vec<(String, &'a [u8])>,
    expectations: &'a StoredExpectations,
    compile_time: Duration,
    imported: Option<String>,
    info: String,
    header: String,
}

/// Renders the entry of a kernel: its files and its record.
pub fn encode_entry<'a>(
    kernel: &KernelBundle<'a>,
    expectations: &'a StoredExpectations,
    record: &KernelRecord<'_>,
) -> EncodedEntry<'a> {
    let (compile_time, imported) = match record.origin {
        Origin::Compiled { compile_time, .. } => (compile_time.unwrap_or_default(), None),
        // The compile cost of an imported kernel is unknown, and so is whether it can be compiled again.
        Origin::Imported(provenance) => (Duration::ZERO, Some(provenance.to_json().to_string())),
    };
    let extra = kernel.extra().map(|(name, bytes)| (format!("{EXTRA_PREFIX}{name}"), bytes));
    EncodedEntry {
        json: kernel.json(),
        object: kernel.object(),
        extra: extra.collect(),
        info: canonical_info(record.job, record.spec),
        header: header::render(record, expectations.stamp()),
        expectations,
        compile_time,
        imported,
    }
}

impl EncodedEntry<'_> {
    /// The entry for the store.
    pub fn builder(&self) -> EntryBuilder<'_> {
        let mut entry = EntryBuilder::new(self.expectations.stamp())
            .cost(self.compile_time)
            .eager(JSON, self.json)
            .eager(OBJECT, self.object);
        if let Some(imported) = &self.imported {
            entry = entry.eager(IMPORTED, imported.as_bytes());
        }
        for (name, bytes) in &self.extra {
            entry = entry.eager(name, bytes);
        }
        entry
            .lazy(INFO, self.info.as_bytes())
            .lazy(HEADER, self.header.as_bytes())
            .lazy(EXPECTATIONS, self.expectations.encoded())
    }
}

/// The job without its envelope: the member `info`.
fn canonical_info(job: &Job, spec: &ResolvedSpec) -> String {
    let mut canonical = BuildSpec::new(spec.target.clone());
    canonical.options.extend(spec.options.iter().map(|(name, value)| (name.clone(), value.as_str().into())));
    let mut job = job.clone();
    job.ops.iter_mut().for_each(|op| op.module_path = None);
    write_info(&Descriptor { job, spec: canonical, envelope: Envelope::default() })
}
