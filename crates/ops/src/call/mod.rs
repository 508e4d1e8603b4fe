//! An operator applied to tensors, as rules and code generators read it: [`Call`].

mod args;

use opkeep_descriptor::{Arg, Attr, Op, Tensor};

use crate::{OpSpec, OpsError, PortKind};

/// An operator applied to tensors: its row of the table, the tensors at each input, its attributes.
///
/// Accessors by number follow the order of [`OpSpec::inputs`]; those by name, [`OpSpec::attrs`].
#[derive(Clone, Debug)]
pub struct Call<'a> {
    spec: &'static OpSpec,
    inputs: Vec<Vec<&'a Tensor>>,
    attrs: &'a [Attr],
}

impl<'a> Call<'a> {
    /// `spec` applied to `inputs`, one list a position.
    ///
    /// # Errors
    /// A position with an unexpected number of tensors, or an attribute that the operator does not have.
    pub fn new(
        spec: &'static OpSpec,
        inputs: Vec<Vec<&'a Tensor>>,
        attrs: &'a [Attr],
    ) -> Result<Self, OpsError> {
        let op_type = || spec.op_type.to_owned();
        if inputs.len() != spec.inputs.len() {
            let (expected, found) = (spec.inputs.len(), inputs.len());
            return Err(OpsError::Count { op_type: op_type(), ports: "inputs", expected, found });
        }
        for (port, tensors) in spec.inputs.iter().zip(&inputs) {
            if !port.kind.takes(tensors.len()) {
                return Err(OpsError::Port {
                    op_type: op_type(),
                    port: "input",
                    name: port.name,
                    expected: port.kind.expected(),
                    found: tensors.len(),
                });
            }
        }
        let call = Self { spec, inputs, attrs };
        if let Some(unknown) =
            call.given().find(|attr| spec.attrs.iter().all(|known| known.name != attr.name))
        {
            return Err(OpsError::UnknownAttr {
                op_type: op_type(),
                attr: unknown.name.clone(),
                known: spec.attrs.iter().map(|spec| spec.name).collect(),
            });
        }
        spec.attrs.iter().try_for_each(|attr| call.attr(attr.name).map(drop))?;
        Ok(call)
    }

    /// The call that `op` of a job makes.
    ///
    /// # Errors
    /// As [`Call::new`]; also for an operator that is not in the table.
    pub fn of(op: &'a Op) -> Result<Self, OpsError> {
        let spec = OpSpec::of(op)?;
        let tensors = |arg: &'a Arg<_>| match arg {
            Arg::One(input) => vec![tensor_of(input)],
            Arg::Many(inputs) => inputs.iter().map(tensor_of).collect(),
            Arg::Absent(_) => Vec::new(),
        };
        let mut inputs: Vec<_> = op.inputs.iter().map(tensors).collect();
        // Descriptors may omit optional inputs at the end.
        let optional = |kind| matches!(kind, PortKind::Optional | PortKind::OptionalValue);
        while spec.inputs.get(inputs.len()).is_some_and(|port| optional(port.kind)) {
            inputs.push(Vec::new());
        }
        Self::new(spec, inputs, op.attrs.as_deref().unwrap_or_default())
    }

    /// The operator's row of the table.
    pub fn spec(&self) -> &'static OpSpec {
        self.spec
    }

    /// The tensors at each position.
    pub fn inputs(&self) -> &[Vec<&'a Tensor>] {
        &self.inputs
    }

    /// The tensor at a position that always has one; at a variadic position, the first.
    ///
    /// # Errors
    /// There is no such position, or it is empty.
    pub fn tensor(&self, at: usize) -> Result<&'a Tensor, OpsError> {
        self.optional(at).ok_or_else(|| OpsError::Count {
            op_type: self.op_type(),
            ports: "inputs",
            expected: self.spec.inputs.len(),
            found: at,
        })
    }

    /// The tensor at an optional position.
    pub fn optional(&self, at: usize) -> Option<&'a Tensor> {
        self.inputs.get(at)?.first().copied()
    }

    /// The tensors at a variadic position.
    pub fn group(&self, at: usize) -> &[&'a Tensor] {
        self.inputs.get(at).map_or(&[], Vec::as_slice)
    }

    /// The error for parts of this call that do not fit each other.
    pub(crate) fn misfit(&self, problem: impl Into<String>) -> OpsError {
        OpsError::Misfit { op_type: self.op_type(), problem: problem.into() }
    }

    pub(crate) fn op_type(&self) -> String {
        self.spec.op_type.to_owned()
    }

    /// The attributes that are set. `isRef` is a mark of the framework, not an attribute.
    fn given(&self) -> impl Iterator<Item = &'a Attr> + use<'a> {
        self.attrs.iter().filter(|attr| attr.valid != Some(false) && attr.name != "isRef")
    }
}

fn tensor_of(input: &opkeep_descriptor::Input) -> &Tensor {
    &input.tensor
}
