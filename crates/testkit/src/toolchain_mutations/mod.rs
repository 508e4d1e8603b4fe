//! Toolchains that change between builds: whatever a compiler reads must count, and nothing else.
//!
//! Each case lays a toolchain in a directory of its own and changes something about it. The real `opkeep` builds two
//! kernels, of which one calls the math library:
//!
//! 1. in a store, and once more: everything must be reused;
//! 2. after the change, in that store with the same `TMPDIR` and home directory, and in a fresh store with fresh ones;
//! 3. after the change is taken back, in the first store.
//!
//! # What is judged
//!
//! * *stale*: a kernel, reused or made, that has another object or another key than in the fresh store; a kernel where the
//!   fresh store refuses the toolchain. Objects are compared, not names.
//! * *needless*: a kernel that is made again though nothing that matters changed.
//! * *refused*: a toolchain that works is refused, and the case does not allow that. Where it does, it is counted apart.
//! * *vacuous*: a case that promises to change an object does not, by the fresh store; or one that must not does.
//!
//! Each case is played in one of eight ways, by its name and a seed: forth, or back, so that what appears disappears; with a
//! toolchain that is older than any clock's grain, or one that is laid, built with and changed within a second; with
//! modification times restored, or not. Where the content of a file changes, its size as a rule does not. A seed plays one
//! case in three, and one in two of those that cannot matter: `OPKEEP_MUTATION_SEEDS=0,1,2` plays each once or twice,
//! `OPKEEP_MUTATION_SEEDS=all` each in every way. CI takes the seed from the commit.
//!
//! # How to add a case
//!
//! One struct literal in the file whose subject it is:
//!
//! ```text
//! Case {
//!     name: "nested_header",
//!     about: "a.h includes b.h, and b.h changes",
//!     setup: |place| {
//!         place.write("a.h", "#include \"b.h\"\n")?;
//!         place.header("b.h", 1)?;
//!         Ok(Call::cc(format!("gcc -include {}", place.text("a.h"))))
//!     },
//!     change: |place, _| place.header("b.h", 2),
//!     ..MATTERS
//! }
//! ```
//!
//! `..HARMLESS` is for changes that cannot matter, `..MAY_MATTER` for those that matter in general and perhaps not for
//! these kernels. What a case needs of the machine stands in `needs`; without it the case shows as ignored, with the
//! reason.

mod build;
mod case;
mod cases;
mod disk;
mod judge;
mod needs;
mod objects;
mod parts;
mod place;
mod system;
mod trials;
mod variant;

pub use trials::{Laboratory, trials};
pub use variant::{is_played, is_turn, mutation_seeds};

use cases::CASES;
