//! In which order kernels are built, how many compilers run at once, and how builds that force share the work.

mod build;
pub(crate) mod compile_times;
pub(crate) mod force_group;
pub(crate) mod job_tokens;
pub(crate) mod queue;
