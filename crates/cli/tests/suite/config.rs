//! Settings of flags, variables and files, in real processes.
#![expect(clippy::disallowed_methods, reason = "tests make and look at files")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::common::{Place, Ran, SQUARE, ran};

/// Directories of a user, of a system and of a project, which is the current directory.
struct Scene {
    place: Place,
}

impl Scene {
    fn new() -> Self {
        let place = Place::new();
        for dir in ["home/.config/opkeep", "system/opkeep", "project/below"] {
            fs::create_dir_all(place.path(dir)).unwrap();
        }
        Self { place }
    }

    fn file(&self, layer: &str) -> PathBuf {
        self.place.path(match layer {
            "project" => "project/opkeep.toml",
            "user" => "home/.config/opkeep/opkeep.toml",
            _ => "system/opkeep/opkeep.toml",
        })
    }

    fn write(&self, layer: &str, text: &str) {
        fs::write(self.file(layer), text).unwrap();
    }

    /// A command in a directory of the project, whose files count.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.place.command(args);
        command.current_dir(self.place.path("project/below"));
        command.env_remove("OPKEEP_CONFIG").env_remove("OPKEEP_CACHE_DIR");
        command.env("HOME", self.place.path("home")).env("XDG_CONFIG_DIRS", self.place.path("system"));
        command
    }

    fn trusted(&self, args: &[&str]) -> Command {
        let mut command = self.command(args);
        command.env("OPKEEP_TRUSTED_PROJECTS", self.place.path("project"));
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        ran(&mut self.command(args))
    }
}

/// The names of the keys of the template, each with its first variable.
fn keys(scene: &Scene) -> Vec<(String, String)> {
    let template = scene.run(&["config", "--template"]).ended_with(0).stdout;
    let (mut keys, mut section, mut variable) = (Vec::new(), String::new(), String::new());
    for line in template.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = format!("{name}.");
        } else if let Some(names) = line.strip_prefix("# Variable: ") {
            variable = names.split(", ").next().unwrap().to_owned();
        } else if let Some((name, _)) = line.strip_prefix("# ").and_then(|line| line.split_once(" = ")) {
            keys.push((format!("{section}{name}"), std::mem::take(&mut variable)));
        }
    }
    keys
}

/// For each key a value as the variable has it, and those of the files of the project, the user and the system. No two of a key are
/// equal, nor is one the default: a value says which layer it is from. Those of a switch cannot all differ; see the test.
const VALUES: [(&str, [&str; 4]); 25] = [
    ("target", ["cpu-x86_64-v2", "Ascend910B1", "Ascend310P3", "Ascend910B4"]),
    ("jobs", ["11", "12", "13", "14"]),
    ("nice", ["1", "2", "3", "4"]),
    ("deadline", ["21", "22", "23", "24"]),
    ("trusted-projects", ["PROJECT", "-", "/u/projects", "/s/projects"]),
    ("store.dir", ["/v/dir", "/p/dir", "/u/dir", "/s/dir"]),
    ("store.mode", ["force", "disable", "read-only", "require"]),
    ("store.trusted-owners", ["31", "32", "33", "34"]),
    ("store.max-size-mb", ["41", "42", "43", "44"]),
    ("store.remain-percent", ["51", "52", "53", "54"]),
    ("store.max-entries", ["61", "62", "63", "64"]),
    ("store.build-records", ["off", "on", "off", "on"]),
    ("remote.url", ["redis://v", "redis://p", "redis://u", "redis://s"]),
    ("remote.mode", ["read", "off", "read", "off"]),
    ("remote.namespace", ["v", "p", "u", "s"]),
    ("remote.headers-file", ["/v/headers", "/p/headers", "/u/headers", "/s/headers"]),
    ("remote.tls-ca", ["/v/ca", "/p/ca", "/u/ca", "/s/ca"]),
    ("remote.tls-certificate", ["/v/cert", "/p/cert", "/u/cert", "/s/cert"]),
    ("remote.tls-key", ["/v/tls", "/p/tls", "/u/tls", "/s/tls"]),
    ("trust.trusted-keys", ["@/v/keys", "@/p/keys", "@/u/keys", "@/s/keys"]),
    ("trust.sign-key", ["/v/sign", "/p/sign", "/u/sign", "/s/sign"]),
    ("compiler.cc", ["v-cc", "p-cc", "u-cc", "s-cc"]),
    ("compiler.cann", ["/v/cann", "/p/cann", "/u/cann", "/s/cann"]),
    ("compiler.cann-driver", ["workers", "process", "workers", "process"]),
    ("compiler.toolchain-inputs", ["/v/in", "/p/in", "/u/in", "/s/in"]),
];

