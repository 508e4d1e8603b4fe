//! The budgets, each with its figures.

use super::figures::{Figure, Outcome, worst};

/// The benchmarks of the report, in its order.
pub(crate) const BENCHES: &[&str] = &[
    "store_hit",
    "digest",
    "key",
    "parse_info",
    "validate",
    "warm_build",
    "cli_start",
    "cold_build",
    "compile_overhead",
    "crowd",
    "hosts",
    "simulated_hosts",
    "remote_fetch",
    "store_put",
    "store_gc",
    "store_counts",
    "second_request",
    "many_kernels",
    "verify_caches",
    "ascend_drivers",
    "fingerprint",
    "triton_hit",
    "cache_get",
];

/// A budget, except those beside other caches.
pub(crate) struct Row {
    /// Its subject, which is also the heading of its note.
    pub(crate) title: &'static str,
    pub(crate) bound: &'static str,
    pub(crate) bench: &'static str,
    picks: fn(&Figure) -> bool,
    /// The reason why a figure may be missing.
    pub(crate) needs: &'static str,
}

const CORPUS: &str = "needs `OPKEEP_CORPUS`, a directory of files that are not ours to redistribute";
const REDIS: &str = "needs `redis-server`";
const ROOM: &str = "needs room in `/dev/shm`";
const PYTHON: &str = "needs a Python that the stand-in toolkit runs with";

const FRAMEWORKS: &str = "needs `target/frameworks`, which `cargo xtask frameworks` makes";

const fn row(
    title: &'static str,
    bound: &'static str,
    bench: &'static str,
    picks: fn(&Figure) -> bool,
    needs: &'static str,
) -> Row {
    Row { title, bound, bench, picks, needs }
}

/// All of them, with the headings of the tables.
pub(crate) const TABLES: [(&str, &[Row]); 2] =
    [("The whole", THE_WHOLE), ("Single parts, beyond that", SINGLE_PARTS)];

pub(crate) fn rows() -> impl Iterator<Item = &'static Row> {
    TABLES.into_iter().flat_map(|(_, rows)| rows)
}

const THE_WHOLE: &[Row] = &[
    row(
        "store hit with all checks: 8 KiB `.o`, 1 KiB `.json`, 6 KiB `.info`",
        "1.25 times open, read and SHA-256 of what is needed, in one packed file",
        "store_hit",
        |figure| figure.bytes == Some(8192),
        ROOM,
    ),
    row(
        "key of a descriptor (the 6 KB Square), read before",
        "10 us",
        "key",
        |figure| figure.row == "Square",
        "",
    ),
    row(
        "reading the same descriptor",
        "1.0 times reading the text into serde_json's own values",
        "parse_info",
        |figure| figure.row == "Square, parse",
        "",
    ),
    row(
        "warm build of ResNet-50 in process, without a view",
        "3 times the sum of its hits",
        "warm_build",
        |figure| figure.row == "resnet50, no view",
        CORPUS,
    ),
    row(
        "the same with an intact view",
        "3 times the sum of its hits and one stat a file",
        "warm_build",
        |figure| figure.row == "resnet50, intact view",
        CORPUS,
    ),
    row(
        "warm build of as many nodes, each another kernel",
        "3 times the sum of its hits",
        "warm_build",
        |figure| figure.row.starts_with("made, "),
        "",
    ),
    row(
        "warm `opkeep build` of a light network as a process: time",
        "12 ms",
        "cli_start",
        |figure| figure.row.starts_with("build ") && !figure.row.ends_with(": memory"),
        "",
    ),
    row(
        "the same: memory",
        "40 MB, which is 38.1 MiB",
        "cli_start",
        |figure| figure.row.starts_with("build ") && figure.row.ends_with(": memory"),
        "",
    ),
    row("cold build: our CPU time beside the compiler's", "3 %", "cold_build", |_| true, ""),
    row(
        "compile that may read only what its key covers",
        "1.03 times one that is not confined",
        "compile_overhead",
        |figure| figure.row != "probe",
        "",
    ),
    row(
        "put at 100 000 entries against 1 000",
        "1.3 times",
        "store_put",
        |figure| figure.entries == Some(100_000) && figure.row != "put",
        ROOM,
    ),
    row(
        "gc walk of 100 000 entries against a bare stat walk",
        "3 times",
        "store_gc",
        |figure| figure.entries == Some(100_000) && figure.row == "walk",
        ROOM,
    ),
    row(
        "evicting half of the entries",
        "2 times deleting the same files one by one",
        "store_gc",
        |figure| figure.row == "half of them evicted",
        ROOM,
    ),
    row(
        "8 processes, cold, same network: each kernel compiled once, time",
        "1.15 times one process with the same cores",
        "crowd",
        |figure| figure.row.contains("compiled once"),
        "",
    ),
    row(
        "the compiling process dies: until another compiles",
        "50 ms",
        "crowd",
        |figure| figure.row.starts_with("taken over"),
        "",
    ),
    row(
        "16 hosts, cold, one Redis: each kernel compiled once, time",
        "1.5 times the longest kernel and an equal share of all",
        "hosts",
        |figure| !figure.row.contains("killed"),
        REDIS,
    ),
    row(
        "the same, 2 hosts killed while they compile",
        "one time to live more",
        "hosts",
        |figure| figure.row.contains("killed"),
        REDIS,
    ),
    row(
        "10 000 simulated hosts, cold, one Redis: each kernel compiled once, time",
        "1.5 times the longest kernel and 2 s",
        "simulated_hosts",
        |figure| !figure.row.contains("killed"),
        REDIS,
    ),
    row(
        "the same, 15 of 148 holders killed",
        "one time to live more",
        "simulated_hosts",
        |figure| figure.row.contains("killed"),
        REDIS,
    ),
    row(
        "148 kernels of 15 KiB from Redis into the store",
        "1.2 times `MGET`, SHA-256, validator and puts",
        "remote_fetch",
        |figure| figure.row.starts_with("warm fetch") && !figure.row.contains("round trips"),
        REDIS,
    ),
    row("the same: round trips", "2", "remote_fetch", |figure| figure.row.contains("round trips"), REDIS),
    row(
        "validator, objects of 64 KiB and more",
        "1.5 times SHA-256 of the object",
        "validate",
        |figure| figure.bytes.is_some_and(|bytes| bytes >= 64 << 10),
        "",
    ),
    row(
        "validator, smaller objects",
        "30 us more than SHA-256 of the object",
        "validate",
        |figure| figure.bytes.is_some_and(|bytes| bytes < 64 << 10),
        "",
    ),
];

