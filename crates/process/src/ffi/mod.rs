//! The only `unsafe` code of this crate: the steps of a child before its program starts, and the system calls of
//! seccomp.
#![expect(
    unsafe_code,
    reason = "a child is confined between fork and exec, and no crate wraps seccomp's user notification"
)]

mod before_exec;
mod calls;
mod notify;
mod system_call;

pub(crate) use before_exec::{BeforeExec, KeptDescriptors, before_exec};
pub use system_call::landlock_abi;

pub(crate) use calls::Call;
pub(crate) use notify::{Listener, Received, Wait, Waiting, can_listen};
