//! The kernel's `.json`, typed.
//!
//! The table in the [crate's documentation](crate) lists the fields that are checked. The last of repeated fields
//! counts, as in both vendors' parsers.

mod document;
mod error;
mod parts;
mod record;
mod values;

pub use document::MAX_BYTES;
pub(crate) use document::{Document, document};
pub use error::MetaError;
pub use parts::{Clear, GlobalWorkspace, KernelEntry, Parameter, RunInfo, SubJson, Workspace};
pub use values::{BlockDim, Flag, TaskRation};

use crate::json::laid_out;
use crate::lint::{self, Lint};
use crate::words::{CoreType, Deterministic, Placeholder, Word};
use crate::{Json, Magic};
use opkeep_text::counted;
use record::{Reader, Value, record, write_members};

record! {
    /// The `.json` of a kernel object.
    ///
    /// Fields without a type in this version are kept in [`extra`](Self::extra) as spelled.
    pub struct KernelMeta {
        /// `binFileName`: the object's file stem.
        exact bin_file_name: String = "binFileName",
        /// `binFileSuffix`: `.o`, or `.so`.
        exact bin_file_suffix: String = "binFileSuffix",
        /// `blockDim`.
        strict block_dim: BlockDim = "blockDim",
        /// `kernelName`: the kernel's symbol, unless there is a `kernelList`.
        exact kernel_name: String = "kernelName",
        /// `kernelList`: the kernels of a binary that holds several.
        strict kernel_list: Vec<KernelEntry> = "kernelList",
        /// `magic`: the kind of binary.
        exact magic: Word<Magic> = "magic",
        /// `sha256`: of the whole object file, lower-case hexadecimal.
        exact sha256: String = "sha256",
        /// `objSha256`: of the object from which AKG linked the shared one.
        strict obj_sha256: String = "objSha256",

        /// `coreType`: the kind of core.
        strict core_type: Word<CoreType> = "coreType",
        /// `core_type`: the older spelling of the same, `AIC` or `AIV`; some files have both.
        strict old_core_type: Word<CoreType> = "core_type",
        /// `intercoreSync`: whether the cores wait for each other.
        strict intercore_sync: Flag = "intercoreSync",
        /// `taskRation`: how many cube and vector cores work together.
        strict task_ration: TaskRation = "taskRation",
        /// `jsonList`: the two sides of an older mixed kernel, which has no object of its own.
        strict json_list: Vec<SubJson> = "jsonList",
        /// `opParaSize`: bytes of tiling data.
        number op_para_size: u64 = "opParaSize",
        /// `parameters`: per argument, whether and how it must be cleared before the launch.
        strict parameters: Vec<Parameter> = "parameters",
        /// `workspace`: scratch memory.
        strict workspace: Workspace = "workspace",

        /// `oriOpParaSize`: bytes of tiling data without debugging data.
        loose ori_op_para_size: u64 = "oriOpParaSize",
        /// `globalworkspace_spec_workspace`: memory for the status check. Others of that kind are in `extra`.
        loose spec_workspace: GlobalWorkspace = "globalworkspace_spec_workspace",
        /// `schedule_mode`.
        loose schedule_mode: i64 = "schedule_mode",
        /// `localMemorySize`.
        loose local_memory_size: i64 = "localMemorySize",
        /// `modeInArgsFirstField`.
        loose mode_in_args_first_field: Flag = "modeInArgsFirstField",
        /// `batchBindOnly`.
        loose batch_bind_only: Flag = "batchBindOnly",
        /// `wspMode`: whether workspaces are folded into one.
        loose wsp_mode: Flag = "wspMode",
        /// `KBHit`: whether the knowledge bank had tuned the kernel.
        loose kb_hit: Flag = "KBHit",
        /// `maxKernelId`.
        loose max_kernel_id: i64 = "maxKernelId",
        /// `compress_parameters`.
        loose compress_parameters: Vec<i64> = "compress_parameters",
        /// `weight_repeat`.
        loose weight_repeat: i64 = "weight_repeat",
        /// `memoryStamping`, usually an empty list.
        loose memory_stamping: Vec<Json> = "memoryStamping",
        /// `runInfo`: launch parameters of a kernel that was tiled at compile time.
        loose run_info: RunInfo = "runInfo",
        /// `args_remap`: AKG's order of inputs and of outputs.
        loose args_remap: Vec<Vec<u64>> = "args_remap",
        /// `threadNumber`: AKG's number of threads, the text `null` for none.
        loose thread_number: String = "threadNumber",

        /// `deterministic`.
        loose deterministic: Word<Deterministic> = "deterministic",
        /// `optionalInputMode`.
        loose optional_input_mode: Word<Placeholder> = "optionalInputMode",
        /// `optionalOutputMode`.
        loose optional_output_mode: Word<Placeholder> = "optionalOutputMode",
        /// `dynamicParamMode`, such as `folded_with_desc`.
        loose dynamic_param_mode: String = "dynamicParamMode",
        /// `debugOptions`: words with commas, such as `printf,assert`.
        loose debug_options: String = "debugOptions",
        /// `debugBufSize`: bytes, for all cores.
        loose debug_buf_size: i64 = "debugBufSize",

        /// `compileInfo`: the input of the tiling function, unchanged.
        loose compile_info: Json = "compileInfo",
        /// `supportInfo`: what the kernel was built for, unchanged.
        loose support_info: Json = "supportInfo",
        /// `build_result`: the compile info as a text, which MindSpore adds.
        loose build_result: String = "build_result",
        /// `compileResult`.
        loose compile_result: Json = "compileResult",
        /// `metaData`.
        loose meta_data: Json = "metaData",
        /// `fatbinInfo`: the layout of a binary with many objects.
        loose fatbin_info: Json = "fatbinInfo",
        /// `kernelBinId`.
        loose kernel_bin_id: Json = "kernelBinId",
        /// `headerFileSuffix`: `.h`, if a header belongs to the kernel.
        loose header_file_suffix: String = "headerFileSuffix",
        /// `filePath`: the file's path in the operator library.
        loose file_path: String = "filePath",

