//! The sections with information about kernels, found by their names.

use object::LittleEndian as LE;
use object::elf;
use object::read::elf::SectionHeader as _;
use opkeep_text::counted;

use crate::cann::device;
use crate::code::Code;
use crate::display::shown;
use crate::elf::facts::{ElfFacts, ElfType, KernelFacts, Linkage};
use crate::elf::{Elf, malformed};
use crate::findings::Findings;
use crate::problem::KernelProblem;
use opkeep_cann_meta::{Architecture, Family};

/// The section that describes the whole object; those of its kernels append a dot and the kernel's name.
const META: &[u8] = b".ascend.meta";
/// The stack sizes that the runtime accepts.
const STACKS: [u64; 2] = [16384, 32768];
/// The largest number of kept lines of `.comment`,
const COMPILERS: usize = 8;

/// The bytes of the sections with information.
#[derive(Default)]
pub(crate) struct InfoSections<'a> {
    /// The index of `.text`.
    pub(crate) text: Option<usize>,
    /// Names of kernels, and the metadata of each.
    metas: Vec<(&'a [u8], &'a [u8])>,
    binary: Option<&'a [u8]>,
    stack: Option<&'a [u8]>,
    arguments: Option<&'a [u8]>,
    comment: Option<&'a [u8]>,
}

impl<'a> InfoSections<'a> {
    /// Reads all sections in one pass.
    pub(crate) fn find(elf: &Elf<'a>, findings: &mut Findings) -> Self {
        let mut info_sections = Self::default();
        // As for the names of symbols, the total length of shared names and contents is limited.
        let mut left = (elf.bytes.len(), elf.bytes.len());
        for (index, section) in elf.sections.enumerate().skip(1) {
            let name = match elf.sections.section_name(LE, section) {
                Ok(name) => name,
                Err(error) => {
                    malformed(elf.bytes, findings, format_args!("name of section {}", index.0), error);
                    continue;
                }
            };
            let Some(names) = left.0.checked_sub(name.len()) else {
                let problem = "exceed the length of the file";
                malformed(elf.bytes, findings, "names of sections", problem);
                break;
            };
            left.0 = names;
            if name == b".text" {
                info_sections.text.get_or_insert(index.0);
            }
            if !has_information(name) {
                continue;
            }
            // Sections outside the file have their own finding.
            let Ok(data) = section.data(LE, elf.bytes) else { continue };
            let Some(contents) = left.1.checked_sub(data.len()) else {
                malformed(elf.bytes, findings, "metadata sections", "exceed the length of the file");
                break;
            };
            left.1 = contents;
            info_sections.add(name, data);
        }
        info_sections
    }

    fn add(&mut self, name: &'a [u8], data: &'a [u8]) {
        match (name, name.strip_prefix(META).and_then(|rest| rest.strip_prefix(b"."))) {
            (_, Some(kernel)) => self.metas.push((kernel, data)),
            (META, _) => self.binary = Some(data),
            (b".ascend.stack.size.record", _) => self.stack = Some(data),
            (b"__CCE_KernelArgSize", _) => self.arguments = Some(data),
            _ => self.comment = Some(data),
        }
    }
}

fn has_information(name: &[u8]) -> bool {
    name.starts_with(META)
        || matches!(name, b".ascend.stack.size.record" | b"__CCE_KernelArgSize" | b".comment")
}

/// Decodes all information of the object. Undecodable data is a finding.
pub(crate) fn facts(elf: &Elf<'_>, info_sections: &InfoSections<'_>, findings: &mut Findings) -> ElfFacts {
    let mut kernels: Vec<KernelFacts> = elf.symbols.kernels.iter().map(|kernel| kernel.facts(elf)).collect();
    add_metadata(elf, info_sections, &mut kernels, findings);
    // The number of kernels of an incompletely read object is unknown.
    if let Some(record) = info_sections.arguments.filter(|_| !elf.is_incomplete) {
        add_argument_sizes(record, &mut kernels, findings);
    }
    ElfFacts {
        bytes: elf.bytes.len(),
        machine: elf.machine,
        elf_type: elf.elf_type(),
        flags: elf.flags,
        architecture: Architecture::from_flags(elf.machine.0, elf.flags),
        family: Family::of_header(elf.machine.0, elf.elf_type() == Some(ElfType::Relocatable), elf.flags),
        sections: elf.sections.len(),
        linkage: linkage(elf),
        compilers: info_sections.comment.map(compilers).unwrap_or_default(),
        stack_bytes: info_sections.stack.and_then(|record| stack(record, findings)),
        binary: info_sections.binary.map(|data| {
            let (meta, problem) = device::binary(data);
            report_problem(META, problem, findings);
            meta
        }),
        kernels,
    }
}

