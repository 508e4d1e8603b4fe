//! The toolkit's conversions, and the cheapest path from one storage of a tensor to another.

use std::collections::{BTreeSet, VecDeque};

use opkeep_cann_toolkit::{OpInfo, OpsInfo};
use opkeep_descriptor::Tensor;
use opkeep_ops::{Storage, block, dtype_bytes, is_blocked, ordered};

use crate::graph::select::{Form, listed};

pub(crate) const CAST: &str = "Cast";
pub(crate) const TRANS_DATA: &str = "TransData";

/// The types and formats that a toolkit's `Cast` and `TransData` take.
#[derive(Debug)]
pub(crate) struct Conversions {
    /// Pairs of element types, from and to, of `Cast`.
    casts: BTreeSet<(String, String)>,
    /// Element type, format before and format after, of `TransData`.
    trans_data: BTreeSet<(String, String, String)>,
}

/// A step on the path from one storage to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Changes the name of the format only, without a kernel.
    Relabel(Storage),
    /// Changes the element type.
    Cast(Storage),
    /// Changes the format.
    TransData(Storage),
}

impl Step {
    pub(crate) fn to(&self) -> &Storage {
        match self {
            Self::Relabel(to) | Self::Cast(to) | Self::TransData(to) => to,
        }
    }
}

/// The number of steps that need a kernel.
pub(crate) fn kernel_count(path: &[Step]) -> usize {
    path.iter().filter(|step| !matches!(step, Step::Relabel(_))).count()
}

impl Conversions {
    pub(crate) fn of(ops: &OpsInfo) -> Self {
        let pairs = |op_type: &str| {
            let all = ops.get(op_type).map(|info: &OpInfo| listed(info)).unwrap_or_default();
            let pair =
                |mut one: crate::graph::select::Combination| Some((one.inputs.pop()?, one.outputs.pop()?));
            all.into_iter().filter_map(pair).collect::<Vec<(Form, Form)>>()
        };
        let casts = pairs(CAST).into_iter().filter_map(|(from, to)| Some((from.dtype?, to.dtype?)));
        let trans_data = pairs(TRANS_DATA)
            .into_iter()
            .filter_map(|(from, to)| Some((from.dtype?, from.format?, to.format?)));
        Self { casts: opkeep_order::set(casts), trans_data: opkeep_order::set(trans_data) }
    }

    /// The path with the fewest kernels from `from` to `to`, two storages of `tensor`; empty if they are the same.
    pub(crate) fn path(&self, tensor: &Tensor, from: &Storage, to: &Storage) -> Option<Vec<Step>> {
        let mut queue = VecDeque::from([(from.clone(), Vec::new())]);
        let mut seen = BTreeSet::new();
        while let Some((here, path)) = queue.pop_front() {
            if here == *to {
                return Some(path);
            }
            if !seen.insert(here.clone()) {
                continue;
            }
            for step in self.steps(tensor, &here, to) {
                let next = (step.to().clone(), [path.as_slice(), std::slice::from_ref(&step)].concat());
                // A step without a kernel is tried first.
                match step {
                    Step::Relabel(_) => queue.push_front(next),
                    _ => queue.push_back(next),
                }
            }
        }
        None
    }

