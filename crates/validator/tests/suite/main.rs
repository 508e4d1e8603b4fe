//! What the validator accepts, and what it refuses.

#[cfg(test)]
mod made_kernels;
#[cfg(test)]
mod mutations;
#[cfg(test)]
mod other_formats;
