//! Which toolkit is found, what is said where there is none, and what is known of it.
#![expect(clippy::disallowed_methods, reason = "tests look at what is on the disk")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::common::{Place, SOC, environment, search_below};
use opkeep_cann_toolkit::{OpsInfo, PathOrigin, Search, ToolkitError, Value};
use opkeep_testkit::toolkit::{Layout, Part, SOCS, Toolkit, Vendor};

#[test]
fn both_layouts_are_found_where_they_are_usually() {
    for (layout, version, root) in
        [(Layout::AscendToolkit, "8.1.RC1", "ascend-toolkit/latest"), (Layout::Cann, "9.1.0", "cann")]
    {
        let place = Place::of(&Toolkit::new().layout(layout).version(version, "9.9"));
        let found = place.found();
        assert_eq!((found.root.as_path(), found.named_by), (place.installed.root(), PathOrigin::UsualPath));
        assert!(found.root.ends_with(root));
        assert_eq!(found.real_root(), fs::canonicalize(place.installed.versioned_root()).unwrap());
        assert_eq!(found.asc_opc.is_some(), version.starts_with('9'));
        assert_eq!(found.opc, Some(found.root.join("bin/opc")));
        assert_eq!(found.versions.compiler.to_string(), "9.9 of 20250428_203017761");
        assert_eq!(found.versions.opp.release.as_deref(), Some(version));
        assert_eq!(found.warnings, [""; 0]);
    }
    // For one user.
    let place = Place::new();
    let own = Search { system: place.below("none"), home: Some(place.below("me")), ..place.search() };
    fs::create_dir(place.below("me")).unwrap();
    fs::rename(place.below("Ascend"), place.below("me/Ascend")).unwrap();
    assert_eq!(own.find().unwrap().root, place.below("me/Ascend/ascend-toolkit/latest"));
}

#[test]
fn a_named_path_is_used_or_is_an_error() {
    let (one, other) = (Place::new(), Place::new());
    let home = other.installed.root();
    let opp = other.installed.opp();
    for (variables, by) in [
        (vec![("ASCEND_HOME_PATH", home)], "ASCEND_HOME_PATH"),
        (vec![("ASCEND_TOOLKIT_HOME", home)], "ASCEND_TOOLKIT_HOME"),
        (vec![("ASCEND_OPP_PATH", opp.as_path())], "ASCEND_OPP_PATH"),
        (vec![("ASCEND_TOOLKIT_HOME", Path::new("/none")), ("ASCEND_HOME_PATH", home)], "ASCEND_HOME_PATH"),
        (vec![("ASCEND_HOME_PATH", Path::new("")), ("ASCEND_TOOLKIT_HOME", home)], "ASCEND_TOOLKIT_HOME"),
    ] {
        let search = Search { environment: environment(&variables), ..one.search() };
        let found = search.find().unwrap();
        assert_eq!((found.root.as_path(), found.named_by), (home, PathOrigin::Variable(by)));
        // A toolkit that is named comes before.
        let asked = Search { explicit: Some(one.installed.root().to_owned()), ..search };
        let found = asked.find().unwrap();
        assert_eq!((found.root.as_path(), found.named_by), (one.installed.root(), PathOrigin::Caller));
        assert_eq!(found.opp, one.installed.opp());
    }
    // Also if that one lacks something, and another does not.
    let half = Place::of(&Toolkit::new().without(Part::Opc));
    let variables = environment(&[("ASCEND_HOME_PATH", half.installed.root())]);
    let error = Search { environment: variables, ..one.search() }.find().unwrap_err();
    assert!(matches!(error, ToolkitError::Incomplete { .. }), "{error}");
    // The directory that it was installed to will do.
    for path in ["Ascend", "Ascend/ascend-toolkit", "Ascend/ascend-toolkit/8.1.RC1"] {
        let search = Search { explicit: Some(one.below(path)), ..one.search() };
        assert!(search.find().unwrap().root.starts_with(one.below(path)), "{path}");
    }
    for (path, says) in [("none", "no such directory"), ("home", "neither `opp` nor `compiler`")] {
        fs::create_dir_all(one.below("home")).unwrap();
        let stale = environment(&[("ASCEND_HOME_PATH", &one.below(path))]);
        let error = Search { environment: stale, ..one.search() }.find().unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, ToolkitError::NotAToolkit { .. }), "{text}");
        assert!(text.contains("ASCEND_HOME_PATH names") && text.contains(says), "{text}");
        assert!(error.help().contains("unset it"), "{}", error.help());
    }
}

