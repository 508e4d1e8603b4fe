//! The function whose instructions are counted.
//!
//! `cargo xtask guard` runs the program `workloads` under `valgrind --tool=callgrind`, once for each workload, and sets
//! it to count from the beginning of [`measured`] to its end: the preparation of a workload does not count.

/// Runs `work` that many times. This is the function whose instructions are counted: it is never inlined, it is called
/// once in a process, and it is found by its name.
#[inline(never)]
pub fn measured(times: u32, work: &mut dyn FnMut()) {
    for _ in 0..times {
        work();
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn work_is_done_as_often_as_it_is_counted() {
        let mut done = 0;
        super::measured(7, &mut || done += 1);
        assert_eq!(done, 7);
    }
}
