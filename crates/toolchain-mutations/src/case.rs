//! The definition of a case.

use std::io;
use std::path::PathBuf;

use super::place::Place;

/// One way to change a toolchain.
#[derive(Clone, Copy)]
pub(super) struct Case {
    pub(super) name: &'static str,
    /// The change and its way to the object, in a few words.
    pub(super) about: &'static str,
    pub(super) expect: Expect,
    /// The machine's features that it needs; without them the case shows as ignored.
    pub(super) needs: &'static [Need],
    /// The product may refuse this toolchain, or single kernels. Then nothing is compared, and the case is counted
    /// separately.
    pub(super) may_refuse: bool,
    /// An unchanged toolchain must reuse its kernels. False if compiling itself changes the toolchain.
    pub(super) reusable: bool,
    /// Whether the case can also start with the changed toolchain.
    pub(super) reversible: bool,
    /// Creates a toolchain in [`Place::root`] and returns the call of its driver. Two runs create the same bytes.
    pub(super) setup: fn(&Place) -> io::Result<Call>,
    /// Changes it. All new files are in [`Place::root`] or beside it.
    pub(super) change: fn(&Place, &mut Call) -> io::Result<()>,
}

/// The effect that a change may have on kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expect {
    /// It changes the code of at least one kernel, or a refusal. The harness checks that it does.
    Matters,
    /// It can matter, but perhaps not for these kernels: both a rebuild and the reuse of equal objects are right.
    MayMatter,
    /// No kernel can depend on it: everything must be reused.
    CannotMatter,
}

/// A requirement of a case on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// A program in `PATH`.
    Program(&'static str),
    /// A gcc whose files are at the places of its own releases, so that a copy of the tree works.
    GccTree,
    /// Clang with a small program and its libraries, as installed since LLVM 14.
    ClangTree,
    /// A Python that can also run the stand-in toolkit.
    Python,
    /// Static C library.
    StaticLibc,
    /// A kernel that lets programs use io_uring.
    Ring,
    /// A kernel with the system calls of 32-bit programs.
    Int80,
    /// The right to mount.
    Mounts,
    /// Root.
    Root,
    /// `user.*` attributes on the temporary directory's file system.
    Attributes,
    /// `--toolchain-input` and `OPKEEP_TOOLCHAIN_INPUTS`.
    ToolchainInput,
}

/// The call of `opkeep`: all differences from a plain `opkeep build`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Call {
    /// `CC`; unset if empty.
    pub(super) cc: String,
    /// Directories before those of the system in `PATH`.
    pub(super) path: Vec<String>,
    /// Further environment.
    pub(super) env: Vec<(&'static str, String)>,
    /// Further arguments.
    pub(super) args: Vec<String>,
    /// A working directory other than the store's.
    pub(super) cwd: Option<PathBuf>,
    /// A `TMPDIR` other than the store's.
    pub(super) tmp: Option<PathBuf>,
    /// A command that runs `opkeep` as its last arguments.
    pub(super) launcher: Vec<String>,
    /// Operators to build; all if empty. They are built in this order, each by its own process.
    pub(super) one_by_one: Vec<&'static str>,
}

impl Call {
    pub(super) fn cc(cc: impl Into<String>) -> Self {
        Self { cc: cc.into(), ..Self::default() }
    }

    pub(super) fn with_env(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.env.push((name, value.into()));
        self
    }

    pub(super) fn with_path(mut self, directory: impl Into<String>) -> Self {
        self.path.push(directory.into());
        self
    }

    pub(super) fn with_args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(|arg| (*arg).to_owned()));
        self
    }
}

/// The defaults of a change that matters.
pub(super) const MATTERS: Case = Case {
    name: "",
    about: "",
    expect: Expect::Matters,
    needs: &[],
    may_refuse: false,
    reusable: true,
    reversible: true,
    setup: |place| Ok(Call::cc(place.gcc()?)),
    change: |_, _| Ok(()),
};

/// The defaults of a change that may not show in these kernels.
pub(super) const MAY_MATTER: Case = Case { expect: Expect::MayMatter, ..MATTERS };

/// The defaults of a change that cannot matter.
pub(super) const HARMLESS: Case = Case { expect: Expect::CannotMatter, ..MATTERS };
