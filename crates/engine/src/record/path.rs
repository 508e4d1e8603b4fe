//! The critical path of a build: what its duration consists of, and how short it could be.
//!
//! A build ends when its last thread ends. So the path is the phases before the builds of kernels, then what the thread that ended
//! last did and waited for, one after the other, and then the end of the build. It has no gaps: its segments add up to the duration.
//!
//! It is not a chain of dependencies, since kernels do not depend on each other. Another order of the same kernels may shorten it, but
//! not below [`CriticalPath::lower_bound_us`]: no thread is faster than the longest kernel, and all threads together are not
//! faster than the work divided by their number.

use serde::Serialize;

use super::{BuildPhases, BuildRecord, RecordedKernel};

/// What a build's duration consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CriticalPath {
    /// The segments, from the beginning to the end of the build, without gaps.
    pub segments: Vec<PathSegment>,
    /// The thread that ended last; `None` if no kernel was built.
    pub worker: Option<usize>,
    /// The time of the longest kernel: its compile, validation and publication.
    pub longest_us: u64,
    /// The times of all kernels, added up.
    pub work_us: u64,
    /// The number of threads.
    pub threads: usize,
    /// The shortest duration that any order of these kernels on these threads can have, without waits for others.
    pub lower_bound_us: u64,
}

/// A part of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathSegment {
    /// What the build did.
    pub kind: SegmentKind,
    /// The kernel: an index into [`BuildRecord::kernels`].
    pub kernel: Option<usize>,
    /// The beginning.
    pub begin_us: u64,
    /// The end.
    pub end_us: u64,
}

/// What a build did, or what the thread that ended last did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SegmentKind {
    /// Reading the toolchain and computing keys.
    Plan,
    /// Looking up in the store.
    LookUp,
    /// Looking up in the remote tier.
    Fetch,
    /// Waiting for the kernel's lock and for a job token.
    Queue,
    /// Compiling and validating the kernel.
    Compile,
    /// Publishing the kernel, and writing it to the framework's directory; for a kernel that was not compiled here, all of its time.
    Publish,
    /// Waiting for the kernel, which another process or host builds.
    Wait,
    /// Between two kernels.
    Between,
    /// After the kernels: syncing, uploads, the framework's directory.
    Finish,
}

impl SegmentKind {
    /// Returns the kind in a few words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::LookUp => "look up",
            Self::Fetch => "remote look-up",
            Self::Queue => "wait for a job token",
            Self::Compile => "compile",
            Self::Publish => "publish",
            Self::Wait => "wait for another process",
            Self::Between => "between kernels",
            Self::Finish => "finish",
        }
    }
}

impl BuildRecord {
    /// Returns what the build's duration consists of. What the record leaves out is not in the path.
    pub fn critical_path(&self) -> CriticalPath {
        let BuildPhases { planned_us, looked_up_us, fetched_us, made_us } = self.phases;
        let mut path = Path::default();
        path.to(SegmentKind::Plan, None, planned_us);
        path.to(SegmentKind::LookUp, None, looked_up_us);
        path.to(SegmentKind::Fetch, None, fetched_us);
        let built = || self.kernels.iter().enumerate().filter(|(_, kernel)| kernel.worker.is_some());
        let last = built().max_by_key(|(at, kernel)| (kernel.end_us, std::cmp::Reverse(*at)));
        let worker = last.and_then(|(_, kernel)| kernel.worker);
        let mut own: Vec<(usize, &RecordedKernel)> =
            built().filter(|(_, kernel)| kernel.worker == worker).collect();
        opkeep_order::by_key(&mut own, |(at, kernel)| (kernel.last_us, kernel.end_us, *at));
        for (at, kernel) in own {
            let waited = kernel.waited_us() > 0;
            path.to(
                if waited { SegmentKind::Wait } else { SegmentKind::Between },
                waited.then_some(at),
                kernel.last_us,
            );
            if let Some(compile) = kernel.compile_us {
                path.to(SegmentKind::Queue, Some(at), compile);
                path.to(
                    SegmentKind::Compile,
                    Some(at),
                    compile.saturating_add(kernel.compile_time_us.unwrap_or(0)).min(kernel.end_us),
                );
            }
            path.to(SegmentKind::Publish, Some(at), kernel.end_us);
        }
        path.to(SegmentKind::Between, None, made_us);
        path.to(SegmentKind::Finish, None, self.elapsed_us);
        let work = |kernel: &RecordedKernel| {
            kernel.compile_us.map_or(0, |compile| kernel.end_us.saturating_sub(compile))
        };
        let work_us = self.kernels.iter().map(work).fold(0, u64::saturating_add);
        let longest_us = self.kernels.iter().map(work).max().unwrap_or(0);
        let threads = self.threads.max(1);
        let around = fetched_us.saturating_add(self.elapsed_us.saturating_sub(made_us));
        let shortest = longest_us.max(work_us.div_ceil(threads as u64));
        let lower_bound_us = around.saturating_add(shortest).min(self.elapsed_us);
        CriticalPath { segments: path.0, worker, longest_us, work_us, threads, lower_bound_us }
    }
}

