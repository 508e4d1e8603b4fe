//! What benchmarks wrote down for programs.

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

/// What is allowed, and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Budget {
    pub(crate) allowed: String,
    pub(crate) verdict: String,
    /// What was measured, by what is allowed.
    pub(crate) of_budget: f64,
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

    /// What it is about, in words.
    pub(crate) fn title(&self) -> String {
        let mut title = self.row.clone();
        if let Some(entries) = self.entries {
            title += &format!(", N = {}", thousands(entries));
        }
        if let Some(bytes) = self.bytes {
            title += &format!(", {} bytes", thousands(bytes));
        }
        title
    }

    pub(crate) fn shown(&self, value: f64) -> String {
        match self.unit.as_str() {
            "s" => seconds(value),
            "B" => format!("{:.1} MB", value / 1e6),
            "" => format!("{value:.2}"),
            unit => format!("{value:.2} {unit}"),
        }
    }

    pub(crate) fn shown_ratio(&self) -> String {
        self.ratio.map_or("-".to_owned(), |[low, ratio, high]| format!("{ratio:.2} ({low:.2} to {high:.2})"))
    }
}

impl Budget {
    /// Whether it is met, and if it is not, by how much.
    pub(crate) fn met(&self) -> String {
        let over = (self.of_budget - 1.0) * 100.0;
        match self.verdict.as_str() {
            "kept" => "yes".to_owned(),
            "just about" => {
                format!("just about: {over:.0} % over in the middle, not in a quarter of the turns")
            }
            "BROKEN" => format!("**no**, {over:.0} % over"),
            other => other.to_owned(),
        }
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.verdict == "BROKEN"
    }
}

/// The figures of `benches` in `folder`, in their order.
pub(crate) fn read(folder: &Path, benches: &[&str]) -> Result<Vec<Figure>, String> {
    let mut figures = Vec::new();
    for bench in benches {
        let name = format!("{bench}.jsonl");
        figures.extend(parse(&disk::text_if_there(folder, &name)?.unwrap_or_default(), &name)?);
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

/// A time in the unit that fits.
pub(crate) fn seconds(value: f64) -> String {
    let (number, unit) = match value {
        value if value < 1e-6 => (value * 1e9, "ns"),
        value if value < 1e-3 => (value * 1e6, "us"),
        value if value < 1.0 => (value * 1e3, "ms"),
        value => (value, "s"),
    };
    format!("{number:.1} {unit}")
}

/// A number with its thousands apart.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups.join(" ")
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
        assert_eq!(figure.title(), "hit, N = 1 000, 8 192 bytes");
        assert_eq!(
            (figure.shown(figure.ours), figure.shown_ratio()),
            ("15.0 us".into(), "1.25 (1.10 to 1.50)".into())
        );
        assert_eq!(figure.budget.as_ref().unwrap().met(), "**no**, 8 % over");
        let kept = parse(&LINE.replace('\n', "").replace("BROKEN", "kept"), "x").unwrap();
        assert_eq!(kept[0].budget.as_ref().unwrap().met(), "yes");
    }

    #[test]
    fn what_is_no_figure_is_told() {
        for line in ["{}", "ours 3 us", &LINE.replace('\n', "").replace("\"ours\"", "\"hours\"")] {
            let message = parse(&format!("{}\n{line}\n", LINE.replace('\n', "")), "x.jsonl").unwrap_err();
            assert!(message.starts_with("x.jsonl:2: no figure"), "{message}");
        }
    }

    #[test]
    fn times_have_the_unit_that_fits() {
        let shown = [3.2e-8, 1.5e-5, 0.0234, 2.5].map(seconds);
        assert_eq!(shown, ["32.0 ns", "15.0 us", "23.4 ms", "2.5 s"]);
        assert_eq!(thousands(1_234_567), "1 234 567");
    }
}
