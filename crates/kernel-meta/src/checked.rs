//! The check of the kernels of one call against each other.

use std::collections::BTreeMap;

use crate::content::{KernelFiles, check_stem};
use crate::error::ViewError;
use crate::file_kind::KernelFileKind;

/// The kernels of one call, whose names are safe and whose files do not contradict each other.
#[derive(Debug)]
pub(crate) struct Checked<'a> {
    pub(crate) given: &'a [KernelFiles<'a>],
    /// The first kernel of each stem, in the given order.
    pub(crate) distinct: Vec<&'a KernelFiles<'a>>,
}

impl<'a> Checked<'a> {
    pub(crate) fn new(given: &'a [KernelFiles<'a>]) -> Result<Self, ViewError> {
        let mut first_of = BTreeMap::new();
        let mut distinct = Vec::with_capacity(given.len());
        for kernel in given {
            check_stem(kernel.stem)?;
            let first: &KernelFiles<'_> = first_of.entry(kernel.stem).or_insert_with(|| {
                distinct.push(kernel);
                kernel
            });
            for kind in KernelFileKind::ALL {
                let (first, second) = (first.content(kind).digest(), kernel.content(kind).digest());
                if first != second {
                    return Err(ViewError::Conflict { stem: kernel.stem.to_owned(), kind, first, second });
                }
            }
        }
        Ok(Self { given, distinct })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.given.is_empty()
    }

    /// Returns whether there are kernels, and none of them is for the chip that its descriptor names.
    pub(crate) fn are_all_for_other_chips(&self) -> bool {
        !self.is_empty() && self.given.iter().all(|kernel| !kernel.for_chip)
    }

    /// Returns the distinct kernels by stem.
    pub(crate) fn by_stem(&self) -> BTreeMap<&str, &KernelFiles<'a>> {
        self.distinct.iter().map(|kernel| (kernel.stem, *kernel)).collect()
    }
}
