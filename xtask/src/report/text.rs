//! The report, as Markdown.

use serde_json::Value;

use super::figures::{Budget, Figure, Outcome, thousands, worst};
use super::machine::Machine;
use super::notes::Notes;
use super::peers::{Compared, Peers};
use super::rows::{BENCHES, Row, TABLES, rows};

/// The content of the report.
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) figures: Vec<Figure>,
    pub(crate) peers: Option<Peers>,
    /// Explanations of missed budgets.
    pub(crate) notes: Notes,
    /// The committed instruction counts.
    pub(crate) guard: Option<String>,
}

const BUDGETS: &str = "\
## Budgets

Ours and what it stands beside, the least that has to be done or what the bound names, took turns in one run. The ratio is
the median of the turns' ratios, with their quartiles in brackets. A budget is missed if it is in three quarters of the
turns; *just about* if only in the middle of them. Of several figures the worst is shown. Compare nothing between two runs.

";

impl Report {
    pub(crate) fn markdown(&self) -> String {
        let sections = [
            self.summary(),
            self.budgets(),
            self.others(),
            "## Plot\n\n![hits by size, puts by number of entries, and other caches](REPORT.svg)\n\n"
                .to_owned(),
            self.missed(),
            self.machine(),
            self.all(),
            self.instructions(),
        ];
        format!("{}\n", sections.concat().trim_end())
    }

    /// The main results in a few lines.
    fn summary(&self) -> String {
        let ours = tally("budgets", rows().map(|row| row.outcome(&self.figures)));
        let others = match self.compared() {
            compared if compared.is_empty() => String::new(),
            compared => {
                format!(" {}.", tally("bounds beside other caches", compared.iter().map(|it| it.outcome)))
            }
        };
        let fact = |name| self.machine.fact(name);
        let warnings: String = self.warnings().iter().map(|message| format!("> {message}\n>\n")).collect();
        let warnings =
            if warnings.is_empty() { warnings } else { format!("{}\n", warnings.trim_end_matches(">\n")) };
        format!(
            "# Benchmarks\n\n{ours}.{others}\n\n{}, commit {}, {} processors ({}), {:.0} s. Written by \
             `cargo xtask bench-report`; do not edit.\n\n{warnings}",
            fact("date"),
            fact("commit"),
            fact("processors"),
            fact("processor"),
            self.machine.seconds,
        )
    }

