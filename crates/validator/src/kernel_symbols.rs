//! The check `kernel-symbols`: an ELF object defines the kernel that its JSON metadata name, as the loader of the
//! target needs it. The rules are parameters, so that expectations of any vendor's objects are data:
//!
//! | parameter | value |
//! |---|---|
//! | `name-field` | the field of the metadata that has the kernel's name |
//! | `elf-type` | `relocatable`, `executable` or `shared` |
//! | `symbols` | the required symbols, separated by spaces: `NAME:TYPE`, then `:section=NAME` or `:bytes=N` or both |
//! | `flags` | optional: `EI_OSABI:MASK=VALUE`, separated by spaces: the required bits of `e_flags` for each `EI_OSABI` |
//!
//! In a NAME, `{}` once stands for the kernel's name. TYPE is `func` or `object`. Numbers are decimal, MASK and VALUE
//! hexadecimal with `0x`. Each symbol is defined in every symbol table of the object, and everywhere the same: global or
//! weak, visible, and within a section that is loaded and has bytes in the file; a function within an executable one. An
//! `EI_OSABI` that is not listed has unknown flags, which are accepted.

use std::collections::BTreeMap;
use std::fmt;

use object::LittleEndian as LE;
use object::elf;
use object::read::elf::{SectionHeader as _, Sym as _};
use opkeep_artifact::{CheckId, ElfRules, Expectations, Format, MetadataRules};
use opkeep_text::counted;
use serde::Deserializer as _;
use serde::de::{IgnoredAny, MapAccess, Visitor};

use crate::code::Code;
use crate::display::shown;
use crate::elf::facts::{ElfType, Flags};
use crate::elf::{Elf, NamedSymbol, is_visible, malformed};
use crate::findings::Findings;
use crate::problem::{DescriptionProblem, KernelProblem, ObjectProblem};

/// The name of the check.
const CHECK: &str = "kernel-symbols";
/// The version of the check.
const CHECK_VERSION: u32 = 1;
/// The names of its parameters.
pub(crate) const NAME_FIELD: &str = "name-field";
pub(crate) const ELF_TYPE: &str = "elf-type";
pub(crate) const SYMBOLS: &str = "symbols";
pub(crate) const FLAGS: &str = "flags";

/// The largest number of required symbols, so that time is linear in the sizes of object and metadata.
const MAX_SYMBOLS: usize = 8;
/// The largest number of kernels that a finding names.
const SHOWN: usize = 5;
/// The place of the kernel's name in that of a symbol or section.
const NAME: &str = "{}";
/// The offset of `EI_OSABI`.
const OS_ABI: usize = 7;

/// Expectations with the check.
pub(crate) fn expectations(target: &str, elf: ElfRules, parameters: &[(&str, &str)]) -> Expectations {
    let parameters: BTreeMap<String, String> =
        opkeep_order::map(parameters.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())));
    let check = CheckId::new(CHECK, CHECK_VERSION);
    Expectations::new(target, Format::Elf(elf), MetadataRules::Checked { check, parameters })
}

/// The parameters of the check.
pub(crate) struct KernelSymbols<'a> {
    name_field: &'a str,
    elf_type: ElfType,
    symbols: Vec<SymbolRule<'a>>,
    flags: Vec<AbiFlags>,
}

/// A required symbol.
struct SymbolRule<'a> {
    name: &'a str,
    is_function: bool,
    section: Option<&'a str>,
    bytes: Option<u64>,
}

/// The required bits of `e_flags` for an `EI_OSABI`.
struct AbiFlags {
    os_abi: u8,
    mask: u32,
    value: u32,
}

impl<'a> KernelSymbols<'a> {
    /// `None` if another check is required, or this one in another version, with unknown parameters, or for an object
    /// that is no ELF file.
    pub(crate) fn of(expectations: &'a Expectations) -> Option<Self> {
        let MetadataRules::Checked { check, parameters } = &expectations.metadata else { return None };
        if check.id != CHECK || check.version != CHECK_VERSION {
            return None;
        }
        expectations.elf()?;
        let (mut name_field, mut elf_type, mut symbols, mut flags) = (None, None, Vec::new(), Vec::new());
        for (parameter, value) in parameters {
            match parameter.as_str() {
                NAME_FIELD => name_field = Some(value.as_str()),
                ELF_TYPE => elf_type = Some(elf_type_of(value)?),
                SYMBOLS => symbols = value.split(' ').map(SymbolRule::parse).collect::<Option<_>>()?,
                FLAGS => flags = value.split(' ').map(AbiFlags::parse).collect::<Option<_>>()?,
                _ => return None,
            }
        }
        Some(Self { name_field: name_field?, elf_type: elf_type?, symbols, flags })
            .filter(|rules| (1..=MAX_SYMBOLS).contains(&rules.symbols.len()))
    }

