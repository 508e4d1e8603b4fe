//! The cache within one process. Tests that start other processes are in `cases`.

#[path = "../common/mod.rs"]
mod common;

#[cfg(test)]
mod activity;
#[cfg(test)]
mod batches;
#[cfg(test)]
mod claims;
#[cfg(test)]
mod existing;
#[cfg(test)]
mod fetched_once;
#[cfg(test)]
mod hung;
#[cfg(test)]
mod interleave;
#[cfg(test)]
mod lease_waits;
#[cfg(test)]
mod leases;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod marks;
#[cfg(test)]
mod plan_bundles;
#[cfg(test)]
mod races;
#[cfg(test)]
mod remote;
mod signing;
#[cfg(test)]
mod trouble;
#[cfg(test)]
mod uploads;
