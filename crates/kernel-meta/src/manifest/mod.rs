//! The manifest: the text that lists the files that we wrote. This module does not access the file system.
//!
//! ```text
//! opkeep-manifest 2 <digest of all that follows this line>
//! <stem> TAB <marks> TAB <object> TAB <json> TAB <info> TAB <slot> TAB <slot> ...
//! ```
//!
//! The fields `<object>`, `<json>` and `<info>` each begin with the digest with which the file is written. If the file
//! was read back at rest, its state follows: five numbers. While the file is being replaced, the digest of the replaced
//! file follows, with a colon and marks of that file if it has any (`a`: adopted, `d`: for debugging): the manifest is
//! written before the files, so that after a kill at any instant both digests are known. The field `<marks>` has `o`,
//! `j` and `i` for an object, a json and an info that existed before we wrote them (*adopted*: the bytes are ours,
//! another program wrote them), `d` for a kernel that was compiled for debugging, and `w` for one that is being
//! written; `-` stands for no mark. With `w`, the last word of each file's field is `-` if the file stays, `?` if it is
//! to be written, and inode, size and time of the complete file once that waits for its name: after a kill, another
//! program may write the same bytes. Slots are escaped, and only compared. A kernel without a slot is superseded.

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

/// The name of the manifest's file. The suffix is not `.json`, since MindSpore parses every `.json`.
pub const NAME: &str = ".opkeep-manifest";
const HEAD: &str = "opkeep-manifest 2 ";

/// The records of all kernels that we wrote. Names borrow from the parsed text until others are added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest<'a> {
    /// The records by stem.
    pub kernels: BTreeMap<Cow<'a, str>, Record<'a>>,
}

impl<'a> Manifest<'a> {
    /// Parses a manifest. A text that is damaged, edited or of another version results in an empty manifest: then files
    /// are read instead of trusted, and none is removed.
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

    /// Decides which files were written before a kill, by the `identity` of the files with their names: any file other
    /// than the staged one is another program's, even if it is equal.
    pub fn resolve(&mut self, identity: impl Fn(&str) -> Option<FileState>) {
        for (stem, record) in &mut self.kernels {
            for kind in KernelFileKind::ALL {
                let at = kind as usize;
                let Some(writing) = record.writing[at] else { continue };
                let Some(found) = identity(&kind.of(stem)) else { continue };
                let FileState { id: FileId { ino, .. }, len: size, mtime, .. } = found;
                let is_staged = writing == Writing::Staged { ino, size, mtime };
                record.adopted[at] |= !is_staged;
                record.writing[at] = None;
            }
        }
    }

    /// Returns whether only we wrote a file with this name and digest.
    pub fn is_ours(&self, name: &str, digest: &Digest) -> bool {
        let named = |kind: KernelFileKind| Some((kind, kind.stem_of(name)?));
        let Some((kind, stem)) = KernelFileKind::ALL.into_iter().find_map(named) else { return false };
        self.kernels.get(stem).is_some_and(|record| record.is_ours(kind, digest))
    }

    /// Returns the text of the manifest.
    pub fn to_text(&self) -> String {
        let mut body = String::with_capacity(self.kernels.len() * 600);
        for (stem, record) in &self.kernels {
            write_line(record, stem, &mut body);
            body.push('\n');
        }
        format!("{HEAD}{}\n{body}", Digest::of(body.as_bytes()))
    }

    /// Returns the line of the kernel called `stem`, if it has one.
    pub fn line(&self, stem: &str) -> Option<String> {
        let mut line = String::new();
        write_line(self.kernels.get(stem)?, stem, &mut line);
        Some(line)
    }

    /// Sets the record of the kernel called `stem` from `line`. If that is no line of this kernel, the record is
    /// removed.
    pub fn set_line(&mut self, stem: &'a str, line: Option<&'a str>) {
        // An edited journal may have line breaks in the text.
        match line.filter(|line| !line.contains(['\n', '\r'])).and_then(parse_kernel) {
            Some((of, record)) if of == stem => drop(self.kernels.insert(of, record)),
            _ => drop(self.kernels.remove(stem)),
        }
    }