        /// `supportSuperKernel`: whether it may become a part of a larger kernel.
        loose support_super_kernel: Flag = "supportSuperKernel",
        /// `sub_operator_op_type`: the operator that a relocatable part comes from.
        loose sub_operator_op_type: String = "sub_operator_op_type",
        /// `sub_operator_params`: the names of its arguments.
        loose sub_operator_params: Vec<String> = "sub_operator_params",
        /// `sub_operator_kernel_type`, such as `KERNEL_TYPE_AIV_ONLY`.
        loose sub_operator_kernel_type: String = "sub_operator_kernel_type",
        /// `sub_operator_kernel_name`: its functions by tiling key.
        loose sub_operator_kernel_name: Json = "sub_operator_kernel_name",
        /// `sub_operator_early_start_set_flag`.
        loose sub_operator_early_start_set_flag: Flag = "sub_operator_early_start_set_flag",
        /// `sub_operator_early_start_wait_flag`.
        loose sub_operator_early_start_wait_flag: Flag = "sub_operator_early_start_wait_flag",
        /// `sub_operator_call_dcci_before_kernel_start`.
        loose sub_operator_call_dcci_before_kernel_start: Flag = "sub_operator_call_dcci_before_kernel_start",
        /// `sub_operator_call_dcci_after_kernel_end`.
        loose sub_operator_call_dcci_after_kernel_end: Flag = "sub_operator_call_dcci_after_kernel_end",
        /// `sub_operator_call_dcci_disable_on_kernel`.
        loose sub_operator_call_dcci_disable_on_kernel: Flag = "sub_operator_call_dcci_disable_on_kernel",
        /// `sub_op_with_sync_all`.
        loose sub_op_with_sync_all: Flag = "sub_op_with_sync_all",
        /// `feature_list`.
        loose feature_list: Json = "feature_list",
    }
    beside {
        /// The paths of repeated fields, such as `kernelList[0].tilingKey`. Not written.
        repeated: Vec<String>,
    }
}

impl KernelMeta {
    /// Reads a `.json`.
    ///
    /// Accepts what real producers write: `blockDim` -1, null parameters, tiling keys above `i64::MAX`, missing
    /// optional fields, whole numbers with a decimal point.
    ///
    /// # Errors
    /// [`MetaError`] with the path of the field.
    pub fn parse(bytes: &[u8]) -> Result<Self, MetaError> {
        Self::of_document(&document(bytes)?)
    }

    /// Whether it has a kernel's name, magic or digest: operator libraries have other kinds of `.json`.
    pub fn describes_kernel(&self) -> bool {
        let Self { bin_file_name, kernel_name, kernel_list, magic, sha256, .. } = self;
        bin_file_name.is_some()
            || kernel_name.is_some()
            || kernel_list.is_some()
            || magic.is_some()
            || sha256.is_some()
    }

    /// Reads a `.json` as [`parse`](Self::parse) does and returns its [`mindspore_lints`](crate::mindspore_lints),
    /// faster than two calls.
    ///
    /// # Errors
    /// [`MetaError`] as for [`parse`](Self::parse). The lints are returned in any case.
    pub fn parse_linted(bytes: &[u8]) -> (Result<Self, MetaError>, Vec<Lint>) {
        let document = document(bytes);
        let lints = lint::of_document(&document);
        (document.and_then(|document| Self::of_document(&document)), lints)
    }

    fn of_document((raw, members): &Document<'_>) -> Result<Self, MetaError> {
        let mut reader = Reader::default();
        let Some(members) = members else {
            return Err(reader.wrong("an object", raw));
        };
        reader.add_repeated(members);
        let mut meta = Self::of(members, &mut reader)?;
        meta.check_workspace()?;
        meta.repeated = reader.repeated;
        Ok(meta)
    }

    /// FE refuses a workspace whose `num` is wrong; MindSpore ignores it and runs the kernel without one.
    fn check_workspace(&self) -> Result<(), MetaError> {
        match &self.workspace {
            Some(Workspace { num: Some(num), size, .. }) if usize::try_from(*num) != Ok(size.len()) => {
                Err(MetaError::Field {
                    field: "workspace.num".to_owned(),
                    expected: "the number of items in `workspace.size`",
                    found: format!("{num}, but {}", counted(size.len(), "item")),
                })
            }
            _ => Ok(()),
        }
    }

    /// The kernels of a binary that holds several; `None` if the list is empty.
    pub fn listed(&self) -> Option<&[KernelEntry]> {
        self.kernel_list.as_deref().filter(|list| !list.is_empty())
    }

    /// The kernels that the object must define: the names in `kernelList`, or `kernelName` if nothing is listed.
    pub fn entry_names(&self) -> Vec<&str> {
        match self.listed() {
            Some(list) => list.iter().map(|entry| entry.kernel_name.as_str()).collect(),
            None => self.kernel_name.as_deref().into_iter().collect(),
        }
    }

    /// The `.json` as TBE formats it: sorted keys, four spaces, no newline at the end.
    pub fn to_json(&self) -> String {
        let mut compact = String::with_capacity(1024);
        self.write(&mut compact);
        laid_out(&compact)
    }
}

#[cfg(test)]
mod tests;
