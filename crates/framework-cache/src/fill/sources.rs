//! The comparison of the same kernel in several ranks, one of which becomes the source.

use opkeep_cann_meta::{KernelMeta, known_target, unjudged};
use opkeep_descriptor::{Descriptor, Generation, read_info};
use opkeep_digest::Digest;
use opkeep_validator::validate_parsed;
use serde_json::{Map, Value};

use crate::fill::ranks::Rank;
use crate::fill::source_kernel::{MAX_OBJECT, MAX_TEXT, Soc, SourceKernel, shown};
use crate::stem::{Stem, without_device};
use opkeep_fs::{Dir, FileRead};
use opkeep_kernel_meta::manifest::describes;

/// The fields of a `.json` that may differ for the same kernel: the digest, since the objects themselves are compared;
/// the object's name, which MindSpore does not read; and the build result, which MindSpore adds.
const FREE_FIELDS: [&str; 3] = ["sha256", "binFileName", "build_result"];

/// The files of a kernel in one rank.
struct SourceCandidate<'a> {
    rank: usize,
    from: &'a Rank<'a>,
    dir: &'a Dir,
    stem: &'a str,
    sha256: Digest,
    json: Vec<u8>,
    info: Option<(Descriptor, Generation, Soc)>,
}

impl SourceCandidate<'_> {
    fn path(&self) -> String {
        self.from.path_of(self.stem)
    }
}

/// Returns the kernel `kernel` as a source, if it is the same in all `sources`, which are ranks and stems.
///
/// # Errors
/// The reason why the kernel cannot be copied, such as two ranks and their difference.
pub(crate) fn agree(
    kernel: &str,
    sources: &[(usize, String)],
    ranks: &[Rank<'_>],
) -> Result<SourceKernel, String> {
    let mut all = Vec::new();
    for (rank, stem) in sources {
        all.push(candidate(*rank, stem, ranks)?);
    }
    let Some((first, others)) = all.split_first() else { return Err("no rank has it".to_owned()) };
    for other in others {
        if let Some(difference) = difference(kernel, first, other)? {
            return Err(format!(
                "`{}` and `{}` are not the same kernel: {difference}; move the wrong one away, or let the ranks \
                 compile it",
                first.path(),
                other.path()
            ));
        }
    }
    let first = first.stem;
    let mut with_info = all.into_iter().filter_map(|it| Some((it.rank, it.stem, it.sha256, it.info?)));
    let Some((rank, stem, sha256, (descriptor, _, soc))) = with_info.next() else {
        return Err(format!(
            "the descriptor `{first}.info` is missing in every rank that has the kernel: without it, the release of \
             MindSpore that named the kernel is unknown, and so is whether the name is valid for other ranks"
        ));
    };
    let from = &ranks[rank];
    check_chip(from, stem, &descriptor)?;
    Ok(SourceKernel { rank, stem: stem.to_owned(), sha256, descriptor, soc })
}

/// Returns an error if a kernel cannot run on the chip that its descriptor names, even if a view wrote the kernel.
fn check_chip(from: &Rank<'_>, stem: &str, descriptor: &Descriptor) -> Result<(), String> {
    let path = from.path_of(stem);
    let (mut json, mut object) = (Vec::new(), Vec::new());
    let is_read = from.dir.as_ref().is_some_and(|dir| {
        let read = |suffix: &str, limit, bytes: &mut Vec<u8>| {
            matches!(dir.read(format!("{stem}.{suffix}"), limit, bytes), FileRead::Complete(_))
        };
        read("json", MAX_TEXT, &mut json) && read("o", MAX_OBJECT, &mut object)
    });
    if !is_read {
        return Err(from.changed(stem));
    }
    let target = &descriptor.spec.target;
    let expect = known_target(target);
    // If the chip is unknown, the chip of another rank may be unable to run the kernel.
    let Some(expect) = expect else { return Err(format!("`{path}`: {}", unjudged(target))) };
    let meta = KernelMeta::parse(&json).unwrap_or_default();
    match validate_parsed(meta, &object, Some(&expect)).errors().next() {
        None => Ok(()),
        Some(error) => Err(format!(
            "`{path}` is no kernel for {target}, which its descriptor names: {}",
            error.message()
        )),
    }
}

fn candidate<'a>(rank: usize, stem: &'a str, ranks: &'a [Rank<'a>]) -> Result<SourceCandidate<'a>, String> {
    let from = &ranks[rank];
    let path = from.path_of(stem);
    let (Some(dir), Some(kernel)) = (&from.dir, from.intact.get(stem)) else {
        return Err(from.changed(stem));
    };
    let mut json = Vec::new();
    if !matches!(dir.read(format!("{stem}.json"), MAX_TEXT, &mut json), FileRead::Complete(_))
        || !describes(&json, &kernel.sha256)
    {
        return Err(from.changed(stem));
    }
    check_own_name(stem, &json, &path)?;
    let info = match read_text(dir, &format!("{stem}.info")) {
        Some(bytes) => described(stem, &bytes, &path)?,
        None => None,
    };
    Ok(SourceCandidate { rank, from, dir, stem, sha256: kernel.sha256, json, info })
}

