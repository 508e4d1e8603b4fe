//! The design's budgets, each with the figures that judge it.

use super::figures::Figure;

/// A budget of the design, apart from those beside other caches.
pub(crate) struct Row {
    pub(crate) what: &'static str,
    pub(crate) bound: &'static str,
    pub(crate) bench: &'static str,
    picks: fn(&Figure) -> bool,
    /// Many figures are about it: only the one that comes closest to its bound is shown.
    worst: bool,
    /// Why there may be no figure.
    pub(crate) needs: &'static str,
}

const CORPUS: &str = "needs `OPBUILD_CORPUS`, a folder of files that are not ours to redistribute";
const ROOM: &str = "needs room in `/dev/shm`";

const fn row(
    what: &'static str,
    bound: &'static str,
    bench: &'static str,
    picks: fn(&Figure) -> bool,
    worst: bool,
    needs: &'static str,
) -> Row {
    Row { what, bound, bench, picks, worst, needs }
}

pub(crate) const ROWS: &[Row] = &[
    row(
        "store hit with all checks: 8 KiB `.o`, 1 KiB `.json`, 6 KiB `.info`",
        "1.25 times open, read and SHA-256 of what is needed, in one packed file",
        "store_hit",
        |figure| figure.bytes == Some(8192),
        false,
        ROOM,
    ),
    row(
        "key of a descriptor (the 6 KB Square), read before",
        "10 us",
        "key",
        |figure| figure.row == "Square",
        false,
        "",
    ),
    row(
        "the same, reading it included",
        "60 us",
        "parse_info",
        |figure| figure.row == "Square, parse and key",
        false,
        "",
    ),
    row(
        "warm build of ResNet-50 in process, without a view",
        "3 times the sum of its hits",
        "warm_build",
        |figure| figure.row == "resnet50, view -",
        false,
        CORPUS,
    ),
    row(
        "the same with an intact view",
        "3 times the sum of its hits and one stat a file",
        "warm_build",
        |figure| figure.row == "resnet50, view intact",
        false,
        CORPUS,
    ),
    row(
        "warm build of as many nodes, each another kernel",
        "3 times the sum of its hits",
        "warm_build",
        |figure| figure.row.starts_with("made, "),
        false,
        "",
    ),
    row(
        "warm `opbuild build` of a light network as a process: time",
        "30 ms",
        "cli_start",
        |figure| figure.row.starts_with("build ") && !figure.row.ends_with(": memory"),
        false,
        "",
    ),
    row(
        "the same: memory",
        "40 MB",
        "cli_start",
        |figure| figure.row.starts_with("build ") && figure.row.ends_with(": memory"),
        true,
        "",
    ),
    row("cold build: our CPU time beside the compiler's", "3 %", "cold_build", |_| true, false, ""),
    row(
        "put at 100 000 entries against 1 000",
        "1.3 times",
        "store_put",
        |figure| figure.entries == Some(100_000) && figure.row != "put",
        false,
        ROOM,
    ),
    row(
        "gc walk of 100 000 entries against a bare stat walk",
        "3 times",
        "store_gc",
        |figure| figure.entries == Some(100_000) && figure.row == "walk",
        false,
        ROOM,
    ),
    row(
        "8 processes, cold, same network: each kernel compiled once, time",
        "1.15 times one process with the same cores",
        "crowd",
        |figure| figure.row.contains("compiled once"),
        false,
        "",
    ),
    row(
        "the compiling process dies: until another compiles",
        "50 ms",
        "crowd",
        |figure| figure.row.starts_with("taken over"),
        false,
        "",
    ),
    row(
        "validator, objects of 64 KiB and more",
        "1.5 times SHA-256 of the object",
        "validate",
        |figure| figure.bytes >= Some(64 << 10),
        true,
        "",
    ),
    row(
        "validator, smaller objects",
        "30 us more than SHA-256 of the object",
        "validate",
        |figure| figure.bytes < Some(64 << 10),
        true,
        "",
    ),
];

impl Row {
    /// The figures about it, and of how many those are.
    pub(crate) fn of<'a>(&self, figures: &'a [Figure]) -> (Vec<&'a Figure>, usize) {
        let is_it = |figure: &&Figure| figure.bench == self.bench && (self.picks)(figure);
        let mut found: Vec<&Figure> = figures.iter().filter(is_it).collect();
        let all = found.len();
        if self.worst {
            let share = |figure: &&Figure| figure.budget.as_ref().map_or(0.0, |budget| budget.of_budget);
            found.sort_by(|one, other| share(other).total_cmp(&share(one)));
            found.truncate(1);
        }
        (found, all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::figures::Budget;

    fn validated(bytes: u64, of_budget: f64) -> Figure {
        let budget = Budget { allowed: String::new(), verdict: "kept".to_owned(), of_budget };
        Figure { bench: "validate".to_owned(), bytes: Some(bytes), budget: Some(budget), ..Figure::default() }
    }

    #[test]
    fn of_many_the_worst_is_shown() {
        let figures = [(1 << 10, 0.1), (64 << 10, 0.5), (1 << 20, 0.9), (4 << 20, 0.2)];
        let figures = figures.map(|(bytes, share)| validated(bytes, share));
        let of = |what: &str| {
            let row = ROWS.iter().find(|row| row.what.starts_with(what)).unwrap();
            let (found, all) = row.of(&figures);
            (found.iter().map(|figure| figure.bytes.unwrap()).collect::<Vec<_>>(), all)
        };
        assert_eq!(of("validator, objects"), (vec![1 << 20], 3));
        assert_eq!(of("validator, smaller"), (vec![1 << 10], 1));
        assert_eq!(of("cold build"), (vec![], 0));
    }
}
