//! The judgement of existing files that have the name of a kernel that a view is to hold.

use std::path::Path;

use opkeep_cann_meta::targets;
use opkeep_descriptor::read_info;
use opkeep_fs::{Dir, FileRead, Fs};
use opkeep_kernel_meta::manifest::MAX_TEXT;
use opkeep_kernel_meta::{
    ForeignFiles, ForeignKernel, InUse, KernelFileKind, KernelFiles, LeftReason, QuarantineOutcome, Replaced,
    RunId,
};
use opkeep_validator::{ElfFacts, Machine, validate_object};

use crate::quarantine::replaced::quarantine_replaced;
use crate::scan::judge::MAX_OBJECT;
use crate::scan::{Item, ItemState, Orphan, judge_one};

/// Judges files with [`scan`](crate::scan), and moves replaced files to [`quarantine`](crate::quarantine).
#[derive(Clone, Copy, Debug, Default)]
pub struct FrameworkFiles;

impl ForeignFiles for FrameworkFiles {
    fn judge(&self, dir: &Dir, kernel: &KernelFiles<'_>, is_ours: bool) -> Result<String, LeftReason> {
        let mut bytes = Vec::new();
        let name = KernelFileKind::Object.of(kernel.stem);
        let is_read = matches!(dir.read(&name, MAX_OBJECT, &mut bytes), FileRead::Complete(_));
        let report = validate_object(if is_read { &bytes } else { &[] }, None);
        let facts = report.object.as_ref().filter(|_| is_read);
        let is_complete = is_read && report.is_valid();
        let foreign = || LeftReason::Foreign(foreign_kernel(facts, chip_beside(dir, kernel.stem)));
        let Some(item) = judge_one(dir, kernel.stem) else {
            return Err(LeftReason::Changed { file: name });
        };
        let problem = item.problem();
        let (state, in_use) = (&item.state, item.in_use);
        match state {
            // A kernel for another chip is not damaged.
            ItemState::Intact | ItemState::OtherChip(_) => return Err(foreign()),
            ItemState::Changing => return Err(LeftReason::Changed { file: name }),
            ItemState::Unreadable { file, problem } => {
                let (file, problem) = (file.clone(), problem.clone());
                return Err(LeftReason::Unreadable { file, problem });
            }
            ItemState::Damaged(_) | ItemState::Orphan(_) => {}
        }
        // If the bytes of the view's kernel cannot be loaded, the write reports the error.
        let new =
            kernel.load(KernelFileKind::Object).ok().and_then(|bytes| validate_object(&bytes, None).object);
        let other_chip = |found: &ElfFacts| new.as_ref().is_none_or(|new| differs(found, new));
        if is_complete && facts.is_some_and(other_chip) {
            return Err(foreign());
        }
        if let Some(in_use) = in_progress(&item, in_use, is_complete) {
            return Err(LeftReason::InProgress(in_use));
        }
        let machine = machine_of(&bytes).zip(new.map(|new| new.machine));
        let is_ours = is_ours && machine.is_none_or(|(found, new)| found == new);
        if !kernel.for_chip && !is_ours {
            return Err(LeftReason::DamagedForOther { problem });
        }
        Ok(problem)
    }

    fn descriptor_problem(&self, descriptor: &[u8]) -> Option<String> {
        read_info(descriptor).err().map(|error| format!("its descriptor is damaged: {error}"))
    }

    fn quarantine(
        &self,
        fs: &Fs,
        path: &Path,
        run: &RunId,
        sets: &[Replaced],
        force: bool,
    ) -> Result<QuarantineOutcome, String> {
        quarantine_replaced(fs, path, run, sets, force).map_err(|error| error.to_string())
    }
}

fn foreign_kernel(object: Option<&ElfFacts>, chip: Option<String>) -> ForeignKernel {
    let mut kernel = ForeignKernel::default();
    kernel.machine = object.map(|object| object.machine.to_string());
    kernel.flags = object.map(|object| object.flags);
    kernel.architecture = object.and_then(|object| object.architecture).map(|known| known.name());
    kernel.chip = chip;
    kernel
}

/// Returns the reason why a damaged item may be unfinished. A recent write counts only for a complete object without a
/// description: between the writes of the two files, no process has one open.
fn in_progress(item: &Item, in_use: Option<InUse>, is_complete: bool) -> Option<InUse> {
    let lacks_description = is_complete && matches!(item.state, ItemState::Orphan(Orphan::ObjectOnly));
    match in_use? {
        InUse::RecentlyWritten { .. } if !lacks_description => None,
        in_use => Some(in_use),
    }
}

/// Returns the chip that the descriptor beside a kernel names.
fn chip_beside(dir: &Dir, stem: &str) -> Option<String> {
    let mut bytes = Vec::new();
    match dir.read(KernelFileKind::Info.of(stem), MAX_TEXT, &mut bytes) {
        FileRead::Complete(_) => {
            read_info(&bytes).ok().map(|it| it.spec.target).filter(|chip| !chip.is_empty())
        }
        _ => None,
    }
}

/// Returns whether two objects are for different chips, by their headers.
fn differs(one: &ElfFacts, other: &ElfFacts) -> bool {
    // Kernels for the two kinds of cores of one chip are one family: `dav-c220-vec` and `dav-c220-cube`.
    let family = |facts: &ElfFacts| {
        let parts = facts.architecture.map(|known| known.name().splitn(3, '-').take(2));
        parts.map(|parts| parts.collect::<Vec<_>>())
    };
    one.machine != other.machine
        || family(one).zip(family(other)).is_some_and(|(one, other)| one != other)
        || one.machine.0 == targets::ASCEND && (one.flags == 0) != (other.flags == 0)
}

/// Returns the machine in the first bytes of an ELF file, which may be truncated.
fn machine_of(object: &[u8]) -> Option<Machine> {
    let head = object.get(..20).filter(|head| head.starts_with(b"\x7fELF"))?;
    Some(Machine(u16::from_le_bytes([head[18], head[19]])))
}
