//! Changes after which a stored object would be a wrong one, each in a way of its own.

use std::fs;

use opkeep_launcher::Reason;
use opkeep_launcher::bisheng::NotCached;

use super::Case;
use super::bench::{Bench, Did, Line, set_old};

pub(super) const CASES: &[Case] = &[
    ("bisheng::each_change_is_seen", each_change_is_seen),
    ("bisheng::what_is_elsewhere_counts", what_is_elsewhere_counts),
    ("bisheng::what_no_text_shows_is_never_kept", what_no_text_shows_is_never_kept),
    ("bisheng::a_header_that_changes_meanwhile", a_header_that_changes_meanwhile),
    ("bisheng::a_compiled_header_is_never_kept", a_compiled_header_is_never_kept),
    ("bisheng::another_compiler_misses", another_compiler_misses),
    ("bisheng::warnings_have_the_lines_of_now", warnings_have_the_lines_of_now),
];

/// A source and headers, what they are compiled with, and a change of a file or of the command line.
struct Attack {
    name: &'static str,
    files: &'static [(&'static str, &'static str)],
    args: &'static str,
    change: &'static [(&'static str, &'static str)],
    changed_args: Option<&'static str>,
}

const fn edit(
    name: &'static str,
    files: &'static [(&'static str, &'static str)],
    args: &'static str,
    change: &'static [(&'static str, &'static str)],
) -> Attack {
    Attack { name, files, args, change, changed_args: None }
}

const fn other_args(
    name: &'static str,
    files: &'static [(&'static str, &'static str)],
    args: &'static str,
    changed: &'static str,
) -> Attack {
    Attack { name, files, args, change: &[], changed_args: Some(changed) }
}

const USES: (&str, &str) = ("w/a.cpp", "#include \"h.h\"\nint f() { return H; }\n");
const TWO_WAYS: (&str, &str) = ("w/a.cpp", "#include <h.h>\nint f() { return H; }\n");

