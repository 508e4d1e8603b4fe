//! The order in which kernels are built, the number of compilers that run at once, and the work that builds with `force`
//! share.
//!
//! A build ([`build`]) plans (it merges equal jobs and computes the keys), looks up all kernels, builds the missing ones,
//! and writes the view.
//!
//! - **Order** ([`build`], [`compile_times`]). The longest compiles begin first, by the compile times of kernels of the same
//!   operators on this machine. Processes that start together begin with different kernels: with those of the longest
//!   ones that may be compiled at once. So all processes together still build the longest first.
//! - **Retries** ([`queue`]). A kernel that another process builds is retried every 1 to 20 ms, after the kernels that no
//!   process builds: a thread never waits for a lock while there is other work.
//! - **Job tokens** ([`job_tokens`]) limit the number of compilers on this machine. A process requests a token while it
//!   holds the kernel's lock, and never requests a kernel's lock while it holds a token. So processes never wait for each
//!   other in a circle.
//! - **Heartbeats.** A lock holder that waits for a token sets the time of the lock file every second. The holder of a lock
//!   or a token is stale if it gives no heartbeat for longer than a compile may take (the compile timeout and a few
//!   seconds): then the kernel is compiled without the lock, and the token is replaced. The time since the last heartbeat
//!   decides, not the time since the waiter began to wait, since the holder itself may wait long for a token.
//! - **Other hosts.** While a thread polls a kernel that another host builds, this process keeps the kernel's lock on this
//!   host, so that one process calls the remote tier for all of them. While all threads compile, none polls, and the cache
//!   releases the lock after a second; the next poll takes it again.
//! - **File descriptors.** A waiter keeps the lock's file open only while all waiters' files, with those of kernels that
//!   other hosts build, are less than a fourth of the files that the process may have open. Beyond that it opens the file
//!   for each retry, and does not get the reason why a holder failed. If no file descriptor is available, a compile is
//!   retried for ten seconds. No more threads compile than there are descriptors for.
//! - **Force** ([`force_group`]). Builds with `force` that overlap in time form a group.
//!
//! While kernels compile, a thread compares the missing kernels with those in the store, to report the reasons of the misses: for at
//! most 200 ms, unless [`Config::explain_misses`](crate::Config::explain_misses) is set.
//! [`Engine::explain`](crate::Engine::explain) has no limit.

pub(crate) mod build;
pub(crate) mod compile_times;
pub(crate) mod force_group;
pub(crate) mod job_tokens;
pub(crate) mod queue;
pub(crate) mod remote_wait;
mod spread;
