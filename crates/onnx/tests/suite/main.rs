//! The tests of the ONNX reader, one module for each subject.

#[cfg(test)]
mod common;
#[cfg(test)]
mod contents;
#[cfg(test)]
mod external;
#[cfg(test)]
mod load;
#[cfg(test)]
mod mutations;
#[cfg(test)]
mod npy;
#[cfg(test)]
mod outline;
#[cfg(test)]
mod tensors;
#[cfg(test)]
mod translate;
