//! Where a bucket is: the server, the header `Host` and the paths.

use opkeep_cache::ObjectName;

use crate::url::{Endpoint, Host, S3Style, S3Url};

/// The region of a URL, an environment and a profile that name none. Servers other than AWS's take any.
pub(super) const DEFAULT_REGION: &str = "us-east-1";
const HTTPS_PORT: u16 = 443;

/// A bucket of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The server.
    pub(crate) endpoint: Endpoint,
    /// The header `Host`, which is signed.
    pub(super) host: String,
    /// The path of the bucket: empty, or `/` and its name.
    bucket: String,
    /// What keys begin with: empty, or text that ends with `/`.
    pub(super) prefix: String,
}

impl Place {
    /// Finds the bucket of a URL. With the style `virtual`, the bucket's name is a part of the server's, except that an address is
    /// connected to as it is.
    pub(crate) fn new(url: &S3Url, region: &str) -> Self {
        let endpoint = url.endpoint.clone().unwrap_or_else(|| aws(region));
        // A certificate of `*.host` does not fit a bucket with dots.
        let is_plain = url.endpoint.is_none() && !url.bucket.contains('.');
        let style = url.style.unwrap_or(if is_plain { S3Style::Virtual } else { S3Style::Path });
        let prefix = url.prefix.as_ref().map(|prefix| format!("{prefix}/")).unwrap_or_default();
        match style {
            S3Style::Path => {
                Self { host: host_header(&endpoint), bucket: format!("/{}", url.bucket), endpoint, prefix }
            }
            S3Style::Virtual => {
                let host =
                    Host { name: format!("{}.{}", url.bucket, endpoint.host.name), port: endpoint.host.port };
                let with_bucket = Endpoint { tls: endpoint.tls, host };
                let header = host_header(&with_bucket);
                let is_address = endpoint.host.name.parse::<std::net::IpAddr>().is_ok();
                let endpoint = if is_address { endpoint } else { with_bucket };
                Self { endpoint, host: header, bucket: String::new(), prefix }
            }
        }
    }

    /// Returns the path of an object. Neither buckets nor names have characters to encode.
    pub(super) fn object(&self, name: &ObjectName) -> String {
        format!("{}/{}{name}", self.bucket, self.prefix)
    }

    /// Returns the path of the bucket.
    pub(super) fn bucket(&self) -> &str {
        if self.bucket.is_empty() { "/" } else { &self.bucket }
    }
}

/// The server of AWS for a region.
fn aws(region: &str) -> Endpoint {
    let suffix = if region.starts_with("cn-") { ".cn" } else { "" };
    let host = Host { name: format!("s3.{region}.amazonaws.com{suffix}"), port: HTTPS_PORT };
    Endpoint { tls: true, host }
}

/// The header of a server: its port only if it is not the scheme's.
fn host_header(endpoint: &Endpoint) -> String {
    let usual = if endpoint.tls { HTTPS_PORT } else { 80 };
    let host = endpoint.host.to_string();
    match host.strip_suffix(&format!(":{usual}")) {
        Some(name) if endpoint.host.port == usual => name.to_owned(),
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::url::RemoteUrl;

    /// The server, the header and the path of the object `a/b`.
    fn place(url: &str, region: &str) -> (String, String, String) {
        let RemoteUrl::S3(url) = url.parse().unwrap() else { panic!("{url}") };
        let place = Place::new(&url, region);
        (place.endpoint.to_string(), place.host.clone(), place.object(&ObjectName::new("a/b").unwrap()))
    }

    #[test]
    fn styles() {
        for (url, endpoint, host, path) in [
            (
                "s3://buck",
                "https://buck.s3.eu-west-1.amazonaws.com:443",
                "buck.s3.eu-west-1.amazonaws.com",
                "/a/b",
            ),
            (
                "s3://buck.x/p",
                "https://s3.eu-west-1.amazonaws.com:443",
                "s3.eu-west-1.amazonaws.com",
                "/buck.x/p/a/b",
            ),
            (
                "s3://buck/p?style=path",
                "https://s3.eu-west-1.amazonaws.com:443",
                "s3.eu-west-1.amazonaws.com",
                "/buck/p/a/b",
            ),
            ("s3://buck?endpoint=http://h:9000", "http://h:9000", "h:9000", "/buck/a/b"),
            ("s3://buck?endpoint=http://h", "http://h:80", "h", "/buck/a/b"),
            ("s3://buck?endpoint=https://h:80", "https://h:80", "h:80", "/buck/a/b"),
            ("s3://buck?endpoint=http://[::1]:80", "http://[::1]:80", "[::1]", "/buck/a/b"),
            (
                "s3://buck/p/q?endpoint=http://h:9000&style=virtual",
                "http://buck.h:9000",
                "buck.h:9000",
                "/p/q/a/b",
            ),
            (
                "s3://buck?endpoint=http://10.0.0.1:9000&style=virtual",
                "http://10.0.0.1:9000",
                "buck.10.0.0.1:9000",
                "/a/b",
            ),
        ] {
            let expected = (endpoint.to_owned(), host.to_owned(), path.to_owned());
            assert_eq!(place(url, "eu-west-1"), expected, "{url}");
        }
        assert_eq!(place("s3://buck", "cn-north-1").1, "buck.s3.cn-north-1.amazonaws.com.cn");
    }
}
