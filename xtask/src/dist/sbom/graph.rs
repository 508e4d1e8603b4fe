//! The crates that a binary links, and which uses which.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The package with the binary.
pub(super) const ROOT: &str = "opkeep-cli";

/// A name and a version.
pub(super) type Id = (String, String);

/// A crate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::dist) struct Package {
    pub(super) licence: String,
    pub(super) features: String,
    /// Whether it is of this workspace.
    pub(super) is_own: bool,
    pub(super) uses: BTreeSet<Id>,
}

/// The crates of a binary.
pub(in crate::dist) type Graph = BTreeMap<Id, Package>;

/// Returns the arguments of cargo for a list of the crates that the command links on a platform, with the features that it has when
/// it is built alone. Procedural macros and build scripts run in the compiler, and are in no binary.
pub(in crate::dist) fn tree_arguments(triple: &str) -> Vec<&str> {
    let mut line = vec!["tree", "--locked", "--package", ROOT, "--target", triple, "--charset", "ascii"];
    line.extend(["--edges", "normal,no-proc-macro", "--prefix", "depth", "--format", "{p}\t{f}\t{l}"]);
    line
}

/// Reads what `cargo tree` prints: a line for each crate that another one uses, below it, with its depth before its name.
pub(in crate::dist) fn parse(printed: &str) -> Result<Graph, String> {
    let mut graph = Graph::new();
    let mut users: Vec<Id> = Vec::new();
    for line in printed.lines().filter(|line| !line.is_empty()) {
        let (depth, id, package) =
            parse_line(line).ok_or_else(|| format!("`cargo tree` has the line `{line}`"))?;
        users.truncate(depth);
        if let Some(user) = users.last().and_then(|user| graph.get_mut(user)) {
            user.uses.insert(id.clone());
        }
        graph.entry(id.clone()).or_insert(package);
        users.push(id);
    }
    Ok(graph)
}

/// Reads a line such as `2sha2 v0.11.1<TAB>alloc<TAB>MIT OR Apache-2.0 (*)`; a crate of the workspace has its directory after the version.
fn parse_line(line: &str) -> Option<(usize, Id, Package)> {
    let begin = line.find(|character: char| !character.is_ascii_digit())?;
    let depth = line.get(..begin)?.parse().ok()?;
    // Crates that were printed before.
    let line = line.get(begin..)?.trim_end_matches(" (*)");
    let mut fields = line.split('\t');
    let (name, features, licence) = (fields.next()?, fields.next()?, fields.next()?);
    let mut words = name.splitn(3, ' ');
    let id = (words.next()?.to_owned(), words.next()?.strip_prefix('v')?.to_owned());
    let is_own = words.next().is_some_and(|rest| rest.starts_with('('));
    let licence = licence.replace('/', " OR ").split_whitespace().collect::<Vec<_>>().join(" ");
    let package = Package { licence, features: features.to_owned(), is_own, uses: BTreeSet::new() };
    (!package.licence.is_empty()).then_some((depth, id, package))
}

/// Returns the crates that cargo compiled for the platform, from its messages.
pub(in crate::dist) fn compiled(messages: &str, triple: &str) -> Result<BTreeSet<Id>, String> {
    let directory = format!("/{triple}/");
    let mut compiled = BTreeSet::new();
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: Value = serde_json::from_str(line)
            .map_err(|error| format!("cargo wrote the message `{line}`: {error}"))?;
        let is_crate = message["reason"] == "compiler-artifact";
        let files = message["filenames"].as_array().cloned().unwrap_or_default();
        let is_for = files.iter().any(|file| file.as_str().is_some_and(|file| file.contains(&directory)));
        if is_crate && is_for {
            let id = message["package_id"].as_str().unwrap_or_default();
            compiled.insert(id_of(id).ok_or_else(|| format!("cargo names a package `{id}`"))?);
        }
    }
    Ok(compiled)
}

/// Reads an identifier such as `registry+https://HOST/INDEX#sha2@0.11.1`. The name is left out if the directory has it:
/// `path+file:///src/sha2#0.11.1`.
fn id_of(id: &str) -> Option<Id> {
    let (place, id) = id.rsplit_once('#')?;
    let directory = place.rsplit('/').next()?;
    let (name, version) = id.split_once('@').unwrap_or((directory, id));
    Some((name.to_owned(), version.to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn id(name: &str, version: &str) -> Id {
        (name.to_owned(), version.to_owned())
    }

    #[test]
    fn a_tree_becomes_a_graph() {
        let printed = "0opkeep-cli v0.1.0 (/w/crates/cli)\tdefault,grpc\tMIT OR Apache-2.0\n\
            1zstd v0.14.4\t\tBSD-3-Clause\n\
            2zstd-sys v2.1.3+zstd.1.5.7\t\tMIT/Apache-2.0\n\
            1opkeep-fs v0.1.0 (/w/crates/fs)\t\tMIT OR Apache-2.0\n\
            2zstd v0.14.4\t\tBSD-3-Clause (*)\n";
        let graph = parse(printed).unwrap();
        assert_eq!(graph.len(), 4);
        let root = &graph[&id("opkeep-cli", "0.1.0")];
        assert_eq!((root.is_own, root.features.as_str()), (true, "default,grpc"));
        assert_eq!(root.uses, [id("opkeep-fs", "0.1.0"), id("zstd", "0.14.4")].into());
        assert_eq!(graph[&id("opkeep-fs", "0.1.0")].uses, [id("zstd", "0.14.4")].into());
        let library = &graph[&id("zstd-sys", "2.1.3+zstd.1.5.7")];
        assert_eq!((library.is_own, library.licence.as_str()), (false, "MIT OR Apache-2.0"));
        assert!(graph[&id("zstd", "0.14.4")].uses.contains(&id("zstd-sys", "2.1.3+zstd.1.5.7")));
    }

    #[test]
    fn a_crate_without_a_licence_is_an_error() {
        assert!(parse("0opkeep-cli v0.1.0 (/w)\tdefault\t\n").unwrap_err().contains("opkeep-cli"));
    }

    #[test]
    fn only_crates_of_the_platform_count_as_compiled() {
        let message = |name: &str, kind: &str, file: &str| {
            let package = format!("registry+https://index#{name}@1.0.0");
            let target = json!({"kind": [kind]});
            json!({"reason": "compiler-artifact", "package_id": package, "target": target, "filenames": [file]})
                .to_string()
        };
        let messages = [
            message("linked", "lib", "/b/x86_64-unknown-linux-musl/dist/deps/liblinked.rlib"),
            message("of-a-script", "lib", "/b/dist/deps/libof.rlib"),
            message("a-macro", "proc-macro", "/b/dist/deps/liba.so"),
            message("opkeep-cli", "bin", "/b/x86_64-unknown-linux-musl/dist/opkeep"),
            json!({"reason": "build-script-executed", "package_id": "registry+https://index#ring@1.0.0"})
                .to_string(),
            json!({"reason": "build-finished", "success": true}).to_string(),
        ];
        let compiled = compiled(&messages.join("\n"), "x86_64-unknown-linux-musl").unwrap();
        assert_eq!(compiled, [id("linked", "1.0.0"), id("opkeep-cli", "1.0.0")].into());
    }

    #[test]
    fn an_identifier_may_leave_out_the_name() {
        assert_eq!(id_of("path+file:///src/sha2#0.11.1"), Some(id("sha2", "0.11.1")));
        assert_eq!(id_of("path+file:///crates/engine#opkeep@0.1.0"), Some(id("opkeep", "0.1.0")));
        assert_eq!(id_of("sha2"), None);
    }
}
