//! Work that may turn out to be somebody else's at the moment: it is put back, others come first, and it is asked for
//! again every now and then. So a few threads wait for many things, and none of them waits while there is work.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The first pause between two times of asking, and the longest: so much for each thing that somebody else is at, between
/// these bounds. So asking takes a hundredth of a processor, however many there are, and the last ones are not waited
/// for in vain.
const FIRST: Duration = Duration::from_millis(1);
const LONGEST_EACH: Duration = Duration::from_micros(100);
const LONGEST: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(20));

/// What came of working on something.
pub(crate) enum Step<T, W> {
    /// It is done.
    Done(T),
    /// Somebody else is at it; this is to be asked again.
    Busy(W),
}

/// Who works.
#[derive(Clone, Copy)]
pub(crate) struct WorkerOptions {
    /// How many threads.
    pub(crate) threads: NonZeroUsize,
    /// How much less of the processor they ask for than the caller, 0 to 19; what they start asks for as little.
    pub(crate) niceness: u8,
}

/// Calls `work` with each of `items`, in that order, on up to so many threads, until all are done. Gives the results
/// with their items, in no order.
pub(crate) fn run_to_completion<T: Send, W: Send>(
    items: Vec<usize>,
    crew: WorkerOptions,
    work: impl Fn(usize, Option<W>) -> Step<T, W> + Sync,
) -> Vec<(usize, T)> {
    let threads = crew.threads.get().min(items.len());
    let queue = Queue::new(items);
    let run = || queue.run(&work);
    if threads <= 1 && crew.niceness == 0 {
        return run();
    }
    std::thread::scope(|scope| {
        let nice = || {
            // Of this thread alone, and of what it starts.
            let _ = rustix::process::nice(crew.niceness.into());
            run()
        };
        // Where no more threads are to be had, those there are do the work. The caller's own cannot be nice: it would
        // have to stay so.
        let helpers = if crew.niceness == 0 { 1..threads } else { 0..threads };
        let start = |_| std::thread::Builder::new().spawn_scoped(scope, nice).ok();
        let helpers: Vec<_> = helpers.map_while(start).collect();
        let mut done = if crew.niceness == 0 || helpers.is_empty() { run() } else { Vec::new() };
        for helper in helpers {
            match helper.join() {
                Ok(more) => done.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    })
}

struct Queue<W> {
    state: Mutex<KeyState<W>>,
    changed: Condvar,
}

struct KeyState<W> {
    fresh: VecDeque<usize>,
    busy: Vec<Busy<W>>,
    /// How many are being worked on: each may come back.
    running: usize,
    /// What others were at was asked for last; then it is the turn of something fresh.
    asked: bool,
    /// Somebody panicked: nothing more is begun, and the caller hears of it now and not when all else is done.
    stopped: bool,
}

/// Something that somebody else is at.
struct Busy<W> {
    item: usize,
    wait: W,
    pause: Duration,
    due: Instant,
}

/// What a thread does next.
enum Next<W> {
    Work {
        item: usize,
        wait: Option<W>,
        pause: Duration,
    },
    /// Nothing is due yet.
    Pause(Option<Duration>),
    End,
}

impl<W> Queue<W> {
    fn new(items: Vec<usize>) -> Self {
        let state =
            KeyState { fresh: items.into(), busy: Vec::new(), running: 0, asked: false, stopped: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn run<T>(&self, work: &(impl Fn(usize, Option<W>) -> Step<T, W> + Sync)) -> Vec<(usize, T)> {
        let mut done = Vec::new();
        while let Some((item, wait, pause)) = self.take() {
            let running = Running { queue: self };
            match work(item, wait) {
                Step::Done(result) => done.push((item, result)),
                Step::Busy(wait) => self.put_back(item, wait, pause),
            }
            drop(running);
        }
        done
    }

    /// The next thing to do; none when all is done.
    fn take(&self) -> Option<(usize, Option<W>, Duration)> {
        let mut state = self.locked();
        loop {
            match state.next(Instant::now()) {
                Next::Work { item, wait, pause } => return Some((item, wait, pause)),
                Next::End => return None,
                Next::Pause(None) => {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                Next::Pause(Some(pause)) => {
                    let woken = self.changed.wait_timeout(state, pause);
                    state = woken.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }

    fn put_back(&self, item: usize, wait: W, pause: Duration) {
        let mut state = self.locked();
        let others = u32::try_from(state.busy.len()).unwrap_or(u32::MAX);
        let longest = LONGEST_EACH.saturating_mul(others).clamp(LONGEST.0, LONGEST.1);
        let pause = (pause * 2).clamp(FIRST, longest);
        state.busy.push(Busy { item, wait, pause, due: Instant::now() + pause });
    }

    /// The state, also after a panic elsewhere: each change to it is whole.
    fn locked(&self) -> MutexGuard<'_, KeyState<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W> KeyState<W> {
    fn next(&mut self, now: Instant) -> Next<W> {
        if self.stopped {
            return Next::End;
        }
        // What others were at may be done by now: that costs little to know, but there may be much of it.
        let due = self.busy.iter().position(|busy| busy.due <= now);
        let is_its_turn = self.fresh.is_empty() || !self.asked;
        self.asked = due.is_some() && is_its_turn;
        if let Some(at) = due.filter(|_| is_its_turn) {
            let Busy { item, wait, pause, due: _ } = self.busy.swap_remove(at);
            self.running += 1;
            return Next::Work { item, wait: Some(wait), pause };
        }
        if let Some(item) = self.fresh.pop_front() {
            self.running += 1;
            return Next::Work { item, wait: None, pause: Duration::ZERO };
        }
        match self.busy.iter().map(|busy| busy.due).min() {
            Some(due) => Next::Pause(Some(due.saturating_duration_since(now))),
            None if self.running > 0 => Next::Pause(None),
            None => Next::End,
        }
    }
}

/// One that is being worked on; no longer when dropped, also by a panic.
struct Running<'a, W> {
    queue: &'a Queue<W>,
}

impl<W> Drop for Running<'_, W> {
    fn drop(&mut self) {
        let mut state = self.queue.locked();
        state.running -= 1;
        state.stopped |= std::thread::panicking();
        drop(state);
        self.queue.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn crew(threads: usize) -> WorkerOptions {
        WorkerOptions { threads: NonZeroUsize::new(threads).unwrap(), niceness: 0 }
    }

    #[test]
    fn everything_is_done_once_whatever_the_threads() {
        for threads in [1, 2, 9] {
            let mut done = run_to_completion((0..50).collect(), crew(threads), |item, _: Option<()>| {
                Step::Done(item * 2)
            });
            done.sort_unstable();
            assert_eq!(done, (0..50).map(|item| (item, item * 2)).collect::<Vec<_>>());
        }
        assert!(run_to_completion(Vec::new(), crew(3), |_, _: Option<()>| Step::Done(())).is_empty());
    }

    #[test]
    fn one_thread_goes_in_order_and_comes_back_to_what_was_busy() {
        let order = Mutex::new(Vec::new());
        let tries = AtomicUsize::new(0);
        let done = run_to_completion(vec![3, 1, 2], crew(1), |item, wait: Option<usize>| {
            order.lock().unwrap().push(item);
            // Item 3 is somebody else's for a while; what it waits by comes back.
            if item == 3 && wait.unwrap_or(0) < 3 {
                tries.fetch_add(1, Ordering::Relaxed);
                return Step::Busy(wait.unwrap_or(0) + 1);
            }
            Step::Done(wait)
        });
        assert_eq!(tries.into_inner(), 3);
        let order = order.into_inner().unwrap();
        assert_eq!((&order[..2], order.last()), (&[3, 1][..], Some(&3)));
        assert!(done.contains(&(3, Some(3))) && done.len() == 3, "{done:?}");
    }

    #[test]
    fn after_a_panic_nothing_more_is_begun() {
        let begun = AtomicUsize::new(0);
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            run_to_completion((0..400).collect(), crew(2), |item, wait: Option<()>| {
                begun.fetch_add(1, Ordering::Relaxed);
                assert_ne!(item, 0, "on purpose");
                // What is begun is brought to its end; and then the other thread has come to its own.
                std::thread::sleep(Duration::from_millis(20));
                // Those that somebody else is at are left as well.
                if item % 2 == 0 || wait.is_some() { Step::Done(()) } else { Step::Busy(()) }
            })
        }));
        assert!(caught.is_err());
        assert!(begun.into_inner() < 100);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_nobody_hangs() {
        let caught = std::panic::catch_unwind(|| {
            run_to_completion((0..20).collect(), crew(4), |item, _: Option<()>| {
                assert_ne!(item, 7, "on purpose");
                Step::Done(())
            })
        });
        assert!(caught.is_err());
    }
}
