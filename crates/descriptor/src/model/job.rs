//! The job: the computation.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;

use crate::model::flags::OpFlags;

/// Fields without a meaning in this version. They count in the key.
pub type Extra = BTreeMap<String, Value>;

/// The computation of a kernel: one operator or several fused ones, with their input data.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Job {
    /// The inputs of the kernel, in the kernel's argument order.
    pub data: Vec<Data>,
    /// The operators, in execution order.
    pub ops: Vec<Op>,
    /// Bytes of L1 that fusion may use; -1 is no limit.
    pub l1_size: i64,
    /// Unknown fields: `name` next to `job_content`, or `job_content.name` in it. `(shared names)` lists the tensors
    /// that repeat the name of an earlier tensor, if any: compilers differ in which of them an input refers to.
    pub extra: Extra,
}

impl Job {
    /// The types of the operators in execution order, joined by `+`.
    pub fn op_types(&self) -> String {
        self.ops.iter().map(|op| op.op_type.as_str()).collect::<Vec<_>>().join("+")
    }
}

/// An input of the kernel; a variadic input is one `Data` with several tensors.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Data {
    /// Its tensors.
    pub outputs: Vec<Arg<Tensor>>,
    /// Unknown fields.
    pub extra: Extra,
}

/// An operator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Op {
    /// The Ascend IR type, such as `Square`.
    pub op_type: String,
    /// The function that implements it, such as `square`.
    pub func_name: String,
    /// The module of that function, such as `impl.square`.
    pub module_name: String,
    /// The search path of the module: an install directory, or a custom operator's file. It does not count in the key;
    /// the source that a backend finds there does.
    pub module_path: Option<String>,
    /// The compile flags.
    pub flags: OpFlags,
    /// Inputs, in IR order.
    pub inputs: Vec<Arg<Input>>,
    /// Outputs, in IR order.
    pub outputs: Vec<Arg<Tensor>>,
    /// Attributes, in the order in which the function takes them. `None` and an empty list mean the same.
    pub attrs: Option<Vec<Attr>>,
    /// Unknown fields.
    pub extra: Extra,
}

/// An argument: one position of an operator's inputs or outputs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Arg<T> {
    /// One tensor.
    One(T),
    /// A variadic group.
    Many(Vec<T>),
    /// An omitted optional tensor.
    Absent(OmittedArg),
}

impl<T> Arg<T> {
    /// The tensors at this position.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        match self {
            Self::One(tensor) => std::slice::from_ref(tensor).iter(),
            Self::Many(tensors) => tensors.iter(),
            Self::Absent(_) => [].iter(),
        }
    }

    /// The tensors at this position, mutable.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        match self {
            Self::One(tensor) => std::slice::from_mut(tensor).iter_mut(),
            Self::Many(tensors) => tensors.iter_mut(),
            Self::Absent(_) => [].iter_mut(),
        }
    }

    /// Whether the argument is omitted.
    pub(crate) const fn is_absent(&self) -> bool {
        matches!(self, Self::Absent(_))
    }
}

/// The description of an omitted optional tensor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OmittedArg {
    /// Usually `optional`; absent in fused jobs, with the same meaning.
    pub param_type: Option<String>,
    /// All other fields of the description, including its name and the placeholder values.
    pub extra: Extra,
}

impl OmittedArg {
    /// The hashed form of `param_type`.
    pub(crate) fn kind(&self) -> &str {
        self.param_type.as_deref().filter(|kind| !kind.is_empty()).unwrap_or("optional")
    }
}

/// An operator's input.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Input {
    /// The tensor.
    pub tensor: Tensor,
    /// Its source.
    pub source: Source,
}

/// The source of an operator's input. Indices count single tensors, including those of variadic groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// Tensor `tensor` of `Job::data[data]`.
    Data {
        /// Index in [`Job::data`].
        data: usize,
        /// Index among its tensors.
        tensor: usize,
    },
    /// Output `output` of `Job::ops[op]`.
    Op {
        /// Index in [`Job::ops`].
        op: usize,
        /// Index among its outputs.
        output: usize,
    },
    /// A tensor outside the descriptor; equal numbers are the same tensor.
    Free(usize),
}

