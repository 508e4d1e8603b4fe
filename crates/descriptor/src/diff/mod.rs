//! Differences between two jobs, field by field.
//!
//! Two jobs have no difference if and only if their digests are equal: values that [`Job::digest`] treats as equal,
//! such as an absent field and its default, are no difference. As there, structs are destructured without `..`.

mod text;

use std::collections::BTreeMap;
use std::fmt::{self, Display, Write as _};

use serde_json::Value;

use crate::diff::text::{arg_shown, args_shown, source_shown, tensor_shown, truncate, truncate_pair};
use crate::key::hash::{FloatBits, JsonNumber, is_placeholder, is_single};
use crate::model::flags::ResolvedFlags;
use crate::model::job::{
    Arg, Attr, AttrValue, ConstValue, Data, Extra, Input, Job, OmittedArg, Op, SliceFields, Tensor, ranges,
};
use crate::model::spec::ResolvedSpec;

/// The text for a value that one side lacks.
const NOTHING: &str = "(none)";

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// The path, such as `ops[0].inputs[1].shape`.
    pub path: String,
    /// The old value; of a long value, 200 characters around the first difference.
    pub old: String,
    /// The new value, shown likewise.
    pub new: String,
}

impl Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, old, new } = self;
        write!(f, "{path}: {old} -> {new}")
    }
}

/// The differences between two jobs, or two specs. Displays one line each.
///
/// ```
/// use opkeep_descriptor::{Arg, Diff, read_info};
///
/// let text = std::fs::read("../../fixtures/mindspore/square_12484080525657478220_2.info")?;
/// let old = read_info(&text)?.job;
/// let mut new = old.clone();
/// if let Arg::One(input) = &mut new.ops[0].inputs[0] {
///     input.tensor.dtype = "float16".to_owned();
/// }
/// assert_eq!(Diff::of_jobs(&old, &new).to_string(), "ops[0].inputs[0].dtype: float32 -> float16\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// In the order of the fields.
    pub changes: Vec<Change>,
}

impl Diff {
    /// The changes from `old` to `new`.
    pub fn of_jobs(old: &Job, new: &Job) -> Self {
        let mut differ = Differ::default();
        differ.job(old, new);
        Self { changes: differ.changes }
    }

    /// The changes between two resolved specs.
    pub fn of_specs(old: &ResolvedSpec, new: &ResolvedSpec) -> Self {
        let mut differ = Differ::default();
        let [old, new] = [old, new].map(|ResolvedSpec { target, options, debug }| (target, options, debug));
        differ.leaf("target", old.0, new.0);
        differ.maps(old.1, new.1, |differ, name, old, new| {
            differ.within("options", |differ| differ.within(name, |differ| differ.sides(old, new)));
        });
        differ.leaf("debug", old.2, new.2);
        Self { changes: differ.changes }
    }

    /// Whether there is no difference.
    pub const fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

impl Display for Diff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.changes.iter().try_for_each(|change| writeln!(f, "{change}"))
    }
}

#[derive(Default)]
struct Differ {
    path: String,
    changes: Vec<Change>,
    /// The numbers of external tensors only identify equal tensors: each side is renumbered.
    free: [BTreeMap<usize, usize>; 2],
    /// Whether each side has several operators.
    fused: [bool; 2],
    /// Every field is listed; both sides are the same job.
    all: bool,
}

impl Job {
    /// Every field that counts in the key, by its path, such as `ops[0].inputs[1].shape`, with its value; absent fields
    /// have their default. Values are truncated to 200 characters. Paths are those of a [`Diff`].
    pub fn fields(&self) -> Vec<(String, String)> {
        let mut differ = Differ { all: true, ..Differ::default() };
        differ.job(self, self);
        opkeep_order::collected(differ.changes.into_iter().map(|field| (field.path, field.old)))
    }
}

impl Differ {
    fn job(&mut self, old: &Job, new: &Job) {
        let [old, new] = [old, new].map(|Job { data, ops, l1_size, extra }| (data, ops, l1_size, extra));
        self.fused = [old, new].map(|side| side.1.len() > 1);
        self.lists("data", old.0, new.0, Self::data, |data| args_shown(&data.outputs));
        self.lists("ops", old.1, new.1, Self::op, |op| op.op_type.clone());
        self.leaf("l1_size", old.2, new.2);
        self.extras(old.3, new.3);
    }