#[test]
fn nothing_is_found_where_there_is_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let error = search_below(dir.path()).find().unwrap_err();
    let text = error.to_string();
    for place in [
        "Ascend/ascend-toolkit/latest",
        "Ascend/cann",
        "home/Ascend/ascend-toolkit/latest",
        "home/Ascend/cann",
    ] {
        assert!(text.contains(&dir.path().join(place).display().to_string()), "{text}");
    }
    assert!(error.help().contains("ASCEND_HOME_PATH"));
}

#[test]
fn missing_parts_are_named_one_by_one() {
    for (part, says) in [
        (Part::Opc, "the operator compiler `opc`"),
        (Part::Compiler, "the device compiler"),
        (Part::OpInfo, "the operator information"),
        (Part::PlatformConfig, "the platform configuration"),
        (Part::CompilerVersion, "compiler/version.info"),
        (Part::OppVersion, "opp/version.info"),
        (Part::Python, "the Python package `tbe`"),
        (Part::Opp, "the operators"),
    ] {
        for layout in [Layout::AscendToolkit, Layout::Cann] {
            let place = Place::of(&Toolkit::new().layout(layout).without(part));
            let error = place.search().find().unwrap_err();
            let text = error.to_string();
            assert!(text.contains(says) && text.contains("brings it"), "{text}");
            let ToolkitError::Incomplete { missing, root, .. } = error else { panic!("{text}") };
            assert_eq!(root, place.installed.root());
            let parts = match part {
                Part::Opp => 3,
                Part::Compiler | Part::Python => 2,
                _ => 1,
            };
            assert_eq!(missing.len(), parts, "{text}");
        }
    }
    // The log goes elsewhere without its library.
    assert!(Place::of(&Toolkit::new().without(Part::LogLibrary)).search().find().is_ok());
    let both = Place::of(&Toolkit::new().without(Part::Opc).without(Part::OpInfo));
    assert!(
        matches!(both.search().find().unwrap_err(), ToolkitError::Incomplete { missing, .. } if missing.len() == 2)
    );
}

#[test]
fn of_the_usual_places_the_first_complete_one_is_taken() {
    let place = Place::of(&Toolkit::new().without(Part::Opc));
    Toolkit::new().layout(Layout::Cann).write(&place.below("Ascend")).unwrap();
    assert!(place.found().root.ends_with("cann"));
}

#[test]
fn a_version_that_says_nothing_is_an_error() {
    let place = Place::new();
    let path = place.installed.path("opp/version.info");
    place.installed.edit(&path, |text| text.replace("Version=", "Verse=")).unwrap();
    let error = place.search().find().unwrap_err();
    assert!(
        error.to_string().contains("opp/version.info") && error.to_string().contains("`Version=...`"),
        "{error}"
    );
    place
        .installed
        .edit(&path, |text| text.replace("Verse=", "Version=").replace("8.1.RC1", "8.2.RC1"))
        .unwrap();
    let warnings = place.found().warnings;
    assert!(warnings[0].contains("8.1.RC1") && warnings[0].contains("8.2.RC1"), "{warnings:?}");
}

