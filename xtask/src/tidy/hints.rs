//! No text of a library crate names a flag, a command or a variable of the command line: a program that embeds the
//! library has others. The command line adds what to do with its own (`crates/cli/src/ui/hints.rs`).

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Field, Item, Lit, LitStr};

use super::attributes::{attributes, is_for_tests};
use super::finding::Finding;

/// The crate of the command line.
const COMMAND_LINE: &str = "crates/cli/src/";
/// The file with the commands.
const COMMANDS: &str = "crates/cli/src/args.rs";
/// Variables with this beginning are the command line's.
const VARIABLE: &str = "OPKEEP_";
/// Support for tests runs the command.
const TEST_SUPPORT: [&str; 2] = ["crates/testkit/", "crates/toolchain-mutations/"];

/// Whether `path` is product code of a library.
fn concerns(path: &str) -> bool {
    let is_test = path.ends_with("/tests.rs") || path.contains("/tests/");
    path.starts_with("crates/")
        && path.contains("/src/")
        && !is_test
        && !path.starts_with(COMMAND_LINE)
        && !TEST_SUPPORT.iter().any(|directory| path.starts_with(directory))
}

pub(super) fn check(sources: &BTreeMap<String, String>) -> Vec<Finding> {
    let names = Names::of(sources);
    let mut findings = Vec::new();
    if names.flags.is_empty() || names.commands.is_empty() {
        let problem = "no flag, or no command, of the command line is found";
        findings.push(Finding::new(
            COMMANDS,
            1,
            problem,
            "let `xtask/src/tidy/hints.rs` read how they are declared",
        ));
    }
    for (path, text) in sources.iter().filter(|(path, _)| concerns(path)) {
        // The module graph reports a file that cannot be parsed.
        let Ok(file) = syn::parse_file(text) else { continue };
        let mut literals = Literals::default();
        literals.visit_file(&file);
        findings.extend(literals.found.iter().filter_map(|(line, text)| {
            let problem = format!("a text of a library names `{}`", names.named_in(text)?);
            let help = "state the problem, with a type, and let crates/cli/src/ui/hints.rs add the help";
            Some(Finding::new(path, *line, problem, help))
        }));
    }
    findings
}

/// The flags and commands of the command line.
#[derive(Default)]
struct Names {
    flags: BTreeSet<String>,
    commands: BTreeSet<String>,
}

impl Names {
    fn of(sources: &BTreeMap<String, String>) -> Self {
        let mut names = Self::default();
        for (path, text) in sources.iter().filter(|(path, _)| path.starts_with(COMMAND_LINE)) {
            let Ok(file) = syn::parse_file(text) else { continue };
            names.visit_file(&file);
            let commands = file.items.iter().filter_map(|item| match item {
                Item::Enum(it) if path == COMMANDS && it.ident == "Command" => Some(&it.variants),
                _ => None,
            });
            names.commands.extend(commands.flatten().map(|variant| variant.ident.to_string().to_lowercase()));
        }
        names
    }

    /// The first flag, command or variable in `text`.
    fn named_in(&self, text: &str) -> Option<String> {
        if text.contains(VARIABLE) {
            return Some(VARIABLE.to_owned());
        }
        // A flag alone is an argument of another program, such as a compiler's `--target`.
        let flag =
            |flag: &&String| text.contains(char::is_whitespace) && has_word(text, &format!("--{flag}"));
        let command = |command: &&String| has_word(text, &format!("opkeep {command}"));
        let flag = self.flags.iter().find(flag).map(|flag| format!("--{flag}"));
        flag.or_else(|| self.commands.iter().find(command).map(|command| format!("opkeep {command}")))
    }
}

/// Whether `text` has `word`, and not only as the beginning of a longer one.
fn has_word(text: &str, word: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '-' | '_'));
    text.match_indices(word).any(|(at, _)| ends(&text[at + word.len()..]))
}

impl<'a> Visit<'a> for Names {
    fn visit_field(&mut self, field: &'a Field) {
        let Some(name) = &field.ident else { return };
        for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("arg")) {
            // Values may be any expressions, so the tokens are read: `long`, `long = "name"`, `visible_alias = "name"`.
            let Ok(list) = attribute.meta.require_list() else { continue };
            let tokens: Vec<TokenTree> = list.tokens.clone().into_iter().collect();
            for (at, token) in tokens.iter().enumerate() {
                let TokenTree::Ident(word) = token else { continue };
                let value = match tokens.get(at + 2) {
                    Some(TokenTree::Literal(literal)) => string(literal.clone()),
                    _ => None,
                };
                let is_given =
                    matches!(tokens.get(at + 1), Some(TokenTree::Punct(sign)) if sign.as_char() == '=');
                match (word.to_string().as_str(), value.filter(|_| is_given)) {
                    ("long" | "visible_alias", Some(flag)) => drop(self.flags.insert(flag.value())),
                    ("long", None) => drop(self.flags.insert(name.to_string().replace('_', "-"))),
                    _ => {}
                }
            }
        }
    }
}

