//! The table: what happened in each case with the framework's own cache and with ours.

use std::fmt::Write as _;

use serde_json::Value;

/// A row: cases of one group in which the same happened in both columns.
#[derive(Debug, PartialEq)]
struct Row {
    group: String,
    items: Vec<String>,
    stock: String,
    ours: String,
    verdict: String,
}

/// The table of all frameworks.
pub(super) fn markdown(frameworks: &[Value]) -> String {
    let mut text = String::new();
    for framework in frameworks {
        let (name, version) = (of(framework, "framework"), of(framework, "version"));
        let _ =
            write!(text, "### {name} {version}\n\n| case | stock | opkeep | verdict |\n|---|---|---|---|\n");
        for Row { group, items, stock, ours, verdict } in rows(framework) {
            let items = items.join(", ");
            let case = if items.is_empty() { group } else { format!("{group}: {items}") };
            let _ = writeln!(text, "| {case} | {stock} | {ours} | {verdict} |");
        }
        text.push('\n');
    }
    text
}

/// What is wrong, a line a case.
pub(super) fn wrong(frameworks: &[Value]) -> Vec<String> {
    let mut lines = Vec::new();
    for framework in frameworks {
        for case in cases(framework).filter(|case| case["verdict"] == "WRONG") {
            let reasons = case["wrong"].as_array().into_iter().flatten().filter_map(Value::as_str);
            lines.push(format!(
                "  {} {}, {} {}: {}",
                of(framework, "framework"),
                of(framework, "version"),
                of(case, "group"),
                of(case, "item"),
                reasons.collect::<Vec<_>>().join("; ")
            ));
        }
    }
    lines
}

/// The rows of one framework, in the order in which the cases ran.
fn rows(framework: &Value) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for (group, item) in names(framework) {
        let cell = |column: &str| {
            cases(framework).find(|case| {
                of(case, "group") == group && of(case, "item") == item && of(case, "column") == column
            })
        };
        let text = |case: Option<&Value>| case.map_or_else(|| "-".to_owned(), |case| of(case, "text"));
        let stock = text(cell("stock"));
        let (ours, verdict) = match cell("opkeep") {
            Some(case) => (of(case, "text"), of(case, "verdict")),
            None => ("-".to_owned(), "-".to_owned()),
        };
        let row = Row { group, items: vec![item], stock, ours, verdict };
        let same = |other: &&mut Row| {
            (&other.group, &other.stock, &other.ours, &other.verdict)
                == (&row.group, &row.stock, &row.ours, &row.verdict)
        };
        match rows.iter_mut().find(same) {
            Some(existing) => existing.items.extend(row.items),
            None => rows.push(row),
        }
    }
    rows
}

/// Group and item of each case, once.
fn names(framework: &Value) -> Vec<(String, String)> {
    let mut names = Vec::new();
    for case in cases(framework) {
        let name = (of(case, "group"), of(case, "item"));
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn cases(framework: &Value) -> impl Iterator<Item = &Value> {
    framework["cases"].as_array().into_iter().flatten()
}

fn of(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn case(item: &str, column: &str, text: &str, verdict: Option<&str>) -> Value {
        json!({ "group": "a file is cut", "item": item, "column": column, "text": text, "verdict": verdict,
                "wrong": if verdict == Some("WRONG") { vec!["start 1 got: damaged"] } else { Vec::new() } })
    }

    fn found() -> Vec<Value> {
        let cases = [
            case("`.cubin`", "stock", "served damaged", None),
            case("`.json`", "stock", "served damaged", None),
            case("`.ptx`", "stock", "served damaged", None),
            case("`.cubin`", "opkeep", "healed", Some("ok")),
            case("`.json`", "opkeep", "healed", Some("ok")),
            case("`.ptx`", "opkeep", "served damaged", Some("WRONG")),
        ];
        vec![json!({ "framework": "triton", "version": "3.9.0", "cases": cases })]
    }

    #[test]
    fn cases_with_the_same_cells_share_a_row() {
        let text = markdown(&found());
        assert!(
            text.contains("| a file is cut: `.cubin`, `.json` | served damaged | healed | ok |"),
            "{text}"
        );
        assert!(
            text.contains("| a file is cut: `.ptx` | served damaged | served damaged | WRONG |"),
            "{text}"
        );
    }

    #[test]
    fn a_wrong_case_is_named_with_its_reason() {
        assert_eq!(wrong(&found()), ["  triton 3.9.0, a file is cut `.ptx`: start 1 got: damaged"]);
    }
}
