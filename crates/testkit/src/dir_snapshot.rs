//! The content of a directory, kept in memory to be compared or restored.
#![expect(clippy::disallowed_methods, reason = "this is the crate's I/O module")]

use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The files and directories at a path and below, or that the path is missing. Two are equal if names, bytes, modes,
/// links and the times of files are equal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DirSnapshot {
    /// By path relative to the top, whose own path is empty.
    nodes: BTreeMap<PathBuf, Node>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Node {
    Dir { mode: u32 },
    File { mode: u32, modified: SystemTime, bytes: Vec<u8> },
    Link { target: PathBuf },
}

impl DirSnapshot {
    /// The content of `top`.
    ///
    /// # Errors
    /// A file cannot be read, or is neither file, directory nor link.
    pub fn of(top: &Path) -> io::Result<Self> {
        let mut image = Self::default();
        match Node::at(top) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            node => image.add(top, PathBuf::new(), node?)?,
        }
        Ok(image)
    }

    /// All paths relative to the top, whose own path is empty.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.nodes.keys().map(PathBuf::as_path)
    }

    /// The paths of all files, relative to the top.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let is_file = |(_, node): &(_, &Node)| matches!(node, Node::File { .. });
        self.nodes.iter().filter(is_file).map(|(path, _)| path.as_path())
    }

    /// The same with one time for all files, and with renamed paths.
    #[must_use]
    pub fn alike(self, rename: impl Fn(PathBuf) -> PathBuf) -> Self {
        let of_one_time = |node| match node {
            Node::File { mode, bytes, .. } => Node::File { mode, modified: SystemTime::UNIX_EPOCH, bytes },
            other => other,
        };
        Self { nodes: self.nodes.into_iter().map(|(path, node)| (rename(path), of_one_time(node))).collect() }
    }

    fn add(&mut self, top: &Path, path: PathBuf, node: Node) -> io::Result<()> {
        if let Node::Dir { .. } = node {
            for name in names(&top.join(&path))? {
                let below = path.join(name);
                let node = Node::at(&top.join(&below))?;
                self.add(top, below, node)?;
            }
        }
        self.nodes.insert(path, node);
        Ok(())
    }

    /// Restores `top` to this state. Unchanged files are not touched.
    ///
    /// # Errors
    /// A file cannot be written or removed.
    pub fn restore(&self, top: &Path) -> io::Result<()> {
        if self.nodes.is_empty() {
            return remove(top);
        }
        for (path, node) in &self.nodes {
            // Joining an empty path would end in a slash, which follows links.
            let full = if path.as_os_str().is_empty() { top.to_owned() } else { top.join(path) };
            node.restore(&full)?;
            if let Node::Dir { .. } = node {
                for name in names(&full)? {
                    if !self.nodes.contains_key(&path.join(&name)) {
                        remove(&full.join(name))?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Node {
    fn at(path: &Path) -> io::Result<Self> {
        let meta = fs::symlink_metadata(path)?;
        let mode = meta.mode() & 0o7777;
        if meta.is_dir() {
            Ok(Self::Dir { mode })
        } else if meta.is_symlink() {
            Ok(Self::Link { target: fs::read_link(path)? })
        } else if meta.is_file() {
            Ok(Self::File { mode, modified: meta.modified()?, bytes: fs::read(path)? })
        } else {
            Err(io::Error::other(format!("`{}` is neither file, directory nor link", path.display())))
        }
    }

    fn restore(&self, path: &Path) -> io::Result<()> {
        let found = match Self::at(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            found => Some(found?),
        };
        if found.as_ref() == Some(self) {
            return Ok(());
        }
        match (self, found) {
            (Self::Dir { mode }, Some(Self::Dir { .. })) => set_mode(path, *mode),
            (node, Some(_)) => {
                remove(path)?;
                node.make(path)
            }
            (node, None) => node.make(path),
        }
    }

    fn make(&self, path: &Path) -> io::Result<()> {
        match self {
            Self::Dir { mode } => {
                fs::create_dir(path)?;
                set_mode(path, *mode)
            }
            Self::Link { target } => symlink(target, path),
            Self::File { mode, modified, bytes } => {
                let mut file = File::create(path)?;
                file.write_all(bytes)?;
                file.set_permissions(Permissions::from_mode(*mode))?;
                file.set_times(FileTimes::new().set_modified(*modified))
            }
        }
    }
}

fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode))
}

fn names(dir: &Path) -> io::Result<Vec<std::ffi::OsString>> {
    fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name())).collect()
}