const SINGLE_PARTS: &[Row] = &[
    row(
        "store: memory to open one of 100 000 entries",
        "5 MB, which is 4.8 MiB",
        "store_counts",
        |figure| figure.entries == Some(100_000) && figure.row == "open: memory",
        ROOM,
    ),
    row("store: reads for a hit", "1", "store_counts", |figure| figure.row == "hit: reads", ROOM),
    row(
        "store: its limit exceeded while processes put every 10 ms",
        "the unreported puts of each process: 64 or 16 MiB",
        "store_gc",
        |figure| figure.row.starts_with("over the limit, ") && figure.budget.is_some(),
        "",
    ),
    row(
        "engine: a second `get_or_build` of one operator",
        "1 us",
        "second_request",
        |figure| figure.row == "one operator, 1 thread",
        "",
    ),
    row(
        "engine: memory of 10 000 kernels of 64 KiB that are not kept",
        "4 KiB for each",
        "many_kernels",
        |figure| figure.entries == Some(10_000) && figure.row == "streamed: memory",
        ROOM,
    ),
    row(
        "engine: the same, put into a view",
        "8 KiB for each, and 32 MiB",
        "many_kernels",
        |figure| figure.entries == Some(10_000) && figure.row == "streamed, view: memory",
        ROOM,
    ),
    row(
        "engine: the same, one by one with `get_or_build`, which may remember 16 MiB",
        "32 MiB",
        "many_kernels",
        |figure| figure.entries == Some(10_000) && figure.row == "one by one: memory",
        ROOM,
    ),
    row(
        "caches of others: verify of 10 000 kernels of 15 KiB",
        "1.5 times reading and hashing the same bytes with all cores",
        "verify_caches",
        |_| true,
        "",
    ),
    row(
        "Ascend: small kernels by workers",
        "0.1 times a process of `opc` for each",
        "ascend_drivers",
        |_| true,
        PYTHON,
    ),
    row(
        "Ascend: fingerprint of a toolkit with 1 000 operators' files, warm",
        "50 ms",
        "fingerprint",
        |figure| figure.budget.is_some(),
        "",
    ),
    row(
        "Triton: a hit through our manager, every byte checked: CPU time",
        "1.2 times Triton's own manager, which checks none",
        "triton_hit",
        |figure| figure.row.starts_with("a hit"),
        FRAMEWORKS,
    ),
    row(
        "Triton: one kernel in 8 processes, from a common start: time",
        "1.3 times one process alone",
        "triton_hit",
        |figure| figure.row.starts_with("8 processes"),
        FRAMEWORKS,
    ),
    row("Python: `Cache.get` of 15 KiB", "2 times the same in Rust", "cache_get", |_| true, FRAMEWORKS),
];

impl Row {
    /// Whether `figure` belongs to it.
    pub(crate) fn has(&self, figure: &Figure) -> bool {
        figure.bench == self.bench && (self.picks)(figure)
    }

    /// Its figures.
    pub(crate) fn of<'a>(&self, figures: &'a [Figure]) -> Vec<&'a Figure> {
        figures.iter().filter(|figure| self.has(figure)).collect()
    }

    /// Its result: that of the worst of its figures.
    pub(crate) fn outcome(&self, figures: &[Figure]) -> Outcome {
        match worst(&self.of(figures)).and_then(|figure| figure.budget.as_ref()) {
            Some(budget) => budget.outcome(),
            None => Outcome::NotMeasured,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::figures::Budget;

    fn validated(bytes: u64, verdict: &str) -> Figure {
        let budget = Budget { allowed: String::new(), verdict: verdict.to_owned(), of_budget: 1.0 };
        Figure { bench: "validate".to_owned(), bytes: Some(bytes), budget: Some(budget), ..Figure::default() }
    }

    #[test]
    fn a_row_is_judged_by_its_own_figures() {
        let figures = [(1 << 10, "BROKEN"), (64 << 10, "kept"), (1 << 20, "just about"), (4 << 20, "kept")];
        let figures = figures.map(|(bytes, verdict)| validated(bytes, verdict));
        let of = |title: &str| {
            let row = rows().find(|row| row.title.starts_with(title)).unwrap();
            (row.of(&figures).len(), row.outcome(&figures))
        };
        assert_eq!(of("validator, objects"), (3, Outcome::JustAbout));
        assert_eq!(of("validator, smaller"), (1, Outcome::Missed));
        assert_eq!(of("cold build"), (0, Outcome::NotMeasured));
        // A figure without a size belongs to no row of a size.
        let sizeless = Figure { bytes: None, ..validated(0, "kept") };
        assert!(rows().all(|row| row.of(std::slice::from_ref(&sizeless)).is_empty()));
    }

    #[test]
    fn rows_have_different_names() {
        let mut names: Vec<&str> = rows().map(|row| row.title).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
