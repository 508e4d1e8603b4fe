//! The client of a server of the Bazel Remote Execution API, version 2.
//!
//! # What of the API is used
//!
//! | service | methods |
//! |---|---|
//! | `Capabilities` | `GetCapabilities`, once; a server without it is taken to store everything |
//! | `ActionCache` | `GetActionResult`, `UpdateActionResult` |
//! | `ContentAddressableStorage` | `FindMissingBlobs`, `BatchReadBlobs`, `BatchUpdateBlobs` |
//! | `google.bytestream.ByteStream` | `Read`, `Write`, for blobs that are too large for a message |
//!
//! The digest function is SHA-256, and nothing is compressed. An object is the result of an action, whose only output has the
//! object's content. The action's salt is the instance, a zero byte, and the object's name; its command, which is the same for all,
//! is never run. Both are stored before the result, as the API demands. A result is requested with its content, which a server may
//! return or leave out; what it leaves out is read in batches. Batches have as many bytes as the server says, and never more than
//! gRPC's usual limit of 4 MiB for a message.
//!
//! A server evicts results and blobs when it wants to. A result whose blob is missing is a missing object: it is not reported, and
//! is stored again. A blob is reported as it comes, also if it does not have its digest. The cache, which checks every byte, refuses
//! it, reports that once, and replaces it; if this client refused it, nothing would replace it.
//!
//! # What the API does not have
//!
//! - Exclusive creation: `UpdateActionResult` replaces a result. So there are no leases, and hosts that need a kernel at the same time
//!   compile it each. A server that keeps the first result of an action answers all later ones with an error, for which the API has
//!   no status; an object that exists then is reported as such, and cannot be replaced.
//! - Counters, listings, deletion, and times to live: the size and age limits are the server's own.
//! - A status for "too many calls": it is `RESOURCE_EXHAUSTED`, as is "no space". Some servers take few calls at the same time from all
//!   clients together (BuildGrid: as many as it has threads). Such a call is made again for up to 2 s, and this client makes
//!   fewer calls at the same time from then on. After that, it is a full server for calls that store, and an unreachable one for others.
//!
//! # Why kernels are not compiled by the API
//!
//! The API also runs actions (`Execution`) on workers of the server. That is left out. A worker would need what a kernel is made with:
//! the vendor's toolkit, which may not be redistributed as an input of an action, in the version that the key names; and the
//! key covers the content of that toolkit as the host sees it, and the files that its compiler was observed to read there. A kernel of
//! a worker with another installation would belong to another key. A farm of hosts that have the toolkit needs no `Execution`:
//! they share their kernels through the cache.
//!
//! # Connections
//!
//! gRPC is spoken over HTTP/2 by the crate `h2`, on this crate's own connections, without an asynchronous runtime: the thread
//! that makes a call polls the protocol, and waits for the socket until the call's deadline or cancellation. So no thread stays
//! behind, and a forked child makes its own connections. With `tonic`, there would be 45 further packages in place of 9, and a
//! runtime whose threads a forked child does not have. Messages are structs with the fields that are used, so no `protoc` is needed.
//!
//! # Credentials
//!
//! A client is known by headers that it sends with each call, or by its certificate. Headers come from a file, which is read again
//! when the server answers `UNAUTHENTICATED` or `PERMISSION_DENIED`: if they differ, the calls are made again with them, once. A
//! server's text that an error shows has none of them, nor of those before them.

mod abilities;
mod blobs;
mod client;
mod connection;
mod credentials;
mod engine;
mod failure;
mod fetch;
mod messages;
mod object;
mod queue;
mod rpc;
mod status;
mod store;
mod transport;

pub(crate) use engine::ReapiEngine;