    fn data(&mut self, old: &Data, new: &Data) {
        let [old, new] = [old, new].map(|Data { outputs, extra }| (outputs, extra));
        self.args("outputs", old.0, new.0, Self::tensor, tensor_shown);
        self.extras(old.1, new.1);
    }

    fn op(&mut self, old: &Op, new: &Op) {
        // The module's path is an install directory and does not count.
        let Op { op_type, func_name, module_name, module_path: _, flags, inputs, outputs, attrs, extra } =
            old;
        self.leaf("op_type", op_type, &new.op_type);
        self.leaf("func_name", func_name, &new.func_name);
        self.leaf("module_name", module_name, &new.module_name);
        let [old_fused, new_fused] = self.fused;
        let (flags, new_flags) = (flags.resolved(old_fused), new.flags.resolved(new_fused));
        self.within("flags", |differ| differ.flags(&flags, &new_flags));
        self.args("inputs", inputs, &new.inputs, Self::input, |input| tensor_shown(&input.tensor));
        self.args("outputs", outputs, &new.outputs, Self::tensor, tensor_shown);
        let [attrs, new_attrs] = [attrs, &new.attrs].map(|attrs| attrs.as_deref().unwrap_or_default());
        self.lists("attrs", attrs, new_attrs, Self::attr, |attr| attr.name.clone());
        self.extras(extra, &new.extra);
    }

    fn flags(&mut self, old: &ResolvedFlags<'_>, new: &ResolvedFlags<'_>) {
        let ResolvedFlags {
            build_type,
            dynamic_compile_static,
            is_dynamic_impl,
            int64_mode,
            max_kernel_id,
            miss_support_info,
            pattern,
            unknown_shape,
        } = old;
        self.leaf("build_type", build_type, &new.build_type);
        self.leaf("dynamic_compile_static", dynamic_compile_static, &new.dynamic_compile_static);
        self.leaf("is_dynamic_impl", is_dynamic_impl, &new.is_dynamic_impl);
        self.leaf("int64_mode", int64_mode, &new.int64_mode);
        self.leaf("max_kernel_id", max_kernel_id, &new.max_kernel_id);
        self.leaf("miss_support_info", miss_support_info, &new.miss_support_info);
        self.leaf("pattern", pattern, &new.pattern);
        self.leaf("unknown_shape", unknown_shape, &new.unknown_shape);
    }

    fn input(&mut self, old: &Input, new: &Input) {
        let [old, new] = [old, new].map(|Input { tensor, source }| (tensor, source));
        self.tensor(old.0, new.0);
        let old_source = source_shown(*old.1, &mut self.free[0]);
        let new_source = source_shown(*new.1, &mut self.free[1]);
        self.leaf("source", &old_source, &new_source);
    }

    fn tensor(&mut self, old: &Tensor, new: &Tensor) {
        let Tensor {
            dtype,
            format,
            shape,
            ori_format,
            ori_shape,
            range,
            param_type,
            valid,
            const_value,
            slice,
            extra,
        } = old;
        self.leaf("dtype", dtype, &new.dtype);
        self.leaf("format", format, &new.format);
        self.shown("shape", shape, &new.shape);
        let [old_format, new_format] = [(ori_format, format), (&new.ori_format, &new.format)]
            .map(|(own, same)| own.as_ref().unwrap_or(same));
        self.leaf("ori_format", old_format, new_format);
        let [old_shape, new_shape] = [(ori_shape, shape), (&new.ori_shape, &new.shape)]
            .map(|(own, same)| own.as_ref().unwrap_or(same));
        self.shown("ori_shape", old_shape, new_shape);
        self.shown("range", &ranges(range.as_deref(), shape), &ranges(new.range.as_deref(), &new.shape));
        self.leaf("param_type", param_type, &new.param_type);
        self.leaf("valid", &valid.unwrap_or(true), &new.valid.unwrap_or(true));
        self.within("const_value", |differ| differ.constants(const_value.as_ref(), new.const_value.as_ref()));
        self.slice(slice, &new.slice);
        self.extras(extra, &new.extra);
    }

