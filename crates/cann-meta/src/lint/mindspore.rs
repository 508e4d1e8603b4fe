//! MindSpore 2.0, which reads most fields leniently and ignores some.

use std::borrow::Cow;

use crate::json::raw::{self, Members, text};
use crate::lint::lints::{Effect, Lint, Lints, Vendor};
use crate::lint::value::{Cpp, uint32, wide};
use crate::meta::{Document, document};
use crate::{Magic, MetaError};

/// The fields of this `.json` that MindSpore 2.0 would not read as intended, in MindSpore's reading order.
///
/// Fields that it does not know have no lint, except the one that a later MindSpore reads.
pub fn mindspore_lints(json: &[u8]) -> Vec<Lint> {
    of_document(&document(json))
}

/// [`mindspore_lints`] for a document that is already split into members.
pub(crate) fn of_document(document: &Result<Document<'_>, MetaError>) -> Vec<Lint> {
    let mut mindspore = Lints::of(Vendor::MindSpore);
    match document {
        Ok((_, Some(members))) if is_for_host(members) => sha256(&mut mindspore, members),
        Ok((_, Some(members))) => STEPS.iter().for_each(|step| step(&mut mindspore, members)),
        Ok((raw, None)) => mindspore.refuse("(document)", "an object", Some(raw)),
        Err(MetaError::TooLarge { .. }) => {}
        Err(error) => {
            let outcome = "it reads again after 500 ms, and that exception ends the process";
            mindspore.add(Effect::Abort, "(document)", "JSON", Some(&error.to_string()), outcome);
        }
    }
    mindspore.list
}

const STEPS: [fn(&mut Lints, &Members<'_>); 12] = [
    magic,
    block_dim,
    kernel_name,
    suffix,
    task_ration,
    workspace,
    parameters,
    tiling_size,
    sha256,
    knowledge_bank,
    attributes,
    later_fields,
];

/// Other code reads AKG's kernels for the CPU, and only their digest.
fn is_for_host(members: &Members<'_>) -> bool {
    members.get("magic").is_none() && members.get("threadNumber").is_some()
}

fn magic(mindspore: &mut Lints, members: &Members<'_>) {
    let known =
        |raw| text(raw).and_then(|name| Magic::from_name(&name)).is_some_and(Magic::accepted_by_mindspore);
    let raw = members.get("magic");
    if !raw.is_some_and(known) {
        let expected = "one of the seven names with RT_DEV_BINARY_MAGIC_";
        mindspore.add(Effect::Refuse, "magic", expected, raw, "when it registers the kernel with the device");
    }
}

fn block_dim(mindspore: &mut Lints, members: &Members<'_>) {
    let raw = members.get("blockDim");
    let outcome: Cow<'static, str> = match raw.and_then(uint32) {
        None => "as the number that was in memory".into(),
        Some((read, meant)) if i128::from(read) != meant => format!("as {read}").into(),
        Some(_) => return,
    };
    mindspore.add(Effect::Misread, "blockDim", "a whole number from 0 to 4294967295", raw, outcome);
}

fn kernel_name(mindspore: &mut Lints, members: &Members<'_>) {
    let raw = members.get("kernelName");
    if !raw.is_some_and(|raw| Cpp::Text.accepts(raw)) {
        mindspore.add(Effect::Misread, "kernelName", "a string", raw, "as an empty name");
    }
}

fn suffix(mindspore: &mut Lints, members: &Members<'_>) {
    let raw = members.get("binFileSuffix");
    if raw.and_then(text).is_none_or(|suffix| suffix.is_empty()) {
        let outcome = "it looks for a binary without suffix, and compiles again";
        mindspore.add(Effect::Refuse, "binFileSuffix", "a string that is not empty", raw, outcome);
    }
}

fn task_ration(mindspore: &mut Lints, members: &Members<'_>) {
    if let Some(raw) = members.get("taskRation").filter(|raw| !Cpp::Uint32.accepts(raw)) {
        let expected = Cpp::Uint32.expected();
        mindspore.add(Effect::Misread, "taskRation", expected, Some(raw), "as 4294967295");
    }
}

