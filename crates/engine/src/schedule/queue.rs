//! A queue of tasks on which another process may be working. Such a task is pending: it is retried after the other tasks,
//! so a few threads wait for many tasks, and no thread waits while there is other work. The caller sets the order.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The first pause between two polls of a task.
const FIRST: Duration = Duration::from_millis(1);
/// The longest pause: 100 us for each pending task, within these bounds. So polling takes a hundredth of a processor for any
/// number of tasks, and the end of the last ones is noticed soon.
const LONGEST_PER_TASK: Duration = Duration::from_micros(100);
const LONGEST: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(20));

/// The result of one attempt at a task.
pub(crate) enum TaskPoll<T, W> {
    /// The task is done.
    Ready(T),
    /// Another process works on the task. The next attempt takes this value.
    Pending(W),
}

/// The threads that work on tasks.
#[derive(Clone, Copy)]
pub(crate) struct WorkerOptions {
    /// The number of threads.
    pub(crate) threads: NonZeroUsize,
    /// The niceness that is added to the caller's, 0 to 19. Child processes inherit it.
    pub(crate) nice: u8,
}

/// Calls `work` with each of `items`, in that order, until all are done, and `done` with each item and its result. Calls `lost` with
/// each time in which no thread had work, and the values of the pending tasks.
pub(crate) fn run_to_completion<T, W: Send>(
    items: Vec<usize>,
    options: WorkerOptions,
    work: impl Fn(usize, Option<W>) -> TaskPoll<T, W> + Sync,
    done: impl Fn(usize, T) + Sync,
    lost: impl Fn(&[&W], Duration) + Sync,
) {
    let threads = options.threads.get().min(items.len());
    let queue = Queue::new(items);
    let run = || queue.run(&work, &done, &lost);
    if threads <= 1 && options.nice == 0 {
        return run();
    }
    std::thread::scope(|scope| {
        let run_nicely = || {
            // On Linux this changes the priority of the calling thread only.
            let _ = rustix::process::nice(options.nice.into());
            run();
        };
        // The caller's thread keeps its priority, which it could not raise again.
        let helpers = if options.nice == 0 { 1..threads } else { 0..threads };
        let start = |_| std::thread::Builder::new().spawn_scoped(scope, run_nicely).ok();
        // If no more threads can be started, the existing ones do the work.
        let helpers: Vec<_> = helpers.map_while(start).collect();
        if options.nice == 0 || helpers.is_empty() {
            run();
        }
        for helper in helpers {
            if let Err(panic) = helper.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
}

struct Queue<W> {
    state: Mutex<QueueState<W>>,
    changed: Condvar,
}

struct QueueState<W> {
    /// The tasks that were not tried yet.
    fresh: VecDeque<usize>,
    pending: Vec<PendingTask<W>>,
    /// The number of tasks on which a thread works. Each may become pending.
    running: usize,
    /// Whether the last task was a pending one. The next one is then a fresh one.
    was_pending: bool,
    /// Whether a thread panicked: no more tasks are begun, so that the panic reaches the caller soon.
    stopped: bool,
    /// The time since which no thread has worked on a task, while some are pending.
    idle_since: Option<Instant>,
}

/// A task on which another process works.
struct PendingTask<W> {
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
    /// No task is due. Without a duration, the thread waits for a change.
    Pause(Option<Duration>),
    End,
}

impl<W> Queue<W> {
    fn new(items: Vec<usize>) -> Self {
        let state = QueueState {
            fresh: items.into(),
            pending: Vec::new(),
            running: 0,
            was_pending: false,
            stopped: false,
            idle_since: None,
        };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn run<T>(
        &self,
        work: &impl Fn(usize, Option<W>) -> TaskPoll<T, W>,
        done: &impl Fn(usize, T),
        lost: &impl Fn(&[&W], Duration),
    ) {
        while let Some((item, wait, pause)) = self.take(lost) {
            let _running = Running { queue: self };
            match work(item, wait) {
                TaskPoll::Ready(result) => done(item, result),
                TaskPoll::Pending(wait) => self.add_pending(item, wait, pause),
            }
        }
    }

    /// Waits for the next task and returns it; `None` if all tasks are done.
    fn take(&self, lost: &impl Fn(&[&W], Duration)) -> Option<(usize, Option<W>, Duration)> {
        let mut state = self.locked();
        loop {
            let now = Instant::now();
            match state.next(now) {
                Next::Work { item, wait, pause } => {
                    if let Some(since) = state.idle_since.take() {
                        let others = state.pending.iter().map(|task| &task.wait);
                        lost(&wait.iter().chain(others).collect::<Vec<_>>(), now - since);
                    }
                    return Some((item, wait, pause));
                }
                Next::End => return None,
                Next::Pause(None) => {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                Next::Pause(Some(pause)) => {
                    if state.running == 0 {
                        state.idle_since.get_or_insert(now);
                    }
                    let woken = self.changed.wait_timeout(state, pause);
                    state = woken.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }

    fn add_pending(&self, item: usize, wait: W, pause: Duration) {
        let mut state = self.locked();
        let others = u32::try_from(state.pending.len()).unwrap_or(u32::MAX);
        let longest = LONGEST_PER_TASK.saturating_mul(others).clamp(LONGEST.0, LONGEST.1);
        let pause = (pause * 2).clamp(FIRST, longest);
        state.pending.push(PendingTask { item, wait, pause, due: Instant::now() + pause });
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
        // Fresh and pending tasks take turns: a poll costs little, but there may be many pending tasks.
        let due = self.pending.iter().position(|task| task.due <= now);
        let is_turn = self.fresh.is_empty() || !self.was_pending;
        self.was_pending = due.is_some() && is_turn;
        if let Some(at) = due.filter(|_| is_turn) {
            let PendingTask { item, wait, pause, due: _ } = self.pending.swap_remove(at);
            self.running += 1;
            return Next::Work { item, wait: Some(wait), pause };
        }
        if let Some(item) = self.fresh.pop_front() {
            self.running += 1;
            return Next::Work { item, wait: None, pause: Duration::ZERO };
        }
        match self.pending.iter().map(|task| task.due).min() {
            Some(due) => Next::Pause(Some(due.saturating_duration_since(now))),
            None if self.running > 0 => Next::Pause(None),
            None => Next::End,
        }
    }
}

/// A task on which a thread works, until this is dropped.
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

    fn options(threads: usize) -> WorkerOptions {
        WorkerOptions { threads: NonZeroUsize::new(threads).unwrap(), nice: 0 }
    }

    /// The results of all items.
    fn results<T: Send, W: Send>(
        items: Vec<usize>,
        threads: usize,
        work: impl Fn(usize, Option<W>) -> TaskPoll<T, W> + Sync,
        lost: impl Fn(&[&W], Duration) + Sync,
    ) -> Vec<(usize, T)> {
        let results = Mutex::new(Vec::new());
        let done = |item, result| results.lock().unwrap().push((item, result));
        run_to_completion(items, options(threads), work, done, lost);
        results.into_inner().unwrap()
    }

    fn nothing_lost(pending: &[&()], time: Duration) {
        panic!("{time:?} lost to {}", pending.len());
    }

    #[test]
    fn every_task_is_done_once_with_any_number_of_threads() {
        for threads in [1, 2, 9] {
            let work = |item, _: Option<()>| TaskPoll::Ready(item * 2);
            let mut done = results((0..50).collect(), threads, work, nothing_lost);
            done.sort_unstable();
            assert_eq!(done, (0..50).map(|item| (item, item * 2)).collect::<Vec<_>>());
        }
        let work = |_, _: Option<()>| TaskPoll::Ready(());
        assert!(results(Vec::new(), 3, work, nothing_lost).is_empty());
    }

    #[test]
    fn one_thread_goes_in_order_and_retries_pending_tasks() {
        let order = Mutex::new(Vec::new());
        let attempts = AtomicUsize::new(0);
        let work = |item, wait: Option<usize>| {
            order.lock().unwrap().push(item);
            // Item 3 is pending for a while. Each attempt gets the value of the last one.
            if item == 3 && wait.unwrap_or(0) < 3 {
                attempts.fetch_add(1, Ordering::Relaxed);
                return TaskPoll::Pending(wait.unwrap_or(0) + 1);
            }
            TaskPoll::Ready(wait)
        };
        let done = results(vec![3, 1, 2], 1, work, |_, _| {});
        assert_eq!(attempts.into_inner(), 3);
        let order = order.into_inner().unwrap();
        assert_eq!((&order[..2], order.last()), (&[3, 1][..], Some(&3)));
        assert!(done.contains(&(3, Some(3))) && done.len() == 3, "{done:?}");
    }

    #[test]
    fn after_a_panic_no_task_is_begun() {
        let begun = AtomicUsize::new(0);
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let work = |item, wait: Option<()>| {
                begun.fetch_add(1, Ordering::Relaxed);
                assert_ne!(item, 0, "on purpose");
                // Time for the other thread to panic.
                std::thread::sleep(Duration::from_millis(20));
                // Pending tasks are dropped as well.
                if item % 2 == 0 || wait.is_some() { TaskPoll::Ready(()) } else { TaskPoll::Pending(()) }
            };
            results((0..400).collect(), 2, work, |_, _| {})
        }));
        assert!(caught.is_err());
        assert!(begun.into_inner() < 100);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_nothing_hangs() {
        let caught = std::panic::catch_unwind(|| {
            let work = |item, _: Option<()>| {
                assert_ne!(item, 7, "on purpose");
                TaskPoll::Ready(())
            };
            results((0..20).collect(), 4, work, nothing_lost)
        });
        assert!(caught.is_err());
    }

    /// The time in which a thread works on another task is not lost.
    #[test]
    fn only_a_time_without_work_is_lost() {
        let (lost, began, worked) =
            (Mutex::new((Duration::ZERO, 0)), Instant::now(), Duration::from_millis(50));
        for threads in [1, 2] {
            *lost.lock().unwrap() = (Duration::ZERO, 0);
            let (begun, second) = (Instant::now(), Mutex::new(None));
            let work = |item, wait: Option<usize>| {
                if item == 0 {
                    // It is pending until the other one has been done for a while.
                    let done: Option<Instant> = *second.lock().unwrap();
                    let is_ready = done.is_some_and(|done| done.elapsed() >= worked);
                    return if is_ready { TaskPoll::Ready(()) } else { TaskPoll::Pending(7) };
                }
                assert_eq!(wait, None);
                std::thread::sleep(worked);
                *second.lock().unwrap() = Some(Instant::now());
                TaskPoll::Ready(())
            };
            results(vec![0, 1], threads, work, |pending: &[&usize], time| {
                assert_eq!(pending, [&7]);
                let mut lost = lost.lock().unwrap();
                *lost = (lost.0 + time, lost.1 + 1);
            });
            let (time, count) = *lost.lock().unwrap();
            // The polls themselves are not lost, and a busy machine wakes threads late.
            assert!(
                count > 1 && time >= worked / 5 && time <= begun.elapsed() - worked,
                "{threads}: {time:?}"
            );
        }
        assert!(began.elapsed() >= worked * 4);
    }
}
