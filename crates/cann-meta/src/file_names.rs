//! The names of a kernel's files in a cache, and of the other files there.

/// A set of files of one kernel, which differ in the text before and after the kernel's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileSet(u16);

/// The files, each with the text before and after the kernel's name.
macro_rules! members {
    ($($(#[$doc:meta])* $name:ident = $bit:literal, $before:literal, $after:literal;)*) => {
        impl FileSet {
            $($(#[$doc])* pub const $name: Self = Self(1 << $bit);)*
            const ALL: &[(Self, &'static str, &'static str)] = &[$((Self::$name, $before, $after),)*];
        }
    };
}

members! {
    /// The description.
    JSON = 0, "", ".json";
    /// MindSpore's descriptor of the operator.
    INFO = 1, "", ".info";
    /// An object.
    O = 2, "", ".o";
    /// A library.
    SO = 3, "", ".so";
    /// A library with MindSpore's prefix.
    LIB_SO = 4, "lib", ".so";
    /// A kernel of AKG for NVIDIA.
    PTX = 5, "", ".ptx";
    /// A header.
    HEADER = 6, "", ".h";
    /// The description of a precompile.
    PRE = 7, "", "_pre.json";
    /// CANN's lock of the kernel.
    LOCK = 8, "", ".lock";
    /// CANN's lock of the precompile.
    PRE_LOCK = 9, "", "_pre.lock";
}

impl FileSet {
    /// All files of MindSpore's kernels.
    pub const KERNEL: Self = Self(Self::JSON.0 | Self::INFO.0 | Self::OBJECTS.0);
    /// All kinds of objects.
    pub const OBJECTS: Self = Self(Self::O.0 | Self::SO.0 | Self::LIB_SO.0 | Self::PTX.0);

    /// Whether a file of `any` is in the set.
    pub fn has(self, any: Self) -> bool {
        self.0 & any.0 != 0
    }

    /// The union with `more`.
    #[must_use]
    pub fn with(self, more: Self) -> Self {
        Self(self.0 | more.0)
    }

    /// The intersection with `these`.
    #[must_use]
    pub fn only(self, these: Self) -> Self {
        Self(self.0 & these.0)
    }

    /// The set without `these`.
    #[must_use]
    pub fn without(self, these: Self) -> Self {
        Self(self.0 & !these.0)
    }

    /// Whether the set has no file.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn members(self) -> impl Iterator<Item = &'static (Self, &'static str, &'static str)> {
        Self::ALL.iter().filter(move |(member, ..)| self.has(*member))
    }

    /// The files for which `holds` is true; each is given to it alone.
    #[must_use]
    pub fn filter(self, holds: impl Fn(Self) -> bool) -> Self {
        let kept = self.members().map(|(member, ..)| *member).filter(|member| holds(*member));
        kept.fold(Self::default(), Self::with)
    }

    /// The name of the first file, for the kernel called `stem`.
    pub fn name(self, stem: &str) -> String {
        self.names(stem).next().unwrap_or_default()
    }

    /// The names of the files, for the kernel called `stem`.
    pub fn names(self, stem: &str) -> impl Iterator<Item = String> {
        self.members().map(move |(_, before, after)| format!("{before}{stem}{after}"))
    }

    /// Whether `name` is that of one of the files, for the kernel called `stem`.
    pub fn has_name(self, stem: &str, name: &str) -> bool {
        self.stems(name).any(|found| found == stem)
    }

    fn stems(self, name: &str) -> impl Iterator<Item = &str> {
        self.members().filter_map(move |(_, before, after)| name.strip_prefix(before)?.strip_suffix(after))
    }
}

/// The meaning of a name.
#[derive(Debug, PartialEq, Eq)]
pub enum NameClass<'a> {
    /// A file of the kernel with this name.
    Kernel(&'a str, FileSet),
    /// A temporary file.
    Temp,
    /// A file of the framework, or of opkeep, without a kernel.
    Known,
    /// A `.json` that MindSpore ignores because of its name, usually a debugging aid.
    Skipped,
    /// A file of an unknown program.
    Foreign,
}

/// Files that frameworks put beside kernels.
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

impl<'a> NameClass<'a> {
    /// The meaning of `name` where kernels have these files. The first one that fits counts.
    pub fn of(name: &'a str, members: &[FileSet]) -> Self {
        if KNOWN.contains(&name) || name.starts_with(".opkeep") {
            return Self::Known;
        }
        let stem = |member: FileSet| member.stems(name).find(|stem| !stem.is_empty());
        let found = members.iter().find_map(|member| Some(Self::Kernel(stem(*member)?, *member)));
        found.unwrap_or(Self::Foreign)
    }

    /// The meaning of `name` where kernels have CANN's files, such as in operator packages.
    pub fn in_cann_cache(name: &'a str) -> Self {
        match Self::of(name, &CANN) {
            Self::Foreign if name.ends_with(".temp") => Self::Temp,
            class => class,
        }
    }

    /// The meaning of `name` in CANN's `kernel_cache`. A precompile or a temporary file has a name that CANN gives; all
    /// other files may have any stem, see [`is_cann_kernel`].
    pub fn in_kernel_cache(name: &'a str) -> Self {
        match Self::in_cann_cache(name) {
            Self::Kernel(stem, FileSet::PRE | FileSet::PRE_LOCK) if !is_cann_kernel(stem) => Self::Foreign,
            Self::Temp if !is_cann_temp(name) => Self::Foreign,
            class => class,
        }
    }
}

/// Whether CANN gives such stems to the files of kernels in its `kernel_cache`. A file with another stem is CANN's only
/// if it belongs to a complete kernel; all others there are another program's.
pub fn is_cann_kernel(stem: &str) -> bool {
    let name = stem.strip_prefix("lib").unwrap_or(stem);
    name.len() > 3 && name.starts_with("te_")
}

/// Whether CANN gives such names to temporary files: final name, process, time, random number.
fn is_cann_temp(name: &str) -> bool {
    let Some(name) = name.strip_suffix(".temp") else { return false };
    let is_tail = |tail: &str| {
        !tail.is_empty() && tail.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let is_final = |suffix: &str| {
        name.rsplit_once(suffix).is_some_and(|(stem, tail)| is_cann_kernel(stem) && is_tail(tail))
    };
    [".json_", ".o_", ".so_", ".h_"].into_iter().any(is_final)
}

const CANN: [FileSet; 7] =
    [FileSet::PRE, FileSet::PRE_LOCK, FileSet::JSON, FileSet::LOCK, FileSet::O, FileSet::HEADER, FileSet::SO];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_files_of_kernels_are_known_by_their_names() {
        for (name, expected) in [
            ("te_add_ab.o_812_1700000000_42.temp", true),
            ("te_add_ab.json_812_1700000000_42.temp", true),
            ("libte_add_ab.so_812_1_2.temp", true),
            ("te_add_ab_pre.json_812_1_2.temp", true),
            ("te_add_ab.h_8_1_a.temp", true),
            ("my.o_812_1_2.temp", false),
            ("te_add_ab.temp", false),
            ("te_add_ab.o.temp", false),
            ("te_add_ab.txt_812_1_2.temp", false),
            ("te_add_ab.o_8 1.temp", false),
            (".temp", false),
        ] {
            assert_eq!(NameClass::in_kernel_cache(name) == NameClass::Temp, expected, "{name}");
        }
    }
}
