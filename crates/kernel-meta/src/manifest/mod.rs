//! The list of what we wrote: a text, no disk.
//!
//! ```text
//! opkeep-manifest 2 <digest of all that follows this line>
//! <stem> TAB <marks> TAB <object> TAB <json> TAB <info> TAB <slot> TAB <slot> ...
//! ```
//!
//! An object, json or info is the digest it is written with and, once it was read back at rest, its identity: five
//! numbers. While it is being replaced, the digest of the replaced file follows, with a colon and its own marks if it has
//! any (`a`: adopted, `d`: for debugging): the list is written before the files, so that after a kill at any instant both
//! are known. Marks are `o`, `j` and `i` for an object, a json and an info that were there before we wrote them (*adopted*:
//! the bytes are ours, another program wrote them), `d` for a kernel that was compiled for debugging, `w` for one that is
//! being written; `-` stands for none. With `w`, the last word of an object, json and info is `-` if it stays, `?` if it is
//! to be written, and inode, size and time of the complete file once that waits for its name: another program may write
//! the same bytes after a kill.
//! Slots are escaped, and only ever compared. A kernel without a slot is superseded.

mod record;
mod text;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

use opkeep_digest::Digest;
use opkeep_fs::{FileId, FileState};

pub use crate::compare::{MAX_TEXT, described, describes};
use crate::{KernelFileKind, KernelFiles};
pub(crate) use record::Before;
use record::Writing;
pub use record::{Known, Record};
use text::{parse_kernel, write_line};

/// The manifest's file. No `.json`: MindSpore parses every one.
pub const NAME: &str = ".opkeep-manifest";
const HEAD: &str = "opkeep-manifest 2 ";

/// Every kernel that we wrote, by stem. Names are those of the text that was read, until others come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest<'a> {
    /// By stem.
    pub kernels: BTreeMap<Cow<'a, str>, Record<'a>>,
}

impl<'a> Manifest<'a> {
    /// Reads a manifest. One that is torn, edited or of another version is an empty one: then files are read instead
    /// of trusted, and nothing is removed.
    pub fn parse(bytes: &'a [u8]) -> Self {
        Self::try_parse(bytes).unwrap_or_default()
    }

    fn try_parse(bytes: &'a [u8]) -> Option<Self> {
        let (head, body) = std::str::from_utf8(bytes).ok()?.split_once('\n')?;
        let digest: Digest = head.strip_prefix(HEAD)?.parse().ok()?;
        if Digest::of(body.as_bytes()) != digest {
            return None;
        }
        let kernels = body.lines().map(parse_kernel).collect::<Option<_>>()?;
        Some(Self { kernels })
    }

    /// Finds out which files were written before a kill, by the `identity` of what has their names: any other than the
    /// staged one is another program's, even if it is equal.
    pub fn resolve(&mut self, identity: impl Fn(&str) -> Option<FileState>) {
        for (stem, record) in &mut self.kernels {
            for part in KernelFileKind::ALL {
                let at = part as usize;
                let Some(writing) = record.writing[at] else { continue };
                let Some(found) = identity(&part.of(stem)) else { continue };
                let FileState { id: FileId { ino, .. }, len: size, mtime, .. } = found;
                let is_staged = writing == Writing::Staged { ino, size, mtime };
                record.adopted[at] |= !is_staged;
                record.writing[at] = None;
            }
        }
    }

    /// Whether a file with this digest that had the name `name` is one that only we wrote.
    pub fn is_ours(&self, name: &str, digest: &Digest) -> bool {
        let named = |part: KernelFileKind| Some((part, part.stem_of(name)?));
        let Some((part, stem)) = KernelFileKind::ALL.into_iter().find_map(named) else { return false };
        self.kernels.get(stem).is_some_and(|record| record.is_ours(part, digest))
    }

    /// The text.
    pub fn to_text(&self) -> String {
        let mut body = String::with_capacity(self.kernels.len() * 600);
        for (stem, record) in &self.kernels {
            write_line(record, stem, &mut body);
            body.push('\n');
        }
        format!("{HEAD}{}\n{body}", Digest::of(body.as_bytes()))
    }

