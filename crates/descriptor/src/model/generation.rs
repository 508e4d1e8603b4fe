//! The generations of `.info` files.

use std::fmt;

/// A generation of `.info` files, and of the names that go with them.
///
/// r1.5 and later write one form of file; what tells them apart is how they make names. Those of r1.2 and older are
/// known for single operators: what they wrote of fused ones is not documented, and is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Generation {
    /// MindSpore r1.0 and r1.1: the fields that their names hash, and no others.
    R1_0,
    /// MindSpore r1.2: `op_info` beside `SocInfo`.
    R1_2,
    /// MindSpore r1.5: the whole compile request, with `job_content`.
    R1_5,
    /// MindSpore r1.6: the same; `output_data_desc` no longer is in names.
    R1_6,
    /// MindSpore r1.7 to r2.0: the same; operators say whether their implementation is a dynamic one.
    R1_7,
    /// MindSpore r2.1 and later: the same; `SocInfo` is in names.
    R2_1,
    /// AKG, the graph kernel compiler: `op_desc` and `platform`.
    Akg,
}

impl Generation {
    /// All of them, the oldest first.
    pub const ALL: [Self; 7] =
        [Self::R1_0, Self::R1_2, Self::R1_5, Self::R1_6, Self::R1_7, Self::R2_1, Self::Akg];

    /// The versions of the framework, in a few words.
    pub const fn versions(self) -> &'static str {
        match self {
            Self::R1_0 => "r1.0 and r1.1",
            Self::R1_2 => "r1.2",
            Self::R1_5 => "r1.5",
            Self::R1_6 => "r1.6",
            Self::R1_7 => "r1.7 to r2.0",
            Self::R2_1 => "r2.1 and later",
            Self::Akg => "AKG",
        }
    }

    /// How its files are laid out.
    pub(crate) fn form(self) -> Form {
        match self {
            Self::R1_0 | Self::R1_2 => Form::OpInfo,
            Self::R1_5 | Self::R1_6 | Self::R1_7 | Self::R2_1 => Form::JobContent,
            Self::Akg => Form::Akg,
        }
    }
}

/// The layout of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    OpInfo,
    JobContent,
    Akg,
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let versions = self.versions();
        match self {
            Self::R1_0 => write!(f, "MindSpore {versions} (op_info alone)"),
            Self::R1_2 => write!(f, "MindSpore {versions} (op_info)"),
            Self::R1_5 | Self::R1_6 | Self::R1_7 | Self::R2_1 => {
                write!(f, "MindSpore {versions} (job_content)")
            }
            Self::Akg => f.write_str(versions),
        }
    }
}