/// A value of [`VALUES`] as a file has it.
fn in_toml(key: &str, value: &str) -> String {
    match key {
        "store.trusted-owners" => format!("[{value}]"),
        "trusted-projects" | "trust.trusted-keys" | "compiler.toolchain-inputs" => format!("[{value:?}]"),
        _ if value.parse::<u32>().is_ok() => value.to_owned(),
        _ => format!("{value:?}"),
    }
}

/// For each key, the value of the first layer that has one counts, and overrides those of the other layers in their order.
#[test]
fn each_key_is_from_the_first_layer_that_has_it() {
    let scene = Scene::new();
    let keys = keys(&scene);
    let names: Vec<&str> = keys.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(names, VALUES.map(|(key, _)| key));
    let project = scene.place.path("project").display().to_string();
    const LAYERS: [&str; 5] = ["variable", "project", "user", "system", "default"];
    for (at, layer) in LAYERS.iter().enumerate().take(4).skip(1) {
        let of = |(key, values): (&str, [&str; 4])| format!("{key} = {}\n", in_toml(key, values[at]));
        let lines = VALUES.iter().filter(|(_, values)| values[at] != "-");
        scene.write(layer, &lines.copied().map(of).collect::<String>());
    }
    for gone in 0..LAYERS.len() {
        let mut command = scene.command(&["config", "--format", "json"]);
        if gone == 0 {
            for ((_, variable), (_, values)) in keys.iter().zip(VALUES) {
                command.env(variable, values[0]);
            }
        } else if gone > 1 {
            fs::remove_file(scene.file(LAYERS[gone - 1])).unwrap();
        }
        if gone < 2 {
            // Without that, the project's file may not have most keys.
            command.env("OPKEEP_TRUSTED_PROJECTS", &project);
        }
        let found = ran(&mut command).ended_with(0).json();
        for (setting, (key, values)) in found["settings"].as_array().unwrap().iter().zip(VALUES) {
            assert_eq!(setting["key"], key);
            let is_projects = key == "trusted-projects";
            let overrides = setting["overrides"].as_array().unwrap().iter();
            let found: Vec<(&str, String)> = std::iter::once(setting)
                .chain(overrides)
                .map(|value| (value["origin"]["layer"].as_str().unwrap(), text(&value["value"])))
                .filter(|(layer, _)| *layer != "default")
                .collect();
            let begin = if is_projects && gone == 1 { 0 } else { gone };
            let expected = LAYERS.iter().zip(values).skip(begin).filter(|(_, value)| *value != "-");
            let expected: Vec<(&str, String)> =
                expected.map(|(layer, value)| (*layer, value.replace("PROJECT", &project))).collect();
            assert_eq!(found, expected, "{key} without {gone} layers: {setting}");
            if gone == 4 {
                assert_eq!(setting["origin"]["layer"], "default", "{setting}");
                let is_switch = key == "store.build-records";
                assert!(is_switch || !values.contains(&text(&setting["value"]).as_str()), "{setting}");
            }
        }
    }
}

/// The texts of a value as JSON, which is none or a list.
fn text(value: &Value) -> String {
    let texts = value.as_array().into_iter().flatten().map(|text| text.as_str().unwrap());
    texts.collect::<Vec<_>>().join(" ")
}

