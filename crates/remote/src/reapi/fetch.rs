//! Objects from the server.

use std::collections::{BTreeMap, BTreeSet};

use opkeep_cache::{ObjectName, RemoteContext};
use opkeep_text::counted;

use super::blobs::{LARGEST_MESSAGE, Transfer, read_batch, read_stream, transfers};
use super::client::Calls;
use super::engine::{MOST_CALLS, MOST_TRANSFERS, ReapiEngine};
use super::failure::Failure;
use super::messages::{ActionResult, BlobDigest, GetActionResultRequest, SHA256};
use super::object::{OUTPUT, action, output};
use super::rpc::Rpc;
use super::status::{Code, Status};

const GET_ACTION_RESULT: &str = "/build.bazel.remote.execution.v2.ActionCache/GetActionResult";

/// The blobs that one call read.
type Read = (Vec<(BlobDigest, Vec<u8>)>, Option<Status>);

impl ReapiEngine {
    /// Requests objects: first their action results, then the blobs that are not in these.
    pub(super) fn fetch_all(
        &self,
        names: &[ObjectName],
        context: &RemoteContext<'_>,
        found: &mut dyn FnMut(usize, Vec<u8>),
    ) -> Result<(), Failure> {
        let abilities = self.abilities(context)?;
        // Objects with the same content have one blob.
        let mut wanted: BTreeMap<BlobDigest, Vec<usize>> = BTreeMap::new();
        let mut is_too_large = false;
        let calls = Calls { count: names.len(), most: MOST_CALLS, stores: false, context };
        let look_up = |rpc, index: usize| self.look_up(rpc, &names[index], true);
        self.client.each(&calls, look_up, |index, result| {
            let Some((digest, content)) = result else { return };
            let size = digest.size().unwrap_or(u64::MAX);
            if content.len() as u64 == size {
                found(index, content);
            } else if size > abilities.max_object_bytes {
                is_too_large = true;
            } else {
                wanted.entry(digest).or_default().push(index);
            }
        })?;
        self.fetch_blobs(&wanted, abilities.batch_bytes, context, found)?;
        match is_too_large {
            false => Ok(()),
            true => {
                let most = abilities.max_object_bytes;
                Err(Failure::Invalid(format!(
                    "an object is larger than {most}",
                    most = counted(most, "byte")
                )))
            }
        }
    }

    /// Requests blobs, which are those of the objects with these numbers. A blob that the server has evicted is not reported.
    fn fetch_blobs(
        &self,
        wanted: &BTreeMap<BlobDigest, Vec<usize>>,
        batch_bytes: u64,
        context: &RemoteContext<'_>,
        found: &mut dyn FnMut(usize, Vec<u8>),
    ) -> Result<(), Failure> {
        let digests: Vec<_> = wanted.keys().collect();
        let plan = transfers(digests.iter().map(|digest| digest.size().unwrap_or(u64::MAX)), batch_bytes);
        let calls = Calls { count: plan.len(), most: MOST_TRANSFERS, stores: false, context };
        let read = |rpc: Rpc, number: usize| {
            let (plan, digests) = (&plan, &digests);
            async move {
                match &plan[number] {
                    Transfer::Batch(blobs) => {
                        let batch = blobs.iter().map(|blob| digests[*blob].clone()).collect();
                        read_batch(rpc, &self.instance, batch).await
                    }
                    Transfer::Stream(blob) => {
                        let digest = digests[*blob];
                        let content = read_stream(rpc, &self.instance, digest).await?;
                        Ok((content.map(|content| (digest.clone(), content)).into_iter().collect(), None))
                    }
                }
            }
        };
        let (mut is_found, mut failure) = (BTreeSet::new(), None);
        self.client.each(&calls, read, |_, (blobs, status): Read| {
            failure = failure.take().or(status);
            for (digest, content) in blobs {
                let Some(indexes) = wanted.get(&digest).filter(|_| is_found.insert(digest)) else { continue };
                for index in indexes {
                    found(*index, content.clone());
                }
            }
        })?;
        failure.map_or(Ok(()), |status: Status| Err(status.of_reading()))
    }

    /// Requests the digest of an object's content, and, with `is_inline`, its content, which a server may ignore. `None`: there is no
    /// such object.
    pub(super) async fn look_up(
        &self,
        rpc: Rpc,
        name: &ObjectName,
        is_inline: bool,
    ) -> Result<Option<(BlobDigest, Vec<u8>)>, Failure> {
        let request = GetActionResultRequest {
            instance_name: self.instance.clone(),
            action_digest: Some(action(&self.instance, name).digest),
            inline_output_files: is_inline.then(|| OUTPUT.to_owned()).into_iter().collect(),
            digest_function: SHA256,
        };
        match rpc.unary::<ActionResult>(GET_ACTION_RESULT, &request, LARGEST_MESSAGE).await {
            Ok(result) => Ok(output(result)),
            Err(Failure::Status(status)) if status.code == Code::NOT_FOUND => Ok(None),
            Err(failure) => Err(failure),
        }
    }
}
