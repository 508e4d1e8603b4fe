//! Number tokens.

/// Whether a token is a whole number of any size.
pub(crate) fn is_whole(token: &str) -> bool {
    !token.contains(['.', 'e', 'E'])
}

/// A whole number: signed if it fits, otherwise unsigned.
pub(crate) fn whole(token: &str) -> Option<Result<i64, u64>> {
    token.parse().map(Ok).or_else(|_| token.parse().map(Err)).ok()
}