#[rustfmt::skip]
const ATTACKS: &[Attack] = &[
    edit("a value in a header", &[USES, ("w/h.h", "#define H 1\n")], "", &[("w/h.h", "#define H 2\n")]),
    edit("a header that shadows", &[TWO_WAYS, ("w/2/h.h", "#define H 1\n"), ("w/1/x", "")], "-I{}/w/1 -I{}/w/2", &[("w/1/h.h", "#define H 2\n")]),
    edit("a header beside the source that shadows", &[("w/a.cpp", "#include \"h.h\"\nint f() { return H; }\n"), ("w/2/h.h", "#define H 1\n")], "-I{}/w/2", &[("w/h.h", "#define H 2\n")]),
    edit("a file for __has_include", &[("w/a.cpp", "#if __has_include(\"x.h\")\nint f() { return 1; }\n#else\nint f() { return 2; }\n#endif\n")], "", &[("w/x.h", "")]),
    edit("a forced header", &[("w/a.cpp", "int f() { return H; }\n"), ("w/f.h", "#define H 1\n")], "-include {}/w/f.h", &[("w/f.h", "#define H 2\n")]),
    edit("macros of a forced header", &[("w/a.cpp", "int f() { return H; }\n"), ("w/f.h", "#define H 1\n")], "-imacros {}/w/f.h", &[("w/f.h", "#define H 2\n")]),
    edit("__LINE__", &[("w/a.cpp", "int f() { return __LINE__; }\n")], "", &[("w/a.cpp", "\n\nint f() { return __LINE__; }\n")]),
    edit("__builtin_LINE", &[("w/a.cpp", "int f(int l = __builtin_LINE()) { return l; }\nint g() { return f(); }\n")], "", &[("w/a.cpp", "int f(int l = __builtin_LINE()) { return l; }\n\nint g() { return f(); }\n")]),
    edit("__builtin_COLUMN", &[("w/a.cpp", "#define C int g() { return __builtin_COLUMN(); }\nC\n")], "", &[("w/a.cpp", "#define C int g() { return __builtin_COLUMN(); }\n    C\n")]),
    edit("the name of a function of a lambda", &[("w/a.cpp", "template <class T> const char *n(T) { return __PRETTY_FUNCTION__; }\nconst char *f() { return n([] { }); }\n")], "", &[("w/a.cpp", "template <class T> const char *n(T) { return __PRETTY_FUNCTION__; }\n\n\nconst char *f() { return n([] { }); }\n")]),
    edit("assert", &[("w/a.cpp", "#include <assert.h>\nvoid f(int a) { assert(a); }\n")], "", &[("w/a.cpp", "#include <assert.h>\n\nvoid f(int a) { assert(a); }\n")]),
    edit("an empty line in a raw text", &[("w/a.cpp", "const char *f() { return R\"(a\nb)\"; }\n")], "", &[("w/a.cpp", "const char *f() { return R\"(a\n\nb)\"; }\n")]),
    edit("a marker in a raw text", &[("w/a.cpp", "const char *f() { return R\"(a\nb)\"; }\n")], "", &[("w/a.cpp", "const char *f() { return R\"(a\n# 1 \"x\" 1\nb)\"; }\n")]),
    edit("a raw text by a prefix", &[("w/a.cpp", "const char *f() { return u8R\"(a\nb)\"; }\n")], "-std=c++17", &[("w/a.cpp", "const char *f() { return u8R\"(a\n\nb)\"; }\n")]),
    edit("a line with debug information", &[("w/a.cpp", "int f() { return 1; }\n")], "-g", &[("w/a.cpp", "\nint f() { return 1; }\n")]),
    edit("a comment with debug information of macros", &[("w/a.cpp", "#define X 1\nint f() { return 1; }\n")], "-g3", &[("w/a.cpp", "#define X 2\nint f() { return 1; }\n")]),
    edit("a line with a sanitizer", &[("w/a.cpp", "int f(int a) { return a + 1; }\n")], "-fsanitize=undefined", &[("w/a.cpp", "\nint f(int a) { return a + 1; }\n")]),
    edit("a second definition of a macro", &[USES, ("w/h.h", "#define H 1\n")], "", &[("w/h.h", "#define H 2\n#define H 1\n")]),
    edit("a warning of the source", &[("w/a.cpp", "int f() { return 1; }\n")], "", &[("w/a.cpp", "#warning here\nint f() { return 1; }\n")]),
    edit("a message of a pragma", &[("w/a.cpp", "int f() { return 1; }\n")], "", &[("w/a.cpp", "#pragma message(\"here\")\nint f() { return 1; }\n")]),
    edit("an error that a macro hides", &[("w/a.cpp", "#define Z 0u\nint f(unsigned a) { return a < Z; }\n")], "-Wall -Wextra -Werror", &[("w/a.cpp", "\nint f(unsigned a) { return a < 0u; }\n")]),
    edit("a warning about a comment", &[("w/a.cpp", "/** \\param a x */\nint f(int a);\n")], "-Wdocumentation", &[("w/a.cpp", "/** \\param b x */\nint f(int a);\n")]),
    edit("a header of the system", &[("w/a.cpp", "#include <h.h>\n"), ("w/s/h.h", "#pragma GCC system_header\ninline int g(int a) { int b = a = 1; }\n")], "-I{}/w/s", &[("w/s/h.h", "\ninline int g(int a) { int b = a = 1; }\n")]),
    edit("a byte 0 in a text", &[("w/a.cpp", "const char f[] = \"a\\0b\";\n")], "", &[("w/a.cpp", "const char f[] = \"a\\0c\";\n")]),
    edit("a space in a text", &[("w/a.cpp", "const char *f = \"a  b\";\n")], "", &[("w/a.cpp", "const char *f = \"a b\";\n")]),
    edit("a line of the source by a marker", &[("w/a.cpp", "int f() { return __LINE__; }\n")], "", &[("w/a.cpp", "#line 7 \"x\"\nint f() { return __LINE__; }\n")]),
    edit("a pragma", &[("w/a.cpp", "struct s { char a; int b; };\nint f = sizeof(s);\n")], "", &[("w/a.cpp", "#pragma pack(1)\nstruct s { char a; int b; };\nint f = sizeof(s);\n")]),
    other_args("the order of definitions", &[("w/a.cpp", "#ifdef A\nint f() { return 1; }\n#else\nint f() { return 2; }\n#endif\n")], "-DA -UA", "-UA -DA"),
    other_args("the order of directories", &[TWO_WAYS, ("w/1/h.h", "#define H 1\n"), ("w/2/h.h", "#define H 2\n")], "-I{}/w/1 -I{}/w/2", "-I{}/w/2 -I{}/w/1"),
    other_args("a directory for quotes", &[("w/a.cpp", "#include \"q.h\"\nint f() { return H; }\n"), ("w/1/q.h", "#define H 1\n"), ("w/2/q.h", "#define H 2\n")], "-iquote {}/w/1", "-iquote {}/w/2"),
    other_args("the optimization", &[("w/a.cpp", "int g(int); int f(int a) { return g(a) + g(a); }\n")], "-O0", "-O3"),
    other_args("position independence", &[("w/a.cpp", "extern int x; int f() { return x; }\n")], "-fno-PIC", "-fPIC"),
    other_args("a definition that nothing uses", &[("w/a.cpp", "int f() { return 1; }\n")], "-DX=1", "-DX=2"),
    other_args("debug information", &[("w/a.cpp", "int f() { return 1; }\n")], "", "-g"),
    other_args("the language", &[("w/a.cpp", "int f = sizeof('a');\n")], "-x c++", "-x c"),
    other_args("characters with a sign", &[("w/a.cpp", "int f(char a) { return a; }\n")], "-O2 -fsigned-char", "-O2 -funsigned-char"),
    other_args("warnings", &[("w/a.cpp", "int f() { int a; return 1; }\n")], "", "-Wall"),
    other_args("warnings that are errors", &[("w/a.cpp", "int f() { int a; return 1; }\n")], "-Wall", "-Wall -Werror"),
];

