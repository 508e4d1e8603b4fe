//! The commands. Each module has the arguments, the implementation and the result of one command.

mod activity;
pub(crate) mod build;
pub(crate) mod bundle;
pub(crate) mod clear;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod gc;
pub(crate) mod import;
pub(crate) mod inspect;
pub(crate) mod key;
pub(crate) mod ls;
pub(crate) mod man;
pub(crate) mod misses;
pub(crate) mod opc;
pub(crate) mod package;
pub(crate) mod remote;
pub(crate) mod repair;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod stats;
pub(crate) mod targets;
pub(crate) mod verify;
