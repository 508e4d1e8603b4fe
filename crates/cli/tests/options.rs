//! Options that the user gives: a misspelt one is an error for every target. What a descriptor has never is one.

mod common;

use common::{Place, square_of};

const COMMANDS: [&[&str]; 3] = [&["build"], &["explain"], &["run", "--input-values", "1,2,3"]];

#[test]
fn a_misspelt_option_is_an_error_with_the_nearest_name() {
    let place = Place::new();
    let info = place.write("square.info", square_of(3));
    let info = info.to_str().unwrap();
    for (given, nearest) in [
        ("op_debug_lvel=1", Some("op_debug_level")),
        ("op-debug-level=1", Some("op_debug_level")),
        ("OP_DEBUG_CONFIG=oom", Some("op_debug_config")),
        ("determinstic=true", Some("deterministic")),
        ("impl_mode=high_precision", Some("op_impl_mode")),
        ("corenum=8", Some("coreNum")),
        ("frobnicate=1", None),
        ("misspelt=", None),
    ] {
        for command in COMMANDS {
            let ran = place.run(&[command, &[info, "--option", given]].concat()).ended_with(2);
            let name = given.split('=').next().unwrap();
            let ran = ran.says(&format!("no option `{name}`")).says("known are autoTilingMode, coreNum");
            match nearest {
                Some(nearest) => drop(ran.says(&format!("did you mean `{nearest}`?"))),
                None => assert!(!ran.stderr.contains("did you mean"), "{ran:?}"),
            }
        }
    }
    let both = place.run(&["build", info, "--option", "impl_mod=a", "--option", "l2mode=2"]).ended_with(2);
    assert!(
        both.stderr.contains("`impl_mod`") && both.stderr.contains("`l2mode` (did you mean `l2Mode`?)"),
        "{both:?}"
    );
    assert!(!place.path("cache").exists(), "something was built");
    // So for networks, which have no options of their own.
    let lenet = format!("{}/../../fixtures/networks/lenet/model.onnx", env!("CARGO_MANIFEST_DIR"));
    place.run(&["build", &lenet, "--option", "deterministc=true"]).ended_with(2).says("`deterministic`");
    let json =
        place.run(&["build", info, "--option", "op_debug_lvel=1", "--format", "json"]).ended_with(2).json();
    assert!(json["error"].as_str().unwrap().contains("op_debug_level"), "{json}");
}

#[test]
fn an_option_of_a_descriptor_is_none_of_ours() {
    let place = Place::new();
    let new = square_of(3).replace("\"autoTilingMode\"", "\"brand_new_option\": \"7\", \"autoTilingMode\"");
    let new = place.write("new.info", new);
    let plain = place.write("plain.info", square_of(4));
    let (new, plain) = (new.to_str().unwrap(), plain.to_str().unwrap());
    place.run(&["build", new]).ended_with(0);
    place.run(&["build", new, "--option", "brand_new_option=8"]).ended_with(0);
    // One of several has it.
    place.run(&["build", plain, new, "--option", "brand_new_option=8"]).ended_with(0);
    place.run(&["build", plain, "--option", "brand_new_option=8"]).ended_with(2).says("brand_new_option");
    for known in
        ["coreNum=8", "op_impl_mode=high_precision", "l2Mode=2", "deterministic=true", "op_debug_level=0"]
    {
        place.run(&["build", plain, "--option", known]).ended_with(0);
    }
}

/// Off, as in CANN: in the file, as the file, as an option, and in a descriptor, in every spelling of nothing.
#[test]
fn an_empty_debug_configuration_is_none() {
    let place = Place::new();
    let plain = place.write("plain.info", square_of(3));
    let with = |value: &str| {
        square_of(3)
            .replace("\"autoTilingMode\"", &format!("\"op_debug_config\": {value}, \"autoTilingMode\""))
    };
    let oom = place.write("oom.info", with("\"oom\""));
    let (plain, oom) = (plain.to_str().unwrap(), oom.to_str().unwrap());
    let outcome = |args: &[&str], env: &[(&str, &str)]| {
        let ran = place.run_with(&[&["build", "--format", "json"], args].concat(), env).ended_with(0);
        ran.json()["results"][0]["outcome"].as_str().unwrap().to_owned()
    };
    assert_eq!(outcome(&[plain], &[]), "compiled");
    assert_eq!(outcome(&[oom], &[]), "bypassed");
    for value in ["\"\"", "\" \"", "\",\"", "[]", "null"] {
        let info = place.write("empty.info", with(value));
        assert_eq!(outcome(&[info.to_str().unwrap()], &[]), "reused", "{value}");
    }
    for text in [
        "op_debug_config=",
        "op_debug_config = \n",
        "# off\nop_debug_config=\nop_debug_list=Default/Square-op1\n",
    ] {
        let file = place.write("debug.cfg", text);
        let flag = format!("--op_debug_config={}", file.display());
        for info in [plain, oom] {
            assert_eq!(outcome(&[info, &flag], &[]), "reused", "{info}: {text:?}");
        }
    }
    for flags in [
        &["--op_debug_config="][..],
        &["--op_debug_config", ""],
        &["--option", "op_debug_config="],
        &["--option=op_debug_config= "],
    ] {
        for info in [plain, oom] {
            assert_eq!(outcome(&[&[info], flags].concat(), &[]), "reused", "{info}: {flags:?}");
        }
    }
    let collecting = [("NPU_COLLECT_PATH", "/nonexistent")];
    assert_eq!(outcome(&[plain], &[("NPU_COLLECT_PATH", "")]), "reused");
    // An empty configuration is none there, too: CANN collects all the same.
    assert_eq!(outcome(&[plain, "--op_debug_config="], &collecting), "bypassed");
    assert_eq!(outcome(&[plain, "--op_debug_level=0"], &collecting), "bypassed");
}
