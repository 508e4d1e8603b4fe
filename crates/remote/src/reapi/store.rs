//! Objects to the server.

use std::collections::{BTreeMap, BTreeSet};

use opkeep_cache::{PutAnswer, RemoteContext, RemoteObject};

use super::abilities::Abilities;
use super::blobs::{LARGEST_MESSAGE, MOST_BLOBS, Transfer, transfers, write_batch, write_stream};
use super::client::Calls;
use super::engine::{MOST_CALLS, MOST_TRANSFERS, ReapiEngine};
use super::failure::Failure;
use super::messages::{
    ActionResult, BlobDigest, FindMissingBlobsRequest, FindMissingBlobsResponse, UpdateActionResultRequest,
};
use super::object::{Stored, action, command, result};
use super::rpc::Rpc;
use super::status::{Code, Status};

const UPDATE_ACTION_RESULT: &str = "/build.bazel.remote.execution.v2.ActionCache/UpdateActionResult";
const FIND_MISSING_BLOBS: &str =
    "/build.bazel.remote.execution.v2.ContentAddressableStorage/FindMissingBlobs";

/// An object to store.
struct New<'a> {
    object: RemoteObject<'a>,
    action: Stored,
    content: BlobDigest,
}

/// Blobs by their digest.
type Blobs<'a> = BTreeMap<&'a BlobDigest, &'a [u8]>;

