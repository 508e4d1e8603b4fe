//! The tests of the table.

use super::*;

const TTL: Duration = Duration::from_secs(30);

fn keys() -> [Digest; 3] {
    [b"a", b"b", b"c"].map(|name| Digest::of(name))
}

fn value(holder: u8) -> LeaseValue {
    LeaseValue::new(LeaseToken::new([holder; 16]), 0)
}

/// Ends a call that the engine answered as a whole.
fn end<E>(table: &mut LeaseTable<E>, batch: &LeaseBatch, now: Instant) -> bool {
    let had_news = table.answered(batch, now);
    batch.asked_keys().for_each(|key| table.end_asking(key));
    had_news
}

#[test]
fn a_look_asks_for_all_missing_keys_of_the_plan_unless_it_was_made_just_now() {
    let (mut table, now, [a, b, c]) = (LeaseTable::<()>::new(TTL), Instant::now(), keys());
    table.plan(&[a, b], &[]);
    let mut asked = table.look(&c, now).unwrap();
    asked.sort_unstable();
    let mut all = keys().to_vec();
    all.sort_unstable();
    assert_eq!(asked, all);
    let batch = table.batch(asked, true, true, now);
    assert!(!end(&mut table, &batch, now), "no host has a lease, as before");
    assert_eq!(table.look(&a, now + FRESH / 2), None);
    assert_eq!(table.look(&a, now + FRESH).map(|keys| keys.len()), Some(2));
    // Another host claims at the same time: what seemed to be free may not be any more.
    table.note_held(&c, [now; 2], 0, Some(value(1)));
    let mut asked = table.look(&a, now + FRESH / 2).unwrap();
    asked.sort_unstable();
    let mut free = vec![a, b];
    free.sort_unstable();
    assert_eq!(asked, free);
    table.finished(&b, now);
    assert_eq!(table.look(&a, now + FRESH).map(|keys| keys.contains(&b)), Some(false));
}

#[test]
fn answers_belong_to_the_questions_of_their_key() {
    let (mut table, now, [a, b, c]) = (LeaseTable::<()>::new(TTL), Instant::now(), keys());
    table.plan(&keys(), &[]);
    table.note_held(&b, [now; 2], 0, Some(value(1)));
    let mut batch = table.batch(vec![a, b, c], true, true, now);
    let entry = |key| Question::Entry { key };
    let lease = |key, generation| Question::Lease { key, generation };
    // The holder of the second one is alive, so its next generation is of no interest.
    let expected =
        [entry(0), lease(0, 0), lease(0, 1), entry(1), lease(1, 0), entry(2), lease(2, 0), lease(2, 1)];
    assert_eq!(batch.questions(), expected);
    batch.found_lease(4, value(1).to_string().as_bytes());
    batch.found_lease(7, value(2).to_string().as_bytes());
    assert!(end(&mut table, &batch, now));
    let first = LeaseStep::Claim { generation: 0 };
    assert_eq!([a, b, c].map(|key| table.step(&key)), [first, LeaseStep::Wait, LeaseStep::Wait]);
    assert_eq!(table.below(&c, 2), [(1, value(2).token)]);
}

#[test]
fn a_wait_ends_with_the_entry() {
    let (mut table, now, [a, b, _]) = (LeaseTable::new(TTL), Instant::now(), keys());
    assert_eq!(table.next_call(), None);
    table.watch(&a, true, now, 0);
    table.watch(&b, true, now, 0);
    assert_eq!((table.watched().len(), table.next_call().unwrap().1), (2, Poll::Hint));
    table.note_entry(&a, "entry", 5);
    assert_eq!((table.watched(), table.has_news(&a)), (vec![b], true));
    assert_eq!((table.take_entry(&a), table.take_entry(&a)), (Some("entry"), None));
    assert!(
        !table.has_news(&a) && table.is_on_its_way(&a) && !table.begin_asking(&a),
        "its caller judges it"
    );
    table.unwatch(&a, now);
    table.unwatch(&b, now);
    assert_eq!((table.watched().len(), table.next_call()), (0, None));
    table.judged(&a, false);
    table.prune(now);
    assert_eq!(table.rows.iter().count(), 0, "nothing is kept of what no caller needs");
}

