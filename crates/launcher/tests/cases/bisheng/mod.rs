//! The machine's clang by the name of the compiler of kernels. Whatever a launcher gives is compared with a run without it.

mod attacks;
mod bench;
mod hits;
mod kernels;
mod refused;

/// A test by its name.
pub(crate) type Case = (&'static str, fn());

/// All tests.
pub(crate) fn cases() -> impl Iterator<Item = Case> {
    [attacks::CASES, hits::CASES, kernels::CASES, refused::CASES].into_iter().flatten().copied()
}
