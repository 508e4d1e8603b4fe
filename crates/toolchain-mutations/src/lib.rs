//! Toolchains that change between builds: every file that a compiler reads must count, and nothing else.
//!
//! Each case creates a toolchain in its own directory and changes something about it. The real `opkeep` builds two
//! kernels, of which one calls the math library:
//!
//! 1. in a store, twice: the second build must reuse everything;
//! 2. after the change, in that store with the same `TMPDIR` and home directory, and in a fresh store with fresh ones;
//! 3. after the change is undone, in the first store.
//!
//! # Failures
//!
//! * *stale*: a kernel, reused or built, whose object or key differs from the fresh store's; a kernel although the
//!   fresh store refuses the toolchain. Objects are compared, not names.
//! * *needless*: a kernel that is built again although nothing that matters changed.
//! * *refused*: a working toolchain is refused, and the case does not allow that. If it does, it is counted separately.
//! * *vacuous*: a case that must change an object does not, as the fresh store shows; or one that must not does.
//!
//! Each case is played in one of eight ways, chosen by its name and a seed: forwards, or backwards, so that files
//! disappear instead of appearing; with a toolchain that is older than any clock's resolution, or one that is created,
//! used and changed within a second; with modification times restored, or not. A change of a file's content usually
//! keeps its size. A seed plays one case in three, and one in two of those that cannot matter:
//! `OPKEEP_MUTATION_SEEDS=0,1,2` plays each once or twice, `OPKEEP_MUTATION_SEEDS=all` each in every way. CI takes the
//! seed from the commit.
//!
//! # How to add a case
//!
//! Add one struct literal to the file of its subject:
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
//! `..HARMLESS` is for changes that cannot matter, `..MAY_MATTER` for those that can matter, but perhaps not for these
//! kernels. `needs` lists the requirements of a case on the machine; without them the case shows as ignored, with the
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
pub use variant::is_played;

use cases::CASES;
