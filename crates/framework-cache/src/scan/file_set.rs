//! What names in a cache stand for, by the rules of whose cache it is.

use std::collections::HashMap;
use std::mem;

use crate::scan::cache_dir::Kind;

/// Which files there are of a kernel, beside its stem.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileSet(u16);

/// One of them, and how it is called.
macro_rules! members {
    ($($name:ident = $bit:literal, $before:literal, $behind:literal;)*) => {
        impl FileSet {
            $(pub(crate) const $name: Self = Self(1 << $bit);)*
            const ALL: &[(Self, &'static str, &'static str)] = &[$((Self::$name, $before, $behind),)*];
        }
    };
}

members! {
    JSON = 0, "", ".json";
    INFO = 1, "", ".info";
    O = 2, "", ".o";
    SO = 3, "", ".so";
    LIB_SO = 4, "lib", ".so";
    PTX = 5, "", ".ptx";
    HEADER = 6, "", ".h";
    PRE = 7, "", "_pre.json";
    LOCK = 8, "", ".lock";
    PRE_LOCK = 9, "", "_pre.lock";
}

impl FileSet {
    /// Of MindSpore's kernels, all that there may be.
    pub(crate) const KERNEL: Self = Self(Self::JSON.0 | Self::INFO.0 | Self::OBJECTS.0);
    pub(crate) const OBJECTS: Self = Self(Self::O.0 | Self::SO.0 | Self::LIB_SO.0 | Self::PTX.0);

    pub(crate) fn has(self, any: Self) -> bool {
        self.0 & any.0 != 0
    }

    pub(crate) fn with(self, more: Self) -> Self {
        Self(self.0 | more.0)
    }

    pub(crate) fn only(self, these: Self) -> Self {
        Self(self.0 & these.0)
    }

    pub(crate) fn without(self, these: Self) -> Self {
        Self(self.0 & !these.0)
    }

    /// Those of them of which `holds` is true, asked one by one.
    pub(crate) fn filter(self, holds: impl Fn(Self) -> bool) -> Self {
        let kept =
            Self::ALL.iter().map(|(member, ..)| *member).filter(|member| self.has(*member) && holds(*member));
        kept.fold(Self::default(), Self::with)
    }

    /// The name of the file; of several the first.
    pub(crate) fn name(self, stem: &str) -> String {
        self.files(stem, None).into_iter().next().unwrap_or_default()
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the file called `name` is one of these.
    pub(crate) fn hold(self, stem: &str, name: &str) -> bool {
        Self::ALL.iter().filter(|(member, ..)| self.has(*member)).any(|(_, before, behind)| {
            name.strip_prefix(before).and_then(|rest| rest.strip_suffix(behind)) == Some(stem)
        })
    }

    /// The files' names, `object` among them if it is called otherwise.
    pub(crate) fn files(self, stem: &str, object: Option<&str>) -> Vec<String> {
        let there = Self::ALL.iter().filter(|(member, ..)| self.has(*member));
        let named = there.map(|(_, before, behind)| format!("{before}{stem}{behind}"));
        named.chain(object.map(str::to_owned)).collect()
    }
}

/// What a name stands for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NameClass<'a> {
    /// A file of the kernel with this stem.
    Of(&'a str, FileSet),
    /// A file that is to be renamed.
    Temp,
    /// Something that belongs there, and holds no kernel.
    Known,
    /// A `.json` that MindSpore passes over for its name: a debugging aid, as a rule.
    Skipped,
    /// Nobody's that we know.
    Foreign,
}

/// What frameworks and we put beside kernels.
const KNOWN: [&str; 9] = [
    "file.lock",
    "kernel_meta.lock",
    "Initialize.info",
    "not_support_fusion_op.cache",
    "op_cache_file_del.lock",
    "op_cache.ini",
    "buildPidInfo.json",
    "akg_build_tmp.key",
    "kernel_build_tmp.key",
];

/// What `name` stands for in a cache of `kind`.
pub(crate) fn class(name: &str, kind: Kind) -> NameClass<'_> {
    if KNOWN.contains(&name) || name.starts_with(".opkeep") {
        return NameClass::Known;
    }
    let of = |behind: &str, member| {
        name.strip_suffix(behind).filter(|stem| !stem.is_empty()).map(|stem| NameClass::Of(stem, member))
    };
    let found = match kind {
        Kind::MindSpore | Kind::Akg => {
            if name.ends_with(".json") && is_skipped(name) {
                return NameClass::Skipped;
            }
            of(".json", FileSet::JSON)
                .or_else(|| of(".info", FileSet::INFO))
                .or_else(|| of(".o", FileSet::O))
                .or_else(|| of(".ptx", FileSet::PTX))
        }
        // Compilers leave sources and logs there, too.
        Kind::Work => match name.ends_with(".json") && is_skipped(name) {
            true => return NameClass::Skipped,
            false => of(".json", FileSet::JSON).or_else(|| of(".o", FileSet::O)),
        },
        Kind::Cann | Kind::Package => {
            if name.ends_with(".temp") {
                return NameClass::Temp;
            }
            let pre = of("_pre.json", FileSet::PRE).or_else(|| of("_pre.lock", FileSet::PRE_LOCK));
            pre.or_else(|| of(".json", FileSet::JSON))
                .or_else(|| of(".lock", FileSet::LOCK))
                .or_else(|| of(".o", FileSet::O))
                .or_else(|| of(".h", FileSet::HEADER))
        }
    };
    let library = || {
        let stem = name.strip_suffix(".so").filter(|stem| !stem.is_empty())?;
        // AKG's kernels for the host have no prefix, MindSpore puts one before all others.
        match stem.strip_prefix("lib").filter(|rest| !rest.is_empty() && kind == Kind::MindSpore) {
            Some(rest) => Some(NameClass::Of(rest, FileSet::LIB_SO)),
            None => Some(NameClass::Of(stem, FileSet::SO)),
        }
    };
    found.or_else(library).unwrap_or(NameClass::Foreign)
}

