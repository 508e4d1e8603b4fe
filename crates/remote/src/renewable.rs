//! Credentials that are read when they are first needed, and again when a server has refused them. What a server says is shown without
//! them, and without those that were in use before: it may name an old token long after it took the next one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use opkeep_cache::RemoteError;
use opkeep_cache::fs::without_fork;

/// The number of earlier credentials that are remembered. A token that was replaced so often has expired.
const MAX_EARLIER: usize = 16;

/// Reads credentials. The error states what is missing, and has no part of them.
type Read<T> = dyn Fn() -> Result<T, String> + Send + Sync;

/// Credentials that a client sends.
pub(crate) trait Secrets {
    /// Returns the texts that no output may have.
    fn secrets(&self) -> impl Iterator<Item = &str>;
}

/// The credentials that are in use.
pub(crate) struct Renewable<T> {
    read: Box<Read<T>>,
    known: Mutex<Known<T>>,
}

struct Known<T> {
    current: Option<Arc<T>>,
    earlier: VecDeque<Arc<T>>,
}

impl<T: PartialEq + Secrets> Renewable<T> {
    pub(crate) fn new(read: impl Fn() -> Result<T, String> + Send + Sync + 'static) -> Self {
        let known = Known { current: None, earlier: VecDeque::new() };
        Self { read: Box::new(read), known: Mutex::new(known) }
    }

    /// Returns the credentials.
    pub(crate) fn get(&self) -> Result<Arc<T>, RemoteError> {
        self.with_known(|known| known.current.clone()).map_or_else(|| self.read(), Ok)
    }

    /// Returns the credentials after the server has refused `refused`. `None`: there are no others.
    pub(crate) fn renew(&self, refused: &T) -> Result<Option<Arc<T>>, RemoteError> {
        let is_other = |credentials: &Arc<T>| **credentials != *refused;
        // Another call may have read them meanwhile.
        match self.with_known(|known| known.current.clone()).filter(is_other) {
            Some(credentials) => Ok(Some(credentials)),
            None => Ok(Some(self.read()?).filter(is_other)),
        }
    }

    /// Replaces the secrets of all credentials that were in use in a text of the server's.
    pub(crate) fn redacted(&self, text: &str) -> String {
        let all: Vec<_> =
            self.with_known(|known| known.earlier.iter().chain(&known.current).cloned().collect());
        redacted(text, all.iter().flat_map(|credentials| credentials.secrets()))
    }

    fn read(&self) -> Result<Arc<T>, RemoteError> {
        let credentials = (self.read)().map_err(|reason| RemoteError::Refused { reason })?;
        let credentials = Arc::new(credentials);
        let dropped = self.with_known(|known| known.replace(Arc::clone(&credentials)));
        drop(dropped);
        Ok(credentials)
    }

