//! Errors that come from a momentary lack of resources.

use std::error::Error;
use std::io;
use std::sync::Arc;

use rustix::io::Errno;

const SHORT: [Errno; 7] =
    [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOSPC, Errno::DQUOT, Errno::AGAIN, Errno::INTR];

/// Whether an error, or a cause of it, reports a momentary lack of a resource (open files, memory, disk space) and not
/// a property of the host.
pub fn is_short_of_resources(error: &io::Error) -> bool {
    let is_short =
        |error: &io::Error| Errno::from_io_error(error).is_some_and(|errno| SHORT.contains(&errno));
    let inner = error.get_ref().map(|inner| inner as &(dyn Error + 'static));
    let causes = std::iter::successors(inner, |cause| (*cause).source());
    is_short(error)
        || causes
            .filter_map(|cause| cause.downcast_ref().or_else(|| cause.downcast_ref().map(Arc::as_ref)))
            .any(is_short)
}
