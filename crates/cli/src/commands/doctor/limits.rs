//! Limits in force, of the store and of this process, and where each is from.

use std::path::Path;

use opkeep_fs::{Dir, Fs, TempDir, Volume, max_open_files};
use rustix::process::{Resource, getrlimit};

use super::row::Row;
use crate::commands::config::{ValueOutput, in_force};
use crate::config::load::Loaded;
use crate::config::table::{JOBS, MAX_ENTRIES, MAX_SIZE, REMAIN_PERCENT, Setting};
use crate::flags::compile::CompileArgs;
use crate::input::store::threads;
use crate::ui::text::{bytes, counted};

/// Fewer open files make a build slower, or fail it.
const FEW_FILES: usize = 256;
/// The maximum size of a file of the system that is read.
const MAX_TEXT: u64 = 1 << 20;
/// Less free space in the directory for temporary files is worth a note.
const LITTLE: u64 = 64 << 20;

/// The limits of the store that a build with these flags uses.
pub(super) fn store(common: &CompileArgs, loaded: &Loaded) -> Vec<Row> {
    let root = common.store.dir();
    let root = root.as_deref();
    let (size, size_from) = text(&MAX_SIZE, loaded, root);
    let (left, left_from) = text(&REMAIN_PERCENT, loaded, root);
    let size = if size == "-1" { "no limit on the size".to_owned() } else { format!("{size} MiB a target") };
    let mut finding = format!("{size} ({size_from}), of which an eviction leaves {left} % ({left_from})");
    let entries = in_force(&MAX_ENTRIES, loaded, root).value;
    if let ValueOutput { value: Some(entries), origin } = entries {
        let entries = entries.join(" ").trim().parse().unwrap_or(u64::MAX);
        finding.push_str(&format!("; {} a target ({})", counted(entries, "kernel"), origin.text()));
    }
    vec![Row::ok("store limits", finding)]
}

fn text(setting: &'static Setting, loaded: &Loaded, root: Option<&Path>) -> (String, String) {
    let ValueOutput { value, origin } = in_force(setting, loaded, root).value;
    (value.unwrap_or_default().join(" ").trim().to_owned(), origin.text())
}

/// The limits of this process and of this machine.
pub(super) fn process(common: &CompileArgs, loaded: &Loaded) -> Vec<Row> {
    let mut rows = Vec::new();
    let files = max_open_files();
    let hard = getrlimit(Resource::Nofile).maximum.map_or("no limit".to_owned(), |max| max.to_string());
    let finding = format!("{files} at most (ulimit -n; it can be raised to {hard})");
    rows.push(match files < FEW_FILES {
        true => Row::note("open files", finding).help("`ulimit -n 1024` raises it for this shell"),
        false => Row::ok("open files", finding),
    });
    if let Some(max) = getrlimit(Resource::Fsize).current {
        let finding = format!("{} at most (ulimit -f)", bytes(max));
        rows.push(
            Row::note("file size", finding).help("`ulimit -f unlimited` lets larger kernels be written"),
        );
    }
    let usable = threads(None).get();
    let all = online_processors().filter(|all| *all > usable);
    let others = all.map_or(String::new(), |all| {
        format!(" of {all}: this process may use no others (affinity, or a limit of its control group)")
    });
    let (jobs, from) = match common.jobs() {
        Some(jobs) if common.has_jobs_flag() => (jobs.get(), "--jobs".to_owned()),
        Some(jobs) => (jobs.get(), in_force(&JOBS, loaded, None).value.origin.text()),
        None => (usable, "one per processor".to_owned()),
    };
    rows.push(Row::ok("processors", format!("{usable}{others}")));
    let finding = format!("{jobs} compilers at once ({from})");
    rows.push(match jobs > usable.saturating_mul(2) {
        true => Row::note("jobs", finding).help(format!("`--jobs {usable}` uses each processor once")),
        false => Row::ok("jobs", finding),
    });
    rows.extend(memory());
    rows
}

