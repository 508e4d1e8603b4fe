#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use opkeep_remote::SettingText;

use super::file::parse;
use super::table::ALL;
use super::template::{projects_reference, reference, template};
use super::value::Layer;
use super::*;
use crate::args::{Args, Command as Subcommand};
use crate::flags::compile::CompileArgs;
use crate::flags::record::RecordArgs;
use crate::flags::remote::RemoteArgs;
use crate::flags::store::StoreArgs;
use crate::flags::trust::TrustArgs;
use crate::setup::{remote_settings, store_at};

/// Flags of the groups that are no settings: they belong to one model or one build.
const NO_SETTINGS: [&str; 5] = ["fail-fast", "dim", "option", "op_debug_level", "op_debug_config"];

/// The template with its comments removed, but for the lines of words.
fn all_keys() -> String {
    let template = template();
    let keys = template.lines().map(|line| match line.strip_prefix("# ") {
        Some(key) if ALL.iter().any(|setting| key.starts_with(&format!("{} = ", setting.name()))) => key,
        Some(_) => "",
        None => line,
    });
    keys.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_template_has_each_key_with_a_valid_value() {
    assert!(parse(Layer::User, Path::new("/c/opkeep.toml"), &template()).values.is_empty());
    let found = parse(Layer::User, Path::new("/c/opkeep.toml"), &all_keys());
    assert!(found.errors.is_empty(), "{:?}", found.errors);
    let keys: BTreeSet<&str> = found.values.iter().map(|(setting, _)| setting.key).collect();
    let all: BTreeSet<&str> = ALL.iter().map(|setting| setting.key).collect();
    assert_eq!((keys, all.len()), (all.clone(), ALL.len()));
    // So that the tests see where a value is from.
    for setting in ALL {
        assert_ne!(setting.example.trim_matches('"'), setting.default, "{}", setting.key);
    }
}

/// A flag of the groups that builds share is a setting, or is listed as none; and its help names the variables.
#[test]
fn each_flag_of_a_group_is_in_the_table() {
    let groups = [
        <CompileArgs as clap::Args>::augment_args as fn(Command) -> Command,
        <StoreArgs as clap::Args>::augment_args,
        <RemoteArgs as clap::Args>::augment_args,
        <TrustArgs as clap::Args>::augment_args,
        <RecordArgs as clap::Args>::augment_args,
    ];
    let mut flags = BTreeSet::new();
    for group in groups {
        let command = group(Command::new("group"));
        flags.extend(command.get_arguments().filter_map(|arg| arg.get_long().map(str::to_owned)));
    }
    for flag in &flags {
        let is_setting = ALL.iter().any(|setting| setting.flag == Some(flag));
        assert!(is_setting != NO_SETTINGS.contains(&flag.as_str()), "--{flag}");
    }
    for setting in ALL {
        assert!(setting.flag.is_none_or(|flag| flags.contains(flag)), "{}", setting.key);
        assert!(!setting.variables.is_empty(), "{}", setting.key);
    }
}

/// Returns the values that a build would use, by key.
fn in_use(args: &[&str], file: &Path) -> BTreeMap<&'static str, String> {
    let line: Vec<OsString> = ["opkeep", "build", "model"].iter().chain(args).map(Into::into).collect();
    let args = Args::read(&line, || 80).unwrap();
    let loaded = args.ui.config.load_file(file);
    assert!(loaded.errors.is_empty(), "{:?}", loaded.errors);
    let Subcommand::Build(build) = args.command else { panic!("{:?}", args.command) };
    let (common, store) = (&build.common, &build.common.store);
    let remote = remote_settings(&build.remote, &build.trust).unwrap();
    let config = store_at(store.dir().unwrap(), store);
    let shown = |text: &SettingText| text.value().to_string_lossy().into_owned();
    let text = |text: &Option<SettingText>| text.as_ref().map_or("none".to_owned(), shown);
    let debug = |value: &dyn std::fmt::Debug| format!("{value:?}");
    BTreeMap::from([
        ("target", common.target().to_owned()),
        ("jobs", debug(&common.jobs().unwrap())),
        ("nice", debug(&common.nice())),
        ("deadline", debug(&common.deadline())),
        ("store.dir", config.root.to_string_lossy().into_owned()),
        ("store.mode", common.cache_mode().to_string()),
        ("store.trusted-owners", debug(&store.trusted_owners())),
        ("store.max-size-mb", store.limits().max_op_cache_size.unwrap()),
        ("store.remain-percent", store.limits().remain_cache_size_ratio.unwrap()),
        ("store.max-entries", store.limits().max_entries.unwrap()),
        ("store.build-records", debug(&build.record.are_stored())),
        ("remote.url", text(&remote.url)),
        ("remote.mode", text(&remote.mode)),
        ("remote.namespace", text(&remote.namespace)),
        ("remote.headers-file", text(&remote.headers_file)),
        ("remote.tls-ca", text(&remote.tls_ca)),
        ("remote.tls-certificate", text(&remote.tls_certificate)),
        ("remote.tls-key", text(&remote.tls_key)),
        ("trust.trusted-keys", text(&remote.trusted_keys)),
        ("trust.sign-key", text(&remote.sign_key)),
        ("compiler.cc", common.cc().unwrap().to_string_lossy().into_owned()),
        ("compiler.cann", common.cann().unwrap().to_string_lossy().into_owned()),
        ("compiler.cann-driver", common.cann_driver().unwrap()),
        ("compiler.toolchain-inputs", debug(&common.toolchain_inputs())),
    ])
}

