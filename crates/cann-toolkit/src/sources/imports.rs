//! The imports of a Python file, found without running it.

use std::collections::BTreeSet;

use crate::sources::python::{self, Statement, Token};

/// The imports and texts of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scan {
    pub(crate) imports: Vec<Import>,
    /// Short texts in it: names of files and directories may be among them.
    pub(crate) texts: BTreeSet<String>,
}

/// An import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Import {
    pub(crate) what: ImportKind,
    /// It stands below `try`, and may be of something that is not there.
    pub(crate) is_tried: bool,
}

/// The kinds of imports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ImportKind {
    /// `import a.b`, known from then on by the name `bound`.
    Module { path: Vec<String>, bound: String },
    /// `from ..a import b as c`: two dots are level 2; names, each with what it is known by.
    Names { level: usize, path: Vec<String>, names: Vec<(String, String)> },
    /// `from a import *`.
    Star { level: usize, path: Vec<String> },
    /// An import whose name is known only when the file runs, with the word that shows it.
    Late(String),
    /// An import with a name that is not ASCII: Python normalises such names, so it may be of any module.
    NotAscii,
}

/// Longer texts name nothing.
const MAX_TEXT: usize = 120;

/// Finds the imports of a file, wherever they stand: in functions, behind conditions, in `try`.
pub(crate) fn scan(text: &str) -> Scan {
    let source = python::read(text);
    let mut scan = Scan::default();
    // The indents of the `try` that the statement is below.
    let mut tries: Vec<usize> = Vec::new();
    for statement in &source.statements {
        while tries.last().is_some_and(|indent| statement.indent <= *indent) {
            tries.pop();
        }
        let is_tried = !tries.is_empty();
        let import = |what| Import { what, is_tried };
        scan.imports.extend(imported(statement).into_iter().map(import));
        scan.imports.extend(late(&statement.tokens).map(|sign| import(ImportKind::Late(sign))));
        scan.texts.extend(statement.tokens.iter().filter_map(short_text));
        if matches!(&statement.tokens[..], [Token::Name(name), Token::Sign(b':')] if name == "try") {
            tries.push(statement.indent);
        }
    }
    if source.is_broken {
        let what = ImportKind::Late("text that is not Python".to_owned());
        scan.imports.push(Import { what, is_tried: false });
    }
    scan
}

fn short_text(token: &Token) -> Option<String> {
    match token {
        Token::Text(text) if !text.is_empty() && text.len() <= MAX_TEXT => Some(text.clone()),
        _ => None,
    }
}

/// The imports of a statement. An import statement that cannot be parsed counts as a late import.
fn imported(statement: &Statement) -> Vec<ImportKind> {
    let tokens = &statement.tokens[..];
    let parsed = match tokens {
        [Token::Name(word), rest @ ..] if word == "import" => modules(rest),
        [Token::Name(word), rest @ ..] if word == "from" => names(rest).map(|what| vec![what]),
        _ => return Vec::new(),
    };
    let mut kinds =
        parsed.unwrap_or_else(|| vec![ImportKind::Late("an import that cannot be read".to_owned())]);
    if tokens.iter().any(|token| matches!(token, Token::Name(name) if !name.is_ascii())) {
        kinds.push(ImportKind::NotAscii);
    }
    kinds
}

/// `a.b as c, d`.
fn modules(tokens: &[Token]) -> Option<Vec<ImportKind>> {
    let one = |tokens: &[Token]| {
        let (path, rest) = dotted(tokens);
        let bound = match rest {
            [] => path.first()?.clone(),
            [Token::Name(word), Token::Name(alias)] if word == "as" => alias.clone(),
            _ => return None,
        };
        (!path.is_empty()).then_some(ImportKind::Module { path, bound })
    };
    split(tokens).map(one).collect()
}

/// `..a.b import c as d, e`, `a import (b, c)`, `a import *`.
fn names(tokens: &[Token]) -> Option<ImportKind> {
    let level = tokens.iter().take_while(|token| **token == Token::Sign(b'.')).count();
    let (path, rest) = dotted(&tokens[level..]);
    let [Token::Name(word), rest @ ..] = rest else { return None };
    if word != "import" || (level == 0 && path.is_empty()) {
        return None;
    }
    let names = match rest {
        [Token::Sign(b'*')] => return Some(ImportKind::Star { level, path }),
        [Token::Sign(b'('), within @ .., Token::Sign(b')')] => within,
        names => names,
    };
    let names = names.strip_suffix(&[Token::Sign(b',')]).unwrap_or(names);
    let one = |tokens: &[Token]| match tokens {
        [Token::Name(name)] => Some((name.clone(), name.clone())),
        [Token::Name(name), Token::Name(word), Token::Name(alias)] if word == "as" => {
            Some((name.clone(), alias.clone()))
        }
        _ => None,
    };
    Some(ImportKind::Names { level, path, names: split(names).map(one).collect::<Option<_>>()? })
}

