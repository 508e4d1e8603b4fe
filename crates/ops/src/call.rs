//! An operator's tensors and attributes, as rules and code generators read them.

use opkeep_descriptor::{Arg, Attr, AttrValue, Op, Tensor};

use crate::{Conv2d, MatMul, OpSpec, OpsError, PortKind, Rule};

/// An operator applied to tensors: its row of the table, what stands at each input, its attributes.
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
    /// A position with another number of tensors than it takes, or an attribute that the operator does not have.
    pub fn new(
        spec: &'static OpSpec,
        inputs: Vec<Vec<&'a Tensor>>,
        attrs: &'a [Attr],
    ) -> Result<Self, OpsError> {
        let op_type = || spec.op_type.to_owned();
        if inputs.len() != spec.inputs.len() {
            let (expected, found) = (spec.inputs.len(), inputs.len());
            return Err(OpsError::Count { op_type: op_type(), what: "inputs", expected, found });
        }
        for (port, tensors) in spec.inputs.iter().zip(&inputs) {
            if !port.kind.takes(tensors.len()) {
                return Err(OpsError::Port {
                    op_type: op_type(),
                    what: "input",
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

    /// What `op` of a job applies to what.
    ///
    /// # Errors
    /// As [`Call::new`]; and an operator that the table does not have.
    pub fn of(op: &'a Op) -> Result<Self, OpsError> {
        let spec = OpSpec::of(op)?;
        let tensors = |arg: &'a Arg<_>| match arg {
            Arg::One(input) => vec![tensor_of(input)],
            Arg::Many(inputs) => inputs.iter().map(tensor_of).collect(),
            Arg::Absent(_) => Vec::new(),
        };
        let mut inputs: Vec<_> = op.inputs.iter().map(tensors).collect();
        // Descriptors may leave out optional inputs at the end.
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

    /// The tensor at a position that always has one; of a variadic one, the first.
    ///
    /// # Errors
    /// There is no such position, or nothing stands there.
    pub fn tensor(&self, at: usize) -> Result<&'a Tensor, OpsError> {
        self.optional(at).ok_or_else(|| OpsError::Count {
            op_type: self.op_type(),
            what: "inputs",
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

    /// The value of an input that the compiler needs.
    ///
    /// # Errors
    /// It is not constant, or not whole numbers.
    pub fn values(&self, at: usize) -> Result<Vec<i64>, OpsError> {
        let value = self.tensor(at)?.const_value.as_ref().and_then(|value| value.to_ints());
        let name = self.spec.inputs.get(at).map_or("?", |port| port.name);
        value.ok_or_else(|| OpsError::NotConstant { op_type: self.op_type(), name })
    }

    /// The one number of an input that the compiler needs.
    ///
    /// # Errors
    /// As [`values`](Self::values); or it is not one number.
    pub fn value(&self, at: usize) -> Result<i64, OpsError> {
        match self.values(at)?.as_slice() {
            [value] => Ok(*value),
            values => {
                let name = self.spec.inputs[at].name;
                Err(self.misfit(format!("input `{name}` must be one number, found {values:?}")))
            }
        }
    }

    /// Floating-point operations of a matrix product or a convolution: a multiplication and an addition for each tap.
    /// None for other operators, whose time is not in arithmetic.
    pub fn flops(&self) -> Option<u64> {
        let product = |dims: &[u64]| dims.iter().try_fold(2u64, |product, dim| product.checked_mul(*dim));
        match self.spec.rule {
            Rule::Conv2d => {
                let Conv2d { batch, groups, in_channels, out_channels, y, x, bias: _ } =
                    Conv2d::of(self).ok()?;
                let taps = [in_channels, y.kernel, x.kernel];
                product(&[&[batch, groups, out_channels, y.output, x.output], &taps[..]].concat())
            }
            Rule::MatMul => {
                let product_of = MatMul::of(self).ok()?;
                product(&[&product_of.batch[..], &[product_of.m, product_of.k, product_of.n]].concat())
            }
            _ => None,
        }
    }

    /// The attribute `name`: as given, or the default.
    ///
    /// # Errors
    /// Unknown, required but not given, or of another type.
    pub fn attr(&self, name: &str) -> Result<AttrValue, OpsError> {
        let Some(spec) = self.spec.attrs.iter().find(|spec| spec.name == name) else {
            return Err(OpsError::UnknownAttr {
                op_type: self.op_type(),
                attr: name.to_owned(),
                known: self.spec.attrs.iter().map(|spec| spec.name).collect(),
            });
        };
        let value = self.given().find(|attr| attr.name == name).map(|attr| &attr.value);
        match value {
            Some(value) if spec.takes(value) => Ok(value.clone()),
            Some(value) => Err(self.attr_type(spec.name, spec.type_name(), value)),
            None => {
                spec.default_value().ok_or(OpsError::MissingAttr { op_type: self.op_type(), attr: spec.name })
            }
        }
    }

    /// Every attribute, in the table's order.
    ///
    /// # Errors
    /// As [`attr`](Self::attr).
    pub(crate) fn every_attr(&self) -> Result<Vec<Attr>, OpsError> {
        let attr = |known: &crate::AttrSpec| {
            self.attr(known.name).map(|value| Attr::new(known.name, known.dtype(), value))
        };
        self.spec.attrs.iter().map(attr).collect()
    }

    /// A float attribute.
    ///
    /// # Errors
    /// As [`attr`](Self::attr).
    pub fn float(&self, name: &'static str) -> Result<f32, OpsError> {
        match self.attr(name)? {
            AttrValue::Float(value) => Ok(value.value() as f32),
            other => Err(self.attr_type(name, "a float", &other)),
        }
    }

    /// A whole-number attribute.
    ///
    /// # Errors
    /// As [`attr`](Self::attr).
    pub fn int(&self, name: &'static str) -> Result<i64, OpsError> {
        match self.attr(name)? {
            AttrValue::Int(value) => Ok(value),
            other => Err(self.attr_type(name, "a whole number", &other)),
        }
    }

    /// A list of whole numbers.
    ///
    /// # Errors
    /// As [`attr`](Self::attr).
    pub fn ints(&self, name: &'static str) -> Result<Vec<i64>, OpsError> {
        let value = self.attr(name)?;
        value.to_ints().ok_or_else(|| self.attr_type(name, "a list of whole numbers", &value))
    }

    /// A truth value.
    ///
    /// # Errors
    /// As [`attr`](Self::attr).
    pub fn boolean(&self, name: &'static str) -> Result<bool, OpsError> {
        match self.attr(name)? {
            AttrValue::Bool(value) => Ok(value),
            other => Err(self.attr_type(name, "true or false", &other)),
        }
    }

    /// A text.
    ///
    /// # Errors
    /// As [`attr`](Self::attr).
    pub fn text(&self, name: &'static str) -> Result<String, OpsError> {
        match self.attr(name)? {
            AttrValue::Str(value) => Ok(value),
            other => Err(self.attr_type(name, "a text", &other)),
        }
    }

    /// Something in this call that does not fit.
    pub(crate) fn misfit(&self, problem: impl Into<String>) -> OpsError {
        OpsError::Misfit { op_type: self.op_type(), problem: problem.into() }
    }

    /// An attribute whose value is none of those that it may have.
    pub(crate) fn attr_value(
        &self,
        attr: &'static str,
        expected: &'static str,
        found: impl std::fmt::Debug,
    ) -> OpsError {
        OpsError::AttrValue { op_type: self.op_type(), attr, expected, found: format!("{found:?}") }
    }

    pub(crate) fn op_type(&self) -> String {
        self.spec.op_type.to_owned()
    }

    fn attr_type(&self, attr: &'static str, expected: &'static str, found: &AttrValue) -> OpsError {
        OpsError::AttrType { op_type: self.op_type(), attr, expected, found: format!("{found:?}") }
    }

    /// The attributes that were given; `isRef` is a mark of the framework's, not an attribute.
    fn given(&self) -> impl Iterator<Item = &'a Attr> + use<'a> {
        self.attrs.iter().filter(|attr| attr.valid != Some(false) && attr.name != "isRef")
    }
}

fn tensor_of(input: &opkeep_descriptor::Input) -> &Tensor {
    &input.tensor
}