/// An entry is in the local store before the thread that stores it can record that.
#[test]
fn what_a_caller_finds_while_it_is_stored_is_fetched_once() {
    let (mut table, now, [a, b, _]) = (LeaseTable::new(TTL), Instant::now(), keys());
    let take = |table: &mut LeaseTable<u8>| {
        table.plan(&[a, b], &[a, b]);
        table.note_entry(&a, 7, 1);
        assert_eq!(table.take_arrival(), Some((a, 7)));
    };
    take(&mut table);
    table.judged_used(&a);
    assert_eq!(table.take_stored(&a), None, "the store may not have it yet");
    assert!(table.take_found(&a));
    assert!(!table.take_found(&a), "it says so once");
    table.judged(&a, true);
    assert_eq!((table.take_stored(&a), table.take_found(&a)), (None, false));
    // Before this one is accepted, what the store has is another process's.
    take(&mut table);
    assert!(!table.take_found(&a) && table.is_judged(&a));
    table.judged(&a, true);
    assert!(table.take_found(&a));
    // What another process has stored is not fetched.
    table.note_stored(&[b]);
    assert!(!table.take_found(&b));
    assert_eq!(table.take_stored(&b), None);
    table.finished(&a, now);
}

/// A build looks into the local store before it makes its plan, and another caller may store an entry in between.
#[test]
fn what_is_stored_before_a_plan_is_made_is_not_missing() {
    let (mut table, now, [a, b, c]) = (LeaseTable::<u8>::new(TTL), Instant::now(), keys());
    table.plan(&[a, b, c], &[]);
    table.note_found(&a, true, now);
    table.note_found(&b, true, now);
    assert_eq!([a, b, c].map(|key| table.is_finished(&key)), [true, true, false]);
    table.plan(&[a, b, c], &[b]);
    assert_eq!(table.take_stored(&a), Some(true));
    assert!(![b, c].iter().any(|key| table.is_finished(key)));
    assert!([b, c].iter().all(|key| table.look(key, now).is_some_and(|keys| keys.contains(key))));
}

/// The index is right after each change: what it says is what a visit of all rows finds.
#[test]
fn the_index_follows_each_change() {
    let began = Instant::now();
    let keys: Vec<_> = (0_u8..6).map(|number| Digest::of(&[number])).collect();
    let mut random = 7_u64;
    let mut next = |bound: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % bound
    };
    let mut table = LeaseTable::<u64>::new(TTL);
    for step in 0..20_000 {
        let (key, now) = (keys[next(6) as usize], began + Duration::from_millis(step * 7));
        match next(16) {
            0 => table.plan(&keys[..next(6) as usize], &keys[..next(6) as usize]),
            1 => drop(table.look(&key, now)),
            2 => {
                let mut batch = table.batch(vec![key], true, true, now);
                batch.dropped_entry(next(2) as usize);
                end(&mut table, &batch, now);
            }
            3 => table.note_entry(&key, step, step),
            4 => table.note_own_entry(&key, step, step, now),
            5 => drop(table.take_entry(&key)),
            6 => drop(table.take_arrival()),
            7 => table.judged(&key, next(2) == 0),
            8 => table.put_back(&key, step, step),
            9 => drop(table.take_stored(&key)),
            10 => table.watch(&key, true, now, step),
            11 if table.is_watched(&key) => table.unwatch(&key, now),
            12 => table.finished(&key, now),
            13 => table.note_held(&key, [now; 2], next(3), Some(value(next(3) as u8))),
            14 => drop(table.begin_asking(&key)),
            15 => table.end_asking(&key),
            _ => table.prune(now),
        }
        table.rows.check();
    }
}

/// Operations on one key do not visit all rows: each of these would take minutes for so many keys.
#[test]
fn many_keys_are_begun_and_finished_without_a_visit_of_all() {
    let (mut table, now) = (LeaseTable::new(TTL), Instant::now());
    let keys: Vec<_> = (0_u32..60_000).map(|number| Digest::of(&number.to_le_bytes())).collect();
    table.plan(&keys, &[]);
    let batch = table.batch(keys.clone(), true, true, now);
    keys.iter().for_each(|key| table.note_entry(key, (), 3));
    end(&mut table, &batch, now);
    assert_eq!((table.arrived_bytes(), table.unclaimed_bytes()), (180_000, 180_000));
    while let Some((key, ())) = table.take_arrival() {
        table.judged(&key, true);
    }
    for key in &keys {
        table.watch(key, true, now, 0);
        assert!(table.take_found(key));
        table.note_held(key, [now; 2], 0, Some(value(1)));
        table.unwatch(key, now);
        table.finished(key, now);
    }
    assert_eq!((table.arrived_bytes(), table.next_call(), table.rows.iter().count()), (0, None, 0));
}
