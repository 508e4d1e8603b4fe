//! Requests to the engine.

use opkeep_descriptor::{BuildSpec, Descriptor, ForeignName};

/// An operator to be built.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The descriptor of the operator.
    pub descriptor: Descriptor,
    /// The spec for which the operator is built. It may differ from the descriptor's own.
    pub spec: BuildSpec,
}

impl Request {
    /// Creates a request for `descriptor` with the descriptor's own spec.
    pub fn new(descriptor: Descriptor) -> Self {
        Self { spec: descriptor.spec.clone(), descriptor }
    }

    /// Sets the spec for which the operator is built.
    #[must_use]
    pub fn with_spec(mut self, spec: BuildSpec) -> Self {
        self.spec = spec;
        self
    }

    /// Returns a name for messages: the node's name; if that is empty, the framework's kernel name; if that is empty
    /// too, the type of the first operator.
    pub fn name(&self) -> &str {
        let Descriptor { job, envelope, .. } = &self.descriptor;
        let op_type = job.ops.first().map_or("(empty)", |op| op.op_type.as_str());
        let names = [envelope.full_name.as_str(), envelope.fusion_op_name.as_str(), op_type];
        names.into_iter().find(|name| !name.is_empty()).unwrap_or("(nameless)")
    }

    /// Returns the name under which the framework that wrote the descriptor looks for the kernel; empty if there is
    /// none.
    ///
    /// The name is computed from the descriptor's fields: a descriptor that was changed after it was named still has
    /// the old kernel's name, and a framework would run the new kernel instead of the old one. The name in the
    /// descriptor is used only if names depend on more than the descriptor, or if their rule is unknown.
    pub(crate) fn framework_name(&self) -> String {
        let Descriptor { envelope, .. } = &self.descriptor;
        let borne = &envelope.fusion_op_name;
        let is_borne = envelope.generation.is_none()
            || matches!(ForeignName::parse(borne), Some(ForeignName::Cann { .. }));
        let computed = if is_borne { None } else { self.descriptor.kernel_meta_stem().ok() };
        computed.map_or_else(|| borne.clone(), |name| name.to_string())
    }
}