/// No setting is read past the table: what a build uses is in the file, and a flag counts more.
#[test]
fn each_group_of_flags_takes_what_it_lacks_from_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("opkeep.toml");
    fs::write(&file, all_keys()).unwrap();
    let below = |path: &str| dir.path().join(path).to_string_lossy().into_owned();
    let from_file = in_use(&[], &file);
    let expected = BTreeMap::from([
        ("target", "Ascend910B1".to_owned()),
        ("jobs", "8".to_owned()),
        ("nice", "10".to_owned()),
        ("deadline", "1200s".to_owned()),
        ("store.dir", "/scratch/me/opkeep".to_owned()),
        ("store.mode", "read-only".to_owned()),
        ("store.trusted-owners", "[1000]".to_owned()),
        ("store.max-size-mb", "2000".to_owned()),
        ("store.remain-percent", "70".to_owned()),
        ("store.max-entries", "10000".to_owned()),
        ("store.build-records", "false".to_owned()),
        ("remote.url", "redis://cache.example".to_owned()),
        ("remote.mode", "read".to_owned()),
        ("remote.namespace", "vision".to_owned()),
        ("remote.headers-file", below("headers")),
        ("remote.tls-ca", below("ca.pem")),
        ("remote.tls-certificate", below("client.pem")),
        ("remote.tls-key", below("client.key")),
        ("trust.trusted-keys", format!("@{}", below("trusted-keys"))),
        ("trust.sign-key", "/home/me/.config/opkeep/key".to_owned()),
        ("compiler.cc", "clang-16".to_owned()),
        ("compiler.cann", "/usr/local/Ascend/ascend-toolkit/latest".to_owned()),
        ("compiler.cann-driver", "workers".to_owned()),
        ("compiler.toolchain-inputs", format!("[{:?}]", below("include"))),
    ]);
    assert_eq!(from_file, expected);
    // All of the table but the projects, which only this module uses.
    assert_eq!(from_file.len() + 1, ALL.len());

    let mut flags = Vec::new();
    for (flag, value) in [
        ("target", "cpu"),
        ("jobs", "3"),
        ("nice", "4"),
        ("deadline", "5"),
        ("op_compiler_cache_dir", "store"),
        ("op_compiler_cache_mode", "require"),
        ("trusted-owner", "7"),
        ("build-records", "on"),
        ("remote", "file:///x"),
        ("remote-mode", "off"),
        ("remote-namespace", "other"),
        ("trusted-keys", "@keys"),
        ("sign-key", "key"),
        ("cann", "cann"),
        ("cann-driver", "process"),
    ] {
        flags.extend([format!("--{flag}"), value.to_owned()]);
    }
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let from_flags = in_use(&flags, &file);
    for setting in ALL.iter().filter(|setting| setting.flag.is_some_and(|flag| flag != "toolchain-input")) {
        let (by_flag, by_file) = (&from_flags[setting.key], &from_file[setting.key]);
        assert_ne!(by_flag, by_file, "{}", setting.key);
    }
    // Another server gets nothing of what the file has for its own.
    for key in ["remote.headers-file", "remote.tls-certificate", "remote.tls-key"] {
        assert_eq!(from_flags[key], "none", "{key}");
    }
    // These flags add to the others.
    let inputs = &in_use(&["--toolchain-input", "more"], &file)["compiler.toolchain-inputs"];
    assert_eq!(*inputs, format!("[{:?}, \"more\"]", below("include")));
}

/// The commands that work on a store, a remote cache or a bundle have the settings of `--config`, too.
#[test]
fn each_command_shares_the_settings_of_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("opkeep.toml");
    fs::write(&file, "store.dir = \"own\"").unwrap();
    for line in [
        &["opkeep", "stats"][..],
        &["opkeep", "--config", "x", "stats"],
        &["opkeep", "stats", "--config", "x"],
    ] {
        let args = Args::read(&line.iter().map(Into::into).collect::<Vec<_>>(), || 80).unwrap();
        args.ui.config.load_file(&file);
        let Subcommand::Stats(stats) = args.command else { panic!("{:?}", args.command) };
        assert_eq!(stats.store.dir(), Some(dir.path().join("own")), "{line:?}");
    }
}

