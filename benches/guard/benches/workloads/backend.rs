//! A backend without cost: its kernels are objects for this host that do nothing.

use object::write::{Object, StandardSection, Symbol, SymbolSection};
use object::{Architecture, BinaryFormat, Endianness, SymbolFlags, SymbolKind, SymbolScope};
use opkeep_artifact::{Artifact, Expectations};
use opkeep_backend::{Backend, BackendError, CompileRequest, Context};
use opkeep_cann_meta::{BlockDim, KernelMeta, Magic, targets};
use opkeep_descriptor::{BuildSpec, Descriptor, Envelope, Job, ResolvedSpec};
use opkeep_digest::{Digest, Fingerprint};
use opkeep_ops::Graph;

const MACHINE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };

/// The backend.
pub(crate) struct NullBackend;

impl Backend for NullBackend {
    fn name(&self) -> &'static str {
        "null"
    }

    fn toolchain(&self, cx: &Context<'_>) -> Result<Fingerprint, BackendError> {
        cx.check_cancelled()?;
        let mut fingerprint = Fingerprint::new();
        fingerprint.text("version", "1");
        Ok(fingerprint)
    }

    fn op_sources(&self, _: &Context<'_>, job: &Job, _: &ResolvedSpec) -> Result<Fingerprint, BackendError> {
        let mut fingerprint = Fingerprint::new();
        for op in &job.ops {
            fingerprint.text(format!("{}.c", op.func_name), "nothing");
        }
        Ok(fingerprint)
    }

    fn expectations(&self, spec: &ResolvedSpec) -> Expectations {
        targets::host(&spec.target, MACHINE)
    }

    fn compile(&self, cx: &Context<'_>, request: &CompileRequest<'_>) -> Result<Artifact, BackendError> {
        cx.check_cancelled()?;
        let symbol = request.name.symbol();
        let object = object(&symbol);
        let metadata = KernelMeta {
            bin_file_name: Some(request.name.to_string()),
            bin_file_suffix: Some(".o".to_owned()),
            block_dim: Some(BlockDim::Fixed(1)),
            kernel_name: Some(symbol),
            magic: Some(Magic::Elf.into()),
            sha256: Some(Digest::of(&object).to_string()),
            ..KernelMeta::default()
        };
        Ok(Artifact { metadata: metadata.to_json().into_bytes(), object, extra: Vec::new() })
    }
}

/// A relocatable object with one function, which returns at once.
fn object(function: &str) -> Vec<u8> {
    let (architecture, code): (_, &[u8]) = if cfg!(target_arch = "aarch64") {
        (Architecture::Aarch64, &[0xc0, 0x03, 0x5f, 0xd6])
    } else {
        (Architecture::X86_64, &[0xc3])
    };
    let mut object = Object::new(BinaryFormat::Elf, architecture, Endianness::Little);
    let text = object.section_id(StandardSection::Text);
    let value = object.append_section_data(text, code, 16);
    object.add_symbol(Symbol {
        name: function.as_bytes().to_vec(),
        value,
        size: code.len() as u64,
        kind: SymbolKind::Text,
        scope: SymbolScope::Dynamic,
        weak: false,
        section: SymbolSection::Section(text),
        flags: SymbolFlags::None,
    });
    let comment = object.section_id(StandardSection::ReadOnlyData);
    object.append_section_data(comment, b"1", 1);
    object.write().unwrap()
}

/// The descriptor of an operator `Square` on `length` numbers.
pub(crate) fn square(length: i64) -> Descriptor {
    let mut graph = Graph::new("test");
    let x = graph.input("x0", "float32", [length]);
    graph.node("node", "Square", &[x], []).unwrap();
    Descriptor {
        job: graph.jobs().remove(0).1,
        spec: BuildSpec::new("cpu"),
        envelope: Envelope { full_name: "node".to_owned(), ..Envelope::default() },
    }
}