    /// The kernel's name in the metadata.
    pub(crate) fn kernel_name(&self, metadata: &[u8], findings: &mut Findings) -> Option<String> {
        let mut json = serde_json::Deserializer::from_slice(metadata);
        let read = json.deserialize_map(KernelName(self.name_field));
        let found = match read.and_then(|name| json.end().map(|()| name)) {
            Ok(Some(name)) if !name.is_empty() => return Some(name),
            Ok(name) => name.map(|_| "an empty text".to_owned()),
            Err(error) if error.is_data() => Some(shown(error.to_string().as_bytes())),
            Err(error) => {
                findings.add(Code::FIELD, || DescriptionProblem::no_json(&error));
                return None;
            }
        };
        let code = if found.is_none() { Code::MISSING } else { Code::FIELD };
        let field = shown(self.name_field.as_bytes());
        findings.add(code, || DescriptionProblem::KernelName { field, found });
        None
    }

    /// Checks an object for the target's machine, whose kernel is called `kernel`.
    pub(crate) fn judge(&self, elf: &Elf<'_>, target: &str, kernel: Option<&str>, findings: &mut Findings) {
        if elf.elf_type() != Some(self.elf_type) {
            let expected = match self.elf_type {
                ElfType::Relocatable => "1 (relocatable)",
                ElfType::Executable => "2 (executable)",
                ElfType::Shared => "3 (shared object)",
            };
            findings.add(Code::TYPE, || ObjectProblem::Type { expected, found: elf.e_type });
        }
        elf.check_segments(findings);
        self.check_flags(elf, target, findings);
        let Some(kernel) = kernel else { return };
        let names: Vec<String> = self.symbols.iter().map(|rule| rule.name.replace(NAME, kernel)).collect();
        let is_global = |symbol: &elf::Sym64<LE>| symbol.st_bind() != elf::STB_LOCAL;
        let is_required = |name: &[u8]| names.iter().any(|required| required.as_bytes() == name);
        let symbols = match elf.named_symbols(is_global, is_required) {
            Ok(symbols) => symbols,
            Err(problem) => return malformed(elf.bytes, findings, "symbol tables", problem),
        };
        for (rule, name) in self.symbols.iter().zip(&names) {
            rule.check(elf, (self.name_field, kernel), name, &symbols, findings);
        }
    }

    fn check_flags(&self, elf: &Elf<'_>, target: &str, findings: &mut Findings) {
        let os_abi = elf.bytes.get(OS_ABI).copied();
        for AbiFlags { mask, value, .. } in self.flags.iter().filter(|flags| Some(flags.os_abi) == os_abi) {
            if elf.flags & mask != *value {
                findings.add(Code::FLAGS, || ObjectProblem::Flags {
                    target: target.to_owned(),
                    mask: *mask,
                    expected: vec![Flags(*value)],
                    found: elf.flags,
                });
            }
        }
    }
}

/// Reads one field of a JSON object, which may be long, and keeps nothing of the others.
struct KernelName<'f>(&'f str);

impl<'de> Visitor<'de> for KernelName<'_> {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let mut name = None;
        while let Some(field) = fields.next_key::<String>()? {
            // As in other readers, the last of repeated fields counts.
            if field == self.0 {
                name = Some(fields.next_value()?);
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        Ok(name)
    }
}

fn elf_type_of(value: &str) -> Option<ElfType> {
    match value {
        "relocatable" => Some(ElfType::Relocatable),
        "executable" => Some(ElfType::Executable),
        "shared" => Some(ElfType::Shared),
        _ => None,
    }
}

impl AbiFlags {
    fn parse(text: &str) -> Option<Self> {
        let (os_abi, bits) = text.split_once(':')?;
        let (mask, value) = bits.split_once('=')?;
        let bits = |text: &str| u32::from_str_radix(text.strip_prefix("0x")?, 16).ok();
        Some(Self { os_abi: os_abi.parse().ok()?, mask: bits(mask)?, value: bits(value)? })
    }
}

