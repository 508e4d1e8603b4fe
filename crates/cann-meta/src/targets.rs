//! Expectations of the built-in targets: hosts, AI cores and AI CPUs.

use std::collections::BTreeMap;

use opkeep_artifact::{CheckId, ElfLayout, ElfRules, Expectations, Format, MetadataRules};

use crate::Magic;

/// The check of the `.json` that CANN's compilers write.
pub const CHECK: &str = "cann-kernel-json";
/// The version of [`CHECK`].
pub const CHECK_VERSION: u32 = 1;
/// The parameter of [`CHECK`] that lists the `magic` values of a target, separated by spaces.
const MAGICS: &str = "magics";

/// The `e_machine` of AI cores, which no public list of machines contains.
pub const ASCEND: u16 = 0x1029;
/// The target name for an unspecified Ascend chip.
pub const ANY_ASCEND: &str = "Ascend";
/// The `e_machine` of x86-64.
pub const X86_64: u16 = 62;
/// The `e_machine` of AArch64, also that of AI CPUs.
pub const AARCH64: u16 = 183;

/// The name of an `e_machine` that kernels are built for.
pub const fn machine_name(machine: u16) -> Option<&'static str> {
    match machine {
        X86_64 => Some("x86-64"),
        AARCH64 => Some("AArch64"),
        190 => Some("CUDA"),
        224 => Some("AMDGPU"),
        // The name of Ascend's runtime.
        ASCEND => Some("Ascend (EM_HIIPU)"),
        _ => None,
    }
}

/// The prefix of chip names.
const CHIPS: [&str; 4] = ["Ascend", "AS31XM1X", "BS9SX2A", "MC61AM21A"];

/// Expectations of kernels with a CANN `.json`: one of `machines`, and one of `magics`.
pub fn cann_kernel(
    target: impl Into<String>,
    machines: impl Into<Vec<u16>>,
    layout: ElfLayout,
    magics: &[Magic],
) -> Expectations {
    let names: Vec<&str> = magics.iter().map(|magic| magic.name()).collect();
    let parameters = BTreeMap::from([(MAGICS.to_owned(), names.join(" "))]);
    let metadata = MetadataRules::Checked { check: CheckId::new(CHECK, CHECK_VERSION), parameters };
    Expectations::new(target, Format::Elf(ElfRules::new(machines, layout)), metadata)
}

/// The `magic` values in a target's expectations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Magics<'a> {
    /// Names, separated by spaces.
    names: &'a str,
}

impl<'a> Magics<'a> {
    /// Whether the target accepts kernels of this kind.
    pub fn contains(self, magic: Magic) -> bool {
        self.names.split(' ').any(|name| name == magic.name())
    }

    /// The known values, in the order of [`Magic::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Magic> + 'a {
        Magic::ALL.into_iter().filter(move |magic| self.contains(*magic))
    }
}

/// The `magic` values that a target accepts; `None` if its kernels have no CANN `.json` of a known version.
pub fn magics_of(expectations: &Expectations) -> Option<Magics<'_>> {
    let MetadataRules::Checked { check, parameters } = &expectations.metadata else { return None };
    let is_known = check.id == CHECK && check.version == CHECK_VERSION;
    let names = parameters.get(MAGICS).filter(|_| is_known)?;
    Some(Magics { names })
}

/// Whether kernels of the target are ELF objects with a CANN `.json` of a known version.
pub fn is_cann_kernel(expectations: &Expectations) -> bool {
    expectations.elf().is_some() && magics_of(expectations).is_some()
}

/// Whether the target has AI cores.
pub fn is_ai_core(expectations: &Expectations) -> bool {
    expectations.elf().is_some_and(|rules| rules.layout == ElfLayout::Contiguous)
}

/// The machine of a host, by the text after `cpu-`: `native` or an architecture, perhaps with a level such as `-v3`. `None`
/// for other architectures, whose kernels a backend of another origin builds.
fn machine_of(kind: &str) -> Option<u16> {
    match kind.split('-').next() {
        Some("" | "native") => Some(if cfg!(target_arch = "aarch64") { AARCH64 } else { X86_64 }),
        Some("x86_64") => Some(X86_64),
        Some("aarch64") => Some(AARCH64),
        _ => None,
    }
}

/// Whether `name` begins with `start`, ignoring case.
fn starts_with(name: &str, start: &str) -> bool {
    name.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start))
}

/// Kernels that run on the host, whose `e_machine` is `machine`.
pub fn host(target: impl Into<String>, machine: u16) -> Expectations {
    cann_kernel(target, [machine], ElfLayout::SharedObject, &[Magic::Elf])
}

