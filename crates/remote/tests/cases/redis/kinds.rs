//! Servers of another kind than the one that is needed: one of a Redis Cluster, and a Redis Sentinel.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use libtest_mimic::{Failed, Trial};
use opkeep_cache::RemoteError;
use opkeep_testkit::Port;
use opkeep_testkit::servers::{RedisOptions, Server, ServerKind, trial_with};

use super::{capabilities, client, name, send};
use crate::contract::{answers_of_all_calls, get, limits};

const OF_CLUSTER: &str = "one of a Redis Cluster";
const SENTINEL: &str = "A Redis Sentinel stores nothing";

pub(super) fn trials() -> Vec<Trial> {
    vec![
        Trial::test("redis/kinds/answers of a cluster and of a Sentinel have one clear reason", answers),
        Trial::test("redis/kinds/a server of a cluster is asked once", asked_once),
        trial_with(
            "redis/kinds/a real server of a cluster is refused",
            ServerKind::redis().missing(),
            cluster,
        ),
    ]
}

/// A server that answers each request with `answer`, and the number of its requests.
fn server(answer: &'static str) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, requests) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&requests);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let count = Arc::clone(&count);
            thread::spawn(move || {
                let mut buffer = [0; 4096];
                while stream.read(&mut buffer).is_ok_and(|length| length > 0) {
                    count.fetch_add(1, Ordering::SeqCst);
                    if stream.write_all(format!("-{answer}\r\n").as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, requests)
}

fn assert_refused(call: &str, answer: &Result<(), RemoteError>, reason: &str, text: &str) {
    let Err(RemoteError::Refused { reason: found }) = answer else { panic!("{call}, {text}: {answer:?}") };
    assert!(found.contains(reason) && found.contains(text), "{call}: {found}");
}

/// What redis-server 7.0 answers, whatever is asked.
fn answers() -> Result<(), Failed> {
    for (answer, reason) in [
        ("MOVED 3999 127.0.0.1:6381", OF_CLUSTER),
        ("ASK 3999 127.0.0.1:6381", OF_CLUSTER),
        ("CROSSSLOT Keys in request don't hash to the same slot", OF_CLUSTER),
        ("CLUSTERDOWN Hash slot not served", OF_CLUSTER),
        ("ERR SELECT is not allowed in cluster mode", OF_CLUSTER),
        ("ERR unknown command 'MGET', with args beginning with: 'opkeep/a' ", SENTINEL),
    ] {
        let url = format!("redis://{}", server(answer).0);
        let engine = client(&url);
        for (call, result) in
            answers_of_all_calls(&*engine, &capabilities(), &[name("a"), name("b")], &limits())
        {
            assert_refused(call, &result, reason, answer.trim_end());
        }
    }
    Ok(())
}

/// The server has some of the keys, so some calls would succeed.
fn asked_once() -> Result<(), Failed> {
    let (address, requests) = server("MOVED 3999 127.0.0.1:6381");
    let engine = client(&format!("redis://{address}"));
    for _ in 0..3 {
        assert!(get(&*engine, &[name("a")]).is_err());
    }
    assert_eq!(requests.load(Ordering::SeqCst), 1);
    // Another kind of refusal decides nothing: a server may refuse a single command.
    let (address, requests) = server("ERR unknown command 'MEMORY'");
    let engine = client(&format!("redis://{address}"));
    for _ in 0..3 {
        assert!(get(&*engine, &[name("a")]).is_err());
    }
    assert_eq!(requests.load(Ordering::SeqCst), 3);
    Ok(())
}

/// A cluster of one server, which has all keys and takes no call for two of them.
fn cluster() -> Result<(), Failed> {
    let bus = Port::reserve()?;
    let arguments =
        ["--cluster-enabled", "yes", "--cluster-port", &bus.number().to_string()].map(str::to_owned);
    let options = RedisOptions { arguments: arguments.to_vec(), ..RedisOptions::default() };
    let server = Server::start(ServerKind::Redis(options))?;
    for slots in ["", "CLUSTER ADDSLOTSRANGE 0 16383"] {
        send(&server, slots);
        let engine = client(&server.url());
        for _ in 0..2 {
            let answer = get(&*engine, &[name("a"), name("b")]).map(drop);
            assert_refused(
                "get_many",
                &answer,
                OF_CLUSTER,
                if slots.is_empty() { "CLUSTERDOWN" } else { "CROSSSLOT" },
            );
        }
        let answer = get(&*client(&format!("{}/2", server.url())), &[name("a")]).map(drop);
        assert_refused("get_many", &answer, OF_CLUSTER, "SELECT");
    }
    Ok(())
}
