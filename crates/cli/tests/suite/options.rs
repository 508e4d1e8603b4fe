//! Options of the user: a misspelt one is an error for every target. An option of a descriptor never is an error.

use crate::common::{Place, square_of};

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
            let ran = ran
                .says(&format!("no option `{name}`"))
                .says("known are op_debug_config, op_debug_level\n")
                .says("note: the known ones without effect there are autoTilingMode, coreNum, ");
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
    // The same for networks, which have no options of their own.
    let lenet = format!("{}/../../fixtures/networks/lenet/model.onnx", env!("CARGO_MANIFEST_DIR"));
    place.run(&["build", &lenet, "--option", "deterministc=true"]).ended_with(2).says("`deterministic`");
    let json =
        place.run(&["build", info, "--option", "op_debug_lvel=1", "--format", "json"]).ended_with(2).json();
    assert!(json["error"].as_str().unwrap().contains("op_debug_level"), "{json}");
}

#[test]
fn an_option_of_a_descriptor_is_not_checked() {
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
        let ran = place.run(&["build", plain, "--option", known]).ended_with(0);
        let name = known.split('=').next().unwrap();
        let note = format!("note: the option `{name}` has no effect on the target `cpu`");
        assert_eq!(ran.stderr.contains(&note), name != "op_debug_level", "{ran:?}");
    }
}

#[test]
fn an_invalid_option_value_is_an_error_with_the_valid_values() {
    let place = Place::new();
    let info = place.write("square.info", square_of(3));
    let info = info.to_str().unwrap();
    for (given, expected) in [
        ("deterministic=maybe", "true, false, 1 or 0"),
        ("autoTilingMode=fast", "NO_TUNE, RL, GA, RL,GA"),
        ("coreNum=0", "1 or more"),
        ("coreType=Cube", "AiCore, VectorCore"),
        ("l1Fusion=on", "true, false"),
        ("l2Mode=two", "a whole number"),
        ("offlineTune=yes", "true, false"),
        ("op_bank_update=2", "true, false"),
        ("op_debug_level=9", "0, 1, 2, 3"),
        ("op_debug_config=oom,nothing", "dump_cce"),
        ("op_impl_mode=high_precison", "high_precision"),
        ("op_impl_mode_list=MatMul", "MatMul:high_precision"),
        ("status_check=\u{202e}", "true, false"),
        ("vector_fp_ceiling=x", "a whole number"),
    ] {
        for command in COMMANDS {
            let ran = place.run(&[command, &[info, "--option", given]].concat()).ended_with(2);
            let ran = ran.says(given.split('=').next().unwrap()).says(expected);
            assert!(!ran.stderr.contains('\u{202e}'), "{ran:?}");
        }
    }
    assert!(!place.path("cache").exists(), "something was built");
    // Options that a framework wrote are not checked.
    let odd = square_of(3).replace("\"NO_TUNE\"", "\"whatever it likes\"");
    let odd = place.write("odd.info", odd);
    place.run(&["build", odd.to_str().unwrap()]).ended_with(0);
}

/// Every target accepts the options that the help proposes.
#[test]
fn options_in_the_help_are_options() {
    let place = Place::new();
    let info = place.write("square.info", square_of(3));
    let help = place.run(&["help", "build"]).ended_with(0).stdout;
    let about = help.split("--option <NAME=VALUE>").nth(1).unwrap().split("--cann").next().unwrap();
    let words = about.split_whitespace().map(|word| word.trim_end_matches("...").trim_end_matches(','));
    let examples: Vec<String> =
        words.filter(|word| word.contains('=')).map(|word| word.replace("DIR", "/tmp")).collect();
    assert!(examples.len() >= 7, "{about}");
    for example in examples {
        place.run(&["build", info.to_str().unwrap(), "--option", &example]).ended_with(0);
    }
}

#[test]
fn a_dimension_that_no_input_has_is_an_error_with_the_nearest_name() {
    let place = Place::new();
    let info = place.write("square.info", square_of(3));
    let info = info.to_str().unwrap();
    for command in COMMANDS {
        let ran = place.run(&[command, &[info, "--dim", "batch=1"]].concat()).ended_with(2);
        ran.says("`batch`").says("descriptors (.info) have none");
    }
    let network = place.write("net/open.onnx", open_network());
    let network = network.to_str().unwrap();
    for command in ["build", "explain"] {
        for inputs in [&[network][..], &[network, info], &[network, network]] {
            place.run(&[&[command], inputs, &["--dim", "batch=2"]].concat()).ended_with(0);
            place.run(&[&[command], inputs, &["--dim", "x:0=2"]].concat()).ended_with(0);
            for args in [&["--dim", "bacth=2"][..], &["--dim", "batch=2", "--dim", "bacth=2"]] {
                let ran = place.run(&[&[command], inputs, args].concat()).ended_with(2);
                ran.says("dimension `bacth` is not one that a model leaves open")
                    .says("leave open `batch`, `x:0`")
                    .says("help: did you mean `batch`?");
            }
        }
    }
    let two = ["build", "net", "--dim", "batch=2", "--dim", "batch=3"];
    place.run(&two).ended_with(2).says("`batch` has two sizes, 2 and 3");
    place.run(&["run", network, "--dim", "bacth=2"]).ended_with(2).says("did you mean `batch`");
    // An unreadable network may have the dimension, and is an error itself.
    place.write("net/torn.onnx", "torn");
    place.run(&["build", "net", "--dim", "batch=2"]).ended_with(1).says("torn.onnx");
    place.run(&["build", "net", "--dim", "batch=2", "--dim", "other=2"]).ended_with(1).says("torn.onnx");
}

/// A network of one Relu over `x`, whose first dimension is called `batch` and has no size.
pub(crate) fn open_network() -> Vec<u8> {
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
    }
    let dims = [field(1, &field(2, b"batch")), field(1, &[0x08, 3])].concat();
    let tensor = [&[0x08, 1][..], &field(2, &dims)].concat();
    let info = |name: &[u8]| [field(1, name), field(2, &field(1, &tensor))].concat();
    let node = [field(1, b"x"), field(2, b"y"), field(4, b"Relu")].concat();
    let graph = [field(1, &node), field(2, b"g"), field(11, &info(b"x")), field(12, &info(b"y"))].concat();
    [vec![0x08, 8], field(7, &graph), field(8, &[0x10, 17])].concat()
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
    // An empty configuration counts as none there, too: CANN still collects information.
    assert_eq!(outcome(&[plain, "--op_debug_config="], &collecting), "bypassed");
    assert_eq!(outcome(&[plain, "--op_debug_level=0"], &collecting), "bypassed");
}
