//! Tests of caches that start other programs.

#[path = "../common/mod.rs"]
mod common;

#[cfg(test)]
mod displaced;
#[cfg(test)]
mod foreign;
#[cfg(test)]
mod meanwhile;
#[cfg(test)]
mod scan;
#[cfg(test)]
mod scan_input;
#[cfg(test)]
mod scene;
#[cfg(test)]
mod undone_builds;
