//! The addresses of a host. The system's resolver has no deadline and cannot be cancelled, so it runs in a thread of its own,
//! which is left behind if it does not answer in time.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

use opkeep_cache::{RemoteContext, RemoteError};

use super::limits::{check, next_wait};
use crate::left_behind::{CallerSide, LeftBehind};
use crate::url::Host;

/// Returns the addresses of a host; it may block.
type LookUp = dyn Fn(&Host) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// Gets what a thread found.
type Answers = mpsc::Receiver<io::Result<Vec<SocketAddr>>>;

pub(super) struct Resolver {
    look_up: Arc<LookUp>,
    left_behind: LeftBehind,
}

impl Resolver {
    /// The system's resolver.
    pub(super) fn system() -> Self {
        Self::new(|host| Ok((host.name.as_str(), host.port).to_socket_addrs()?.collect()))
    }

    fn new(look_up: impl Fn(&Host) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static) -> Self {
        Self { look_up: Arc::new(look_up), left_behind: LeftBehind::default() }
    }

    /// Returns the addresses of `host`, at least one.
    pub(super) fn resolve(
        &self,
        host: &Host,
        context: &RemoteContext<'_>,
    ) -> Result<Vec<SocketAddr>, RemoteError> {
        check(context)?;
        if let Ok(address) = host.name.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, host.port)]);
        }
        let unreachable = |reason| RemoteError::Unreachable { reason };
        let (answers, _caller_side) = self.begin(host).map_err(unreachable)?;
        loop {
            match answers.recv_timeout(next_wait(context)?) {
                Ok(Ok(addresses)) if addresses.is_empty() => {
                    return Err(unreachable(format!("`{}` has no address", host.name)));
                }
                Ok(Ok(addresses)) => {
                    context.note_progress();
                    return Ok(addresses);
                }
                Ok(Err(error)) => return Err(unreachable(format!("`{}`: {error}", host.name))),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(unreachable(format!("the resolver gave no answer for `{}`", host.name)));
                }
            }
        }
    }

    /// Starts a thread that sends the addresses. The error is the reason why there is none.
    fn begin(&self, host: &Host) -> Result<(Answers, CallerSide), String> {
        if self.left_behind.are_too_many() {
            return Err(format!("the resolver gives no answer for `{}`", host.name));
        }
        let (thread_side, caller_side) = self.left_behind.begin();
        let (sender, answers) = mpsc::channel();
        let (look_up, host) = (Arc::clone(&self.look_up), host.clone());
        let work = move || {
            let addresses = look_up(&host);
            drop(thread_side);
            // The caller may have left.
            let _ = sender.send(addresses);
        };
        let thread = thread::Builder::new().name("opkeep-resolver".to_owned()).spawn(work);
        thread.map_err(|error| format!("cannot start a thread for the resolver: {error}"))?;
        Ok((answers, caller_side))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::{Condvar, Mutex};
    use std::time::{Duration, Instant};

    use opkeep_cache::CancelToken;

    use super::*;
    use crate::left_behind::MAX_LEFT_BEHIND;

    fn host(name: &str) -> Host {
        Host { name: name.to_owned(), port: 7 }
    }

    fn context(limit: Duration) -> RemoteContext<'static> {
        RemoteContext::new(Instant::now() + limit, None)
    }

    /// A resolver that answers when the gate opens.
    fn blocked() -> (Resolver, Arc<(Mutex<bool>, Condvar)>) {
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let own = Arc::clone(&gate);
        let resolver = Resolver::new(move |host| {
            let open = own.0.lock().unwrap();
            drop(own.1.wait_while(open, |open| !*open).unwrap());
            Ok(vec![SocketAddr::from(([127, 0, 0, 1], host.port))])
        });
        (resolver, gate)
    }

    fn open(gate: &(Mutex<bool>, Condvar)) {
        *gate.0.lock().unwrap() = true;
        gate.1.notify_all();
    }

    #[test]
    fn a_resolver_that_hangs_ends_no_later_than_the_call() {
        let (resolver, gate) = blocked();
        let began = Instant::now();
        let answer = resolver.resolve(&host("name"), &context(Duration::from_millis(120)));
        assert_eq!(answer, Err(RemoteError::TimedOut));
        assert!(began.elapsed() < Duration::from_secs(5));
        open(&gate);
        let answer = resolver.resolve(&host("name"), &context(Duration::from_secs(60)));
        assert_eq!(answer, Ok(vec![SocketAddr::from(([127, 0, 0, 1], 7))]));
    }

    #[test]
    fn a_cancelled_call_leaves_the_resolver() {
        let (resolver, gate) = blocked();
        let cancel = CancelToken::new();
        thread::scope(|scope| {
            let context = RemoteContext::new(Instant::now() + Duration::from_secs(600), Some(&cancel));
            let call = scope.spawn(move || {
                let answer = resolver.resolve(&host("name"), &context);
                (answer, resolver)
            });
            cancel.cancel();
            assert_eq!(call.join().unwrap().0, Err(RemoteError::Cancelled));
        });
        open(&gate);
    }

    #[test]
    fn a_resolver_that_hangs_collects_a_bounded_number_of_threads() {
        let (resolver, gate) = blocked();
        for _ in 0..MAX_LEFT_BEHIND {
            let answer = resolver.resolve(&host("name"), &context(Duration::from_millis(1)));
            assert_eq!(answer, Err(RemoteError::TimedOut));
        }
        let answer = resolver.resolve(&host("name"), &context(Duration::from_secs(600)));
        assert!(matches!(answer, Err(RemoteError::Unreachable { .. })), "{answer:?}");
        open(&gate);
        while resolver.left_behind.count() > 0 {
            thread::yield_now();
        }
        assert!(resolver.resolve(&host("name"), &context(Duration::from_secs(600))).is_ok());
    }

    /// A machine with many processors opens as many connections at once.
    #[test]
    fn look_ups_that_are_awaited_have_no_limit() {
        const COUNT: usize = 64;
        let begun = Arc::new(AtomicUsize::new(0));
        let is_over = Arc::new(AtomicBool::new(false));
        let (counted, ends) = (Arc::clone(&begun), Arc::clone(&is_over));
        let resolver = Resolver::new(move |host| {
            counted.fetch_add(1, Ordering::SeqCst);
            while counted.load(Ordering::SeqCst) < COUNT && !ends.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            Ok(vec![SocketAddr::from(([127, 0, 0, 1], host.port))])
        });
        let answers: Vec<_> = thread::scope(|scope| {
            let call = |_| {
                scope.spawn(|| {
                    let answer = resolver.resolve(&host("name"), &context(Duration::from_secs(60)));
                    // The others need not wait for one that failed.
                    is_over.fetch_or(answer.is_err(), Ordering::SeqCst);
                    answer.map(drop)
                })
            };
            let callers: Vec<_> = (0..COUNT).map(call).collect();
            callers.into_iter().map(|caller| caller.join().unwrap()).collect()
        });
        assert_eq!(answers, vec![Ok(()); COUNT]);
    }

    #[test]
    fn failures_name_the_host() {
        let failing = Resolver::new(|_| Err(io::Error::other("no such name")));
        let empty = Resolver::new(|_| Ok(Vec::new()));
        let panicking = Resolver::new(|_| panic!("a look-up that panics"));
        for resolver in [failing, empty, panicking] {
            match resolver.resolve(&host("some.name"), &context(Duration::from_secs(600))) {
                Err(RemoteError::Unreachable { reason }) => assert!(reason.contains("some.name"), "{reason}"),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn an_address_needs_no_resolver() {
        let resolver = Resolver::new(|_| panic!("an address was looked up"));
        let answer = resolver.resolve(&host("::1"), &context(Duration::from_secs(60)));
        assert_eq!(answer, Ok(vec!["[::1]:7".parse().unwrap()]));
    }
}
