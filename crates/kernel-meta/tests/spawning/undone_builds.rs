//! What a build set aside comes back to what was there: every state of a kernel's files, built over and undone.
#![expect(clippy::disallowed_methods, reason = "tests lay out directories by hand")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, FileTimes};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::common::owned::{Ours, all_bytes, view};
use opbuild_digest::Digest;
use opbuild_kernel_meta::Part;
use opbuild_kernel_meta::quarantine::{UndoOptions, newest, quarantines, undo};
use opbuild_testkit::ascend::Chip;
use opbuild_testkit::caches::{Kept, Rank};

const CHIP: Chip = Chip::Ascend910B;

/// What a file of a kernel is before the build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Is {
    Absent,
    /// What the build is about to write.
    Right,
    /// What an earlier build wrote.
    Old,
    /// What an earlier build wrote, and somebody changed: a framework the description, as it does.
    Changed,
    /// A framework's.
    Theirs,
    Torn,
}

const ALL: [Is; 6] = [Is::Absent, Is::Right, Is::Old, Is::Changed, Is::Theirs, Is::Torn];

/// The bytes of one part in each state.
fn bytes(part: Part, is: Is, theirs: &Kept) -> Option<Vec<u8>> {
    let ours = |version| Ours::of(CHIP, theirs, version).files[part as usize].clone();
    let theirs = || match part {
        Part::Object => theirs.object.clone(),
        Part::Json => theirs.json.clone(),
        Part::Info => [theirs.info.clone().unwrap(), b" \n".to_vec()].concat(),
    };
    Some(match is {
        Is::Absent => return None,
        Is::Right => ours(2),
        Is::Old => ours(1),
        Is::Changed if part == Part::Json => extended(&ours(1)),
        Is::Changed => {
            let mut bytes = ours(1);
            *bytes.last_mut().unwrap() ^= 1;
            bytes
        }
        Is::Theirs => theirs(),
        Is::Torn => theirs()[..20].to_vec(),
    })
}

/// With what MindSpore adds.
fn extended(json: &[u8]) -> Vec<u8> {
    let text = String::from_utf8(json.to_vec()).unwrap();
    text.replacen('{', r#"{"build_result": "{}", "#, 1).into_bytes()
}

type Image = BTreeMap<PathBuf, (Option<SystemTime>, Digest)>;

/// Every file with its time, but for the lock of our builds and the time of our list.
fn image(base: &Path) -> Image {
    let mut image = Image::new();
    for (path, bytes) in all_bytes(base) {
        let name = path.file_name().unwrap().to_string_lossy();
        let time = (name != ".opbuild-manifest").then(|| fs::metadata(&path).unwrap().modified().unwrap());
        if name != ".opbuild.lock" {
            image.insert(path.strip_prefix(base).unwrap().to_owned(), (time, Digest::of(&bytes)));
        }
    }
    image
}

#[test]
fn whatever_was_there_is_there_again() {
    let theirs = Rank { soc: CHIP.soc(), ..Rank::new(0) }.square(1);
    let hour = SystemTime::now() - Duration::from_secs(3600);
    let mut undone_states = BTreeSet::new();
    for (object, json) in ALL.iter().flat_map(|object| ALL.map(|json| (*object, json))) {
        for info in ALL {
            for (recorded, replace) in [(0, false), (0, true), (1, false), (1, true), (2, false), (2, true)] {
                let state = format!("{object:?} {json:?} {info:?}, recorded {recorded}, replace {replace}");
                let base = tempfile::tempdir().unwrap();
                let dir = base.path().join("rank_0/kernel_meta");
                fs::create_dir_all(&dir).unwrap();
                if recorded > 0 {
                    view(base.path()).materialise(&[Ours::of(CHIP, &theirs, recorded).files()]).unwrap();
                }
                for (part, is) in [(Part::Object, object), (Part::Json, json), (Part::Info, info)] {
                    let path = dir.join(format!("{}{}", theirs.stem, part.suffix()));
                    match bytes(part, is, &theirs) {
                        None => fs::remove_file(&path).unwrap_or_default(),
                        // What a build wrote and nobody changed is the very file.
                        Some(bytes) if fs::read(&path).is_ok_and(|found| found == bytes) => {}
                        Some(bytes) => {
                            fs::write(&path, bytes).unwrap();
                            File::open(&path)
                                .unwrap()
                                .set_times(FileTimes::new().set_modified(hour))
                                .unwrap();
                        }
                    }
                }
                let before = image(base.path());
                let build = Ours::of(CHIP, &theirs, 2);
                let report = view(base.path()).with_replace(replace).materialise(&[build.files()]).unwrap();
                if report.quarantine.is_none() {
                    continue;
                }
                assert!(build.is_in(&dir), "{state}: {report:?}");
                for run in newest(quarantines(base.path()).unwrap()) {
                    let undone = undo(&run, &UndoOptions { dry_run: false, observe: &|_| {} }).unwrap();
                    assert!(undone.removed && undone.kept.is_empty(), "{state}: {undone:?}");
                }
                assert_eq!(image(base.path()), before, "{state}");
                undone_states.insert((object, json, info, recorded, replace));
            }
        }
    }
    // A kernel that is not ours, and one of ours that was damaged.
    for replace in [true, false] {
        assert!(undone_states.contains(&(Is::Theirs, Is::Theirs, Is::Theirs, 0, true)));
        assert!(undone_states.contains(&(Is::Changed, Is::Right, Is::Right, 2, replace)));
        assert!(undone_states.contains(&(Is::Torn, Is::Old, Is::Old, 1, replace)));
    }
    assert!(undone_states.len() > 400, "{}", undone_states.len());
}
