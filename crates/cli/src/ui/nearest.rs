//! Names that a misspelt one may mean.

/// Returns the known name that differs least, ignoring case; none, if all names differ in more than a third of their
/// letters.
pub(crate) fn nearest_name<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let plain = |name: &str| name.to_ascii_lowercase().replace(['-', '.'], "_");
    let name = plain(name);
    let distance = |known: &&&str| strsim::damerau_levenshtein(&name, &plain(known));
    let nearest = known.iter().min_by_key(distance)?;
    (distance(&nearest) <= name.chars().count().max(nearest.len()) / 3).then_some(*nearest)
}
