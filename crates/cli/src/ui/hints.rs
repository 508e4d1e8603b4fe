//! Hints: the arguments of this command that help with an error. Errors of libraries name no arguments.

use std::path::Path;

use opkeep::{BuildError, KernelError, LeftReason, ViewError, WarningKind};
use opkeep_backend::{BackendError, ToolKind};
use opkeep_cache::{CacheError, NothingSent, RemoteError};
use opkeep_framework_cache::fill::{DeviceError, UnfilledReason};
use opkeep_framework_cache::quarantine::RepairError;
use opkeep_framework_cache::scan::find;
use opkeep_onnx::{ModelError, OnnxError};
use opkeep_store::StoreError;
use opkeep_tensors::TensorError;
use opkeep_trust::TrustError;

use crate::config::ConfigError;
use crate::ui::env::{self, RemoteNotWritten};
use crate::ui::text::{counted, quoted_path};

/// Returns the hints for `error` and its causes, each a sentence.
pub(crate) fn hints(error: &anyhow::Error) -> Vec<String> {
    let mut hints = Vec::new();
    for cause in error.chain() {
        let hint = if let Some(error) = cause.downcast_ref() {
            of_store(error)
        } else if let Some(error) = cause.downcast_ref() {
            of_build(error)
        } else if let Some(error) = cause.downcast_ref() {
            of_view(error)
        } else if let Some(error) = cause.downcast_ref() {
            of_backend(error)
        } else if let Some(error) = cause.downcast_ref() {
            of_repair(error)
        } else if let Some(error) = cause.downcast_ref() {
            of_trust(error)
        } else if let Some(error) = cause.downcast_ref() {
            of_remote(error)
        } else if let Some(RemoteNotWritten) = cause.downcast_ref() {
            Some(format!("`env {}=read-write opkeep remote push ...` sends kernels", env::REMOTE_MODE))
        } else if let Some(reason) = cause.downcast_ref() {
            of_nothing_sent(reason)
        } else if let Some(error) = cause.downcast_ref::<ConfigError>() {
            error.help()
        } else if let Some(OnnxError::Model(error)) = cause.downcast_ref() {
            of_model(error)
        } else {
            None
        };
        hints.extend(hint.filter(|hint| !hints.contains(hint)));
    }
    hints
}

/// How Triton gets to the store.
pub(crate) const TRITON_MANAGER: &str =
    "with TRITON_CACHE_MANAGER=opkeep.triton:CacheManager, Triton keeps its kernels in the store";

pub(crate) const OTHER_STORE: &str = "--op_compiler_cache_dir DIR or OPKEEP_CACHE_DIR chooses another store";

const CREATES_STORE: &str = "a build with --op_compiler_cache_mode enable creates a store";

fn of_store(error: &StoreError) -> Option<String> {
    match error {
        StoreError::Untrusted { owner: Some(owner), .. } => {
            Some(format!("--trusted-owner {owner} trusts that user; {OTHER_STORE}"))
        }
        StoreError::NotADirectory { .. }
        | StoreError::Foreign { .. }
        | StoreError::Untrusted { .. }
        | StoreError::InKernelCache { .. } => Some(OTHER_STORE.to_owned()),
        StoreError::NoStore { .. } => Some(format!("{CREATES_STORE}; {OTHER_STORE}")),
        _ => None,
    }
}

fn of_nothing_sent(reason: &NothingSent) -> Option<String> {
    match reason {
        NothingSent::NoSigningKey => Some("--sign-key FILE signs what this host compiled".to_owned()),
        NothingSent::StoreNotWritten => Some(OTHER_STORE.to_owned()),
        _ => None,
    }
}

fn of_build(error: &BuildError) -> Option<String> {
    match error {
        BuildError::Cache(CacheError::NoStore { .. }) => Some(format!("{CREATES_STORE}; {OTHER_STORE}")),
        BuildError::Backend(error) => of_backend(error),
        BuildError::ViewInStore { .. } => {
            let view = "--kernel-meta DIR or MS_COMPILER_CACHE_PATH chooses another directory for kernels";
            Some(format!("{view}; {OTHER_STORE}"))
        }
        _ => None,
    }
}