fn workspace(mindspore: &mut Lints, members: &Members<'_>) {
    let Some(workspace) = members.get("workspace").and_then(|raw| Members::read(raw).ok()) else { return };
    let list = |name| workspace.get(name).and_then(raw::items);
    let (num, size) = (workspace.get("num"), list("size").unwrap_or_default());
    let lengths = [Some(size.len()), list("type").map(|kinds| kinds.len())];
    let differs = |len: usize| num.and_then(wide) != Some(len as i128);
    if lengths.into_iter().flatten().any(differs) {
        let expected = "the number of items in `workspace.size` and in `workspace.type`";
        mindspore.ignore("workspace.num", expected, num, "the kernel runs without workspace");
        return;
    }
    if let Some(index) = size.iter().position(|size| wide(size).is_some_and(|size| size < 0)) {
        let (field, found) = (format!("workspace.size[{index}]"), size.get(index).copied());
        let outcome = "as a number close to 2^64";
        mindspore.add(Effect::Misread, field, "a whole number from 0", found, outcome);
    }
}

fn parameters(mindspore: &mut Lints, members: &Members<'_>) {
    if let Some(raw) = members.get("parameters").filter(|raw| !Cpp::WideList.accepts(raw)) {
        let outcome = "the whole list is dropped, and nothing is cleared before the launch";
        mindspore.ignore("parameters", "a list of whole numbers", Some(raw), outcome);
    }
}

fn tiling_size(mindspore: &mut Lints, members: &Members<'_>) {
    let Some(raw) = members.get("opParaSize") else { return };
    check_32_bits(mindspore, "opParaSize", raw);
    if let Some((read, meant)) = uint32(raw)
        && i128::from(read) != meant
    {
        let expected = "a whole number from 0 to 4294967295";
        mindspore.add(Effect::Misread, "opParaSize", expected, Some(raw), format!("as {read}"));
    }
}

/// A number of 32 bits; MindSpore does not catch the exception for another value.
fn check_32_bits(mindspore: &mut Lints, field: &str, raw: &str) {
    if !Cpp::Uint32.accepts(raw) {
        let outcome = "the exception is not caught";
        mindspore.add(Effect::Abort, field, Cpp::Uint32.expected(), Some(raw), outcome);
    }
}

fn sha256(mindspore: &mut Lints, members: &Members<'_>) {
    match members.get("sha256") {
        None => mindspore.add(
            Effect::Refuse,
            "sha256",
            "the digest of the binary",
            None,
            "it compiles again in every run",
        ),
        Some(raw) if !Cpp::Text.accepts(raw) => {
            let outcome = "the exception is not caught";
            mindspore.add(Effect::Abort, "sha256", "a string", Some(raw), outcome);
        }
        Some(_) => {}
    }
}

/// A switch that MindSpore 2.0 reads as a number of 32 bits and that a later CANN writes as a boolean.
fn knowledge_bank(mindspore: &mut Lints, members: &Members<'_>) {
    if let Some(raw) = members.get("KBHit") {
        check_32_bits(mindspore, "KBHit", raw);
    }
}

fn attributes(mindspore: &mut Lints, members: &Members<'_>) {
    for name in ["modeInArgsFirstField", "batchBindOnly"] {
        if let Some(raw) = members.get(name) {
            check_32_bits(mindspore, name, raw);
        }
    }
    if let Some(raw) = members.get("args_remap")
        && raw::items(raw).is_none_or(|items| items.len() != 2)
    {
        let expected = "two lists, for inputs and outputs";
        mindspore.ignore("args_remap", expected, Some(raw), "arguments keep their order");
    }
}

fn later_fields(mindspore: &mut Lints, members: &Members<'_>) {
    if let Some(raw) = members.get("globalworkspace_spec_workspace") {
        let outcome = "it sees no overflow of this kernel";
        mindspore.ignore("globalworkspace_spec_workspace", "MindSpore 2.1 or later", Some(raw), outcome);
    }
}

#[cfg(test)]
mod tests;