/// What a project's file may say while the project is not trusted.
enum Rule {
    /// Each row has the user's value, empty for none, and one in the project's file that counts, and one that does not.
    Narrower(&'static [(&'static str, &'static str, &'static str)]),
    /// Errors with this text.
    Refused(&'static str),
    Any,
}

const DECIDES: &str = "decides which code runs or what is deleted";

/// A project that is not trusted narrows what the user permits, and nothing else. A new key needs a row here.
#[test]
fn a_project_that_is_not_trusted_only_narrows_what_the_user_permits() {
    let rules = [
        ("target", Rule::Any),
        ("jobs", Rule::Narrower(&[("", "1", "100000"), ("3", "2", "4"), ("7", "7", "8")])),
        ("nice", Rule::Narrower(&[("5", "6", "4"), ("19", "19", "0")])),
        ("deadline", Rule::Narrower(&[("", "600", "600.5"), ("3", "2.5", "600"), ("9000", "8999", "9001")])),
        ("trusted-projects", Rule::Refused("may not be in the file of a project")),
        ("store.dir", Rule::Refused(DECIDES)),
        (
            "store.mode",
            Rule::Narrower(&[
                ("", "disable", "force"),
                ("", "read-only", "force"),
                ("enable", "require", "force"),
                ("force", "disable", "enable"),
                ("force", "force", "read-only"),
                ("read-only", "require", "enable"),
                ("read-only", "disable", "force"),
                ("require", "require", "read-only"),
                ("require", "require", "disable"),
                ("disable", "disable", "require"),
            ]),
        ),
        ("store.trusted-owners", Rule::Refused(DECIDES)),
        ("store.max-size-mb", Rule::Refused(DECIDES)),
        ("store.remain-percent", Rule::Refused(DECIDES)),
        ("store.max-entries", Rule::Refused(DECIDES)),
        ("store.build-records", Rule::Narrower(&[("off", "off", "on")])),
        ("remote.url", Rule::Refused(DECIDES)),
        ("remote.mode", Rule::Refused(DECIDES)),
        ("remote.namespace", Rule::Refused(DECIDES)),
        ("remote.headers-file", Rule::Refused(DECIDES)),
        ("remote.tls-ca", Rule::Refused(DECIDES)),
        ("remote.tls-certificate", Rule::Refused(DECIDES)),
        ("remote.tls-key", Rule::Refused(DECIDES)),
        ("trust.trusted-keys", Rule::Refused(DECIDES)),
        ("trust.sign-key", Rule::Refused(DECIDES)),
        ("compiler.cc", Rule::Refused(DECIDES)),
        ("compiler.cann", Rule::Refused(DECIDES)),
        (
            "compiler.cann-driver",
            Rule::Narrower(&[("process", "process", "workers"), ("workers", "workers", "auto")]),
        ),
        ("compiler.toolchain-inputs", Rule::Refused(DECIDES)),
    ];
    let scene = Scene::new();
    assert_eq!(rules.each_ref().map(|(key, _)| *key), VALUES.map(|(key, _)| key));
    let config = |key: &str, user: &str, project: &str, code: i32| -> (Value, Ran) {
        let line = |value: &str| match value.is_empty() {
            true => String::new(),
            // A number may have a fraction.
            false if value.parse::<f64>().is_ok() && key == "deadline" => format!("{key} = {value}\n"),
            false => format!("{key} = {}\n", in_toml(key, value)),
        };
        scene.write("user", &line(user));
        scene.write("project", &line(project));
        let ran = scene.run(&["config", "--format", "json"]).ended_with(code);
        let settings = ran.json()["settings"].clone();
        let found = settings.as_array().unwrap().iter().find(|setting| setting["key"] == key);
        (found.unwrap().clone(), ran)
    };
    for (key, rule) in rules {
        let value = VALUES.iter().find(|(one, _)| *one == key).unwrap().1[2];
        match rule {
            Rule::Any => {
                let (found, _) = config(key, "", value, 0);
                assert_eq!(
                    (text(&found["value"]).as_str(), &found["origin"]["layer"]),
                    (value, &"project".into())
                );
            }
            Rule::Refused(why) => {
                let (found, ran) = config(key, "", value, 1);
                assert_eq!(found["origin"]["layer"], "default", "{found}");
                ran.says(why);
            }
            Rule::Narrower(rows) => {
                for (user, narrower, wider) in rows {
                    let (found, ran) = config(key, user, narrower, 0);
                    assert_eq!(text(&found["value"]), *narrower, "{user}: {found}");
                    assert_eq!(found["origin"]["layer"], "project", "{user}: {found}");
                    assert!(!ran.stderr.contains("does not count"), "{ran:?}");
                    let (found, ran) = config(key, user, wider, 0);
                    let layer = if user.is_empty() { "default" } else { "user" };
                    assert_eq!(found["origin"]["layer"], layer, "{user}, {wider}: {found}");
                    ran.says(&format!("`{key}` at {}:1:", scene.file("project").display()))
                        .says(&format!("does not count: `{wider}` permits more than"))
                        .says("export OPKEEP_TRUSTED_PROJECTS=");
                    let trusted =
                        crate::common::ran(&mut scene.trusted(&["config", "--format", "json"])).ended_with(0);
                    assert!(!trusted.stderr.contains("does not count"), "{trusted:?}");
                }
            }
        }
    }
    // The file of the system is a bound as well, where the user's has no value.
    scene.write("user", "nice = 1");
    scene.write("system", "jobs = 1\n");
    scene.write("project", "jobs = 2\n");
    scene.run(&["stats"]).says("`2` permits more than `1` at").says("help: if you trust all");
}

