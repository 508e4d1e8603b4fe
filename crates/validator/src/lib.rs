//! Decides from the bytes whether a kernel is what its `.json` says.
//!
//! [`validate`] takes a `.json`, the object that stands beside it, and what the target expects of both. It answers
//! with a [`Report`] of what it saw, or with the first [`Refusal`]. Nothing enters the store without that answer.
//!
//! It knows ELF and the `.json`, and nothing of operators, files, caches or vendors: which machines and which magic
//! names are right is told by [`Expectations`]. It does no I/O.
//!
//! # The rules, in the order in which they are checked
//!
//! | rule | refused as |
//! |---|---|
//! | the `.json` is an object whose fields have the types that producers give them | [`Refusal::Meta`] |
//! | `sha256` is there, and is the SHA-256 of the whole object, in lower-case hexadecimal | [`Missing`], [`Field`], [`Sha256`] |
//! | `binFileName`, if there, is a plain file name; `binFileSuffix`, if there, is `.o` or `.so` | [`UnsafeName`], [`Field`] |
//! | `magic` is there, and the target takes it | [`Missing`], [`Magic`] |
//! | `kernelName`, or a `kernelList` with items, is there | [`Missing`] |
//! | the object is an ELF file of 64 bits, little-endian, relocatable, executable or shared | [`NotElf`], [`Class`], [`Endianness`], [`Type`] |
//! | its tables and sections lie inside the file | [`Malformed`] |
//! | the target loads its `e_machine` | [`Machine`](Refusal::Machine) |
//! | each named kernel is one, as it is or with `_mix_aic` or `_mix_aiv` at the end | [`Kernel`] |
//!
//! A *kernel* of an object is a function symbol that is global, visible, named, and defined in an executable section.
//! `.symtab` and `.dynsym` both count: a stripped shared object has only the latter. This follows the Ascend runtime,
//! which looks for the same symbols when it is asked for a kernel.
//!
//! Not rules, because genuine kernels break them: program headers may be absent, `e_flags` may be anything, the
//! object's file name may differ from `kernelName`.
//!
//! The digest comes before everything that is read from the object, so a torn or altered object is always refused as
//! [`Sha256`], and an ELF refusal means that the compiler itself wrote a bad object. The price is that a
//! foreign object is hashed before it is refused.
//!
//! # Hostile bytes
//!
//! Every offset is bounds-checked, nothing panics, and both time and memory are linear in the sizes of the two files:
//! names that overlap so often that together they exceed the file are refused.
//!
//! [`cross_check`] reads an object with a second, independent parser. It is for people who look at a kernel, not for
//! the path of a build.
//!
//! # Example
//!
//! ```
//! use opbuild_artifact::{Expectations, Magic, MetaError};
//! use opbuild_digest::Digest;
//! use opbuild_validator::{Refusal, validate};
//!
//! let expect = Expectations {
//!     target: "cpu-x86_64".into(),
//!     machines: vec![62],
//!     magics: vec![Magic::Elf],
//! };
//!
//! // A `.json` whose writer was killed.
//! let torn = validate(br#"{"kernelName": "add_1", "sha2"#, b"", &expect);
//! assert!(matches!(torn, Err(Refusal::Meta(MetaError::Json { .. }))));
//!
//! // A text file that somebody called `.o`.
//! let object = b"placeholder\n";
//! let json = format!(
//!     r#"{{"kernelName": "add_1", "magic": "RT_DEV_BINARY_MAGIC_ELF", "sha256": "{}"}}"#,
//!     Digest::of(object)
//! );
//! let refusal = validate(json.as_bytes(), object, &expect).unwrap_err();
//! assert!(matches!(refusal, Refusal::NotElf { .. }));
//! assert!(refusal.to_string().contains("70 6c 61 63"));
//! ```
//!
//! [`Missing`]: Refusal::Missing
//! [`Field`]: Refusal::Field
//! [`Sha256`]: Refusal::Sha256
//! [`UnsafeName`]: Refusal::UnsafeName
//! [`Magic`]: Refusal::Magic
//! [`NotElf`]: Refusal::NotElf
//! [`Class`]: Refusal::Class
//! [`Endianness`]: Refusal::Endianness
//! [`Type`]: Refusal::Type
//! [`Malformed`]: Refusal::Malformed
//! [`Kernel`]: Refusal::Kernel

mod cross;
mod elf;
mod refusal;
mod report;

pub use cross::{CrossCheck, cross_check};
pub use refusal::Refusal;
pub use report::{ElfFacts, ElfType, Machine, Report};

use opbuild_artifact::{Expectations, KernelMeta, is_safe_file_name};
use opbuild_digest::Digest;

