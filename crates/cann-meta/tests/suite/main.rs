//! What the reader of a `.json` promises.

#[cfg(test)]
mod properties;
