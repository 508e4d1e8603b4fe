//! The operands of folding.

/// An operand: its elements in memory.
pub(super) struct Operand {
    pub(super) dtype: String,
    pub(super) shape: Vec<i64>,
    pub(super) bytes: Vec<u8>,
}

/// The index of each element of a tensor of shape `shape`, if one step along each dimension advances by the given
/// number of elements.
pub(super) fn places(shape: &[i64], steps: &[i64], start: i64) -> Vec<usize> {
    // The other dimensions of an empty tensor may have any size.
    let mut places = if shape.contains(&0) { Vec::new() } else { vec![start] };
    for (dim, step) in shape.iter().zip(steps) {
        places = places.iter().flat_map(|place| (0..*dim).map(move |at| place + at * step)).collect();
    }
    places.into_iter().map(|place| usize::try_from(place).unwrap_or_default()).collect()
}

/// The steps of a dense tensor.
pub(super) fn dense(shape: &[i64]) -> Vec<i64> {
    let mut steps = vec![1; shape.len()];
    for at in (1..shape.len()).rev() {
        steps[at - 1] = steps[at] * shape[at];
    }
    steps
}

/// The steps of a dense tensor that is broadcast to `rank` dimensions.
pub(super) fn broadcast(shape: &[i64], rank: usize) -> Vec<i64> {
    let steps = shape.iter().zip(dense(shape)).map(|(dim, step)| if *dim == 1 { 0 } else { step });
    std::iter::repeat_n(0, rank.saturating_sub(shape.len())).chain(steps).collect()
}