use crate::elf::{Elf, Kernels};
use crate::refusal::shown;

/// The version of the rules. The store records it with each entry, and validates again what older rules let in.
///
/// Raise it with every change that refuses what was accepted before.
pub const RULES_VERSION: u32 = 1;

/// What a `.json` leaves out of a kernel's symbol when the kernel has a cube and a vector side.
const MIX_SUFFIXES: [&str; 2] = ["_mix_aic", "_mix_aiv"];

/// Judges the kernel `object` and its description `json`, both as they stand in their files.
///
/// # Errors
/// The first rule that is broken; the order is in the [crate's documentation](crate).
pub fn validate(json: &[u8], object: &[u8], expect: &Expectations) -> Result<Report, Refusal> {
    let meta = KernelMeta::parse(json)?;
    check_sha256(&meta, object)?;
    check_file_name(&meta)?;
    check_magic(&meta, expect)?;
    let names = named_kernels(&meta)?;
    let elf = Elf::read(object)?;
    check_machine(&elf, expect)?;
    check_kernels(&meta, &names, &elf.kernels)?;
    Ok(Report { object: elf.facts(), meta })
}

/// Reads an object of which nothing is known, to show what it is.
///
/// # Errors
/// A [`Refusal`] that concerns the object alone: not ELF, not of 64 bits, malformed, ...
pub fn read_object(object: &[u8]) -> Result<ElfFacts, Refusal> {
    Ok(Elf::read(object)?.facts())
}

fn check_sha256(meta: &KernelMeta, object: &[u8]) -> Result<(), Refusal> {
    let text = meta.sha256.as_deref().ok_or(Refusal::Missing { field: "sha256" })?;
    let expected: Digest = text.parse().map_err(|_| Refusal::Field {
        field: "sha256",
        expected: "64 lower-case hexadecimal digits",
        found: shown(text.as_bytes()),
    })?;
    let found = Digest::of(object);
    if expected == found { Ok(()) } else { Err(Refusal::Sha256 { expected, found }) }
}

fn check_file_name(meta: &KernelMeta) -> Result<(), Refusal> {
    if let Some(name) = &meta.bin_file_name
        && !is_safe_file_name(name)
    {
        return Err(Refusal::UnsafeName { field: "binFileName", found: shown(name.as_bytes()) });
    }
    match meta.bin_file_suffix.as_deref() {
        None | Some(".o" | ".so") => Ok(()),
        Some(other) => Err(Refusal::Field {
            field: "binFileSuffix",
            expected: "`.o` or `.so`",
            found: shown(other.as_bytes()),
        }),
    }
}

fn check_magic(meta: &KernelMeta, expect: &Expectations) -> Result<(), Refusal> {
    let found = meta.magic.ok_or(Refusal::Missing { field: "magic" })?;
    if expect.magics.contains(&found) {
        return Ok(());
    }
    Err(Refusal::Magic { target: expect.target.clone(), expected: expect.magics.clone(), found })
}

fn named_kernels(meta: &KernelMeta) -> Result<Vec<&str>, Refusal> {
    let names = meta.entry_names();
    if !names.is_empty() {
        return Ok(names);
    }
    // An empty list hides `kernelName`, so it is the list that lacks something.
    Err(Refusal::Missing { field: if meta.kernel_list.is_some() { "kernelList[0]" } else { "kernelName" } })
}

fn check_machine(elf: &Elf<'_>, expect: &Expectations) -> Result<(), Refusal> {
    if expect.machines.contains(&elf.machine.0) {
        return Ok(());
    }
    Err(Refusal::Machine {
        target: expect.target.clone(),
        expected: expect.machines.iter().copied().map(Machine).collect(),
        found: elf.machine,
    })
}

fn check_kernels(meta: &KernelMeta, names: &[&str], kernels: &Kernels<'_>) -> Result<(), Refusal> {
    let mut symbol = String::new();
    for name in names {
        let mut with_suffix = |suffix: &str| {
            symbol.clear();
            symbol.push_str(name);
            symbol.push_str(suffix);
            kernels.contains(&symbol)
        };
        // Without a name there is no kernel, even if a symbol is called `_mix_aic`.
        let named = !name.is_empty();
        if !(named && (kernels.contains(name) || MIX_SUFFIXES.into_iter().any(&mut with_suffix))) {
            return Err(Refusal::Kernel {
                field: if meta.kernel_list.is_some() { "kernelList" } else { "kernelName" },
                expected: shown(name.as_bytes()),
                kernels: kernels.in_order().len(),
                found: kernels.in_order().iter().take(5).map(|name| shown(name)).collect(),
            });
        }
    }
    Ok(())
}
