//! What stored expectations promise.

#[cfg(test)]
mod expectations;