    /// Reasons to doubt the figures.
    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if !self.machine.noise.is_empty() {
            let noise = self.machine.noise.join("; ");
            warnings.push(format!("**Noisy**: {noise}. In quiet, figures are better and steadier."));
        }
        if self.machine.fact("commit").ends_with("-dirty") {
            warnings.push("**No commit**: files were changed since the one that is named.".to_owned());
        }
        let of_no_row: Vec<String> = self.over_in_no_row().map(beside_rows).collect();
        if !of_no_row.is_empty() {
            warnings.push(format!("**Missed, and in no row**: {}.", of_no_row.join("; ")));
        }
        let missed = |bench: &String| {
            let broken = |figure: &Figure| figure.bench == *bench && outcome(figure) == Some(Outcome::Missed);
            self.figures.iter().any(broken)
        };
        let failed: Vec<&str> =
            self.machine.failed.iter().filter(|bench| !missed(bench)).map(String::as_str).collect();
        if !failed.is_empty() {
            warnings.push(format!("**Failed**, and not by a missed budget: {}.", failed.join(", ")));
        }
        warnings.extend(self.machine.over_time().map(|message| format!("**Long**: {message}.")));
        warnings
    }

    fn budgets(&self) -> String {
        let names = ["what", "measured", "ours", "beside", "ratio", "bound", "met"];
        let tables = TABLES.map(|(title, rows)| {
            let rows: String = rows.iter().map(|row| self.row(row)).collect();
            format!("### {title}\n\n{}{rows}\n", table(&names))
        });
        format!("{BUDGETS}{}", tables.concat())
    }

    fn row(&self, row: &Row) -> String {
        let found = row.of(&self.figures);
        let Some(figure) = worst(&found) else {
            let why = match row.needs {
                "" => "not measured".to_owned(),
                needs => format!("not measured here: {needs}"),
            };
            return line(&[row.title, "-", "-", "-", "-", row.bound, &why]);
        };
        let title = match found.len() {
            1 => figure.title(),
            all => format!("{} (worst of {all})", figure.title()),
        };
        let [ours, beside, ratio] = cells(figure);
        line(&[row.title, &title, &ours, &beside, &ratio, row.bound, &met(figure)])
    }

    fn compared(&self) -> Vec<Compared> {
        self.peers.as_ref().map(Peers::compared).unwrap_or_default()
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
                line(&[&compared.with, &ours, &theirs, &factor, compared.bound, &compared.met()])
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
        let noise = peers.noise().map(|noise| format!("> **Noisy**: {noise}.\n\n")).unwrap_or_default();
        format!("## Beside other caches\n\nRun of {run}.{scale}\n\n{noise}{}{rows}\n", table(&names))
    }

    /// Figures over a budget that belong to no row.
    fn over_in_no_row(&self) -> impl Iterator<Item = &Figure> {
        let has_row = |figure: &Figure| rows().any(|row| row.has(figure));
        self.figures.iter().filter(move |figure| is_over(figure) && !has_row(figure))
    }

    /// Rows that miss their budget, at least by the median: the name, with its figures.
    fn misses(&self) -> Vec<(String, Vec<String>)> {
        let shown = |figure: &Figure| format!("{}: {}, {}", figure.title(), cells(figure)[0], met(figure));
        let of_ours = rows().map(|row| {
            let found = row.of(&self.figures);
            let over = found.into_iter().filter(|figure| is_over(figure));
            (row.title.to_owned(), over.map(shown).collect::<Vec<_>>())
        });
        let of_no_row = self.over_in_no_row().map(|figure| (beside_rows(figure), vec![shown(figure)]));
        let compared = self.compared().into_iter().filter(|compared| compared.outcome == Outcome::Missed);
        let of_others = compared.map(|compared| (compared.with.clone(), vec![compared.met()]));
        let of_ours = of_ours.filter(|(_, missed)| !missed.is_empty());
        of_ours.chain(of_no_row).chain(of_others).collect()
    }

    fn missed(&self) -> String {
        let misses = self.misses();
        if misses.is_empty() {
            return "## Missed\n\nNothing.\n\n".to_owned();
        }
        let message = misses.iter().map(|(title, figures)| {
            let figures: String = figures.iter().map(|figure| format!("- {figure}\n")).collect();
            let note = self.notes.of(title).unwrap_or("**Not explained yet.**");
            format!("### {title}\n\n{figures}\n{note}\n\n")
        });
        format!("## Missed\n\n{}", message.collect::<String>())
    }

    /// An error for misses without a note, and for notes whose heading is no row.
    pub(crate) fn unexplained(&self) -> Result<(), String> {
        let misses: Vec<String> = self.misses().into_iter().map(|(title, _)| title).collect();
        let names = rows().map(|row| row.title.to_owned()).chain(Peers::names()).chain(misses.clone());
        let unexplained = misses.into_iter().filter(|title| self.notes.of(title).is_none()).collect();
        let of_no_row = self.notes.not_among(&names.collect::<Vec<_>>());
        let message = [
            ("misses its budget, and no note says why", unexplained),
            ("is the heading of a note, and of no row", of_no_row),
        ];
        let message: Vec<String> = message
            .iter()
            .flat_map(|(title, names)| names.iter().map(move |name| format!("`{name}` {title}")))
            .collect();
        if message.is_empty() { Ok(()) } else { Err(message.join("\n  ")) }
    }

    fn machine(&self) -> String {
        let facts = self.machine.facts.iter();
        let facts: String = facts.map(|(name, value)| line(&[name, value])).collect();
        format!("## Machine\n\n{}{facts}\n", table(&["", ""]))
    }

    fn all(&self) -> String {
        let mut text = "## All figures\n\n".to_owned();
        for bench in BENCHES {
            let of_bench = self.figures.iter().filter(|figure| figure.bench == *bench);
            let rows: String = of_bench
                .map(|figure| {
                    let [ours, beside, ratio] = cells(figure);
                    line(&[&figure.title(), &ours, &beside, &ratio, &met(figure)])
                })
                .collect();
            if !rows.is_empty() {
                text +=
                    &format!("{}{rows}\n", table(&[&format!("`{bench}`"), "ours", "beside", "ratio", "met"]));
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

/// The number of met budgets, of all, and the results of the others.
fn tally(title: &str, outcomes: impl Iterator<Item = Outcome>) -> String {
    let outcomes: Vec<Outcome> = outcomes.collect();
    let count = |wanted| outcomes.iter().filter(|outcome| **outcome == wanted).count();
    let others = [
        (Outcome::JustAbout, "just about"),
        (Outcome::Missed, "missed"),
        (Outcome::NotMeasured, "not measured"),
    ];
    let others = others.map(|(outcome, name)| (count(outcome), name));
    let others: String = others
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, name)| format!(", {count} {name}"))
        .collect();
    format!("**{} of {} {title} are met**{others}", count(Outcome::Met), outcomes.len())
}

/// The name of a figure that belongs to no row.
fn beside_rows(figure: &Figure) -> String {
    format!("`{}`: {}", figure.bench, figure.title())
}

fn outcome(figure: &Figure) -> Option<Outcome> {
    figure.budget.as_ref().map(Budget::outcome)
}

/// Whether its median, at least, exceeds the budget.
fn is_over(figure: &Figure) -> bool {
    matches!(outcome(figure), Some(Outcome::Missed | Outcome::JustAbout))
}

fn met(figure: &Figure) -> String {
    figure.budget.as_ref().map_or("-".to_owned(), |budget| budget.met())
}

/// Opkeep's value, the value beside it, and the ratio.
fn cells(figure: &Figure) -> [String; 3] {
    let beside = figure.floor.map_or("-".to_owned(), |floor| figure.shown(floor));
    [figure.shown(figure.ours), beside, figure.shown_ratio()]
}

fn table(names: &[&str]) -> String {
    format!("{}|{}\n", line(names), "---|".repeat(names.len()))
}

fn line(cells: &[&str]) -> String {
    format!("| {} |\n", cells.iter().map(|cell| cell.replace('|', "\\|")).collect::<Vec<_>>().join(" | "))
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
        let facts = [("commit", "abc-dirty"), ("processors", "2")];
        let machine = Machine {
            facts: facts.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            failed: vec!["parse_info".into()],
            noise: Vec::new(),
            seconds: 300.0,
        };
        Report { machine, figures, peers: None, notes: Notes::parse(notes), guard: None }
    }

    #[test]
    fn every_budget_has_a_row_also_if_it_was_not_measured() {
        let text = report(vec![figure("key", "Square", "kept", 0.2)], "").markdown();
        for row in rows() {
            assert!(text.contains(row.title) && text.contains(row.bound), "{}: {text}", row.title);
        }
        assert!(
            text.contains("| Square | 70.0 us | 50.0 us | 1.40 (1.30 to 1.50) | 10 us | yes |"),
            "{text}"
        );
        assert!(text.contains("not measured here: needs `OPKEEP_CORPUS`"), "{text}");
        assert!(text.contains("not by a missed budget: parse_info."), "{text}");
        assert!(text.contains("## Missed\n\nNothing."), "{text}");
        let (all, message) = (rows().count(), "budgets are met**,");
        assert!(text.contains(&format!("**1 of {all} {message} {} not measured.", all - 1)), "{text}");
    }

    #[test]
    fn misses_are_reported_with_and_without_a_note() {
        let missed = figure("parse_info", "Square, parse", "BROKEN", 1.17);
        let title = "reading the same descriptor";
        let bare = report(vec![missed.clone()], "");
        let text = bare.markdown();
        let message = format!("### {title}\n\n- Square, parse: 70.0 us, **no**, 17 % over\n");
        assert!(text.contains(&format!("{message}\n**Not explained yet.**")), "{text}");
        assert!(!text.contains("not by a missed budget"), "{text}");
        assert_eq!(
            bare.unexplained().unwrap_err(),
            format!("`{title}` misses its budget, and no note says why")
        );
        let notes = format!("About.\n\n## {title}\n\nThe parser.\n\nTried: less.\n");
        let noted = report(vec![missed.clone()], &notes);
        let text = noted.markdown();
        assert!(text.contains(&format!("{message}\nThe parser.\n\nTried: less.\n\n## ")), "{text}");
        assert_eq!(noted.unexplained(), Ok(()));
        // A median over the budget is a miss that needs an explanation, too.
        let close = report(vec![figure("parse_info", "Square, parse", "just about", 1.1)], "");
        assert!(close.markdown().contains(&format!("### {title}\n\n- Square, parse: 70.0 us, just about")));
        assert!(close.unexplained().is_err() && close.markdown().contains("not by a missed budget"));
        let strange = report(vec![missed], &format!("{notes}\n## other\n\nNo.\n"));
        assert_eq!(strange.unexplained().unwrap_err(), "`other` is the heading of a note, and of no row");
    }

    #[test]
    fn a_miss_without_a_row_is_reported() {
        let walk = Figure { entries: Some(1000), ..figure("store_gc", "walk", "BROKEN", 1.5) };
        let mut report = report(vec![walk], "");
        report.machine.failed = vec!["store_gc".into()];
        let (text, name) = (report.markdown(), "`store_gc`: walk, N = 1\u{202f}000");
        let above = text.split("## Budgets").next().unwrap();
        assert!(above.contains(&format!("> **Missed, and in no row**: {name}.")), "{text}");
        assert!(text.contains(&format!("### {name}\n\n- walk")), "{text}");
        assert!(report.unexplained().unwrap_err().contains(name));
        report.notes = Notes::parse("## `store_gc`: walk, N = 1 000\n\nSmall.\n");
        assert_eq!(report.unexplained(), Ok(()));
    }

    #[test]
    fn reasons_to_doubt_a_run_are_above_its_tables() {
        let mut report = report(Vec::new(), "");
        report.machine.noise = vec!["the load was 5.47 before it began, on 2 processors".into()];
        report.machine.seconds = 900.0;
        let text = report.markdown();
        let above = text.split("## Budgets").next().unwrap();
        for message in
            ["> **Noisy**: the load was 5.47", "> **No commit**", "> **Long**: it took 15.0 minutes"]
        {
            assert!(above.contains(message), "{message}: {above}");
        }
        report.machine.facts[0].1 = "abc".into();
        assert!(!report.markdown().contains("No commit"));
    }

    #[test]
    fn of_several_figures_the_worst_stands_in_the_table_and_all_below() {
        let figures = [("build a", "kept", 0.5), ("build b", "BROKEN", 1.1), ("build c", "kept", 0.9)];
        let figures = figures.map(|(row, verdict, of)| figure("cli_start", row, verdict, of)).to_vec();
        let text = report(figures, "").markdown();
        let (above, below) = text.split_once("## All figures").unwrap();
        assert!(above.contains("| build b (worst of 3) | 70.0 us |"), "{above}");
        assert!(!above.contains("build a") && !above.contains("build c"), "{above}");
        assert!(["build a", "build b", "build c"].iter().all(|row| below.contains(row)), "{below}");
    }
}
