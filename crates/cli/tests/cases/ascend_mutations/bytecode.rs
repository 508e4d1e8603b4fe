//! Bytecode of Python's own library, which takes most of the time of a first probe. Of all else there is none beforehand.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use opkeep_digest::Digest;

use super::Scene;
use crate::common;

/// Lays it into a directory for temporary files that does not exist yet.
pub(super) fn lay(temporary: &Path) {
    static LIBRARY: OnceLock<Vec<(OsString, Vec<u8>)>> = OnceLock::new();
    let directory = below(temporary);
    DirBuilder::new().recursive(true).mode(0o700).create(&directory).unwrap();
    for (name, content) in LIBRARY.get_or_init(library) {
        fs::write(directory.join(name), content).unwrap();
        fs::set_permissions(directory.join(name), Permissions::from_mode(0o600)).unwrap();
    }
}

/// What a build keeps but for the toolkit's own modules: those are what tests change.
fn library() -> Vec<(OsString, Vec<u8>)> {
    let scene = Scene::new("workers");
    let temporary = scene.place.path("tmp-library");
    fs::create_dir(&temporary).unwrap();
    let args = ["build", "--target", "Ascend910B1", "--cann-driver", "workers", common::SQUARE];
    common::ran(&mut scene.command_in(&args, "store", &temporary)).ended_with(0);
    let of_toolkit = common::files(&scene.place.path("Ascend")).into_iter().filter(|path| path.is_file());
    let of_toolkit: BTreeSet<Digest> = of_toolkit.map(|path| Digest::of(&fs::read(path).unwrap())).collect();
    let kept = common::files(&below(&temporary)).into_iter().map(|path| {
        let content = fs::read(&path).unwrap();
        (path.file_name().unwrap().to_owned(), content)
    });
    // An entry begins with the digest of the rest, and then has that of the source.
    let is_of_library = |(_, content): &(OsString, Vec<u8>)| {
        let source: [u8; Digest::LEN] = content[Digest::LEN..2 * Digest::LEN].try_into().unwrap();
        !of_toolkit.contains(&Digest::from_bytes(source))
    };
    let library: Vec<_> = kept.filter(is_of_library).collect();
    assert!(library.len() > 30, "{} modules", library.len());
    library
}

fn below(temporary: &Path) -> PathBuf {
    let user = format!("opkeep-{}", rustix::process::geteuid().as_raw());
    temporary.join(user).join("ascend-bytecode")
}
