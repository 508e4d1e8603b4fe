//! The operators of the op package: what ONNX networks become, and what shows a habit of the vendor's.
//!
//! Which of them list formats, which are asked for them, and how files are called is the vendor's (CANN 8.1,
//! `Ascend910B`); of some the lists are shorter.

/// Where an operator's element types and formats stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forms {
    /// In the operator information, port by port.
    Listed,
    /// Nowhere but in the operator: its function `op_select_format` is asked (`dynamicFormat`, and no list).
    Asked,
    /// Any format; element types are listed (`op.pattern` is this word).
    Pattern(&'static str),
}

/// The source of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A Python function for shapes that are known, and its twin for others, which compiles both.
    Both,
    /// The same, but each compiles its own: there is no `dynamicCompileStatic`.
    Apart,
    /// C++ for vector cores.
    AscendC,
    /// C++ for so many cube and vector cores together.
    Mix(u16, u16),
    /// Nothing: there is no kernel (`opFile` is `Null`).
    Null,
}

/// An operator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Op {
    pub(super) op_type: &'static str,
    /// `opFile` and `opInterface`, where the vendor says them.
    pub(super) file: Option<&'static str>,
    /// Columns: element types...
    pub(super) dtypes: &'static str,
    /// ... each with each of these formats.
    pub(super) formats: &'static str,
    /// Ports: `x, bias?=float32:ND -> y*`. `?` is optional, `*` a list; behind `=` stand the element type and the
    /// format, if they are not those of the columns, or as many as there are columns, with `|` between.
    pub(super) ports: &'static str,
    /// Attributes: `groups:int=1; strides:listInt`.
    pub(super) attrs: &'static str,
    pub(super) forms: Forms,
    pub(super) source: Source,
    /// `coreType`, where the vendor says it.
    pub(super) core: Option<&'static str>,
    /// The instruction that stands for what it computes.
    pub(super) instruction: &'static str,
    /// Whether it can compute the same twice.
    pub(super) deterministic: bool,
    /// Whether it takes `impl_mode`.
    pub(super) modes: bool,
    /// Further imports.
    pub(super) imports: &'static str,
}

const HALF: &str = "float16,float32,bfloat16";
const NUMBERS: &str = "float16,float32,bfloat16,int32,int64";
const ANY_LAYOUT: &str = "NC1HWC0,ND,NCHW,NHWC,FRACTAL_NZ,FRACTAL_Z";

const OP: Op = Op {
    op_type: "",
    file: None,
    dtypes: HALF,
    formats: "ND",
    ports: "x -> y",
    attrs: "",
    forms: Forms::Listed,
    source: Source::Both,
    core: None,
    instruction: "",
    deterministic: false,
    modes: false,
    imports: "",
};

const fn unary(op_type: &'static str, instruction: &'static str, attrs: &'static str) -> Op {
    Op { op_type, instruction, attrs, formats: "", forms: Forms::Pattern("formatAgnostic"), ..OP }
}

const fn binary(op_type: &'static str, instruction: &'static str) -> Op {
    let imports = "from impl.util.util_broadcast import broadcast_kind\n";
    Op {
        op_type,
        instruction,
        dtypes: NUMBERS,
        formats: ANY_LAYOUT,
        ports: "x1, x2 -> y",
        forms: Forms::Asked,
        imports,
        ..OP
    }
}

const fn listed(
    op_type: &'static str,
    ports: &'static str,
    formats: &'static str,
    attrs: &'static str,
) -> Op {
    Op { op_type, ports, formats, attrs, instruction: "vmove", ..OP }
}

const fn reduce(op_type: &'static str, instruction: &'static str) -> Op {
    Op {
        op_type,
        instruction,
        dtypes: "float16,float32,bfloat16,float16,float32,bfloat16",
        ports: "x, axes=int32|int32|int32|int64|int64|int64 -> y",
        attrs: "keep_dims:bool=false; noop_with_empty_axes:bool=true",
        deterministic: true,
        modes: true,
        ..OP
    }
}

const fn cube(
    op_type: &'static str,
    file: &'static str,
    instruction: &'static str,
    attrs: &'static str,
) -> Op {
    Op {
        op_type,
        file: Some(file),
        formats: "ND,FRACTAL_NZ",
        ports: "x1, x2, bias?=float16|float32|float32:ND, offset_w?=int8:ND -> y",
        attrs,
        forms: Forms::Asked,
        core: Some("AiCore"),
        instruction,
        modes: true,
        ..OP
    }
}