#[test]
fn a_program_below_a_directory_with_a_space_is_refused() {
    let of = |dir: &str, program: &str| {
        let file = Path::new(dir).join("opkeep.toml");
        let mut found = parse(Layer::User, &file, &format!("compiler.cc = {program:?}"));
        found.errors.pop().map_or_else(
            || found.values[0].1.text().to_string_lossy().into_owned(),
            |error| error.to_string(),
        )
    };
    assert_eq!(of("/c", "./cc -O1"), "/c/./cc -O1");
    assert_eq!(of("/c d", "cc -O1"), "cc -O1");
    assert_eq!(of("/c d", "/usr/bin/cc -O1"), "/usr/bin/cc -O1");
    // The backend would run `/c`.
    for (dir, program) in [("/c d", "./cc -O1"), ("/c d", " ./cc"), ("/c\td", "./cc")] {
        let error = of(dir, program);
        assert!(error.contains("invalid value") && error.contains("has no space"), "{error}");
    }
}

/// Errors have the place, the problem, and help: as they are printed.
#[test]
fn errors_are_unchanged() {
    let mut found = String::new();
    for text in [
        "jobs = 0",
        "jobs = 1.5",
        "jobs = \"many\"\nnice = 20\ndeadline = \"long\"",
        "tarrget = \"cpu\"",
        "cache-dir = \"x\"",
        "dir = \"x\"",
        "[store]\nmode = \"sometimes\"\nmax-size-mb = 0\nremain-percent = 101\nmax-entries = 0",
        "[store]\ntrusted-owners = [1000, \"me\"]",
        "[store]\ntrusted-owners = 1000",
        "[store]\ndir = \"\"",
        "[store]\ndir = \"~/cache\"",
        "[store]\nmax-size = 3",
        "[store.dir]\nx = 1",
        "[stores]\ndir = \"x\"",
        "[limits]\nx = 1",
        "remote = \"redis://host\"",
        "[remote]\nurl = \"host\"\nmode = \"write\"\nnamespace = \"a/b\"",
        "[remote]\nheaders = \"authorization: Bearer s3cret\"",
        "[compiler]\ncann-driver = \"both\"\ntoolchain-inputs = \"include\"\nkernel = true",
        "jobs = 1\njobs = 2",
        "jobs = ",
        "[store\ndir = \"x\"",
        "store = { dir = \"x\", é = 1, odd = 2 }",
    ] {
        let errors = parse(Layer::User, Path::new("/c/opkeep.toml"), text).errors;
        assert!(!errors.is_empty(), "{text}");
        for error in errors {
            writeln!(found, "error: {error}").unwrap();
            if let Some(help) = error.help() {
                writeln!(found, "help: {help}").unwrap();
            }
        }
    }
    compare("tests/golden/config-errors.txt", &found);
}

#[test]
fn secrets_are_in_no_text() {
    let key = opkeep_trust::SigningKey::generate("one".parse().unwrap()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("key");
    key.write_new(&opkeep_fs::Fs::new(), &file).unwrap();
    let secret = fs::read_to_string(&file).unwrap();
    let secret = secret.trim();
    for text in
        [format!("[trust]\nsign-key = \"{secret}\""), format!("[trust]\ntrusted-keys = [\"{secret}\"]")]
    {
        let errors = parse(Layer::User, Path::new("/c/opkeep.toml"), &text).errors;
        let text = errors[0].to_string();
        assert!(text.contains("secret key") && !text.contains(secret), "{text}");
    }

    let file = dir.path().join("opkeep.toml");
    fs::write(&file, "[remote]\nurl = \"redis://u:s3cret@host\"").unwrap();
    for (mode, is_accepted) in [(0o600, true), (0o400, true), (0o640, false), (0o644, false)] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let settings = Settings::default();
        let loaded = settings.load_file(&file);
        assert_eq!(loaded.errors.is_empty(), is_accepted, "{mode:o}: {:?}", loaded.errors);
        assert!(!format!("{loaded:?}").contains("s3cret"));
        for error in &loaded.errors {
            let text = format!("{error} {}", error.help().unwrap());
            assert!(text.contains("opkeep.toml:2:7: the URL has a password") && text.contains("chmod 600"));
            assert!(!text.contains("s3cret"), "{text}");
        }
    }
}

/// The tables of keys in docs/configuration.md are written from the table here.
#[test]
fn the_page_has_all_keys() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let page = fs::read_to_string(&path).unwrap();
    let mut written = page.clone();
    for table in [reference(), projects_reference()] {
        let (before, rest) = written.split_once(table.lines().next().unwrap()).unwrap();
        let after = rest.split_once("\n\n").unwrap().1;
        written = format!("{before}{table}\n{after}");
    }
    if std::env::var_os("OPKEEP_UPDATE_GOLDEN").is_some() {
        fs::write(&path, &written).unwrap();
        return;
    }
    assert!(page == written, "docs/configuration.md differs from the table: set OPKEEP_UPDATE_GOLDEN=1");
}

#[track_caller]
fn compare(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    if std::env::var_os("OPKEEP_UPDATE_GOLDEN").is_some() {
        fs::write(&path, found).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap_or_default(), found);
}
