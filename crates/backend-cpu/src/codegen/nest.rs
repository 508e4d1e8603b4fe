//! Loops over some of a tensor's axes, for each index of the others.
//!
//! Neighbouring axes of one kind are one. What is left ends in one of two ways: in an axis that is folded, so that
//! elements that belong together are runs in memory; or in one that stays, so that many results are computed side by
//! side, a strip of them at a time. Both inner loops are such as compilers vectorise.

use std::fmt::Write as _;

use crate::codegen::code::per_block;
use crate::codegen::loops::{bounds, start};

/// Partial results of a run. They are joined at its end: one order, for every machine and number of threads.
const LANES: u64 = 8;
/// The most results that are computed side by side.
pub(crate) const STRIP: u64 = 256;

/// A tensor's axes: those that stay, and those that are folded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Nest {
    /// Sizes of the axes that stay, less the last one of a strip; and the elements that a step in each moves.
    outer: Vec<u64>,
    steps: Vec<i64>,
    /// The same of axes that are folded, less the last one of a run.
    over: Vec<(u64, u64)>,
    pub(crate) inner: Inner,
    /// Elements that are folded into one.
    pub(crate) count: u64,
}

/// How a nest ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inner {
    /// So many elements in a row are folded.
    ProcessBuilder(u64),
    /// So many elements in a row belong to different results.
    Strip(u64),
}

/// Where a run or a strip is, as terms to be added to a pointer.
#[derive(Debug, Default)]
pub(crate) struct Place {
    /// To the run, or to the elements that are the first of the strip's row.
    pub(crate) start: String,
    /// To the row of results that the strip is a part of.
    pub(crate) results: String,
    /// To the strip in its row.
    pub(crate) from: String,
    /// Elements side by side.
    pub(crate) width: String,
}

impl Nest {
    /// The nest that folds `axes` of a tensor of `shape`; `None` if they have one element for each result.
    pub(crate) fn new(shape: &[u64], axes: &[usize]) -> Option<Self> {
        // Sizes, steps, and whether they are folded.
        let mut groups: Vec<(u64, u64, bool)> = Vec::new();
        let mut step = shape.iter().product::<u64>();
        for (axis, dim) in shape.iter().enumerate() {
            step /= (*dim).max(1);
            let folded = axes.contains(&axis);
            match groups.last_mut() {
                _ if *dim == 1 => {}
                Some((size, inner, same)) if *same == folded => (*size, *inner) = (*size * dim, step),
                _ => groups.push((*dim, step, folded)),
            }
        }
        let count = groups.iter().filter(|group| group.2).map(|group| group.0).product();
        let inner = match groups.pop()? {
            (length, _, true) => Inner::ProcessBuilder(length),
            (columns, _, false) => Inner::Strip(columns),
        };
        let of = |folded: bool| groups.iter().filter(move |group| group.2 == folded);
        let over: Vec<_> = of(true).map(|(size, step, _)| (*size, *step)).collect();
        if matches!(inner, Inner::Strip(_)) && over.is_empty() {
            return None;
        }
        Some(Self {
            outer: of(false).map(|group| group.0).collect(),
            steps: of(false).map(|group| group.1.cast_signed()).collect(),
            over,
            inner,
            count,
        })
    }

    /// The nest of `rows` runs of `length` elements.
    pub(crate) fn rows(rows: u64, length: u64) -> Self {
        let steps = vec![length.cast_signed()];
        Self {
            outer: vec![rows],
            steps,
            over: Vec::new(),
            inner: Inner::ProcessBuilder(length),
            count: length,
        }
    }

    /// Runs, or strips.
    fn items(&self) -> u64 {
        let rows: u64 = self.outer.iter().product();
        match self.inner {
            Inner::ProcessBuilder(_) => rows,
            Inner::Strip(columns) => rows * columns.div_ceil(STRIP),
        }
    }

    fn per_block(&self) -> u64 {
        let results = match self.inner {
            Inner::ProcessBuilder(_) => 1,
            Inner::Strip(columns) => columns.min(STRIP),
        };
        per_block(self.items(), self.count.saturating_mul(results))
    }

    pub(crate) fn blocks(&self) -> u64 {
        self.items().div_ceil(self.per_block()).max(1)
    }

    /// Begins the loop over this block's runs, or strips. In it, `row` is the number of the run, or that of the row of
    /// results that the strip is a part of.
    pub(crate) fn open(&self, c: &mut String) -> Place {
        bounds(c, "    ", ["first", "last"], "block", self.per_block(), self.items());
        let mut place = Place { start: start("row", &self.outer, &self.steps), ..Place::default() };
        if let (Inner::Strip(columns), false) = (self.inner, self.outer.is_empty()) {
            place.results = format!(" + row * {columns}ul");
        }
        match self.inner {
            Inner::Strip(columns) if columns > STRIP => {
                let strips = columns.div_ceil(STRIP);
                let _ = writeln!(c, "    for (unsigned long strip = first; strip < last; strip++) {{");
                if !self.outer.is_empty() {
                    let _ = writeln!(c, "        const unsigned long row = strip / {strips}ul;");
                }
                bounds(c, "        ", ["from", "to"], &format!("strip % {strips}ul"), STRIP, columns);
                place.from = " + from".to_owned();
                place.width = "to - from".to_owned();
            }
            Inner::Strip(width) | Inner::ProcessBuilder(width) => {
                let _ = writeln!(c, "    for (unsigned long row = first; row < last; row++) {{");
                place.width = format!("{width}ul");
            }
        }
        place
    }