/// A path that is built from its beginning.
#[derive(Default)]
struct Path(Vec<PathSegment>);

impl Path {
    /// Adds a segment from the path's end to `end_us`, unless that is not later.
    fn to(&mut self, kind: SegmentKind, kernel: Option<usize>, end_us: u64) {
        let begin_us = self.0.last().map_or(0, |last| last.end_us);
        if end_us > begin_us {
            self.0.push(PathSegment { kind, kernel, begin_us, end_us });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel that a thread worked on from `last` to `end`, and compiled.
    fn compiled(worker: usize, last_us: u64, compile_us: u64, end_us: u64) -> RecordedKernel {
        RecordedKernel {
            worker: Some(worker),
            begin_us: last_us,
            last_us,
            compile_us: Some(compile_us),
            compile_time_us: Some(end_us - compile_us - 1),
            end_us,
            ..RecordedKernel::default()
        }
    }

    fn build(kernels: Vec<RecordedKernel>) -> BuildRecord {
        BuildRecord {
            elapsed_us: 1000,
            threads: 2,
            phases: BuildPhases { planned_us: 10, looked_up_us: 20, fetched_us: 20, made_us: 900 },
            kernels,
            ..BuildRecord::default()
        }
    }

    fn shown(path: &CriticalPath) -> Vec<(&'static str, Option<usize>, u64)> {
        path.segments.iter().map(|segment| (segment.kind.name(), segment.kernel, segment.end_us)).collect()
    }

    /// The segments add up to the duration, whatever the kernels are.
    fn assert_whole(build: &BuildRecord) -> CriticalPath {
        let path = build.critical_path();
        let mut end = 0;
        for segment in &path.segments {
            assert_eq!(segment.begin_us, end);
            assert!(segment.end_us > end);
            end = segment.end_us;
        }
        assert_eq!(end, build.elapsed_us);
        assert!(path.lower_bound_us <= build.elapsed_us, "{path:?}");
        path
    }

    #[test]
    fn the_path_is_that_of_the_thread_that_ends_last() {
        let path = assert_whole(&build(vec![
            compiled(0, 20, 20, 320),
            compiled(1, 20, 120, 700),
            compiled(0, 320, 330, 900),
        ]));
        assert_eq!(path.worker, Some(0));
        assert_eq!(
            shown(&path),
            [
                ("plan", None, 10),
                ("look up", None, 20),
                ("compile", Some(0), 319),
                ("publish", Some(0), 320),
                ("wait for a job token", Some(2), 330),
                ("compile", Some(2), 899),
                ("publish", Some(2), 900),
                ("finish", None, 1000),
            ]
        );
        assert_eq!((path.longest_us, path.work_us), (580, 300 + 580 + 570));
        // 20 before, 100 after, and half of the work.
        assert_eq!(path.lower_bound_us, 120 + 725);
    }

    #[test]
    fn one_long_kernel_bounds_the_build() {
        let path = assert_whole(&build(vec![compiled(0, 20, 20, 900), compiled(1, 20, 20, 30)]));
        assert_eq!((path.longest_us, path.lower_bound_us), (880, 1000));
    }

    #[test]
    fn a_wait_for_another_process_is_on_the_path() {
        let shared = RecordedKernel {
            worker: Some(1),
            begin_us: 30,
            last_us: 890,
            end_us: 895,
            ..RecordedKernel::default()
        };
        let path = assert_whole(&build(vec![compiled(0, 20, 20, 400), compiled(1, 20, 20, 300), shared]));
        let end: Vec<_> = shown(&path).into_iter().skip(4).collect();
        assert_eq!(
            end,
            [
                ("wait for another process", Some(2), 890),
                ("publish", Some(2), 895),
                ("between kernels", None, 900),
                ("finish", None, 1000)
            ]
        );
        assert_eq!(path.work_us, 380 + 280);
    }

    #[test]
    fn builds_without_kernels_have_a_path() {
        let path = assert_whole(&build(Vec::new()));
        assert_eq!((path.worker, path.longest_us, path.lower_bound_us), (None, 0, 120));
        assert_eq!(
            shown(&path),
            [
                ("plan", None, 10),
                ("look up", None, 20),
                ("between kernels", None, 900),
                ("finish", None, 1000)
            ]
        );
        assert!(BuildRecord::default().critical_path().segments.is_empty());
    }

    /// Records may be damaged in ways that their checksum does not show: then the path is still whole.
    #[test]
    fn any_times_give_a_whole_path() {
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..500 {
            let kernels = (0..random(9)).map(|_| RecordedKernel {
                worker: Some(usize::try_from(random(4)).unwrap()).filter(|worker| *worker < 3),
                begin_us: random(2000),
                last_us: random(2000),
                compile_us: Some(random(2000)),
                compile_time_us: Some(random(2000)),
                end_us: random(2000),
                ..RecordedKernel::default()
            });
            let mut build = build(kernels.collect());
            build.phases.planned_us = random(2000);
            assert_whole(&build.in_order());
        }
    }
}