/// A home behind a link: the user's own file is no project's, by whatever path it is found.
#[test]
fn the_users_own_file_is_no_projects() {
    let scene = Scene::new();
    let real = scene.place.path("home");
    let linked = scene.place.path("linked-home");
    std::os::unix::fs::symlink(&real, &linked).unwrap();
    // A project may not set it.
    scene.write("user", "[store]\nmax-entries = 7\n");
    for (home, here) in [(&linked, &real), (&real, &linked), (&linked, &linked)] {
        let mut command = scene.command(&["config", "--format", "json"]);
        command.env("HOME", home).current_dir(here.join(".config/opkeep"));
        let found = ran(&mut command).ended_with(0).json();
        let files = found["files"].as_array().unwrap();
        assert!(files.iter().all(|file| file["layer"] != "project"), "{files:?}");
        let entries =
            found["settings"].as_array().unwrap().iter().find(|it| it["key"] == "store.max-entries");
        assert_eq!(entries.unwrap()["origin"]["layer"], "user");
    }
    // Nor is one that is kept elsewhere, with a link to it.
    let kept = scene.place.path("dotfiles/opkeep.toml");
    fs::create_dir(kept.parent().unwrap()).unwrap();
    fs::rename(scene.file("user"), &kept).unwrap();
    std::os::unix::fs::symlink(&kept, scene.file("user")).unwrap();
    let mut command = scene.command(&["config", "--format", "json"]);
    ran(command.current_dir(kept.parent().unwrap())).ended_with(0);
}

fn store_of(ran: Ran) -> String {
    ran.ended_with(0).json()["root"].as_str().unwrap().to_owned()
}

