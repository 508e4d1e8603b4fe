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

/// A key of the template.
struct Key {
    key: String,
    value: String,
    variable: String,
    /// The value as the variable has it.
    plain: String,
}

fn keys(scene: &Scene) -> Vec<Key> {
    let template = scene.run(&["config", "--template"]).ended_with(0).stdout;
    let (mut keys, mut section, mut variable) = (Vec::new(), String::new(), String::new());
    for line in template.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = format!("{name}.");
        } else if let Some(names) = line.strip_prefix("# Variable: ") {
            variable = names.split(", ").next().unwrap().to_owned();
        } else if let Some((name, value)) = line.strip_prefix("# ").and_then(|line| line.split_once(" = ")) {
            let plain = value.trim_matches(['[', ']', '"']).to_owned();
            let (key, value) = (format!("{section}{name}"), value.to_owned());
            keys.push(Key { key, value, variable: std::mem::take(&mut variable), plain });
        }
    }
    keys
}

/// For each key, the value of the first layer that has one counts, and overrides those of the other layers in their order.
#[test]
fn each_key_is_from_the_first_layer_that_has_it() {
    let scene = Scene::new();
    let keys = keys(&scene);
    assert_eq!(keys.len(), 25);
    let file = |left_out: &[&str]| -> String {
        let keys = keys.iter().filter(|key| !left_out.contains(&key.key.as_str()));
        keys.map(|Key { key, value, .. }| format!("{key} = {value}\n")).collect()
    };
    scene.write("system", &file(&[]));
    scene.write("user", &file(&[]));
    scene.write("project", &file(&["trusted-projects"]));
    let layers = ["variable", "project", "user", "system", "default"];
    for gone in 0..layers.len() {
        let mut command = scene.command(&["config", "--format", "json"]);
        // Which projects are trusted is a setting, too, of which the user's file has another value.
        let mut trusted = scene.place.path("project").display().to_string();
        if gone == 0 {
            for Key { key, variable, plain, .. } in &keys {
                let value =
                    if key == "trusted-projects" { std::mem::take(&mut trusted) } else { plain.clone() };
                command.env(variable, value);
            }
        } else if gone == 1 {
            command.env("OPKEEP_TRUSTED_PROJECTS", trusted);
        } else {
            fs::remove_file(scene.file(layers[gone - 1])).unwrap();
        }
        let found = ran(&mut command).ended_with(0).json();
        for setting in found["settings"].as_array().unwrap() {
            let key = setting["key"].as_str().unwrap();
            let is_projects = key == "trusted-projects";
            let overrides = setting["overrides"].as_array().unwrap().iter();
            let origins: Vec<&str> = std::iter::once(setting)
                .chain(overrides)
                .map(|value| value["origin"]["layer"].as_str().unwrap())
                .filter(|layer| !(is_projects && *layer == "variable" && gone == 1))
                .collect();
            let expected: Vec<&str> = layers[gone..]
                .iter()
                .copied()
                .filter(|layer| !(is_projects && *layer == "project"))
                .collect();
            assert_eq!(origins, expected, "{key} without {gone} layers: {setting}");
        }
    }
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
    scene.write("project", "jobs = 2\n[compiler]\ncc = \"./evil\"\n");
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