fn split(tokens: &[Token]) -> impl Iterator<Item = &[Token]> {
    tokens.split(|token| *token == Token::Sign(b','))
}

/// The path that tokens begin with, and the rest. `import` and `as` are no names.
fn dotted(tokens: &[Token]) -> (Vec<String>, &[Token]) {
    let mut path = Vec::new();
    let mut rest = tokens;
    while let [Token::Name(name), more @ ..] = rest {
        if name == "import" {
            break;
        }
        path.push(name.clone());
        rest = more;
        let [Token::Sign(b'.'), more @ ..] = rest else { break };
        rest = more;
    }
    (path, rest)
}

/// The word in a statement that may import a module whose name is known only at run time.
fn late(tokens: &[Token]) -> Option<String> {
    let is_attribute = |at: usize| at > 0 && tokens[at - 1] == Token::Sign(b'.');
    let suspect = |(at, token): (usize, &Token)| match token {
        Token::Name(name) => match name.as_str() {
            "importlib"
            | "__import__"
            | "import_module"
            | "runpy"
            | "pkgutil"
            | "spec_from_file_location"
            | "exec_module"
            | "load_module"
            | "execfile" => Some(name.clone()),
            // A method may be called so.
            "exec" if !is_attribute(at) => Some(name.clone()),
            "sys" if changes_path(&tokens[at + 1..]) => Some("sys.path".to_owned()),
            _ => None,
        },
        // Code in a text.
        Token::Text(text) | Token::Formatted(text) => {
            let words = ["__import__", "import_module"];
            words
                .iter()
                .find(|word| text.len() <= 4096 && text.contains(**word))
                .map(|word| (*word).to_owned())
        }
        Token::Sign(_) | Token::Number => None,
    };
    tokens.iter().enumerate().find_map(suspect)
}