const fn null(op_type: &'static str, ports: &'static str) -> Op {
    Op { op_type, ports, file: Some("Null"), source: Source::Null, dtypes: NUMBERS, ..OP }
}

const FROM: &str = "NCHW,NC1HWC0,NCHW,FRACTAL_Z,NHWC,NC1HWC0,ND,FRACTAL_NZ,HWCN";
const CONVERSIONS: &str = "src -> dst=-:NC1HWC0|NCHW|FRACTAL_Z|NCHW|NC1HWC0|NHWC|FRACTAL_NZ|ND|FRACTAL_Z";
const POOL: &str = "ksize:listInt; strides:listInt; padding_mode:str=CALCULATED; pads:listInt=[0,0,0,0]; \
                    data_format:str=NCHW; global_pooling:bool=false; ceil_mode:bool=false";

/// All of them, by type.
#[rustfmt::skip]
pub(super) static OPS: &[Op] = &[
    unary("Abs", "vabs", ""),
    Op { op_type: "AccumulateNV2", ports: "x* -> y", dtypes: "float16,float32,int32,int8,uint8", formats: "",
        forms: Forms::Pattern("broadcast"), attrs: "N:int", file: Some("accumulate_nv2"), instruction: "vadd", ..OP },
    binary("Add", "vadd"),
    Op { op_type: "AddRmsNorm", source: Source::AscendC, ports: "x1, x2, gamma -> y, rstd=float32, x",
        attrs: "epsilon:float=1e-06", forms: Forms::Listed, file: Some("add_rms_norm"), core: Some("VectorCore"), ..OP },
    unary("Adds", "vadds", "value:float"),
    Op { op_type: "AvgPoolV2", dtypes: "float16,int8", formats: "NC1HWC0", core: Some("AiCore"), instruction: "conv",
        ports: "x, filter?=-:FRACTAL_Z, bias?=float16|int32:ND -> y", source: Source::Apart,
        attrs: "ksize:listInt; strides:listInt; padding_mode:str=CALCULATED; pads:listInt=[0,0,0,0]; \
                data_format:str=NCHW; global_pooling:bool=false; ceil_mode:bool=false; exclusive:bool=true; \
                offset_x:int=0", ..OP },
    Op { op_type: "BNInfer", file: Some("bn_infer"), dtypes: "float16,float32", formats: "NC1HWC0", instruction: "vmla",
        ports: "x, scale=float, offset=float, mean=float, variance=float -> y", attrs: "epsilon:float", ..OP },
    Op { op_type: "BatchNorm", dtypes: "float16,float32", formats: "NC1HWC0,ND", instruction: "vmla",
        ports: "x, scale=float, offset=float, mean?=float, variance?=float -> y, batch_mean=float, batch_variance=float, \
                reserve_space_1=float, reserve_space_2=float",
        attrs: "epsilon:float=0.0001; data_format:str=NHWC; is_training:bool=true", ..OP },
    Op { imports: "import importlib\n\nTILING = importlib.import_module(\"impl.util.util_cube_\" + \"910b\")\n",
        ..cube("BatchMatMulV2", "batch_matmul_v2", "batch_matmul", "adj_x1:bool=false; adj_x2:bool=false; offset_x:int=0") },
    Op { op_type: "Cast", instruction: "vconv", formats: "", forms: Forms::Pattern("formatAgnostic"), attrs: "dst_type:int",
        dtypes: "float16,float16,float32,float32,float32,float32,int32,int32,int32,bool,bool,int64,int64,int8,uint8,float32,bfloat16",
        ports: "x -> y=float32|int32|float16|int32|int64|bool|float32|float16|int64|float32|int32|float32|int32|float16|float16|bfloat16|float32",
        ..OP },
    Op { ports: "x, clip_value_min, clip_value_max -> y", forms: Forms::Pattern("broadcast"), formats: "", dtypes: NUMBERS,
        ..unary("ClipByValue", "vmins", "") },
    Op { op_type: "ConcatD", ports: "input_values* -> output_data", dtypes: NUMBERS, formats: ANY_LAYOUT,
        attrs: "concat_dim:int", forms: Forms::Asked, instruction: "vconcat", ..OP },
    Op { op_type: "Conv2D", formats: "NC1HWC0", source: Source::Apart, forms: Forms::Asked, core: Some("AiCore"),
        ports: "x, filter=-:FRACTAL_Z, bias?=float16|float32|float32:ND, offset_w?=int8:ND -> y", instruction: "conv", modes: true,
        attrs: "strides:listInt; pads:listInt; dilations:listInt=[1,1,1,1]; groups:int=1; data_format:str=NHWC; offset_x:int=0",
        ..OP },
    unary("Erf", "verf", ""),
    unary("Exp", "vexp", "base:float=-1.0; scale:float=1.0; shift:float=0.0"),
    listed("Fill", "dims=int64, value -> y", "ND", ""),
    Op { op_type: "FlashAttentionScore", source: Source::Mix(1, 2), ports: "query, key, value -> attention_out",
        attrs: "head_num:int; input_layout:str; scale_value:float=1.0", file: Some("flash_attention_score"),
        core: Some("AiCore"), ..OP },
    listed("Flatten", "x -> y", "ND", "axis:int=1"),
    null("FlattenV2", "x -> y"),
    Op { file: Some("gather_v2"), ..listed("GatherV2", "x, indices=int32, axis=int64 -> y", "ND",
        "batch_dims:int=0; negative_index_support:bool=false") },
    null("Identity", "x -> y"),
    Op { file: Some("lrn"), ..listed("LRN", "x -> y", "NCHW",
        "depth_radius:int=5; bias:float=1.0; alpha:float=1.0; beta:float=0.5; norm_region:str=ACROSS_CHANNELS") },
    Op { op_type: "LayerNorm", ports: "x, gamma, beta -> y, mean, variance", formats: "ND,NCHW,FRACTAL_NZ", forms: Forms::Asked,
        attrs: "begin_norm_axis:int=0; begin_params_axis:int=0; epsilon:float=1e-07", instruction: "vmla", modes: true, ..OP },
    unary("LeakyRelu", "vlrelu", "negative_slope:float=0.0"),
    unary("Log", "vln", "base:float=-1.0; scale:float=1.0; shift:float=0.0"),
    Op { imports: "try:\n    from impl.util.util_not_shipped import tune\nexcept ImportError:\n    tune = None\n",
        ..cube("MatMulV2", "mat_mul", "matmul", "transpose_x1:bool=false; transpose_x2:bool=false; offset_x:int=0") },
    Op { op_type: "MaxPoolV3", dtypes: "float16,float32", formats: "NC1HWC0", attrs: POOL, instruction: "vmax", ..OP },
    binary("Maximum", "vmax"),
    binary("Minimum", "vmin"),
    binary("Mul", "vmul"),
    unary("Muls", "vmuls", "value:float"),
    unary("Neg", "vmuls", ""),
    Op { op_type: "PadV3", ports: "x, paddings=int32:ND, constant_values?=-:ND -> y", formats: "ND,NCHW,NC1HWC0", forms: Forms::Asked,
        attrs: "mode:str=constant; paddings_contiguous:bool=true", instruction: "vpad", file: Some("pad_v3"), ..OP },
    binary("Pow", "vpow"),
    Op { imports: "from .mul import PORTS as MUL_PORTS\n", ..binary("RealDiv", "vdiv") },
    reduce("ReduceMax", "vcmax"),
    reduce("ReduceMean", "vcadd"),
    reduce("ReduceSum", "vcadd"),
    unary("Relu", "vrelu", ""),
    null("Reshape", "x, shape=int64 -> y"),
    unary("Rsqrt", "vrsqrt", ""),
    null("Shape", "x -> y=int32"),
    unary("Sigmoid", "vsigmoid", ""),
    Op { op_type: "SoftmaxV2", formats: "ND,NC1HWC0,FRACTAL_NZ", forms: Forms::Asked, modes: true, instruction: "vexp",
        attrs: "axes:listInt=[-1]; half_to_float:bool=false", ..OP },
    Op { file: Some("split"), ..listed("Split", "split_dim=int32, x -> y*", "ND", "num_split:int") },
    Op { file: Some("split_v"), ..listed("SplitV", "x, size_splits=int64, split_dim=int32 -> y*", "ND", "num_split:int") },
    unary("Sqrt", "vsqrt", ""),
    Op { dtypes: NUMBERS, ..unary("Square", "vmul", "") },
    null("Squeeze", "x -> y"),
    binary("Sub", "vsub"),
    unary("Tanh", "vtanh", ""),
    Op { op_type: "TransData", ports: CONVERSIONS, formats: FROM, dtypes: HALF, instruction: "vnchwconv",
        attrs: "src_format:str; dst_format:str; groups:int=1", ..OP },
    listed("Transpose", "x, perm=int64 -> y", "ND", ""),
    null("Unsqueeze", "x -> y"),
];

/// The row for `op_type`.
pub(super) fn find(op_type: &str) -> Option<&'static Op> {
    OPS.iter().find(|op| op.op_type == op_type)
}
