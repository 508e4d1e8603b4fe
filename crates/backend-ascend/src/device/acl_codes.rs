//! Names of the runtime's error codes, and what a user can do about them.

/// Codes with names, in order. From CANN 8.1's `acl_base.h`, and from `rt_error_codes.h` of the open runtime for those
/// above 107000.
const NAMES: [(i32, &str); 77] = [
    (100_000, "ACL_ERROR_INVALID_PARAM"),
    (100_001, "ACL_ERROR_UNINITIALIZE"),
    (REPEAT_INITIALIZE, "ACL_ERROR_REPEAT_INITIALIZE"),
    (100_003, "ACL_ERROR_INVALID_FILE"),
    (100_004, "ACL_ERROR_WRITE_FILE"),
    (100_006, "ACL_ERROR_PARSE_FILE"),
    (100_024, "ACL_ERROR_OP_NOT_FOUND"),
    (100_025, "ACL_ERROR_OP_LOAD_FAILED"),
    (100_026, "ACL_ERROR_UNSUPPORTED_DATA_TYPE"),
    (100_029, "ACL_ERROR_KERNEL_NOT_FOUND"),
    (100_037, "ACL_ERROR_REPEAT_FINALIZE"),
    (COMPILING_STUB_MODE, "ACL_ERROR_COMPILING_STUB_MODE"),
    (148_049, "ACL_ERROR_INVALID_OPP_PATH"),
    (148_050, "ACL_ERROR_OP_UNSUPPORTED_DYNAMIC"),
    (200_000, "ACL_ERROR_BAD_ALLOC"),
    (200_001, "ACL_ERROR_API_NOT_SUPPORT"),
    (200_002, "ACL_ERROR_INVALID_DEVICE"),
    (200_003, "ACL_ERROR_MEMORY_ADDRESS_UNALIGNED"),
    (200_004, "ACL_ERROR_RESOURCE_NOT_MATCH"),
    (200_005, "ACL_ERROR_INVALID_RESOURCE_HANDLE"),
    (200_006, "ACL_ERROR_FEATURE_UNSUPPORTED"),
    (300_000, "ACL_ERROR_STORAGE_OVER_LIMIT"),
    (500_000, "ACL_ERROR_INTERNAL_ERROR"),
    (500_001, "ACL_ERROR_FAILURE"),
    (500_002, "ACL_ERROR_GE_FAILURE"),
    (500_003, "ACL_ERROR_RT_FAILURE"),
    (500_004, "ACL_ERROR_DRV_FAILURE"),
    (107_000, "ACL_ERROR_RT_PARAM_INVALID"),
    (107_001, "ACL_ERROR_RT_INVALID_DEVICEID"),
    (107_002, "ACL_ERROR_RT_CONTEXT_NULL"),
    (107_003, "ACL_ERROR_RT_STREAM_CONTEXT"),
    (107_008, "ACL_ERROR_RT_ADDR_UNALIGNED"),
    (107_009, "ACL_ERROR_RT_FILE_OPEN"),
    (107_016, "ACL_ERROR_RT_INVALID_MEMORY_TYPE"),
    (107_017, "ACL_ERROR_RT_INVALID_HANDLE"),
    (107_018, "ACL_ERROR_RT_INVALID_MALLOC_TYPE"),
    (107_019, "ACL_ERROR_RT_WAIT_TIMEOUT"),
    (107_020, "ACL_ERROR_RT_TASK_TIMEOUT"),
    (107_022, "ACL_ERROR_RT_DEVICE_TASK_ABORT"),
    (107_023, "ACL_ERROR_RT_STREAM_ABORT"),
    (207_000, "ACL_ERROR_RT_FEATURE_NOT_SUPPORT"),
    (207_001, "ACL_ERROR_RT_MEMORY_ALLOCATION"),
    (207_002, "ACL_ERROR_RT_MEMORY_FREE"),
    (207_003, "ACL_ERROR_RT_AICORE_OVER_FLOW"),
    (207_004, "ACL_ERROR_RT_NO_DEVICE"),
    (207_005, "ACL_ERROR_RT_RESOURCE_ALLOC_FAIL"),
    (207_006, "ACL_ERROR_RT_NO_PERMISSION"),
    (207_008, "ACL_ERROR_RT_NO_STREAM_RESOURCE"),
    (207_012, "ACL_ERROR_RT_OVER_LIMIT"),
    (207_016, "ACL_ERROR_RT_AIVEC_OVER_FLOW"),
    (207_018, "ACL_ERROR_RT_DEVICE_OOM"),
    (507_000, "ACL_ERROR_RT_INTERNAL_ERROR"),
    (507_001, "ACL_ERROR_RT_TS_ERROR"),
    (507_008, "ACL_ERROR_RT_SOC_VERSION"),
    (507_010, "ACL_ERROR_RT_LOST_HEARTBEAT"),
    (507_012, "ACL_ERROR_RT_REPORT_TIMEOUT"),
    (507_013, "ACL_ERROR_RT_SYS_DMA"),
    (507_014, "ACL_ERROR_RT_AICORE_TIMEOUT"),
    (507_015, "ACL_ERROR_RT_AICORE_EXCEPTION"),
    (507_016, "ACL_ERROR_RT_AICORE_TRAP_EXCEPTION"),
    (507_024, "ACL_ERROR_RT_KERNEL_UNREGISTERING"),
    (507_027, "ACL_ERROR_RT_KERNEL_LOOKUP"),
    (507_028, "ACL_ERROR_RT_KERNEL_DUPLICATE"),
    (507_033, "ACL_ERROR_RT_DEV_SETUP_ERROR"),
    (507_034, "ACL_ERROR_RT_VECTOR_CORE_TIMEOUT"),
    (507_035, "ACL_ERROR_RT_VECTOR_CORE_EXCEPTION"),
    (507_036, "ACL_ERROR_RT_VECTOR_CORE_TRAP_EXCEPTION"),
    (507_046, "ACL_ERROR_RT_STREAM_SYNC_TIMEOUT"),
    (507_048, "ACL_ERROR_RT_FFTS_PLUS_TIMEOUT"),
    (507_049, "ACL_ERROR_RT_FFTS_PLUS_EXCEPTION"),
    (507_050, "ACL_ERROR_RT_FFTS_PLUS_TRAP_EXCEPTION"),
    (507_053, "ACL_ERROR_RT_DEVICE_MEM_ERROR"),
    (507_054, "ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR"),
    (507_055, "ACL_ERROR_RT_SUSPECT_DEVICE_MEM_ERROR"),
    (507_899, "ACL_ERROR_RT_DRV_INTERNAL_ERROR"),
    (507_900, "ACL_ERROR_RT_AICPU_INTERNAL_ERROR"),
    (507_915, "ACL_ERROR_RT_SYMBOL_NOT_FOUND"),
];