/// Whether `sys` is followed by `.path`: new directories for modules.
fn changes_path(rest: &[Token]) -> bool {
    matches!(rest, [Token::Sign(b'.'), Token::Name(name), ..] if name == "path")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let one = |import: &Import| {
            let tried = if import.is_tried { "?" } else { "" };
            let what = match &import.what {
                ImportKind::Module { path, bound } => format!("{} = {bound}", path.join(".")),
                ImportKind::Names { level, path, names } => {
                    let names: Vec<String> =
                        names.iter().map(|(name, bound)| format!("{name}={bound}")).collect();
                    format!("{level}:{}:{}", path.join("."), names.join(","))
                }
                ImportKind::Star { level, path } => format!("{level}:{}:*", path.join(".")),
                ImportKind::Late(sign) => format!("late {sign}"),
                ImportKind::NotAscii => "late name".to_owned(),
            };
            format!("{what}{tried}")
        };
        scan(text).imports.iter().map(one).collect()
    }

    #[test]
    fn every_form_of_import_is_found() {
        for (text, found) in [
            ("import a", "a = a"),
            ("import a.b.c", "a.b.c = a"),
            ("import a.b as c", "a.b = c"),
            ("from a.b import c", "0:a.b:c=c"),
            ("from a import c as d, e", "0:a:c=d,e=e"),
            ("from a import (c,\n  d as e, # f\n)", "0:a:c=c,d=e"),
            ("from . import a", "1::a=a"),
            ("from ... import a", "3::a=a"),
            ("from .a.b import c", "1:a.b:c=c"),
            ("from ..a import c", "2:a:c=c"),
            ("from .import_x import c", "1:import_x:c=c"),
            ("from a \\\n  import b", "0:a:b=b"),
            ("from a import *", "0:a:*"),
            ("from .a import *", "1:a:*"),
            ("x = 1; import a", "a = a"),
            ("if x: import a", "a = a"),
            ("def f():\n    import a", "a = a"),
            ("try:\n  import a\nexcept E:\n  b", "a = a?"),
            ("try: import a\nexcept E: pass", "a = a?"),
            ("try:\n  if x:\n    import a\n  b\nexcept E:\n  b", "a = a?"),
            ("try:\n  b\nexcept E:\n  import a", "a = a"),
        ] {
            assert_eq!(shown(text), [found], "{text}");
        }
        assert_eq!(shown("import a, b.c as d"), ["a = a", "b.c = d"]);
    }

    #[test]
    fn other_statements_are_no_imports() {
        for text in [
            "# import a",
            "'import a'",
            "\"\"\"\nimport a\nfrom b import c\n\"\"\"",
            "x = 'a' \\\n  'import b'",
            "f(\n'import a'\n)",
            "raise X from e",
            "yield from x",
            "important = 1",
            "x.imports(a)",
            "x.exec(a)",
            "sys.exit(1)",
            "re.path",
        ] {
            assert_eq!(shown(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn names_known_at_run_time_only_are_late() {
        for (text, found) in [
            ("m = __import__(name)", "late __import__"),
            ("m = importlib.import_module('impl.' + x)", "late importlib"),
            ("m = x.import_module(y)", "late import_module"),
            ("exec(code)", "late exec"),
            ("x = eval('__import__(y)')", "late __import__"),
            ("f'{__import__(x)}'", "late __import__"),
            ("sys.path.append(x)", "late sys.path"),
            ("import", "late an import that cannot be read"),
            ("from a import", "late an import that cannot be read"),
            ("x = 'a\n", "late text that is not Python"),
        ] {
            assert_eq!(shown(text), [found], "{text}");
        }
        assert_eq!(shown("from importlib import x"), ["0:importlib:x=x", "late importlib"]);
    }

    #[test]
    fn names_that_python_normalises_are_late() {
        for text in ["import \u{ff49}mpl.relu", "from impl import relu as \u{17f}", "from .\u{fc} import x"] {
            let found = shown(text);
            assert_eq!(found.iter().filter(|what| *what == "late name").count(), 1, "{text}: {found:?}");
        }
        assert_eq!(shown("\u{fc} = 1"), [""; 0]);
    }

    #[test]
    fn short_texts_are_kept() {
        let texts = scan("x = ['add_rms_norm', \"a.cpp\", '']").texts;
        assert_eq!(texts.into_iter().collect::<Vec<_>>(), ["a.cpp", "add_rms_norm"]);
    }

    /// Python's own parser, asked about Python's own library.
    #[test]
    fn python_finds_the_same_imports() {
        let output = std::process::Command::new("python3").args(["-c", ASK]).output();
        // A host without Python has no toolkit either.
        let Some(output) = output.ok().filter(|output| output.status.success()) else { return };
        let text = String::from_utf8(output.stdout).unwrap();
        let mut count = 0;
        for line in text.lines() {
            let found: serde_json::Value = serde_json::from_str(line).unwrap();
            let expected: Vec<&str> =
                found["imports"].as_array().unwrap().iter().filter_map(|import| import.as_str()).collect();
            let source = found["source"].as_str().unwrap();
            assert!(!python::read(source).is_broken, "{}", found["path"]);
            let own = shown(source);
            let own = own.iter().map(|import| import.trim_end_matches('?'));
            let mut own: Vec<&str> = own.filter(|what| !what.starts_with("late ")).collect();
            own.sort_unstable();
            assert_eq!(own, expected, "{}", found["path"]);
            count += 1;
        }
        assert!(count > 100, "{count} files");
    }

    const ASK: &str = r#"
import ast, json, os, sys
def words(node):
    if isinstance(node, ast.Import):
        for name in node.names:
            yield "%s = %s" % (name.name, name.asname or name.name.split(".")[0])
    elif isinstance(node, ast.ImportFrom):
        names = ",".join("%s=%s" % (name.name, name.asname or name.name) for name in node.names)
        yield "%d:%s:%s" % (node.level, node.module or "", "*" if names == "*=*" else names)
folder, seen = os.path.dirname(os.__file__), 0
for place in ("", "asyncio", "email", "importlib", "unittest", "xml/dom", "json", "concurrent/futures"):
    for name in sorted(os.listdir(os.path.join(folder, place))):
        path = os.path.join(folder, place, name)
        if not name.endswith(".py") or not os.path.isfile(path):
            continue
        try:
            with open(path, encoding="utf-8", newline="") as file:
                source = file.read()
            tree = ast.parse(source)
        except (ValueError, SyntaxError):
            continue
        found = sorted(word for node in ast.walk(tree) for word in words(node))
        print(json.dumps({"path": path, "source": source, "imports": found}))
"#;
}
