//! How often the server is asked.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use opkeep_cache::{ClaimTerms, ObjectName, RemoteError, RemoteObject};
use opkeep_testkit::proxy::{Proxy, ProxySettings};
use opkeep_testkit::servers::{Server, ServerKind, trial};

use super::time::HOUR;
use super::{client, name, send};
use crate::contract::{content, get, lease, limits, token};

pub(super) fn trials() -> Vec<Trial> {
    let redis = ServerKind::redis;
    vec![
        trial("redis/batches/a call for many keys is one round trip", redis(), round_trips),
        trial("redis/batches/objects are requested in parts that fit in memory", redis(), parts),
        trial("redis/batches/an object that is too large is not sent", redis(), too_large),
        trial("redis/batches/connections are kept", redis(), connections),
        trial("redis/batches/a listing is no use of an object", redis(), idle),
    ]
}

fn round_trips(server: Server) -> Result<(), Failed> {
    let proxy = Proxy::start(server.address())?;
    let engine = client(&server.url_at(proxy.address()));
    let names: Vec<_> = (0..148).map(|number| name(&format!("e/{number}"))).collect();
    let bytes = content(15 << 10, 1);
    let objects: Vec<_> = names.iter().map(|name| RemoteObject::new(name, &bytes)).collect();
    let leases: Vec<_> = (0..148).map(|number| name(&format!("l/{number}"))).collect();
    // Nothing is sent before the first call.
    assert_eq!(proxy.counts().connections, 0);
    // No answer begins before its request has ended, which would count twice.
    proxy.set(ProxySettings { delay_to_client: Duration::from_millis(300), ..ProxySettings::default() })?;
    let terms = ClaimTerms::new(148, HOUR);
    let calls: [(&str, &dyn Fn()); 6] = [
        ("claim", &|| drop(engine.claim(&leases, &lease(1, 0), terms, &limits()).unwrap())),
        ("renew", &|| drop(engine.renew(&leases, &lease(1, 1), HOUR, &limits()).unwrap())),
        ("release", &|| engine.release(&leases, &token(1), &limits()).unwrap()),
        ("progress", &|| assert_eq!(engine.progress(&leases[0], &limits()), Ok(Some(0)))),
        ("advance", &|| engine.advance(&leases[0], 1, HOUR, &limits()).unwrap()),
        ("put_if_absent", &|| drop(engine.put_if_absent(&objects[..16], &limits()).unwrap())),
    ];
    for (call, make) in calls {
        let before = proxy.counts().round_trips;
        make();
        assert_eq!(proxy.counts().round_trips - before, 1, "{call}");
    }
    engine.replace(&objects, &limits()).unwrap();
    send(&server, "CONFIG RESETSTAT");
    assert!(get(&*engine, &names).unwrap().iter().all(|found| found.as_ref() == Some(&bytes)));
    assert!(send(&server, "INFO commandstats").contains("cmdstat_mget:calls=1,"));
    Ok(())
}

/// After the first part has shown how large the objects are, later parts have fewer.
fn parts(server: Server) -> Result<(), Failed> {
    let engine = client(&server.url());
    let names: Vec<_> = (0..560).map(|number| name(&format!("e/{number}"))).collect();
    let bytes = content(1 << 20, 1);
    for names in [&names[..4], &names[512..]] {
        let objects: Vec<_> = names.iter().map(|name| RemoteObject::new(name, &bytes)).collect();
        engine.replace(&objects, &limits()).unwrap();
    }
    // Nearly all of the first part are absent: only what was found shows the sizes.
    let (mut count, mut most) = (0, 0);
    engine
        .get_many(&names, &limits(), &mut |index, content| {
            assert!(content == bytes, "{index}");
            count += 1;
            most = most.max(index);
        })
        .unwrap();
    assert_eq!((count, most), (52, 559));
    let stats = send(&server, "INFO commandstats");
    assert!(stats.contains("cmdstat_mget:calls=3,"), "{stats}");
    Ok(())
}

fn too_large(server: Server) -> Result<(), Failed> {
    let engine = client(&server.url());
    // The pages of these zeros are never touched.
    let bytes = vec![0; (512 << 20) + 1];
    let names = [name("a"), name("b")];
    let objects = [RemoteObject::new(&names[0], b"1"), RemoteObject::new(&names[1], &bytes)];
    assert!(matches!(engine.replace(&objects, &limits()), Err(RemoteError::Refused { .. })));
    assert!(matches!(engine.put_if_absent(&objects, &limits()), Err(RemoteError::Refused { .. })));
    assert_eq!(get(&*engine, &names), Ok(vec![None, None]));
    Ok(())
}

fn connections(server: Server) -> Result<(), Failed> {
    let engine = client(&server.url());
    let all = Barrier::new(32);
    thread::scope(|scope| {
        for number in 0..32 {
            let (engine, all) = (&engine, &all);
            scope.spawn(move || {
                let names: Vec<ObjectName> = vec![name(&format!("{number}"))];
                all.wait();
                // A claim on the way of each thread keeps its connection busy for a moment.
                let terms = ClaimTerms::new(1, HOUR);
                engine.claim(&names, &lease(number, 0), terms, &limits()).unwrap();
            });
        }
    });
    // As many as there were calls at once; further calls take these.
    let clients = || send(&server, "CLIENT LIST").matches("cmd=eval").count();
    let kept = clients();
    assert!((1..=32).contains(&kept), "{kept}");
    for _ in 0..40 {
        engine.claim(&[name("a")], &lease(0, 0), ClaimTerms::new(1, HOUR), &limits()).unwrap();
    }
    assert_eq!(clients(), kept);
    Ok(())
}

/// What evicts or collects by the time of the last use must not be misled by who looks.
fn idle(server: Server) -> Result<(), Failed> {
    let engine = client(&server.url());
    engine.replace(&[RemoteObject::new(&name("a"), b"1")], &limits()).unwrap();
    let began = Instant::now();
    loop {
        let listing = engine.list("", "", &limits()).unwrap();
        assert_eq!(listing.objects.len(), 1);
        // If a listing were a use, it would never be more than 1, for the clock may tick between two of them.
        if listing.objects[0].idle.is_some_and(|idle| idle.as_secs() >= 2) {
            return Ok(());
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{listing:?}");
        thread::sleep(Duration::from_millis(20));
    }
}
