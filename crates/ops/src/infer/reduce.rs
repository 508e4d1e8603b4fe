//! Operators over some of a tensor's axes: reductions, softmax, layer normalisation.

use crate::{Call, OpsError};

/// An axis of a tensor of `rank` dimensions, counted from the end if negative.
pub fn axis(axis: i64, rank: usize) -> Option<usize> {
    let rank = i64::try_from(rank).ok()?;
    let axis = if axis < 0 { axis + rank } else { axis };
    usize::try_from(axis).ok().filter(|_| axis < rank)
}

/// Axes, sorted; each at most once.
fn axes(call: &Call<'_>, given: &[i64], shape: &[i64]) -> Result<Vec<usize>, OpsError> {
    let found: Option<Vec<usize>> = given.iter().map(|given| axis(*given, shape.len())).collect();
    let mut found =
        found.ok_or_else(|| call.misfit(format!("axes {given:?} are not all those of {shape:?}")))?;
    found.sort_unstable();
    if found.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(call.misfit(format!("axes {given:?} name one axis of {shape:?} twice")));
    }
    Ok(found)
}

/// A reduction over some axes, for code generators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reduce {
    /// The input's dimensions.
    pub shape: Vec<u64>,
    /// The reduced axes, sorted.
    pub axes: Vec<usize>,
    /// Whether they stay as dimensions of size 1.
    pub keep: bool,
}

impl Reduce {
    /// The reduction that `call` describes: one of the `Reduce...` operators, or a softmax, which contains one.
    ///
    /// # Errors
    /// Axes that the input does not have.
    pub fn of(call: &Call<'_>) -> Result<Self, OpsError> {
        let shape = &call.tensor(0)?.shape;
        let reduces = call.spec().attrs.iter().any(|attr| attr.name == "keep_dims");
        let given = if reduces { call.values(1)? } else { call.ints("axes")? };
        let mut axes = axes(call, &given, shape)?;
        if reduces && axes.is_empty() && !call.boolean("noop_with_empty_axes")? {
            axes = (0..shape.len()).collect();
        }
        let keep = !reduces || call.boolean("keep_dims")?;
        Ok(Self { shape: shape.iter().map(|dim| dim.unsigned_abs()).collect(), axes, keep })
    }

    /// The shape of the result; one element if no dimension is left.
    pub fn output(&self) -> Vec<i64> {
        let dim = |(at, dim): (usize, &u64)| match (self.axes.contains(&at), self.keep) {
            (false, _) => Some(dim.cast_signed()),
            (true, true) => Some(1),
            (true, false) => None,
        };
        let output: Vec<i64> = self.shape.iter().enumerate().filter_map(dim).collect();
        if output.is_empty() { vec![1] } else { output }
    }
}

/// A `LayerNorm` for code generators: each of `rows` runs of `length` elements is normalised separately.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerNorm {
    /// The number of runs.
    pub rows: u64,
    /// Elements of a run, and of scale and offset.
    pub length: u64,
    /// The number that is added to the variance.
    pub epsilon: f32,
    /// The shape of mean and variance.
    pub statistics: Vec<i64>,
}

impl LayerNorm {
    /// The normalisation that `call` describes.
    ///
    /// # Errors
    /// Axes or parameters that do not fit the input.
    pub fn of(call: &Call<'_>) -> Result<Self, OpsError> {
        let shape = &call.tensor(0)?.shape;
        let begin = |name| {
            let begin = call.int(name)?;
            axis(begin, shape.len())
                .ok_or_else(|| call.misfit(format!("`{name}` {begin} is no axis of {shape:?}")))
        };
        let (norm, params) = (begin("begin_norm_axis")?, begin("begin_params_axis")?);
        if norm != params {
            return Err(call.misfit(format!(
                "`begin_norm_axis` {norm} and `begin_params_axis` {params} must be the same axis"
            )));
        }
        for at in [1, 2] {
            let (name, tensor) = (call.spec().inputs[at].name, call.tensor(at)?);
            if tensor.shape != shape[norm..] {
                let problem = format!("`{name}` has shape {:?}, expected {:?}", tensor.shape, &shape[norm..]);
                return Err(call.misfit(problem));
            }
        }
        let product = |dims: &[i64]| dims.iter().map(|dim| dim.unsigned_abs()).product();
        let mut statistics = shape.clone();
        statistics[norm..].fill(1);
        Ok(Self {
            rows: product(&shape[..norm]),
            length: product(&shape[norm..]),
            epsilon: call.float("epsilon")?,
            statistics,
        })
    }
}
