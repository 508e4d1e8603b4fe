//! The generations of `.info` files.

use std::fmt;

/// A generation of `.info` files and of the names that belong to them.
///
/// r1.5 and later write one form of file and differ in the names. Files of r1.2 and older are supported for single
/// operators only, since their form for fused operators is not documented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Generation {
    /// MindSpore r1.0 and r1.1: only the fields that their names hash.
    R1_0,
    /// MindSpore r1.2: `op_info` next to `SocInfo`.
    R1_2,
    /// MindSpore r1.5: the whole compile request, with `job_content`.
    R1_5,
    /// MindSpore r1.6: the same file; names no longer hash `output_data_desc`.
    R1_6,
    /// MindSpore r1.7 to r2.0: the same file; operators state whether their implementation is dynamic.
    R1_7,
    /// MindSpore r2.1 and later: the same file; names hash `SocInfo`.
    R2_1,
    /// AKG, the graph kernel compiler: `op_desc` and `platform`.
    Akg,
}

impl Generation {
    /// Every generation, the oldest first.
    pub const ALL: [Self; 7] =
        [Self::R1_0, Self::R1_2, Self::R1_5, Self::R1_6, Self::R1_7, Self::R2_1, Self::Akg];

    /// The framework's versions, as text.
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

    /// The layout of its files.
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
