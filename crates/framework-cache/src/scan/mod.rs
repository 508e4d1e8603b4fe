//! What is in the caches that frameworks have already: which kernels are whole, which are not, and what the framework
//! would make of each. Changes nothing.
//!
//! [`find`] looks for caches below a folder; [`survey`] judges everything in one of them. What is known of them:
//!
//! | cache | folder | kernels |
//! |---|---|---|
//! | MindSpore | `kernel_meta`, `rank_N/kernel_meta` | `<stem>.json`, `<stem>.o` or `lib<stem>.so`, `<stem>.info` |
//! | AKG | `akg_kernel_meta`, and `akg`, `tbe`, `composite` in it | `<stem>.json`, `<stem>.o`, `<stem>.so`, `<stem>.info` |
//! | CANN | `kernel_cache/<soc>` | `<kernel>.json`, the object that it names, `_pre.json`, `.lock`, `.temp` |
//! | operator package, or the tree that it is built in | `tbe/kernel/<soc>/<op>`, `kernel/<soc>`, `binary/<soc>` | `<kernel>.json`, the object that it names |
//! | a compiler's work | `kernel_meta_<process>/kernel_meta` | `<kernel>.json`, the object that it names |
//!
//! A kernel is *intact* if its `.json` can be read and the object beside it is the one described there, as
//! [`opkeep_validator`] decides. It is for *another chip* if that is so and its descriptor or the directory names another
//! chip than its object. It is an *orphan* if the `.json` is missing, and *damaged* else. What is damaged or an
//! orphan and was written less than [`YOUNG`] ago, or is open or locked, is *in progress*: a build may be at it.

mod busy;
mod chip;
mod chips;
pub(crate) mod judge;
pub(crate) mod names;
mod outcome;
pub(crate) mod place;
mod ranks;
mod scanner;
mod settle;
mod take;
mod verdict;

pub use busy::YOUNG;
pub use chip::{Built, NamedBy, OtherChip, named_otherwise};
pub use opkeep_kernel_meta::Busy;
pub use place::{Kind, OtherFiles, Place, Places, find, find_through_links, is_set_aside};
pub use ranks::{Lack, Rank, Ranks, compare};
pub(crate) use scanner::judge_one;
pub use scanner::{Survey, SurveyOptions, survey};
pub use take::{NotTaken, Shelf, Taken, is_ours};
pub use verdict::{Effect, Flaw, Item, Kernel, Note, Orphan, Outcome, Verdict, What};
