"""Names that the compiler and the sources of kernels share."""

TILING_KEY = "TILING_KEY_VAR"
MIX_CORE = "__MIX_CORE_MACRO__"
MIX_RATIO_ONE = "__MIX_CORE_AIC_RATION__"
PRECOMPILE = "__CHECK_FEATURE_AT_PRECOMPILE"

VECTOR, CUBE = "vec", "cube"

# Kernel types: cube and vector cores that take part.
KERNEL_TYPES = {"KERNEL_TYPE_AIC_ONLY": (1, 0), "KERNEL_TYPE_AIV_ONLY": (0, 1), "KERNEL_TYPE_MIX_AIC_1_1": (1, 1),
                "KERNEL_TYPE_MIX_AIC_1_2": (1, 2)}
NUMBERS = {"2": (1, 0), "3": (0, 1), "4": (1, 1), "5": (1, 2)}

# Families whose cube and vector cores are apart, and the architecture of both without its ending.
SPLIT = {"Ascend910B": "dav-c220", "Ascend910_93": "dav-c220"}
# Families of whole cores.
WHOLE = {"Ascend310P": "dav-m200", "Ascend910": "dav-c100"}