/// In two threads, since each is some ten compiles.
fn each_change_is_seen() {
    let (one, other) = ATTACKS.split_at(ATTACKS.len() / 2);
    std::thread::scope(|scope| {
        for part in [one, other] {
            scope.spawn(|| part.iter().for_each(see));
        }
    });
}

fn see(attack: &Attack) {
    let bench = Bench::new();
    attack.files.iter().for_each(|(name, text)| bench.write(name, text));
    let line = Line::new("w", attack.args);
    bench.keep(&line);
    attack.change.iter().for_each(|(name, text)| bench.write(name, text));
    let changed = Line::new("w", attack.changed_args.unwrap_or(attack.args));
    // Compared with a run without the launcher, whatever it did.
    let did = bench.run(&changed);
    assert_ne!(did, Did::Hit, "{}", attack.name);
    // And back again.
    attack.files.iter().for_each(|(name, text)| bench.write(name, text));
    if attack.change.iter().all(|(name, _)| attack.files.iter().any(|(known, _)| name == known)) {
        assert_eq!(bench.run(&line), Did::Hit, "{}", attack.name);
    }
}

/// Directories of headers that appear in no command line, places, names, and dates.
fn what_is_elsewhere_counts() {
    let bench = Bench::new();
    bench.write("w/a.cpp", "#include <h.h>\nint f() { return H; }\n");
    bench.write("1/h.h", "#define H 1\n");
    bench.write("2/h.h", "#define H 2\n");
    for name in ["CPATH", "CPLUS_INCLUDE_PATH"] {
        let one = Line::new("w", "-DX").with(name, "{}/1");
        let did = bench.run(&one);
        assert!([Did::Compiled, Did::Hit].contains(&did), "{did:?}");
        assert_ne!(bench.run(&Line::new("w", &format!("-D{name}")).with(name, "{}/2")), Did::Hit, "{name}");
        assert_eq!(bench.run(&Line::new("w", "-DX").with(name, "{}/absent:{}/1")), Did::Hit, "{name}");
    }
    // The directory: of a relative path, of `__FILE__`, of debug information.
    for (number, (text, args)) in [
        ("#include \"h.h\"\nint f() { return H; }\n", ""),
        ("const char *f() { return __FILE__; }\n", ""),
        ("const char *f() { return __builtin_FILE(); }\n", ""),
        ("int f() { return 1; }\n", "-g"),
        ("int f(int a) { return a + 1; }\n", "-fsanitize=undefined"),
    ]
    .iter()
    .enumerate()
    {
        let dirs = [format!("{number}/one"), format!("{number}/other")];
        for (dir, value) in dirs.iter().zip(["1", "2"]) {
            bench.write(&format!("{dir}/a.cpp"), text);
            bench.write(&format!("{dir}/h.h"), &format!("#define H {value}\n"));
        }
        bench.keep(&Line::new(&dirs[0], args));
        assert_eq!(bench.run(&Line::new(&dirs[1], args)), Did::Compiled, "{text}");
    }
    // The name of a source is in the object.
    bench.write("w/b.cpp", "int same() { return 1; }\n");
    bench.write("w/c.cpp", "int same() { return 1; }\n");
    let of = |name: &str| Line::of(&format!("-c {{}}/w/{name}.cpp -o {{}}/w/k.o"));
    bench.keep(&of("b"));
    assert_eq!(bench.run(&of("c")), Did::Compiled);
    // A variable that the compiler may read.
    assert_eq!(bench.run(&of("b").with("SOURCE_DATE_EPOCH", "1")), Did::Compiled);
    assert_eq!(
        bench.run(&of("b").with("CCC_OVERRIDE_OPTIONS", "+-g")),
        Did::NotCached(variable("CCC_OVERRIDE_OPTIONS"))
    );
}