    /// A loop over what is folded into one. `each` gives the statements for one run, or for what a strip takes next;
    /// it is given what to write before an index there.
    pub(crate) fn over(&self, c: &mut String, each: impl Fn(&str) -> Vec<String>) {
        let mut indent = "    ".to_owned();
        let mut at = Vec::new();
        for (level, (size, step)) in self.over.iter().enumerate() {
            let brace = if level + 1 == self.over.len() { " {" } else { "" };
            let _ = writeln!(
                c,
                "{indent}for (unsigned long r{level} = 0; r{level} < {size}ul; r{level}++){brace}"
            );
            at.push(format!("r{level} * {step}ul"));
            indent.push_str("    ");
        }
        let looped = !at.is_empty();
        if looped {
            let _ = writeln!(c, "{indent}const unsigned long at = {};", at.join(" + "));
        }
        for line in each(if looped { "at + " } else { "" }) {
            let _ = writeln!(c, "{indent}{line}");
        }
        if looped {
            indent.truncate(indent.len() - 4);
            let _ = writeln!(c, "{indent}}}");
        }
    }

    /// The function `fold` over runs.
    pub(crate) fn function(&self, fold: &Fold) -> String {
        let Fold { name, parameters, element, result, identity, step, join } = fold;
        let length = if let Inner::ProcessBuilder(length) = &self.inner { length } else { &0 };
        let full = length - length % LANES;
        let mut c = format!("static inline {result} {name}(const {element} *restrict x{parameters})\n{{\n");
        let lanes = if full == 0 { 1 } else { LANES };
        let all = format!("for (int l = 0; l < {lanes}; l++)");
        let _ = writeln!(c, "    {result} lane[{lanes}];\n    {all}\n        lane[l] = {identity};");
        self.over(&mut c, |at| {
            let mut lines = Vec::new();
            if full > 0 {
                lines.push(format!("for (unsigned long i = 0; i < {full}ul; i += {lanes})"));
                lines.push(format!("    {all}"));
                lines.push(format!("        {}", step("lane[l]", &format!("x[{at}i + l]"))));
            }
            if full < *length {
                lines.push(format!("for (unsigned long i = {full}ul; i < {length}ul; i++)"));
                lines.push(format!("    {}", step("lane[0]", &format!("x[{at}i]"))));
            }
            lines
        });
        if lanes > 1 {
            let _ =
                writeln!(c, "    for (int l = 1; l < {lanes}; l++)\n        {}", join("lane[0]", "lane[l]"));
        }
        c.push_str("    return lane[0];\n}\n\n");
        c
    }
}

/// A function that makes one number of many.
pub(crate) struct Fold {
    pub(crate) name: &'static str,
    /// Parameters after the elements.
    pub(crate) parameters: &'static str,
    /// The C type of the elements.
    pub(crate) element: &'static str,
    /// The C type of the number.
    pub(crate) result: &'static str,
    /// The number that no elements give.
    pub(crate) identity: String,
    /// The statement that adds an element to a number,
    pub(crate) step: fn(&str, &str) -> String,
    /// and the one that adds another number.
    pub(crate) join: fn(&str, &str) -> String,
}

/// The statement that adds.
pub(crate) fn plus(a: &str, b: &str) -> String {
    format!("{a} += {b};")
}

/// The statement that keeps the greater one of floats.
pub(crate) fn greater(a: &str, b: &str) -> String {
    format!("{a} = max_f({a}, {b});")
}

/// The sum of floats, in double precision: exact to the last bit of a float for any number of elements.
pub(crate) fn total() -> Fold {
    Fold {
        name: "total",
        parameters: "",
        element: "float",
        result: "double",
        identity: "0.0".to_owned(),
        step: plus,
        join: plus,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_axes_of_one_kind_are_one() {
        let nest = Nest::new(&[2, 3, 4, 5], &[2, 3]).unwrap();
        assert_eq!((&nest.outer[..], &nest.steps[..], &nest.over[..]), (&[6][..], &[20][..], &[][..]));
        assert_eq!((nest.inner, nest.count), (Inner::ProcessBuilder(20), 20));
        let nest = Nest::new(&[2, 3, 4, 5], &[1]).unwrap();
        assert_eq!((&nest.outer[..], &nest.steps[..], &nest.over[..]), (&[2][..], &[60][..], &[(3, 20)][..]));
        assert_eq!((nest.inner, nest.count), (Inner::Strip(20), 3));
        let nest = Nest::new(&[2, 1, 4, 1, 5], &[0, 3, 4]).unwrap();
        assert_eq!((&nest.outer[..], &nest.steps[..], &nest.over[..]), (&[4][..], &[5][..], &[(2, 20)][..]));
        assert_eq!((nest.inner, nest.count), (Inner::ProcessBuilder(5), 10));
    }

    #[test]
    fn nests_without_folding_are_none() {
        assert_eq!(Nest::new(&[2, 3], &[]), None);
        assert_eq!(Nest::new(&[2, 1, 3], &[1]), None);
        assert_eq!(Nest::new(&[1, 1], &[0, 1]), None);
        assert_eq!(Nest::new(&[], &[]), None);
    }

    #[test]
    fn blocks_stay_within_bounds() {
        for (shape, axes) in
            [(&[1 << 40, 3][..], &[1][..]), (&[1 << 20, 3, 1 << 20], &[1]), (&[1 << 40, 3], &[0])]
        {
            assert!(
                (1..=crate::codegen::code::MAX_BLOCKS).contains(&Nest::new(shape, axes).unwrap().blocks())
            );
        }
    }
}