impl<'a> SymbolRule<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(':');
        let name = parts.next().filter(|name| name.matches(NAME).count() == 1)?;
        let is_function = match parts.next()? {
            "func" => true,
            "object" => false,
            _ => return None,
        };
        let mut rule = Self { name, is_function, section: None, bytes: None };
        for part in parts {
            match part.split_once('=')? {
                ("section", name) if name.matches(NAME).count() < 2 => rule.section = Some(name),
                ("bytes", number) => rule.bytes = Some(number.parse().ok()?),
                _ => return None,
            }
        }
        Some(rule)
    }

    const fn kind(&self) -> &'static str {
        if self.is_function { "function" } else { "data object" }
    }

    /// Checks the symbol called `name` of the kernel that a field of the metadata names.
    fn check(
        &self,
        elf: &Elf<'_>,
        (field, kernel): (&str, &str),
        name: &str,
        symbols: &[NamedSymbol<'_>],
        findings: &mut Findings,
    ) {
        let defines = |symbol: &&NamedSymbol<'_>| {
            symbol.name == name.as_bytes() && symbol.symbol.st_shndx(LE) != elf::SHN_UNDEF
        };
        let found: Vec<_> = symbols.iter().filter(defines).collect();
        // Loaders differ in which of the two tables they read.
        let is_in = |table| {
            found.iter().any(|symbol| symbol.table == table)
                || !elf.sections.iter().any(|section| section.sh_type(LE) == table)
        };
        let ([first, others @ ..], true) =
            (found.as_slice(), is_in(elf::SHT_SYMTAB) && is_in(elf::SHT_DYNSYM))
        else {
            // A table that was not read completely has its own finding, and may define it.
            if !elf.is_incomplete {
                let kernels = &elf.symbols.kernels;
                findings.add(Code::KERNEL, || KernelProblem::NoSymbol {
                    field: shown(field.as_bytes()),
                    kind: self.kind(),
                    symbol: shown(name.as_bytes()),
                    kernels: kernels.len(),
                    found: kernels.iter().take(SHOWN).map(|kernel| shown(kernel.name)).collect(),
                });
            }
            return;
        };
        if others.iter().any(|other| !first.is_same(other)) {
            findings.add(Code::SYMBOL, || problem(name, "one definition", "several that differ"));
        }
        let section = self.section.map(|section| section.replace(NAME, kernel));
        self.check_symbol(elf, name, section, first, findings);
    }

    fn check_symbol(
        &self,
        elf: &Elf<'_>,
        name: &str,
        section_name: Option<String>,
        found: &NamedSymbol<'_>,
        findings: &mut Findings,
    ) {
        let symbol = found.symbol;
        let kind = if self.is_function { elf::STT_FUNC } else { elf::STT_OBJECT };
        let mut wrong = |expected: &str, found: &str| {
            findings.add(Code::SYMBOL, || problem(name, expected, found));
        };
        if symbol.st_type() != kind {
            wrong(&format!("a {}", self.kind()), &format!("type {}", symbol.st_type().0));
        }
        if !is_visible(symbol) {
            wrong("a visible symbol, global or weak", "another");
        }
        let (size, expected) = (symbol.st_size(LE), self.bytes);
        if expected.map_or(size == 0, |bytes| size != bytes) {
            let expected = expected.map_or("some bytes".to_owned(), |bytes| counted(bytes, "byte"));
            wrong(&expected, &size.to_string());
        }
        let section = found.section.and_then(|section| elf.sections.section(section).ok());
        let Some(section) = section else { return wrong("a symbol of a section", "one of none") };
        let flags = section.sh_flags(LE);
        let is_executable = flags.contains(elf::SHF_EXECINSTR) || !self.is_function;
        if section.sh_type(LE) != elf::SHT_PROGBITS || !flags.contains(elf::SHF_ALLOC) || !is_executable {
            let expected = if self.is_function { "a loaded, executable section" } else { "a loaded section" };
            wrong(
                &format!("{expected} with bytes in the file"),
                &format!("sh_type {:#x}, sh_flags {:#x}", section.sh_type(LE).0, flags.0),
            );
        }
        let own = elf.sections.section_name(LE, section).unwrap_or_default();
        if let Some(expected) = section_name.filter(|expected| expected.as_bytes() != own) {
            wrong(&format!("section `{}`", shown(expected.as_bytes())), &format!("`{}`", shown(own)));
        }
        let (offset, section_bytes) =
            (symbol.st_value(LE).wrapping_sub(section.sh_addr(LE)), section.sh_size(LE));
        if offset >= section_bytes || size > section_bytes - offset {
            let kernel = shown(name.as_bytes());
            findings.add(Code::KERNEL_RANGE, || KernelProblem::KernelRange {
                kernel,
                offset,
                size,
                section_bytes,
            });
        }
    }
}

fn problem(symbol: &str, expected: &str, found: &str) -> KernelProblem {
    KernelProblem::Symbol {
        symbol: shown(symbol.as_bytes()),
        expected: expected.to_owned(),
        found: found.to_owned(),
    }
}
