//! The copies of files, and the names by which they are linked.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, symlink};
use std::sync::{Arc, Mutex};

use opkeep_embed::FileContent;
use opkeep_fs::{FsOp, Permit};

use crate::directory::{Base, FILES, names_in, set_mode, watched, with_copies};

/// Two directories with copies in one: each file is written once, and the last one of a name is the copy.
#[test]
fn copies_are_second_names_of_the_last_files() {
    let base = Base::new();
    let (one, two) = (with_copies(&base, "KEY.one"), with_copies(&base, "KEY.two"));
    let other = [FILES[0], ("add.cubin", &b"\x7fELF another"[..])];
    let contents = FILES.map(|(name, bytes)| (name, FileContent::Bytes(bytes)));
    let id = |dir: &str, name: &str| {
        let found = fs::symlink_metadata(base.path().join(dir).join(name)).unwrap();
        (found.dev(), found.ino())
    };
    let in_copy = |dir: &str| FILES.map(|(name, _)| id(dir, name) == id("KEY", name));

    one.write("add.json", FILES[0].1).unwrap();
    assert!(!base.path().join("KEY").exists(), "a file alone has no copy");
    assert_eq!(one.place(FILES).unwrap(), 1);
    assert!(one.has_with_copies(contents) && in_copy("KEY.one") == [true; 2]);
    assert_eq!(two.place(other).unwrap(), 2);
    assert!(!one.has_with_copies(contents), "the copies are of the other directory");
    assert!(one.has(contents));
    assert_eq!(in_copy("KEY.two"), [true; 2]);
    // The files themselves stay.
    assert_eq!(fs::read(base.path().join("KEY.one/add.cubin")).unwrap(), FILES[1].1);
    assert_eq!(one.place(FILES).unwrap(), 0);
    assert!(one.has_with_copies(contents) && in_copy("KEY.one") == [true; 2]);

    // A copy that another program wrote is one as well, if it has the bytes.
    fs::remove_file(base.file("add.cubin")).unwrap();
    fs::write(base.file("add.cubin"), FILES[1].1).unwrap();
    assert!(one.has_with_copies(contents));
    for damage in [&b"\x7fELF kernex"[..], b""] {
        fs::remove_file(base.file("add.cubin")).unwrap();
        fs::write(base.file("add.cubin"), damage).unwrap();
        assert!(!one.has_with_copies(contents));
        assert_eq!(one.place(FILES).unwrap(), 0);
        assert!(one.has_with_copies(contents));
    }
    // What is written into a copy is in the file, too.
    fs::write(base.file("add.cubin"), b"").unwrap();
    assert!(!one.has_with_copies(contents));
    assert_eq!(one.place(FILES).unwrap(), 1);
    assert!(one.has_with_copies(contents) && in_copy("KEY.one") == [true; 2]);
    fs::remove_dir_all(base.path().join("KEY")).unwrap();
    symlink("/tmp", base.path().join("KEY")).unwrap();
    assert!(!one.has_with_copies(contents));
    one.place(FILES).unwrap();
    assert!(one.has_with_copies(contents));
    assert!(names_in(&base.temporary()).is_empty());
}

/// Where the file system has no second names, a copy is a file of its own.
#[test]
fn without_second_names_copies_are_written() {
    let base = Base::new();
    let dir = with_copies(&base, "KEY.one").with_fs(watched(|call| match call.op {
        FsOp::Link => Permit::Fail(io::ErrorKind::PermissionDenied.into()),
        _ => Permit::Go,
    }));
    let contents = FILES.map(|(name, bytes)| (name, FileContent::Bytes(bytes)));
    assert_eq!(dir.place(FILES).unwrap(), 2);
    assert!(dir.has_with_copies(contents));
    fs::write(base.file("add.cubin"), b"damaged").unwrap();
    assert!(!dir.has_with_copies(contents));
    assert_eq!(dir.place(FILES).unwrap(), 0);
    assert!(dir.has_with_copies(contents));
}

/// Another host's process with the same number may get a name as soon as it is free.
#[test]
fn a_temporary_file_of_another_process_stays() {
    let base = Base::new();
    let renamed = Mutex::new(Vec::new());
    let foreign = Arc::new(Mutex::new(BTreeSet::new()));
    let created = Arc::clone(&foreign);
    let dir = with_copies(&base, "KEY.one").with_fs(watched(move |call| {
        if renamed.lock().unwrap().contains(&call.path.to_owned()) && !call.path.exists() {
            fs::write(call.path, b"of another process").unwrap();
            created.lock().unwrap().insert(call.path.file_name().unwrap().to_str().unwrap().to_owned());
        }
        if call.op == FsOp::Rename {
            renamed.lock().unwrap().push(call.path.to_owned());
        }
        Permit::Go
    }));
    assert_eq!(dir.place(FILES).unwrap(), 2);
    assert_eq!(foreign.lock().unwrap().len(), 2, "those of the links");
    assert_eq!(names_in(&base.temporary()), *foreign.lock().unwrap());
    base.file("add.json").metadata().unwrap();
}

