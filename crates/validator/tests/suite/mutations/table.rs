//! The rows of the tables.

use opkeep_artifact::Expectations;
use opkeep_cann_meta::targets;
use opkeep_testkit::ascend::{Chip, Kernel, Library, Pair, container, fat_binary, library, zoo};
use opkeep_validator::Code;
use serde_json::{Map, Value};

/// A good kernel and one flaw.
pub(crate) struct Mutation {
    /// A description of the flaw.
    pub(crate) name: &'static str,
    /// The kernel that gets it.
    pub(crate) of: &'static str,
    /// The flaw.
    pub(crate) change: Change,
    /// The expected codes of any severity, in addition to those of the kernel itself.
    pub(crate) codes: &'static [Code],
}

#[derive(Clone, Copy)]
pub(crate) enum Change {
    /// In the object; the digest in the `.json` is adjusted.
    Object(fn(&mut Vec<u8>)),
    /// In the fields of the `.json`.
    Fields(fn(&mut Map<String, Value>)),
    /// In the `.json` as bytes.
    Text(fn(&mut Vec<u8>)),
    /// In both.
    Pair(fn(Pair) -> Pair),
}

/// The codes of a good kernel of a kind.
pub(crate) fn notes_of(kind: &str) -> Option<Code> {
    match kind {
        "deterministic twin" | "AI CPU" | "cpu" => Some(Code::BIN_NAME),
        "AKG" => Some(Code::NO_MAGIC),
        "container" => Some(Code::CONTAINER),
        _ => None,
    }
}

impl Mutation {
    pub(crate) fn apply(&self, mut pair: Pair) -> Pair {
        match self.change {
            Change::Object(change) => pair.with_object(change),
            Change::Fields(change) => pair.with_fields(change),
            Change::Pair(change) => change(pair),
            Change::Text(change) => {
                change(&mut pair.json);
                pair
            }
        }
    }
}

/// A row: a flaw in the object of a kernel.
pub(crate) const fn object(
    of: &'static str,
    name: &'static str,
    codes: &'static [Code],
    change: fn(&mut Vec<u8>),
) -> Mutation {
    Mutation { name, of, change: Change::Object(change), codes }
}

/// A row: a flaw in the fields of a `.json`.
pub(crate) const fn fields(
    of: &'static str,
    name: &'static str,
    codes: &'static [Code],
    change: fn(&mut Map<String, Value>),
) -> Mutation {
    Mutation { name, of, change: Change::Fields(change), codes }
}

/// Every kind of good kernel.
pub(crate) fn kinds() -> impl Iterator<Item = &'static str> {
    zoo().into_iter().map(|(kind, _)| kind).chain(["cpu", "AKG", "container", "fat binary"])
}

/// The good kernel of a kind, and the expectations of its target.
pub(crate) fn base(kind: &str) -> (Pair, Expectations) {
    let pair = match kind {
        "cpu" => library(Library::Host(targets::X86_64), "add", &["kernel0"]),
        "AKG" => akg(),
        "container" => container("libascbackend_1"),
        "fat binary" => fat_binary("Tile_1"),
        _ => zoo().into_iter().find(|(name, _)| *name == kind).map(|(_, pair)| pair).unwrap(),
    };
    let expect = match kind {
        "cpu" | "AKG" | "container" => targets::host("cpu-x86_64", targets::X86_64),
        "AI CPU" => targets::aicpu("Ascend910B1"),
        "910A static" | "910A dynamic" => targets::ascend(Chip::Ascend910.soc()),
        "310B AscendC" => targets::ascend(Chip::Ascend310B.soc()),
        "310P" => targets::ascend(Chip::Ascend310P.soc()),
        "950 vector" => targets::ascend(Chip::Ascend950.soc()),
        "910_93 vector" => targets::ascend(Chip::Ascend910_93.soc()),
        _ => targets::ascend(Chip::Ascend910B.soc()),
    };
    (pair, expect)
}

/// A CPU kernel with AKG's short description.
fn akg() -> Pair {
    let pair = library(Library::Host(targets::X86_64), "Fused_Add", &["Fused_Add_kernel"]);
    pair.with_fields(|fields| {
        for name in ["binFileName", "binFileSuffix", "blockDim", "magic"] {
            fields.remove(name);
        }
        fields.insert("objSha256".into(), "0".repeat(64).into());
        fields.insert("threadNumber".into(), "null".into());
    })
}

/// A kernel with its cores, synchronisation and determinism in its metadata, where compilers may write them.
pub(crate) fn spoken(metadata: &opkeep_testkit::ascend::Metadata) -> Pair {
    let pair = Kernel::new(Chip::Ascend910B, "Spoken").build();
    let metadata = metadata.clone();
    pair.with_object(|object| {
        use opkeep_testkit::patch::{put, section, section_named};
        let header = section_named(object, ".ascend.meta.Spoken_0");
        let at = object.len();
        object.extend(&metadata.0);
        put(object, header + section::OFFSET, (at as u64).to_le_bytes());
        put(object, header + section::SIZE, (metadata.0.len() as u64).to_le_bytes());
    })
}
