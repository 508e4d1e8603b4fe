//! Caches that frameworks wrote, and what is put there.
//!
//! What starts other processes is in `spawning`: between fork and exec a child has all files of this process open, and
//! files that are open are left alone.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/laid.rs"]
mod laid;

#[cfg(test)]
mod damage;
#[cfg(test)]
mod fill;
#[cfg(test)]
mod fill_traces;
#[cfg(test)]
mod materialise;
#[cfg(test)]
mod quarantine;
#[cfg(test)]
mod restore;
#[cfg(test)]
mod scan_chips;
#[cfg(test)]
mod scan_claims;
#[cfg(test)]
mod scan_names;
