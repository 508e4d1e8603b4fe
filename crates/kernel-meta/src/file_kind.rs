//! The three files of a kernel.

use std::fmt;

/// The kind of one of a kernel's three files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KernelFileKind {
    /// The object, `.o`.
    Object,
    /// The description, `.json`.
    Json,
    /// The descriptor, `.info`.
    Info,
}

impl KernelFileKind {
    /// The three kinds, in the order of the manifest.
    pub const ALL: [Self; 3] = [Self::Object, Self::Json, Self::Info];

    /// Returns the suffix of the file's name, with its dot.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Object => ".o",
            Self::Json => ".json",
            Self::Info => ".info",
        }
    }

    /// Returns the stem of the file called `name`, if it is of this kind.
    pub fn stem_of(self, name: &str) -> Option<&str> {
        name.strip_suffix(self.suffix())
    }

    /// Returns the name of the file of this kind with this stem.
    pub fn of(self, stem: &str) -> String {
        [stem, self.suffix()].concat()
    }
}

impl fmt::Display for KernelFileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.suffix())
    }
}
