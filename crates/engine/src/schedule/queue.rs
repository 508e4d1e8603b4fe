//! A queue of tasks that another process may be working on. Such a task is tried again later, after the others, so a few
//! threads wait for many tasks, and none of them waits while there is work. The order is the caller's.
//!
//! A pending task may keep other processes waiting. When all threads are busy for long, none polls: the pending tasks are
//! parked.

use std::cell::Cell;
use std::collections::VecDeque;
use std::mem;
use std::num::NonZeroUsize;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The first pause between two polls of a task, and the longest: 100 us for each pending task, within these bounds. So
/// polling takes a hundredth of a processor, however many tasks are pending, and the last ones are noticed soon.
const FIRST: Duration = Duration::from_millis(1);
const LONGEST_EACH: Duration = Duration::from_micros(100);
const LONGEST: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(20));

/// The result of one attempt at a task.
pub(crate) enum TaskPoll<T, W> {
    /// The task is done.
    Ready(T),
    /// Another process works on it. The next attempt takes this value.
    Pending(W),
}

/// The threads that work.
#[derive(Clone, Copy)]
pub(crate) struct WorkerOptions {
    /// Their number.
    pub(crate) threads: NonZeroUsize,
    /// By how much their priority is below the caller's, 0 to 19. Their children inherit it.
    pub(crate) nice: u8,
}

