//! Blobs: which are transferred together, and their transfer.

use std::hash::{BuildHasher, RandomState};

use opkeep_cache::Digest;
use opkeep_text::counted;

use super::failure::Failure;
use super::messages::{
    BatchReadBlobsRequest, BatchReadBlobsResponse, BatchUpdateBlobsRequest, BatchUpdateBlobsResponse,
    BlobDigest, ReadRequest, ReadResponse, SHA256, UpdatedBlob, WriteRequest, WriteResponse,
};
use super::rpc::{Rpc, decode};
use super::status::{Code, Status};

const BATCH_READ: &str = "/build.bazel.remote.execution.v2.ContentAddressableStorage/BatchReadBlobs";
const BATCH_UPDATE: &str = "/build.bazel.remote.execution.v2.ContentAddressableStorage/BatchUpdateBlobs";
const READ: &str = "/google.bytestream.ByteStream/Read";
const WRITE: &str = "/google.bytestream.ByteStream/Write";

/// What a blob takes in a message besides its content: its digest, the status of its answer, and the lengths of these.
const OVERHEAD: u64 = 256;
/// The maximum number of blobs in one message.
pub(super) const MOST_BLOBS: usize = 400;
/// The bytes of a blob in one message of a stream.
const PIECE: usize = 256 << 10;
/// The size of the largest message that a server may send: that which gRPC's libraries have for both sides.
pub(super) const LARGEST_MESSAGE: usize = 4 << 20;

impl BlobDigest {
    pub(super) fn of(content: &[u8]) -> Self {
        let size_bytes = i64::try_from(content.len()).unwrap_or(i64::MAX);
        Self { hash: Digest::of(content).to_string(), size_bytes }
    }

    /// Returns the size. `None`: this is no SHA-256 digest.
    pub(super) fn size(&self) -> Option<u64> {
        self.hash.parse::<Digest>().ok().and(u64::try_from(self.size_bytes).ok())
    }
}

/// Blobs that are transferred by one call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Transfer {
    /// By one message; the blobs' numbers.
    Batch(Vec<usize>),
    /// By a stream of bytes; the blob's number.
    Stream(usize),
}

/// Returns the calls that transfer blobs of these sizes, if a message may have `limit` bytes.
pub(super) fn transfers(sizes: impl Iterator<Item = u64>, limit: u64) -> Vec<Transfer> {
    let (mut transfers, mut batch, mut bytes) = (Vec::new(), Vec::new(), 0);
    for (number, size) in sizes.enumerate() {
        let size = size.saturating_add(OVERHEAD);
        if size > limit {
            transfers.push(Transfer::Stream(number));
            continue;
        }
        if bytes + size > limit || batch.len() == MOST_BLOBS {
            transfers.push(Transfer::Batch(std::mem::take(&mut batch)));
            bytes = 0;
        }
        batch.push(number);
        bytes += size;
    }
    if !batch.is_empty() {
        transfers.push(Transfer::Batch(batch));
    }
    transfers
}

/// Reads several blobs. Those that the server does not have are not in the answer. What the server says of one blob does not
/// keep the others: its failure is the second value.
pub(super) async fn read_batch(
    rpc: Rpc,
    instance: &str,
    digests: Vec<BlobDigest>,
) -> Result<(Vec<(BlobDigest, Vec<u8>)>, Option<Status>), Failure> {
    let request =
        BatchReadBlobsRequest { instance_name: instance.to_owned(), digests, digest_function: SHA256 };
    let answer = rpc.clone().unary::<BatchReadBlobsResponse>(BATCH_READ, &request, LARGEST_MESSAGE).await;
    let answer = match answer {
        // The server lacks one of them, which keeps the others, or it has no batches.
        Err(Failure::Status(Status { code: Code::NOT_FOUND | Code::UNIMPLEMENTED, .. })) => {
            let mut blobs = Vec::new();
            for digest in request.digests {
                let content = read_stream(rpc.clone(), instance, &digest).await?;
                blobs.extend(content.map(|content| (digest, content)));
            }
            return Ok((blobs, None));
        }
        answer => answer?,
    };
    let (mut blobs, mut failure) = (Vec::new(), None);
    for blob in answer.responses {
        match rpc.status_of_blob(blob.status) {
            None => blobs.extend(blob.digest.map(|digest| (digest, blob.data))),
            Some(status) if status.code == Code::NOT_FOUND => {}
            Some(status) => failure = failure.or(Some(status)),
        }
    }
    Ok((blobs, failure))
}