/// Returns the number of processors that are on.
fn online_processors() -> Option<usize> {
    let text = Fs::new().read_text(Path::new("/sys/devices/system/cpu/online"), MAX_TEXT).ok()?;
    let count = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(last.parse::<usize>().ok()?.checked_sub(first.parse().ok()?)? + 1)
    };
    text.trim().split(',').map(count).sum()
}

fn memory() -> Option<Row> {
    let fs = Fs::new();
    let text = fs.read_text(Path::new("/proc/meminfo"), MAX_TEXT).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let available = line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.saturating_mul(1024);
    let limit = match memory_limit(&fs) {
        Some(limit) => format!("; {} at most for its control group", bytes(limit)),
        None => String::new(),
    };
    Some(Row::ok("memory", format!("{} available{limit}", bytes(available))))
}

/// Returns the smallest limit of the control groups of this process.
fn memory_limit(fs: &Fs) -> Option<u64> {
    let groups = fs.read_text(Path::new("/proc/self/cgroup"), MAX_TEXT).ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let own = Path::new("/sys/fs/cgroup").join(own.trim_start_matches('/'));
    let limit = |dir: &Path| fs.read_text(&dir.join("memory.max"), MAX_TEXT).ok()?.trim().parse().ok();
    own.ancestors().take_while(|dir| dir.starts_with("/sys/fs/cgroup")).filter_map(limit).min()
}

/// The directory for temporary files, in which compilers work.
pub(super) fn temporary() -> Vec<Row> {
    let dir = std::env::temp_dir();
    let shown = dir.display();
    let other = "`export TMPDIR=DIR` names another directory";
    let probe = TempDir::create_in(&dir, "opkeep-doctor-");
    let volume = Dir::open(&dir).and_then(|dir| Volume::of(&dir));
    vec![match (probe, volume) {
        (Err(error), _) => {
            Row::problem("temporary files", format!("compilers cannot work in `{shown}`: {error}"))
                .help(other)
                .prevents_builds(true)
        }
        (Ok(_), Err(error)) => Row::note("temporary files", format!("`{shown}`: {error}")).help(other),
        (Ok(_), Ok(volume)) => {
            let finding = format!(
                "`{shown}`, {}, {} free",
                volume.kind.unwrap_or("of an unknown kind"),
                bytes(volume.free_bytes)
            );
            match volume.free_bytes < LITTLE {
                true => Row::note("temporary files", finding).help(other),
                false => Row::ok("temporary files", finding),
            }
        }
    }]
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make files")]
mod tests {
    use clap::FromArgMatches;

    use super::*;
    use crate::config::Settings;

    fn common(flags: &[&str]) -> CompileArgs {
        let command = <CompileArgs as clap::Args>::augment_args(clap::Command::new("doctor"));
        let line = ["doctor"].iter().chain(flags);
        CompileArgs::from_arg_matches(&command.get_matches_from(line)).unwrap()
    }

    #[test]
    fn the_origin_of_jobs_is_not_guessed() {
        let mut common = common(&["--jobs", "3"]);
        let settings = Settings::default();
        let loaded = settings.load_texts(&["jobs = 3"]);
        let finding = |common: &CompileArgs| {
            let rows = process(common, loaded);
            rows.into_iter().find(|row| row.check == "jobs").unwrap().finding
        };
        assert_eq!(finding(&common), "3 compilers at once (--jobs)");
        common = self::common(&[]);
        common.config = settings.clone();
        assert_eq!(finding(&common), "3 compilers at once (/0/opkeep.toml:1:8)");
    }

    #[test]
    fn the_store_of_the_flag_has_its_limits() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("op_cache.ini"), "max_op_cache_entries=9\n").unwrap();
        let settings = Settings::default();
        let loaded = settings.load_texts(&["store.dir = \"/nowhere\""]);
        let common = common(&["--op_compiler_cache_dir", dir.path().to_str().unwrap()]);
        let finding = &store(&common, loaded)[0].finding;
        assert!(finding.contains("9 kernels a target") && finding.contains("op_cache.ini"), "{finding}");
    }
}
