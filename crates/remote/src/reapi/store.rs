//! Objects to the server.

use std::collections::{BTreeMap, BTreeSet};

use opkeep_cache::{PutAnswer, RemoteContext, RemoteObject};
use opkeep_text::counted;

use super::abilities::Abilities;
use super::blobs::{LARGEST_MESSAGE, MOST_BLOBS, Transfer, transfers, write_batch, write_stream};
use super::client::Calls;
use super::engine::{MOST_CALLS, MOST_TRANSFERS, ReapiEngine};
use super::failure::Failure;
use super::messages::{
    ActionResult, BlobDigest, FindMissingBlobsRequest, FindMissingBlobsResponse, SHA256,
    UpdateActionResultRequest,
};
use super::object::{Stored, action, command, output, result};
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

/// What became of the result of an object's action.
enum Updated {
    /// It is stored.
    Stored,
    /// The server keeps another one, with its reason.
    Kept(Status),
    /// The server has none, since it lacks a blob.
    Incomplete(Status),
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
        let asked: BTreeSet<_> = opkeep_order::set(old.iter().flatten().chain(blobs.keys().copied()));
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
        let mut incomplete = Vec::new();
        self.update_all(&new, &created, context, |index, updated| match updated {
            Updated::Stored => {}
            Updated::Kept(_) => answers[index] = PutAnswer::Existed,
            Updated::Incomplete(_) => incomplete.push(index),
        })?;
        if incomplete.is_empty() {
            return Ok(answers);
        }
        // What the server had a moment ago is evicted, or it does not look for blobs where it stores them.
        let mut needed = Blobs::from([(&command.digest, &command.bytes[..])]);
        incomplete.iter().for_each(|index| new[*index].add_blobs(&mut needed));
        self.upload(&needed, &abilities, context)?;
        let mut refusal = None;
        self.update_all(&new, &incomplete, context, |index, updated| match updated {
            Updated::Stored => {}
            Updated::Kept(_) => answers[index] = PutAnswer::Existed,
            Updated::Incomplete(status) => refusal = Some(status),
        })?;
        refusal.map_or(Ok(answers), |status| Err(status.into()))
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
        let all: Vec<_> = (0..new.len()).collect();
        self.update_all(&new, &all, context, |_, updated| match updated {
            Updated::Stored => {}
            Updated::Kept(status) => {
                let reason = format!("the server does not replace an action's result: {status}");
                refusal = Some(Status::new(Code::FAILED_PRECONDITION, &reason));
            }
            Updated::Incomplete(status) => refusal = Some(status),
        })?;
        refusal.map_or(Ok(()), |status| Err(status.into()))
    }

    /// Stores the results of the objects with these numbers, and passes the outcome of each to `done`.
    fn update_all(
        &self,
        new: &[New<'_>],
        numbers: &[usize],
        context: &RemoteContext<'_>,
        mut done: impl FnMut(usize, Updated),
    ) -> Result<(), Failure> {
        let calls = Calls { count: numbers.len(), most: MOST_CALLS, stores: true, context };
        let update = |rpc: Rpc, at: usize| self.update(rpc, &new[numbers[at]]);
        self.client.each(&calls, update, |at, updated| done(numbers[at], updated))
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
                let reason =
                    format!("{object:?}: the largest object has {most}", most = counted(most, "byte"));
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
                digest_function: SHA256,
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

    /// Stores the result of an object's action.
    async fn update(&self, rpc: Rpc, new: &New<'_>) -> Result<Updated, Failure> {
        let request = UpdateActionResultRequest {
            instance_name: self.instance.clone(),
            action_digest: Some(new.action.digest.clone()),
            action_result: Some(result(&new.content)),
            digest_function: SHA256,
        };
        let answer = rpc.clone().unary::<ActionResult>(UPDATE_ACTION_RESULT, &request, LARGEST_MESSAGE).await;
        let status = match answer {
            Ok(stored) => {
                let is_ours = output(stored).is_some_and(|(digest, _)| digest == new.content);
                return if is_ours { Ok(Updated::Stored) } else { self.stored_as(rpc, new).await };
            }
            // What servers answer that store each result once, for which the API has no status, and those that lack a blob.
            Err(Failure::Status(
                status @ Status {
                    code:
                        Code::ALREADY_EXISTS
                        | Code::NOT_FOUND
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
            None if matches!(status.code, Code::FAILED_PRECONDITION | Code::NOT_FOUND) => {
                Ok(Updated::Incomplete(status))
            }
            None => Err(status.into()),
            // An earlier attempt, or another host, has stored the same.
            Some((digest, _)) if digest == new.content => Ok(Updated::Stored),
            Some(_) => Ok(Updated::Kept(status)),
        }
    }

    /// Looks for the result of an object's action. The server answered with another one than it was sent.
    async fn stored_as(&self, rpc: Rpc, new: &New<'_>) -> Result<Updated, Failure> {
        match self.look_up(rpc, new.object.name, false).await? {
            Some((digest, _)) if digest == new.content => Ok(Updated::Stored),
            Some(_) => Ok(Updated::Kept(Status::new(Code::ALREADY_EXISTS, "it has another one"))),
            None => Err(Failure::invalid("the server stored no result, and reported that it had")),
        }
    }
}

impl New<'_> {
    fn add_blobs<'a>(&'a self, blobs: &mut Blobs<'a>) {
        blobs.insert(&self.action.digest, &self.action.bytes);
        blobs.insert(&self.content, self.object.content);
    }
}
