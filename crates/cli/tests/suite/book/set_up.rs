//! What pages need that no command makes: caches as frameworks leave them.

use std::fs;
use std::path::Path;

use opkeep_testkit::caches::{CachedKernelFiles, Rank, age, cann_kernel, wait_until_closed};

use super::session::Session;

pub(super) fn run(name: &str, session: &Session) -> Result<(), String> {
    let done = match name {
        "eight ranks" => ranks(&session.path("/data/run"), of_one_name),
        "eight ranks, one interrupted" => interrupted(&session.path("/data/run")),
        "eight ranks, two without caches" => deleted(&session.path("/data/run")),
        "a cache of CANN over its limit" => over_its_limit(&session.path("/home/me/atc_data/kernel_cache")),
        _ => return Err(format!("there is no set-up `{name}`")),
    };
    done.map_err(|error| format!("{name}: {error}"))
}

/// A kernel with one name in its directory and in its object, as frameworks give it: it equals no other rank's.
fn of_one_name(rank: &Rank, elements: u32) -> CachedKernelFiles {
    rank.own_square_of(elements, 64 + 4 * elements as usize)
}

/// Eight ranks with six kernels each.
fn ranks(run: &Path, kernel: impl Fn(&Rank, u32) -> CachedKernelFiles) -> std::io::Result<()> {
    if run.exists() {
        fs::remove_dir_all(run)?;
    }
    for rank in (0..8).map(Rank::new) {
        (1..=6).try_for_each(|elements| kernel(&rank, elements).write(&rank.dir(run)))?;
    }
    Ok(())
}

/// A build was interrupted: one kernel has no `.json`, and another one half of it.
fn interrupted(run: &Path) -> std::io::Result<()> {
    let kernel = of_one_name;
    ranks(run, kernel)?;
    let json = |rank: u32, elements: u32| {
        let rank = Rank::new(rank);
        rank.dir(run).join(format!("{}.json", kernel(&rank, elements).stem))
    };
    fs::remove_file(json(1, 2))?;
    let path = json(5, 4);
    let bytes = fs::read(&path)?;
    fs::write(&path, &bytes[..bytes.len() / 2])?;
    age(&path)
}

/// One rank lost all its kernels, another one two kernels and the object of a third.
fn deleted(run: &Path) -> std::io::Result<()> {
    // Equal objects of all ranks, which can be copied.
    let kernel = |rank: &Rank, elements: u32| rank.square(elements);
    ranks(run, kernel)?;
    let rank = Rank::new(3);
    fs::remove_dir_all(rank.dir(run))?;
    fs::create_dir_all(rank.dir(run))?;
    let rank = Rank::new(6);
    let remove = |elements, suffix: &str| {
        fs::remove_file(rank.dir(run).join(format!("{}.{suffix}", kernel(&rank, elements).stem)))
    };
    remove(1, "o")?;
    ["o", "json", "info"].iter().try_for_each(|suffix| remove(2, suffix).and_then(|()| remove(3, suffix)))
}

/// A limit of 1 MB, more kernels than that, an object without its `.json` and a file that a killed process left.
fn over_its_limit(cache: &Path) -> std::io::Result<()> {
    let chip = cache.join("Ascend910B2");
    for number in (1..40).map(|number| 15_000 + number) {
        cann_kernel("Ascend910B2", number).write(&chip)?;
    }
    let orphan = cann_kernel("Ascend910B2", 1);
    orphan.write(&chip)?;
    fs::remove_file(chip.join(format!("{}.json", orphan.stem)))?;
    let left = chip.join(format!("{}.json_12_345_6.temp", orphan.stem));
    fs::write(&left, "{")?;
    age(&left)?;
    let ini = "[op_compiler_cache]\nadk_version=7.7.0.1.238\nops_version=7.7.0.1.238\nmax_op_cache_size=1\nremain_cache_size_ratio=50\n";
    fs::write(cache.join("op_cache.ini"), ini)?;
    wait_until_closed(&chip)
}
