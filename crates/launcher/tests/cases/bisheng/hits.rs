//! What changes nothing of an object, and what a hit writes.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use opkeep_launcher::Reason;

use super::Case;
use super::bench::{Bench, Did, Line};

pub(super) const CASES: &[Case] = &[
    ("bisheng::comments_and_places_do_not_count", comments_and_places_do_not_count),
    ("bisheng::variables_of_callers_do_not_count", variables_of_callers_do_not_count),
    ("bisheng::a_file_of_a_user_is_never_lost", a_file_of_a_user_is_never_lost),
    ("bisheng::a_hit_has_the_mode_of_a_compile", a_hit_has_the_mode_of_a_compile),
];

fn comments_and_places_do_not_count() {
    let bench = Bench::new();
    let source =
        "#include \"h.h\"\n#include <stddef.h>\nint f(int a) { return a + H + (int)sizeof(size_t); }\n";
    bench.write("w/a.cpp", source);
    bench.write("w/h.h", "#define H 1\nstruct s { int a; };\n");
    let line = Line::new("w", "-O3 -std=c++17");
    bench.keep(&line);
    // Comments of one line and of many, in the source and in the header, and definitions that nothing uses.
    bench.write("w/h.h", "// a comment\n#define H 1\nstruct s { int a; };\n#define UNUSED 1\n");
    assert_eq!(bench.run(&line), Did::Hit);
    bench.write("w/a.cpp", &format!("/*{}*/\n{source}", "\n".repeat(40)));
    assert_eq!(bench.run(&line), Did::Hit);
    bench.write("w/a.cpp", &format!("{source}#if 0\nint unused() {{ return 1; }}\n#endif\n"));
    assert_eq!(bench.run(&line), Did::Hit);
    // Another directory, another object's name, other directories of the same headers.
    bench.write("another/place/a.cpp", source);
    bench.write("another/include/h.h", "#define H 1\nstruct s { int a; };\n");
    let moved = Line::of("-c -O3 -std=c++17 {}/another/place/a.cpp -o {}/another/k.o");
    let moved = Line { object: "another/k.o".to_owned(), ..moved }.with("CPATH", "{}/another/include");
    assert_eq!(bench.run(&moved), Did::Hit);
    // By a relative path.
    let relative = Line::of("-c -O3 -std=c++17 a.cpp -o k.o");
    assert_eq!(bench.run(&relative), Did::Hit);
}

fn variables_of_callers_do_not_count() {
    let bench = Bench::new();
    bench.write("w/a.cpp", "int f() { return 1; }\n");
    bench.keep(&Line::new("w", ""));
    for (name, value) in [
        ("MAKEFLAGS", "-j8 --jobserver-auth=3,4"),
        ("MAKELEVEL", "2"),
        ("TMPDIR", "{}/w"),
        ("PYTHONPATH", "/x"),
        ("PWD", "{}/w"),
        ("OPKEEP_STORE", "/x"),
        ("TILINGKEY_PAR_COMPILE", "1"),
        ("SHLVL", "3"),
    ] {
        assert_eq!(bench.run(&Line::new("w", "").with(name, value)), Did::Hit, "{name}");
    }
}

/// Behind a link, by a second name, and in a directory that is reached by a link.
fn a_file_of_a_user_is_never_lost() {
    let bench = Bench::new();
    bench.write("w/a.cpp", "int f() { return 1; }\n");
    let line = Line::new("w", "");
    bench.keep(&line);
    bench.write("user", "of the user");
    for lay in
        [(|bench: &Bench| symlink(bench.path("user"), bench.path("w/k.o")).unwrap()) as fn(&Bench), |bench| {
            fs::hard_link(bench.path("user"), bench.path("w/k.o")).unwrap()
        }]
    {
        let without = |bench: &Bench| {
            let _ = fs::remove_file(bench.path("w/k.o"));
            bench.write("user", "of the user");
            lay(bench);
        };
        without(&bench);
        let did = bench.run_once(&line);
        assert_ne!(did, Did::Hit);
        let after = (bench.read("user"), bench.path("w/k.o").is_symlink());
        without(&bench);
        bench.run_plainly(&line);
        assert_eq!(after, (bench.read("user"), bench.path("w/k.o").is_symlink()));
        let _ = fs::remove_file(bench.path("w/k.o"));
    }
    fs::create_dir(bench.path("real")).unwrap();
    symlink(bench.path("real"), bench.path("linked")).unwrap();
    let through = Line::of("-c {}/w/a.cpp -o {}/linked/k.o");
    assert_eq!(bench.run(&Line { object: "real/k.o".to_owned(), ..through }), Did::Hit);
    assert!(bench.path("linked").is_symlink());
}

fn a_hit_has_the_mode_of_a_compile() {
    let bench = Bench::new();
    bench.write("w/a.cpp", "int f() { return 1; }\n");
    let line = Line::new("w", "");
    bench.keep(&line);
    for mode in [0o600, 0o755, 0o444] {
        bench.write("w/k.o", "an old object");
        fs::set_permissions(bench.path("w/k.o"), fs::Permissions::from_mode(mode)).unwrap();
        bench.run(&line);
    }
    // Without its directory, a compile fails.
    let line = Line::of("-c {}/w/a.cpp -o {}/absent/k.o");
    assert_eq!(bench.run(&Line { object: "absent/k.o".to_owned(), ..line }), Did::NotKept(Reason::Failed));
    assert!(!bench.path("absent").exists());
}
