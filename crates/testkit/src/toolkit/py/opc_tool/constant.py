"""Numbers and words of the command."""

DTYPES = {
    "float32": 0, "float16": 1, "int8": 2, "int32": 3, "uint8": 4, "int16": 6, "uint16": 7, "uint32": 8, "int64": 9,
    "uint64": 10, "double": 11, "bool": 12, "complex64": 16, "complex128": 17, "bfloat16": 27, "int4": 29, "uint1": 30,
    "complex32": 33, "hifloat8": 34, "float8_e5m2": 35, "float8_e4m3fn": 36,
}

FORMATS = {
    "NCHW": 0, "NHWC": 1, "ND": 2, "NC1HWC0": 3, "FRACTAL_Z": 4, "HWCN": 16, "NDHWC": 27, "FRACTAL_NZ": 29, "NCDHW": 30,
    "NDC1HWC0": 32,
}

# How the operator information spells the types of attributes, and how the parameter file does.
ATTR_TYPES = {
    "bool": "bool", "int": "int", "float": "float", "str": "string", "listBool": "list_bool", "listInt": "list_int",
    "listFloat": "list_float", "listStr": "list_string", "listListInt": "list_list_int",
    "listListFloat": "list_list_float",
}

SIZES = {"float32": 4, "float16": 2, "bfloat16": 2, "int8": 1, "uint8": 1, "bool": 1, "int16": 2, "uint16": 2, "int32": 4,
         "uint32": 4, "int64": 8, "uint64": 8, "double": 8, "complex64": 8, "complex128": 16}

PLACEHOLDERS = ("no_placeholder", "gen_placeholder")

FORMAT_MATCH_MODES = ("FormatAgnostic", "FormatDefault", "FormatFixed", None)
DTYPE_MATCH_MODES = ("DtypeByte", None)
FORMAT_MODES = ("normal", "nd_agnostic", "static_nd_agnostic", None)

INT32_MAX = 2147483647


def is_dynamic(tensors):
    """Whether any dimension or rank is not known."""
    return any(dim in (-1, -2) for tensor in flat(tensors) for dim in tensor.get("shape") or ())


def is_large(tensors):
    """Whether any tensor has more bytes than 32 bits count."""
    for tensor in flat(tensors):
        count = 1
        for dim in tensor.get("shape") or ():
            count *= dim if dim > 0 else 1
        size = SIZES.get(tensor.get("dtype"))
        if size is None or count * size > INT32_MAX:
            return True
    return False


def flat(tensors):
    """Each tensor that is given, lists opened."""
    for tensor in tensors or ():
        yield from (item for item in (tensor if isinstance(tensor, list) else [tensor]) if item is not None)


def default_name(op_type):
    """The name of the file and of the function that an operator type has, if the information says nothing."""
    name, glued = "", False
    for at, letter in enumerate(op_type):
        if letter.islower():
            glued = False
        elif letter.isdigit():
            glued = True
        elif letter.isupper() and at:
            if not glued or op_type[at + 1:at + 2].islower():
                name += "_"
            glued = True
        name += letter
    return name.lower()
