//! The toolkit: where it lies, its packages, chips and operators.

pub(crate) mod environment;
pub(crate) mod find;
pub(crate) mod fingerprint;
pub(crate) mod interpreter;
pub(crate) mod knowledge_bank;
pub(crate) mod ops_info;
pub(crate) mod platform;
pub(crate) mod vendors;
pub(crate) mod version;
