//! The faulty disk, and objects that the test kit writes, read by independent readers.

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod fault;
#[cfg(test)]
mod goblin_reads;
#[cfg(test)]
mod opaque;
#[cfg(test)]
mod proxy;
#[cfg(test)]
mod readelf_reads;
#[cfg(test)]
mod signals;
#[cfg(test)]
mod written;