/// What runs kernels where this program cannot.
const DYNAMIC_COMMAND: &str = "a dynamically linked opkeep (from a Debian package, pip or cargo) runs kernels, and takes them from \
     the same store";

fn of_backend(error: &BackendError) -> Option<String> {
    match error {
        BackendError::UnkeyedRead { .. } => Some(
            "--toolchain-input PATH or OPKEEP_TOOLCHAIN_INPUTS declares an input of the toolchain".to_owned(),
        ),
        BackendError::Toolchain { tool: Some(tool), .. } if tool.kind == ToolKind::Compiler => {
            Some("`compiler.cc` in opkeep.toml also names a compiler".to_owned())
        }
        BackendError::StaticProgram => Some(DYNAMIC_COMMAND.to_owned()),
        _ => None,
    }
}

const OTHER_WORK_DIR: &str = "TMPDIR chooses another directory for compilers";

pub(crate) fn of_kernel(error: &KernelError) -> Option<String> {
    match error {
        KernelError::Backend(error) => of_backend(error),
        KernelError::WorkDir { .. } => Some(OTHER_WORK_DIR.to_owned()),
        _ => None,
    }
}

pub(crate) const OTHER_VIEW: &str =
    "--kernel-meta DIR or MS_COMPILER_CACHE_PATH chooses another directory, --no-kernel-meta none";

pub(crate) fn of_view(error: &ViewError) -> Option<String> {
    match error {
        ViewError::NotADirectory { .. } | ViewError::NotWritable { .. } | ViewError::Io { .. } => {
            Some(OTHER_VIEW.to_owned())
        }
        _ => None,
    }
}

/// Returns the hint for a warning of a build. No argument helps with the other kinds of warnings.
pub(crate) fn of_warning(kind: WarningKind) -> Option<&'static str> {
    match kind {
        WarningKind::Store | WarningKind::Write => Some(OTHER_STORE),
        WarningKind::WorkDir => Some(OTHER_WORK_DIR),
        WarningKind::View | WarningKind::ViewDirectory => Some(OTHER_VIEW),
        _ => None,
    }
}

/// Returns the reason with its hint.
pub(crate) fn unfilled_reason(reason: &UnfilledReason) -> String {
    let hint = match reason {
        UnfilledReason::UnknownDevice {
            error:
                DeviceError::Contradicted { rank, .. }
                | DeviceError::Ambiguous { rank, .. }
                | DeviceError::Unknown { rank },
            ..
        } => format!("--device-map {rank}=DEVICE states it"),
        UnfilledReason::OtherNames { .. } => {
            "`opkeep build` writes its own kernels where they are missing".to_owned()
        }
        _ => return reason.to_string(),
    };
    format!("{reason}; {hint}")
}

/// Returns the hint for a kernel that a build did not write to `directory`.
pub(crate) fn left_kernel(reason: &LeftReason, directory: &Path) -> String {
    const ELSEWHERE: &str = "--kernel-meta DIR writes to another directory, --no-kernel-meta to none";
    // A repair recognises caches by their names.
    let is_repairable = || find(directory).is_ok_and(|found| !found.caches.is_empty());
    match reason {
        LeftReason::InProgress(_) | LeftReason::Changed { .. } => "run it again when that is done".to_owned(),
        LeftReason::Unreadable { .. } => "run it as the user who owns the file".to_owned(),
        LeftReason::NotAFile { .. } | LeftReason::NotQuarantined { .. } => ELSEWHERE.to_owned(),
        LeftReason::Release => format!(
            "{ELSEWHERE}; --replace replaces it, until a build without debug options writes the release again"
        ),
        LeftReason::ForeignDirectory { is_changed: true, .. } => match is_repairable() {
            true => format!(
                "`opkeep repair {}` quarantines it if it is damaged; {ELSEWHERE}",
                quoted_path(directory)
            ),
            false => format!("delete it if it is damaged; {ELSEWHERE}"),
        },
        _ => format!("{ELSEWHERE}; --replace replaces it, and `opkeep repair --undo` restores it"),
    }
}

