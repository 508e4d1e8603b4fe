//! What is expected of a kernel, as the rules need it.

use opkeep_artifact::{ElfLayout, ElfRules, Expectations};
use opkeep_cann_meta::targets::{self, Magics};

/// What is expected of an ELF object with a CANN description.
pub(crate) struct Expected<'a> {
    pub(crate) target: &'a str,
    pub(crate) elf: &'a ElfRules,
    /// The `magic` values that the target takes.
    pub(crate) magics: Magics<'a>,
}

impl<'a> Expected<'a> {
    /// None, if kernels of the target are something else.
    pub(crate) fn of(expectations: &'a Expectations) -> Option<Self> {
        let (elf, magics) = (expectations.elf()?, targets::magics_of(expectations)?);
        Some(Self { target: &expectations.target, elf, magics })
    }

    /// The rules for the object, with no magic that is right. What is no ELF file has no rules here.
    pub(crate) fn without_magics(expectations: &'a Expectations) -> Self {
        static NONE: ElfRules = ElfRules::none();
        let elf = expectations.elf().unwrap_or(&NONE);
        Self { target: &expectations.target, elf, magics: Magics::default() }
    }

    pub(crate) fn layout(&self) -> ElfLayout {
        self.elf.layout
    }
}
