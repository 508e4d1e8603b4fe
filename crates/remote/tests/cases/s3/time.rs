//! Servers that do not answer.

use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use opkeep_cache::{CancelToken, RemoteContext, RemoteError, RemoteObject};

use super::{capabilities, client, name};
use crate::contract::answers_of_all_calls;

const HOUR: Duration = Duration::from_secs(3600);

pub(super) fn trials() -> Vec<Trial> {
    vec![
        Trial::test("s3/time/a server that never answers", never),
        Trial::test("s3/time/a call that is cancelled while it waits", cancelled),
    ]
}

/// Accepts connections, and neither reads nor writes.
fn black_hole() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || listener.incoming().map(Result::unwrap).collect::<Vec<_>>());
    address
}

fn never() -> Result<(), Failed> {
    let engine = client(&format!("s3://bucket?endpoint=http://{}", black_hole()));
    let names: Vec<_> = (0..20).map(|number| name(&format!("e/{number}"))).collect();
    let began = Instant::now();
    for _ in 0..20 {
        let context = RemoteContext::new(Instant::now() + Duration::from_millis(30), None);
        for (call, answer) in answers_of_all_calls(&*engine, &capabilities(), &names, &context) {
            assert_eq!(answer, Err(RemoteError::TimedOut), "{call}");
        }
        assert_eq!(engine.capabilities(&context), Err(RemoteError::TimedOut));
    }
    assert!(began.elapsed() < Duration::from_secs(60));
    // A request that is larger than what the sockets hold is not sent for ever, either.
    let bytes = vec![7; 64 << 20];
    let context = RemoteContext::new(Instant::now() + Duration::from_secs(2), None);
    let answer = engine.replace(&[RemoteObject::new(&names[0], &bytes)], &context);
    assert_eq!(answer, Err(RemoteError::TimedOut));
    Ok(())
}

fn cancelled() -> Result<(), Failed> {
    let engine = client(&format!("s3://bucket?endpoint=http://{}", black_hole()));
    let names: Vec<_> = (0..20).map(|number| name(&format!("e/{number}"))).collect();
    let cancel = CancelToken::new();
    let context = RemoteContext::new(Instant::now() + HOUR, Some(&cancel));
    let began = Instant::now();
    thread::scope(|scope| {
        let call = scope.spawn(|| {
            let mut found = |_: usize, _: Vec<u8>| panic!("an object");
            let first = engine.get_many(&names, &context, &mut found);
            (first, answers_of_all_calls(&*engine, &capabilities(), &names, &context))
        });
        // The first call waits for its answers by then, on most machines.
        thread::sleep(Duration::from_millis(30));
        cancel.cancel();
        let (first, answers) = call.join().unwrap();
        assert_eq!(first, Err(RemoteError::Cancelled));
        for (call, answer) in answers {
            assert_eq!(answer, Err(RemoteError::Cancelled), "{call}");
        }
    });
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    Ok(())
}