    fn constants(&mut self, old: Option<&ConstValue>, new: Option<&ConstValue>) {
        match (old, new) {
            (Some(old), Some(new)) => {
                let [old, new] = [old, new].map(|ConstValue { value, dtype }| (value, dtype));
                self.json(Some(old.0), Some(new.0));
                let [old, new] = [old.1, new.1].map(|dtype| dtype.as_deref().unwrap_or_default());
                self.leaf("dtype", &old, &new);
            }
            (None, None) => {}
            (old, new) => {
                let value = |side: Option<&ConstValue>| side.map(|constant| constant.value.to_string());
                self.sides(value(old), value(new));
            }
        }
    }

    fn slice(&mut self, old: &SliceFields, new: &SliceFields) {
        let ((old_numbers, old_lists), (new_numbers, new_lists)) = (old.resolved(), new.resolved());
        for ((name, old), (_, new)) in old_numbers.iter().zip(&new_numbers) {
            self.leaf(name, old, new);
        }
        for ((name, old), (_, new)) in old_lists.iter().zip(&new_lists) {
            self.shown(name, *old, *new);
        }
    }

    fn attr(&mut self, old: &Attr, new: &Attr) {
        let Attr { name, dtype, value, valid, extra } = old;
        self.leaf("name", name, &new.name);
        self.leaf("dtype", dtype, &new.dtype);
        let singles = [is_single(dtype), is_single(&new.dtype)];
        self.within("value", |differ| differ.attr_value(value, &new.value, singles));
        self.leaf("valid", &valid.unwrap_or(true), &new.valid.unwrap_or(true));
        self.extras(extra, &new.extra);
    }

    fn attr_value(&mut self, old: &AttrValue, new: &AttrValue, singles: [bool; 2]) {
        match (old, new) {
            _ if self.all => self.sides(Some(old.to_string()), Some(new.to_string())),
            (AttrValue::List(old), AttrValue::List(new)) if old.len() == new.len() => {
                for (index, (old, new)) in old.iter().zip(new).enumerate() {
                    self.within(index, |differ| differ.attr_value(old, new, singles));
                }
            }
            _ if same_value(old, new, singles) => {}
            _ => self.sides(Some(old.to_string()), Some(new.to_string())),
        }
    }

    /// Inputs or outputs, position by position.
    fn args<T>(
        &mut self,
        name: &str,
        old: &[Arg<T>],
        new: &[Arg<T>],
        mut item: impl FnMut(&mut Self, &T, &T),
        show: impl Fn(&T) -> String,
    ) {
        let arg_of = |differ: &mut Self, old: &Arg<T>, new: &Arg<T>| match (old, new) {
            (Arg::One(old), Arg::One(new)) => item(differ, old, new),
            (Arg::Many(old), Arg::Many(new)) => differ.items(old, new, &mut item, &show),
            (Arg::Absent(old), Arg::Absent(new)) => differ.absent(old, new),
            (old, new) => differ.sides(Some(arg_shown(old, &show)), Some(arg_shown(new, &show))),
        };
        self.lists(name, old, new, arg_of, |arg| arg_shown(arg, &show));
    }

    fn absent(&mut self, old: &OmittedArg, new: &OmittedArg) {
        let [old, new] = [old, new].map(|absent @ OmittedArg { param_type: _, extra }| {
            let param_type = absent.kind();
            let extra = extra.iter().filter(|(name, value)| !is_placeholder(name, value));
            (
                param_type,
                opkeep_order::collected::<Extra, _>(extra.map(|(name, value)| (name.clone(), value.clone()))),
            )
        });
        self.leaf("param_type", &old.0, &new.0);
        self.extras(&old.1, &new.1);
    }

    /// The list `name`, item by item; `show` displays items that one side lacks.
    fn lists<T>(
        &mut self,
        name: &str,
        old: &[T],
        new: &[T],
        item: impl FnMut(&mut Self, &T, &T),
        show: impl Fn(&T) -> String,
    ) {
        self.within(name, |differ| differ.items(old, new, item, show));
    }

