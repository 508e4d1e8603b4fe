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

impl Expectations {
    /// The `e_machine` of AI cores. In no public list of machines.
    pub const ASCEND: u16 = 0x1029;
    /// The `e_machine` of x86-64.
    pub const X86_64: u16 = 62;
    /// The `e_machine` of AArch64, which AI CPUs are.
    pub const AARCH64: u16 = 183;

    /// Kernels that run on the host, whose `e_machine` is `machine`.
    pub fn host(target: impl Into<String>, machine: u16) -> Self {
        let (machines, magics) = (vec![machine], vec![Magic::Elf]);
        Self { target: target.into(), machines, magics, loader: Loader::Host }
    }

    /// What the target called `target` expects: `cpu` and `cpu-...` are this host, `aicpu` the AI CPUs, and names of
    /// chips such as `Ascend910B1` their AI cores. None for other names.
    pub fn named(target: &str) -> Option<Self> {
        let machine = if cfg!(target_arch = "aarch64") { Self::AARCH64 } else { Self::X86_64 };
        match target {
            "aicpu" => Some(Self::aicpu(target)),
            _ if target == "cpu" || target.starts_with("cpu-") => Some(Self::host(target, machine)),
            _ if target.starts_with("Ascend") => Some(Self::ascend(target)),
            _ => None,
        }
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
            (Self::ASCEND, _) => Some(Self::ascend("Ascend")),
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
        assert_eq!((loader("cpux"), loader("gpu"), loader("")), (None, None, None));
    }

    #[test]
    fn ai_cores_take_neither_raw_binaries_nor_those_of_ai_cpus() {
        use Magic::{Elf, ElfAicube, ElfAivec, FftsMixAic, FftsMixAiv};
        let magics = Expectations::ascend("Ascend910B1").magics;
        assert_eq!(magics, [Elf, ElfAivec, ElfAicube, FftsMixAic, FftsMixAiv]);
    }
}