/// Kernels for the AI cores of an Ascend chip.
pub fn ascend(target: impl Into<String>) -> Expectations {
    let magics: Vec<Magic> =
        Magic::ALL.into_iter().filter(|magic| magic.is_elf() && *magic != Magic::ElfAicpu).collect();
    cann_kernel(target, [ASCEND], ElfLayout::Contiguous, &magics)
}

/// Kernels for the AI CPUs of an Ascend chip.
pub fn aicpu(target: impl Into<String>) -> Expectations {
    cann_kernel(target, [AARCH64], ElfLayout::AicpuObject, &[Magic::ElfAicpu])
}

/// Expectations of a kernel with a CANN `.json` for an unknown target.
pub fn any() -> Expectations {
    cann_kernel("any target", [ASCEND, AARCH64, X86_64], ElfLayout::SharedObject, &Magic::ALL)
}

/// The expectations of the built-in target `target`: `cpu` and `cpu-native` are this host, `cpu-x86_64` and
/// `cpu-aarch64` any such host, `aicpu` the AI CPUs; chip names such as `Ascend910B1` (in any case) stand for their AI
/// cores. `None` for other names.
pub fn named(target: &str) -> Option<Expectations> {
    if target == "aicpu" {
        return Some(aicpu(target));
    }
    let kind = target.strip_prefix("cpu-").or((target == "cpu").then_some(""));
    if let Some(kind) = kind {
        return Some(host(target, machine_of(kind)?));
    }
    CHIPS.iter().any(|chip| starts_with(target, chip)).then(|| ascend(target))
}

/// Expectations of a kernel by its machine and, since hosts and AI CPUs may have the same machine, its magic if known.
/// `None` if no kernels are built for that machine.
pub fn for_machine(machine: u16, magic: Option<Magic>) -> Option<Expectations> {
    match (machine, magic) {
        (ASCEND, _) => Some(ascend(ANY_ASCEND)),
        (AARCH64, Some(Magic::ElfAicpu)) => Some(aicpu("AI CPU")),
        (AARCH64, _) => Some(host("cpu-aarch64", machine)),
        (X86_64, _) => Some(host("cpu-x86_64", machine)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use ElfLayout::{AicpuObject, Contiguous, SharedObject};

    use super::*;

    fn layout_of(expected: &Expectations) -> Option<ElfLayout> {
        expected.elf().map(|rules| rules.layout)
    }

    #[test]
    fn each_machine_has_its_loader() {
        let guessed = |machine, magic| for_machine(machine, magic);
        assert_eq!(guessed(0x1029, None), Some(ascend("Ascend")));
        assert_eq!(guessed(62, Some(Magic::ElfAicpu)).as_ref().and_then(layout_of), Some(SharedObject));
        assert_eq!(guessed(183, Some(Magic::ElfAicpu)).as_ref().and_then(layout_of), Some(AicpuObject));
        assert_eq!(guessed(183, Some(Magic::Elf)).as_ref().and_then(layout_of), Some(SharedObject));
        assert_eq!(guessed(3, None), None);
    }

    #[test]
    fn targets_have_names() {
        let loader = |name| named(name).as_ref().and_then(layout_of);
        assert_eq!(loader("cpu"), Some(SharedObject));
        assert_eq!(loader("cpu-native"), Some(SharedObject));
        assert_eq!(loader("aicpu"), Some(AicpuObject));
        assert_eq!(loader("Ascend910B1"), Some(Contiguous));
        for chip in ["ascend910b1", "ASCEND310P3", "AS31XM1X", "BS9SX2AA", "mc61am21ab"] {
            assert_eq!(loader(chip), Some(Contiguous), "{chip}");
        }
        assert_eq!((loader("AS31"), loader("cpu_x86_64")), (None, None));
        let machine = |name| named(name).unwrap().elf().unwrap().machines.clone();
        assert_eq!((machine("cpu-x86_64"), machine("cpu-x86_64-v3")), (vec![62], vec![62]));
        assert_eq!((machine("cpu-aarch64"), machine("aicpu")), (vec![183], vec![183]));
        assert_eq!(machine("cpu"), machine("cpu-native"));
        assert_eq!((loader("cpux"), loader("gpu"), loader("")), (None, None, None));
        for other in ["cpu-riscv64", "cpu-x86_64_v9", "cpu-nativ"] {
            assert_eq!(loader(other), None, "{other}");
        }
    }

    #[test]
    fn ai_cores_accept_neither_raw_binaries_nor_those_of_ai_cpus() {
        use Magic::{Elf, ElfAicube, ElfAivec, FftsMixAic, FftsMixAiv};
        let expected = ascend("Ascend910B1");
        let magics = magics_of(&expected).unwrap();
        assert_eq!(magics.iter().collect::<Vec<_>>(), [Elf, ElfAivec, ElfAicube, FftsMixAic, FftsMixAiv]);
    }
}