impl ReapiEngine {
    pub(super) fn create_all(
        &self,
        objects: &[RemoteObject<'_>],
        context: &RemoteContext<'_>,
    ) -> Result<Vec<PutAnswer>, Failure> {
        let abilities = self.writable(objects, context)?;
        let mut old: Vec<Option<BlobDigest>> = vec![None; objects.len()];
        let calls = Calls { count: objects.len(), most: MOST_CALLS, stores: false, context };
        self.client.each(
            &calls,
            |rpc, index| self.look_up(rpc, objects[index].name, false),
            |index, result| old[index] = result.map(|(digest, _)| digest),
        )?;
        let new: Vec<_> = objects.iter().map(|object| self.new_object(*object)).collect();
        let command = command();
        let mut blobs = Blobs::from([(&command.digest, &command.bytes[..])]);
        new.iter().for_each(|new| new.add_blobs(&mut blobs));
        // An object whose content was evicted does not exist.
        let asked: BTreeSet<_> = old.iter().flatten().chain(blobs.keys().copied()).collect();
        let missing = self.missing(&asked.into_iter().collect::<Vec<_>>(), context)?;
        let mut answers: Vec<_> = old
            .iter()
            .map(|old| match old {
                Some(digest) if !missing.contains(digest) => PutAnswer::Existed,
                _ => PutAnswer::Stored,
            })
            .collect();
        let created: Vec<_> = (0..new.len()).filter(|index| answers[*index] == PutAnswer::Stored).collect();
        let mut needed = Blobs::from([(&command.digest, &command.bytes[..])]);
        created.iter().for_each(|index| new[*index].add_blobs(&mut needed));
        needed.retain(|digest, _| missing.contains(*digest));
        self.upload(&needed, &abilities, context)?;
        let calls = Calls { count: created.len(), most: MOST_CALLS, stores: true, context };
        self.client.each(
            &calls,
            |rpc, number| self.update(rpc, &new[created[number]]),
            |number, refused| {
                if refused.is_some() {
                    answers[created[number]] = PutAnswer::Existed;
                }
            },
        )?;
        Ok(answers)
    }

    pub(super) fn replace_all(
        &self,
        objects: &[RemoteObject<'_>],
        context: &RemoteContext<'_>,
    ) -> Result<(), Failure> {
        let abilities = self.writable(objects, context)?;
        let new: Vec<_> = objects.iter().map(|object| self.new_object(*object)).collect();
        let command = command();
        let mut blobs = Blobs::from([(&command.digest, &command.bytes[..])]);
        new.iter().for_each(|new| new.add_blobs(&mut blobs));
        if !new.is_empty() {
            // Without asking what is missing: a blob that the server has may be damaged.
            self.upload(&blobs, &abilities, context)?;
        }
        let mut refusal = None;
        let calls = Calls { count: new.len(), most: MOST_CALLS, stores: true, context };
        self.client.each(
            &calls,
            |rpc, index| self.update(rpc, &new[index]),
            |_, refused| refusal = refusal.take().or(refused),
        )?;
        refusal.map_or(Ok(()), |status: Status| {
            let reason = format!("the server does not replace an action's result: {status}");
            Err(Status::new(Code::FAILED_PRECONDITION, &reason).into())
        })
    }

    /// Returns what the server can do, if it takes these objects.
    fn writable(
        &self,
        objects: &[RemoteObject<'_>],
        context: &RemoteContext<'_>,
    ) -> Result<Abilities, Failure> {
        let abilities = self.abilities(context)?;
        if !abilities.is_writable {
            let reason = "the server's action cache is read-only for this client";
            return Err(Status::new(Code::PERMISSION_DENIED, reason).into());
        }
        let most = abilities.max_object_bytes;
        match objects.iter().find(|object| object.content.len() as u64 > most) {
            None => Ok(abilities),
            Some(object) => {
                let reason = format!("{object:?}: the largest object has {most} bytes");
                Err(Status::new(Code::FAILED_PRECONDITION, &reason).into())
            }
        }
    }

    fn new_object<'a>(&self, object: RemoteObject<'a>) -> New<'a> {
        let action = action(&self.instance, object.name);
        New { object, action, content: BlobDigest::of(object.content) }
    }

    /// Returns those of the blobs that the server does not have.
    fn missing(
        &self,
        digests: &[&BlobDigest],
        context: &RemoteContext<'_>,
    ) -> Result<BTreeSet<BlobDigest>, Failure> {
        let parts: Vec<_> = digests.chunks(MOST_BLOBS).collect();
        let mut missing = BTreeSet::new();
        let ask = |rpc: Rpc, number: usize| {
            let request = FindMissingBlobsRequest {
                instance_name: self.instance.clone(),
                blob_digests: parts[number].iter().map(|digest| (*digest).clone()).collect(),
            };
            async move {
                rpc.unary::<FindMissingBlobsResponse>(FIND_MISSING_BLOBS, &request, LARGEST_MESSAGE).await
            }
        };
        let calls = Calls { count: parts.len(), most: MOST_TRANSFERS, stores: false, context };
        self.client.each(&calls, ask, |_, answer| missing.extend(answer.missing_blob_digests))?;
        Ok(missing)
    }

    fn upload(
        &self,
        blobs: &Blobs<'_>,
        abilities: &Abilities,
        context: &RemoteContext<'_>,
    ) -> Result<(), Failure> {
        let blobs: Vec<_> = blobs.iter().map(|(digest, content)| (*digest, *content)).collect();
        let sizes = blobs.iter().map(|(_, content)| content.len() as u64);
        let plan = transfers(sizes, abilities.batch_bytes);
        let calls = Calls { count: plan.len(), most: MOST_TRANSFERS, stores: true, context };
        let write = |rpc: Rpc, number: usize| {
            let (plan, blobs) = (&plan, &blobs);
            async move {
                match &plan[number] {
                    Transfer::Batch(batch) => {
                        let batch = batch.iter().map(|blob| blobs[*blob]).collect();
                        write_batch(rpc, &self.instance, batch).await
                    }
                    Transfer::Stream(blob) => {
                        let (digest, content) = blobs[*blob];
                        write_stream(rpc, &self.instance, digest, content).await
                    }
                }
            }
        };
        self.client.each(&calls, write, |_, ()| {})
    }

    /// Stores the result of an object's action. Returns the server's reason if it keeps another result, which exists.
    async fn update(&self, rpc: Rpc, new: &New<'_>) -> Result<Option<Status>, Failure> {
        let request = UpdateActionResultRequest {
            instance_name: self.instance.clone(),
            action_digest: Some(new.action.digest.clone()),
            action_result: Some(result(&new.content)),
        };
        let answer = rpc.clone().unary::<ActionResult>(UPDATE_ACTION_RESULT, &request, LARGEST_MESSAGE).await;
        let status = match answer {
            Ok(_) => return Ok(None),
            // What servers answer that store each result once: the API has no status for it.
            Err(Failure::Status(
                status @ Status {
                    code:
                        Code::ALREADY_EXISTS
                        | Code::FAILED_PRECONDITION
                        | Code::ABORTED
                        | Code::INTERNAL
                        | Code::UNKNOWN,
                    ..
                },
            )) => status,
            Err(failure) => return Err(failure),
        };
        match self.look_up(rpc, new.object.name, false).await? {
            None => Err(status.into()),
            // An earlier attempt, or another host, has stored the same.
            Some((digest, _)) if digest == new.content => Ok(None),
            Some(_) => Ok(Some(status)),
        }
    }
}

impl New<'_> {
    fn add_blobs<'a>(&'a self, blobs: &mut Blobs<'a>) {
        blobs.insert(&self.action.digest, &self.action.bytes);
        blobs.insert(&self.content, self.object.content);
    }
}
