//! Listings of the bucket.

use opkeep_cache::{ListedObject, Listing, ObjectName, RemoteContext, RemoteError};

use super::engine::{Call, Outcome, S3Engine};
use super::sign::encoded;
use super::time::Timestamp;
use super::xml;

/// The number of objects in a part, which is the most that a server gives.
const PART: usize = 1000;
const ROOT: &str = "ListBucketResult";

impl S3Engine {
    pub(super) fn list_part(
        &self,
        prefix: &str,
        cursor: &str,
        context: &RemoteContext<'_>,
    ) -> Result<Listing, RemoteError> {
        let own = &self.place.prefix;
        let after = match cursor {
            "" => String::new(),
            cursor => format!("continuation-token={}&", encoded(cursor)),
        };
        let query =
            format!("{after}list-type=2&max-keys={PART}&prefix={}", encoded(&format!("{own}{prefix}")));
        let call = Call { query: &query, ..Call::new("GET", self.place.bucket().to_owned()) };
        match self.call(&call, context)? {
            Outcome::Success(answer) => {
                // The server's clock, which set the times of the objects.
                let now = answer.header("date").and_then(Timestamp::from_http);
                parse(&answer.body, own, prefix, now).map_err(|reason| RemoteError::Invalid { reason })
            }
            Outcome::Failure { error, .. } => Err(error.into()),
        }
    }
}

/// An object of the document, so far.
#[derive(Default)]
struct Item {
    key: String,
    bytes: Option<u64>,
    modified: Option<Timestamp>,
}

/// Parses a listing of keys that begin with `own`. Keys of other programs, which are no names, are left out.
fn parse(document: &[u8], own: &str, prefix: &str, now: Option<Timestamp>) -> Result<Listing, String> {
    let (mut item, mut listing) = (Item::default(), Listing::default());
    let (mut is_listing, mut is_truncated, mut next, mut problem) = (false, false, None, None);
    let read = xml::read(document, |path, text| {
        let path: Vec<_> = path.iter().map(String::as_str).collect();
        match path.as_slice() {
            [ROOT] => is_listing = true,
            [ROOT, "IsTruncated"] => is_truncated = text == "true",
            [ROOT, "NextContinuationToken"] => next = Some(text.to_owned()).filter(|next| !next.is_empty()),
            [ROOT, "Contents", "Key"] => item.key = text.to_owned(),
            [ROOT, "Contents", "Size"] => item.bytes = text.parse().ok(),
            [ROOT, "Contents", "LastModified"] => item.modified = Timestamp::from_listing(text),
            [ROOT, "Contents"] => match listed(std::mem::take(&mut item), own, prefix, now) {
                Ok(object) => listing.objects.extend(object),
                Err(reason) => problem = Some(reason),
            },
            _ => {}
        }
    });
    read.map_err(|reason| format!("a listing that is no XML: {reason}"))?;
    if !is_listing {
        return Err(format!("a listing without `{ROOT}`"));
    }
    if is_truncated && next.is_none() {
        return Err("a listing that is truncated, and does not say where it goes on".to_owned());
    }
    listing.next = next.filter(|_| is_truncated);
    problem.map_or(Ok(listing), Err)
}

fn listed(
    item: Item,
    own: &str,
    prefix: &str,
    now: Option<Timestamp>,
) -> Result<Option<ListedObject>, String> {
    let name = item.key.strip_prefix(own).filter(|name| name.starts_with(prefix));
    let Some(name) = name.and_then(|name| ObjectName::new(name).ok()) else { return Ok(None) };
    let bytes = item.bytes.ok_or_else(|| format!("a listing has no size for `{name}`"))?;
    let idle = now.zip(item.modified).map(|(now, modified)| now.since(modified));
    Ok(Some(ListedObject::new(name, bytes, idle)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn document(contents: &str, rest: &str) -> String {
        format!(
            "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3\">{rest}{contents}</ListBucketResult>"
        )
    }

    fn contents(key: &str) -> String {
        format!(
            "<Contents><Key>{key}</Key><LastModified>2026-11-27T15:57:41.000Z</LastModified><Size>7</Size></Contents>"
        )
    }

    fn parsed(text: &str) -> Result<Listing, String> {
        parse(text.as_bytes(), "own/", "v1/", Timestamp::from_http("Fri, 27 Nov 2026 15:58:00 GMT"))
    }

    #[test]
    fn own_objects_are_listed() {
        let keys =
            ["own/v1/a", "own/v2/b", "other/v1/c", "own/v1/%20", "own/v1/a&amp;b", "own/v1/"].map(contents);
        let text = document(
            &keys.concat(),
            "<IsTruncated>true</IsTruncated><NextContinuationToken>x=</NextContinuationToken>",
        );
        let object = ListedObject::new(ObjectName::new("v1/a").unwrap(), 7, Some(Duration::from_secs(19)));
        assert_eq!(parsed(&text), Ok(Listing::new(vec![object], Some("x=".to_owned()))));
        assert_eq!(parsed(&document("", "<IsTruncated>false</IsTruncated>")), Ok(Listing::default()));
    }

    #[test]
    fn other_documents_are_errors() {
        for text in [
            String::new(),
            "<html></html>".to_owned(),
            "<ListBucketResult>".to_owned(),
            document("", "<IsTruncated>true</IsTruncated>"),
            document("<Contents><Key>own/v1/a</Key><Size>-1</Size></Contents>", ""),
        ] {
            assert!(parsed(&text).is_err(), "{text}");
        }
    }
}
