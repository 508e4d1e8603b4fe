//! What the engine promises. What measures times or memory has a process of its own.

#[path = "../common/mod.rs"]
mod common;

#[cfg(test)]
mod debug;
#[cfg(test)]
mod explain;
#[cfg(test)]
mod further;
#[cfg(test)]
mod leftovers;
#[cfg(test)]
mod memo;
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
mod remote;
#[cfg(test)]
mod reuse;
#[cfg(test)]
mod stored;
#[cfg(test)]
mod trouble;
#[cfg(test)]
mod view;
