//! Caches of frameworks, and builds in their directories. Tests that start processes are in `cases`: between fork and exec a
//! child has all files of this process open, and open files are left alone.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/written_cache.rs"]
mod written_cache;

#[cfg(test)]
mod damage;
#[cfg(test)]
mod displaced;
#[cfg(test)]
mod fill;
#[cfg(test)]
mod fill_traces;
#[cfg(test)]
mod materialise;
#[cfg(test)]
mod meanwhile;
#[cfg(test)]
mod quarantine;
#[cfg(test)]
mod restore;
#[cfg(test)]
mod scan_chips;
#[cfg(test)]
mod scan_claims;
#[cfg(test)]
mod scan_input;
#[cfg(test)]
mod scan_names;
#[cfg(test)]
mod scene;
#[cfg(test)]
mod triton;
#[cfg(test)]
mod undone_builds;
