//! The store within one process. Tests that measure their process, or run as another one, are in `cases`.

#[path = "../common/mod.rs"]
mod common;

#[cfg(test)]
mod aging;
#[cfg(test)]
mod build_records;
#[cfg(test)]
mod calls;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod foreign;
#[cfg(test)]
mod format;
mod heads;
#[cfg(test)]
mod interleave;
#[cfg(test)]
mod last_use;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod lock_races;
#[cfg(test)]
mod many;
#[cfg(test)]
mod marks;
#[cfg(test)]
mod moved_lock;
#[cfg(test)]
mod one_read;
#[cfg(test)]
mod poison;
#[cfg(test)]
mod prune;
#[cfg(test)]
mod put;
#[cfg(test)]
mod repair;
#[cfg(test)]
mod size;
#[cfg(test)]
mod verify;
