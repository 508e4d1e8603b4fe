//! The name of the backend.

/// The backend's name: part of every key and path.
pub const NAME: &str = "ascend";