/// Sourcing the script is not necessary: the child's environment equals the script's result.
#[test]
fn the_environment_is_that_of_the_script() {
    for layout in [Layout::AscendToolkit, Layout::Cann] {
        let place = Place::of(&Toolkit::new().layout(layout));
        let inherited = [("PATH", "/usr/bin:/bin"), ("PYTHONPATH", "/mine"), ("LD_LIBRARY_PATH", "/libs")];
        let as_text = |(name, value): (&str, &str)| (name.to_owned(), OsString::from(value));
        let environment: BTreeMap<String, OsString> = inherited.into_iter().map(as_text).collect();
        let found = Search { environment, ..place.search() }.find().unwrap();
        let mut shell = std::process::Command::new("/bin/sh");
        let script = shell.env_clear().envs(inherited).args(["-c", ". \"$1\" && env", "sh"]);
        let output = script.arg(place.installed.path("set_env.sh")).output().unwrap();
        let output = String::from_utf8(output.stdout).unwrap();
        let mut ours = found.environment();
        assert_eq!(ours.pop(), Some(("HOME", place.below("home").into())));
        assert_eq!(ours.len(), 8);
        for (name, value) in ours {
            let line = format!("{name}={}", value.to_str().unwrap());
            assert!(output.lines().any(|other| other == line), "{line}\n{output}");
        }
    }
}

#[test]
fn variables_that_change_kernels_are_passed_on() {
    let place = Place::new();
    let bank = place.below("bank");
    let variables = [
        ("TUNE_BANK_PATH", bank.as_path()),
        ("ASCEND_CACHE_PATH", Path::new("/c")),
        ("HOME", Path::new("/h")),
    ];
    let found = Search { environment: environment(&variables), ..place.search() }.find().unwrap();
    let value = |name: &str| found.variables().into_iter().find(|variable| variable.name == name);
    assert_eq!(value("TUNE_BANK_PATH").unwrap().value, Value::Set(bank.clone().into()));
    assert_eq!(value("ASCEND_CACHE_PATH").unwrap().value, Value::Set("/c".into()));
    assert!(
        found.warnings[0].contains("TUNE_BANK_PATH") && found.warnings[0].contains("bank"),
        "{:?}",
        found.warnings
    );
    let named: Vec<&str> = found.banks.iter().map(|bank| bank.named_by).collect();
    assert_eq!(named, ["TUNE_BANK_PATH", "ASCEND_CACHE_PATH", "the home folder", "built-in"]);
}

#[test]
fn vendors_go_in_their_order() {
    let plan = Toolkit::new().vendor(Vendor::new("one").op("Own", "Square").version("9.0.0"));
    let place = Place::of(&plan.vendor(Vendor::new("two").op("Square", "Mul")));
    let custom = place.below("elsewhere/three");
    place.installed.write_vendor(&Vendor::new("three").op("Own", "Mul"), &custom).unwrap();
    let mut search = place.search();
    let list = format!("{}:: {}", place.below("none").display(), custom.display());
    search.environment.insert("ASCEND_CUSTOM_OPP_PATH".to_owned(), list.into());
    let found = search.find().unwrap();
    let names: Vec<(&str, &str)> =
        found.vendors.iter().map(|vendor| (vendor.name.as_str(), vendor.named_by)).collect();
    let (variable, ini) = ("ASCEND_CUSTOM_OPP_PATH", "vendors/config.ini");
    assert_eq!(names, [("three", variable), ("one", ini), ("two", ini)]);
    assert_eq!(found.vendors[1].version.as_deref(), Some("9.0.0"));
    assert_eq!(found.vendors[0].packages, ["three_impl"]);
    assert!(found.warnings.len() == 1 && found.warnings[0].contains("none"), "{:?}", found.warnings);
    // An earlier package hides later ones.
    let ops = OpsInfo::read(&found, &found.platforms.soc(SOC).unwrap()).unwrap();
    let inputs =
        |op_type: &str| (ops.get(op_type).unwrap().vendor.clone(), ops.get(op_type).unwrap().inputs.len());
    assert_eq!(inputs("Own"), (Some("three".to_owned()), 2));
    assert_eq!(inputs("Square"), (Some("two".to_owned()), 2));
    assert_eq!(inputs("Mul"), (None, 2));
    assert_eq!(ops.files.len(), 4);
}

