//! Compile flags of operators.

/// The compile flags of an operator. A field that is absent from a file is `None` and means its `Default`, the value
/// that a framework writes for a plain static operator. For fused operators, frameworks write only some fields.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OpFlags {
    /// `accurately_build` or `fuzzily_build`.
    pub build_type: Option<String>,
    /// Compile a dynamic implementation for these static shapes.
    pub dynamic_compile_static: Option<bool>,
    /// Use a dynamic implementation; written since r1.7, absent means false.
    pub is_dynamic_impl: Option<bool>,
    /// 64-bit addressing.
    pub int64_mode: Option<bool>,
    /// Bound for fuzzy builds.
    pub max_kernel_id: Option<i64>,
    /// State of fuzzy builds.
    pub miss_support_info: Option<String>,
    /// Fusion pattern, such as `Opaque` or `ElemWise`. It determines how several operators are fused, and does not
    /// count for a single operator.
    pub pattern: Option<String>,
    /// Some shape is unknown before the launch.
    pub unknown_shape: Option<bool>,
}

impl Default for OpFlags {
    fn default() -> Self {
        Self {
            build_type: Some(BUILD_TYPE.into()),
            dynamic_compile_static: Some(false),
            is_dynamic_impl: None,
            int64_mode: Some(false),
            max_kernel_id: Some(MAX_KERNEL_ID),
            miss_support_info: Some(String::new()),
            pattern: Some(PATTERN.into()),
            unknown_shape: Some(false),
        }
    }
}

const BUILD_TYPE: &str = "accurately_build";
const MAX_KERNEL_ID: i64 = 10;
const PATTERN: &str = "Opaque";

/// The hashed form of [`OpFlags`]: absent flags have their defaults.
pub(crate) struct ResolvedFlags<'a> {
    pub(crate) build_type: &'a str,
    pub(crate) dynamic_compile_static: bool,
    pub(crate) is_dynamic_impl: bool,
    pub(crate) int64_mode: bool,
    pub(crate) max_kernel_id: i64,
    pub(crate) miss_support_info: &'a str,
    pub(crate) pattern: &'a str,
    pub(crate) unknown_shape: bool,
}

impl OpFlags {
    /// Sets the flags that frameworks always write for a single operator.
    pub(crate) fn fill_in(&mut self) {
        let stated = std::mem::take(self);
        let default = Self::default();
        *self = Self {
            build_type: stated.build_type.or(default.build_type),
            dynamic_compile_static: stated.dynamic_compile_static.or(default.dynamic_compile_static),
            is_dynamic_impl: stated.is_dynamic_impl,
            int64_mode: stated.int64_mode.or(default.int64_mode),
            max_kernel_id: stated.max_kernel_id.or(default.max_kernel_id),
            miss_support_info: stated.miss_support_info.or(default.miss_support_info),
            pattern: stated.pattern.or(default.pattern),
            unknown_shape: stated.unknown_shape.or(default.unknown_shape),
        };
    }

    /// The hashed flags in a job of one operator, or of several `fused` ones.
    pub(crate) fn resolved(&self, fused: bool) -> ResolvedFlags<'_> {
        let Self {
            build_type,
            dynamic_compile_static,
            is_dynamic_impl,
            int64_mode,
            max_kernel_id,
            miss_support_info,
            pattern,
            unknown_shape,
        } = self;
        // The compiler determines the pattern of a single operator itself, so the framework's value has no effect.
        let pattern = pattern.as_deref().filter(|_| fused);
        ResolvedFlags {
            build_type: build_type.as_deref().unwrap_or(BUILD_TYPE),
            dynamic_compile_static: dynamic_compile_static.unwrap_or(false),
            is_dynamic_impl: is_dynamic_impl.unwrap_or(false),
            int64_mode: int64_mode.unwrap_or(false),
            max_kernel_id: max_kernel_id.unwrap_or(MAX_KERNEL_ID),
            miss_support_info: miss_support_info.as_deref().unwrap_or_default(),
            pattern: pattern.unwrap_or(PATTERN),
            unknown_shape: unknown_shape.unwrap_or(false),
        }
    }
}