/// Whether MindSpore passes over a `.json` of this name: it takes it for a debugging aid.
pub(crate) fn is_skipped(name: &str) -> bool {
    name.contains("_loc") || name.contains("_compute")
}

/// What is in one folder.
#[derive(Debug, Default)]
pub(crate) struct ClassifiedNames {
    /// Kernels by their stems, the stems in order.
    pub(crate) kernels: Vec<(String, FileSet)>,
    pub(crate) temps: Vec<String>,
    /// Names of debugging aids.
    pub(crate) skipped: u64,
    /// Files that belong there and hold no kernel.
    pub(crate) known: u64,
    /// What is nobody's that we know, the first hundred by name.
    pub(crate) foreign: Vec<String>,
    pub(crate) foreign_count: u64,
}

/// At most so many foreign names are listed.
const LISTED: usize = 100;

/// Sorts regular files of these names into what they stand for.
pub(crate) fn sort<'a>(names: impl Iterator<Item = &'a str>, kind: Kind) -> ClassifiedNames {
    let (mut sorted, mut kernels) = (ClassifiedNames::default(), HashMap::<&str, FileSet>::new());
    let mut add = |stem, members: FileSet| {
        let all = kernels.entry(stem).or_default();
        *all = all.with(members);
    };
    let mut skipped = Vec::new();
    // Files of one kernel are made one after the other, and many file systems list them so.
    let mut run = ("", FileSet::default());
    for name in names {
        match class(name, kind) {
            NameClass::Of(stem, member) if stem == run.0 => run.1 = run.1.with(member),
            NameClass::Of(stem, member) => {
                let (stem, members) = mem::replace(&mut run, (stem, member));
                if !members.is_empty() {
                    add(stem, members);
                }
            }
            NameClass::Temp => sorted.temps.push(name.to_owned()),
            NameClass::Known => sorted.known += 1,
            NameClass::Skipped => skipped.push(name.strip_suffix(".json").unwrap_or(name)),
            NameClass::Foreign => sorted.add_foreign(name),
        }
    }
    if !run.1.is_empty() {
        add(run.0, run.1);
    }
    for stem in skipped {
        // With an object or a descriptor beside it, it is a kernel with an unlucky name.
        match kernels.get_mut(stem).filter(|members| members.has(FileSet::OBJECTS.with(FileSet::INFO))) {
            Some(members) => *members = members.with(FileSet::JSON),
            None => sorted.skipped += 1,
        }
    }
    if matches!(kind, Kind::MindSpore | Kind::Akg | Kind::Work) {
        // Operators that users compile ahead of time are libraries there without more. Kernels begin with a descriptor.
        kernels.retain(|stem, members| {
            let is_alone = members.without(FileSet::SO.with(FileSet::LIB_SO)).is_empty();
            if is_alone {
                members.files(stem, None).iter().for_each(|name| sorted.add_foreign(name));
            }
            !is_alone
        });
    }
    sorted.kernels = kernels.into_iter().map(|(stem, members)| (stem.to_owned(), members)).collect();
    sorted.kernels.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    sorted.temps.sort_unstable();
    sorted.foreign.sort_unstable();
    sorted
}

impl ClassifiedNames {
    /// Adds a link to the kernel that it belongs to; false if there is no other file of that.
    pub(crate) fn add_link(&mut self, name: &str, kind: Kind) -> bool {
        let NameClass::Of(stem, member) = class(name, kind) else { return false };
        let at = self.kernels.binary_search_by(|(there, _)| there.as_str().cmp(stem));
        let Some((_, members)) = at.ok().and_then(|at| self.kernels.get_mut(at)) else { return false };
        *members = members.with(member);
        true
    }

    fn add_foreign(&mut self, name: &str) {
        add_foreign(name, &mut self.foreign, &mut self.foreign_count);
    }
}

/// Counts a name that is nobody's, and lists it among the first.
pub(crate) fn add_foreign(name: &str, listed: &mut Vec<String>, count: &mut u64) {
    *count += 1;
    if listed.len() < LISTED {
        listed.push(name.to_owned());
    }
}