    /// The record of the kernel called `stem` in the text, if there is one.
    pub fn line(&self, stem: &str) -> Option<String> {
        let mut line = String::new();
        write_line(self.kernels.get(stem)?, stem, &mut line);
        Some(line)
    }

    /// Makes the text say `line` of the kernel called `stem`; nothing, if that is no line of this kernel.
    pub fn set_line(&mut self, stem: &'a str, line: Option<&'a str>) {
        // A line of a journal that was edited may be several.
        match line.filter(|line| !line.contains(['\n', '\r'])).and_then(parse_kernel) {
            Some((of, record)) if of == stem => drop(self.kernels.insert(of, record)),
            _ => drop(self.kernels.remove(stem)),
        }
    }

    /// Gives each kernel its slot.
    pub(crate) fn give_slots(&mut self, kernels: &[&KernelFiles<'_>]) {
        // As a rule all of it is known, and nothing is copied.
        for kernel in kernels {
            let slot = slot(kernel);
            let record = match self.kernels.get_mut(kernel.stem) {
                Some(record) => record,
                None => {
                    let known = |part| Known { digest: kernel.content(part).digest(), seen: None };
                    let new = Record {
                        files: KernelFileKind::ALL.map(known),
                        before: [None; 3],
                        writing: [None; 3],
                        adopted: [false; 3],
                        debug: kernel.debug,
                        slots: Vec::new(),
                    };
                    self.kernels.entry(kernel.stem.to_owned().into()).or_insert(new)
                }
            };
            if let Err(place) = record.slots.binary_search(&slot) {
                record.slots.insert(place, slot.into_owned().into());
            }
        }
    }

    /// Takes the slots of those `kernels` that are written (`is_there`) from every kernel that is not among them. One for
    /// debugging takes it from others of that sort only.
    pub(crate) fn take_slots(&mut self, kernels: &[&KernelFiles<'_>], is_there: impl Fn(&str) -> bool) {
        let slots: Vec<Cow<'_, str>> = kernels.iter().map(|kernel| slot(kernel)).collect();
        // A slot that one call gives to several kernels stays with all of them.
        let mut holders = HashSet::with_capacity(slots.len());
        // Whether only kernels for debugging take the slot.
        let mut takers: HashMap<&str, bool> = HashMap::with_capacity(slots.len());
        for (kernel, slot) in kernels.iter().zip(&slots) {
            holders.insert((&**slot, kernel.stem));
            if is_there(kernel.stem) {
                *takers.entry(slot).or_insert(true) &= kernel.debug;
            }
        }
        for (stem, record) in &mut self.kernels {
            // A release that a kernel for debugging is replacing is still there.
            let is_debug = record.debug && record.before.iter().flatten().all(|before| before.debug);
            let loses = |slot: &str| {
                takers.get(slot).is_some_and(|for_debug| is_debug || !for_debug)
                    && !holders.contains(&(slot, &**stem))
            };
            record.slots.retain(|slot| !loses(slot));
        }
    }

    /// Notes the digest that a file has from now on, its identity where that may be trusted, and what it replaces.
    pub(crate) fn note(&mut self, stem: &str, part: KernelFileKind, known: Known, before: Option<Before>) {
        if let Some(record) = self.kernels.get_mut(stem) {
            record.files[part as usize] = known;
            record.before[part as usize] = before;
            record.writing[part as usize] = None;
        }
    }

    /// Notes that a file is about to be written where it was not written before.
    pub(crate) fn plan(&mut self, stem: &str, part: KernelFileKind) {
        if let Some(record) = self.kernels.get_mut(stem) {
            record.writing[part as usize] = Some(Writing::Planned);
        }
    }

    /// Notes the complete file that is about to get the name of a planned one.
    pub(crate) fn stage(&mut self, stem: &str, part: KernelFileKind, staged: FileState) {
        if let Some(writing) = self.kernels.get_mut(stem).and_then(|it| it.writing[part as usize].as_mut()) {
            let FileState { id: FileId { ino, .. }, len: size, mtime, .. } = staged;
            *writing = Writing::Staged { ino, size, mtime };
        }
    }

    /// Restores the record of a kernel that is not written, as it was in `found`.
    pub(crate) fn unnote(&mut self, stem: &str, found: &Self) {
        match found.kernels.get(stem) {
            Some(record) => drop(self.kernels.insert(stem.to_owned().into(), record.clone())),
            None => drop(self.kernels.remove(stem)),
        }
    }

    /// Notes how a kernel came there, and what it was compiled for.
    pub(crate) fn mark(&mut self, stem: &str, adopted: [bool; 3], debug: bool) {
        if let Some(record) = self.kernels.get_mut(stem) {
            (record.adopted, record.debug) = (adopted, debug);
        }
    }

    /// Notes that a kernel's files were written: the replaced ones are gone.
    pub(crate) fn written(&mut self, stem: &str) {
        if let Some(record) = self.kernels.get_mut(stem) {
            (record.before, record.writing) = ([None; 3], [None; 3]);
        }
    }
}

/// The kernel's slot as it stands in the manifest. Escaping is one to one, and leaves no tab and no newline.
fn slot<'a>(kernel: &KernelFiles<'a>) -> Cow<'a, str> {
    let slot = if kernel.slot.is_empty() { kernel.stem } else { kernel.slot };
    let stays = |byte: u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'\'' | b'"' | b'\\');
    if slot.bytes().all(stays) { Cow::Borrowed(slot) } else { Cow::Owned(slot.escape_default().to_string()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileContent;

    fn kernel<'a>(slot: &'a str, stem: &'a str) -> KernelFiles<'a> {
        let content = FileContent::of(b"bytes");
        KernelFiles {
            slot,
            stem,
            object: content,
            json: content,
            info: content,
            for_chip: true,
            debug: false,
        }
    }

    fn assign(manifest: &mut Manifest<'_>, kernels: &[&KernelFiles<'_>]) {
        manifest.give_slots(kernels);
        manifest.take_slots(kernels, |_| true);
    }

    /// Two kernels share a slot, and one of them is not written: it is still wanted.
    #[test]
    fn a_kernel_that_is_left_keeps_its_slot() {
        let (first, second) = (kernel("x", "one"), kernel("x", "two"));
        let mut manifest = Manifest::default();
        assign(&mut manifest, &[&first, &second]);
        manifest.take_slots(&[&first, &second], |stem| stem == "one");
        assert!(superseded(&manifest).is_empty());
        // One that is not given loses it to a kernel that is written only.
        manifest.take_slots(&[&first], |_| false);
        assert!(superseded(&manifest).is_empty());
        manifest.take_slots(&[&first], |_| true);
        assert_eq!(superseded(&manifest), ["two"]);
    }

    #[test]
    fn a_kernel_for_debugging_takes_slots_of_its_sort_only() {
        let debug = |stem| KernelFiles { debug: true, ..kernel("x", stem) };
        let mut manifest = Manifest::default();
        assign(&mut manifest, &[&kernel("x", "release")]);
        assign(&mut manifest, &[&debug("one")]);
        assert!(superseded(&manifest).is_empty());
        assign(&mut manifest, &[&debug("two")]);
        assert_eq!(superseded(&manifest), ["one"]);
        assign(&mut manifest, &[&kernel("x", "next")]);
        assert_eq!(superseded(&manifest), ["one", "release", "two"]);
    }

    #[test]
    fn a_line_that_is_several_is_refused() {
        let mut manifest = example();
        let line = manifest.line("c").unwrap();
        let torn = format!("{line}\ttwo\nlines");
        manifest.set_line("c", Some(&torn));
        assert!(!manifest.kernels.contains_key("c"));
        assert_eq!(Manifest::parse(manifest.to_text().as_bytes()).kernels.len(), 2);
    }

    fn superseded<'a>(manifest: &'a Manifest<'_>) -> Vec<&'a str> {
        let gone = manifest.kernels.iter().filter(|(_, record)| record.is_superseded());
        gone.map(|(stem, _)| &**stem).collect()
    }

    fn example() -> Manifest<'static> {
        let mut manifest = Manifest::default();
        assign(
            &mut manifest,
            &[&kernel("Default/a b-op1", "add_1"), &kernel("tab\tnewline\nü\\", "add_2"), &kernel("", "c")],
        );
        let seen = Some(FileState { id: FileId { dev: 1, ino: 2 }, len: 3, mtime: -4, ctime: i64::MAX });
        manifest.note("add_2", KernelFileKind::Json, Known { digest: Digest::of(b"other"), seen }, None);
        let next = Known { digest: Digest::of(b"new"), seen: None };
        let old = |adopted, debug| Some(Before { digest: Digest::of(b"old"), adopted, debug });
        manifest.note("c", KernelFileKind::Object, next, old(true, false));
        manifest.note("c", KernelFileKind::Json, next, old(true, false));
        manifest.note("c", KernelFileKind::Info, Known { seen, ..next }, old(true, true));
        manifest.note("add_1", KernelFileKind::Json, next, old(false, true));
        manifest.note("add_1", KernelFileKind::Info, next, old(false, false));
        manifest.mark("c", [true, false, true], false);
        manifest.mark("add_1", [false; 3], true);
        manifest.plan("c", KernelFileKind::Object);
        manifest.stage(
            "c",
            KernelFileKind::Object,
            FileState { id: FileId { dev: 5, ino: 6 }, len: 7, mtime: -8, ctime: 0 },
        );
        manifest.plan("c", KernelFileKind::Json);
        manifest
    }

    #[test]
    fn what_is_written_is_read() {
        for manifest in [Manifest::default(), example()] {
            assert_eq!(Manifest::parse(manifest.to_text().as_bytes()), manifest);
        }
    }

    #[test]
    fn every_truncation_and_every_flipped_bit_is_an_empty_manifest() {
        let text = example().to_text().into_bytes();
        for end in 0..text.len() {
            assert_eq!(Manifest::parse(&text[..end]), Manifest::default(), "cut at {end}");
        }
        for at in 0..text.len() {
            let mut flipped = text.clone();
            flipped[at] ^= 4;
            assert_eq!(Manifest::parse(&flipped), Manifest::default(), "flipped at {at}");
        }
    }

    /// Or a manifest that was written before would know other slots.
    #[test]
    fn what_is_not_escaped_is_what_escaping_leaves() {
        for character in (0..=0x2ff).filter_map(char::from_u32) {
            let name = character.to_string();
            assert_eq!(slot(&kernel(&name, "stem")), name.escape_default().to_string(), "{character:?}");
        }
    }

    #[test]
    fn names_that_are_no_names_are_refused_even_with_the_right_digest() {
        let good = example().to_text();
        let body = good.split_once('\n').unwrap().1;
        for bad in ["../x", "", ".opkeep.lock", "a/b"] {
            let body = body.replace("add_1", bad);
            let text = format!("{HEAD}{}\n{body}", Digest::of(body.as_bytes()));
            assert_eq!(Manifest::parse(text.as_bytes()), Manifest::default(), "{bad}");
        }
    }

    #[test]
    fn a_kernel_is_superseded_when_it_has_lost_its_last_slot() {
        let mut manifest = Manifest::default();
        // One kernel may serve many nodes, and one call may give a node twice.
        for _ in 0..2 {
            assign(&mut manifest, &[&kernel("x", "one"), &kernel("y", "one"), &kernel("x", "two")]);
            assert!(superseded(&manifest).is_empty());
        }
        assign(&mut manifest, &[&kernel("x", "three")]);
        assert_eq!(superseded(&manifest), ["two"]);
        assign(&mut manifest, &[&kernel("y", "three"), &kernel("z", "four")]);
        assert_eq!(superseded(&manifest), ["one", "two"]);
        assign(&mut manifest, &[&kernel("x", "one")]);
        assert_eq!(superseded(&manifest), ["two"]);
    }

    #[test]
    fn without_slots_kernels_do_not_compete() {
        let mut manifest = Manifest::default();
        assign(&mut manifest, &[&kernel("", "one")]);
        assign(&mut manifest, &[&kernel("", "two")]);
        assert!(superseded(&manifest).is_empty());
    }
}
