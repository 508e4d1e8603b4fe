//! HTTP/1.1, as far as engines need it: requests whose bodies are in memory, and answers of a bounded size.
//!
//! An answer counts only as a whole: its length is stated (`Content-Length`) or its end marked (`chunked`). No redirect is
//! followed, and nothing is tried again except over a new connection, if the server had closed an idle one.

mod answer;
mod client;
mod connection;
mod failure;
mod input;
mod request;

pub(crate) use answer::Answer;
pub(crate) use client::Client;
pub(crate) use request::Request;
