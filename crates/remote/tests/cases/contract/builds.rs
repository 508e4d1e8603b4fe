//! What a host leaves in an engine when it has ended.

use std::time::{Duration, Instant};

use opkeep_cache::{
    Accept, Cache, CacheConfig, Claim, Digest, Entry, EntryBuilder, Query, RemoteConfig, StoreConfig,
};

use super::Needs::Listing;
use super::listing::list;
use super::{Case, Cases};

pub(super) const CASES: Cases =
    &[("a build of a plan leaves entries, a bundle and no lease", Listing, no_lease_is_left)];

/// The number of entries from which a plan has a bundle.
const COUNT: usize = 16;

fn no_lease_is_left(case: &Case) {
    let directory = tempfile::tempdir().unwrap();
    let mut config = CacheConfig::new(StoreConfig::new(directory.path()));
    let mut remote = RemoteConfig::new(std::sync::Arc::clone(&case.engine));
    remote.namespace = case.scope.parse().unwrap();
    config.remote = Some(remote);
    config.is_for_others = |_| true;
    let cache = Cache::open(config).unwrap();
    let target = cache.target("cpu-x86_64").unwrap();
    let keys: Vec<_> = (0..COUNT).map(|number| Digest::of(format!("kernel {number}").as_bytes())).collect();
    let accept = |_: &Entry| Accept::Take;
    let query = Query::new(&accept);
    assert_eq!(target.fetch(&keys, &query).missing.len(), COUNT);
    for key in &keys {
        match target.get_or_begin(key, &query).unwrap() {
            Claim::Build(ticket) => {
                assert!(ticket.publish(&EntryBuilder::new(1).eager("object", b"a kernel")).unwrap().remote);
            }
            other => panic!("{other:?}"),
        }
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    assert_eq!(cache.finish_uploads(deadline, None), 0);
    assert_eq!(cache.push_unsent(Some(deadline), None).left, 0);
    let listed = list(case, &format!("v1/{}/", case.scope));
    let count = |kind: &str| listed.keys().filter(|name| name.contains(kind)).count();
    assert_eq!((count("/e/"), count("/b/"), count("/l/")), (COUNT, 1, 0), "{:?}", listed.keys());
}
