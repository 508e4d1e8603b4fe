//! The promises of descriptors: they round-trip, and a field counts in a key exactly if it changes code.

#[cfg(test)]
mod attacks;
#[cfg(test)]
mod counting;
#[cfg(test)]
mod diff;
#[cfg(test)]
mod fused;
#[cfg(test)]
mod generations;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod ignored;
#[cfg(test)]
mod job_cache;
#[cfg(test)]
mod names;
#[cfg(test)]
mod parts;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod repeats;
#[cfg(test)]
mod round_trip;
#[cfg(test)]
mod spelling;
#[cfg(test)]
mod table;
#[cfg(test)]
mod translated;
#[cfg(test)]
mod tree;
#[cfg(test)]
mod vendor;
