//! Tests of the engine. Tests that count the memory of the whole process, or run cargo, are in `cases`.

#[path = "../common/mod.rs"]
mod common;

#[cfg(test)]
mod activity;
#[cfg(test)]
mod crowd;
#[cfg(test)]
mod debug;
#[cfg(test)]
mod examples;
#[cfg(test)]
mod explain;
#[cfg(test)]
mod file_digests;
#[cfg(test)]
mod further;
#[cfg(test)]
mod import;
#[cfg(test)]
mod leftovers;
#[cfg(test)]
mod mutation;
#[cfg(test)]
mod network;
#[cfg(test)]
mod one;
#[cfg(test)]
mod other_formats;
#[cfg(test)]
mod promises;
#[cfg(test)]
mod ptx_backend;
#[cfg(test)]
mod record;
#[cfg(test)]
mod remote;
#[cfg(test)]
mod reuse;
#[cfg(test)]
mod schedule;
#[cfg(test)]
mod stored;
#[cfg(test)]
mod trouble;
#[cfg(test)]
mod view;
