//! One compile, by either driver.

pub(crate) mod compile_output;
pub(crate) mod driver;
pub(crate) mod invocation;
pub(crate) mod options;
pub(crate) mod parameters;
pub(crate) mod ready;
