//! Objects: stored as a whole, never changed unless replaced, and reported once.

use opkeep_cache::{PutAnswer, RemoteError, RemoteObject};

use super::Needs::Objects;
use super::{Case, Cases, content, get, limits};

pub(super) const CASES: Cases = &[
    ("its location is a URL without credentials", Objects, location),
    ("it has the capabilities that it should", Objects, capabilities),
    ("nothing is asked, nothing is answered", Objects, nothing),
    ("an absent object is not reported", Objects, absent),
    ("objects of all sizes come back on another host", Objects, sizes),
    ("names are told apart in every byte", Objects, names),
    ("what exists is not stored again", Objects, existing),
    ("an object is stored again in place of an old one", Objects, replaced),
    ("hundreds of objects in one call", Objects, many),
    ("one name twice in a call", Objects, twice),
    ("a removed object is absent", Objects, removed),
];

fn location(case: &Case) {
    let location = case.engine.location();
    assert!(location.contains("://"), "{location}");
    for secret in case.subject.secrets {
        assert!(!location.contains(secret), "{location}");
    }
}

fn capabilities(case: &Case) {
    for _ in 0..2 {
        assert_eq!(case.engine.capabilities(&limits()), Ok(case.subject.capabilities));
    }
}

fn nothing(case: &Case) {
    let engine = &case.engine;
    assert_eq!(case.get(&[]), []);
    assert_eq!(engine.put_if_absent(&[], &limits()), Ok(Vec::new()));
    assert_eq!(engine.replace(&[], &limits()), Ok(()));
    assert!(matches!(engine.remove(&[], &limits()), Ok(()) | Err(RemoteError::Unsupported { .. })));
}

fn absent(case: &Case) {
    assert_eq!(case.get(&case.names(&["a", "b/c"])), [None, None]);
}

fn sizes(case: &Case) {
    let sizes = [0, 1, 2, 100, 4096, 15 * 1024, 65_535, 65_536, 65_537, 1 << 20, 5 << 20];
    let names: Vec<_> = sizes.iter().map(|size| case.name(&format!("of-{size}"))).collect();
    let contents: Vec<_> = sizes.iter().map(|size| content(*size, 7)).collect();
    let objects: Vec<_> =
        names.iter().zip(&contents).map(|(name, content)| RemoteObject::new(name, content)).collect();
    let stored = case.engine.put_if_absent(&objects, &limits()).unwrap();
    assert_eq!(stored, vec![PutAnswer::Stored; sizes.len()]);
    let found = get(&*case.another(), &names).unwrap();
    for ((size, content), found) in sizes.iter().zip(contents).zip(found) {
        assert!(found == Some(content), "the object of {size} bytes");
    }
    // What a line-based protocol might take for its own.
    for (index, text) in
        ["\r\n", "\n", "$5\r\nhello\r\n", "-ERR\r\n", "\0\0", "0", " ", "\u{feff}"].iter().enumerate()
    {
        let name = case.name(&format!("text-{index}"));
        case.put(&name, text.as_bytes());
        assert_eq!(case.get(&[name]), [Some(text.as_bytes().to_vec())], "{text:?}");
    }
}

fn names(case: &Case) {
    let long = format!("{}/{}/{}", "x".repeat(100), "y".repeat(100), "z".repeat(60));
    let texts =
        ["a", "A", "a.b", "a-b", "a_b", "a.", "-a", "_", "...", "a/b", "a/c", "b/a", "0", "00", &long];
    let texts: Vec<_> =
        texts.iter().enumerate().map(|(index, text)| format!("{}/{text}", index / 9)).collect();
    for (index, text) in texts.iter().enumerate() {
        case.put(&case.name(text), &content(20, index as u8));
    }
    let names: Vec<_> = texts.iter().map(|text| case.name(text)).collect();
    for (index, found) in case.get(&names).into_iter().enumerate() {
        assert_eq!(found, Some(content(20, index as u8)), "{}", names[index]);
    }
    assert_eq!(case.get(&case.names(&["0/b", "0/aa", "1/A", "1/a/b/c"])), [None, None, None, None]);
}

fn existing(case: &Case) {
    let names = case.names(&["old", "new"]);
    let put = |contents: [&[u8]; 2]| {
        let objects = [RemoteObject::new(&names[0], contents[0]), RemoteObject::new(&names[1], contents[1])];
        case.engine.put_if_absent(&objects, &limits()).unwrap()
    };
    case.put(&names[0], b"first");
    assert_eq!(put([b"second", b"second"]), [PutAnswer::Existed, PutAnswer::Stored]);
    assert_eq!(put([b"third, which is longer", b""]), [PutAnswer::Existed, PutAnswer::Existed]);
    assert_eq!(case.get(&names), [Some(b"first".to_vec()), Some(b"second".to_vec())]);
}

fn replaced(case: &Case) {
    let names = case.names(&["a", "b"]);
    case.put(&names[0], &content(5000, 1));
    for length in [1, 0, 100_000, 3] {
        let bytes = content(length, 9);
        let objects = [RemoteObject::new(&names[0], &bytes), RemoteObject::new(&names[1], &bytes)];
        case.engine.replace(&objects, &limits()).unwrap();
        assert!(get(&*case.another(), &names).unwrap() == [Some(bytes.clone()), Some(bytes)], "{length}");
    }
}

/// Of 600 objects every third is missing. The number is above what a client would request at once.
fn many(case: &Case) {
    let names: Vec<_> = (0..600).map(|number| case.name(&format!("e/{number:03}"))).collect();
    let contents: Vec<_> = (0..600).map(|number| content(200 + number, number as u8)).collect();
    let is_missing = |index: usize| index % 3 == 1;
    let objects: Vec<_> = (0..600)
        .filter(|index| !is_missing(*index))
        .map(|index| RemoteObject::new(&names[index], &contents[index]))
        .collect();
    let stored = case.engine.put_if_absent(&objects, &limits()).unwrap();
    assert_eq!(stored, vec![PutAnswer::Stored; 400]);
    for (index, found) in case.get(&names).into_iter().enumerate() {
        let expected = (!is_missing(index)).then(|| contents[index].clone());
        assert!(found == expected, "{}", names[index]);
    }
}

fn twice(case: &Case) {
    let [a, b] = [case.name("a"), case.name("b")];
    case.put(&a, b"content");
    let found = Some(b"content".to_vec());
    assert_eq!(case.get(&[a.clone(), b, a]), [found.clone(), None, found]);
}

fn removed(case: &Case) {
    let names = case.names(&["a", "b", "c"]);
    case.put(&names[0], b"1");
    case.put(&names[1], b"2");
    match case.engine.remove(&[names[0].clone(), names[2].clone()], &limits()) {
        Ok(()) => {
            assert_eq!(case.get(&names), [None, Some(b"2".to_vec()), None]);
            let again = [RemoteObject::new(&names[0], b"3")];
            assert_eq!(case.engine.put_if_absent(&again, &limits()), Ok(vec![PutAnswer::Stored]));
            assert_eq!(case.engine.remove(&names, &limits()), Ok(()));
            assert_eq!(case.get(&names), [None, None, None]);
        }
        Err(RemoteError::Unsupported { .. }) => {
            assert_eq!(case.get(&names), [Some(b"1".to_vec()), Some(b"2".to_vec()), None]);
        }
        Err(other) => panic!("{other}"),
    }
}
