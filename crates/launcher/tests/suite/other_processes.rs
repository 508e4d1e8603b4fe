//! Data of other processes, and effects on files that are no output.

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixListener;
use std::thread;

use opkeep_launcher::{How, Reason};

use crate::common::{Bench, reason, set_mode};

const CLIENT: &str = "python3 -c '\nimport socket\ns = socket.socket(socket.AF_UNIX)\n\
    try:\n    s.connect(\"{}/socket\")\n    v = s.recv(9)\nexcept OSError:\n    v = b\"none\"\n\
    open(\"out/k\", \"wb\").write(v)'";

#[test]
fn data_of_a_socket_is_no_result() {
    let bench = Bench::new();
    assert_eq!(bench.how(CLIENT), How::Compiled);
    assert_eq!(bench.how(CLIENT), How::Hit);
    let listener = UnixListener::bind(bench.path("tree/socket")).unwrap();
    thread::spawn(move || {
        for data in ["one", "two"] {
            listener.accept().unwrap().0.write_all(data.as_bytes()).unwrap();
        }
    });
    for data in ["one", "two"] {
        let reason = reason(bench.how(CLIENT));
        assert_eq!(reason, Reason::OtherProcess(bench.path("tree/socket").display().to_string()));
        assert_eq!(fs::read_to_string(bench.path("tree/out/k")).unwrap(), data);
    }
}

#[test]
fn data_for_another_process_comes_in_each_run() {
    let bench = Bench::new();
    let pipe = bench.path("tree/pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).unwrap();
    for _ in 0..2 {
        let path = pipe.clone();
        let reader = thread::spawn(move || fs::read_to_string(path).unwrap());
        let reason = reason(bench.how("echo x > pipe; echo y > out/k"));
        assert_eq!(reason, Reason::OtherProcess(pipe.display().to_string()));
        assert_eq!(reader.join().unwrap(), "x\n");
    }
}

/// Each call fails if the file is missing, and the program decides by that.
#[test]
fn a_file_whose_mode_or_date_is_changed_is_looked_for() {
    for call in
        ["chmod(\"f\", 0o644)", "utime(\"f\")", "setxattr(\"f\", \"user.a\", b\"1\")", "chown(\"f\", -1, -1)"]
    {
        let bench = Bench::new();
        let script = format!(
            "python3 -c '\nimport os\ntry:\n    os.{call}\n    v = \"had\"\nexcept FileNotFoundError:\n    v = \"none\"\n\
             open(\"out/k\", \"w\").write(v)'"
        );
        assert_eq!(bench.how(&script), How::Compiled, "{call}");
        assert_eq!(bench.how(&script), How::Hit, "{call}");
        assert_eq!(fs::read_to_string(bench.path("tree/out/k")).unwrap(), "none");
        bench.write("tree/f", "");
        let changed = reason(bench.how(&script));
        assert!(matches!(changed, Reason::WroteElsewhere(_) | Reason::RefusedCall(_)), "{call}: {changed:?}");
        let is_set = fs::read_to_string(bench.path("tree/out/k")).unwrap() == "had";
        // A file system need not have extended attributes.
        assert!(is_set || call.starts_with("setxattr"), "{call}");
    }
}

#[test]
fn the_mode_of_another_file_is_changed_in_each_run() {
    let bench = Bench::new();
    bench.write("tree/f", "");
    for _ in 0..2 {
        set_mode(&bench.path("tree/f"), 0o644);
        let reason = reason(bench.how("python3 -c 'import os; os.chmod(\"f\", 0o755)'; echo x > out/k"));
        assert_eq!(reason, Reason::WroteElsewhere(bench.path("tree/f")));
    }
    // That of an output is a part of it.
    assert_eq!(bench.how("echo x > out/k; chmod 755 out/k; touch -d 2000-01-01 out/k"), How::Compiled);
}

/// A path in another root is no path of the tree.
#[test]
fn a_file_in_another_root_is_not_mistaken() {
    let bench = Bench::new();
    let script = "python3 -c '\nimport ctypes, os, struct\nlibc = ctypes.CDLL(None)\ndir = os.open(\"r\", os.O_PATH)\n\
        how = ctypes.create_string_buffer(struct.pack(\"QQQ\", 0, 0, 0x10))\n\
        fd = libc.syscall(437, dir, b\"/etc/conf\", how, 24)\n\
        data = os.read(fd, 99) if fd >= 0 else open(\"r/etc/conf\", \"rb\").read()\nopen(\"out/k\", \"wb\").write(data)'";
    for text in ["one", "two"] {
        bench.write("tree/r/etc/conf", text);
        for expected in [How::Compiled, How::Hit] {
            assert_eq!(bench.how(script), expected, "{text}");
            assert_eq!(fs::read_to_string(bench.path("tree/out/k")).unwrap(), text);
        }
    }
}

/// A program that opens a file to append to it learns how long it is.
#[test]
fn the_length_of_a_file_that_is_appended_to_counts() {
    let bench = Bench::new();
    let script = "python3 -c 'f = open(\"log\", \"ab\"); open(\"out/k\", \"w\").write(str(f.tell()))'";
    for text in ["12345", "1234567"] {
        bench.write("tree/log", text);
        // What has changed a moment before counts as written.
        thread::sleep(std::time::Duration::from_millis(40));
        for expected in [How::Compiled, How::Hit] {
            assert_eq!(bench.how(script), expected, "{text}");
            assert_eq!(fs::read_to_string(bench.path("tree/out/k")).unwrap(), text.len().to_string());
        }
    }
}
