//! The removal of temporary files when a program ends.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use crate::system::Fs;
use crate::temporaries::take_own;

/// How often a directory is removed in which other threads or processes create files meanwhile.
const ATTEMPTS: u32 = 20;
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(2);

/// Removes the temporary files and directories of this process, for `limit` at most: a file system may hang. For a program that ends
/// now. Best effort: what stays, a later process removes, see [`TempDir`](crate::TempDir).
pub fn remove_temporaries(limit: Duration) {
    let found = take_own();
    if found.is_empty() {
        return;
    }
    let (sender, ended) = channel();
    let remove_all = move || {
        found.iter().for_each(|(path, is_dir)| remove(path, *is_dir));
        let _ = sender.send(());
    };
    if thread::Builder::new().name("temporaries".to_owned()).spawn(remove_all).is_ok() {
        let _ = ended.recv_timeout(limit);
    }
}

fn remove(path: &Path, is_dir: bool) {
    let fs = Fs::new();
    if !is_dir {
        let _ = fs.remove(path);
        return;
    }
    for _ in 0..ATTEMPTS {
        match fs.remove_tree(path) {
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {}
            // A thread that works in it may have made it anew.
            Ok(()) if fs.look(path).is_ok() => {}
            _ => return,
        }
        thread::sleep(PAUSE);
    }
}
