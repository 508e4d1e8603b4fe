//! A cache of CANN, and its collection. Tests that start processes are in `cases`: between fork and exec a child has all
//! files of this process open, and open files are not deleted.

#[path = "../common/mod.rs"]
mod common;

#[cfg(test)]
mod gc;
