//! The objects inside a `.json`.

use crate::json::raw;
use crate::meta::record::{Reader, Value, record, write_members};
use crate::meta::values::{BlockDim, Flag, TaskRation};
use crate::words::{CoreType, Deterministic, Word};
use crate::{Json, MetaError};

record! {
    /// One kernel of a binary that holds several, an item of `kernelList`.
    pub struct KernelEntry {
        /// `kernelName`: the kernel's symbol, without any `_mix_aic` or `_mix_aiv`.
        needed kernel_name: String = "kernelName",
        /// `tilingKey`: real ones exceed `i64::MAX`.
        exact tiling_key: u64 = "tilingKey",
        /// `kernelType`, such as `MIX_AIC`.
        loose kernel_type: String = "kernelType",
        /// `crossCoreSync`: whether the cores wait for each other.
        loose cross_core_sync: Flag = "crossCoreSync",
        /// `taskRation`, where the document's own is `tilingKey`.
        strict task_ration: TaskRation = "taskRation",
        /// `deterministic`.
        loose deterministic: Word<Deterministic> = "deterministic",
        /// `blockDim`, in fat binaries.
        loose block_dim: BlockDim = "blockDim",
        /// `workspaceSize`, in fat binaries.
        loose workspace_size: i64 = "workspaceSize",
        /// `configKey`: the kernel's key in a fat binary.
        loose config_key: u64 = "configKey",
    }
}

record! {
    /// Scratch memory that a launch must provide.
    pub struct Workspace {
        /// `num`: the number of areas, which is the length of `size`.
        strict num: u64 = "num",
        /// `size`: bytes of each area; -1 means that tiling decides.
        needed size: Vec<i64> = "size",
        /// `type`: memory kind of each area (0 HBM, 1 L1, 2 L2).
        loose kind: Vec<i64> = "type",
    }
}

record! {
    /// Memory that all launches share, such as `globalworkspace_spec_workspace` for the status check.
    pub struct GlobalWorkspace {
        /// `size`: bytes.
        needed size: i64 = "size",
        /// `type`: memory kind (0 HBM, 1 L1, 2 L2).
        loose kind: i64 = "type",
    }
}

record! {
    /// One side of an older mixed kernel, an item of `jsonList`.
    pub struct SubJson {
        /// `coreType`: which side.
        strict core_type: Word<CoreType> = "coreType",
        /// `jsonFileName`: the side's own `.json`.
        needed json_file_name: String = "jsonFileName",
    }
}

record! {
    /// Launch parameters of a kernel that was tiled at compile time.
    pub struct RunInfo {
        /// `block_dim`.
        loose block_dim: i64 = "block_dim",
        /// `aicpu_block_dim`.
        loose aicpu_block_dim: i64 = "aicpu_block_dim",
        /// `clear_atomic`: whether outputs must be cleared before the launch.
        loose clear_atomic: Flag = "clear_atomic",
        /// `local_memory_size`.
        loose local_memory_size: i64 = "local_memory_size",
        /// `schedule_mode`.
        loose schedule_mode: i64 = "schedule_mode",
        /// `tiling_cond`.
        loose tiling_cond: i64 = "tiling_cond",
        /// `tiling_key`.
        loose tiling_key: u64 = "tiling_key",
        /// `tiling_data`: hexadecimal.
        loose tiling_data: String = "tiling_data",
    }
}

record! {
    /// The value with which an argument is cleared before the launch.
    pub struct Clear {
        /// `dtype`, such as `float32`.
        loose dtype: String = "dtype",
        /// `init_value`: the value to clear it with.
        loose init_value: Json = "init_value",
    }
}

/// The preparation of an argument before the launch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Parameter {
    /// Nothing.
    Null,
    /// 0: nothing; 1: clear it.
    Int(i64),
    /// Clear it with this value.
    Clear(Box<Clear>),
}

impl Value for Parameter {
    fn read(raw: &str, reader: &mut Reader) -> Result<Self, MetaError> {
        if raw == "null" {
            return Ok(Self::Null);
        }
        if raw.starts_with('{') {
            return Ok(Self::Clear(Box::new(Clear::read(raw, reader)?)));
        }
        let number = raw::whole(raw).and_then(|number| number.try_into().ok());
        number.map(Self::Int).ok_or_else(|| reader.wrong("null, a whole number or an object", raw))
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Int(number) => number.write(out),
            Self::Clear(clear) => clear.write(out),
        }
    }
}
