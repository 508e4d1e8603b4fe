//! A descriptor: a job, its spec and its envelope.

use crate::model::job::Job;
use crate::model::metadata::Envelope;
use crate::model::spec::BuildSpec;

/// An operator's descriptor, in three parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Descriptor {
    /// The computation.
    pub job: Job,
    /// The target and options.
    pub spec: BuildSpec,
    /// The metadata of the request.
    pub envelope: Envelope,
}