fn of_repair(error: &RepairError) -> Option<String> {
    match error {
        RepairError::MountPoint { path } => {
            Some(format!("`opkeep verify {}` names what is damaged", quoted_path(path)))
        }
        _ => None,
    }
}

/// Returns the error with its hint.
pub(crate) fn repair_error(error: &RepairError) -> String {
    match of_repair(error) {
        Some(hint) => format!("{error}; {hint}"),
        None => error.to_string(),
    }
}

/// Returns the error of a model's inputs with its hint.
pub(crate) fn input_error(error: TensorError) -> anyhow::Error {
    match error {
        TensorError::TooManyValues { count, inputs, given } => anyhow::anyhow!(
            "the network has {} ({inputs}), and --input-values was given {}; give it once for each",
            counted(count, "input"),
            counted(given, "time")
        ),
        TensorError::MissingInputs { .. } => anyhow::anyhow!(
            "{error}; give them with --input FILE (.pb or .npy) or --input-values, or generate them with --input-fill ramp \
             or --input-fill random:SEED"
        ),
        _ => error.into(),
    }
}

/// Returns the command that makes a file with keys acceptable. That of another user is not this user's to change.
fn of_remote(error: &RemoteError) -> Option<String> {
    match error {
        RemoteError::Unsupported { .. } => {
            Some("the server deletes kernels by limits of its own; docs/remote.md describes them".to_owned())
        }
        _ => None,
    }
}

fn of_trust(error: &TrustError) -> Option<String> {
    match error {
        TrustError::NotPrivate { path, owner, user, .. } if owner == user => {
            Some(format!("`chmod 600 {}` ends the access of other users", quoted_path(path)))
        }
        TrustError::Writable { path, owner, user, .. } if owner == user => {
            Some(format!("`chmod go-w {}` ends the access of other users", quoted_path(path)))
        }
        error if error.is_secret_key() => {
            Some("`opkeep key show FILE` prints the public key of a secret key's file".to_owned())
        }
        _ => None,
    }
}

fn of_model(error: &ModelError) -> Option<String> {
    match error {
        ModelError::Dims { .. } => Some("--dim NAME=SIZE gives a dimension its size".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repair_names_the_arguments_that_help() {
        let unknown = DeviceError::Unknown { rank: "3".to_owned() };
        let reason = unfilled_reason(&UnfilledReason::UnknownDevice { lacking: 6, error: unknown });
        assert!(reason.ends_with("RANK_ID is no device; --device-map 3=DEVICE states it"), "{reason}");
        let files = [(1, "a_1.o".to_owned()), (2, "b_2.o".to_owned())];
        let ambiguous = DeviceError::Ambiguous { rank: "3".to_owned(), files };
        let reason = unfilled_reason(&UnfilledReason::UnknownDevice { lacking: 6, error: ambiguous });
        assert!(
            reason.contains("`a_1.o` names 1, `b_2.o` names 2") && reason.contains("3=DEVICE"),
            "{reason}"
        );
        let others = UnfilledReason::OtherNames { count: 1, example: "op".to_owned() };
        assert!(unfilled_reason(&others).contains("`opkeep build`"));
        let base = "run".into();
        let unscanned = UnfilledReason::UnknownDevice { lacking: 1, error: DeviceError::Unscanned { base } };
        assert_eq!(unfilled_reason(&unscanned), unscanned.to_string());

        let mount = RepairError::MountPoint { path: "cache".into() };
        assert!(repair_error(&mount).ends_with("; `opkeep verify cache` names what is damaged"));
        assert_eq!(hints(&mount.into()), ["`opkeep verify cache` names what is damaged"]);
        let locked = RepairError::Locked { lock: "lock".into() };
        assert_eq!(repair_error(&locked), locked.to_string());
    }
}
