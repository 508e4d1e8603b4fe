//! How an object is stored: its name becomes an action, and its content the only output of that action.

use opkeep_cache::ObjectName;
use prost::Message;

use super::messages::{Action, ActionResult, BlobDigest, Command, OutputFile};

/// The path of the output.
pub(super) const OUTPUT: &str = "object";

/// A message and its digest.
pub(super) struct Stored {
    pub(super) digest: BlobDigest,
    pub(super) bytes: Vec<u8>,
}

impl Stored {
    fn new(message: &impl Message) -> Self {
        let bytes = message.encode_to_vec();
        Self { digest: BlobDigest::of(&bytes), bytes }
    }
}

/// The command of all actions. Nothing runs it: the API wants an action to have one.
pub(super) fn command() -> Stored {
    Stored::new(&Command { arguments: vec!["opkeep".to_owned()], output_paths: vec![OUTPUT.to_owned()] })
}

/// The action of an object. Its salt names the object and the instance, since servers may keep the results of all instances in one
/// place.
pub(super) fn action(instance: &str, name: &ObjectName) -> Stored {
    Stored::new(&Action {
        command_digest: Some(command().digest),
        input_root_digest: Some(BlobDigest::of(b"")),
        salt: format!("{instance}\0{name}").into_bytes(),
    })
}

/// The result of an action whose output has this content.
pub(super) fn result(content: &BlobDigest) -> ActionResult {
    let output = OutputFile { path: OUTPUT.to_owned(), digest: Some(content.clone()), contents: Vec::new() };
    ActionResult { output_files: vec![output] }
}

/// Returns the output of a result. `None`: the result is not one of [`result`].
pub(super) fn output(result: ActionResult) -> Option<(BlobDigest, Vec<u8>)> {
    let output = result.output_files.into_iter().find(|output| output.path == OUTPUT)?;
    let digest = output.digest.filter(|digest| digest.size().is_some())?;
    Some((digest, output.contents))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Objects of other versions of this program must be found. The digests are those of another implementation of protobuf.
    #[test]
    fn the_digest_of_an_action_never_changes() {
        let name = ObjectName::new("v1/default/cpu-x86_64/e/00ff").unwrap();
        let digest = |instance: &str| action(instance, &name).digest;
        assert_eq!(command().digest.hash, "fee07c7b80157511e247ded4e63479a1366a32f11732ce0cf3eedf986990c84b");
        assert_eq!(digest("").hash, "c52032b8bbc6feecc2883021198d63f95ac31b0441cb8e8b2c0e7abbdc475645");
        assert_eq!(digest("team/a").hash, "f7ea6f06c5b914c8b38ddeb6f8684243857471175e4a2490f05d284d1a128f93");
    }

    #[test]
    fn only_results_with_the_output_are_objects() {
        let digest = BlobDigest::of(b"content");
        assert_eq!(output(result(&digest)), Some((digest.clone(), Vec::new())));
        assert_eq!(output(ActionResult::default()), None);
        let mut other = result(&digest);
        other.output_files[0].path = "main.o".to_owned();
        assert_eq!(output(other), None);
        let mut other = result(&digest);
        other.output_files[0].digest = Some(BlobDigest { hash: "00".to_owned(), size_bytes: 7 });
        assert_eq!(output(other), None);
        let mut other = result(&digest);
        other.output_files[0].digest = None;
        assert_eq!(output(other), None);
    }
}
