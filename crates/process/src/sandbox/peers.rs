//! What observed programs exchange data with, beside files.

use std::ffi::OsString;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Something by which programs exchanged data with processes that were not observed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Peer {
    /// A socket that was connected or sent to, or a pipe or a device that was written, by its path.
    File(PathBuf),
    /// A socket without a path: its address in words.
    Address(String),
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Address(words) => words.fmt(f),
        }
    }
}

/// The address of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    /// The path of a socket.
    Path(OsString),
    /// A name of a local socket that is no path.
    Abstract(Vec<u8>),
    /// A network address.
    Network(SocketAddr),
    /// An address of another family of protocols, such as that of the kernel's tables of networks.
    Other(u16),
    /// None: the call disconnects the socket, or lets the kernel choose a name.
    None,
}

impl Address {
    /// An address as it is in memory (`struct sockaddr`).
    pub(super) fn of(bytes: &[u8]) -> Self {
        let Some((family, rest)) = bytes.split_first_chunk::<2>() else { return Self::None };
        let port = || rest.first_chunk::<2>().map(|port| u16::from_be_bytes(*port)).unwrap_or_default();
        let family = u16::from_ne_bytes(*family);
        match i32::from(family) {
            libc::AF_UNSPEC => Self::None,
            libc::AF_UNIX => match rest.split_first() {
                None => Self::None,
                Some((0, name)) => Self::Abstract(name.to_vec()),
                Some(_) => {
                    let path = rest.split(|byte| *byte == 0).next().unwrap_or_default();
                    Self::Path(OsString::from_vec(path.to_vec()))
                }
            },
            libc::AF_INET => match rest.get(2..).and_then(|rest| rest.first_chunk::<4>()) {
                Some(address) => Self::Network((IpAddr::from(Ipv4Addr::from(*address)), port()).into()),
                None => Self::Other(family),
            },
            libc::AF_INET6 => match rest.get(6..).and_then(|rest| rest.first_chunk::<16>()) {
                Some(address) => Self::Network((IpAddr::from(Ipv6Addr::from(*address)), port()).into()),
                None => Self::Other(family),
            },
            _ => Self::Other(family),
        }
    }

    /// The address in words, unless it is a path.
    pub(super) fn in_words(&self) -> String {
        match self {
            Self::Path(path) => path.display().to_string(),
            Self::Abstract(name) => format!("@{}", String::from_utf8_lossy(name)),
            Self::Network(address) => address.to_string(),
            Self::Other(family) => format!("a socket of the address family {family}"),
            Self::None => "no address".to_owned(),
        }
    }
}

/// Whether a socket is that of the service that remembers users and hosts (nscd). Without it, programs read the files, which are observed.
pub(super) fn is_name_service(path: &Path) -> bool {
    [Path::new("/run/nscd"), Path::new("/var/run/nscd")].iter().any(|dir| path.starts_with(dir))
}

/// Whether a socket only takes lines for the system's log.
pub(super) fn is_log(path: &Path) -> bool {
    path == Path::new("/dev/log") || path.starts_with("/run/systemd/journal")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_from_memory() {
        let unix = |rest: &[u8]| Address::of(&[&(libc::AF_UNIX as u16).to_ne_bytes(), rest].concat());
        assert_eq!(unix(b"/run/s\0\0junk"), Address::Path("/run/s".into()));
        assert_eq!(unix(b"s"), Address::Path("s".into()));
        assert_eq!(unix(b"\0a\0b"), Address::Abstract(b"a\0b".to_vec()));
        assert_eq!(unix(b""), Address::None);
        let inet = [&(libc::AF_INET as u16).to_ne_bytes()[..], &[0, 80, 127, 0, 0, 1], &[0; 8]].concat();
        assert_eq!(Address::of(&inet).in_words(), "127.0.0.1:80");
        assert_eq!(Address::of(&inet[..7]), Address::Other(libc::AF_INET as u16));
        let mut inet6 = [0; 28];
        inet6[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
        (inet6[3], inet6[23]) = (80, 1);
        assert_eq!(Address::of(&inet6).in_words(), "[::1]:80");
        assert_eq!(Address::of(&[0; 16]), Address::None);
        assert_eq!(Address::of(&[]), Address::None);
        assert_eq!(
            Address::of(&(libc::AF_NETLINK as u16).to_ne_bytes()),
            Address::Other(libc::AF_NETLINK as u16)
        );
    }
}
