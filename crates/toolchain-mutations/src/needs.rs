//! The requirements of cases that this machine meets.

use std::path::Path;
use std::process::Command;

use super::case::Need;
use super::disk;
use super::parts::Parts;
use super::system::{program, python, run};

/// Whether `opkeep` has `--toolchain-input` and `OPKEEP_TOOLCHAIN_INPUTS`: the cases of `declared.rs` are for them.
const TOOLCHAIN_INPUT: bool = true;

/// The features of this machine.
pub(super) struct Machine {
    gcc_tree: bool,
    clang_tree: bool,
    python: bool,
    static_libc: bool,
    ring: bool,
    int80: bool,
    mounts: bool,
    root: bool,
    attributes: bool,
}

impl Machine {
    /// Tries everything in `dir`.
    pub(super) fn new(dir: &Path, parts: &Parts) -> Self {
        let probe = dir.join("probe");
        let root = rustix::process::geteuid().is_root();
        Self {
            gcc_tree: parts.gcc_tree().is_ok(),
            clang_tree: parts.clang_tree().is_ok(),
            python: python().is_ok(),
            static_libc: parts.get("static_by_open").is_ok(),
            ring: works(dir, parts, "by_uring"),
            int80: works(dir, parts, "static_by_int80"),
            mounts: root && disk::directory(&probe).is_ok() && mounts(&probe),
            root,
            attributes: disk::write(&dir.join("attribute"), "").is_ok()
                && disk::set_attribute(&dir.join("attribute"), "user.mark", "1").is_ok(),
        }
    }

    /// The first of `needs` that is missing.
    pub(super) fn lacks(&self, needs: &[Need]) -> Option<String> {
        let missing = |need: &&Need| match need {
            Need::Program(name) => program(name).is_err(),
            Need::GccTree => !self.gcc_tree,
            Need::ClangTree => !self.clang_tree,
            Need::Python => !self.python,
            Need::Ring => !self.ring,
            Need::Int80 => !self.int80,
            Need::StaticLibc => !self.static_libc,
            Need::Mounts => !self.mounts,
            Need::Root => !self.root,
            Need::Attributes => !self.attributes,
            Need::ToolchainInput => !TOOLCHAIN_INPUT,
        };
        needs.iter().find(missing).map(|need| format!("needs {need:?}"))
    }
}

/// Whether a compiled driver works here.
fn works(dir: &Path, parts: &Parts, driver: &str) -> bool {
    let (copy, flags) = (dir.join("drivers").join(driver), dir.join("drivers/flags"));
    let laid =
        parts.get(driver).and_then(|part| disk::copy(&part, &copy)).and_then(|()| disk::write(&flags, "1"));
    laid.is_ok() && run(Command::new(&copy).arg("--version")).is_ok()
}

fn mounts(at: &Path) -> bool {
    let mounted = run(Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(at)).is_ok();
    mounted && run(Command::new("umount").arg(at)).is_ok()
}
