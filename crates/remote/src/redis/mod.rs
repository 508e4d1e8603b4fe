//! The client of a Redis server.
//!
//! An object is a string under the URL's prefix and its name; a lease is a string that expires; a counter is an integer that
//! expires. What changes several things at once, or compares before it changes, is a script, so that the server needs one
//! round trip for it and no other client comes between. Objects do not expire: the server's `maxmemory` and `maxmemory-policy`
//! limit them (`allkeys-lru` evicts what was not used for the longest time).
//!
//! The user of an access control list needs `~PREFIX/*` and the commands `MGET`, `SET`, `GET`, `EVAL` (which runs `SET`, `GET`,
//! `DEL`, `INCRBY` and `PEXPIRE`), and for listing and removal `SCAN`, `MEMORY USAGE`, `OBJECT IDLETIME` and `UNLINK`. Reading
//! needs `MGET` and `GET` only.
//!
//! The keys of one call are on one server: a Redis Cluster, which spreads them over several, refuses most calls.
//!
//! The protocol is spoken here and not by the crate `redis`. There, a call that ends at its deadline in the middle of an answer
//! leaves a connection that counts the answers it must skip, names are resolved without a deadline, and the answer to `MGET` is
//! kept in memory as a whole, of any size that the server states.

mod cluster;
mod commands;
mod connection;
mod engine;
mod error;
mod wire;

pub(crate) use engine::RedisEngine;