/// A tensor's description.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tensor {
    /// Element type, such as `float32`.
    pub dtype: String,
    /// Storage format, such as `ND` or `NC1HWC0`; empty if none is stated, as for reused outputs of fused jobs.
    pub format: String,
    /// Storage shape; -1 is a dynamic dimension, a single -2 an unknown rank.
    pub shape: Vec<i64>,
    /// The framework's format; absent means [`format`](Self::format).
    pub ori_format: Option<String>,
    /// The framework's shape; absent means [`shape`](Self::shape).
    pub ori_shape: Option<Vec<i64>>,
    /// The least and greatest value of each dimension, -1 for unbounded; absent means that each dimension is its own
    /// range.
    pub range: Option<Vec<[i64; 2]>>,
    /// `required`, `optional` or `dynamic`.
    pub param_type: String,
    /// False for a tensor that is described but not used.
    pub valid: Option<bool>,
    /// The value, for inputs whose value the compiler needs; never a weight.
    pub const_value: Option<ConstValue>,
    /// Fields of L1 fusion and slicing.
    pub slice: SliceFields,
    /// Unknown fields.
    pub extra: Extra,
}

impl Tensor {
    /// A required tensor in format ND.
    pub fn new(dtype: impl Into<String>, shape: impl Into<Vec<i64>>) -> Self {
        Self {
            dtype: dtype.into(),
            format: "ND".into(),
            shape: shape.into(),
            ori_format: None,
            ori_shape: None,
            range: None,
            param_type: "required".into(),
            valid: None,
            const_value: None,
            slice: SliceFields::default(),
            extra: Extra::new(),
        }
    }
}

/// The ranges of a tensor's dimensions. Absent ranges are the dimensions themselves; a dynamic dimension is at least 1.
pub(crate) fn ranges<'a>(range: Option<&'a [[i64; 2]]>, shape: &[i64]) -> Cow<'a, [[i64; 2]]> {
    let of = |dim: &i64| if *dim < 0 { [1, -1] } else { [*dim, *dim] };
    range.map_or_else(|| shape.iter().map(of).collect::<Vec<_>>().into(), Cow::Borrowed)
}

/// A value that the compiler needs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConstValue {
    /// The value: numbers, possibly nested.
    pub value: Value,
    /// Its element type, where stated.
    pub dtype: Option<String>,
}

impl ConstValue {
    /// Whole numbers of element type `dtype`, in one dimension.
    pub fn ints(dtype: &str, values: &[i64]) -> Self {
        Self { value: values.iter().copied().collect(), dtype: Some(dtype.to_owned()) }
    }

    /// Its values, flattened, if all of them are whole numbers.
    pub fn to_ints(&self) -> Option<Vec<i64>> {
        fn collect(value: &Value, ints: &mut Vec<i64>) -> Option<()> {
            match value {
                Value::Array(items) => items.iter().try_for_each(|item| collect(item, ints)),
                value => value.as_i64().map(|int| ints.push(int)),
            }
        }
        let mut ints = Vec::new();
        collect(&self.value, &mut ints).map(|()| ints)
    }
}

/// L1 fusion and slice fields of a tensor; an absent field means the default that frameworks write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SliceFields {
    /// `L1_addr_offset`, 0.
    pub l1_addr_offset: Option<i64>,
    /// `L1_fusion_type`, -1.
    pub l1_fusion_type: Option<i64>,
    /// `L1_workspace_size`, -1.
    pub l1_workspace_size: Option<i64>,
    /// `addr_type`, 0.
    pub addr_type: Option<i64>,
    /// `split_index`, 0.
    pub split_index: Option<i64>,
    /// `slice_offset`, empty.
    pub slice_offset: Option<Vec<i64>>,
    /// `total_shape`, empty.
    pub total_shape: Option<Vec<i64>>,
    /// `valid_shape`, empty.
    pub valid_shape: Option<Vec<i64>>,
}

/// A field by its name in a file.
type Named<T> = (&'static str, T);

/// The fields of [`SliceFields`] by their names in a file: the numbers, then the lists.
pub type Stated<'a> = ([Named<Option<i64>>; 5], [Named<Option<&'a [i64]>>; 3]);