/// The same with what a command does: the store that it looks for.
#[test]
fn a_command_uses_the_first_layer_that_names_a_store() {
    let scene = Scene::new();
    let stats = ["stats", "--format", "json"];
    let below = |path: &str| scene.place.path(path).display().to_string();
    assert_eq!(store_of(scene.run(&stats)), below("home/.cache/opkeep"));
    scene.write("system", "store.dir = \"one\"");
    assert_eq!(store_of(scene.run(&stats)), below("system/opkeep/one"));
    scene.write("user", "[store]\ndir = \"../two\"");
    assert_eq!(store_of(scene.run(&stats)), below("home/.config/opkeep/../two"));
    scene.write("project", "store.dir = \"three\"");
    assert_eq!(store_of(ran(&mut scene.trusted(&stats))), below("project/three"));
    assert_eq!(store_of(ran(scene.trusted(&stats).env("OPKEEP_CACHE_DIR", "/four"))), "/four");
    // A store that a flag names must exist.
    let mut flag = scene.trusted(&["stats", "--cache-dir", "five"]);
    ran(flag.env("OPKEEP_CACHE_DIR", "/four"))
        .ended_with(2)
        .says("no store at `five`, which --op_compiler_cache_dir");

    // One file in place of all others, by a flag or a variable; and none.
    let own = scene.place.write("own.toml", "store.dir = \"six\"").display().to_string();
    assert_eq!(store_of(scene.run(&["--config", &own, "stats", "--format", "json"])), below("six"));
    assert_eq!(store_of(ran(scene.command(&stats).env("OPKEEP_CONFIG", &own))), below("six"));
    let none = ["stats", "--format", "json", "--config", "/dev/null"];
    assert_eq!(store_of(ran(scene.command(&none).env("OPKEEP_CONFIG", &own))), below("home/.cache/opkeep"));
    scene.run(&["stats", "--config", "nowhere.toml"]).ended_with(2).says("nowhere.toml`: No such file");
}

/// The compiler, the number of compilers and the store of a build are those of the file, with paths relative to it.
#[test]
fn a_build_has_the_settings_of_the_user() {
    let scene = Scene::new();
    scene.place.logging_compiler("home/.config/opkeep/cc", "log");
    scene.write("user", "jobs = 1\n[store]\ndir = \"store\"\n[compiler]\ncc = \"./cc -O1\"\n");
    scene.run(&["build", SQUARE, "--target", "cpu", "--no-kernel-meta"]).ended_with(0);
    assert!(scene.place.compiles("log") > 0);
    assert!(scene.place.path("home/.config/opkeep/store/v1").is_dir());
    // An empty variable is no compiler, and another one counts more.
    let mut again = scene.command(&["build", SQUARE, "--target", "cpu", "--no-kernel-meta"]);
    ran(again.env("CC", "nothing-there")).ended_with(2).says("nothing-there");
}

#[test]
fn an_empty_variable_turns_the_remote_cache_of_a_file_off() {
    let scene = Scene::new();
    scene.write("user", "[remote]\nurl = \"nowhere://host\"\n");
    let build = ["build", SQUARE, "--target", "cpu", "--no-kernel-meta"];
    let place = format!("remote.url at {}:2:7", scene.file("user").display());
    scene.run(&build).ended_with(2).says(&place);
    ran(scene.command(&build).env("OPKEEP_REMOTE", "")).ended_with(0);
}

/// A clone or an archive may bring a file of settings, so its keys that decide which code runs are errors until the user trusts it.
#[test]
fn a_project_decides_which_code_runs_only_if_it_is_trusted() {
    let scene = Scene::new();
    scene.write("project", "jobs = 1\n[compiler]\ncc = \"./evil\"\n");
    let marks = scene.place.path("ran");
    scene.place.script("project/evil", &format!("touch '{}'", marks.display()));
    let build = ["build", SQUARE, "--target", "cpu", "--no-kernel-meta"];
    let place = format!("{}:3:6", scene.file("project").display());
    let refused = scene.run(&build).ended_with(2);
    refused
        .says(&format!("{place}: `compiler.cc` decides which code runs"))
        .says("export OPKEEP_TRUSTED_PROJECTS=");
    assert!(!marks.exists());
    // The other keys count, and `config` shows what is wrong.
    let shown = scene.run(&["config", "--format", "json"]).ended_with(1).json();
    let setting = |key: &str| -> Value {
        let settings = shown["settings"].as_array().unwrap();
        settings.iter().find(|setting| setting["key"] == key).unwrap().clone()
    };
    assert_eq!(
        (&setting("jobs")["origin"]["layer"], &setting("compiler.cc")["value"]),
        (&"project".into(), &Value::Null)
    );
    assert_eq!(shown["errors"].as_array().unwrap().len(), 1);

    ran(&mut scene.trusted(&build)).ended_with(2);
    assert!(marks.exists());
    fs::remove_file(&marks).unwrap();
    scene.write("user", &format!("trusted-projects = [{:?}]", scene.place.path("project")));
    scene.run(&build).ended_with(2);
    assert!(marks.exists());
    // No project makes itself trusted.
    fs::remove_file(scene.file("user")).unwrap();
    scene.write("project", "trusted-projects = [\"/\"]");
    scene.run(&build).ended_with(2).says("`trusted-projects` may not be in the file of a project");
}

