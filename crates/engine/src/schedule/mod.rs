//! In which order kernels are built, how many compilers run at once, and how builds that force share the work.
//!
//! A build ([`build`]) plans (equal jobs merged, keys computed), looks everything up, builds what is missing, and
//! writes the view.
//!
//! - **Order** ([`build`], [`compile_times`]). Missing kernels are begun longest first, by the compile times of kernels
//!   of the same operators on this machine. Cold processes do not begin at random places: each begins at another one of
//!   the longest kernels, of which there are as many as compilers may run at once, so that all processes together still
//!   build the longest first.
//! - **Retries** ([`queue`]). A kernel that another process builds is put back and retried every 1 to 20 ms, after the
//!   kernels that no process builds: a thread never waits for a lock while there is work.
//! - **Job tokens** ([`job_tokens`]) limit how many compilers run on this machine. A token is requested with the
//!   kernel's lock held. No process requests a kernel's lock with a token in hand, so that processes that wait for each
//!   other form no ring.
//! - **Heartbeats.** A lock holder that waits for a token touches the lock file every second. A holder of a lock or of
//!   a token without a heartbeat for longer than a compile may take (its deadline, and a little) is stale: its kernel
//!   is compiled without the lock, its token is replaced. The timeout runs from the last heartbeat and not from the
//!   time when the waiter began to wait, since the holder itself may wait long for a token.
//! - **Other hosts.** A kernel that another host builds keeps its lock on this host while a thread polls it, so that one
//!   process asks the remote tier for all of them. When all threads compile, the pending kernels are parked: their locks
//!   are released, and the next poll takes them again.
//! - **File descriptors.** A waiter keeps the lock's file open only while the waiters' files, those of kernels that other
//!   hosts build included, are less than a fourth of what the process may have open. Above that it opens the file for each retry, and does not learn why a holder
//!   failed. Where no file descriptor is available, a compile is retried for ten seconds, and no more threads compile
//!   than there are descriptors for.
//! - **Force** ([`force_group`]). Builds with `force` that overlap in time are a group.
//!
//! While kernels compile, a thread compares the missing kernels with those in the store, for at most 200 ms, to report
//! why they were missing. An explanation takes all the time that it needs.

mod build;
pub(crate) mod compile_times;
pub(crate) mod force_group;
pub(crate) mod job_tokens;
pub(crate) mod queue;
