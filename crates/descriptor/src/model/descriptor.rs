//! A descriptor: a job, its spec and its envelope.

use crate::model::job::Job;
use crate::model::metadata::Envelope;
use crate::model::spec::BuildSpec;

/// An operator's descriptor, in three parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Descriptor {
    /// What is computed.
    pub job: Job,
    /// For what it is built.
    pub spec: BuildSpec,
    /// Who asked.
    pub envelope: Envelope,
}
