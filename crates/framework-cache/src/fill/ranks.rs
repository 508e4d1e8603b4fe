//! The ranks under one base: their kernels and devices.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::fill::devices::DeviceMap;
use crate::fill::reason::DeviceError;
use crate::fill::scanned::ScannedCache;
use crate::fill::source_kernel::{MAX_TEXT, Soc, SourceKernel};
use crate::quarantine::locked_cache::beside;
use crate::scan::{Item, ItemKind, ItemState, Kernel};
use crate::stem::Stem;
use opkeep_cann_meta::file_names::FileSet;
use opkeep_fs::{Dir, FileKind, FileRead, Fs};
use opkeep_kernel_meta::{QUARANTINE, RunId};

/// The name of the file that MindSpore writes when it starts.
const INITIALIZE: &str = "Initialize.info";

/// A rank, with the facts that decide whether and how it is filled.
#[derive(Debug)]
pub(crate) struct Rank<'a> {
    pub(crate) name: String,
    /// The path of the rank's `kernel_meta`.
    pub(crate) path: PathBuf,
    /// The open `kernel_meta`, if it exists.
    pub(crate) dir: Option<Dir>,
    /// The intact kernels, by stem.
    pub(crate) intact: BTreeMap<&'a str, Kernel>,
    /// The device; if unknown, the reason with help.
    pub(crate) device: Result<u32, DeviceError>,
    /// The kernels that are neither intact nor quarantined, by stem.
    unusable: BTreeMap<&'a str, &'a Item>,
    /// The stems of kernels with descriptors.
    described: Vec<&'a str>,
    /// The different `SocInfo` of the rank's own files, each with one file that has it; `None` until the first use.
    own: Option<Vec<(String, Soc)>>,
    /// The stems of kernels with descriptors that were quarantined; in a dry run, that would be.
    quarantined: Vec<&'a str>,
    /// The quarantines of this cache, the newest first.
    quarantines: Vec<Dir>,
}

/// Returns the ranks under `base`: those that were scanned, those in the map, and those whose caches are missing.
pub(crate) fn ranks<'a>(base: &Path, caches: &[ScannedCache<'a>], map: &DeviceMap) -> Vec<Rank<'a>> {
    let mut ranks: Vec<Rank<'a>> = caches.iter().map(|cache| Rank::of(cache, map)).collect();
    let mut names: Vec<String> = map.ranks().map(str::to_owned).collect();
    if let Ok(entries) = Dir::open_quietly(base).and_then(|base| base.entries()) {
        let dirs = entries.iter().filter(|name| name.kind == FileKind::Dir);
        let rank = |name: &OsStr| name.to_str()?.strip_prefix("rank_").map(str::to_owned);
        // Other names with this prefix may be unrelated to ranks.
        let is_number = |rank: &String| rank.parse::<u64>().is_ok();
        let named = dirs.filter_map(|name| rank(&name.name)).filter(is_number);
        names.extend(named);
    }
    for name in names {
        if !ranks.iter().any(|rank| rank.name == name) {
            ranks.push(Rank::without_scan(base, name, map));
        }
    }
    // Ranks with numbers come first, in numeric order, then ranks with other values of RANK_ID.
    opkeep_order::by_key(&mut ranks, |rank| {
        (rank.name.parse::<u64>().unwrap_or(u64::MAX), rank.name.clone())
    });
    ranks
}