/// The inode number of the file at `path`; of a link, that of the link itself.
pub(crate) fn inode(path: &Path) -> Option<u64> {
    fs::symlink_metadata(path).ok().map(|meta| meta.ino())
}

/// Removes the file, link or directory at `path`; a missing one is fine.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}

/// Changes the bytes of a file, if it exists.
pub(crate) fn change(path: &Path, new: impl FnOnce(Vec<u8>) -> Vec<u8>) -> io::Result<()> {
    match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        bytes => fs::write(path, new(bytes?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_change_is_undone() {
        let dir = tempfile::tempdir().unwrap();
        let (top, outside) = (dir.path().join("top"), dir.path().join("outside"));
        fs::create_dir_all(top.join("a/b")).unwrap();
        fs::write(top.join("a/file"), "bytes").unwrap();
        fs::write(top.join("a/other"), "others").unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("precious"), "precious").unwrap();
        symlink(&outside, top.join("link")).unwrap();
        let (image, around) = (DirSnapshot::of(&top).unwrap(), DirSnapshot::of(&outside).unwrap());

        fs::write(top.join("a/file"), "bytez").unwrap();
        fs::remove_dir(top.join("a/b")).unwrap();
        fs::write(top.join("a/b"), "no directory").unwrap();
        set_mode(&top.join("a/other"), 0o600).unwrap();
        fs::create_dir_all(top.join("new/newer")).unwrap();
        fs::remove_file(top.join("link")).unwrap();
        fs::create_dir(top.join("link")).unwrap();
        symlink(&outside, top.join("another")).unwrap();
        let changed = DirSnapshot::of(&top).unwrap();
        assert_ne!(changed, image);
        assert_eq!(image.files().collect::<Vec<_>>(), [Path::new("a/file"), Path::new("a/other")]);
        image.restore(&top).unwrap();
        assert_eq!(DirSnapshot::of(&top).unwrap(), image);
        assert_eq!(DirSnapshot::of(&outside).unwrap(), around, "links are not followed");

        changed.restore(&top).unwrap();
        assert_eq!(DirSnapshot::of(&top).unwrap(), changed);
        DirSnapshot::default().restore(&top).unwrap();
        assert_eq!(DirSnapshot::of(&top).unwrap(), DirSnapshot::default());
        image.restore(&top).unwrap();
        assert_eq!(DirSnapshot::of(&top).unwrap(), image);
        assert_eq!(DirSnapshot::of(&outside).unwrap(), around);
    }

    #[test]
    fn alike_are_those_that_differ_in_times_and_given_names() {
        let dir = tempfile::tempdir().unwrap();
        let image = |name: &str, bytes: &str, time| {
            let path = dir.path().join(name);
            fs::write(&path, bytes).unwrap();
            File::options().append(true).open(&path).unwrap().set_modified(time).unwrap();
            let image = DirSnapshot::of(dir.path()).unwrap();
            fs::remove_file(path).unwrap();
            image
        };
        let then = SystemTime::UNIX_EPOCH;
        let now = then + std::time::Duration::from_secs(5);
        let plain = |path: PathBuf| if path.starts_with("temp-7") { "temp".into() } else { path };
        assert_ne!(image("a", "1", now), image("a", "1", then));
        assert_eq!(image("a", "1", now).alike(plain), image("a", "1", then).alike(plain));
        assert_eq!(image("temp-7", "1", now).alike(plain), image("temp", "1", then).alike(plain));
        assert_ne!(image("temp-8", "1", now).alike(plain), image("temp", "1", then).alike(plain));
        assert_ne!(image("a", "2", now).alike(plain), image("a", "1", then).alike(plain));
    }
}
