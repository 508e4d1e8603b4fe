//! Compilers and sanitizers.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use libtest_mimic::{Failed, Trial};
use tempfile::TempDir;

use crate::prefix::{prefix, source};

/// The language of a program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    C,
    Cpp,
}

/// A sanitizer, or several that work together.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sanitizer {
    None,
    Address,
    Thread,
}

impl Sanitizer {
    pub(crate) const ALL: [Self; 3] = [Self::None, Self::Address, Self::Thread];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "plain",
            Self::Address => "address and undefined",
            Self::Thread => "thread",
        }
    }

    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::None => &[],
            Self::Address => &["-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
            Self::Thread => &["-fsanitize=thread"],
        }
    }
}

/// A compiler with its flags.
#[derive(Clone, Copy)]
pub(crate) struct Toolchain {
    pub(crate) compiler: &'static str,
    pub(crate) sanitizer: Sanitizer,
}

/// Every compiler of the language, with every sanitizer.
pub(crate) fn toolchains(language: Language) -> impl Iterator<Item = Toolchain> {
    let compilers = match language {
        Language::C => ["gcc", "clang"],
        Language::Cpp => ["g++", "clang++"],
    };
    compilers
        .into_iter()
        .flat_map(|compiler| Sanitizer::ALL.map(|sanitizer| Toolchain { compiler, sanitizer }))
}

impl Toolchain {
    /// A trial with a program, which is ignored, and says so, if the machine lacks the compiler or the sanitizer.
    pub(crate) fn trial(
        self,
        name: &str,
        body: impl FnOnce(Self) -> Result<(), Failed> + Send + 'static,
    ) -> Trial {
        let Self { compiler, sanitizer } = self;
        let name = format!("{name}: {compiler}, {}", sanitizer.name());
        match self.works() {
            true => Trial::test(name, move || body(self)),
            false => Trial::test(format!("{name} (not on this machine)"), || {
                Err("the machine lacks the compiler or the sanitizer".into())
            })
            .with_ignored_flag(true),
        }
    }

    /// Whether it compiles a program that runs.
    fn works(self) -> bool {
        let dir = tempfile::tempdir().unwrap();
        let text = dir.path().join("empty.cpp");
        let program = dir.path().join("empty");
        let includes = if self.language() == Language::Cpp { "#include <new>\n" } else { "" };
        std::fs::write(&text, format!("{includes}int main() {{ return 0; }}\n")).unwrap();
        let mut compile = Command::new(self.compiler);
        if self.language() == Language::C {
            compile.args(["-x", "c"]);
        }
        compile.args(self.sanitizer.flags()).arg(&text).arg("-o").arg(&program);
        let succeeds = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
        succeeds(&mut compile) && succeeds(&mut Command::new(program))
    }

    pub(crate) fn language(self) -> Language {
        if self.compiler.ends_with("++") { Language::Cpp } else { Language::C }
    }

    /// The warnings that the programs and the headers have none of.
    pub(crate) fn warnings(self) -> &'static [&'static str] {
        &["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wno-string-conversion", "-Wshadow", "-Werror"]
    }

    /// Whether the sanitizer of leaks works: it needs ptrace, which some containers forbid.
    pub(crate) fn finds_leaks(self) -> bool {
        static FINDS: OnceLock<bool> = OnceLock::new();
        self.sanitizer == Sanitizer::Address
            && *FINDS.get_or_init(|| {
                let program = self.compile("tests/c/empty.c");
                program.is_ok_and(|program| {
                    let mut command = Command::new(program.file());
                    let run = command.env("ASAN_OPTIONS", "detect_leaks=1").output();
                    run.is_ok_and(|run| run.status.success())
                })
            })
    }

    /// Compiles a program of this crate, and links it with the shared library.
    pub(crate) fn compile(self, path: &str) -> Result<Program, Failed> {
        let lib = prefix().join("lib");
        let (search, rpath) = (format!("-L{}", lib.display()), format!("-Wl,-rpath,{}", lib.display()));
        self.compile_with(path, &[&search, "-lopkeep", &rpath])
    }

    /// Compiles a program of this crate, and links it with these arguments.
    pub(crate) fn compile_with(self, path: &str, link: &[&str]) -> Result<Program, Failed> {
        let dir = tempfile::tempdir()?;
        let program = dir.path().join("program");
        let standard = match self.language() {
            Language::C => "-std=c11",
            Language::Cpp => "-std=c++17",
        };
        let mut compile = Command::new(self.compiler);
        compile.args([standard, "-pthread"]).args(self.warnings());
        compile.args(self.sanitizer.flags()).arg("-I").arg(prefix().join("include"));
        compile.arg(source(path)).arg("-o").arg(&program).args(link);
        output(&mut compile)?;
        Ok(Program { dir, program, toolchain: self })
    }
}

/// A compiled program, and a directory for its store.
pub(crate) struct Program {
    dir: TempDir,
    program: PathBuf,
    toolchain: Toolchain,
}

impl Program {
    /// A command that runs it.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        let suppressions = source("tests/c/tsan.supp");
        command.env("TSAN_OPTIONS", format!("suppressions={}", suppressions.display()));
        let suppressions = source("tests/c/lsan.supp");
        command.env("LSAN_OPTIONS", format!("suppressions={}:print_suppressions=0", suppressions.display()));
        command.env("ASAN_OPTIONS", format!("detect_leaks={}", u8::from(self.toolchain.finds_leaks())));
        command
    }

    /// A path in its directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The program itself.
    pub(crate) fn file(&self) -> &Path {
        &self.program
    }
}

/// Runs the command, which must succeed, and returns its output.
pub(crate) fn output(command: &mut Command) -> Result<String, Failed> {
    let output = command.output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(format!("{command:?}: {}\n{}", output.status, text(&output.stderr)).into()),
    }
}
