//! Paths with `..` are observed as the kernel follows them.
#![expect(clippy::disallowed_methods, reason = "a test lays files")]

use std::fs;
use std::os::unix::fs::symlink;

use crate::sandbox::Bench;

/// Behind a link and in `/proc`, `..` is not what its text says.
#[test]
fn a_parent_is_that_of_the_real_directory() {
    let bench = Bench::new();
    let dir = fs::canonicalize(bench.path("")).unwrap();
    fs::create_dir_all(dir.join("a/b")).unwrap();
    fs::create_dir_all(dir.join("__pycache__")).unwrap();
    symlink("a/b", dir.join("link")).unwrap();
    for name in ["in", "a/in"] {
        fs::write(dir.join(name), name).unwrap();
    }
    let place = dir.display();
    for (script, expected) in [
        (format!("cat /proc/..{place}/in"), "in"),
        (format!("cat /sys/..{place}/in"), "in"),
        (format!("cat /proc/self/../..{place}/in"), "in"),
        (format!("cat /dev/fd/../../..{place}/in"), "in"),
        (format!("cat /usr/share/zoneinfo/../../..{place}/in"), "in"),
        (format!("cd /proc && cat ..{place}/in"), "in"),
        (format!("cat {place}/__pycache__/../in"), "in"),
        (format!("cat {place}/link/../in"), "a/in"),
        (format!("exec 5< {place}/a; cat /dev/fd/5/in"), "a/in"),
        (format!("exec 5< {place}/a; cat /dev/fd/5/../in"), "in"),
    ] {
        let (ended, seen) = bench.observe(&script);
        let wanted = dir.join(expected);
        assert_eq!(ended.output, expected, "{script}");
        assert!(seen.read.contains_key(&wanted), "{script}: {:?}", seen.read.keys());
        assert_eq!(seen.looked_at.contains_key(&dir.join("link")), script.contains("link"), "{script}");
    }
    let (_, seen) = bench.observe(&format!("cat {place}/missing/../in"));
    assert!(seen.looked_at[&dir.join("missing")].is_nothing());
    let (_, seen) = bench.observe(&format!("echo x > /proc/..{place}/out"));
    assert!(seen.written.contains_key(&dir.join("out")), "{:?}", seen.written);
}