impl<'a> Rank<'a> {
    fn of(cache: &ScannedCache<'a>, map: &DeviceMap) -> Self {
        let cache_dir = &cache.scan.cache;
        let name = cache_dir.rank.clone().unwrap_or_default();
        let quarantined: HashSet<(&str, ItemKind)> = cache
            .moved
            .iter()
            .filter(|moved| moved.below.is_none())
            .map(|moved| (&*moved.name, moved.kind))
            .collect();
        let kernels =
            || cache.scan.items.iter().filter(|item| item.below.is_none() && item.kind == ItemKind::Kernel);
        let (mut intact, mut unusable) = (BTreeMap::new(), BTreeMap::new());
        let (mut described, mut quarantined_described) = (Vec::new(), Vec::new());
        for item in kernels() {
            let is_quarantined = quarantined.contains(&(&*item.name, item.kind));
            match (&item.state, item.kernel) {
                (ItemState::Intact, Some(kernel)) => drop(intact.insert(&*item.name, kernel)),
                (_, _) if !is_quarantined => drop(unusable.insert(&*item.name, item)),
                (_, _) => {}
            }
            if item.members.has(FileSet::INFO) {
                if is_quarantined { &mut quarantined_described } else { &mut described }.push(&*item.name);
            }
        }
        let dir = Dir::open_quietly(&cache_dir.path).ok();
        // Damaged files are evidence, too: their names have the device.
        let mut evidence: BTreeMap<u32, String> = BTreeMap::new();
        for item in kernels() {
            if let Some(stem) = Stem::of(&item.name) {
                let file = || item.files().into_iter().next().unwrap_or_default();
                evidence.entry(stem.device).or_insert_with(file);
            }
        }
        if let Some(device) =
            dir.as_ref().and_then(initialize).and_then(|json| json.get("source_id")?.as_u64())
        {
            let device = u32::try_from(device).unwrap_or(u32::MAX);
            evidence.entry(device).or_insert_with(|| INITIALIZE.to_owned());
        }
        let quarantines = open_quarantines(&cache_dir.path);
        if evidence.is_empty() {
            evidence = devices_of(&quarantines);
        }
        let device = device(&name, &evidence, map);
        let (path, quarantined) = (cache_dir.path.clone(), quarantined_described);
        Self { path, dir, intact, device, unusable, described, own: None, quarantined, quarantines, name }
    }

    /// Returns a rank without a scanned cache.
    fn without_scan(base: &Path, name: String, map: &DeviceMap) -> Self {
        let path = base.join(format!("rank_{name}")).join("kernel_meta");
        let quarantines = open_quarantines(&path);
        let device = match Dir::open_quietly(&path) {
            Ok(_) => Err(DeviceError::Unscanned { base: base.to_owned() }),
            Err(_) => device(&name, &devices_of(&quarantines), map),
        };
        let (intact, unusable) = (BTreeMap::new(), BTreeMap::new());
        let (described, quarantined) = (Vec::new(), Vec::new());
        Self {
            path,
            dir: None,
            intact,
            device,
            unusable,
            described,
            own: None,
            quarantined,
            quarantines,
            name,
        }
    }

    /// Returns the path of a file in the rank's directory, for messages.
    pub(crate) fn path_of(&self, file: &str) -> String {
        format!("rank_{}/kernel_meta/{file}", self.name)
    }

    /// Returns the message about a file that another program changed.
    pub(crate) fn changed(&self, file: &str) -> String {
        format!("`{}` changed since the scan: run it again", self.path_of(file))
    }

    /// Returns whether this rank, with the index `at`, lacks the kernel that `sources` has, as pairs of rank and stem.
    pub(crate) fn lacks(&self, at: usize, sources: &[(usize, String)]) -> bool {
        let mut own = sources.iter().filter(|(rank, _)| *rank == at);
        match &self.device {
            Ok(device) => !own.any(|(_, stem)| Stem::of(stem).is_some_and(|stem| stem.device == *device)),
            Err(_) => own.next().is_none(),
        }
    }

    /// Checks that no damaged or unfinished kernel has this stem.
    ///
    /// # Errors
    /// The state of the existing files.
    pub(crate) fn is_free(&self, stem: &str) -> Result<(), String> {
        match self.unusable.get(stem) {
            None => Ok(()),
            Some(item) => {
                let in_use = item.in_use.map(|in_use| format!(" ({in_use})")).unwrap_or_default();
                let state = item.state_name();
                Err(format!("rank_{}/kernel_meta has files of `{stem}` that are {state}{in_use}", self.name))
            }
        }
    }

    /// Checks that the target in this rank's own files is the target of the source.
    ///
    /// # Errors
    /// The file with another target, and the difference.
    pub(crate) fn accepts(&mut self, source: &SourceKernel, source_rank: &str) -> Result<(), String> {
        if self.own.is_none() {
            self.own = Some(self.read_own());
        }
        for (file, own) in self.own.iter().flatten() {
            let is_whole = file != INITIALIZE;
            if let Some(difference) = source.soc.difference(own, false, is_whole) {
                return Err(format!(
                    "rank_{source_rank}/kernel_meta/{}.info and rank_{}/kernel_meta/{file} are for different targets: \
                     {difference}; let the rank compile the kernel, or move that file away if it is outdated",
                    source.stem, self.name
                ));
            }
        }
        Ok(())
    }

