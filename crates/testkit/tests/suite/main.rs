//! The faulty disk, and the objects that the test kit writes, read by readers that had no part in writing them.

#[cfg(test)]
mod fault;
#[cfg(test)]
mod goblin_reads;
#[cfg(test)]
mod readelf_reads;
#[cfg(test)]
mod written;
