//! The bodies of the fuzz targets `object` and `kernel_json`, with genuine and generated kernels, unchanged and
//! mutated.
//!
//! `OPKEEP_CORPUS` names the directory of the genuine ones. Without it, their tests show as ignored.

use std::path::Path;

use libtest_mimic::{Failed, Trial};
use opkeep_testkit::ascend::{container, fat_binary, split_mix, zoo};
use opkeep_testkit::corpus;
use opkeep_testkit::device::{cubin, hsaco};

use crate::hostile::beside_others;

/// Directories of the corpus, and the least number of files.
const SETS: [(&str, usize); 4] =
    [("cann", 16), ("mindspore/wheel270-ascend", 16), ("mindspore/akg-cpu", 16), ("mindspore/seeds-json", 4)];

/// The number of mutations of each file.
const MIXES: usize = 200;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![Trial::test("fuzz: made kernels", made_kernels)];
    trials.extend(SETS.map(|(directory, fewest)| match corpus::directory() {
        Some(root) => {
            Trial::test(format!("fuzz: {directory}"), move || genuine_files(&root.join(directory), fewest))
        }
        None => corpus::absent(format!("fuzz: {directory}")),
    }));
    trials
}

/// Both bodies with the same bytes: each target also gets the other's inputs.
fn both(bytes: &[u8]) {
    opkeep_validator::fuzz(bytes);
    opkeep_cann_meta::fuzz(bytes);
}

fn made_kernels() -> Result<(), Failed> {
    let mut files = Vec::new();
    let others = [fat_binary("f"), container("c")];
    for pair in zoo().into_iter().map(|(_, pair)| pair).chain(others) {
        // A `.json`, a zero, and its object, so that the target can split them.
        files.push([pair.json.as_slice(), b"\0", pair.object.as_slice()].concat());
        files.extend([pair.json, pair.object]);
    }
    files.push(split_mix("m").master);
    for object in [cubin("k", 90), hsaco("k", 0x4c)] {
        files.push([&br#"{"name": "k"}"#[..], b"\0", &object].concat());
        files.push(object);
    }
    both(b"");
    mix_up(&files);
    Ok(())
}

fn genuine_files(directory: &Path, fewest: usize) -> Result<(), Failed> {
    let files: Vec<Vec<u8>> =
        corpus::files(directory)?.into_iter().map(std::fs::read).collect::<std::io::Result<_>>()?;
    if files.len() < fewest {
        return Err(format!("expected at least {fewest} files, found {}", files.len()).into());
    }
    mix_up(&files);
    Ok(())
}

/// Each file unchanged, truncated, with changed bytes, and with pieces of the others.
fn mix_up(files: &[Vec<u8>]) {
    let _others = beside_others();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |end: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize % end.max(1)
    };
    for file in files {
        both(file);
        for _ in 0..MIXES.min(1 + (1 << 20) / file.len().max(1)) {
            let mut mixed = file.clone();
            for _ in 0..=below(3) {
                let at = below(mixed.len());
                let other = &files[below(files.len())];
                let from = below(other.len());
                let piece = &other[from..other.len().min(from + below(64))];
                match below(4) {
                    0 => mixed.truncate(at),
                    1 => drop(mixed.splice(at..at, piece.iter().copied())),
                    2 => drop(mixed.splice(at..mixed.len().min(at + piece.len()), piece.iter().copied())),
                    _ => mixed.iter_mut().skip(at).take(8).for_each(|byte| *byte ^= 1 << (at % 8)),
                }
            }
            both(&mixed);
        }
    }
}