#[test]
fn chips_are_read_from_the_platform_configuration() {
    let place = Place::new();
    let platforms = place.found().platforms;
    assert_eq!(platforms.names().len(), SOCS.len());
    for expected in SOCS {
        let soc = platforms.soc(expected.name).unwrap();
        assert_eq!((soc.short.as_str(), soc.cube_arch.as_str()), (expected.short, expected.cube_arch));
        assert_eq!(
            (soc.vector_arch.as_str(), soc.ai_cores),
            (expected.vector_arch, u32::from(expected.cores))
        );
        assert_eq!(soc.vector_cores.unwrap_or_default(), u32::from(expected.vector_cores));
        assert_eq!(soc.is_split(), expected.combine.is_some_and(|combine| combine.contains("split")));
        assert_eq!(platforms.warning(&soc).is_some(), expected.name == "Ascend910B", "{}", expected.name);
    }
    let trap = platforms.warning(&platforms.soc("Ascend910B").unwrap()).unwrap();
    for text in ["the family Ascend910 (dav-c100)", "`Ascend910B1`", "`Ascend910B4-1`"] {
        assert!(trap.contains(text), "{trap}");
    }
    assert!(!trap.contains("Ascend910_93"), "{trap}");
    let shown = platforms.soc(SOC).unwrap().to_string();
    assert_eq!(shown, "Ascend910B1 (Ascend910B; 24 cube cores dav-c220-cube, 48 vector cores dav-c220-vec)");
    for (asked, nearest) in
        [("ascend910b1", Some("Ascend910B1")), ("Ascend910B9", Some("Ascend910B1")), ("tpu", None)]
    {
        let error = platforms.soc(asked).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with(&format!("the toolkit has no chip `{asked}`")), "{text}");
        match nearest {
            Some(nearest) => assert!(text.contains(&format!("`{nearest}`")), "{text}"),
            None => assert!(!text.contains("nearest"), "{text}"),
        }
        assert!(error.help().contains("npu-smi"));
    }
    assert!(platforms.soc("../platform_config/Ascend910B1").is_err());
}

#[test]
fn operators_are_read_as_the_toolkit_reads_them() {
    let place = Place::new();
    let found = place.found();
    let ops = OpsInfo::read(&found, &found.platforms.soc(SOC).unwrap()).unwrap();
    let conv = ops.get("Conv2D").unwrap();
    assert!(conv.must_be_asked() && !conv.compiles_static_by_dynamic());
    assert_eq!(conv.core_type.as_deref(), Some("AiCore"));
    let names: Vec<&str> = conv.attrs.iter().map(|attr| attr.name.as_str()).collect();
    assert_eq!(names, ["strides", "pads", "dilations", "groups", "data_format", "offset_x"]);
    assert_eq!(conv.attrs[2].default.as_deref(), Some("[1,1,1,1]"));
    assert!(ops.get("Reshape").unwrap().is_null());
    assert_eq!(ops.get("MatMulV2").unwrap().file.as_deref(), Some("mat_mul"));
    assert!(ops.get("AddRmsNorm").is_some() && ops.iter().count() > 40);
    // Another family has other operators and types.
    let old = OpsInfo::read(&found, &found.platforms.soc("Ascend910A").unwrap()).unwrap();
    assert!(old.get("AddRmsNorm").is_none());
    place.installed.edit(&place.installed.op_info("Ascend910B"), |text| text.replacen('{', "{{", 1)).unwrap();
    let error = OpsInfo::read(&found, &found.platforms.soc(SOC).unwrap()).unwrap_err().to_string();
    assert!(error.contains("aic-ascend910b-ops-info.json` line 1 column"), "{error}");
    place.installed.remove(&place.installed.op_info("Ascend910B")).unwrap();
    let error = OpsInfo::read(&found, &found.platforms.soc(SOC).unwrap()).unwrap_err().to_string();
    assert!(error.contains("aic-ascend910b-ops-info.json"), "{error}");
}

#[test]
fn links_are_followed_and_kept() {
    let place = Place::new();
    symlink(place.installed.root(), place.below("by link")).unwrap();
    let variables = environment(&[("ASCEND_HOME_PATH", &place.below("by link"))]);
    let found = Search { environment: variables, ..place.search() }.find().unwrap();
    assert_eq!(found.root, place.below("by link"));
    assert_eq!(found.real_root(), fs::canonicalize(place.installed.versioned_root()).unwrap());
}
