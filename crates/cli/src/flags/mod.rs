//! Arguments that several commands share.

pub(crate) mod compile;
pub(crate) mod store;

/// What the environment decides.
pub(crate) const ENVIRONMENT: &str = "\
Environment:
  CC                      the C compiler of the target cpu, with arguments if need be
  OPKEEP_TOOLCHAIN_INPUTS
                          files and directories, separated by colons, that count as parts of the
                          compiler
  OPKEEP_CACHE_DIR        the store's directory; if unset, ASCEND_CACHE_PATH/opkeep,
                          XDG_CACHE_HOME/opkeep or ~/.cache/opkeep; in CANN's kernel_cache, its
                          directory opkeep
  ASCEND_MAX_OP_CACHE_SIZE, ASCEND_REMAIN_CACHE_SIZE_RATIO, OPKEEP_MAX_CACHE_ENTRIES
                          how large the store may become; see opkeep help gc
  ASCEND_HOME_PATH, ASCEND_TOOLKIT_HOME, ASCEND_OPP_PATH
                          where CANN is, unless --cann says; see opkeep targets
  ASCEND_CUSTOM_OPP_PATH  packages of custom operators, separated by colons
  HI_PYTHON               the Python that CANN runs with [default: python3]
  MS_COMPILER_CACHE_PATH  the folder that holds rank_N/kernel_meta [default: .]
  RANK_ID                 the N of rank_N [default: 0]
  NPU_COLLECT_PATH        if set, everything is compiled for debugging and nothing kept, as CANN
                          does it, unless --op_debug_config says what is
  TMPDIR                  where compilers work, and what failed ones left is kept [default: /tmp]";
