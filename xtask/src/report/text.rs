//! The report, as Markdown.

use std::collections::BTreeMap;

use serde_json::Value;

use super::BENCHES;
use super::figures::{Figure, thousands};
use super::machine::Machine;
use super::peers::Peers;
use super::rows::{ROWS, Row};

/// Everything that is in it.
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) figures: Vec<Figure>,
    pub(crate) peers: Option<Peers>,
    /// Sections headed `## <row>`, for rows that miss their budget.
    pub(crate) notes: String,
    /// The committed instruction counts.
    pub(crate) guard: Option<String>,
}

const HEAD: &str = "\
# Benchmarks

Written by `cargo xtask bench-report`; do not edit. Ratios are those of turns that ours and the floor took one after the
other in one run: the median, and the quartiles in brackets. A budget is broken if it is in three quarters of the turns;
`just about` is one that only the median exceeds. Compare nothing between two runs.

";

impl Report {
    pub(crate) fn markdown(&self) -> String {
        let sections = [
            HEAD.to_owned(),
            self.machine(),
            self.budgets(),
            self.others(),
            self.missed(),
            "## Plot\n\n![hits by size, puts by number of entries](REPORT.svg)\n\n".to_owned(),
            self.all(),
            self.instructions(),
        ];
        format!("{}\n", sections.concat().trim_end())
    }

    fn machine(&self) -> String {
        let facts = self.machine.facts.iter();
        let facts: String = facts.map(|(name, value)| line(&[name, value])).collect();
        let unexplained: Vec<&str> = self
            .machine
            .failed
            .iter()
            .map(String::as_str)
            .filter(|bench| !self.figures.iter().any(|figure| figure.bench == **bench && broken(figure)))
            .collect();
        let failed = match unexplained.is_empty() {
            true => String::new(),
            false => format!("Ended in a failure that is no broken budget: {}.\n\n", unexplained.join(", ")),
        };
        format!("{}{facts}\n{failed}", table(&["machine", ""]))
    }

    fn budgets(&self) -> String {
        let rows: String = ROWS.iter().flat_map(|row| self.rows_of(row)).collect();
        let names = ["what", "measured", "ours", "floor", "ratio", "budget", "met"];
        format!("## Budgets\n\n{}{rows}\n", table(&names))
    }

    fn rows_of(&self, row: &Row) -> Vec<String> {
        let (found, all) = row.of(&self.figures);
        if found.is_empty() {
            let why = match row.needs {
                "" => "not measured".to_owned(),
                needs => format!("not measured here: {needs}"),
            };
            return vec![line(&[row.what, "-", "-", "-", "-", row.bound, &why])];
        }
        let shown = |(at, figure): (usize, &&Figure)| {
            let what = if at == 0 { row.what } else { "" };
            let title = match all > found.len() {
                true => format!("{} (the worst of {all})", figure.title()),
                false => figure.title(),
            };
            let met = figure.budget.as_ref().map_or("-".to_owned(), |budget| budget.met());
            let floor = figure.floor.map_or("-".to_owned(), |floor| figure.shown(floor));
            line(&[what, &title, &figure.shown(figure.ours), &floor, &figure.shown_ratio(), row.bound, &met])
        };
        found.iter().enumerate().map(shown).collect()
    }

    fn others(&self) -> String {
        let Some(peers) = &self.peers else {
            return "## Beside other caches\n\nNot measured: see `--peers`.\n\n".to_owned();
        };
        let micros = |time: f64| format!("{time:.1} us");
        let rows: String = peers
            .compared()
            .iter()
            .map(|compared| {
                let shown = compared.times.map(|(ours, theirs, factor)| {
                    [micros(ours), micros(theirs), format!("{factor:.2} times")]
                });
                let [ours, theirs, factor] = shown.unwrap_or_else(|| ["-", "-", "-"].map(str::to_owned));
                line(&[&compared.with, &ours, &theirs, &factor, compared.bound, &compared.met])
            })
            .collect();
        let (ours, floor) = peers.ours_and_floor();
        let scale = match ours.zip(floor) {
            Some((ours, floor)) => {
                format!(" In that run a hit of ours took {ours:.1} us, the harness's floor {floor:.1}.")
            }
            None => String::new(),
        };
        let names = ["hit, beside", "ours", "theirs", "theirs by ours", "bound", "met"];
        let run = peers.run();
        format!("## Beside other caches\n\nRun of {run}.{scale}\n\n{}{rows}\n", table(&names))
    }

    /// Rows that miss their budget, with what people say of them.
    fn missed(&self) -> String {
        let of_ours = ROWS.iter().filter(|row| row.of(&self.figures).0.iter().any(|figure| broken(figure)));
        let mut missed: Vec<String> = of_ours.map(|row| row.what.to_owned()).collect();
        let peers = self.peers.iter().flat_map(Peers::compared);
        missed.extend(peers.filter(|compared| compared.is_broken()).map(|compared| compared.with));
        if missed.is_empty() {
            return "## Missed\n\nNothing.\n\n".to_owned();
        }
        let notes = sections(&self.notes);
        let told = missed.iter().map(|what| {
            let note = notes.get(what.as_str()).map_or("Not explained yet.", |note| note.trim());
            format!("### {what}\n\n{note}\n\n")
        });
        format!("## Missed\n\n{}", told.collect::<String>())
    }

