//! Files made to exhaust or mislead readers: each is refused or accepted, at a cost proportional to its size.
//!
//! Memory is counted by the allocator, and times of two sizes are compared, so tests that measure run alone.

mod attacks;
mod bits;
mod cuts;
mod described;
mod overlapping;
mod scale;

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use libtest_mimic::Trial;
use opkeep_artifact::{Artifact, ElfLayout, Expectations};
use opkeep_cann_meta::{Magic, targets};
use opkeep_digest::Digest;
use opkeep_testkit::Counting;
use opkeep_testkit::ascend::Pair;
use opkeep_testkit::patch;
use opkeep_validator::{Report, Validator, device_kernels, validate, validate_full, validate_object};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

macro_rules! trials {
    ($($module:ident::$test:ident,)*) => {
        vec![$(Trial::test(concat!("hostile::", stringify!($module), "::", stringify!($test)), || {
            $module::$test();
            Ok(())
        })),*]
    };
}

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        bits::a_flipped_bit_of_an_object_never_goes_unnoticed,
        bits::a_flipped_bit_of_an_object_is_no_surprise,
        bits::a_flipped_bit_of_a_description_is_no_surprise,
        cuts::a_cut_object_is_refused_twice,
        cuts::a_cut_object_with_its_own_digest_is_refused_too,
        cuts::a_truncated_description_is_refused,
        described::memory_is_bounded_by_the_descriptions_size,
        described::every_description_ends_in_a_verdict,
        described::depth_is_no_danger,
        described::many_names_are_found_among_many_kernels,
        described::many_keys_are_found_among_many_objects,
        described::a_table_of_one_object_costs_one_object,
        described::names_that_lead_elsewhere_are_refused,
        described::kernels_are_not_found_by_half_a_name,
        described::a_digest_of_something_else_is_no_digest,
        described::many_names_are_missing_in_many_objects,
        scale::the_smallest_attacks_are_attacks_too,
        scale::each_attack_has_its_findings,
        scale::memory_is_bounded_by_the_files_size,
        scale::time_grows_with_the_files_size,
        scale::there_may_be_a_million_symbols_and_sixty_thousand_sections,
    ]
}

static MEASURING: RwLock<()> = RwLock::new(());

/// Blocks all other tests, which also use memory and time.
fn alone() -> RwLockWriteGuard<'static, ()> {
    MEASURING.write().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for tests that measure.
pub(crate) fn beside_others() -> RwLockReadGuard<'static, ()> {
    MEASURING.read().unwrap_or_else(PoisonError::into_inner)
}

/// Whether only zeros surround an offset: in a page between two sections, offsets are equivalent.
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

    /// As an object of a GPU compiler.
    fn validate_device(&self, machine: u8, expect: &Expectations) -> Report {
        let mut object = self.object.clone();
        if object.len() > patch::header::MACHINE + 1 {
            patch::put(&mut object, patch::header::MACHINE, [machine, 0]);
        }
        drop(device_kernels(&object));
        let metadata = br#"{"name": "k"}"#.to_vec();
        Validator::builtin().validate(&Artifact { metadata, object, extra: Vec::new() }, expect)
    }

    /// All public functions that take them.
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

/// A target that one of these files is for.
fn expect() -> Expectations {
    let machines = [targets::ASCEND, targets::AARCH64];
    targets::cann_kernel(targets::ANY_ASCEND, machines, ElfLayout::Contiguous, &Magic::ALL)
}
