//! C for jobs: one module for each kind of operator, over loops that are shared.

pub(crate) mod cast;
pub(crate) mod code;
pub(crate) mod concat;
pub(crate) mod conv;
pub(crate) mod elementwise;
pub(crate) mod expression;
pub(crate) mod gather;
pub(crate) mod gemm;
pub(crate) mod generate;
pub(crate) mod integer;
pub(crate) mod layer_norm;
pub(crate) mod loops;
pub(crate) mod lrn;
pub(crate) mod matmul;
pub(crate) mod nest;
pub(crate) mod pad;
pub(crate) mod pool;
pub(crate) mod reduce;
pub(crate) mod slice;
pub(crate) mod small_gemm;
pub(crate) mod softmax;
pub(crate) mod tiling;
pub(crate) mod transpose;
pub(crate) mod types;