    /// Adds the slot of each kernel to its record, which is created if missing.
    pub(crate) fn add_slots(&mut self, kernels: &[&KernelFiles<'_>]) {
        // Usually all records and slots exist, and no text is copied.
        for kernel in kernels {
            let slot = slot(kernel);
            let record = match self.kernels.get_mut(kernel.stem) {
                Some(record) => record,
                None => {
                    let known = |kind| Known { digest: kernel.content(kind).digest(), seen: None };
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

    /// Removes the slots of those `kernels` that `is_written` accepts from all kernels that are not in `kernels`. A
    /// kernel for debugging takes a slot only from other kernels for debugging.
    pub(crate) fn take_slots(&mut self, kernels: &[&KernelFiles<'_>], is_written: impl Fn(&str) -> bool) {
        let slots: Vec<Cow<'_, str>> = kernels.iter().map(|kernel| slot(kernel)).collect();
        // If several kernels of one call have the same slot, all of them keep it.
        let mut holders = HashSet::with_capacity(slots.len());
        // For each slot, whether only kernels for debugging take it.
        let mut takers: HashMap<&str, bool> = HashMap::with_capacity(slots.len());
        for (kernel, slot) in kernels.iter().zip(&slots) {
            holders.insert((&**slot, kernel.stem));
            if is_written(kernel.stem) {
                *takers.entry(slot).or_insert(true) &= kernel.debug;
            }
        }
        for (stem, record) in &mut self.kernels {
            // While a kernel for debugging replaces a release, the release still counts.
            let is_debug = record.debug && record.before.iter().flatten().all(|before| before.debug);
            let loses = |slot: &str| {
                takers.get(slot).is_some_and(|for_debug| is_debug || !for_debug)
                    && !holders.contains(&(slot, &**stem))
            };
            record.slots.retain(|slot| !loses(slot));
        }
    }

    /// Records the new digest of a file, its state if that may be trusted, and the file that it replaces.
    pub(crate) fn record_file(
        &mut self,
        stem: &str,
        kind: KernelFileKind,
        known: Known,
        before: Option<Before>,
    ) {
        if let Some(record) = self.kernels.get_mut(stem) {
            record.files[kind as usize] = known;
            record.before[kind as usize] = before;
            record.writing[kind as usize] = None;
        }
    }

    /// Records that a file is about to be written where no file of ours was.
    pub(crate) fn plan(&mut self, stem: &str, kind: KernelFileKind) {
        if let Some(record) = self.kernels.get_mut(stem) {
            record.writing[kind as usize] = Some(Writing::Planned);
        }
    }

    /// Records the complete file that is about to get the name of a planned one.
    pub(crate) fn stage(&mut self, stem: &str, kind: KernelFileKind, staged: FileState) {
        if let Some(writing) = self.kernels.get_mut(stem).and_then(|it| it.writing[kind as usize].as_mut()) {
            let FileState { id: FileId { ino, .. }, len: size, mtime, .. } = staged;
            *writing = Writing::Staged { ino, size, mtime };
        }
    }

    /// Restores the record of a kernel that is not written: the one in `found`. Without one, the record stays if it has
    /// replaced files, since nothing else shows that they are ours once one of them is gone.
    pub(crate) fn restore_record(&mut self, stem: &str, found: &Self) {
        match found.kernels.get(stem) {
            Some(record) => drop(self.kernels.insert(stem.to_owned().into(), record.clone())),
            None if self.kernels.get(stem).is_some_and(Record::replaces) => {}
            None => drop(self.kernels.remove(stem)),
        }
    }

    /// Records which files of a kernel are adopted, and whether it was compiled for debugging.
    pub(crate) fn mark(&mut self, stem: &str, adopted: [bool; 3], debug: bool) {
        if let Some(record) = self.kernels.get_mut(stem) {
            (record.adopted, record.debug) = (adopted, debug);
        }
    }

    /// Records that all files of a kernel were written, and that the replaced ones are gone.
    pub(crate) fn written(&mut self, stem: &str) {
        if let Some(record) = self.kernels.get_mut(stem) {
            (record.before, record.writing) = ([None; 3], [None; 3]);
        }
    }
}

/// Returns the kernel's slot as it is in the manifest. Different slots have different escaped texts, without tabs and
/// newlines.
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
        manifest.add_slots(kernels);
        manifest.take_slots(kernels, |_| true);
    }

    /// Two kernels share a slot, and one of them is not written, but still requested.
    #[test]
    fn a_kernel_that_is_left_keeps_its_slot() {
        let (first, second) = (kernel("x", "one"), kernel("x", "two"));
        let mut manifest = Manifest::default();
        assign(&mut manifest, &[&first, &second]);
        manifest.take_slots(&[&first, &second], |stem| stem == "one");
        assert!(superseded(&manifest).is_empty());
        // A kernel that is not in the call loses the slot only to a kernel that is written.
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
    fn a_line_with_a_line_break_is_refused() {
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
        manifest.record_file(
            "add_2",
            KernelFileKind::Json,
            Known { digest: Digest::of(b"other"), seen },
            None,
        );
        let next = Known { digest: Digest::of(b"new"), seen: None };
        let old = |adopted, debug| Some(Before { digest: Digest::of(b"old"), adopted, debug });
        manifest.record_file("c", KernelFileKind::Object, next, old(true, false));
        manifest.record_file("c", KernelFileKind::Json, next, old(true, false));
        manifest.record_file("c", KernelFileKind::Info, Known { seen, ..next }, old(true, true));
        manifest.record_file("add_1", KernelFileKind::Json, next, old(false, true));
        manifest.record_file("add_1", KernelFileKind::Info, next, old(false, false));
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
    fn every_manifest_is_parsed_from_its_text() {
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

    /// Otherwise the slots in an older manifest would be other ones.
    #[test]
    fn a_slot_stays_unescaped_only_if_escaping_does_not_change_it() {
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
        // One kernel may have several slots, and one call may pass a slot twice.
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
