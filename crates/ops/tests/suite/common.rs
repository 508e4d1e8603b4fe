//! Shared by the tests: inputs, and the outputs of an operator.

use opkeep_descriptor::{Attr, ConstValue, Tensor};
use opkeep_ops::{Call, OpsError, find};

/// Inputs of an operator, one list for each position.
pub(crate) type Inputs = Vec<Vec<Tensor>>;

/// Float tensors.
pub(crate) fn x(shape: &[i64]) -> Vec<Tensor> {
    vec![Tensor::new("float32", shape)]
}

/// A tensor of another type.
pub(crate) fn of(dtype: &str, shape: &[i64]) -> Vec<Tensor> {
    vec![Tensor::new(dtype, shape)]
}

/// A tensor whose value is known.
pub(crate) fn known(values: &[i64]) -> Vec<Tensor> {
    let mut tensor = Tensor::new("int64", [values.len() as i64]);
    tensor.const_value = Some(ConstValue::ints("int64", values));
    vec![tensor]
}

pub(crate) fn with<T>(
    op_type: &str,
    inputs: &Inputs,
    attrs: &[Attr],
    look: impl FnOnce(&Call<'_>) -> Result<T, OpsError>,
) -> Result<T, OpsError> {
    let inputs = inputs.iter().map(|tensors| tensors.iter().collect()).collect();
    look(&Call::new(find(op_type).unwrap(), inputs, attrs)?)
}

/// The outputs: element type and shape of each, with variadic ones expanded.
pub(crate) fn made(
    op_type: &str,
    inputs: Inputs,
    attrs: &[Attr],
) -> Result<Vec<(String, Vec<i64>)>, OpsError> {
    let outputs = with(op_type, &inputs, attrs, |call| call.infer())?;
    Ok(outputs.into_iter().flatten().map(|made| (made.dtype, made.shape)).collect())
}

/// The shape of the only output, of floats.
pub(crate) fn shape(op_type: &str, inputs: Inputs, attrs: &[Attr]) -> Vec<i64> {
    match made(op_type, inputs, attrs).as_deref() {
        Ok([(dtype, shape)]) if dtype == "float32" => shape.clone(),
        other => panic!("{op_type}: {other:?}"),
    }
}

/// The message of the misfit.
pub(crate) fn misfit(op_type: &str, inputs: Inputs, attrs: &[Attr]) -> String {
    match made(op_type, inputs, attrs) {
        Err(OpsError::Misfit { problem, .. }) => problem,
        other => panic!("{op_type}: {other:?}"),
    }
}

/// Whole numbers with unknown values.
pub(crate) fn of_unknown() -> Vec<Tensor> {
    of("int64", &[1])
}

/// Expects an error of one kind.
macro_rules! refused {
    ($made:expr, $kind:pat) => {
        match $made {
            Err($kind) => {}
            other => panic!("{other:?}"),
        }
    };
}

pub(crate) use refused;
