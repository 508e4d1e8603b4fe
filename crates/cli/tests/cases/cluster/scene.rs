//! Hosts of a cluster, each with a disk of its own, which share an engine, a network and a compiler.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use opkeep_testkit::servers::Server;

use super::page;
use crate::common::crowd::{Build, Line, LoggingCompiler};
use crate::common::{Place, files};

const NETWORK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/networks/lenet/model.onnx");

/// What all hosts of a test see.
pub(super) struct Scene {
    /// The directory from which jobs are started, and the program that trains there.
    pub(super) place: Place,
    pub(super) cc: LoggingCompiler,
    url: String,
}

impl Scene {
    pub(super) fn new(server: &Server) -> Self {
        Self::with_behavior(server, |_| String::new()).0
    }

    /// With a behavior of the compiler, which is not active.
    pub(super) fn with_behavior(server: &Server, behavior: impl FnOnce(&Place) -> String) -> (Self, String) {
        let place = Place::new();
        let behavior = behavior(&place);
        let cc = LoggingCompiler::with_behaviors(&place, &[&behavior]);
        // It takes no kernel from elsewhere, and compiles none.
        let train = format!(
            "OPKEEP_REMOTE_MODE=off exec opkeep build '{NETWORK}' --target cpu --no-kernel-meta --cache-mode require"
        );
        place.script("train.sh", &train);
        fs::create_dir(place.path("hosts")).unwrap();
        (Self { place, cc, url: server.url() }, behavior)
    }

    /// A text of the page with this test's engine and network, and with the disk of the host that `disk` names: a path or a variable.
    pub(super) fn filled(&self, text: &str, disk: &str) -> String {
        text.replace(page::ENGINE, &self.url).replace(page::NETWORK, NETWORK).replace(page::DISK, disk)
    }

    /// Writes a file of the page into the place.
    pub(super) fn write(&self, name: &str, disk: &str) -> PathBuf {
        self.place.write(name, self.filled(page::file(name), disk))
    }

    pub(super) fn disk(&self, host: &str) -> PathBuf {
        self.place.path("hosts").join(host)
    }

    /// A host whose user has built before, but none of these kernels.
    pub(super) fn on_host(&self, host: &str) -> Host<'_> {
        let disk = self.disk(host);
        if !disk.exists() {
            let (known, tmp) = (self.place.path("tmp"), disk.join("tmp"));
            copy_tree(&known, &tmp);
        }
        Host { scene: self, disk }
    }

    pub(super) fn add_hosts(&self, hosts: &[&str]) {
        hosts.iter().for_each(|host| drop(self.on_host(host)));
    }

    /// The environment of every host: no variable of this test program but the search path, and the command on it.
    pub(super) fn environment(&self) -> BTreeMap<&'static str, String> {
        let bin = Path::new(env!("CARGO_BIN_EXE_opkeep")).parent().unwrap();
        let path = std::env::var("PATH").unwrap();
        BTreeMap::from([
            ("PATH", format!("{}:{path}", bin.display())),
            ("CC", self.cc.path.clone()),
            ("USER", "tester".to_owned()),
            ("HOME", self.place.path("home").display().to_string()),
        ])
    }

    /// The numbers of compiles on all hosts, and of different kernels among them.
    pub(super) fn compiles(&self) -> (usize, usize) {
        self.cc.compiles()
    }

    /// The hosts on whose disks a compile has begun.
    pub(super) fn compiling_hosts(&self) -> BTreeSet<String> {
        let disks = self.place.path("hosts");
        let host = |line: Line| {
            let host = line.directory.strip_prefix(&disks).unwrap().iter().next();
            host.unwrap().to_string_lossy().into_owned()
        };
        self.cc.begun().into_iter().map(host).collect()
    }

    #[track_caller]
    pub(super) fn assert_each_compiled_once(&self) {
        let (all, kernels) = self.compiles();
        assert!(all == kernels && kernels >= 8, "{all} compiles of {kernels} kernels");
    }

    /// Asserts that each of these hosts has every kernel.
    #[track_caller]
    pub(super) fn assert_full(&self, hosts: &[&str]) {
        let (_, kernels) = self.compiles();
        for host in hosts {
            assert_eq!(self.entries(host), kernels, "on the disk of {host}");
        }
    }

    pub(super) fn entries(&self, host: &str) -> usize {
        let is_entry = |path: &&PathBuf| path.extension().is_some_and(|it| it == "kern");
        files(&self.disk(host)).iter().filter(is_entry).count()
    }
}

/// A host of a scene.
pub(super) struct Host<'a> {
    scene: &'a Scene,
    disk: PathBuf,
}

impl Host<'_> {
    /// Starts a program whose arguments are texts of the page.
    pub(super) fn start(&self, program: &str, arguments: &[&str]) -> Build {
        let disk = self.disk.display().to_string();
        let arguments = arguments.iter().map(|text| self.scene.filled(text, &disk));
        let mut command = self.command(program);
        Build::spawn(command.args(arguments))
    }

    /// A program on this host, in its directory, with the environment of hosts and no other.
    pub(super) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.disk).stdin(Stdio::null()).env_clear();
        command.envs(self.scene.environment()).env("TMPDIR", self.disk.join("tmp"));
        command
    }
}

/// Copies directories and files with their modes.
fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    fs::set_permissions(to, fs::metadata(from).unwrap().permissions()).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let own = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy_tree(&path, &own),
            false => assert!(fs::copy(&path, &own).is_ok()),
        }
    }
}
