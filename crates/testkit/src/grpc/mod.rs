//! gRPC without a runtime, for a server in a test and a bare client in a benchmark: messages that are written and read by hand, and a
//! socket that one thread polls.

mod protobuf;
mod socket;

pub use protobuf::{field, fields, number, only, slices};
pub use socket::Socket;

/// A message with the prefix of gRPC: that it is not compressed, and its length, which must be below 4 GiB.
pub fn framed(message: &[u8]) -> Vec<u8> {
    [&[0], &(message.len() as u32).to_be_bytes()[..], message].concat()
}
