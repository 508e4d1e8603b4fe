//! Namespaces, in which a process of this machine is a host of its own.

use std::process::{Command, Stdio};

/// Why a process cannot get namespaces of its own here, in which it has its own processes, mounts and name; `None` if it can.
pub fn namespaces_missing() -> Option<String> {
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc", "--uts", "true"]).current_dir("/");
    let tried = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let works = tried.is_ok_and(|status| status.success());
    (!works).then(|| "namespaces are not available; root has them on most machines".to_owned())
}
