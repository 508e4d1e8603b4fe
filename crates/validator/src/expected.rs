//! The expectations of a kernel, in the form of the rules.

use opkeep_artifact::{ElfLayout, ElfRules, Expectations};
use opkeep_cann_meta::targets::{self, Magics};

/// The expectations of an ELF object, and the magics of its CANN description if it has one.
pub(crate) struct Expected<'a> {
    pub(crate) target: &'a str,
    pub(crate) elf: &'a ElfRules,
    /// The `magic` values that the target accepts.
    pub(crate) magics: Magics<'a>,
}

impl<'a> Expected<'a> {
    /// `None` if kernels of the target have another form.
    pub(crate) fn of(expectations: &'a Expectations) -> Option<Self> {
        let (elf, magics) = (expectations.elf()?, targets::magics_of(expectations)?);
        Some(Self { target: &expectations.target, elf, magics })
    }

    /// The rules for an ELF object, with no accepted magic. `None` for other formats.
    pub(crate) fn without_magics(expectations: &'a Expectations) -> Self {
        static NONE: ElfRules = ElfRules::none();
        let elf = expectations.elf().unwrap_or(&NONE);
        Self { target: &expectations.target, elf, magics: Magics::default() }
    }

    pub(crate) fn layout(&self) -> ElfLayout {
        self.elf.layout
    }
}