    fn items<T>(
        &mut self,
        old: &[T],
        new: &[T],
        mut item: impl FnMut(&mut Self, &T, &T),
        show: impl Fn(&T) -> String,
    ) {
        for index in 0..old.len().max(new.len()) {
            self.within(index, |differ| match (old.get(index), new.get(index)) {
                (Some(old), Some(new)) => item(differ, old, new),
                (old, new) => differ.sides(old.map(&show), new.map(&show)),
            });
        }
    }

    fn extras(&mut self, old: &Extra, new: &Extra) {
        self.maps(old, new, |differ, name, old, new| {
            differ.within(name, |differ| differ.json(old, new));
        });
    }

    fn maps<V>(
        &mut self,
        old: &BTreeMap<String, V>,
        new: &BTreeMap<String, V>,
        mut member: impl FnMut(&mut Self, &str, Option<&V>, Option<&V>),
    ) {
        let added = new.keys().filter(|name| !old.contains_key(*name));
        for name in old.keys().chain(added) {
            member(self, name, old.get(name), new.get(name));
        }
    }

    fn json(&mut self, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            _ if self.all => self.sides(old.map(Value::to_string), new.map(Value::to_string)),
            (Some(Value::Object(old)), Some(Value::Object(new))) => {
                let added = new.keys().filter(|name| !old.contains_key(*name));
                for name in old.keys().chain(added) {
                    self.within(name.as_str(), |differ| differ.json(old.get(name), new.get(name)));
                }
            }
            (Some(Value::Array(old)), Some(Value::Array(new))) => {
                let item = |differ: &mut Self, old: &Value, new: &Value| differ.json(Some(old), Some(new));
                self.items(old, new, item, Value::to_string);
            }
            (Some(Value::Number(old)), Some(Value::Number(new)))
                if JsonNumber::of(old) == JsonNumber::of(new) => {}
            (old, new) if old == new => {}
            (old, new) => self.sides(old.map(Value::to_string), new.map(Value::to_string)),
        }
    }

    fn leaf<T: PartialEq + Display + ?Sized>(&mut self, name: &str, old: &T, new: &T) {
        if self.all || old != new {
            self.within(name, |differ| differ.change(old.to_string(), new.to_string()));
        }
    }

    fn shown<T: PartialEq + fmt::Debug + ?Sized>(&mut self, name: &str, old: &T, new: &T) {
        if self.all || old != new {
            self.within(name, |differ| differ.change(format!("{old:?}"), format!("{new:?}")));
        }
    }

    fn sides(&mut self, old: Option<impl ToString + PartialEq>, new: Option<impl ToString + PartialEq>) {
        let text = |side: Option<String>| side.unwrap_or_else(|| NOTHING.to_owned());
        let [old, new] = [old.map(|side| side.to_string()), new.map(|side| side.to_string())];
        if self.all || old != new {
            self.change(text(old), text(new));
        }
    }

    fn change(&mut self, old: String, new: String) {
        let path = self.path.clone();
        let [old, new] = match self.all {
            true => [truncate(&old), String::new()],
            false => truncate_pair(&old, &new),
        };
        self.changes.push(Change { path, old, new });
    }

    /// Runs `f` with a further step of the path: a name, or an index.
    fn within(&mut self, step: impl PathStep, what: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        step.push(&mut self.path);
        what(self);
        self.path.truncate(length);
    }
}

/// A step on a path.
trait PathStep {
    fn push(self, path: &mut String);
}

impl PathStep for &str {
    fn push(self, path: &mut String) {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(self);
    }
}

impl PathStep for usize {
    fn push(self, path: &mut String) {
        let written = write!(path, "[{self}]");
        debug_assert!(written.is_ok(), "writing to memory");
    }
}

fn same_value(old: &AttrValue, new: &AttrValue, [old_single, new_single]: [bool; 2]) -> bool {
    match (old, new) {
        (AttrValue::Float(old), AttrValue::Float(new)) => {
            FloatBits::of(old.value(), old_single) == FloatBits::of(new.value(), new_single)
        }
        (old, new) => old == new,
    }
}
