//! Files made to exhaust or mislead whoever reads them: each is refused or accepted, and costs what its size is worth.
//!
//! Memory is counted by the allocator and time by comparing inputs of two sizes, so tests that measure run alone.

#![expect(clippy::unwrap_used, reason = "helpers of tests are functions without the attribute")]

mod attacks;
mod bits;
mod cuts;
mod described;
mod overlapping;
mod scale;

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use opkeep_artifact::{ElfLayout, Expectations};
use opkeep_cann_meta::{Magic, targets};
use opkeep_digest::Digest;
use opkeep_testkit::Counting;
use opkeep_testkit::ascend::Pair;
use opkeep_validator::{Report, validate, validate_full, validate_object};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static MEASURING: RwLock<()> = RwLock::new(());

/// Holds up all other tests, which take memory and time too.
fn alone() -> RwLockWriteGuard<'static, ()> {
    MEASURING.write().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for tests that measure.
fn beside_others() -> RwLockReadGuard<'static, ()> {
    MEASURING.read().unwrap_or_else(PoisonError::into_inner)
}

/// Whether there is nothing but zeroes around a place: in a page between two sections, one is like the other.
fn is_blank(bytes: &[u8], at: usize) -> bool {
    bytes[at.saturating_sub(64)..bytes.len().min(at + 64)].iter().all(|byte| *byte == 0)
}

/// A `.json` and an object.
struct Files {
    json: Vec<u8>,
    object: Vec<u8>,
}

impl Files {
    /// An object whose `.json` has its digest and names one kernel.
    fn of(object: Vec<u8>, kernel: &str) -> Self {
        let digest = Digest::of(&object);
        let json = format!(
            r#"{{"binFileName": "k", "binFileSuffix": ".o", "blockDim": 1, "kernelName": "{kernel}",
                "magic": "RT_DEV_BINARY_MAGIC_ELF", "sha256": "{digest}"}}"#
        );
        Self { json: json.into_bytes(), object }
    }

    fn bytes(&self) -> usize {
        self.json.len() + self.object.len()
    }

    fn validate(&self) -> Report {
        validate(&self.json, &self.object, &expect())
    }

    fn validate_full(&self) -> Report {
        validate_full(&self.json, &self.object, &expect())
    }

    fn validate_object(&self) -> Report {
        validate_object(&self.object, None)
    }

    /// Everything that can be asked of them.
    fn ask(&self) {
        let asked = [self.validate(), self.validate_full(), self.validate_object()];
        for report in asked {
            assert_eq!(report.is_valid(), report.errors().next().is_none());
            report.findings.iter().for_each(|finding| drop(finding.to_string()));
        }
    }
}

impl From<Pair> for Files {
    fn from(pair: Pair) -> Self {
        Self { json: pair.json, object: pair.object }
    }
}

/// Anything that any of the files here is for.
fn expect() -> Expectations {
    let machines = [targets::ASCEND, targets::AARCH64];
    targets::cann_kernel(targets::ANY_ASCEND, machines, ElfLayout::Contiguous, &Magic::ALL)
}
