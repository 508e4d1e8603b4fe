//! The values of a call: of its attributes, and of inputs that must be constant.

use opkeep_descriptor::{Attr, AttrValue};

use super::Call;
use crate::OpsError;

impl Call<'_> {
    /// The value of an input that the compiler needs.
    ///
    /// # Errors
    /// It is not constant, or not whole numbers.
    pub fn values(&self, at: usize) -> Result<Vec<i64>, OpsError> {
        let value = self.tensor(at)?.const_value.as_ref().and_then(|value| value.to_ints());
        let name = self.spec.inputs.get(at).map_or("?", |port| port.name);
        value.ok_or_else(|| OpsError::NotConstant { op_type: self.op_type(), name })
    }

    /// The single number of an input that the compiler needs.
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

    /// The attribute `name`: its value or the default.
    ///
    /// # Errors
    /// It is unknown, required but unset, or of another type.
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

    /// The error for an attribute with a value that the operator does not have.
    pub(crate) fn attr_value(
        &self,
        attr: &'static str,
        expected: &'static str,
        found: impl std::fmt::Debug,
    ) -> OpsError {
        OpsError::AttrValue { op_type: self.op_type(), attr, expected, found: format!("{found:?}") }
    }

    fn attr_type(&self, attr: &'static str, expected: &'static str, found: &AttrValue) -> OpsError {
        OpsError::AttrType { op_type: self.op_type(), attr, expected, found: format!("{found:?}") }
    }
}
