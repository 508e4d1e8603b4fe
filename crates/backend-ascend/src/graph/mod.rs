//! Networks made to fit the toolkit's operators.

pub(crate) mod conversions;
pub(crate) mod dtype_compat;
pub(crate) mod function;
pub(crate) mod prepare;
pub(crate) mod select;
pub(crate) mod tensor_forms;
