//! Builds in the directories of frameworks, as a caller sees them.

#[cfg(test)]
mod outdated;
#[cfg(test)]
mod scene;
