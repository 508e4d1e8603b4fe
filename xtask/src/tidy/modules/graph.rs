//! The modules of a crate, and the cycles among them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::scan::{Path, Scan};
use crate::tidy::finding::Finding;

/// The longest chain of re-exports that is followed.
const MAX_STEPS: usize = 16;

/// A crate: its files by the module that each is.
#[derive(Debug)]
pub(super) struct Crate<'a> {
    files: BTreeMap<Path, (&'a str, Scan)>,
}

/// Modules that use each other, directly or through others.
#[derive(Debug)]
pub(super) struct Cycle {
    /// The shortest path from the first module back to it.
    pub(super) path: Vec<String>,
    /// The file and line in which the first module uses the second.
    pub(super) file: String,
    pub(super) line: usize,
}

impl<'a> Crate<'a> {
    pub(super) fn parse(files: &[(&'a str, &str)]) -> Result<Self, Finding> {
        let mut parsed = BTreeMap::new();
        for (path, text) in files {
            let module = module_of(path);
            let scan = Scan::of(text, module.clone()).map_err(|error| {
                Finding::new(path, error.span().start().line, format!("{error}"), "mend the syntax")
            })?;
            parsed.insert(module, (*path, scan));
        }
        let tests: Vec<Path> = parsed.values().flat_map(|(_, scan)| scan.tests.iter().cloned()).collect();
        parsed.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
        Ok(Self { files: parsed })
    }

    /// The groups of modules that use each other, each once.
    pub(super) fn cycles(&self) -> Vec<Cycle> {
        let arrows = self.arrows();
        let mut seen = BTreeSet::new();
        let mut cycles = Vec::new();
        for module in self.files.keys() {
            if seen.contains(module) {
                continue;
            }
            let group: BTreeSet<&Path> = reached(&arrows, module)
                .into_iter()
                .filter(|other| reached(&arrows, other).contains(module))
                .collect();
            if group.len() > 1 {
                cycles.push(self.cycle(&arrows, module));
                seen.extend(group.into_iter().cloned());
            }
        }
        cycles
    }

    fn cycle(&self, arrows: &Arrows, first: &Path) -> Cycle {
        let path = shortest_way(arrows, first);
        let line = arrows.get(first).and_then(|targets| targets.get(*path.get(1)?)).copied().unwrap_or(1);
        Cycle {
            path: path.iter().map(|module| name_of(module)).collect(),
            file: self.files.get(first).map_or_else(String::new, |(file, _)| (*file).to_owned()),
            line,
        }
    }

    /// The modules that each module uses, with the line of the first use.
    fn arrows(&self) -> Arrows {
        let mut arrows = Arrows::new();
        for (module, (_, scan)) in &self.files {
            let targets = arrows.entry(module.clone()).or_default();
            for (path, line) in &scan.uses {
                if let Some(target) = self.defining(path, 0).filter(|target| target != module) {
                    targets.entry(target).or_insert(*line);
                }
            }
        }
        arrows
    }

    /// The file in which the item at `path` is defined; `None` if that is another crate.
    fn defining(&self, path: &[String], steps: usize) -> Option<Path> {
        let mut at = 0;
        while at < path.len() && self.is_module(&path[..=at]) {
            at += 1;
        }
        let (module, rest) = path.split_at(at);
        let file = self.file_of(module)?;
        let Some((name, after)) = rest.split_first().filter(|_| steps < MAX_STEPS) else { return Some(file) };
        let (_, scan) = self.files.get(&file)?;
        let follow = |target: &Path| {
            let target: Path = target.iter().chain(after).cloned().collect();
            self.defining(&target, steps + 1)
        };
        if let Some(target) = scan.imports.get(&(module.to_vec(), name.clone())) {
            return follow(target.as_ref()?);
        }
        if scan.items.contains(&(module.to_vec(), name.clone())) {
            return Some(file);
        }
        let globs = scan.globs.iter().filter(|(inside, _)| inside == module);
        let mut named = globs.map(|(_, from)| from.iter().chain([name]).cloned().collect::<Path>());
        named.find(|target| self.has(target)).map_or(Some(file), |target| follow(&target))
    }

    /// Whether the last name of `path` is defined or imported in the module before it.
    fn has(&self, path: &[String]) -> bool {
        let Some((name, module)) = path.split_last() else { return false };
        let key = (module.to_vec(), name.clone());
        let scan = self.file_of(module).and_then(|file| self.files.get(&file));
        scan.is_some_and(|(_, scan)| scan.items.contains(&key) || scan.imports.contains_key(&key))
    }

    fn is_module(&self, path: &[String]) -> bool {
        self.files.contains_key(path) || self.files.values().any(|(_, scan)| scan.inline.contains(path))
    }

    /// The file that contains `module`.
    fn file_of(&self, module: &[String]) -> Option<Path> {
        (0..=module.len()).rev().map(|end| module[..end].to_vec()).find(|path| self.files.contains_key(path))
    }
}

type Arrows = BTreeMap<Path, BTreeMap<Path, usize>>;

fn reached<'a>(arrows: &'a Arrows, from: &'a Path) -> BTreeSet<&'a Path> {
    let mut reached = BTreeSet::from([from]);
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        let targets = arrows.get(module).into_iter().flat_map(BTreeMap::keys);
        open.extend(targets.filter(|target| reached.insert(target)));
    }
    reached
}

/// The shortest path from `module` back to it.
fn shortest_way<'a>(arrows: &'a Arrows, module: &'a Path) -> Vec<&'a Path> {
    let mut open = VecDeque::from([vec![module]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = open.pop_front() {
        let last = way[way.len() - 1];
        for target in arrows.get(last).into_iter().flat_map(BTreeMap::keys) {
            let next = || way.iter().copied().chain([target]).collect();
            if target == module {
                return next();
            }
            if seen.insert(target) {
                open.push_back(next());
            }
        }
    }
    vec![module]
}

/// The module of a file.
fn module_of(file: &str) -> Path {
    let inside = file.split_once("/src/").map_or(file, |(_, inside)| inside).trim_end_matches(".rs");
    let inside = inside.strip_suffix("/mod").unwrap_or(inside);
    match inside {
        "lib" | "main" => Vec::new(),
        _ => inside.split('/').map(str::to_owned).collect(),
    }
}

fn name_of(module: &Path) -> String {
    if module.is_empty() { "crate".to_owned() } else { module.join("::") }
}