fn string(literal: proc_macro2::Literal) -> Option<LitStr> {
    match Lit::new(literal) {
        Lit::Str(string) => Some(string),
        _ => None,
    }
}

/// The texts of a file outside its tests and its documentation, with their lines.
#[derive(Default)]
struct Literals {
    found: Vec<(usize, String)>,
}

impl Literals {
    fn note(&mut self, span: Span, text: String) {
        self.found.push((span.start().line, text));
    }

    fn tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Literal(literal) => {
                    if let Some(text) = string(literal) {
                        self.note(text.span(), text.value());
                    }
                }
                _ => {}
            }
        }
    }
}

impl<'a> Visit<'a> for Literals {
    fn visit_item(&mut self, item: &'a Item) {
        if !is_for_tests(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_attribute(&mut self, attribute: &'a Attribute) {
        if let Ok(list) = attribute.meta.require_list() {
            self.tokens(list.tokens.clone());
        }
    }

    fn visit_macro(&mut self, it: &'a syn::Macro) {
        self.tokens(it.tokens.clone());
    }

    /// The domain of a hash is no text for people.
    fn visit_expr_call(&mut self, call: &'a syn::ExprCall) {
        let is_hasher = matches!(&*call.func, syn::Expr::Path(it)
            if it.path.segments.iter().rev().nth(1).is_some_and(|segment| segment.ident == "Hasher"));
        if !is_hasher {
            visit::visit_expr_call(self, call);
        }
    }

    fn visit_lit_str(&mut self, text: &'a LitStr) {
        self.note(text.span(), text.value());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: &str = "crates/x/src/lib.rs";

    fn found(path: &str, text: &str) -> Vec<String> {
        let args = "enum Command { Build(build::Args), Gc(gc::Args) }";
        let flags = "struct Args { #[arg(long)] dry_run: bool, \
                     #[arg(long = \"dim\", visible_alias = \"size\", value_name = \"long\")] dims: Vec<Dim>, \
                     #[arg(long, value_name = \"TARGET\")] target: String }";
        let sources = [(COMMANDS, args), ("crates/cli/src/commands/build.rs", flags), (path, text)];
        let sources = sources.map(|(path, text)| (path.to_owned(), text.to_owned())).into();
        let cut = |finding: &Finding| finding.to_string().split(';').next().unwrap_or_default().to_owned();
        check(&sources).iter().map(cut).collect()
    }

    #[test]
    fn flags_commands_and_variables_are_found() {
        for (text, name) in [
            ("const A: &str = \"OPKEEP_X\";", "OPKEEP_"),
            ("fn f() { g(\"give it with --dim N\") }", "--dim"),
            ("fn f() { g(\"give it with --size N\") }", "--size"),
            ("fn f() { format!(\"see {x}: --dry-run\") }", "--dry-run"),
            ("fn f() { a!(b![\"x --dim=3\"]) }", "--dim"),
            ("#[error(\"`opkeep build` makes it\")] struct X;", "opkeep build"),
            ("enum X { #[error(\"run opkeep gc\")] A }", "opkeep gc"),
        ] {
            assert_eq!(found(LIB, text), [format!("{LIB}:1: a text of a library names `{name}`")], "{text}");
        }
        // A text that goes on in the next line.
        assert_eq!(found(LIB, "const A: &str = \"opkeep \\\n  build\";").len(), 1);
    }

    #[test]
    fn other_words_documentation_tests_and_the_command_line_are_not() {
        for text in [
            "/// `OPKEEP_X`, --dim and `opkeep build`.\nfn f() {} // --dim x",
            "const A: &str = \"opkeep builds, --dimension x --dim-x --dim_x\";",
            "fn f() { args.push(\"--target\") }",
            "fn f() { Hasher::new(\"opkeep build key\") }",
            "#[cfg(test)]\nmod tests { const A: &str = \"OPKEEP_X\"; }",
        ] {
            assert_eq!(found(LIB, text), [""; 0], "{text}");
        }
        for path in
            ["crates/cli/src/a.rs", "crates/testkit/src/a.rs", "crates/x/tests/suite/a.rs", "xtask/src/a.rs"]
        {
            assert_eq!(found(path, "const A: &str = \"OPKEEP_X\";"), [""; 0], "{path}");
        }
    }

    #[test]
    fn a_command_line_that_cannot_be_read_is_found() {
        assert_eq!(check(&BTreeMap::new()).len(), 1);
    }
}
