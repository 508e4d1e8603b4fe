//! A directory as `cargo cinstall --prefix` makes it, from the libraries that cargo built for the tests.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::common;

/// The libraries that a program needs besides a static libopkeep, as `rustc --print native-static-libs` lists them.
pub(crate) const LIBS_PRIVATE: &str = "-lgcc_s -lutil -lrt -lpthread -lm -ldl -lc";

static PREFIX: OnceLock<PathBuf> = OnceLock::new();

/// Makes the directory, which is removed when the result is dropped.
pub(crate) fn create() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let (lib, include) = (dir.path().join("lib"), dir.path().join("include"));
    fs::create_dir_all(lib.join("pkgconfig")).unwrap();
    fs::create_dir_all(&include).unwrap();
    symlink(common::library("so"), lib.join("libopkeep.so.1")).unwrap();
    symlink("libopkeep.so.1", lib.join("libopkeep.so")).unwrap();
    symlink(common::library("a"), lib.join("libopkeep.a")).unwrap();
    for header in ["opkeep.h", "opkeep.hpp"] {
        symlink(source("include").join(header), include.join(header)).unwrap();
    }
    let root = dir.path().display();
    let package = format!(
        "prefix={root}\nlibdir=${{prefix}}/lib\nincludedir=${{prefix}}/include\n\nName: opkeep\n\
         Description: A cache of compiled kernels\nVersion: {}\nLibs: -L${{libdir}} -lopkeep\n\
         Cflags: -I${{includedir}}\nLibs.private: {LIBS_PRIVATE}\n",
        env!("CARGO_PKG_VERSION")
    );
    fs::write(lib.join("pkgconfig/opkeep.pc"), package).unwrap();
    let _ = PREFIX.set(dir.path().to_owned());
    dir
}

/// The directory that [`create`] made.
pub(crate) fn prefix() -> &'static Path {
    PREFIX.get().unwrap()
}

/// A file or directory of this crate.
pub(crate) fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}
