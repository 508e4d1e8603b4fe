//! A chip in this machine: its name, and kernels loaded onto it.

pub(crate) mod acl_codes;
pub(crate) mod acl_error;
pub(crate) mod launch_plan;
pub(crate) mod loader;
pub(crate) mod runtime;
