//! What figures were measured on.

use serde_json::{Value, json};

use super::Run;
use crate::disk;

/// A machine, what ran on it and how that went: names and what they are, in the order of the report.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Machine {
    pub(crate) facts: Vec<(String, String)>,
    /// Benchmarks that ended in a failure.
    pub(crate) failed: Vec<String>,
}

/// Programs whose versions are told: what is said first counts.
const PROGRAMS: [(&str, &str, &[&str]); 4] = [
    ("commit", "git", &["describe", "--always", "--dirty", "--abbrev=12"]),
    ("compiler", "rustc", &["--version"]),
    ("C compiler", "cc", &["--version"]),
    ("date", "date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
];

impl Machine {
    /// Before anything runs.
    pub(crate) fn look() -> Result<Self, String> {
        let said = |program: &str, args: &[&str]| {
            let said = disk::output(program, args, None).unwrap_or_default();
            String::from_utf8_lossy(&said).lines().next().unwrap_or("not there").trim().to_owned()
        };
        let mut facts: Vec<(String, String)> =
            PROGRAMS.iter().map(|(name, program, args)| ((*name).to_owned(), said(program, args))).collect();
        let processor = kernel_says("cpuinfo")?;
        facts.push(("processor".to_owned(), field(&processor, "model name")));
        facts.push(("processors".to_owned(), processor.matches("processor\t:").count().to_string()));
        let sha = field(&processor, "flags").split_whitespace().any(|flag| flag == "sha_ni");
        facts.push(("SHA instructions".to_owned(), if sha { "yes" } else { "no" }.to_owned()));
        facts.push(("memory".to_owned(), field(&kernel_says("meminfo")?, "MemTotal")));
        facts.push(("kernel".to_owned(), kernel_says("sys/kernel/osrelease")?.trim().to_owned()));
        facts.push(("load before".to_owned(), load()?));
        Ok(Self { facts, failed: Vec::new() })
    }

    /// And when all of them have run.
    pub(crate) fn after(mut self, runs: &[Run]) -> Result<Self, String> {
        self.facts.push(("load after".to_owned(), load()?));
        let seconds: f64 = runs.iter().map(|run| run.seconds).sum();
        let each: Vec<String> = runs.iter().map(|run| format!("{} {:.0}", run.bench, run.seconds)).collect();
        self.facts.push(("seconds".to_owned(), format!("{seconds:.0}: {}", each.join(", "))));
        self.failed = runs.iter().filter(|run| !run.did_well).map(|run| run.bench.to_owned()).collect();
        Ok(self)
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({ "facts": self.facts, "failed": self.failed })
    }

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let parse = || {
            let value: Value = serde_json::from_str(text).ok()?;
            let text = |value: &Value| Some(value.as_str()?.to_owned());
            let fact = |pair: &Value| Some((text(&pair[0])?, text(&pair[1])?));
            let facts = value["facts"].as_array()?.iter().map(fact).collect::<Option<_>>()?;
            let failed = value["failed"].as_array()?.iter().map(text).collect::<Option<_>>()?;
            Some(Self { facts, failed })
        };
        parse().ok_or_else(|| "what is kept of the last run cannot be read; run it again".to_owned())
    }
}

fn kernel_says(what: &str) -> Result<String, String> {
    let bytes = disk::bytes(std::path::Path::new("/proc"), what)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// How many processes wanted a processor in the last minute, and in 5 and 15.
fn load() -> Result<String, String> {
    Ok(kernel_says("loadavg")?.split_whitespace().take(3).collect::<Vec<_>>().join(" "))
}

/// The value of the first line `name : value`.
fn field(text: &str, name: &str) -> String {
    let found = text.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == name).then(|| value.trim().to_owned())
    });
    found.unwrap_or_else(|| "not told".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_kept_as_it_was() {
        let machine = Machine { facts: vec![("a".into(), "b".into())], failed: vec!["key".into()] };
        assert_eq!(Machine::parse(&machine.to_json().to_string()), Ok(machine));
        assert!(Machine::parse("{}").is_err());
    }

    #[test]
    fn fields_are_found_by_their_names() {
        let text = "processor\t: 0\nmodel name\t: A: fast one\nflags\t\t: sse sha_ni\n";
        assert_eq!([field(text, "model name"), field(text, "flags")], ["A: fast one", "sse sha_ni"]);
        assert_eq!(field(text, "model"), "not told");
    }
}
