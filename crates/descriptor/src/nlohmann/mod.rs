//! JSON as `nlohmann::json` prints it, the library that MindSpore and AKG use: names hash its output.

pub(crate) mod dump;
pub(crate) mod grisu;
mod powers;