    fn all(&self) -> String {
        let mut text = "## All figures\n\n".to_owned();
        for bench in BENCHES {
            let rows: String = self
                .figures
                .iter()
                .filter(|figure| figure.bench == *bench)
                .map(|figure| {
                    let floor = figure.floor.map_or("-".to_owned(), |floor| figure.shown(floor));
                    line(&[&figure.title(), &figure.shown(figure.ours), &floor, &figure.shown_ratio()])
                })
                .collect();
            if !rows.is_empty() {
                text += &format!("{}{rows}\n", table(&[&format!("`{bench}`"), "ours", "floor", "ratio"]));
            }
        }
        text
    }

    fn instructions(&self) -> String {
        let figures = self.guard.as_ref().and_then(|text| serde_json::from_str::<Value>(text).ok());
        let Some(figures) = figures else { return String::new() };
        let with = |name: &str| figures["counted_with"][name].as_str().unwrap_or("?").to_owned();
        let rows = figures["instructions"].as_object().into_iter().flatten();
        let rows: String =
            rows.map(|(name, count)| line(&[name, &thousands(count.as_u64().unwrap_or(0))])).collect();
        format!(
            "## Instructions\n\nThe committed figures of `cargo xtask guard`, counted with {} and {}; SHA-256 is \
             in plain ones, since valgrind knows no others, and apart.\n\n{}{rows}\n",
            with("valgrind"),
            with("rustc"),
            table(&["workload", "instructions"]),
        )
    }
}

fn broken(figure: &Figure) -> bool {
    figure.budget.as_ref().is_some_and(|budget| budget.is_broken())
}

fn table(names: &[&str]) -> String {
    format!("{}|{}\n", line(names), "---|".repeat(names.len()))
}

fn line(cells: &[&str]) -> String {
    format!("| {} |\n", cells.iter().map(|cell| cell.replace('|', "\\|")).collect::<Vec<_>>().join(" | "))
}

/// What stands below each heading `## `.
fn sections(notes: &str) -> BTreeMap<&str, &str> {
    let parts = notes.split("\n## ").skip(usize::from(!notes.starts_with("## ")));
    parts.filter_map(|part| part.trim_start_matches("## ").split_once('\n')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::figures;

    fn figure(bench: &str, row: &str, verdict: &str, of_budget: f64) -> Figure {
        let budget = serde_json::json!({
            "bench": bench, "row": row, "unit": "s", "ours": 7e-5, "floor": 5e-5, "low": 1.3, "ratio": 1.4, "high": 1.5,
            "budget": "60us", "verdict": verdict, "of_budget": of_budget,
        });
        figures::parse(&budget.to_string(), "x").unwrap().remove(0)
    }

    fn report(figures: Vec<Figure>, notes: &str) -> Report {
        let machine =
            Machine { facts: vec![("processors".into(), "2".into())], failed: vec!["parse_info".into()] };
        Report { machine, figures, peers: None, notes: notes.to_owned(), guard: None }
    }

    #[test]
    fn every_budget_has_a_row_and_what_was_not_measured_says_so() {
        let text = report(vec![figure("key", "Square", "kept", 0.2)], "").markdown();
        for row in ROWS {
            assert!(text.contains(row.what) && text.contains(row.bound), "{}: {text}", row.what);
        }
        assert!(
            text.contains("| Square | 70.0 us | 50.0 us | 1.40 (1.30 to 1.50) | 10 us | yes |"),
            "{text}"
        );
        assert!(text.contains("not measured here: needs `OPBUILD_CORPUS`"), "{text}");
        assert!(text.contains("no broken budget: parse_info."), "{text}");
        assert!(text.contains("## Missed\n\nNothing."), "{text}");
    }

    #[test]
    fn what_is_missed_is_told_with_its_note_or_without() {
        let missed = figure("parse_info", "Square, parse and key", "BROKEN", 1.17);
        let what = "the same, reading it included";
        let text = report(vec![missed.clone()], "").markdown();
        assert!(text.contains("**no**, 17 % over"), "{text}");
        assert!(text.contains(&format!("### {what}\n\nNot explained yet.")), "{text}");
        assert!(!text.contains("no broken budget"), "{text}");
        let notes = format!("About.\n\n## other\n\nNo.\n\n## {what}\n\nThe parser.\n\nTried: less.\n");
        let text = report(vec![missed], &notes).markdown();
        assert!(text.contains(&format!("### {what}\n\nThe parser.\n\nTried: less.\n\n## Plot")), "{text}");
    }
}
