//! Python processes that import the toolkit once and serve many requests.

pub(crate) mod frame;
pub(crate) mod op_query;
pub(crate) mod op_query_cache;
pub(crate) mod pool;