#[test]
fn a_link_gets_another_name_if_its_first_one_is_taken() {
    let base = Base::new();
    let taken = Arc::new(Mutex::new(Vec::new()));
    let names = Arc::clone(&taken);
    let dir = with_copies(&base, "KEY.one").with_fs(watched(move |call| {
        let mut names = names.lock().unwrap();
        if let (FsOp::Link, Some(to), true) = (call.op, call.to, names.is_empty()) {
            fs::write(to, b"of another process").unwrap();
            names.push(to.to_owned());
        }
        Permit::Go
    }));
    assert_eq!(dir.place(FILES).unwrap(), 2);
    let id = |dir: &str| fs::metadata(base.path().join(dir).join("add.json")).unwrap().ino();
    assert_eq!(id("KEY.one"), id("KEY"));
    assert_eq!(fs::read(&taken.lock().unwrap()[0]).unwrap(), b"of another process");
    assert_eq!(names_in(&base.temporary()).len(), 1);
}

#[test]
fn a_copy_has_the_right_bytes_if_its_file_is_replaced() {
    for is_full in [false, true] {
        let base = Base::new();
        let (other, is_linked) = (base.path().join("other"), Mutex::new(false));
        let dir = with_copies(&base, "KEY.one").with_fs(watched(move |call| {
            let mut is_linked = is_linked.lock().unwrap();
            if call.op == FsOp::Link {
                fs::write(&other, b"of another process").unwrap();
                fs::rename(&other, call.path).unwrap();
                *is_linked = true;
            }
            match call.op {
                FsOp::Create if is_full && *is_linked => Permit::Fail(io::ErrorKind::StorageFull.into()),
                _ => Permit::Go,
            }
        }));
        dir.place(FILES).unwrap();
        match is_full {
            true => assert!(names_in(&base.path().join("KEY")).is_empty()),
            false => base.check_copies(),
        }
        assert!(names_in(&base.temporary()).is_empty());
    }
}

/// The files themselves are enough for a hit, whatever prevents copies.
#[test]
fn a_hit_needs_no_copies() {
    let contents = FILES.map(|(name, bytes)| (name, FileContent::Bytes(bytes)));
    let other = [FILES[0], ("add.cubin", &b"\x7fELF another"[..])];
    let further = [("list", &b"of the files"[..])];
    let base = Base::new();
    let one = with_copies(&base, "KEY.one");
    one.place(FILES).unwrap();
    with_copies(&base, "KEY.two").place_with(other, further).unwrap();
    assert_eq!(fs::read(base.file("list")).unwrap(), further[0].1);
    for kind in [io::ErrorKind::ReadOnlyFilesystem, io::ErrorKind::StorageFull] {
        let read_only = one.clone().with_fs(watched(move |call| match call.op {
            FsOp::Create | FsOp::CreateDir | FsOp::Link | FsOp::Rename | FsOp::Remove => {
                Permit::Fail(kind.into())
            }
            _ => Permit::Go,
        }));
        assert!(read_only.has(contents) && !read_only.has_with_copies(contents));
        assert_eq!(read_only.place(FILES).unwrap(), 0);
        assert_eq!(read_only.place_with(FILES, further).unwrap(), 0);
        read_only.place([("add.ptx", &b"code"[..])]).unwrap_err();
        assert_eq!(fs::read(base.file("add.cubin")).unwrap(), other[1].1);
    }
    // As Triton's own manager leaves it with a umask of a group.
    set_mode(&base.path().join("KEY"), 0o775);
    assert!(one.has(contents) && !one.has_with_copies(contents));
    assert_eq!(one.place_with(FILES, further).unwrap(), 0);
    assert_eq!(one.place([("add.ptx", &b"code"[..])]).unwrap(), 1);
    assert_eq!(fs::read(base.file("add.cubin")).unwrap(), other[1].1);
    set_mode(&base.path().join("KEY"), 0o755);
    assert_eq!(one.place(FILES).unwrap(), 0);
    assert!(one.has_with_copies(contents));
}
