//! The figures that benchmarks write for programs.

use std::path::Path;

use serde_json::Value;

use crate::disk;

/// One row of a benchmark.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Figure {
    pub(crate) bench: String,
    pub(crate) row: String,
    pub(crate) entries: Option<u64>,
    pub(crate) bytes: Option<u64>,
    pub(crate) unit: String,
    pub(crate) ours: f64,
    pub(crate) floor: Option<f64>,
    /// Lower quartile, median, upper quartile.
    pub(crate) ratio: Option<[f64; 3]>,
    pub(crate) budget: Option<Budget>,
}

/// A budget and its result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Budget {
    pub(crate) allowed: String,
    pub(crate) verdict: String,
    /// The measured value divided by the budget.
    pub(crate) of_budget: f64,
}

/// The result of a budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Outcome {
    Met,
    /// The median exceeds the budget, but at least a quarter of the turns meet it.
    JustAbout,
    Missed,
    NotMeasured,
}

impl Figure {
    fn of(value: &Value) -> Option<Self> {
        let text = |name: &str| Some(value[name].as_str()?.to_owned());
        let number = |name: &str| value[name].as_f64();
        let ratio = || Some([number("low")?, number("ratio")?, number("high")?]);
        let budget = || {
            let (allowed, verdict) = (text("budget")?, text("verdict")?);
            Some(Budget { allowed, verdict, of_budget: number("of_budget")? })
        };
        Some(Self {
            bench: text("bench")?,
            row: text("row")?,
            entries: value["entries"].as_u64(),
            bytes: value["bytes"].as_u64(),
            unit: text("unit")?,
            ours: number("ours")?,
            floor: number("floor"),
            ratio: ratio(),
            budget: budget(),
        })
    }

    /// Its subject in words.
    pub(crate) fn title(&self) -> String {
        let mut title = self.row.clone();
        if let Some(entries) = self.entries {
            title += &format!(", N = {}", thousands(entries));
        }
        if let Some(bytes) = self.bytes {
            title += &format!(", {}", size(bytes as f64));
        }
        title
    }

    pub(crate) fn shown(&self, value: f64) -> String {
        match self.unit.as_str() {
            "s" => seconds(value),
            "B" => size(value),
            "" => count(value),
            unit => format!("{} {unit}", count(value)),
        }
    }

    pub(crate) fn shown_ratio(&self) -> String {
        let digits = |ratio: f64| if ratio < 0.1 { 3 } else { 2 };
        self.ratio.map_or("-".to_owned(), |[low, ratio, high]| {
            let digits = digits(ratio);
            format!("{ratio:.digits$} ({low:.digits$} to {high:.digits$})")
        })
    }
}

impl Budget {
    /// Whether the budget is met, and if not, by how much it is exceeded.
    pub(crate) fn met(&self) -> String {
        let over = (self.of_budget - 1.0) * 100.0;
        match self.outcome() {
            Outcome::Met => "yes".to_owned(),
            Outcome::JustAbout => {
                format!("just about: {} over, and not in a quarter of the turns", share(over))
            }
            Outcome::Missed => format!("**no**, {} over", share(over)),
            Outcome::NotMeasured => self.verdict.clone(),
        }
    }

    pub(crate) fn outcome(&self) -> Outcome {
        match self.verdict.as_str() {
            "kept" => Outcome::Met,
            "just about" => Outcome::JustAbout,
            "BROKEN" => Outcome::Missed,
            _ => Outcome::NotMeasured,
        }
    }

    /// The order from best to worst: by the outcome, then by the ratio to the budget.
    fn badness(&self) -> (u8, f64) {
        let rank = match self.outcome() {
            Outcome::Missed => 2,
            Outcome::JustAbout => 1,
            Outcome::Met | Outcome::NotMeasured => 0,
        };
        (rank, self.of_budget)
    }
}

/// A percentage; a small one is not shown as zero.
pub(crate) fn share(percent: f64) -> String {
    if percent < 1.0 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// The figure that comes closest to its budget, or exceeds it most.
pub(crate) fn worst<'a>(figures: &[&'a Figure]) -> Option<&'a Figure> {
    let badness = |figure: &Figure| figure.budget.as_ref().map_or((0, 0.0), Budget::badness);
    let order = |one: &Figure, other: &Figure| {
        let (one, other) = (badness(one), badness(other));
        one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
    };
    figures.iter().copied().max_by(|one, other| order(one, other))
}

/// The figures of `benches` in `directory`, in their order.
pub(crate) fn read(directory: &Path, benches: &[&str]) -> Result<Vec<Figure>, String> {
    let mut figures = Vec::new();
    for bench in benches {
        let name = format!("{bench}.jsonl");
        figures.extend(parse(&disk::text_if_exists(directory, &name)?.unwrap_or_default(), &name)?);
    }
    Ok(figures)
}

