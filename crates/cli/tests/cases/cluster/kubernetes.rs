//! Kubernetes: the manifests are checked against its schemas, and the commands of their containers run with the environment and the
//! files that the manifests give them. Directories take the place of volumes, since no test has a Kubernetes.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::Failed;
use opkeep_testkit::servers::{Server, program_of_tests};
use serde_json::Value;

use super::page;
use super::scene::Scene;
use crate::common::crowd::Build;
use crate::common::ran;
use crate::remote_hosts::ask;

const MANIFESTS: [&str; 3] = ["prewarm.yaml", "train.yaml", "bundle.yaml"];
/// Where the bundle is in the image.
const BUNDLE: &str = "/opt/kernels/model.bundle";
/// Reads YAML as Kubernetes does: an integer with a leading zero is octal.
const TO_JSON: &str = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(sys.argv[1]))))";

pub(super) fn missing() -> Option<String> {
    // Moto, in the same environment, needs the package yaml.
    program_of_tests("moto_server").err()
}

pub(super) fn missing_validator() -> Option<String> {
    program_of_tests("kubernetes-validate").err()
}

pub(super) fn schemas() -> Result<(), Failed> {
    let scene = crate::common::Place::new();
    for name in MANIFESTS {
        let file = scene.write(name, page::file(name));
        let mut command = Command::new(program_of_tests("kubernetes-validate")?);
        ran(command.arg("--strict").arg(file)).ended_with(0);
    }
    Ok(())
}

/// The objects of a manifest.
fn objects(text: &str) -> Vec<Value> {
    let ran = ran(Command::new(program_of_tests("python").unwrap()).args(["-c", TO_JSON, text]));
    let Value::Array(objects) = ran.ended_with(0).json() else { panic!("no list") };
    objects
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("no {pointer} in {value}"))
}

fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// What the cluster has besides pods: the files of Secrets and ConfigMaps, and the variables of Secrets.
struct Cluster<'a> {
    scene: &'a Scene,
    files: BTreeMap<&'static str, Vec<(&'static str, PathBuf)>>,
    variables: BTreeMap<String, Vec<(String, String)>>,
}

/// A pod, from the template of a job.
struct Pod<'a> {
    cluster: &'a Cluster<'a>,
    spec: Value,
    name: String,
    /// The directories of its volumes.
    volumes: BTreeMap<String, PathBuf>,
}

