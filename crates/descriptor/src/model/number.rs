//! Tokens of numbers.

/// Whether a number's token is that of a whole one, however great.
pub(crate) fn is_whole(token: &str) -> bool {
    !token.contains(['.', 'e', 'E'])
}

/// A whole number as wide as it needs: signed if it fits, unsigned above.
pub(crate) fn whole(token: &str) -> Option<Result<i64, u64>> {
    token.parse().map(Ok).or_else(|_| token.parse().map(Err)).ok()
}
