//! The machine on which figures are measured.

use serde_json::{Value, json};

use super::load::{Ticks, averages, noise, read_proc};
use crate::disk;

/// A machine, its software, and the course of a run: names and values, in the order of the report.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Machine {
    pub(crate) facts: Vec<(String, String)>,
    /// Benchmarks that failed.
    pub(crate) failed: Vec<String>,
    /// Disturbances of the run.
    pub(crate) noise: Vec<String>,
    /// The duration of the run, without building.
    pub(crate) seconds: f64,
}

/// The longest duration of a run.
pub(crate) const MOST_SECONDS: f64 = 600.0;

/// Facts that are looked up by name.
const LOAD: &str = "load before";
const PROCESSORS: &str = "processors";

/// Programs whose versions are in the report, by the first line of their output.
const PROGRAMS: [(&str, &str, &[&str]); 4] = [
    ("commit", "git", &["describe", "--always", "--dirty", "--abbrev=12"]),
    ("compiler", "rustc", &["--version"]),
    ("C compiler", "cc", &["--version"]),
    ("date", "date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
];

/// The result of a benchmark.
pub(crate) struct Run {
    pub(crate) bench: &'static str,
    pub(crate) seconds: f64,
    pub(crate) succeeded: bool,
}

impl Machine {
    /// The machine before a run.
    pub(crate) fn before_run() -> Result<Self, String> {
        let first_line = |program: &str, args: &[&str]| {
            let output = disk::output(program, args, None).unwrap_or_default();
            String::from_utf8_lossy(&output).lines().next().unwrap_or("missing").trim().to_owned()
        };
        let mut facts: Vec<(String, String)> = PROGRAMS
            .iter()
            .map(|(name, program, args)| ((*name).to_owned(), first_line(program, args)))
            .collect();
        let processor = read_proc("cpuinfo")?;
        facts.push(("processor".to_owned(), field(&processor, "model name")));
        facts.push((PROCESSORS.to_owned(), processor.matches("processor\t:").count().to_string()));
        let sha = field(&processor, "flags").split_whitespace().any(|flag| flag == "sha_ni");
        facts.push(("SHA instructions".to_owned(), if sha { "yes" } else { "no" }.to_owned()));
        facts.push(("memory".to_owned(), field(&read_proc("meminfo")?, "MemTotal")));
        facts.push(("kernel".to_owned(), read_proc("sys/kernel/osrelease")?.trim().to_owned()));
        facts.push((LOAD.to_owned(), averages()?));
        Ok(Self { facts, failed: Vec::new(), noise: Vec::new(), seconds: 0.0 })
    }

    /// The same after the run, which started at `began`.
    pub(crate) fn after(mut self, runs: &[Run], began: Ticks) -> Result<Self, String> {
        let shares @ [others, stolen] = Ticks::now()?.others_since(began);
        let number = |name: &str| self.fact(name).split(' ').next()?.parse::<f64>().ok();
        self.noise = noise(number(LOAD).unwrap_or(0.0), number(PROCESSORS).unwrap_or(1.0), shares);
        self.facts.push(("load after".to_owned(), averages()?));
        let shares =
            format!("{:.0} % used by others, {:.0} % taken by the host", others * 100.0, stolen * 100.0);
        self.facts.push(("processors meanwhile".to_owned(), shares));
        self.seconds = runs.iter().map(|run| run.seconds).sum();
        let each: Vec<String> = runs.iter().map(|run| format!("{} {:.0}", run.bench, run.seconds)).collect();
        self.facts.push(("seconds".to_owned(), format!("{:.0}: {}", self.seconds, each.join(", "))));
        self.failed = runs.iter().filter(|run| !run.succeeded).map(|run| run.bench.to_owned()).collect();
        Ok(self)
    }

    /// The fact with that name.
    pub(crate) fn fact(&self, name: &str) -> &str {
        self.facts.iter().find(|(found, _)| found == name).map_or("?", |(_, value)| value)
    }

    /// A message if the run took longer than it may.
    pub(crate) fn over_time(&self) -> Option<String> {
        (self.seconds > MOST_SECONDS).then(|| {
            let [took, may] = [self.seconds, MOST_SECONDS].map(|seconds| seconds / 60.0);
            format!("it took {took:.1} minutes, more than the {may:.0} that it may take")
        })
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({ "facts": self.facts, "failed": self.failed, "noise": self.noise, "seconds": self.seconds })
    }

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let parse = || {
            let value: Value = serde_json::from_str(text).ok()?;
            let text = |value: &Value| Some(value.as_str()?.to_owned());
            let fact = |pair: &Value| Some((text(&pair[0])?, text(&pair[1])?));
            let facts = value["facts"].as_array()?.iter().map(fact).collect::<Option<_>>()?;
            let texts = |name: &str| value[name].as_array()?.iter().map(text).collect::<Option<_>>();
            let seconds = value["seconds"].as_f64()?;
            Some(Self { facts, failed: texts("failed")?, noise: texts("noise")?, seconds })
        };
        parse().ok_or_else(|| "the record of the last run cannot be read; run it again".to_owned())
    }
}

/// The value of the first line `name : value`.
fn field(text: &str, name: &str) -> String {
    let found = text.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == name).then(|| value.trim().to_owned())
    });
    found.unwrap_or_else(|| "unknown".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_reads_back_as_it_was_written() {
        let machine = Machine {
            facts: vec![("a".into(), "b".into())],
            failed: vec!["key".into()],
            noise: vec!["the neighbours".into()],
            seconds: 7.5,
        };
        assert_eq!(Machine::parse(&machine.to_json().to_string()), Ok(machine));
        assert!(Machine::parse("{}").is_err());
    }

    #[test]
    fn a_run_adds_up_and_reports_noise_and_a_long_duration() {
        let facts = [(LOAD, "2.50 1.0 1.0"), (PROCESSORS, "2")];
        let facts = facts.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let before = Machine { facts, failed: Vec::new(), noise: Vec::new(), seconds: 0.0 };
        let run = |bench, seconds, succeeded| Run { bench, seconds, succeeded };
        let runs = [run("key", 200.0, true), run("crowd", 400.0, false)];
        let after = before.clone().after(&runs, Ticks::now().unwrap()).unwrap();
        assert_eq!(after.fact("seconds"), "600: key 200, crowd 400");
        assert_eq!((after.failed.clone(), after.over_time()), (vec!["crowd".to_owned()], None));
        assert!(after.noise[0].starts_with("the load was 2.50"), "{:?}", after.noise);
        let long = before.after(&[run("key", 660.0, true)], Ticks::now().unwrap()).unwrap();
        assert_eq!(long.over_time().unwrap(), "it took 11.0 minutes, more than the 10 that it may take");
    }

    #[test]
    fn fields_are_found_by_their_names() {
        let text = "processor\t: 0\nmodel name\t: A: fast one\nflags\t\t: sse sha_ni\n";
        assert_eq!([field(text, "model name"), field(text, "flags")], ["A: fast one", "sse sha_ni"]);
        assert_eq!(field(text, "model"), "unknown");
    }
}
