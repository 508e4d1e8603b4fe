//! The limits of what is stored with a group, and shown in reports.

/// The longest text of a key or a record, in bytes: longer than the mangled name of a C++ template, and short enough for a
/// line of a report.
pub const MAX_TEXT_BYTES: usize = 4096;
/// The largest number of compilers in a key.
pub const MAX_TOOLCHAIN_PARTS: usize = 256;