    /// The steps from `here` that may lead to `to`.
    fn steps(&self, tensor: &Tensor, here: &Storage, to: &Storage) -> Vec<Step> {
        let ordered = ordered(tensor);
        let is_plain = |format: &str| format == "ND" || format == ordered;
        let mut steps = Vec::new();
        for format in opkeep_order::set(["ND", ordered, &to.format]) {
            let groups = if format == to.format { to.groups } else { 1 };
            let next = Storage { dtype: here.dtype.clone(), format: format.to_owned(), groups };
            if next.apply(tensor).is_err() || next.format == here.format && next.groups == here.groups {
                continue;
            }
            if is_plain(&next.format) && is_plain(&here.format) {
                steps.push(Step::Relabel(next));
            } else if self.trans_data.contains(&(
                next.dtype.clone(),
                here.format.clone(),
                next.format.clone(),
            )) {
                steps.push(Step::TransData(next));
            }
        }
        // A cast cannot change the size of blocks.
        let keeps_blocks = !is_blocked(&here.format) || block(&here.dtype) == block(&to.dtype);
        if keeps_blocks && self.casts.contains(&(here.dtype.clone(), to.dtype.clone())) {
            let cast = Step::Cast(Storage { dtype: to.dtype.clone(), ..here.clone() });
            // A narrowing cast is tried first and a widening cast last, so that `TransData` moves fewer bytes.
            let narrows = dtype_bytes(&to.dtype) < dtype_bytes(&here.dtype);
            steps.insert(if narrows { 0 } else { steps.len() }, cast);
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conversions() -> Conversions {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let casts = ["float32 float16", "float16 float32", "float16 int8", "int8 float16"];
        let trans_data =
            ["NCHW NC1HWC0", "NC1HWC0 NCHW", "NCHW FRACTAL_Z", "FRACTAL_Z NCHW", "ND FRACTAL_NZ"];
        let trans_data = trans_data.iter().flat_map(|pair| {
            let pair = words(pair);
            let of = move |dtype: &str| (dtype.to_owned(), pair[0].clone(), pair[1].clone());
            [of("float16"), of("float32")]
        });
        let casts = casts.iter().map(|pair| (words(pair)[0].clone(), words(pair)[1].clone()));
        Conversions { casts: opkeep_order::set(casts), trans_data: opkeep_order::set(trans_data) }
    }

    /// The path, as `format dtype` of each step.
    fn path_words(dims: &[i64], from: (&str, &str), to: (&str, &str)) -> Option<Vec<String>> {
        let mut tensor = Tensor::new("float32", dims);
        tensor.ori_format = Some("NCHW".into());
        let storage = |(dtype, format)| Storage::new(dtype, format);
        let path = conversions().path(&tensor, &storage(from), &storage(to))?;
        Some(path.iter().map(|step| format!("{} {}", step.to().format, step.to().dtype)).collect())
    }

    #[test]
    fn the_path_has_the_fewest_kernels_and_uses_known_conversions_only() {
        let (dims, plain) = ([1, 32, 8, 8], ("float32", "NCHW"));
        let blocked = ("float32", "NC1HWC0");
        assert_eq!(path_words(&dims, plain, plain).unwrap(), [""; 0]);
        assert_eq!(path_words(&dims, plain, ("float32", "ND")).unwrap(), ["ND float32"]);
        assert_eq!(path_words(&dims, plain, blocked).unwrap(), ["NC1HWC0 float32"]);
        assert_eq!(path_words(&dims, blocked, ("float32", "ND")).unwrap(), ["NCHW float32", "ND float32"]);
        assert_eq!(path_words(&dims, blocked, ("float16", "NC1HWC0")).unwrap(), ["NC1HWC0 float16"]);
        assert_eq!(path_words(&dims, blocked, ("float32", "FRACTAL_Z")).unwrap().len(), 2);
        // A cast to a narrower type is the first step, a cast to a wider type the last.
        let halves = ("float16", "NC1HWC0");
        assert_eq!(path_words(&dims, plain, halves).unwrap(), ["NCHW float16", "NC1HWC0 float16"]);
        assert_eq!(path_words(&dims, halves, plain).unwrap(), ["NCHW float16", "NCHW float32"]);
        // No `TransData` takes int8, and blocks of int8 have another size: the only cast is in a format without blocks.
        assert_eq!(
            path_words(&dims, ("float16", "NC1HWC0"), ("int8", "NCHW")).unwrap(),
            ["NCHW float16", "NCHW int8"]
        );
        assert_eq!(path_words(&dims, ("float16", "NC1HWC0"), ("int8", "NC1HWC0")), None);
        assert_eq!(path_words(&dims, plain, ("float32", "NHWC")), None);
        assert_eq!(path_words(&[4, 8], ("float32", "ND"), blocked), None);
        assert_eq!(
            path_words(&[8], ("float32", "ND"), blocked).unwrap(),
            ["NCHW float32", "NC1HWC0 float32"]
        );
    }
}
