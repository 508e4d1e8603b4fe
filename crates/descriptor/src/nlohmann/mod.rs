//! JSON in the format of `nlohmann::json`, the library of MindSpore and AKG: names hash its output.

pub(crate) mod dump;
pub(crate) mod grisu;
mod powers;
