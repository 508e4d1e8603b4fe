//! The object of a `.json`, or the objects of a fat binary.

use std::collections::HashMap;

use opkeep_artifact::ElfLayout;
use opkeep_cann_meta::KernelMeta;

use crate::cann::fat::{self, Fat};
use crate::elf::facts::{ElfFacts, Linkage};
use crate::elf::layout;
use crate::elf::sections::{self, InfoSections};
use crate::elf::{Elf, malformed};
use crate::expected::Expected;
use crate::findings::Findings;

/// The function that CANN calls in a host library to get the kernel it holds.
pub(crate) const GETTER: &str = "GetKernelBin";

/// The parsed contents of a file.
#[derive(Default)]
pub(crate) struct Objects<'a> {
    pub(crate) list: Vec<Elf<'a>>,
    /// The objects of a fat binary by key,
    by_key: HashMap<u64, usize>,
    /// and the position of the first kernel of each name.
    by_name: HashMap<&'a [u8], Place>,
    /// Whether some object was not read completely, so that a missing kernel may still exist.
    pub(crate) is_incomplete: bool,
}

/// The position of a kernel: the index of its object, and its index there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) object: usize,
    pub(crate) kernel: usize,
}

impl<'a> Objects<'a> {
    /// Reads each object as far as possible, with the functions that its loader finds.
    pub(crate) fn read(
        bytes: &'a [u8],
        meta: Option<&KernelMeta>,
        expect: &Expected<'_>,
        findings: &mut Findings,
    ) -> Self {
        let read = |bytes: &'a [u8], findings: &mut Findings| {
            let mut elf = Elf::read(bytes, findings)?;
            // Dynamic loaders and linkers accept a weak function if no other has its name.
            if expect.layout() != ElfLayout::Contiguous || sections::linkage(&elf) == Linkage::Part {
                elf.symbols.add_weak();
            }
            Some(elf)
        };
        if !meta.is_some_and(|meta| fat::is_fat(meta, bytes)) {
            let list: Vec<_> = read(bytes, findings).into_iter().collect();
            return Self { is_incomplete: list.iter().any(|elf| elf.is_incomplete), list, ..Self::default() };
        }
        match Fat::read(bytes) {
            Ok(fat) => {
                let count = fat.objects.len();
                let list: Vec<_> =
                    fat.objects.into_iter().filter_map(|bytes| read(bytes, findings)).collect();
                // After an unreadable object the indices shift, but the file is invalid in any case.
                let is_incomplete = list.len() < count || list.iter().any(|elf| elf.is_incomplete);
                let by_name = by_name(&list);
                Self { list, by_key: fat.by_key, by_name, is_incomplete }
            }
            Err(problem) => {
                malformed(bytes, findings, "table of the fat binary", problem);
                Self::default()
            }
        }
    }

    /// A kernel by its name; in a fat binary, the object with the key takes precedence.
    pub(crate) fn find(&self, name: &[u8], key: Option<u64>) -> Option<Place> {
        let keyed = key.and_then(|key| self.by_key.get(&key)).copied();
        let within = |object: usize| {
            let kernel = self.list.get(object)?.symbols.find(name)?;
            Some(Place { object, kernel })
        };
        within(keyed.unwrap_or_default()).or_else(|| self.by_name.get(name).copied())
    }

    /// All kernels, with their positions.
    pub(crate) fn kernels(&self) -> impl Iterator<Item = (Place, &'a [u8])> {
        self.list.iter().enumerate().flat_map(|(object, elf)| {
            let place = move |kernel| Place { object, kernel };
            elf.symbols.kernels.iter().enumerate().map(move |(at, kernel)| (place(at), kernel.name))
        })
    }

    /// Whether this is a host library that holds a kernel for the device.
    pub(crate) fn is_container(&self, meta: &KernelMeta, layout: ElfLayout) -> bool {
        layout == ElfLayout::SharedObject
            && meta.bin_file_suffix.as_deref() == Some(".so")
            && self.find(GETTER.as_bytes(), None).is_some()
    }

    /// The facts and the findings of each object.
    pub(crate) fn judge(&self, expect: &Expected<'_>, findings: &mut Findings) -> Vec<ElfFacts> {
        let judge = |elf: &Elf<'_>| {
            let info_sections = InfoSections::find(elf, findings);
            let facts = sections::facts(elf, &info_sections, findings);
            layout::judge(elf, &facts, &info_sections, expect, findings);
            facts
        };
        self.list.iter().map(judge).collect()
    }
}

fn by_name<'a>(list: &[Elf<'a>]) -> HashMap<&'a [u8], Place> {
    let mut by_name = HashMap::new();
    for (object, elf) in list.iter().enumerate() {
        for (at, kernel) in elf.symbols.kernels.iter().enumerate() {
            by_name.entry(kernel.name).or_insert(Place { object, kernel: at });
        }
    }
    by_name
}