    /// Reads the different `SocInfo` of the rank's own files; if none have one, of its quarantined files.
    fn read_own(&self) -> Vec<(String, Soc)> {
        let mut own = match &self.dir {
            Some(dir) => read_socs(dir, "", &self.described),
            None => Vec::new(),
        };
        if own.is_empty()
            && let Some(dir) = &self.dir
        {
            own = read_socs(dir, "", &self.quarantined);
        }
        for quarantine in &self.quarantines {
            if !own.is_empty() {
                break;
            }
            let names = quarantine.entries().unwrap_or_default();
            let stems: Vec<&str> =
                names.iter().filter_map(|name| name.name.to_str()?.strip_suffix(".info")).collect();
            let run = quarantine.path().file_name().unwrap_or_default().to_string_lossy();
            own = read_socs(quarantine, &format!("../kernel_meta{QUARANTINE}/{run}/"), &stems);
        }
        own
    }

    /// Returns the `SocInfo` of the rank's first own descriptor, which names its directories.
    pub(crate) fn own_soc_info(&self) -> Option<&Map<String, Value>> {
        self.own.iter().flatten().find(|(file, _)| file != INITIALIZE).map(|(_, soc)| soc.all())
    }
}

/// Returns the different `SocInfo` in `dir`: in MindSpore's start file, and in the descriptors of `stems`.
fn read_socs(dir: &Dir, prefix: &str, stems: &[&str]) -> Vec<(String, Soc)> {
    let mut own: Vec<(String, Soc)> = Vec::new();
    let mut add = |file: String, json: Option<Value>| {
        let soc = json.as_ref().and_then(Soc::of);
        if let Some(soc) = soc.filter(|soc| !own.iter().any(|(_, known)| known.is_same(soc))) {
            own.push((file, soc));
        }
    };
    add(INITIALIZE.to_owned(), initialize(dir));
    let mut buffer = Vec::new();
    for stem in stems {
        let file = format!("{stem}.info");
        let json = match dir.read(&file, MAX_TEXT, &mut buffer) {
            FileRead::Complete(_) => serde_json::from_slice(&buffer).ok(),
            _ => None,
        };
        add(format!("{prefix}{file}"), json);
    }
    own
}

/// Opens the quarantines of the cache at `path`, the newest first.
fn open_quarantines(path: &Path) -> Vec<Dir> {
    let real_path = Fs::new().real_path(path).unwrap_or_else(|_| path.to_owned());
    let (Some(above), Some(name)) = (real_path.parent(), real_path.file_name()) else { return Vec::new() };
    let Ok(top) = Dir::open_quietly(above).and_then(|above| above.below(beside(name))) else {
        return Vec::new();
    };
    let mut names = top.entries().unwrap_or_default();
    names.retain(|name| name.kind == FileKind::Dir && RunId::is_dir_name(&name.name));
    opkeep_order::sort(&mut names);
    names.iter().rev().filter_map(|name| top.below(&name.name).ok()).collect()
}

/// Returns the devices in the names of quarantined files, each with one file.
fn devices_of(quarantines: &[Dir]) -> BTreeMap<u32, String> {
    let mut devices = BTreeMap::new();
    for name in quarantines.iter().flat_map(|dir| dir.entries().unwrap_or_default()) {
        let file = name.name.to_string_lossy().into_owned();
        if let Some((stem, _)) = file.rsplit_once('.')
            && let Some(stem) = Stem::of(stem)
        {
            devices.entry(stem.device).or_insert(file);
        }
    }
    devices
}

fn initialize(dir: &Dir) -> Option<Value> {
    let mut bytes = Vec::new();
    match dir.read(OsStr::new(INITIALIZE).to_str()?, MAX_TEXT, &mut bytes) {
        FileRead::Complete(_) => serde_json::from_slice(&bytes).ok(),
        _ => None,
    }
}

/// Returns the device of a rank, from its files and from the map.
fn device(rank: &str, evidence: &BTreeMap<u32, String>, map: &DeviceMap) -> Result<u32, DeviceError> {
    let mut devices = evidence.iter();
    match (map.device(rank), devices.next(), devices.next()) {
        (Some(device), Some(_), _) if evidence.contains_key(&device) => Ok(device),
        (Some(device), None, _) => Ok(device),
        (Some(given), Some((found, file)), _) => {
            Err(DeviceError::Contradicted { rank: rank.to_owned(), given, file: file.clone(), found: *found })
        }
        (None, Some((device, _)), None) => Ok(*device),
        (None, Some((first, file)), Some((second, other))) => {
            let files = [(*first, file.clone()), (*second, other.clone())];
            Err(DeviceError::Ambiguous { rank: rank.to_owned(), files })
        }
        (None, None, _) => Err(DeviceError::Unknown { rank: rank.to_owned() }),
    }
}
