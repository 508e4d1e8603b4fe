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
    moves: BTreeSet<(String, String, String)>,
}

/// A step on the path from one storage to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Changes the name of the format only, without a kernel.
    Label(Storage),
    /// Changes the element type.
    Cast(Storage),
    /// Changes the format.
    Move(Storage),
}

impl Step {
    pub(crate) fn to(&self) -> &Storage {
        match self {
            Self::Label(to) | Self::Cast(to) | Self::Move(to) => to,
        }
    }
}

/// The number of steps that need a kernel.
pub(crate) fn kernels(path: &[Step]) -> usize {
    path.iter().filter(|step| !matches!(step, Step::Label(_))).count()
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
        let moves = pairs(TRANS_DATA)
            .into_iter()
            .filter_map(|(from, to)| Some((from.dtype?, from.format?, to.format?)));
        Self { casts: casts.collect(), moves: moves.collect() }
    }

    /// The path with the fewest kernels from `from` to `to`, two storages of `tensor`; empty if they are the same.
    pub(crate) fn path(&self, tensor: &Tensor, from: &Storage, to: &Storage) -> Option<Vec<Step>> {
        let mut waiting = VecDeque::from([(from.clone(), Vec::new())]);
        let mut seen = BTreeSet::new();
        while let Some((here, path)) = waiting.pop_front() {
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
                    Step::Label(_) => waiting.push_front(next),
                    _ => waiting.push_back(next),
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
        for format in BTreeSet::from(["ND", ordered, &to.format]) {
            let groups = if format == to.format { to.groups } else { 1 };
            let next = Storage { dtype: here.dtype.clone(), format: format.to_owned(), groups };
            if next.apply(tensor).is_err() || next.format == here.format && next.groups == here.groups {
                continue;
            }
            if is_plain(&next.format) && is_plain(&here.format) {
                steps.push(Step::Label(next));
            } else if self.moves.contains(&(next.dtype.clone(), here.format.clone(), next.format.clone())) {
                steps.push(Step::Move(next));
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
        let moves = ["NCHW NC1HWC0", "NC1HWC0 NCHW", "NCHW FRACTAL_Z", "FRACTAL_Z NCHW", "ND FRACTAL_NZ"];
        let moves = moves.iter().flat_map(|pair| {
            let pair = words(pair);
            let of = move |dtype: &str| (dtype.to_owned(), pair[0].clone(), pair[1].clone());
            [of("float16"), of("float32")]
        });
        let casts = casts.iter().map(|pair| (words(pair)[0].clone(), words(pair)[1].clone()));
        Conversions { casts: casts.collect(), moves: moves.collect() }
    }

    /// The path, as `format dtype` of each step.
    fn way(dims: &[i64], from: (&str, &str), to: (&str, &str)) -> Option<Vec<String>> {
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
        assert_eq!(way(&dims, plain, plain).unwrap(), [""; 0]);
        assert_eq!(way(&dims, plain, ("float32", "ND")).unwrap(), ["ND float32"]);
        assert_eq!(way(&dims, plain, blocked).unwrap(), ["NC1HWC0 float32"]);
        assert_eq!(way(&dims, blocked, ("float32", "ND")).unwrap(), ["NCHW float32", "ND float32"]);
        assert_eq!(way(&dims, blocked, ("float16", "NC1HWC0")).unwrap(), ["NC1HWC0 float16"]);
        assert_eq!(way(&dims, blocked, ("float32", "FRACTAL_Z")).unwrap().len(), 2);
        // A cast to a narrower type is the first step, a cast to a wider type the last.
        let halves = ("float16", "NC1HWC0");
        assert_eq!(way(&dims, plain, halves).unwrap(), ["NCHW float16", "NC1HWC0 float16"]);
        assert_eq!(way(&dims, halves, plain).unwrap(), ["NCHW float16", "NCHW float32"]);
        // No `TransData` takes int8, and blocks of int8 have another size: the only cast is in a format without blocks.
        assert_eq!(
            way(&dims, ("float16", "NC1HWC0"), ("int8", "NCHW")).unwrap(),
            ["NCHW float16", "NCHW int8"]
        );
        assert_eq!(way(&dims, ("float16", "NC1HWC0"), ("int8", "NC1HWC0")), None);
        assert_eq!(way(&dims, plain, ("float32", "NHWC")), None);
        assert_eq!(way(&[4, 8], ("float32", "ND"), blocked), None);
        assert_eq!(way(&[8], ("float32", "ND"), blocked).unwrap(), ["NCHW float32", "NC1HWC0 float32"]);
    }
}
