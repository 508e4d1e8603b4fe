//! The messages of the Remote Execution API that this client uses, each with the fields that it reads or writes. The numbers are
//! those of `remote_execution.proto` (version 2), `google/bytestream/bytestream.proto`, `google/rpc/status.proto` and
//! `google/rpc/error_details.proto`.

use prost::Message;

/// SHA-256 in the list of digest functions. Requests name it: a server that has BLAKE3 as well may take that for digests of the same
/// length.
pub(super) const SHA256: i32 = 1;

/// The names of the digest functions, by their numbers.
pub(super) const DIGEST_FUNCTIONS: [&str; 10] =
    ["none", "SHA-256", "SHA-1", "MD5", "VSO", "SHA-384", "SHA-512", "MURMUR3", "SHA256TREE", "BLAKE3"];

/// The SHA-256 of a blob in hexadecimal digits, and its size.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Message)]
pub(super) struct BlobDigest {
    #[prost(string, tag = "1")]
    pub(super) hash: String,
    #[prost(int64, tag = "2")]
    pub(super) size_bytes: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Action {
    #[prost(message, optional, tag = "1")]
    pub(super) command_digest: Option<BlobDigest>,
    #[prost(message, optional, tag = "2")]
    pub(super) input_root_digest: Option<BlobDigest>,
    #[prost(bytes = "vec", tag = "9")]
    pub(super) salt: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Command {
    #[prost(string, repeated, tag = "1")]
    pub(super) arguments: Vec<String>,
    #[prost(string, repeated, tag = "7")]
    pub(super) output_paths: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ActionResult {
    #[prost(message, repeated, tag = "2")]
    pub(super) output_files: Vec<OutputFile>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OutputFile {
    #[prost(string, tag = "1")]
    pub(super) path: String,
    #[prost(message, optional, tag = "2")]
    pub(super) digest: Option<BlobDigest>,
    #[prost(bytes = "vec", tag = "5")]
    pub(super) contents: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct GetActionResultRequest {
    #[prost(string, tag = "1")]
    pub(super) instance_name: String,
    #[prost(message, optional, tag = "2")]
    pub(super) action_digest: Option<BlobDigest>,
    #[prost(string, repeated, tag = "5")]
    pub(super) inline_output_files: Vec<String>,
    #[prost(int32, tag = "6")]
    pub(super) digest_function: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct UpdateActionResultRequest {
    #[prost(string, tag = "1")]
    pub(super) instance_name: String,
    #[prost(message, optional, tag = "2")]
    pub(super) action_digest: Option<BlobDigest>,
    #[prost(message, optional, tag = "3")]
    pub(super) action_result: Option<ActionResult>,
    #[prost(int32, tag = "5")]
    pub(super) digest_function: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FindMissingBlobsRequest {
    #[prost(string, tag = "1")]
    pub(super) instance_name: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) blob_digests: Vec<BlobDigest>,
    #[prost(int32, tag = "3")]
    pub(super) digest_function: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FindMissingBlobsResponse {
    #[prost(message, repeated, tag = "2")]
    pub(super) missing_blob_digests: Vec<BlobDigest>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct BatchUpdateBlobsRequest {
    #[prost(string, tag = "1")]
    pub(super) instance_name: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) requests: Vec<UpdatedBlob>,
    #[prost(int32, tag = "5")]
    pub(super) digest_function: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct UpdatedBlob {
    #[prost(message, optional, tag = "1")]
    pub(super) digest: Option<BlobDigest>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) data: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct BatchUpdateBlobsResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) responses: Vec<UpdateAnswer>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct UpdateAnswer {
    #[prost(message, optional, tag = "1")]
    pub(super) digest: Option<BlobDigest>,
    #[prost(message, optional, tag = "2")]
    pub(super) status: Option<BlobStatus>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct BatchReadBlobsRequest {
    #[prost(string, tag = "1")]
    pub(super) instance_name: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) digests: Vec<BlobDigest>,
    #[prost(int32, tag = "4")]
    pub(super) digest_function: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct BatchReadBlobsResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) responses: Vec<ReadBlob>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ReadBlob {
    #[prost(message, optional, tag = "1")]
    pub(super) digest: Option<BlobDigest>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) data: Vec<u8>,
    #[prost(message, optional, tag = "3")]
    pub(super) status: Option<BlobStatus>,
}

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct BlobStatus {
    #[prost(int32, tag = "1")]
    pub(super) code: i32,
    #[prost(string, tag = "2")]
    pub(super) message: String,
    #[prost(message, repeated, tag = "3")]
    pub(super) details: Vec<Detail>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Detail {
    #[prost(string, tag = "1")]
    pub(super) type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) value: Vec<u8>,
}

/// `google.rpc.RetryInfo`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    pub(super) retry_delay: Option<Delay>,
}

/// `google.protobuf.Duration`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Delay {
    #[prost(int64, tag = "1")]
    pub(super) seconds: i64,
    #[prost(int32, tag = "2")]
    pub(super) nanos: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct GetCapabilitiesRequest {
    #[prost(string, tag = "1")]
    pub(super) instance_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ServerCapabilities {
    #[prost(message, optional, tag = "1")]
    pub(super) cache_capabilities: Option<CacheCapabilities>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CacheCapabilities {
    #[prost(int32, repeated, tag = "1")]
    pub(super) digest_functions: Vec<i32>,
    #[prost(message, optional, tag = "2")]
    pub(super) action_cache_update_capabilities: Option<UpdateCapabilities>,
    #[prost(int64, tag = "4")]
    pub(super) max_batch_total_size_bytes: i64,
    #[prost(int64, tag = "8")]
    pub(super) max_cas_blob_size_bytes: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct UpdateCapabilities {
    #[prost(bool, tag = "1")]
    pub(super) update_enabled: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ReadRequest {
    #[prost(string, tag = "1")]
    pub(super) resource_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ReadResponse {
    #[prost(bytes = "vec", tag = "10")]
    pub(super) data: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WriteRequest {
    #[prost(string, tag = "1")]
    pub(super) resource_name: String,
    #[prost(int64, tag = "2")]
    pub(super) write_offset: i64,
    #[prost(bool, tag = "3")]
    pub(super) finish_write: bool,
    #[prost(bytes = "vec", tag = "10")]
    pub(super) data: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WriteResponse {
    #[prost(int64, tag = "1")]
    pub(super) committed_size: i64,
}
