//! The commands that a build generated for its tasks.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use opkeep_fs::FileKind;
use serde_json::Value;

use crate::json;
use crate::tree::FileTree;

/// The largest script or parameter file that is read, in bytes.
const MAX_BYTES: u64 = 16 << 20;
/// The names of the compiler.
const COMPILERS: [&str; 2] = ["opc", "asc_opc"];

/// A run of the compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) file: PathBuf,
    pub(super) line: Option<usize>,
    pub(super) compiler: String,
    /// The operator's Python, unless it is an argument of the script.
    pub(super) python: Option<PathBuf>,
    /// The name of the function, which sources and directories of the operator have, too.
    pub(super) function: String,
    /// The parameter file, where the tree was made.
    params: PathBuf,
}

/// The commands below the directory of a unit, and files that cannot be read.
pub(super) fn of_unit(tree: &FileTree, dir: &Path) -> (Vec<Command>, Vec<(PathBuf, String)>) {
    let (mut commands, mut unreadable) = (Vec::new(), Vec::new());
    for (path, kind) in tree.below(dir) {
        let in_gen = path.parent().and_then(Path::file_name) == Some(OsStr::new("gen"));
        let is_list = path.file_name() == Some(OsStr::new("opc_cmd.sh"));
        let is_script = path.extension() == Some(OsStr::new("sh")) && in_gen;
        if kind == FileKind::Dir || !(is_list || is_script) {
            continue;
        }
        let text = match tree.read(path, MAX_BYTES) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(problem) => {
                unreadable.push((path.to_owned(), problem.to_string()));
                continue;
            }
        };
        let lines = text.lines().enumerate().filter_map(|(at, line)| {
            let line_number = is_list.then_some(at + 1);
            of_line(path, line_number, line)
        });
        commands.extend(lines);
    }
    (commands, unreadable)
}

/// The command in a line, if it runs the compiler. A script has it in `res=$( ... )`.
fn of_line(file: &Path, number: Option<usize>, line: &str) -> Option<Command> {
    let mut words = line.split_whitespace().map(|word| word.trim_matches(['"', '\'', '(', ')', '`']));
    let compiler = words.by_ref().find_map(|word| {
        let word = word.rsplit(['(', '/', '=', '`']).next().unwrap_or_default();
        COMPILERS.into_iter().find(|name| *name == word)
    })?;
    let words: Vec<&str> = words.collect();
    let option = |name: &str| words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let python = words.first().filter(|word| word.ends_with(".py")).map(PathBuf::from);
    Some(Command {
        file: file.to_owned(),
        line: number,
        compiler: compiler.to_owned(),
        python,
        function: option("--main_func")?.to_owned(),
        params: PathBuf::from(option("--input_param")?),
    })
}

impl Command {
    /// The parameter file in the tree, and the kernels in it: operators and names.
    pub(super) fn kernels(
        &self,
        tree: &FileTree,
        by_name: &BTreeMap<&str, Vec<&Path>>,
    ) -> Result<(PathBuf, Vec<(String, String)>), String> {
        let name = self.params.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let beside = self.file.with_file_name(name);
        let path = match tree.has_file(&beside) {
            true => beside,
            false => {
                by_name.get(name).and_then(|paths| paths.first()).map(|path| (*path).to_owned()).ok_or_else(
                    || format!("its parameter file `{}` is not in the tree", json::shortened(name)),
                )?
            }
        };
        let problem = |why: String| format!("its parameter file `{}`: {why}", path.display());
        let bytes = tree.read(&path, MAX_BYTES).map_err(|error| problem(error.to_string()))?;
        let content = json::parse(&bytes).map_err(problem)?;
        let operator = content.get("op_type").and_then(Value::as_str).unwrap_or_default();
        let list = content.get("op_list").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let kernels: Vec<(String, String)> = list
            .iter()
            .filter_map(|op| Some((operator.to_owned(), op.get("bin_filename")?.as_str()?.to_owned())))
            .collect();
        match kernels.is_empty() {
            true => Err(problem("it names no kernel (`op_list`, `bin_filename`)".to_owned())),
            false => Ok((path, kernels)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_scripts_and_of_lists_are_read() {
        let of = |line: &str| of_line(Path::new("x.sh"), None, line);
        let script = "res=$(opc $1 --main_func=add --input_param=/b/gen/Add_1_param.json --soc_version=Ascend910B1 --output=$2)";
        let found = of(script).unwrap();
        assert_eq!((found.compiler.as_str(), found.function.as_str(), found.python), ("opc", "add", None));
        assert_eq!(found.params, Path::new("/b/gen/Add_1_param.json"));
        let line = "asc_opc /b/tbe/dynamic/add.py --main_func=add --input_param=/b/add.json_0 --output=/b/bin/ascend910b/add/";
        let found = of(line).unwrap();
        assert_eq!(found.python.as_deref(), Some(Path::new("/b/tbe/dynamic/add.py")));
        assert_eq!(found.compiler, "asc_opc");
        let quoted = "res=`/opt/bin/asc_opc $1 --main_func=\"add\" --input_param=\"a.json\"`";
        assert!(of(quoted).is_none() || of(quoted).unwrap().compiler == "asc_opc");
        for other in
            ["echo \"[Ascend910B1] Generating\"", "opc --help", "bash opc.sh", "export PATH=/opt/opc", ""]
        {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
