//! All cases, by what changes.

mod arguments;
mod clangs;
mod contents;
mod declared;
mod gcc_trees;
mod harmless_files;
mod harmless_surroundings;
mod headers;
mod languages;
mod libraries;
mod linkers;
mod links;
mod looks;
mod moving;
mod programs;
mod scripts;

use super::case::Case;

/// Every case.
pub(super) const CASES: &[&[Case]] = &[
    headers::CASES,
    arguments::CASES,
    libraries::CASES,
    linkers::CASES,
    gcc_trees::CASES,
    clangs::CASES,
    scripts::CASES,
    languages::CASES,
    programs::CASES,
    links::CASES,
    looks::CASES,
    looks::DETAILS,
    contents::CASES,
    moving::CASES,
    declared::CASES,
    harmless_files::CASES,
    harmless_surroundings::CASES,
];