fn variable(name: &str) -> NotCached {
    NotCached::Variable { name: name.to_owned() }
}

/// Files that only the assembler reads, and the time.
fn what_no_text_shows_is_never_kept() {
    let bench = Bench::new();
    for text in [
        "asm(\".incbin \\\"{}/w/data\\\"\");\n",
        "asm(\".inc\" \"bin \\\"{}/w/data\\\"\");\n",
        "asm(\"\\x2eincbin \\\"{}/w/data\\\"\");\n",
        "#define J(a, b) a b\nasm(J(\".in\", \"cbin \\\"{}/w/data\\\"\"));\n",
        "asm(R\"(.incbin \"{}/w/data\")\");\n",
        "asm(\".macro m a, b\\n.\\\\a\\\\b \\\"{}/w/data\\\"\\n.endm\\nm inc, bin\");\n",
        "asm(\"nop; .include \\\"{}/w/data.s\\\"\");\n",
    ] {
        bench.write("w/a.cpp", text);
        for value in ["1", "2"] {
            bench.write("w/data", value);
            bench.write("w/data.s", &format!(".byte {value}\n"));
            assert_eq!(bench.run(&Line::new("w", "")), Did::NotCached(NotCached::Assembly), "{text}");
        }
    }
    for text in [
        "const char *f() { return __DATE__; }\n",
        "#define P(a, b) a##b\nconst char *f() { return P(__DA, TE__); }\n",
        "#define S(a) #a\n#define T(a) S(a)\nconst char *f() { return T(__DATE__); }\n",
        "const char *f() { return __TIMESTAMP__; }\n",
    ] {
        bench.write("w/a.cpp", text);
        set_old(&bench.path("w/a.cpp"));
        for _ in 0..2 {
            assert_eq!(bench.run(&Line::new("w", "")), Did::NotCached(NotCached::Date), "{text}");
        }
    }
    // Only its name, in a comment and in a macro that is not used.
    bench.write("w/a.cpp", "// __DATE__\n#define D __TIME__\nint f() { return sizeof(\"__DATE__\"); }\n");
    bench.keep(&Line::new("w", ""));
}