/// Returns an error if the `.json` has the name of another kernel, or if the object is not a `.o`.
fn check_own_name(stem: &str, json: &[u8], path: &str) -> Result<(), String> {
    let meta = KernelMeta::parse(json).unwrap_or_default();
    if let Some(suffix) = meta.bin_file_suffix.filter(|suffix| suffix != ".o") {
        return Err(format!(
            "the object of `{path}` is a `{suffix}`, which is for the host: let the ranks compile it"
        ));
    }
    let named = meta.kernel_name.unwrap_or_default();
    let own = named.split("__kernel").next().and_then(Stem::of);
    match (own, Stem::of(stem)) {
        (Some(own), Some(expected)) if own.kernel != expected.kernel => Err(format!(
            "the kernel in `{path}.json` is called `{named}`, the name of another kernel: move it away by hand"
        )),
        _ => Ok(()),
    }
}

fn read_text(dir: &Dir, file: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    matches!(dir.read(file, MAX_TEXT, &mut bytes), FileRead::Complete(_)).then_some(bytes)
}

/// Returns the content of a descriptor, if its kernel's name is valid for other ranks; `None` if the descriptor cannot
/// be read.
fn described(stem: &str, bytes: &[u8], path: &str) -> Result<Option<(Descriptor, Generation, Soc)>, String> {
    let (Ok(descriptor), Ok(document)) = (read_info(bytes), serde_json::from_slice::<Value>(bytes)) else {
        return Ok(None);
    };
    let generation = descriptor.named_by(stem);
    match (generation, Soc::of(&document)) {
        (Some(generation @ (Generation::R1_5 | Generation::R1_6 | Generation::R1_7)), Some(soc)) => {
            Ok(Some((descriptor, generation, soc)))
        }
        (Some(Generation::R2_1), _) => Err(format!(
            "MindSpore {} computes names from the rank's directory and device too, so no rank can use a kernel of \
             another rank: let the ranks compile it",
            Generation::R2_1.versions()
        )),
        (Some(generation), _) => {
            Err(format!("its name is of MindSpore {}, which has no rank directories", generation.versions()))
        }
        (None, _) => Err(format!(
            "the name of `{path}` does not follow from its descriptor: renamed, or of an unknown generation"
        )),
    }
}

/// Returns the difference between two kernels that should be the same, if any.
fn difference(
    kernel: &str,
    one: &SourceCandidate<'_>,
    other: &SourceCandidate<'_>,
) -> Result<Option<String>, String> {
    if one.sha256 != other.sha256 && !same_object(kernel, one, other)? {
        return Ok(Some(format!("the objects' sha256 are {} and {}", one.sha256, other.sha256)));
    }
    if let Some(difference) = json_difference(kernel, &one.json, &other.json) {
        return Ok(Some(difference));
    }
    let (Some((_, first, one)), Some((_, second, other))) = (&one.info, &other.info) else { return Ok(None) };
    if first != second {
        return Ok(Some(format!("one is of MindSpore {}, one of {}", first.versions(), second.versions())));
    }
    Ok(one.difference(other, true, true))
}

/// Returns whether two objects are the same, except for the device in their own names, which compilers write to the
/// symbol.
fn same_object(kernel: &str, one: &SourceCandidate<'_>, other: &SourceCandidate<'_>) -> Result<bool, String> {
    let mut plain = [Vec::new(), Vec::new()];
    for (candidate, bytes) in [one, other].into_iter().zip(&mut plain) {
        let read = candidate.dir.read(format!("{}.o", candidate.stem), MAX_OBJECT, bytes);
        if !matches!(read, FileRead::Complete(_)) || Digest::of(bytes) != candidate.sha256 {
            return Err(candidate.from.changed(&format!("{}.o", candidate.stem)));
        }
        without_device(bytes, kernel);
    }
    Ok(plain[0] == plain[1])
}

/// Returns the first field that differs between two `.json`, with both values.
fn json_difference(kernel: &str, one: &[u8], other: &[u8]) -> Option<String> {
    let read = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        without_device(&mut bytes, kernel);
        serde_json::from_slice::<Map<String, Value>>(&bytes).unwrap_or_default()
    };
    let (one, other) = (read(one), read(other));
    let names = one.keys().chain(other.keys());
    let mut names = names.filter(|name| !FREE_FIELDS.contains(&name.as_str()));
    let name = names.find(|name| one.get(*name) != other.get(*name))?;
    let value = |map: &Map<String, Value>| map.get(name).map_or("nothing".to_owned(), shown);
    Some(format!("`{name}` in the .json is {} and {}", value(&one), value(&other)))
}
