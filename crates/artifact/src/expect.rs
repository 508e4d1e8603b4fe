//! What a target expects of its kernels.

use crate::Magic;

/// What a target expects of every kernel built for it. A backend states it, the validator checks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectations {
    /// The target, for messages: `cpu-x86_64`, `Ascend910B1`.
    pub target: String,
    /// The ELF `e_machine` values that the target loads.
    pub machines: Vec<u16>,
    /// The `magic` values that the target's loader takes.
    pub magics: Vec<Magic>,
    /// Who loads the object, which decides how it must be laid out.
    pub loader: Loader,
}

/// Who loads an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loader {
    /// The dynamic loader of this host.
    Host,
    /// The Ascend runtime: it copies the sections to an AI core as one piece, and neither relocates nor links.
    Ascend,
    /// The dynamic loader of the AI CPUs.
    Aicpu,
}

/// How the names of chips begin.
const CHIPS: [&str; 4] = ["Ascend", "AS31XM1X", "BS9SX2A", "MC61AM21A"];

/// The machine of a host, by what stands behind `cpu-`: the architecture may be followed by a level, such as `-v3`.
fn machine_of(kind: &str) -> u16 {
    if kind.starts_with("x86_64") {
        Expectations::X86_64
    } else if kind.starts_with("aarch64") || cfg!(target_arch = "aarch64") {
        Expectations::AARCH64
    } else {
        Expectations::X86_64
    }
}

/// Whether `name` begins with `start`, in capitals or not.
fn starts_with(name: &str, start: &str) -> bool {
    name.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start))
}

impl Expectations {
    /// The `e_machine` of AI cores. In no public list of machines.
    pub const ASCEND: u16 = 0x1029;
    /// What the target is called of which no more is known than that it is an Ascend chip.
    pub const ANY_ASCEND: &str = "Ascend";
    /// The `e_machine` of x86-64.
    pub const X86_64: u16 = 62;
    /// The `e_machine` of AArch64, which AI CPUs are.
    pub const AARCH64: u16 = 183;

    /// Kernels that run on the host, whose `e_machine` is `machine`.
    pub fn host(target: impl Into<String>, machine: u16) -> Self {
        let (machines, magics) = (vec![machine], vec![Magic::Elf]);
        Self { target: target.into(), machines, magics, loader: Loader::Host }
    }

    /// What the target called `target` expects: `cpu` and `cpu-native` are this host, `cpu-x86_64` and `cpu-aarch64` any
    /// such host, `aicpu` the AI CPUs, and names of chips such as `Ascend910B1`, in capitals or not, their AI cores. None
    /// for other names.
    pub fn named(target: &str) -> Option<Self> {
        if target == "aicpu" {
            return Some(Self::aicpu(target));
        }
        let host = target.strip_prefix("cpu-").or((target == "cpu").then_some(""));
        if let Some(kind) = host {
            return Some(Self::host(target, machine_of(kind)));
        }
        CHIPS.iter().any(|chip| starts_with(target, chip)).then(|| Self::ascend(target))
    }

    /// Kernels for the AI cores of an Ascend chip.
    pub fn ascend(target: impl Into<String>) -> Self {
        let magics = Magic::ALL.into_iter().filter(|magic| magic.is_elf() && *magic != Magic::ElfAicpu);
        Self {
            target: target.into(),
            machines: vec![Self::ASCEND],
            magics: magics.collect(),
            loader: Loader::Ascend,
        }
    }

    /// Kernels for the AI CPUs of an Ascend chip.
    pub fn aicpu(target: impl Into<String>) -> Self {
        let (machines, magics) = (vec![Self::AARCH64], vec![Magic::ElfAicpu]);
        Self { target: target.into(), machines, magics, loader: Loader::Aicpu }
    }

    /// What any kernel may be expected to be, where nothing is known of its target.
    pub fn any() -> Self {
        Self {
            target: "any target".to_owned(),
            machines: vec![Self::ASCEND, Self::AARCH64, Self::X86_64],
            magics: Magic::ALL.to_vec(),
            loader: Loader::Host,
        }
    }

    /// What may be expected of a kernel of which only the machine is known, and perhaps the magic: hosts and AI CPUs
    /// may have the same machine. None, if no kernels are built for that machine.
    pub fn for_machine(machine: u16, magic: Option<Magic>) -> Option<Self> {
        match (machine, magic) {
            (Self::ASCEND, _) => Some(Self::ascend(Self::ANY_ASCEND)),
            (Self::AARCH64, Some(Magic::ElfAicpu)) => Some(Self::aicpu("AI CPU")),
            (Self::AARCH64, _) => Some(Self::host("cpu-aarch64", machine)),
            (Self::X86_64, _) => Some(Self::host("cpu-x86_64", machine)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_machine_has_its_loader() {
        let guessed = |machine, magic| Expectations::for_machine(machine, magic);
        assert_eq!(guessed(0x1029, None), Some(Expectations::ascend("Ascend")));
        assert_eq!(guessed(62, Some(Magic::ElfAicpu)).unwrap().loader, Loader::Host);
        assert_eq!(guessed(183, Some(Magic::ElfAicpu)).unwrap().loader, Loader::Aicpu);
        assert_eq!(guessed(183, Some(Magic::Elf)).unwrap().loader, Loader::Host);
        assert_eq!(guessed(3, None), None);
    }

    #[test]
    fn targets_have_names() {
        let loader = |name| Expectations::named(name).map(|expect| expect.loader);
        assert_eq!(loader("cpu"), Some(Loader::Host));
        assert_eq!(loader("cpu-native"), Some(Loader::Host));
        assert_eq!(loader("aicpu"), Some(Loader::Aicpu));
        assert_eq!(loader("Ascend910B1"), Some(Loader::Ascend));
        for chip in ["ascend910b1", "ASCEND310P3", "AS31XM1X", "BS9SX2AA", "mc61am21ab"] {
            assert_eq!(loader(chip), Some(Loader::Ascend), "{chip}");
        }
        assert_eq!((loader("AS31"), loader("cpu_x86_64")), (None, None));
        let machine = |name| Expectations::named(name).unwrap().machines;
        assert_eq!((machine("cpu-x86_64"), machine("cpu-x86_64-v3")), (vec![62], vec![62]));
        assert_eq!((machine("cpu-aarch64"), machine("aicpu")), (vec![183], vec![183]));
        assert_eq!(machine("cpu"), machine("cpu-native"));
        assert_eq!((loader("cpux"), loader("gpu"), loader("")), (None, None, None));
    }

    #[test]
    fn ai_cores_take_neither_raw_binaries_nor_those_of_ai_cpus() {
        use Magic::{Elf, ElfAicube, ElfAivec, FftsMixAic, FftsMixAiv};
        let magics = Expectations::ascend("Ascend910B1").magics;
        assert_eq!(magics, [Elf, ElfAivec, ElfAicube, FftsMixAic, FftsMixAiv]);
    }
}