/// Calls `work` with each of `items`, in that order, until all are done. Returns the results with their items, in no
/// order. `work` calls its last argument before it takes long; `park` prepares a pending task for not being polled soon.
pub(crate) fn run_to_completion<T: Send, W: Send>(
    items: Vec<usize>,
    options: WorkerOptions,
    park: impl Fn(&mut W) + Sync,
    work: impl Fn(usize, Option<W>, &dyn Fn()) -> TaskPoll<T, W> + Sync,
) -> Vec<(usize, T)> {
    let threads = options.threads.get().min(items.len());
    let queue = Queue::new(items);
    let run = || queue.run(&park, &work);
    if threads <= 1 && options.nice == 0 {
        return run();
    }
    std::thread::scope(|scope| {
        let nice = || {
            // The priority of this thread and of its children.
            let _ = rustix::process::nice(options.nice.into());
            run()
        };
        // If no more threads can be started, those that run do the work. The caller's thread keeps its priority: it could
        // not raise it again.
        let helpers = if options.nice == 0 { 1..threads } else { 0..threads };
        let start = |_| std::thread::Builder::new().spawn_scoped(scope, nice).ok();
        let helpers: Vec<_> = helpers.map_while(start).collect();
        let mut done = if options.nice == 0 || helpers.is_empty() { run() } else { Vec::new() };
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
    state: Mutex<QueueState<W>>,
    changed: Condvar,
}

struct QueueState<W> {
    fresh: VecDeque<usize>,
    busy: Vec<Busy<W>>,
    /// How many tasks are being worked on. Each may come back.
    running: usize,
    /// How many threads there are, and how many of them take long.
    threads: usize,
    occupied: usize,
    /// The last task was a pending one; the next is a fresh one.
    asked: bool,
    /// A thread panicked: no more tasks are begun, so that the panic reaches the caller soon.
    stopped: bool,
}

/// A task that another process works on.
struct Busy<W> {
    item: usize,
    wait: W,
    pause: Duration,
    due: Instant,
}

/// The next step of a thread.
enum Next<W> {
    Work {
        item: usize,
        wait: Option<W>,
        pause: Duration,
    },
    /// No task is due yet.
    Pause(Option<Duration>),
    End,
}

impl<W> Queue<W> {
    fn new(items: Vec<usize>) -> Self {
        let state = QueueState {
            fresh: items.into(),
            busy: Vec::new(),
            running: 0,
            threads: 0,
            occupied: 0,
            asked: false,
            stopped: false,
        };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn run<T>(
        &self,
        park: &impl Fn(&mut W),
        work: &impl Fn(usize, Option<W>, &dyn Fn()) -> TaskPoll<T, W>,
    ) -> Vec<(usize, T)> {
        self.locked().threads += 1;
        let mut done = Vec::new();
        while let Some((item, wait, pause)) = self.take() {
            let running = Running { queue: self, is_occupied: Cell::new(false) };
            match work(item, wait, &|| running.occupy(park)) {
                TaskPoll::Ready(result) => done.push((item, result)),
                TaskPoll::Pending(wait) => self.put_back(item, wait, pause),
            }
            drop(running);
        }
        self.locked().threads -= 1;
        done
    }

    /// The next task; none when all are done.
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

    /// The state. A panic elsewhere leaves it consistent.
    fn locked(&self) -> MutexGuard<'_, QueueState<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W> QueueState<W> {
    fn next(&mut self, now: Instant) -> Next<W> {
        if self.stopped {
            return Next::End;
        }
        // A pending task may be done by now. One poll costs little, but many may be pending.
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

/// A task that is being worked on, until this is dropped.
struct Running<'a, W> {
    queue: &'a Queue<W>,
    is_occupied: Cell<bool>,
}

impl<W> Running<'_, W> {
    /// Notes that this thread takes long from now on. If all do, the pending tasks are parked.
    fn occupy(&self, park: &impl Fn(&mut W)) {
        let mut state = self.queue.locked();
        state.occupied += usize::from(!self.is_occupied.replace(true));
        if state.occupied < state.threads {
            return;
        }
        // Parking takes its time, which no other thread waits for. This task is running, so none ends meanwhile.
        let mut busy = mem::take(&mut state.busy);
        drop(state);
        busy.iter_mut().for_each(|busy| park(&mut busy.wait));
        self.queue.locked().busy.append(&mut busy);
        self.queue.changed.notify_all();
    }
}

impl<W> Drop for Running<'_, W> {
    fn drop(&mut self) {
        let mut state = self.queue.locked();
        state.running -= 1;
        state.occupied -= usize::from(self.is_occupied.get());
        state.stopped |= std::thread::panicking();
        drop(state);
        self.queue.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn options(threads: usize) -> WorkerOptions {
        WorkerOptions { threads: NonZeroUsize::new(threads).unwrap(), nice: 0 }
    }

    /// Runs tasks that are not parked.
    fn run<T: Send, W: Send>(
        items: Vec<usize>,
        options: WorkerOptions,
        work: impl Fn(usize, Option<W>) -> TaskPoll<T, W> + Sync,
    ) -> Vec<(usize, T)> {
        run_to_completion(items, options, |_| {}, |item, wait, _| work(item, wait))
    }

    #[test]
    fn everything_is_done_once_whatever_the_threads() {
        for threads in [1, 2, 9] {
            let mut done =
                run((0..50).collect(), options(threads), |item, _: Option<()>| TaskPoll::Ready(item * 2));
            done.sort_unstable();
            assert_eq!(done, (0..50).map(|item| (item, item * 2)).collect::<Vec<_>>());
        }
        assert!(run(Vec::new(), options(3), |_, _: Option<()>| TaskPoll::Ready(())).is_empty());
    }

    #[test]
    fn one_thread_goes_in_order_and_comes_back_to_what_was_busy() {
        let order = Mutex::new(Vec::new());
        let tries = AtomicUsize::new(0);
        let done = run(vec![3, 1, 2], options(1), |item, wait: Option<usize>| {
            order.lock().unwrap().push(item);
            // Item 3 is pending for a while; its value comes back.
            if item == 3 && wait.unwrap_or(0) < 3 {
                tries.fetch_add(1, Ordering::Relaxed);
                return TaskPoll::Pending(wait.unwrap_or(0) + 1);
            }
            TaskPoll::Ready(wait)
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
            run((0..400).collect(), options(2), |item, wait: Option<()>| {
                begun.fetch_add(1, Ordering::Relaxed);
                assert_ne!(item, 0, "on purpose");
                // Meanwhile the other thread comes to its panic.
                std::thread::sleep(Duration::from_millis(20));
                // Pending tasks are dropped as well.
                if item % 2 == 0 || wait.is_some() { TaskPoll::Ready(()) } else { TaskPoll::Pending(()) }
            })
        }));
        assert!(caught.is_err());
        assert!(begun.into_inner() < 100);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_nothing_hangs() {
        let caught = std::panic::catch_unwind(|| {
            run((0..20).collect(), options(4), |item, _: Option<()>| {
                assert_ne!(item, 7, "on purpose");
                TaskPoll::Ready(())
            })
        });
        assert!(caught.is_err());
    }

    #[test]
    fn pending_tasks_are_parked_when_all_threads_take_long() {
        for takes_long in [false, true] {
            let park = |parked: &mut bool| *parked = true;
            let done =
                run_to_completion(vec![0, 1], options(1), park, |item, wait, before_long| match item {
                    0 => wait.map_or(TaskPoll::Pending(false), TaskPoll::Ready),
                    _ => {
                        if takes_long {
                            before_long();
                            before_long();
                        }
                        TaskPoll::Ready(false)
                    }
                });
            assert!(done.contains(&(0, takes_long)), "{done:?}");
        }
    }

    #[test]
    fn the_queue_is_not_locked_while_tasks_are_parked() {
        let queue = Queue::new(vec![0]);
        let take = || queue.take().map(|(item, ..)| item);
        assert_eq!(take(), Some(0));
        queue.put_back(0, (), Duration::ZERO);
        queue.locked().threads = 1;
        let running = Running { queue: &queue, is_occupied: Cell::new(false) };
        let parked = Cell::new(0);
        running.occupy(&|(): &mut ()| {
            assert!(queue.state.try_lock().is_ok());
            parked.set(parked.get() + 1);
        });
        drop(running);
        assert_eq!((parked.get(), queue.locked().busy.len()), (1, 1));
    }

    #[test]
    fn pending_tasks_are_not_parked_while_a_thread_polls() {
        let polls = AtomicUsize::new(0);
        let done = run_to_completion(
            vec![0, 1],
            options(2),
            |parked| *parked = true,
            |item, wait, before_long| {
                if item == 1 {
                    // The other thread may still be starting: then this one is all there are.
                    while polls.load(Ordering::SeqCst) < 1 {
                        std::thread::yield_now();
                    }
                    before_long();
                    while polls.load(Ordering::SeqCst) < 5 {
                        std::thread::yield_now();
                    }
                    return TaskPoll::Ready(false);
                }
                match wait {
                    Some(parked) if polls.fetch_add(1, Ordering::SeqCst) >= 5 => TaskPoll::Ready(parked),
                    Some(parked) => TaskPoll::Pending(parked),
                    None => TaskPoll::Pending(false),
                }
            },
        );
        assert!(done.contains(&(0, false)), "{done:?}");
    }
}
