//! Named directories that may lie elsewhere in another build.

mod relations;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use opkeep_digest::Hasher;
use opkeep_fs::Fs;

use crate::error::LauncherError;

/// The name of the user's home directory, and that of the private work directory of a run.
const HOME: &str = "home";
const WORK: &str = "work";
/// The start of the directory of a user's Python packages, below the home directory. (Python's `site`)
const USER_PACKAGES: &[u8] = b".local/lib/python";
/// The end of the name of a root's real path. No user's name has this character.
const REAL: &str = "@real";
const MAX_NAME: usize = 64;

/// Named directories, longest path first: two builds in which only these differ have the same keys.
#[derive(Clone, Debug, Default)]
pub struct Roots(Vec<Root>);

#[derive(Clone, Debug)]
struct Root {
    name: String,
    path: PathBuf,
}

/// A path by its root's name and the rest below it, or an absolute path if it is below no root.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PathName {
    pub(crate) root: String,
    pub(crate) rest: PathBuf,
}

impl PathName {
    /// Whether it is below the home directory, and not where each Python looks for the user's packages: there it goes by `HOME` alone.
    pub(crate) fn uses_home(&self) -> bool {
        is_called(&self.root, HOME) && !self.rest.as_os_str().as_bytes().starts_with(USER_PACKAGES)
    }
}

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Segment<'a> {
    Bytes(&'a [u8]),
    /// The path of the root with this name.
    Root(&'a str),
}

impl Roots {
    /// Roots by name. The path by which a root is declared and its real path, without links, are distinguished: a text that has one
    /// of them stays different from a text that has the other.
    ///
    /// # Errors
    /// A name is not valid or repeated; a path is relative, has `.` or `..` in it, is `/`, or is declared twice.
    pub fn new(declared: impl IntoIterator<Item = (String, PathBuf)>) -> Result<Self, LauncherError> {
        let mut roots = Self::default();
        for (name, path) in declared {
            let is_letter =
                |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
            let is_plain = (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_letter);
            if !is_plain || [HOME, WORK].contains(&name.as_str()) {
                return Err(LauncherError::RootName { name });
            }
            let problem = match () {
                () if !is_plain_path(&path) => "expected an absolute path without `.` and `..`, not `/`",
                () if roots.0.iter().any(|root| root.name == name) => "the name is declared twice",
                () if roots.0.iter().any(|root| root.path == path) => "the path is declared twice",
                () => {
                    roots.add(&name, &path);
                    continue;
                }
            };
            return Err(LauncherError::RootPath { name, path, problem });
        }
        Ok(roots)
    }

    /// These roots, with the home directory and the work directory of a run. One that is declared by another name keeps that name.
    pub(crate) fn of_run(&self, home: Option<&OsStr>, work_dir: &Path) -> Self {
        let mut roots = self.clone();
        roots.add(WORK, work_dir);
        if let Some(home) = home.map(Path::new).filter(|home| is_plain_path(home)) {
            roots.add(HOME, home);
        }
        roots
    }

    /// Adds a root by its given and its real path.
    fn add(&mut self, name: &str, path: &Path) {
        let path: PathBuf = path.components().collect();
        let real = Fs::new().resolved(&path);
        for (name, path) in [(name.to_owned(), path), (format!("{name}{REAL}"), real)] {
            if is_plain_path(&path) && self.0.iter().all(|root| root.path != path) {
                self.0.push(Root { name, path });
            }
        }
        // Sorted by length, then by name: the same order in each process.
        opkeep_order::by(&mut self.0, |a, b| {
            let length = |root: &Root| root.path.as_os_str().len();
            length(b).cmp(&length(a)).then_with(|| a.name.cmp(&b.name))
        });
    }

    /// The name of a path. `..` in it stays: it is resolved from where the root lies.
    pub(crate) fn name(&self, path: &Path) -> PathName {
        let below = self.0.iter().find_map(|root| Some((root, path.strip_prefix(&root.path).ok()?)));
        match below {
            Some((root, rest)) => PathName { root: root.name.clone(), rest: rest.to_owned() },
            None => PathName { root: String::new(), rest: path.to_owned() },
        }
    }

    /// The path with this name. `None`: its root is not declared here.
    pub(crate) fn locate(&self, name: &PathName) -> Option<PathBuf> {
        if name.root.is_empty() {
            return name.rest.is_absolute().then(|| name.rest.clone());
        }
        let root = self.0.iter().find(|root| root.name == name.root)?;
        // A rest that is absolute would leave the root.
        let is_below = !name.rest.has_root();
        is_below.then(|| {
            if name.rest.as_os_str().is_empty() { root.path.clone() } else { root.path.join(&name.rest) }
        })
    }

    /// Whether a path is below a root. The private work directory counts as none.
    pub(crate) fn cover(&self, path: &Path) -> bool {
        self.0.iter().any(|root| path.starts_with(&root.path))
    }

    /// The segments of a text. A root's path is one only where a path begins: behind a letter that belongs to an option (`-I/x`),
    /// but not within a longer path (`/y/x`), and not as the start of a longer name (`/x2`).
    pub(crate) fn segments<'a>(&'a self, text: &'a [u8]) -> Vec<Segment<'a>> {
        let (mut segments, mut from, mut at) = (Vec::new(), 0, 0);
        // The start of the word at `at`, and whether it has a slash before.
        let (mut word, mut is_in_path) = (0, false);
        while let Some(&byte) = text.get(at) {
            if byte != b'/' {
                at += 1;
                if !is_name_byte(byte) {
                    (word, is_in_path) = (at, false);
                }
                continue;
            }
            let before = &text[word..at];
            let is_start = !is_in_path && (matches!(before, b"" | b"@") || before.starts_with(b"-"));
            let found = if is_start { self.0.iter().find(|root| root.begins(&text[at..])) } else { None };
            is_in_path = true;
            match found {
                Some(root) => {
                    if from < at {
                        segments.push(Segment::Bytes(&text[from..at]));
                    }
                    segments.push(Segment::Root(&root.name));
                    at += root.path.as_os_str().len();
                    from = at;
                }
                None => at += 1,
            }
        }
        if from < text.len() {
            segments.push(Segment::Bytes(&text[from..]));
        }
        segments
    }

    /// Adds a text to a digest, with names in place of the roots' paths. No text can feign a name.
    pub(crate) fn hash_text(&self, hasher: &mut Hasher, text: &[u8]) {
        let segments = self.segments(text);
        hasher.list(segments.len());
        for segment in segments {
            match segment {
                Segment::Bytes(bytes) => hasher.bytes(bytes),
                Segment::Root(name) => hasher.str(name),
            }
        }
    }

    /// Adds a path to a digest by its name.
    pub(crate) fn hash_path(&self, hasher: &mut Hasher, path: &Path) {
        let PathName { root, rest } = self.name(path);
        hasher.str(&root);
        hasher.bytes(rest.as_os_str().as_bytes());
    }

    /// Adds the names and the paths of all roots except the work directory.
    pub(crate) fn hash_real_paths(&self, hasher: &mut Hasher) {
        let lasting: Vec<_> = self.lasting().collect();
        hasher.list(lasting.len());
        for root in lasting {
            hasher.str(&root.name);
            hasher.bytes(root.path.as_os_str().as_bytes());
        }
    }

    /// Whether `bytes` contain the path of a root other than the work directory, wherever in them.
    pub(crate) fn appear_in(&self, bytes: &[u8]) -> bool {
        self.lasting().any(|root| contains(bytes, root.path.as_os_str().as_bytes()))
    }

    /// Whether `bytes` contain the path of the work directory.
    pub(crate) fn work_dir_appears_in(&self, bytes: &[u8]) -> bool {
        let mut work = self.0.iter().filter(|root| root.is_work_dir());
        work.any(|root| contains(bytes, root.path.as_os_str().as_bytes()))
    }

    /// The path of the root with this name.
    pub(crate) fn path_of(&self, name: &str) -> Option<&Path> {
        self.0.iter().find(|root| root.name == name).map(|root| root.path.as_path())
    }

    fn lasting(&self) -> impl Iterator<Item = &Root> {
        self.0.iter().filter(|root| !root.is_work_dir())
    }
}

impl Root {
    fn is_work_dir(&self) -> bool {
        is_called(&self.name, WORK)
    }

    fn is_home(&self) -> bool {
        is_called(&self.name, HOME)
    }

    /// Whether a text begins with this path, and not with a longer name.
    fn begins(&self, text: &[u8]) -> bool {
        let rest = text.strip_prefix(self.path.as_os_str().as_bytes());
        rest.is_some_and(|rest| rest.first().is_none_or(|byte| !is_name_byte(*byte)))
    }
}

/// Whether the name of a root is that of one by itself, by its given or its real path.
fn is_called(name: &str, own: &str) -> bool {
    name.strip_suffix(REAL).unwrap_or(name) == own
}

/// Whether a byte may be a part of a file's name without quotes.
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80 || b"_.-+~@%".contains(&byte)
}