/// The compiler takes the compiled form of a forced header, of which the text has nothing.
fn a_compiled_header_is_never_kept() {
    let bench = Bench::new();
    bench.write("w/a.cpp", "int f() { return value(); }\n");
    let line = Line::new("w", "-include {}/w/f.h");
    for value in ["1", "2"] {
        bench.write("w/f.h", &format!("inline int value() {{ return {value}; }}\n"));
        bench.run_plainly(&Line::of("-x c++-header {}/w/f.h -o {}/w/f.h.pch"));
        assert!(bench.path("w/f.h.pch").exists());
        for _ in 0..2 {
            assert_eq!(bench.run(&line), Did::NotCached(NotCached::ReadsFiles));
        }
        fs::remove_file(bench.path("w/f.h.pch")).unwrap();
        bench.keep(&line);
    }
}

/// The compiler of this test writes a header when it compiles: once, to the path in a variable.
const MEDDLING: &str = r##"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    const char *path = getenv("MEDDLE");
    for (int at = 1; at < argc; at++)
        if (strcmp(argv[at], "-c") == 0 && path) {
            FILE *file = fopen(path, "w");
            fputs("#define H 2\n", file);
            fclose(file);
        }
    argv[0] = CLANG;
    execv(CLANG, argv);
    return 1;
}
"##;

/// A changed one, and one that shadows.
fn a_header_that_changes_meanwhile() {
    for changed in ["{}/2/h.h", "{}/1/h.h"] {
        let bench = Bench::with_compiler(MEDDLING);
        bench.write("w/a.cpp", "#include <h.h>\nint f() { return H; }\n");
        bench.write("2/h.h", "#define H 1\n");
        bench.write("1/x", "");
        let line = Line::new("w", "-I{}/1 -I{}/2").with("MEDDLE", changed);
        let did = bench.run(&line);
        assert!(matches!(did, Did::NotKept(Reason::Changed(_))), "{did:?}");
        // The header is written again, with the same text: another file is another file.
        assert!(matches!(bench.run(&line), Did::NotKept(Reason::Changed(_))));
    }
}

fn another_compiler_misses() {
    const PLAIN: &str = "#include <unistd.h>\nint main(int argc, char **argv) { argv[0] = CLANG; execv(CLANG, argv); return 1; }\n";
    let bench = Bench::with_compiler(PLAIN);
    bench.write("w/a.cpp", "int f() { return 1; }\n");
    let line = Line::new("w", "");
    bench.keep(&line);
    // A file of its installation: by content, by name, and where a link leads.
    for (name, text) in [("own/lib/x.bc", "1"), ("own/lib/x.bc", "2"), ("own/bin/bisheng.cfg", "")] {
        bench.write(name, text);
        assert_eq!(bench.run(&line), Did::Compiled, "{name}");
        assert_eq!(bench.run(&line), Did::Hit, "{name}");
    }
    bench.write("elsewhere/y.bc", "1");
    std::os::unix::fs::symlink(bench.path("elsewhere"), bench.path("own/lib/linked")).unwrap();
    assert_eq!(bench.run(&line), Did::Compiled);
    bench.write("elsewhere/y.bc", "2");
    assert_eq!(bench.run(&line), Did::Compiled);
    fs::rename(bench.path("own/lib/x.bc"), bench.path("own/lib/z.bc")).unwrap();
    assert_eq!(bench.run(&line), Did::Compiled);
    assert_eq!(bench.run(&line), Did::Hit);
}

/// A result with texts is kept by its place and by the contents of its files.
fn warnings_have_the_lines_of_now() {
    let bench = Bench::new();
    let text = "int f() { int a = a; return a; }\nint g(int a) { if (a = 1) return 2; return 3; }\n";
    bench.write("w/a.cpp", text);
    let line = Line::new("w", "");
    bench.keep(&line);
    bench.write("w/a.cpp", &format!("\n{text}"));
    assert_eq!(bench.run(&line), Did::Compiled);
    assert_eq!(bench.run(&line), Did::Hit);
    bench.write("v/a.cpp", text);
    assert_eq!(bench.run(&Line::new("v", "")), Did::Compiled);
    bench.write("w/a.cpp", &format!("{text}// a comment\n"));
    assert_eq!(bench.run(&line), Did::Compiled);
    assert_eq!(bench.run(&line), Did::Hit);
}