/// `aclInit` was called before, by opkeep or by a framework in the same process.
pub(crate) const REPEAT_INITIALIZE: i32 = 100_002;

/// The library is the stub that programs are linked with on hosts without a device: its functions do nothing.
pub(crate) const COMPILING_STUB_MODE: i32 = 100_039;

/// The name of a code: `ACL_ERROR_RT_AICORE_EXCEPTION`.
pub(crate) fn name(code: i32) -> &'static str {
    NAMES
        .iter()
        .find(|(known, _)| *known == code)
        .map_or("a code that opkeep has no name for", |(_, name)| name)
}

/// The help for a code.
pub(crate) fn help(code: i32) -> &'static str {
    match code {
        200_000 | 207_001 | 207_018 => {
            "free memory of the device: `npu-smi info` lists the processes that use it"
        }
        200_001 | 200_006 | 207_000 => {
            "this chip or this driver cannot do that; chips before the 910B may lack it, and so may old drivers"
        }
        107_001 | 200_002 | 207_004 | 500_004 | 507_008 | 507_033 | 507_899 => {
            "see with `npu-smi info` whether the driver and the device work, and whether this user may use them"
        }
        207_006 => "let this user use the device: add it to the group of the driver's user (HwHiAiUser)",
        507_014..=507_016 | 507_034..=507_036 | 507_048..=507_050 => {
            "the kernel itself failed: was it compiled for this chip? see the device's log in ~/ascend/log"
        }
        507_027 | 507_915 => "the object has no such kernel: validate the object with its `.json`",
        507_053..=507_055 => "the device's memory is faulty: see `npu-smi info -t ecc`",
        _ => "see the runtime's log in ~/ascend/log",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_one_name_each() {
        for (at, (code, name)) in NAMES.iter().enumerate() {
            assert!(!NAMES[..at].iter().any(|(other, also)| other == code || also == name), "{code}");
            assert_eq!(super::name(*code), *name);
        }
        assert_eq!(name(1), "a code that opkeep has no name for");
    }
}
