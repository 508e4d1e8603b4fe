//! Kernels as the compilers for Ascend chips leave them: a `.o` and its `.json`, made without a compiler.
//!
//! ```
//! use opkeep_testkit::ascend::{Chip, Cores, Kernel};
//!
//! let chip = Chip::of_soc("Ascend910B1").ok_or("an unknown chip")?;
//! let pair = Kernel::new(chip, "Add_1").cores(Cores::Mix { cube: 1, vector: 2 }).keys([0, 7]).build();
//! assert_eq!(pair.file_names(), ["Add_1.json", "Add_1.o"]);
//! # Ok::<(), &str>(())
//! ```
//!
//! [`Kernel`] has a knob for each habit of a compiler that we know; [`zoo()`] is one pair of each kind. What they are
//! like was read off genuine objects, section by section: which there are, in which order, where they stand, which
//! symbols are local. Only the code is no code, but noise.

mod chip;
mod describe;
mod kernel;
mod metadata;
mod object;
mod pair;
mod shared;
mod zoo;

pub use chip::{Chip, Cores, Era};
pub use kernel::{Argument, Kernel};
pub use metadata::{Metadata, metadata_section};
pub use pair::Pair;
pub use shared::{Library, container, library};
pub use zoo::{Split, fat_binary, fat_binary_of, split_mix, zoo};
