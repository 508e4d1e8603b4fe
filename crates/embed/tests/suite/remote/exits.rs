//! Programs that exit without closing their caches.

use super::*;

/// A program that exits waits for what others wait for, and not for what earlier programs left.
#[test]
fn an_exit_sends_only_what_its_process_published() {
    let (remote, host) = (FakeRemote::new(), Host::new());
    remote.set_faults(RemoteFaults { is_gone: true, ..RemoteFaults::default() });
    let (earlier, files) = host.open(&remote);
    assert!(files.publish(&key(1), &group()).unwrap());
    assert_eq!(earlier.close(), 1);
    remote.set_faults(RemoteFaults::default());
    let (cache, files) = host.open(&remote);
    assert!(ticket(request(&files, 2)).publish(&group()).unwrap());
    assert_eq!(cache.finish_own_uploads(SOON, None), 0);
    let sent = |number: u8| Host::new().open(&remote).1.get(&key(number)).unwrap().is_some();
    assert_eq!((sent(1), sent(2)), (false, true));
    assert_eq!((cache.close(), sent(1)), (0, true));
}
