//! The causes of misses in the words of the person who made them.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use crate::common::{Place, SQUARE};

/// Returns the first line of an explanation by the compiler `cc`, with further arguments.
fn first_line(place: &Place, cc: &str, more: &[&str]) -> String {
    let args = [&["explain", SQUARE, "--target", "cpu"], more].concat();
    let explained = place.run_with(&args, &[("CC", cc)]).ended_with(0);
    explained.stdout.lines().next().unwrap_or_default().to_owned()
}

fn build(place: &Place, cc: &str, more: &[&str]) {
    let args = [&["build", SQUARE, "--target", "cpu", "--no-kernel-meta"], more].concat();
    place.run_with(&args, &[("CC", cc)]).ended_with(0);
}

/// An input that one side lacks has no other content.
#[test]
fn a_declared_input_is_new_gone_or_changed() {
    let place = Place::new();
    let (mine, yours) = (place.write("my.h", "1"), place.write("your.h", "1"));
    let input = |path: &std::path::Path| ["--toolchain-input".to_owned(), path.display().to_string()];
    let (mine, yours) = (input(&mine), input(&yours));
    let [mine, yours] = [&mine, &yours].map(|args| args.iter().map(String::as_str).collect::<Vec<_>>());
    build(&place, "cc", &[]);
    assert_eq!(first_line(&place, "cc", &mine), "1 miss: new in the toolchain: input my.h");
    let args = [&["build", SQUARE, "--target", "cpu", "--no-kernel-meta", "-v"][..], &mine].concat();
    place.run(&args).ended_with(0).prints("(not in the store; new in the toolchain: input my.h)");

    // Only the kernels with the input are left.
    std::fs::remove_dir_all(place.path("cache")).unwrap();
    build(&place, "cc", &mine);
    assert_eq!(first_line(&place, "cc", &[]), "1 miss: no longer in the toolchain: input my.h");
    assert_eq!(
        first_line(&place, "cc", &yours),
        "1 miss: new in the toolchain: input your.h; no longer in the toolchain: input my.h"
    );
    place.write("my.h", "2");
    assert_eq!(first_line(&place, "cc", &mine), "1 miss: toolchain: other content of input my.h");
}

/// A file that the compiler reads by itself is named, though its name is in no key.
#[test]
fn an_edited_header_and_an_edited_wrapper_are_named() {
    let place = Place::new();
    let header = place.write("pre.h", "/* 1 */\n");
    let cc = format!("cc -include {}", header.display());
    build(&place, &cc, &[]);
    place.write("pre.h", "/* 2 */\n");
    assert_eq!(first_line(&place, &cc, &[]), "1 miss: file pre.h: other content");

    let place = Place::new();
    build(&place, "cc", &[]);
    let wrapper = place.script("my-cc", "exec /usr/bin/env cc \"$@\"");
    let wrapper = wrapper.to_str().unwrap();
    assert_eq!(first_line(&place, wrapper, &[]), "1 miss: compiler is called through my-cc");
    std::fs::remove_dir_all(place.path("cache")).unwrap();
    build(&place, wrapper, &[]);
    assert_eq!(first_line(&place, "cc", &[]), "1 miss: compiler is no longer called through my-cc");
    place.script("my-cc", "# edited\nexec /usr/bin/env cc \"$@\"");
    assert_eq!(first_line(&place, wrapper, &[]), "1 miss: compiler my-cc: other content");
}
