//! The input and the output of a code generator.

use opkeep_backend::{BackendError, Unsupported};
use opkeep_descriptor::{Arg, Job, Op, Source, Tensor};
use opkeep_ops::{Call, OpsError, dtype_bytes};

/// About how many elements one block computes: small enough to spread over threads, large enough to be worth it.
pub(crate) const GRAIN: u64 = 32 * 1024;
/// The most blocks of a launch, the vendor's bound for `blockDim`.
pub(crate) const MAX_BLOCKS: u64 = 65_535;

/// The code of a kernel. In [`body`](Self::body) the kernel's arguments are in scope: `inputs`, `outputs`, `block`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Code {
    /// Types and functions that stand before the kernel's function.
    pub(crate) before: String,
    /// Statements of the kernel's function, indented by four.
    pub(crate) body: String,
    /// How many blocks a launch has; a function of the job alone.
    pub(crate) blocks: u64,
}

/// Which of the kernel's inputs each position of the operator reads: indices of `inputs`, one list a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Args(Vec<Vec<usize>>);

impl Args {
    /// The arguments of `op`, the only operator of `job`.
    ///
    /// # Errors
    /// An input that nothing feeds, or that something else feeds than it says.
    pub(crate) fn of(job: &Job, op: &Op) -> Result<Self, BackendError> {
        let refuse = |problem: String| {
            BackendError::from(Unsupported::Other { backend: "cpu", op_type: op.op_type.clone(), problem })
        };
        let argument = |at: usize, tensor: &Tensor, source: Source| {
            let Source::Data { data, tensor: nth } = source else {
                return Err(refuse("one of its inputs is fed by nothing in the descriptor".to_owned()));
            };
            // A launch checks buffers against the data, and the C reads them as the operator says: both must agree.
            let tensors_of =
                |data: usize| job.data.get(data).map(|data| data.outputs.iter().flat_map(Arg::iter));
            let fed = tensors_of(data).and_then(|mut tensors| tensors.nth(nth));
            if fed.is_none_or(|fed| (&fed.dtype, &fed.shape) != (&tensor.dtype, &tensor.shape)) {
                let show = |tensor: &Tensor| format!("{} {:?}", tensor.dtype, tensor.shape);
                let (takes, fed) = (show(tensor), fed.map_or("nothing".to_owned(), show));
                return Err(refuse(format!("its input {at} is {takes}, but what feeds it is {fed}")));
            }
            let before = (0..data).filter_map(tensors_of).map(Iterator::count).sum::<usize>();
            Ok(before + nth)
        };
        let position = |(at, arg): (usize, &Arg<opkeep_descriptor::Input>)| {
            arg.iter().map(|input| argument(at, &input.tensor, input.source)).collect()
        };
        op.inputs.iter().enumerate().map(position).collect::<Result<_, _>>().map(Self)
    }

    /// The argument at a position that has one tensor; `None` for an optional one that is not given.
    pub(crate) fn at(&self, position: usize) -> Option<usize> {
        self.0.get(position)?.first().copied()
    }

    /// The arguments at a variadic position.
    pub(crate) fn group(&self, position: usize) -> &[usize] {
        self.0.get(position).map_or(&[], Vec::as_slice)
    }
}

/// A refusal on behalf of the operator of `call`.
pub(crate) fn refused(call: &Call<'_>, problem: impl Into<String>) -> BackendError {
    let op_type = call.spec().op_type.to_owned();
    Unsupported::Other { backend: "cpu", op_type, problem: problem.into() }.into()
}

/// An operator that does not fit the table after all.
pub(crate) fn invalid(error: OpsError) -> BackendError {
    Unsupported::Invalid(error).into()
}

/// How many of `items` one block takes, each of them worth `work` elements; at most [`MAX_BLOCKS`] blocks are needed.
pub(crate) fn per_block(items: u64, work: u64) -> u64 {
    (GRAIN / work.max(1)).max(items.div_ceil(MAX_BLOCKS)).max(1)
}

/// The argument at a position that has one tensor.
pub(crate) fn argument(call: &Call<'_>, args: &Args, position: usize) -> Result<usize, BackendError> {
    args.at(position).ok_or_else(|| refused(call, format!("nothing feeds its input {position}")))
}

/// The C type of elements of type `dtype` that are computed with.
pub(crate) fn c_type(dtype: &str) -> Option<&'static str> {
    Some(match dtype {
        "float32" => "float",
        "float64" => "double",
        "bool" | "uint8" => "unsigned char",
        "int8" => "signed char",
        "uint16" => "unsigned short",
        "int16" => "short",
        "uint32" => "unsigned int",
        "int32" => "int",
        "uint64" => "unsigned long",
        "int64" => "long",
        _ => return None,
    })
}

/// The C type of elements that are moved and not looked at: it has their size.
pub(crate) fn word(dtype: &str) -> Option<&'static str> {
    Some(match dtype_bytes(dtype)? {
        1 => "unsigned char",
        2 => "unsigned short",
        4 => "unsigned int",
        8 => "unsigned long",
        _ => return None,
    })
}

/// The C type of elements that `call` moves.
pub(crate) fn word_of(call: &Call<'_>, tensor: &Tensor) -> Result<&'static str, BackendError> {
    word(&tensor.dtype).ok_or_else(|| refused(call, format!("{} is no size that it moves", tensor.dtype)))
}

/// Whether the C text `text` names `word`.
pub(crate) fn mentions(text: &str, word: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(part) && !text[at + word.len()..].starts_with(part))
}

/// Definitions of geometry values, for [`Code::before`].
pub(crate) fn constants(values: &[(&str, u64)]) -> String {
    let one = |(name, value): &(&str, u64)| format!("static const unsigned long {name} = {value}ul;\n");
    values.iter().map(one).chain(["\n".to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_whole() {
        assert!(mentions("a + block;", "block"));
        assert!(!mentions("a + blocks + per_block", "block"));
        assert!(mentions("x", "x") && !mentions("max_f(y)", "x"));
    }

    #[test]
    fn blocks_are_few_enough() {
        assert_eq!(per_block(10, 1), GRAIN);
        assert_eq!(per_block(10, 2 * GRAIN), 1);
        assert_eq!(per_block(0, 0), GRAIN);
        for items in [MAX_BLOCKS * 3 + 1, 1 << 48] {
            assert!(items.div_ceil(per_block(items, 1 << 40)) <= MAX_BLOCKS);
        }
    }
}