#[test]
fn a_file_that_others_can_write_does_not_count() {
    let scene = Scene::new();
    scene.write("project", "jobs = 0");
    let stats = ["stats", "--format", "json"];
    let shared = |path: PathBuf| fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    shared(scene.file("project"));
    let warned = scene.run(&stats).ended_with(0);
    assert!(warned.json()["warnings"][0].as_str().unwrap().contains("every user can write to"), "{warned:?}");
    warned.says("help: `chmod go-w");
    // The same with the directory, in which others can replace the file.
    scene.write("project", "jobs = 0");
    fs::set_permissions(scene.file("project"), fs::Permissions::from_mode(0o644)).unwrap();
    scene.run(&stats).ended_with(2).says("invalid value '0' for 'jobs'");
    shared(scene.place.path("project"));
    scene.run(&stats).ended_with(0).says("does not count: every user can write to");
    // The user's own may demand signatures, so a build does not go on without it.
    fs::remove_file(scene.file("project")).unwrap();
    scene.write("user", "jobs = 2");
    shared(scene.file("user"));
    scene.run(&stats).ended_with(2).says("every user can write to");
}

#[test]
fn a_wrong_variable_is_an_error_like_a_wrong_flag() {
    let scene = Scene::new();
    let place = |name: &str, value: &str| ran(scene.command(&["stats"]).env(name, value)).ended_with(2);
    place("OPKEEP_JOBS", "0")
        .says("invalid value '0' for 'OPKEEP_JOBS': expected a number of compilers, 1 or more");
    place("OPKEEP_CACHE_MODE", "x")
        .says("invalid value 'x' for 'OPKEEP_CACHE_MODE': `x` is not a cache mode");
    scene
        .run(&["build", SQUARE, "--jobs", "0"])
        .ended_with(2)
        .says("expected a number of compilers, 1 or more");
    // What needs no settings works in spite of them.
    scene.write("user", "jobs = ");
    scene.run(&["completions", "bash"]).ended_with(0);
    scene.run(&["stats"]).ended_with(2).says("opkeep.toml:1:8");
}

/// A user's file may demand signatures: without it, nothing goes on as if there had never been one.
#[test]
fn a_file_of_the_user_does_not_vanish_silently() {
    let scene = Scene::new();
    scene.write("user", "jobs = 2\n");
    scene.run(&["ls"]).ended_with(0);
    let dir = scene.place.path("home/.config/opkeep");
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
    scene.run(&["ls"]).ended_with(2).says("every user can write to");
    fs::remove_file(scene.file("user")).unwrap();
    scene.run(&["ls"]).ended_with(2).says("every user can write to");
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
    scene.run(&["ls"]).ended_with(0);
    std::os::unix::fs::symlink("/nonexistent/opkeep.toml", scene.file("user")).unwrap();
    scene.run(&["ls"]).ended_with(2).says("opkeep.toml");
}

/// A hostile project cannot keep a command busy: it has some of the errors.
#[test]
fn a_file_of_many_errors_has_the_first_ones() {
    let scene = Scene::new();
    let keys: String = (0..60_000).map(|number| format!("k{number} = 1\n")).collect();
    let sections: String = (0..60_000).map(|number| format!("[s{number}]\n")).collect();
    for text in [&keys, &format!("[store]\n{keys}"), &sections] {
        scene.write("project", text);
        let ran = scene.run(&["ls"]).ended_with(2);
        let errors = ran.stderr.matches("opkeep.toml:").count();
        assert!((1..=20).contains(&errors), "{errors} errors");
    }
}
