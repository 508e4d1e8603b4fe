//! Building a whole network.

use opkeep_backend::{Context, Loader};
use opkeep_descriptor::{BuildSpec, Descriptor, Envelope};
use opkeep_ops::Graph;

use crate::network::session::{RunError, Session};
use crate::{BuildError, BuildReport, Engine, FileDigestCache, Request};

/// A network and the report of its build.
#[derive(Debug)]
#[non_exhaustive]
pub struct BuiltNetwork {
    /// The network as the backend rewrote it.
    pub graph: Graph,
    /// The report of the build; request `i` of the report is node `i` of the graph.
    pub report: BuildReport,
}

/// Returns one request for each node of `graph`, in order.
pub fn requests(graph: &Graph, spec: &BuildSpec) -> Vec<Request> {
    let request = |(name, job)| {
        let envelope =
            Envelope { full_name: name, graph_name: graph.name().to_owned(), ..Envelope::default() };
        Request::new(Descriptor { job, spec: spec.clone(), envelope })
    };
    graph.jobs().into_iter().map(request).collect()
}

impl Engine {
    /// Returns the network that is built for `spec`: `graph`, rewritten by the backend.
    ///
    /// # Errors
    /// The target does not support the network or an option.
    pub fn prepare(&self, graph: Graph, spec: &BuildSpec) -> Result<Graph, BuildError> {
        let (digests, setup) = (FileDigestCache::default(), &self.state.setup);
        let cx = Context::new(&digests, &self.cancel, &*setup.backend_warnings);
        let spec = setup.backend.resolve(&cx, spec)?;
        Ok(setup.backend.rewrite_graph(&cx, graph, &spec)?)
    }

    /// Builds every operator of `graph` for `spec`.
    ///
    /// # Errors
    /// No kernel could be built at all. The failure of a single kernel is in the report.
    pub fn build_network(&self, graph: Graph, spec: &BuildSpec) -> Result<BuiltNetwork, BuildError> {
        let graph = self.prepare(graph, spec)?;
        let report = self.build(&requests(&graph, spec))?;
        Ok(BuiltNetwork { graph, report })
    }
}

impl BuiltNetwork {
    /// Loads the network, so that it can be run.
    ///
    /// # Errors
    /// A kernel was not built or cannot be loaded, or a constant cannot be read.
    pub fn load(&self, loader: &dyn Loader) -> Result<Session<'_>, RunError> {
        Session::new(&self.graph, &self.report, loader)
    }
}