impl<'a> Cluster<'a> {
    /// Creates the volumes of a pod.
    fn pod(&'a self, name: &str, spec: &Value) -> Pod<'a> {
        drop(self.scene.on_host(name));
        let mut volumes = BTreeMap::new();
        for volume in list(spec, "/volumes") {
            let directory = self.scene.disk(name).join("volumes").join(text(volume, "/name"));
            if volume.get("emptyDir").is_some() {
                make_directory(&directory, 0o777);
            } else {
                let (source, own) = match (volume.get("secret"), volume.get("configMap")) {
                    (Some(secret), None) => (secret, "/secretName"),
                    (None, Some(map)) => (map, "/name"),
                    _ => panic!("{volume}"),
                };
                let mode = source.get("defaultMode").and_then(Value::as_u64).unwrap_or(0o644);
                mount_files(&directory, &self.files[text(source, own)], mode as u32);
            }
            volumes.insert(text(volume, "/name").to_owned(), directory);
        }
        Pod { cluster: self, spec: spec.clone(), name: name.to_owned(), volumes }
    }
}

fn make_directory(path: &Path, mode: u32) {
    DirBuilder::new().recursive(true).mode(0o755).create(path).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Writes the files of a Secret or a ConfigMap as a node's kubelet does: links to links, so that all files change at once.
fn mount_files(directory: &Path, files: &[(&str, PathBuf)], mode: u32) {
    make_directory(directory, 0o1777);
    make_directory(&directory.join("..2026_11_27_22_00_00.123456789"), 0o755);
    symlink("..2026_11_27_22_00_00.123456789", directory.join("..data")).unwrap();
    for (name, content) in files {
        let file = directory.join("..data").join(name);
        fs::copy(content, &file).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        symlink(Path::new("..data").join(name), directory.join(name)).unwrap();
    }
}

impl Pod<'_> {
    /// Runs the init containers, and starts the containers.
    fn start(&self) -> Vec<Build> {
        for container in list(&self.spec, "/initContainers") {
            Build::spawn(&mut self.command(container)).end().ended_with(0);
        }
        list(&self.spec, "/containers").iter().map(|one| Build::spawn(&mut self.command(one))).collect()
    }

    fn command(&self, container: &Value) -> Command {
        let words = list(container, "/command").iter().chain(list(container, "/args"));
        let words: Vec<_> = words.map(|word| self.mounted(container, word.as_str().unwrap())).collect();
        // The image has the programs, and the directory of the program that trains.
        let mut command = self.cluster.scene.on_host(&self.name).command(&words[0]);
        command.args(&words[1..]).current_dir(self.cluster.scene.place.dir.path());
        // A home directory that is new, as in each container.
        let home = self.cluster.scene.disk(&self.name).join("home").join(text(container, "/name"));
        command.env("HOME", home).env_remove("USER");
        for source in list(container, "/envFrom") {
            let variables = &self.cluster.variables[text(source, "/secretRef/name")];
            command.envs(variables.iter().map(|(name, value)| (name, value)));
        }
        for variable in list(container, "/env") {
            command.env(text(variable, "/name"), self.mounted(container, text(variable, "/value")));
        }
        command
    }

    /// A text in which the volumes' directories stand for the paths at which they are mounted.
    fn mounted(&self, container: &Value, word: &str) -> String {
        list(container, "/volumeMounts").iter().fold(word.to_owned(), |word, mount| {
            let directory = self.volumes[text(mount, "/name")].display().to_string();
            word.replace(text(mount, "/mountPath"), &directory)
        })
    }
}

/// The pods of a job, all at once.
fn run_job(cluster: &Cluster<'_>, job: &Value) -> Vec<String> {
    let name = text(job, "/metadata/name");
    let count = job.pointer("/spec/completions").and_then(Value::as_u64).unwrap();
    assert_eq!(job.pointer("/spec/parallelism").and_then(Value::as_u64), Some(count));
    let names: Vec<_> = (0..count).map(|number| format!("{name}-{number}")).collect();
    let spec = job.pointer("/spec/template/spec").unwrap();
    let pods: Vec<_> = names.iter().map(|name| cluster.pod(name, spec)).collect();
    let started: Vec<_> = pods.iter().flat_map(Pod::start).collect();
    started.into_iter().for_each(|container| drop(container.end().ended_with(0)));
    names
}

pub(super) fn containers(server: &Server) -> Result<(), Failed> {
    let scene = Scene::new(server);
    // The page's commands that make the keys. `kubectl` would put them into the cluster.
    let login = scene.disk("login");
    let text_of_keys = page::commands("Keys and credentials")[0].lines().next().unwrap();
    scene.on_host("login").start("/bin/sh", &["-euc", text_of_keys]).end().ended_with(0);
    let [prewarm, train, bundle] = MANIFESTS.map(|name| {
        let in_image = scene.place.path("model.bundle");
        let text = scene.filled(page::file(name), page::DISK).replace(BUNDLE, in_image.to_str().unwrap());
        objects(&text)
    });
    let secret = &prewarm[0];
    assert_eq!(text(secret, "/kind"), "Secret");
    let variables = secret.pointer("/stringData").and_then(Value::as_object).unwrap();
    let variables = variables.iter().map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()));
    let cluster = Cluster {
        scene: &scene,
        files: BTreeMap::from([
            ("opkeep-sign-key", vec![("prewarm.secret", login.join("prewarm.secret"))]),
            ("opkeep-trusted-keys", vec![("trusted-keys", login.join("trusted-keys"))]),
        ]),
        variables: BTreeMap::from([(text(secret, "/metadata/name").to_owned(), variables.collect())]),
    };
    let pods = run_job(&cluster, &prewarm[1]);
    scene.assert_each_compiled_once();
    scene.assert_full(&pods.iter().map(String::as_str).collect::<Vec<_>>());
    // The engine has evicted a kernel. The init containers take all others and compile this one, and the containers find everything.
    let (_, kernels) = scene.compiles();
    let in_engine = ask(server, "KEYS */e/*");
    assert_eq!(in_engine.len(), kernels);
    for evicted in ask(server, "KEYS */b/*").iter().chain([&in_engine[0]]) {
        ask(server, &format!("DEL {evicted}"));
    }
    let pods_of_job = run_job(&cluster, &train[0]);
    let compiled = kernels + pods_of_job.len();
    assert_eq!(scene.compiles(), (compiled, kernels));
    // The same from a bundle, without a remote cache.
    let store = scene.disk(&pods[0]).join("volumes/scratch/opkeep");
    let export = ["bundle", "export", "--output", "model.bundle"];
    ran(scene.place.command(&export).env("OPKEEP_CACHE_DIR", store)).ended_with(0);
    let pod = cluster.pod("bundle", bundle[0].pointer("/spec").unwrap());
    pod.start().into_iter().for_each(|container| drop(container.end().ended_with(0)));
    scene.assert_full(&["bundle"]);
    assert_eq!(scene.compiles(), (compiled, kernels));
    Ok(())
}