    fn with_known<A>(&self, change: impl FnOnce(&mut Known<T>) -> A) -> A {
        without_fork(|| change(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl<T: PartialEq> Known<T> {
    /// Sets the current credentials. Returns those that are not remembered any longer.
    fn replace(&mut self, credentials: Arc<T>) -> Option<Arc<T>> {
        let before = self.current.replace(Arc::clone(&credentials)).filter(|before| **before != *credentials);
        self.earlier.extend(before);
        if self.earlier.len() > MAX_EARLIER { self.earlier.pop_front() } else { None }
    }
}

const MASK: &str = "***";
/// The length from which a secret is replaced inside a word as well.
const MIN_LENGTH_INSIDE_WORDS: usize = 4;

/// Replaces secrets in a text that is shown, and not interpreted any more. The longest come first, since one may be a part of another. A
/// text that quotes the server's bytes has them with escapes. A short secret is replaced only where it is a whole word: any word may
/// contain its letters, and what is left of the word would say which they are.
pub(crate) fn redacted<'a>(text: &str, secrets: impl Iterator<Item = &'a str>) -> String {
    let escaped = |secret: &str| secret.replace('\\', "\\\\").replace('"', "\\\"");
    let mut secrets: Vec<_> = secrets.flat_map(|secret| [secret.to_owned(), escaped(secret)]).collect();
    secrets.retain(|secret| !secret.is_empty());
    opkeep_order::by(&mut secrets, |one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
    secrets.dedup();
    secrets.iter().fold(text.to_owned(), |text, secret| match secret.len() < MIN_LENGTH_INSIDE_WORDS {
        true => without_word(&text, secret),
        false => text.replace(secret, MASK),
    })
}

/// Replaces a word. A mask ends a word, as a space does.
fn without_word(text: &str, word: &str) -> String {
    let is_part =
        |symbol: Option<char>| symbol.is_some_and(|symbol| symbol.is_alphanumeric() || symbol == '_');
    let (mut replaced, mut copied) = (String::with_capacity(text.len()), 0);
    for (at, found) in text.match_indices(word) {
        let end = at + found.len();
        if !is_part(text[..at].chars().next_back()) && !is_part(text[end..].chars().next()) {
            replaced.push_str(&text[copied..at]);
            replaced.push_str(MASK);
            copied = end;
        }
    }
    replaced.push_str(&text[copied..]);
    replaced
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    struct Token(String);

    impl Secrets for Token {
        fn secrets(&self) -> impl Iterator<Item = &str> {
            [self.0.as_str()].into_iter()
        }
    }

    impl PartialEq for Token {
        fn eq(&self, other: &Self) -> bool {
            self.0 == other.0
        }
    }

    /// Tokens of different lengths, such as `token1` and `token10`.
    fn tokens() -> Renewable<Token> {
        let number = AtomicUsize::new(0);
        Renewable::new(move || Ok(Token(format!("token{}", number.fetch_add(1, Ordering::SeqCst)))))
    }

    #[test]
    fn earlier_credentials_are_removed_from_texts_as_well() {
        let tokens = tokens();
        assert_eq!(tokens.redacted("token0"), "token0", "nothing is known yet");
        let mut current = tokens.get().unwrap();
        for number in 1..=MAX_EARLIER {
            current = tokens.renew(&current).unwrap().unwrap();
            let said = |number| format!("`token{number}` has expired");
            assert!((0..=number).all(|known| tokens.redacted(&said(known)) == "`***` has expired"));
        }
        // So many are remembered, and no more.
        tokens.renew(&current).unwrap().unwrap();
        assert_eq!(tokens.redacted("token0 token2"), "token0 ***");
    }

    #[test]
    fn credentials_that_stay_the_same_are_remembered_once() {
        let tokens = Renewable::new(|| Ok(Token("token".to_owned())));
        let current = tokens.get().unwrap();
        for _ in 0..=MAX_EARLIER {
            assert!(tokens.renew(&current).unwrap().is_none());
        }
        assert_eq!(tokens.with_known(|known| known.earlier.len()), 0);
    }

    #[test]
    fn a_secret_that_is_a_part_of_another_leaves_nothing_of_it() {
        assert_eq!(
            redacted("long: abcdef, short: abc", ["abc", "", "abcdef"].into_iter()),
            "long: ***, short: ***"
        );
        assert_eq!(
            redacted("long: abcdefg, short: bcde", ["bcde", "abcdefg"].into_iter()),
            "long: ***, short: ***"
        );
        let secret = r#"a"b\c"#;
        assert_eq!(redacted(&format!("{secret} {secret:?}"), [secret].into_iter()), r#"*** "***""#);
    }

    #[test]
    fn a_short_secret_is_replaced_as_a_whole_word() {
        let short = |text: &str| redacted(text, ["x", "y", "a-b", "é"].into_iter());
        assert_eq!(short("NoSuchKey: xylophone xx x_y"), "NoSuchKey: xylophone xx x_y");
        assert_eq!(short("x"), "***");
        assert_eq!(short("the key `x`, with y: a-b.x=y é"), "the key `***`, with ***: ***.***=*** ***");
        assert_eq!(redacted("NoSuchKeyword", ["Keyw"].into_iter()), "NoSuch***ord");
    }
}
