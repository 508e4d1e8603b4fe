//! Builds whose remote cache hangs: a real server that is suspended, or a network that is cut.
#![expect(clippy::unwrap_used, reason = "these tests are functions without `#[test]`")]

use std::process::Stdio;

use libtest_mimic::{Failed, Trial};
use opkeep_testkit::proxy::{Fault, FaultKind, Proxy, ProxySettings};
use opkeep_testkit::servers::{Server, ServerKind, trial};
use serde_json::Value;

use crate::common::{Place, Ran, SQUARE};

const NETWORK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/networks/lenet/model.onnx");
/// The time in milliseconds after which an engine that sends nothing is given up.
const IDLE: f64 = 2000.0;

pub(crate) fn trials() -> Vec<Trial> {
    let redis = ServerKind::redis;
    vec![
        trial("remote/hung/from the start", redis(), from_the_start),
        trial("remote/hung/at any moment of a build", redis(), at_any_moment),
        trial("remote/hung/a warm build", redis(), warm),
        trial("remote/hung/several builds of one host", redis(), at_once),
    ]
}

fn build(place: &Place, remote: &str) -> Value {
    place
        .run(&["build", NETWORK, "--target", "cpu", "--remote", remote, "--format", "json"])
        .ended_with(0)
        .json()
}

fn lost(ran: &Value) -> f64 {
    ran["lost"]["remote_ms"].as_f64().unwrap()
}

/// One call fails, and the warning has the same time as the last line.
fn from_the_start(server: Server) -> Result<(), Failed> {
    server.suspend()?;
    let ran = build(&Place::new(), &server.url());
    assert_eq!(
        (&ran["remote"]["failed_calls"], &ran["remote"]["unsent"]),
        (&1.into(), &ran["compiled"]),
        "{ran}"
    );
    assert!((IDLE..IDLE * 1.5).contains(&lost(&ran)), "{ran}");
    let text = Place::new().run(&["build", NETWORK, "--target", "cpu", "--remote", &server.url()]);
    text.ended_with(0).says("sent nothing for 2.0 s; building without it").prints("waited 2.");
    server.resume()?;
    Ok(())
}

/// Whatever the server was doing, no build loses more than the time after which it is given up.
fn at_any_moment(server: Server) -> Result<(), Failed> {
    let proxy = Proxy::start(server.address())?;
    let run = |fault: Option<u64>| {
        let settings = fault
            .map(|at| ProxySettings::with_fault(Fault::after(at, FaultKind::Silence).in_each_connection()));
        proxy.set(settings.unwrap_or_default()).unwrap();
        // Each build has a part of the server for itself, and makes the same calls.
        let url = format!("{}?prefix=at{}", server.url_at(proxy.address()), fault.unwrap_or_default());
        build(&Place::new(), &url)
    };
    let whole = run(None);
    assert_eq!(whole["remote"]["failed_calls"], 0, "{whole}");
    let counts = proxy.counts();
    let bytes = (counts.bytes_to_server + counts.bytes_to_client) / counts.connections.max(1);
    for part in 1..5 {
        let ran = run(Some(bytes * part / 5));
        assert!(lost(&ran) < IDLE * 1.5, "after {part} fifths: {ran}");
        assert_eq!(ran["failed"], 0, "{ran}");
    }
    Ok(())
}

fn warm(server: Server) -> Result<(), Failed> {
    let (proxy, place) = (Proxy::start(server.address())?, Place::new());
    let url = server.url_at(proxy.address());
    let silent = || proxy.set(ProxySettings { is_silent: true, ..ProxySettings::default() });
    build(&place, &url);
    // With nothing to send, there is no call.
    silent()?;
    let connections = proxy.counts().connections;
    let ran = build(&place, &url);
    assert_eq!((lost(&ran), proxy.counts().connections), (0.0, connections), "{ran}");
    // With something to send, it waits for a moment, and reports that nothing was sent.
    let other = Place::new();
    let left = build(&other, &url)["remote"]["unsent"].clone();
    assert!(left.as_u64() > Some(0), "{left}");
    let ran = build(&other, &url);
    assert_eq!((&ran["remote"]["unsent"], &ran["compiled"]), (&left, &0.into()), "{ran}");
    assert!(lost(&ran) < IDLE, "{ran}");
    let warnings = ran["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 1, "{ran}");
    assert!(warnings[0].as_str().unwrap().contains(&format!("{left} kernels are not sent")), "{ran}");
    // It is sent as soon as that is possible.
    proxy.set(ProxySettings::default())?;
    let ran: Ran = other.run(&["build", SQUARE, "--target", "cpu", "--remote", &url, "--format", "json"]);
    assert_eq!(ran.ended_with(0).json()["remote"]["unsent"], 0);
    Ok(())
}

/// The builds that wait for the one whose turn it is to fetch learn from it that the engine hangs.
fn at_once(server: Server) -> Result<(), Failed> {
    const BUILDS: usize = 4;
    let (proxy, place) = (Proxy::start(server.address())?, Place::new());
    server.suspend()?;
    let url = server.url_at(proxy.address());
    let args = ["build", NETWORK, "--target", "cpu", "--remote", &url, "--format", "json"];
    let start = |_| place.command(&args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let builds: Vec<_> = (0..BUILDS).map(start).collect();
    let mut failed_calls = 0;
    for build in builds {
        let output = build.wait_with_output()?;
        let ran: Value = serde_json::from_slice(&output.stdout)?;
        assert_eq!((output.status.code(), &ran["failed"]), (Some(0), &0.into()), "{ran}");
        failed_calls += ran["remote"]["failed_calls"].as_u64().unwrap();
    }
    // One that begins after the first one has given the engine up calls it as well.
    assert!((1..BUILDS as u64).contains(&failed_calls), "{failed_calls}");
    assert!((1..BUILDS as u64).contains(&proxy.counts().connections), "{:?}", proxy.counts());
    server.resume()?;
    Ok(())
}
