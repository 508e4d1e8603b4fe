//! Signatures of requests: AWS Signature Version 4 with headers.
//! <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html>

use opkeep_cache::Digest;

use super::credentials::Keys;
use super::time::Timestamp;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// The block of SHA-256, in bytes.
const BLOCK: usize = 64;

/// A request to sign.
pub(super) struct Signable<'a> {
    pub(super) method: &'a str,
    /// The path, encoded.
    pub(super) path: &'a str,
    /// The parameters, encoded and in order.
    pub(super) query: &'a str,
    /// The headers, in lower case and in order.
    pub(super) headers: &'a [(&'static str, String)],
    /// The digest of the body.
    pub(super) body: &'a str,
}

/// Returns the header `Authorization` of a request at `time`.
pub(super) fn authorization(request: &Signable<'_>, keys: &Keys, region: &str, time: Timestamp) -> String {
    let Signable { method, path, query, headers, body } = request;
    let names: Vec<_> = headers.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let headers: String = headers.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
    let canonical = format!("{method}\n{path}\n{query}\n{headers}\n{names}\n{body}");
    let time = time.compact();
    let day = time.split('T').next().unwrap_or_default();
    let scope = format!("{day}/{region}/s3/aws4_request");
    let text = format!("{ALGORITHM}\n{time}\n{scope}\n{}", Digest::of(canonical.as_bytes()));
    let mut key = format!("AWS4{}", keys.secret.reveal()).into_bytes();
    for part in [day, region, "s3", "aws4_request"] {
        key = hmac(&key, part.as_bytes()).as_bytes().to_vec();
    }
    let signature = hmac(&key, text.as_bytes());
    format!("{ALGORITHM} Credential={}/{scope},SignedHeaders={names},Signature={signature}", keys.access_key)
}

/// HMAC with SHA-256 (RFC 2104).
fn hmac(key: &[u8], message: &[u8]) -> Digest {
    let mut block = [0; BLOCK];
    match block.get_mut(..key.len()) {
        Some(begin) => begin.copy_from_slice(key),
        None => block[..32].copy_from_slice(Digest::of(key).as_bytes()),
    }
    let inner = Digest::of(&[&block.map(|byte| byte ^ 0x36), message].concat());
    Digest::of(&[&block.map(|byte| byte ^ 0x5c)[..], inner.as_bytes()].concat())
}

/// Encodes a parameter: all bytes except `[A-Za-z0-9._~-]` become `%XX`.
pub(super) fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"._~-".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::url::Secret;

    /// RFC 4231, test cases 1, 2 and 6.
    #[test]
    fn hmac_of_the_standard() {
        let is = |key: &[u8], message: &[u8], expected: &str| {
            assert_eq!(hmac(key, message).to_string(), expected);
        };
        is(&[0x0b; 20], b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
        is(
            b"Jefe",
            b"what do ya want for nothing?",
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        );
        is(
            &[0xaa; 131],
            b"Test Using Larger Than Block-Size Key - Hash Key First",
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
        );
    }

    /// The examples of <https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html>.
    #[test]
    fn signatures_of_the_documentation() {
        let keys = Keys {
            access_key: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret: Secret::new("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
            token: None,
        };
        let time = Timestamp::from_listing("2013-05-24T00:00:00Z").unwrap();
        let empty = Digest::of(b"").to_string();
        let headers = [
            ("host", "examplebucket.s3.amazonaws.com".to_owned()),
            ("range", "bytes=0-9".to_owned()),
            ("x-amz-content-sha256", empty.clone()),
            ("x-amz-date", time.compact()),
        ];
        let get = Signable { method: "GET", path: "/test.txt", query: "", headers: &headers, body: &empty };
        assert_eq!(
            authorization(&get, &keys, "us-east-1", time),
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,\
             SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,\
             Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
        );
        let headers = [headers[0].clone(), headers[2].clone(), headers[3].clone()];
        let list = Signable {
            method: "GET",
            path: "/",
            query: "max-keys=2&prefix=J",
            headers: &headers,
            body: &empty,
        };
        assert!(
            authorization(&list, &keys, "us-east-1", time)
                .ends_with("34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7")
        );
    }

    #[test]
    fn parameters_are_encoded() {
        assert_eq!(encoded("a/b c+d=~._-ä%"), "a%2Fb%20c%2Bd%3D~._-%C3%A4%25");
    }
}
