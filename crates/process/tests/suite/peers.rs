//! What programs exchange with processes that are not observed is named, and calls that would hide it are refused.
#![expect(clippy::disallowed_methods, reason = "the other end of a pipe is this process")]

use std::io::Write;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::thread;

use opkeep_process::{Observation, Peer};

use crate::sandbox::{Bench, compile};

/// A client in Python; `{}` is replaced by the address.
const CLIENT: &str = "python3 -S -c '\nimport socket\ns = socket.socket(socket.FAMILY)\ns.connect(ADDRESS)\nprint(s.recv(9).decode())'";

fn client(family: &str, address: &str) -> String {
    CLIENT.replace("FAMILY", family).replace("ADDRESS", address)
}

fn peers(seen: &Observation) -> Vec<String> {
    seen.peers.iter().map(ToString::to_string).collect()
}

#[test]
fn sockets_of_other_processes_are_named() {
    let bench = Bench::new();
    let path = bench.path("socket");
    let name = format!("opkeep-{}", path.display());
    let unix = [
        UnixListener::bind(&path).unwrap(),
        UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap(),
    ];
    for listener in unix {
        thread::spawn(move || {
            while let Ok((mut peer, _)) = listener.accept() {
                peer.write_all(b"data").unwrap();
            }
        });
    }
    let network = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = network.local_addr().unwrap().port();
    thread::spawn(move || {
        while let Ok((mut peer, _)) = network.accept() {
            peer.write_all(b"data").unwrap();
        }
    });
    let cases = [
        (client("AF_UNIX", &format!("\"{}\"", path.display())), path.display().to_string()),
        (client("AF_UNIX", &format!("b\"\\0{name}\"")), format!("@{name}")),
        (client("AF_INET", &format!("(\"127.0.0.1\", {port})")), format!("127.0.0.1:{port}")),
    ];
    for (script, peer) in cases {
        let (ended, seen) = bench.observe(&script);
        assert_eq!((ended.output.as_str(), peers(&seen)), ("data\n", vec![peer]), "{script}");
    }
}

/// Messages that name their receiver, without a connection.
#[test]
fn receivers_of_messages_are_named() {
    let bench = Bench::new();
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let sends = ["s.sendto(b\"x\", A)", "s.sendmsg([b\"x\"], [], 0, A)"];
    for send in sends {
        let send = send.replace('A', &format!("(\"127.0.0.1\", {})", address.port()));
        let script = format!(
            "python3 -S -c '\nimport socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n{send}'"
        );
        let (ended, seen) = bench.observe(&script);
        assert!(ended.status.success(), "{}", ended.output);
        assert_eq!(peers(&seen), [address.to_string()], "{send}");
    }
}

#[test]
fn sockets_between_the_programs_are_their_own() {
    let bench = Bench::new();
    let script = "python3 -S -c '\nimport os, socket\none, other = socket.socketpair()\none.send(b\"x\")\n\
        one.sendmsg([b\"x\"])\nother.recv(9)\nfor name in (\"socket\", b\"\\0own\" + str(os.getpid()).encode(), \"{}/socket\"):\n    \
        a = socket.socket(socket.AF_UNIX)\n    a.bind(name)\n    a.listen()\n    b = socket.socket(socket.AF_UNIX)\n    b.connect(name)\n\
        a = socket.socket(socket.AF_INET)\na.bind((\"127.0.0.1\", 0))'";
    let (ended, seen) = bench.observe(script);
    assert!(ended.status.success(), "{}", ended.output);
    assert!(seen.peers.is_empty(), "{:?}", seen.peers);
}

/// It may be there when a later run looks for it.
#[test]
fn a_socket_that_is_missing_is_looked_for() {
    let bench = Bench::new();
    let path = bench.path("socket");
    let (ended, seen) = bench.observe(&client("AF_UNIX", &format!("\"{}\"", path.display())));
    assert!(!ended.status.success() && seen.peers.is_empty());
    assert!(seen.looked_at[&path].is_nothing());
}

/// Programs read the files in its place, as where it does not run.
#[test]
fn the_service_of_names_is_not_asked() {
    let bench = Bench::new();
    let (_, seen) = bench.observe(&client("AF_UNIX", "\"/var/run/nscd/socket\""));
    assert!(seen.peers.is_empty() && seen.incomplete.is_none());
    let (ended, seen) = bench.observe("id -un; id -gn");
    assert!(ended.status.success() && seen.peers.is_empty(), "{:?}", seen.peers);
    assert!(seen.read.contains_key(std::path::Path::new("/etc/passwd")));
}

#[test]
fn a_written_pipe_is_named() {
    let bench = Bench::new();
    let pipe = bench.path("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).unwrap();
    let reader = {
        let pipe = pipe.clone();
        thread::spawn(move || std::fs::read_to_string(pipe))
    };
    let (_, seen) = bench.observe("echo x > {}/pipe; echo x > /dev/null; echo x > /dev/full");
    assert_eq!(seen.peers.into_iter().collect::<Vec<_>>(), [Peer::File(pipe)]);
    assert_eq!(reader.join().unwrap().unwrap(), "x\n");
    // One between the programs is their own.
    let (_, seen) = bench.observe("mkfifo p; (echo x > p) & cat p; wait");
    assert!(seen.peers.is_empty());
}

/// They reach the memory, the descriptors or the data of other processes, or give a path another meaning.
#[test]
fn ways_to_other_processes_are_refused() {
    let bench = Bench::new();
    compile(
        &bench,
        "#include <errno.h>\n#include <fcntl.h>\n#include <stdio.h>\n#include <sys/syscall.h>\n#include <unistd.h>\n
        int main(void) {
            long calls[] = {SYS_shmget, SYS_msgget, SYS_semget, SYS_mq_open, SYS_keyctl, SYS_process_vm_readv, SYS_ptrace, 438, 321};
            struct { unsigned long flags, mode, resolve; } how = {O_RDONLY, 0, 0x10};
            for (int i = 0; i < 9; ++i) {
                long result = syscall(calls[i], 0, 0, 0, 0, 0, 0);
                if (result != -1 || errno != EPERM) printf(\"%d: %ld %d\\n\", i, result, errno);
            }
            long result = syscall(437, AT_FDCWD, \"/etc/passwd\", &how, sizeof how);
            if (result != -1 || errno != ENOSYS) printf(\"openat2: %ld %d\\n\", result, errno);
            return 0;
        }"
        .replace("321", &libc::SYS_bpf.to_string())
        .as_str(),
    );
    let (ended, seen) = bench.observe("{}/program");
    assert_eq!(ended.output, "");
    assert_eq!(seen.refused, Some(bench.path("program").canonicalize().unwrap()));
}
