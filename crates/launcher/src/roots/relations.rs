//! How roots lie to each other and to other paths.
//!
//! A key has the names of roots in place of their paths. A relative path that leads out of a root has no such name: `../beside` is another
//! file in a tree that lies elsewhere, and is read by another absolute path there. So what a relative path can reach counts by how
//! it lies to the roots. Paths that have nothing but `/` in common do not: programs reach them by absolute paths.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use opkeep_digest::Hasher;

use super::{Root, Roots, is_name_byte};

impl Roots {
    /// Adds the relative paths between each two roots that have more than `/` in common. The home directory is not among them:
    /// [`hash_home`](Self::hash_home) is for a run that uses it.
    pub(crate) fn hash_relations(&self, hasher: &mut Hasher) {
        Self::hash_between(self.lasting().filter(|root| !root.is_home()).collect(), hasher);
    }

    /// Adds the relative paths between each two roots, the home directory among them.
    pub(crate) fn hash_home(&self, hasher: &mut Hasher) {
        Self::hash_between(self.lasting().collect(), hasher);
    }

    fn hash_between(mut roots: Vec<&Root>, hasher: &mut Hasher) {
        // By name: the order of the roots themselves depends on their paths.
        opkeep_order::by(&mut roots, |one, other| one.name.cmp(&other.name));
        let pairs =
            roots.iter().enumerate().flat_map(|(at, one)| roots[..at].iter().map(move |it| (it, one)));
        let near: Vec<_> =
            pairs.filter_map(|(one, other)| Some((one, other, shared(&one.path, &other.path)?))).collect();
        hasher.list(near.len());
        for (one, other, shared) in near {
            for root in [one, other] {
                hasher.str(&root.name);
                let rest: PathBuf = root.path.components().skip(shared).collect();
                hasher.bytes(rest.as_os_str().as_bytes());
            }
        }
    }

    /// Whether a path is below no root, and a relative path may lead to it from one: both have more than `/` in common.
    pub(crate) fn are_beside(&self, path: &Path) -> bool {
        self.name(path).root.is_empty() && self.lasting().any(|root| shared(&root.path, path).is_some())
    }

    /// Whether a path is below no root, and one of them lies below it.
    pub(crate) fn are_below(&self, path: &Path) -> bool {
        self.name(path).root.is_empty() && self.lasting().any(|root| root.path.starts_with(path))
    }

    /// Whether a path leads out of its root by `..`.
    pub(crate) fn are_left_by(&self, path: &Path) -> bool {
        let name = self.name(path);
        let mut depth = 0_usize;
        !name.root.is_empty()
            && name.rest.components().any(|part| match part {
                Component::ParentDir if depth == 0 => true,
                Component::ParentDir => {
                    depth -= 1;
                    false
                }
                _ => {
                    depth += 1;
                    false
                }
            })
    }

    /// Whether a text has an absolute path below which a root lies: with a name behind it, a program reaches the root by a path that
    /// has no root's name in the text.
    pub(crate) fn are_below_a_path_in(&self, text: &[u8]) -> bool {
        let is_path = |byte: &u8| *byte == b'/' || is_name_byte(*byte);
        text.split(|byte| !is_path(byte)).any(|word| {
            let start = word.iter().position(|byte| *byte == b'/').unwrap_or(word.len());
            let path = Path::new(OsStr::from_bytes(&word[start..]));
            path.components().nth(1).is_some() && self.are_below(path)
        })
    }
}

/// The number of components that two paths share from their start, if these are more than `/`.
fn shared(one: &Path, other: &Path) -> Option<usize> {
    let shared = one.components().zip(other.components()).take_while(|(one, other)| one == other).count();
    (shared > 1).then_some(shared)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roots(declared: &[(&str, &str)]) -> Roots {
        let declared = declared.iter().map(|(name, path)| ((*name).to_owned(), PathBuf::from(path)));
        Roots::new(declared).unwrap()
    }

    #[test]
    fn only_what_a_relative_path_can_lead_to_counts() {
        let digest = |declared: &[(&str, &str)]| {
            let mut hasher = Hasher::new("test");
            roots(declared).hash_relations(&mut hasher);
            hasher.finish()
        };
        let before = digest(&[("a", "/x/one/a"), ("b", "/x/b")]);
        for same in [[("a", "/y/one/a"), ("b", "/y/b")], [("a", "/x/y/one/a"), ("b", "/x/y/b")]] {
            assert_eq!(digest(&same), before, "{same:?}");
        }
        for other in [
            [("a", "/x/other/a"), ("b", "/x/b")],
            [("a", "/x/one/a"), ("b", "/x/one/b")],
            [("a", "/x/one/a"), ("b", "/x/b2")],
            [("a", "/x/one/a"), ("b", "/x")],
            [("a", "/x/one/a"), ("b", "/y/b")],
            [("a", "/x/one/a"), ("c", "/x/b")],
        ] {
            assert_ne!(digest(&other), before, "{other:?}");
        }
        assert_eq!(digest(&[("a", "/x/a"), ("b", "/y/b")]), digest(&[("a", "/z"), ("b", "/v/w")]));
    }

    #[test]
    fn paths_lie_beside_above_or_elsewhere() {
        let roots = roots(&[("a", "/x/one/a"), ("b", "/w")]);
        for (path, are_beside, are_below) in [
            ("/x/one/a", false, false),
            ("/x/one/a/b", false, false),
            ("/x/one/b", true, false),
            ("/x/two", true, false),
            ("/x/one", true, true),
            ("/x", true, true),
            ("/", false, true),
            ("/y/one/a", false, false),
            ("/w/x", false, false),
        ] {
            let path = Path::new(path);
            assert_eq!((roots.are_beside(path), roots.are_below(path)), (are_beside, are_below), "{path:?}");
        }
        for (path, are_left) in [
            ("/x/one/a/..", true),
            ("/x/one/a/b/../c", false),
            ("/x/one/a/b/../../c", true),
            ("/x/one/a/b/../../a", true),
            ("/x/one/b/../../c", false),
            ("/w/../x", true),
        ] {
            assert_eq!(roots.are_left_by(Path::new(path)), are_left, "{path}");
        }
        for text in ["/x", "a:/x/one/:b", "-I/x/one", "--dir=/x", "'/x'"] {
            assert!(roots.are_below_a_path_in(text.as_bytes()), "{text}");
        }
        for text in ["/x/one/a", "/x/one/b", "/", "a/b", "//", "", "/y", "/x2", "/x/one/a:/w/x"] {
            assert!(!roots.are_below_a_path_in(text.as_bytes()), "{text}");
        }
    }
}
