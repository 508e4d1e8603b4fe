//! The three files of a kernel.

use std::fmt;

/// One of a kernel's three files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KernelFileKind {
    /// The `.o`.
    Object,
    /// The `.json`.
    Json,
    /// The `.info`.
    Info,
}

impl KernelFileKind {
    /// The three, in the order of the manifest.
    pub const ALL: [Self; 3] = [Self::Object, Self::Json, Self::Info];

    /// The suffix of the file's name, with its dot.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Object => ".o",
            Self::Json => ".json",
            Self::Info => ".info",
        }
    }

    /// The stem of a file of this kind that is called `name`.
    pub fn stem_of(self, name: &str) -> Option<&str> {
        name.strip_suffix(self.suffix())
    }

    /// The file's name.
    pub fn of(self, stem: &str) -> String {
        [stem, self.suffix()].concat()
    }
}

impl fmt::Display for KernelFileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.suffix())
    }
}