impl crate::elf::Kernel<'_> {
    fn facts(&self, elf: &Elf<'_>) -> KernelFacts {
        KernelFacts {
            name: String::from_utf8_lossy(self.name).into_owned(),
            offset: self.offset(elf),
            size: self.size,
            argument_bytes: None,
            meta: None,
        }
    }

    /// Its offset in its section. An address below the section's wraps around to an offset beyond any section.
    pub(crate) fn offset(&self, elf: &Elf<'_>) -> u64 {
        let section = elf.sections.section(object::SectionIndex(self.section));
        let address = section.map_or(0, |section| section.sh_addr(LE));
        self.value.wrapping_sub(address)
    }
}

/// A relocatable object is a part if a link step remains. Those of the first generation of chips are loaded without
/// one.
pub(crate) fn linkage(elf: &Elf<'_>) -> Linkage {
    let is_left = |section: &elf::SectionHeader64<LE>| match section.sh_type(LE) {
        elf::SHT_REL | elf::SHT_RELA => {
            let target = usize::try_from(section.sh_info(LE)).unwrap_or(usize::MAX);
            let target = elf.sections.section(object::SectionIndex(target));
            let loaded = target.is_ok_and(|target| target.sh_flags(LE).contains(elf::SHF_ALLOC));
            section.sh_size(LE) > 0 && loaded
        }
        elf::SHT_GROUP => true,
        _ => false,
    };
    let relocatable = elf.e_type == elf::ET_REL.0;
    if relocatable && (elf.symbols.undefined > 0 || elf.sections.iter().any(is_left)) {
        Linkage::Part
    } else {
        Linkage::Final
    }
}

fn add_metadata(
    elf: &Elf<'_>,
    info_sections: &InfoSections<'_>,
    kernels: &mut [KernelFacts],
    findings: &mut Findings,
) {
    for (name, data) in &info_sections.metas {
        let Some(at) = elf.symbols.find(name) else {
            if !elf.is_incomplete {
                findings
                    .add(Code::STRAY_METADATA, || KernelProblem::StrayMetadata { section: section_of(name) });
            }
            continue;
        };
        let (meta, problem) = device::kernel(data);
        let again = kernels[at].meta.replace(meta).map(|_| "a repeated section".to_owned());
        if let Some(problem) = problem.or(again) {
            let section = section_of(name);
            findings.add(Code::METADATA, || KernelProblem::Metadata { section, problem });
        }
    }
    let without = kernels.iter().filter(|kernel| kernel.meta.is_none()).count();
    if without > 0 && without < kernels.len() {
        let first = kernels.iter().find(|kernel| kernel.meta.is_none());
        let kernel = first.map(|kernel| shown(kernel.name.as_bytes())).unwrap_or_default();
        let kernels = kernels.len();
        findings.add(Code::NO_METADATA, || KernelProblem::NoMetadata { kernel, without, kernels });
    }
}

fn section_of(kernel: &[u8]) -> String {
    format!(".ascend.meta.{}", shown(kernel))
}

fn report_problem(section: &[u8], problem: Option<String>, findings: &mut Findings) {
    if let Some(problem) = problem {
        findings.add(Code::METADATA, || KernelProblem::Metadata { section: shown(section), problem });
    }
}

/// One number for each kernel, in their order.
fn add_argument_sizes(record: &[u8], kernels: &mut [KernelFacts], findings: &mut Findings) {
    let (sizes, rest) = record.as_chunks::<4>();
    if sizes.len() != kernels.len() || !rest.is_empty() {
        let (expected, found) = (4 * kernels.len(), record.len());
        return findings.add(Code::ARGUMENT_RECORD, || KernelProblem::ArgumentRecord { expected, found });
    }
    for (kernel, size) in kernels.iter_mut().zip(sizes) {
        kernel.argument_bytes = Some(u32::from_le_bytes(*size));
    }
}

/// The stack size, if all records agree on one that the runtime accepts.
fn stack(record: &[u8], findings: &mut Findings) -> Option<u64> {
    let (sizes, rest) = record.as_chunks::<8>();
    let first = sizes.first().map(|size| u64::from_le_bytes(*size));
    let agree = rest.is_empty() && sizes.iter().all(|size| Some(u64::from_le_bytes(*size)) == first);
    if agree && first.is_some_and(|size| STACKS.contains(&size)) {
        return first;
    }
    findings.add(Code::STACK_RECORD, || {
        let shown: Vec<String> =
            sizes.iter().take(4).map(|size| u64::from_le_bytes(*size).to_string()).collect();
        KernelProblem::StackRecord {
            found: format!("{} in {}", shown.join(", "), counted(record.len(), "byte")),
        }
    });
    None
}

/// Zero-terminated texts, without repetitions.
fn compilers(comment: &[u8]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for text in comment.split(|byte| *byte == 0).filter(|text| !text.is_empty()).take(COMPILERS) {
        let text = shown(text);
        if !found.contains(&text) {
            found.push(text);
        }
    }
    found
}