impl SliceFields {
    /// Every field as stated.
    pub fn stated(&self) -> Stated<'_> {
        let Self {
            l1_addr_offset,
            l1_fusion_type,
            l1_workspace_size,
            addr_type,
            split_index,
            slice_offset,
            total_shape,
            valid_shape,
        } = self;
        (
            [
                ("L1_addr_offset", *l1_addr_offset),
                ("L1_fusion_type", *l1_fusion_type),
                ("L1_workspace_size", *l1_workspace_size),
                ("addr_type", *addr_type),
                ("split_index", *split_index),
            ],
            [
                ("slice_offset", slice_offset.as_deref()),
                ("total_shape", total_shape.as_deref()),
                ("valid_shape", valid_shape.as_deref()),
            ],
        )
    }

    /// Every field; absent fields have their defaults.
    pub(crate) fn resolved(&self) -> ([Named<i64>; 5], [Named<&[i64]>; 3]) {
        let absent = |name| if matches!(name, "L1_fusion_type" | "L1_workspace_size") { -1 } else { 0 };
        let (numbers, lists) = self.stated();
        (
            numbers.map(|(name, number)| (name, number.unwrap_or_else(|| absent(name)))),
            lists.map(|(name, list)| (name, list.unwrap_or_default())),
        )
    }

    /// The fields with absent ones set to their defaults.
    pub(crate) fn spelled(&self) -> Self {
        let (numbers, lists) = self.resolved();
        let [l1_addr_offset, l1_fusion_type, l1_workspace_size, addr_type, split_index] =
            numbers.map(|(_, number)| Some(number));
        let [slice_offset, total_shape, valid_shape] = lists.map(|(_, list)| Some(list.to_vec()));
        Self {
            l1_addr_offset,
            l1_fusion_type,
            l1_workspace_size,
            addr_type,
            split_index,
            slice_offset,
            total_shape,
            valid_shape,
        }
    }
}

/// An attribute.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attr {
    /// Its name.
    pub name: String,
    /// Its type, such as `int32`, `float32`, `list_int32`.
    pub dtype: String,
    /// Its value.
    pub value: AttrValue,
    /// False for an omitted attribute.
    pub valid: Option<bool>,
    /// Unknown fields.
    pub extra: Extra,
}

impl Attr {
    /// A given attribute.
    pub fn new(name: impl Into<String>, dtype: impl Into<String>, value: AttrValue) -> Self {
        Self { name: name.into(), dtype: dtype.into(), value, valid: None, extra: Extra::new() }
    }
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AttrValue {
    /// No value.
    Null,
    /// A boolean.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number above `i64::MAX`.
    UInt(u64),
    /// A floating-point number.
    Float(Float),
    /// A text.
    Str(String),
    /// A list, possibly of lists.
    List(Vec<Self>),
}

impl AttrValue {
    /// A list of whole numbers.
    pub fn ints(values: &[i64]) -> Self {
        Self::List(values.iter().map(|value| Self::Int(*value)).collect())
    }

    /// The numbers of a list of whole numbers; `None` for other values.
    pub fn to_ints(&self) -> Option<Vec<i64>> {
        let Self::List(items) = self else { return None };
        let int = |item: &Self| if let Self::Int(value) = item { Some(*value) } else { None };
        items.iter().map(int).collect()
    }

    /// Whether this value and an equal `other` have equal spelling: equality compares numbers by value.
    pub fn is_spelled_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Float(one), Self::Float(other)) => one.token == other.token,
            (Self::List(one), Self::List(other)) => {
                one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.is_spelled_as(other))
            }
            _ => true,
        }
    }
}

/// A floating-point number with its spelling.
///
/// Vendors print floats in different forms (`1e-05`), and a descriptor must round-trip unchanged. Numbers are compared
/// and keyed by value.
#[derive(Clone, Debug)]
pub struct Float {
    value: f64,
    token: Option<Box<str>>,
}

impl Float {
    /// A computed number.
    pub const fn new(value: f64) -> Self {
        Self { value, token: None }
    }

    /// A number read from text.
    pub(crate) fn read(value: f64, token: &str) -> Self {
        Self { value, token: Some(token.into()) }
    }

    /// Its value.
    pub const fn value(&self) -> f64 {
        self.value
    }

    /// Its spelling, if it was read.
    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }
}

impl PartialEq for Float {
    fn eq(&self, other: &Self) -> bool {
        self.value.to_bits() == other.value.to_bits()
    }
}

impl Eq for Float {}

impl std::hash::Hash for Float {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.value.to_bits().hash(state);
    }
}
