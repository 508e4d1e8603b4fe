//! Properties of the reader of a `.json`.

#[cfg(test)]
mod properties;
