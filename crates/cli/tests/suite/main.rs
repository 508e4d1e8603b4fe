//! The command, run as its users run it.

#[path = "../common/mod.rs"]
mod common;

#[cfg(test)]
mod bad_input;
#[cfg(test)]
mod book;
#[cfg(test)]
mod bundle;
mod bundle_files;
#[cfg(test)]
mod caches;
#[cfg(test)]
mod causes;
#[cfg(test)]
mod chips;
#[cfg(test)]
mod compilers;
#[cfg(test)]
mod completions;
#[cfg(test)]
mod config;
#[cfg(test)]
mod confined;
#[cfg(test)]
mod crowd;
#[cfg(test)]
mod debug;
#[cfg(test)]
mod diff;
#[cfg(test)]
mod doctor;
#[cfg(test)]
mod explain;
#[cfg(test)]
mod few_files;
#[cfg(test)]
mod file_limit;
#[cfg(test)]
mod foreign_dirs;
#[cfg(test)]
mod gc_kernel_cache;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod groups;
#[cfg(test)]
mod help;
#[cfg(test)]
mod in_process;
#[cfg(test)]
mod inspect;
#[cfg(test)]
mod interrupted;
#[cfg(test)]
mod json;
#[cfg(test)]
mod kernel_meta;
#[cfg(test)]
mod key;
#[cfg(test)]
mod ls;
#[cfg(test)]
mod main_job;
#[cfg(test)]
mod man;
#[cfg(test)]
mod names;
#[cfg(test)]
mod network;
#[cfg(test)]
mod no_locks;
#[cfg(test)]
mod odd_places;
#[cfg(test)]
mod options;
mod package;
#[cfg(test)]
mod poison;
mod progress;
#[cfg(test)]
mod remote;
#[cfg(test)]
mod remote_cmd;
#[cfg(test)]
mod repair;
#[cfg(test)]
mod repair_caches;
#[cfg(test)]
mod report;
#[cfg(test)]
mod signing;
#[cfg(test)]
mod snapshots;
#[cfg(test)]
mod store;
#[cfg(test)]
mod stored;
#[cfg(test)]
mod takeover;
#[cfg(test)]
mod targets;
#[cfg(test)]
mod trace;
#[cfg(test)]
mod trees;
#[cfg(test)]
mod triton_dir;
#[cfg(test)]
mod unverifiable;
#[cfg(test)]
mod verify;
#[cfg(test)]
mod version;
mod walk;
#[cfg(test)]
mod work_dir;
