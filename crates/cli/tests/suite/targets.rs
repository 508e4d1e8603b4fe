//! `opkeep targets` and CANN: found parts, missing parts, and help.

#![expect(clippy::disallowed_methods, reason = "tests make directories")]

use crate::common::Place;
use opkeep_testkit::terminal::shown_in;
use opkeep_testkit::toolkit::{Part, SOCS, Toolkit, Vendor};
use serde_json::json;

#[test]
fn a_toolkit_is_shown_with_versions_vendors_and_chips() {
    let place = Place::untouched();
    let plan = Toolkit::new().vendor(Vendor::new("one").op("Own", "Square"));
    let installed = plan.write(&place.path("Ascend")).unwrap();
    let home = [("ASCEND_HOME_PATH", installed.root().to_str().unwrap())];
    let ran = place.run_with(&["targets"], &home).ended_with(0);
    for text in [
        "by CANN 8.1.RC1",
        "(ASCEND_HOME_PATH), which is",
        "7.7.0.1.238 of 20250428_203017761",
        "one (9.1.0, vendors/config.ini)",
        "Ascend910B1 (Ascend910B; 24 cube cores dav-c220-cube, 48 vector cores dav-c220-vec)",
        "warning    `Ascend910B` is a chip of the family Ascend910",
    ] {
        assert!(ran.stdout.contains(text), "{text}: {ran:?}");
    }
    let json = place.run_with(&["targets", "--format", "json"], &home).ended_with(0).json();
    let ascend = &json["ascend"];
    assert_eq!(ascend["targets"].as_array().unwrap().len(), SOCS.len());
    assert_eq!(ascend["toolkit"]["compiler"]["version"], "7.7.0.1.238");
    assert_eq!(ascend["toolkit"]["vendors"][0]["name"], "one");
    assert_eq!(ascend["warnings"].as_array().unwrap().len(), 1);
}

/// Long lines of results are wrapped at the width of the terminal, below their beginning; for programs they stay one line.
#[test]
fn results_fit_into_a_narrow_terminal() {
    let place = Place::new();
    std::fs::create_dir(place.path("shared")).unwrap();
    let url = format!("file://{}", place.path("shared").display());
    place.write(
        "kernels/bad.json",
        r#"{"kernelName": "a", "magic": "RT_DEV_BINARY_MAGIC_ELF", "blockDim": -3}"#,
    );
    place.write("kernels/bad.o", "no object at all, but a text");
    for (args, text) in [
        (&["targets"][..], "  operators  "),
        (&["verify", "kernels/bad.json"], "  error    OPV"),
        (&["inspect", "kernels/bad.json"], "error    OPV"),
        (&["remote", "check", &url, "--rounds", "2"], "  exclusive create  "),
    ] {
        let piped = place.run(args);
        assert!(piped.stdout.lines().any(|line| line.chars().count() > 80), "{args:?}: {piped:?}");
        let (_, shown) = shown_in(place.command(args), 80, 24).unwrap();
        // Without the progress, which is gone at the end.
        let shown: Vec<&str> =
            shown.lines().filter(|line| !line.contains("\u{1b}[")).map(str::trim_end).collect();
        // A word is never broken: a path or a digest may be long.
        let has_break = |line: &str| line.split_whitespace().all(|word| word.chars().count() < 50);
        let is_wide = |line: &&str| line.chars().count() > 80 && has_break(line);
        assert_eq!(shown.iter().copied().find(is_wide), None, "{args:?}: {shown:#?}");
        assert!(shown.iter().any(|line| line.contains(text.trim_end())), "{args:?}: {shown:#?}");
        // Nothing else differs.
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        if args[0] == "targets" {
            assert_eq!(words(&shown.join("\n")), words(&piped.stdout));
        }
    }
}

#[test]
fn a_half_installed_toolkit_is_a_problem_and_none_is_not() {
    let place = Place::untouched();
    let plan = Toolkit::new().without(Part::Opc).without(Part::OppVersion);
    let installed = plan.write(&place.path("Ascend")).unwrap();
    let home = [("ASCEND_TOOLKIT_HOME", installed.root().to_str().unwrap())];
    let ran = place.run_with(&["targets"], &home).ended_with(1);
    for text in
        ["the operator compiler `opc`", "opp/version.info", "brings it", "to do", "(ASCEND_TOOLKIT_HOME)"]
    {
        assert!(ran.stdout.contains(text), "{text}: {ran:?}");
    }
    let json = place.run_with(&["targets", "--format", "json"], &home).ended_with(1).json();
    assert_eq!(json["ascend"]["missing"].as_array().unwrap().len(), 2);
    assert_eq!(json["ascend"]["toolkit"], json!(null));

    let home = place.path("tmp");
    let nothing = [("HOME", home.to_str().unwrap())];
    let ran = place.run_with(&["targets"], &nothing).ended_with(0);
    ran.prints("  toolkit    no CANN toolkit is found").prints("set ASCEND_HOME_PATH");
    // One that a variable names, and that is not there; and no C compiler.
    let wrong = [("HOME", home.to_str().unwrap()), ("ASCEND_HOME_PATH", "/nowhere")];
    place
        .run_with(&["targets"], &wrong)
        .ended_with(1)
        .prints("  problem    ASCEND_HOME_PATH names `/nowhere`");
    let no_compiler = [("HOME", home.to_str().unwrap()), ("CC", "/nowhere/cc")];
    place.run_with(&["targets"], &no_compiler).ended_with(1).prints("/nowhere/cc");
    let help = place.run(&["targets", "--help"]).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for text in [
        "0: the C compiler works, and CANN works or is not installed;",
        "1: the C compiler is missing, or CANN is incomplete,",
    ] {
        assert!(help.contains(text), "{text}: {help}");
    }
}