pub(crate) fn parse(text: &str, name: &str) -> Result<Vec<Figure>, String> {
    let parsed = |line: &str| Figure::of(&serde_json::from_str(line).ok()?);
    let lines = (1..).zip(text.lines());
    lines
        .map(|(number, line)| parsed(line).ok_or_else(|| format!("{name}:{number}: no figure: {line}")))
        .collect()
}

/// A time in a fitting unit.
pub(crate) fn seconds(value: f64) -> String {
    let (number, unit) = match value {
        value if value < 1e-6 => (value * 1e9, "ns"),
        value if value < 1e-3 => (value * 1e6, "us"),
        value if value < 1.0 => (value * 1e3, "ms"),
        value => (value, "s"),
    };
    format!("{number:.1} {unit}")
}

/// A count: a whole number, unless it is a mean.
fn count(value: f64) -> String {
    let whole = (value.round() - value).abs() < 0.005;
    if whole { thousands(value.round() as u64) } else { format!("{value:.2}") }
}

/// A size in a fitting unit, without `.0`.
pub(crate) fn size(bytes: f64) -> String {
    let (number, unit) = match bytes {
        bytes if bytes < 1024.0 => (bytes, "B"),
        bytes if bytes < 1024.0 * 1024.0 => (bytes / 1024.0, "KiB"),
        bytes => (bytes / 1024.0 / 1024.0, "MiB"),
    };
    format!("{} {unit}", format!("{number:.1}").trim_end_matches(".0"))
}

/// A number with its thousands separated by a narrow no-break space.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups.join("\u{202f}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"bench":"store_hit","row":"hit","entries":1000,"bytes":8192,"unit":"s","ours":1.5e-5,
        "floor":1.2e-5,"low":1.1,"ratio":1.25,"high":1.5,"budget":"1.25 times","verdict":"BROKEN","of_budget":1.08}"#;

    #[test]
    fn a_line_is_a_figure() {
        let figures = parse(&LINE.replace('\n', ""), "x").unwrap();
        let [figure] = &figures[..] else { panic!("{figures:?}") };
        assert_eq!(figure.title(), "hit, N = 1\u{202f}000, 8 KiB");
        assert_eq!(
            (figure.shown(figure.ours), figure.shown_ratio()),
            ("15.0 us".into(), "1.25 (1.10 to 1.50)".into())
        );
        assert_eq!(figure.budget.as_ref().unwrap().met(), "**no**, 8 % over");
        let kept = parse(&LINE.replace('\n', "").replace("BROKEN", "kept"), "x").unwrap();
        assert_eq!(kept[0].budget.as_ref().unwrap().met(), "yes");
    }

    #[test]
    fn invalid_figures_are_reported() {
        for line in ["{}", "ours 3 us", &LINE.replace('\n', "").replace("\"ours\"", "\"hours\"")] {
            let message = parse(&format!("{}\n{line}\n", LINE.replace('\n', "")), "x.jsonl").unwrap_err();
            assert!(message.starts_with("x.jsonl:2: no figure"), "{message}");
        }
    }

    #[test]
    fn times_have_the_unit_that_fits() {
        let shown = [3.2e-8, 1.5e-5, 0.0234, 2.5].map(seconds);
        assert_eq!(shown, ["32.0 ns", "15.0 us", "23.4 ms", "2.5 s"]);
        assert_eq!(thousands(1_234_567), "1\u{202f}234\u{202f}567");
    }

    #[test]
    fn sizes_and_counts_have_no_more_digits_than_they_need() {
        let sizes = [75.0, 8192.0, 6209.0, 1_048_576.0, 11_300_000.0].map(size);
        assert_eq!(sizes, ["75 B", "8 KiB", "6.1 KiB", "1 MiB", "10.8 MiB"]);
        let figure = |unit: &str| Figure { unit: unit.to_owned(), ..Figure::default() };
        assert_eq!(figure("").shown(5650.0), "5\u{202f}650");
        assert_eq!(figure("").shown(27.08), "27.08");
        assert_eq!(figure("B").shown(2048.0), "2 KiB");
        let ratio = |ratio| Figure { ratio: Some(ratio), ..Figure::default() }.shown_ratio();
        assert_eq!(ratio([0.0031, 0.0036, 0.004]), "0.004 (0.003 to 0.004)");
        assert_eq!(ratio([0.3, 0.354, 0.4]), "0.35 (0.30 to 0.40)");
    }

    #[test]
    fn the_worst_of_several_misses_if_any_does() {
        let with = |verdict: &str, of_budget| Figure {
            budget: Some(Budget { allowed: String::new(), verdict: verdict.to_owned(), of_budget }),
            ..Figure::default()
        };
        // A median far above the budget is no miss if a quarter of the turns meets it.
        let figures = [with("kept", 0.9), with("BROKEN", 1.1), with("just about", 3.0), Figure::default()];
        assert_eq!(worst(&figures.iter().collect::<Vec<_>>()), Some(&figures[1]));
        assert_eq!(worst(&[&figures[0], &figures[2]]), Some(&figures[2]));
        assert_eq!(worst(&[]), None);
    }
}
