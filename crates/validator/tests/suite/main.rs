//! The kernels that the validator accepts, and those that it refuses.

#[cfg(test)]
mod device_formats;
#[cfg(test)]
mod documented;
#[cfg(test)]
mod made_kernels;
#[cfg(test)]
mod mutations;
#[cfg(test)]
mod other_formats;