/// Reads a large blob. `None`: the server does not have it.
pub(super) async fn read_stream(
    rpc: Rpc,
    instance: &str,
    digest: &BlobDigest,
) -> Result<Option<Vec<u8>>, Failure> {
    let name = format!("{}blobs/{}/{}", prefix(instance), digest.hash, digest.size_bytes);
    let request = prost::Message::encode_to_vec(&ReadRequest { resource_name: name });
    let size = usize::try_from(digest.size_bytes).unwrap_or(0);
    let mut content = Vec::new();
    let answer = rpc.call(READ, [request].into_iter(), LARGEST_MESSAGE, |message| {
        let ReadResponse { data } = decode(READ, message)?;
        if data.len() > size - content.len() {
            return Err(Failure::Invalid(format!(
                "a blob of {size} has more than that",
                size = counted(size, "byte")
            )));
        }
        content.extend_from_slice(&data);
        Ok(())
    });
    match answer.await {
        Ok(()) => Ok(Some(content)),
        Err(Failure::Status(status)) if status.code == Code::NOT_FOUND => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Stores several blobs.
pub(super) async fn write_batch(
    rpc: Rpc,
    instance: &str,
    blobs: Vec<(&BlobDigest, &[u8])>,
) -> Result<(), Failure> {
    let requests = blobs
        .iter()
        .map(|(digest, content)| UpdatedBlob { digest: Some((*digest).clone()), data: content.to_vec() });
    let request = BatchUpdateBlobsRequest {
        instance_name: instance.to_owned(),
        requests: requests.collect(),
        digest_function: SHA256,
    };
    let answer = rpc.clone().unary::<BatchUpdateBlobsResponse>(BATCH_UPDATE, &request, LARGEST_MESSAGE).await;
    let answer = match answer {
        // The server has no batches.
        Err(Failure::Status(Status { code: Code::UNIMPLEMENTED, .. })) => {
            for (digest, content) in blobs {
                write_stream(rpc.clone(), instance, digest, content).await?;
            }
            return Ok(());
        }
        answer => answer?,
    };
    let mut stored = Vec::new();
    for answer in answer.responses {
        match rpc.status_of_blob(answer.status) {
            None => stored.extend(answer.digest.map(|digest| digest.hash)),
            Some(status) if status.code == Code::ALREADY_EXISTS => {
                stored.extend(answer.digest.map(|digest| digest.hash));
            }
            Some(status) => return Err(status.into()),
        }
    }
    opkeep_order::sort(&mut stored);
    match blobs.iter().find(|(digest, _)| stored.binary_search(&digest.hash).is_err()) {
        None => Ok(()),
        Some((digest, _)) => {
            Err(Failure::Invalid(format!("the server does not say whether it stored {}", digest.hash)))
        }
    }
}

/// Stores a large blob.
pub(super) async fn write_stream(
    rpc: Rpc,
    instance: &str,
    digest: &BlobDigest,
    content: &[u8],
) -> Result<(), Failure> {
    // Servers have the empty blob, whatever was stored.
    if content.is_empty() {
        return Ok(());
    }
    let name =
        format!("{}uploads/{}/blobs/{}/{}", prefix(instance), random_uuid(), digest.hash, digest.size_bytes);
    let count = content.len().div_ceil(PIECE);
    let messages = content.chunks(PIECE).enumerate().map(|(number, piece)| {
        let request = WriteRequest {
            // The first message names the blob for all.
            resource_name: if number == 0 { name.clone() } else { String::new() },
            write_offset: i64::try_from(number * PIECE).unwrap_or(i64::MAX),
            finish_write: number + 1 == count,
            data: piece.to_vec(),
        };
        prost::Message::encode_to_vec(&request)
    });
    let mut committed = None;
    let answer = rpc.call(WRITE, messages, LARGEST_MESSAGE, |message| {
        committed = Some(decode::<WriteResponse>(WRITE, message)?.committed_size);
        Ok(())
    });
    match answer.await {
        Err(Failure::Status(status)) if status.code == Code::ALREADY_EXISTS => return Ok(()),
        answer => answer?,
    }
    // A server that had the blob before says its whole size, however much it has read.
    match committed {
        Some(size) if size == digest.size_bytes => Ok(()),
        other => {
            let (expected, found) = (digest.size_bytes, other.unwrap_or(0));
            Err(Failure::Invalid(format!(
                "the server has stored {found} of a blob of {expected}",
                found = counted(found, "byte")
            )))
        }
    }
}

/// What the names of an instance's blobs begin with.
fn prefix(instance: &str) -> String {
    if instance.is_empty() { String::new() } else { format!("{instance}/") }
}

/// A UUID of version 4.
fn random_uuid() -> String {
    let random = RandomState::new();
    let (high, low) = (random.hash_one(0), random.hash_one(1));
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xfff,
        0x8000 | low >> 48 & 0x3fff,
        low & 0xffff_ffff_ffff
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use Transfer::{Batch, Stream};

    #[test]
    fn blobs_are_transferred_in_messages_below_the_limit() {
        let plan = |sizes: &[u64], limit: u64| transfers(sizes.iter().copied(), limit + OVERHEAD);
        assert_eq!(plan(&[], 100), []);
        assert_eq!(plan(&[0, 100, 101, 1], 100), [Batch(vec![0]), Stream(2), Batch(vec![1]), Batch(vec![3])]);
        assert_eq!(plan(&[u64::MAX, 0], 0), [Stream(0), Batch(vec![1])]);
        assert_eq!(plan(&[100, 100, 100], 400 + OVERHEAD), [Batch(vec![0, 1]), Batch(vec![2])]);
        let many = plan(&[0; MOST_BLOBS + 1], 1 << 30);
        assert_eq!(many, [Batch((0..MOST_BLOBS).collect()), Batch(vec![MOST_BLOBS])]);
    }

    #[test]
    fn a_uuid_is_of_version_4() {
        let uuid = random_uuid();
        let lengths: Vec<_> = uuid.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{uuid}");
        assert!(uuid.as_bytes()[14] == b'4' && b"89ab".contains(&uuid.as_bytes()[19]), "{uuid}");
        assert_ne!(uuid, random_uuid());
    }

    #[test]
    fn digests_of_other_functions_are_none() {
        assert_eq!(BlobDigest::of(b"abc").size(), Some(3));
        let other = |hash: &str, size_bytes| BlobDigest { hash: hash.to_owned(), size_bytes }.size();
        let hash = BlobDigest::of(b"").hash;
        assert_eq!(other(&hash, 0), Some(0));
        assert_eq!(other(&hash, -1), None);
        assert_eq!(other(&hash[1..], 1), None);
        assert_eq!(other("", 0), None);
    }
}