/// Whether a path is absolute, plain, and not `/`.
fn is_plain_path(path: &Path) -> bool {
    let mut parts = path.components();
    parts.next() == Some(Component::RootDir)
        && parts.clone().next().is_some()
        && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// Whether `bytes` contain `part`.
pub(crate) fn contains(bytes: &[u8], part: &[u8]) -> bool {
    let Some(first) = part.first() else { return true };
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| byte == first) {
        rest = &rest[at..];
        if rest.starts_with(part) {
            return true;
        }
        rest = &rest[1..];
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roots(declared: &[(&str, &str)]) -> Roots {
        let declared = declared.iter().map(|(name, path)| ((*name).to_owned(), PathBuf::from(path)));
        Roots::new(declared).unwrap()
    }

    fn text(roots: &Roots, text: &str) -> String {
        let segments = roots.segments(text.as_bytes()).into_iter().map(|segment| match segment {
            Segment::Bytes(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
            Segment::Root(name) => format!("<{name}>"),
        });
        segments.collect()
    }

    #[test]
    fn paths_are_found_where_they_begin() {
        let roots = roots(&[("build", "/x/build"), ("source", "/x"), ("inner", "/x/build/inner")]);
        for (given, expected) in [
            ("-I/x/build/include", "-I<build>/include"),
            ("-include/x/build/a.h", "-include<build>/a.h"),
            ("'/x/build':/x:\"/x/build/inner\"", "'<build>':<source>:\"<inner>\""),
            ("/x/build2 /x/build.old /x/builder", "<source>/build2 <source>/build.old <source>/builder"),
            ("/y/x/build /x2", "/y/x/build /x2"),
            ("../x/build ./x a/x/build", "../x/build ./x a/x/build"),
            ("@/x/build/rsp", "@<build>/rsp"),
            ("a=/x/build;b=/x", "a=<build>;b=<source>"),
            ("//x/build", "//x/build"),
            ("/x", "<source>"),
            ("", ""),
            ("<build>", "<build>"),
        ] {
            assert_eq!(text(&roots, given), expected, "{given}");
        }
    }

    #[test]
    fn a_text_cannot_feign_a_root() {
        let roots = roots(&[("build", "/x/build")]);
        let digest = |text: &str| {
            let mut hasher = Hasher::new("test");
            roots.hash_text(&mut hasher, text.as_bytes());
            hasher.finish()
        };
        for (one, other) in [("/x/build", "<build>"), ("/x/build", "build"), ("a/x/build", "/x/builda")] {
            assert_ne!(digest(one), digest(other), "{one} {other}");
        }
    }

    #[test]
    fn names_lead_back_to_their_paths() {
        let roots = roots(&[("build", "/x/build"), ("source", "/x")]);
        for path in ["/x/build", "/x/build/a/b", "/x/build/../c", "/x/other", "/y", "/", "/x/buildings"] {
            assert_eq!(roots.locate(&roots.name(Path::new(path))), Some(PathBuf::from(path)), "{path}");
        }
        assert_eq!(roots.name(Path::new("/x/build/a")).root, "build");
        let name = |root: &str, rest: &str| PathName { root: root.to_owned(), rest: rest.into() };
        // Names of another host, which may be hostile.
        for name in [name("absent", "a"), name("build", "/etc/passwd"), name("", "relative")] {
            assert_eq!(roots.locate(&name), None, "{name:?}");
        }
    }

    #[test]
    fn roots_are_plain() {
        for (name, path) in [
            ("", "/x"),
            ("A", "/x"),
            ("home", "/x"),
            ("work", "/x"),
            ("a@real", "/x"),
            ("a", "/"),
            ("a", "x"),
            ("a", "/x/../y"),
            ("a", "/x/./.."),
        ] {
            let declared = [(name.to_owned(), PathBuf::from(path))];
            assert!(Roots::new(declared).is_err(), "{name} {path}");
        }
        let twice = [("a", "/x"), ("b", "/x")].map(|(name, path)| (name.to_owned(), PathBuf::from(path)));
        assert!(Roots::new(twice).is_err());
    }

    #[test]
    fn a_home_of_slash_is_no_root() {
        let work = Path::new("/tmp/absent-work-directory");
        let run = roots(&[("build", "/x")]).of_run(Some(OsStr::new("/")), work);
        assert_eq!(run.name(Path::new("/etc")).root, "");
        let run = roots(&[("build", "/x")]).of_run(Some(OsStr::new("/x")), work);
        assert_eq!(run.name(Path::new("/x/a")).root, "build");
        let run = roots(&[]).of_run(Some(OsStr::new("/absent/me")), work);
        assert_eq!(run.name(Path::new("/absent/me/a")).root, "home");
        assert!(
            run.work_dir_appears_in(b"in /tmp/absent-work-directory/x")
                && !run.appear_in(b"/tmp/absent-work-directory")
        );
    }

    #[test]
    fn parts_are_found_anywhere() {
        for (bytes, part, found) in [
            ("aab", "ab", true),
            ("aaa", "ab", false),
            ("ab", "ab", true),
            ("", "a", false),
            ("aabab", "abab", true),
        ] {
            assert_eq!(contains(bytes.as_bytes(), part.as_bytes()), found, "{bytes} {part}");
        }
    }
}
