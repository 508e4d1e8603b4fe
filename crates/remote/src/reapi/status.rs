//! The status of a gRPC call, and what it means for the cache.

use std::fmt;
use std::time::Duration;

use base64ct::{Base64Unpadded, Encoding};
use http::HeaderMap;
use opkeep_cache::RemoteError;
use prost::Message;

use super::messages::{BlobStatus, Delay, RetryInfo};
use crate::server_text::shown;

/// The status codes of gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Code(pub(super) i64);

impl Code {
    pub(super) const OK: Self = Self(0);
    pub(super) const UNKNOWN: Self = Self(2);
    pub(super) const DEADLINE_EXCEEDED: Self = Self(4);
    pub(super) const NOT_FOUND: Self = Self(5);
    pub(super) const ALREADY_EXISTS: Self = Self(6);
    pub(super) const PERMISSION_DENIED: Self = Self(7);
    pub(super) const RESOURCE_EXHAUSTED: Self = Self(8);
    pub(super) const FAILED_PRECONDITION: Self = Self(9);
    pub(super) const ABORTED: Self = Self(10);
    pub(super) const UNIMPLEMENTED: Self = Self(12);
    pub(super) const INTERNAL: Self = Self(13);
    pub(super) const UNAVAILABLE: Self = Self(14);
    pub(super) const UNAUTHENTICATED: Self = Self(16);

    fn name(self) -> &'static str {
        const NAMES: [&str; 17] = [
            "OK",
            "CANCELLED",
            "UNKNOWN",
            "INVALID_ARGUMENT",
            "DEADLINE_EXCEEDED",
            "NOT_FOUND",
            "ALREADY_EXISTS",
            "PERMISSION_DENIED",
            "RESOURCE_EXHAUSTED",
            "FAILED_PRECONDITION",
            "ABORTED",
            "OUT_OF_RANGE",
            "UNIMPLEMENTED",
            "INTERNAL",
            "UNAVAILABLE",
            "DATA_LOSS",
            "UNAUTHENTICATED",
        ];
        usize::try_from(self.0).ok().and_then(|code| NAMES.get(code).copied()).unwrap_or("an unknown status")
    }
}

/// A status with the server's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) code: Code,
    message: String,
    /// The time after which the server wants the call again, if it stated one.
    pub(super) retry_after: Option<Duration>,
}

impl Status {
    pub(super) fn new(code: Code, message: &str) -> Self {
        Self::of_server(code, message, str::to_owned)
    }

    /// A status with a text of the server's, which is shown after `redact`.
    pub(super) fn of_server(code: Code, message: &str, redact: impl FnOnce(&str) -> String) -> Self {
        Self { code, message: shown(message, redact), retry_after: None }
    }

    /// Reads the status from the last headers of an answer. `None`: they have none. The message is shown after `redact`.
    pub(super) fn read(headers: &HeaderMap, redact: impl FnOnce(&str) -> String) -> Option<Self> {
        let code = headers.get("grpc-status")?.to_str().ok()?.parse().ok()?;
        let message = headers.get("grpc-message").map_or(String::new(), |text| decoded(text.as_bytes()));
        let details = headers.get("grpc-status-details-bin").and_then(|text| details(text.as_bytes()));
        let retry_after = details.and_then(|status| retry_after(&status));
        Some(Self { retry_after, ..Self::of_server(Code(code), &message, redact) })
    }

    /// The status of an answer that a proxy gave, by gRPC's table.
    pub(super) fn of_http(status: http::StatusCode) -> Self {
        let code = match status.as_u16() {
            400 => Code::INTERNAL,
            401 => Code::UNAUTHENTICATED,
            403 => Code::PERMISSION_DENIED,
            404 => Code::UNIMPLEMENTED,
            429 | 502..=504 => Code::UNAVAILABLE,
            _ => Code::UNKNOWN,
        };
        Self::new(code, &format!("HTTP {}", status.as_u16()))
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code.name())?;
        if self.message.is_empty() { Ok(()) } else { write!(f, ": {}", self.message) }
    }
}

impl From<Status> for RemoteError {
    fn from(status: Status) -> Self {
        let reason = status.to_string();
        match status.code {
            Code::DEADLINE_EXCEEDED => Self::TimedOut,
            Code::RESOURCE_EXHAUSTED => Self::Full { reason },
            // CANCELLED is the server's: a call that this client cancels has no status.
            Code(1) | Code::UNKNOWN | Code::ABORTED | Code::INTERNAL | Code::UNAVAILABLE | Code(15) => {
                Self::Unreachable { reason }
            }
            Code(3..=16) => Self::Refused { reason },
            Code(code) => Self::Invalid { reason: format!("status {code} of a call: {reason}") },
        }
    }
}

/// Decodes the status with details, which gRPC writes in Base64 with or without padding.
fn details(text: &[u8]) -> Option<BlobStatus> {
    let text = std::str::from_utf8(text).ok()?.trim_end_matches('=');
    BlobStatus::decode(&Base64Unpadded::decode_vec(text).ok()?[..]).ok()
}

/// Returns the time that a `RetryInfo` among the details has.
fn retry_after(status: &BlobStatus) -> Option<Duration> {
    let info = status.details.iter().find(|detail| detail.type_url.ends_with("/google.rpc.RetryInfo"))?;
    let Delay { seconds, nanos } = RetryInfo::decode(&info.value[..]).ok()?.retry_delay?;
    let nanos = u32::try_from(nanos).ok().filter(|nanos| *nanos < 1_000_000_000)?;
    Some(Duration::new(u64::try_from(seconds).ok()?, nanos))
}

/// Decodes `%xx`, as gRPC writes a message in a header. What is not encoded in this way stays.
fn decoded(text: &[u8]) -> String {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        let escape = match after {
            [high, low, ..] if *byte == b'%' => digit(high).zip(digit(low)),
            _ => None,
        };
        bytes.push(escape.map_or(*byte, |(high, low)| high << 4 | low));
        rest = if escape.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::messages::Detail;
    use super::*;

    #[test]
    fn a_status_is_read_from_headers() {
        let read = |code: &str, message: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-status", code.parse().unwrap());
            headers.insert("grpc-message", message.parse().unwrap());
            Status::read(&headers, str::to_owned)
        };
        let status = read("5", "no %22blob%22 of 100%25, %zz, %4").unwrap();
        assert_eq!(status.to_string(), "NOT_FOUND: no \"blob\" of 100%, %zz, %4");
        assert_eq!(read("0", "").unwrap().to_string(), "OK");
        assert_eq!(read("99", "x").unwrap().to_string(), "an unknown status: x");
        assert_eq!(read("-1", "%0a%1b[31m").unwrap().to_string(), "an unknown status:   [31m");
        assert_eq!(read("x", ""), None);
        assert_eq!(Status::read(&HeaderMap::new(), str::to_owned), None);
        assert!(read("2", &"x".repeat(5000)).unwrap().to_string().len() < 400);
    }

    #[test]
    fn a_time_to_try_again_is_in_the_details() {
        let read = |details: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-status", "14".parse().unwrap());
            headers.insert("grpc-status-details-bin", details.parse().unwrap());
            Status::read(&headers, str::to_owned).unwrap().retry_after
        };
        let info = |type_url: &str, seconds, nanos| {
            let value = RetryInfo { retry_delay: Some(Delay { seconds, nanos }) }.encode_to_vec();
            let other =
                Detail { type_url: "type.googleapis.com/google.rpc.Help".to_owned(), value: vec![255] };
            let details = vec![other, Detail { type_url: type_url.to_owned(), value }];
            let status = BlobStatus { code: 14, message: "later".to_owned(), details };
            Base64Unpadded::encode_string(&status.encode_to_vec())
        };
        const RETRY: &str = "type.googleapis.com/google.rpc.RetryInfo";
        let text = info(RETRY, 1, 500_000_000);
        assert_eq!(read(&text), Some(Duration::from_millis(1500)));
        assert_eq!(read(&format!("{text}==")), Some(Duration::from_millis(1500)));
        for strange in [info("google.rpc.RetryInfo", 1, 0), info(RETRY, -1, 0), info(RETRY, 1, -1)] {
            assert_eq!(read(&strange), None);
        }
        for strange in ["", "%", &text[..text.len() / 2], &text[1..]] {
            assert_eq!(read(strange), None, "{strange}");
        }
    }

    #[test]
    fn each_status_has_its_error() {
        use RemoteError::{Full, Invalid, Refused, TimedOut, Unreachable};
        for code in 1..=17 {
            let error = RemoteError::from(Status::new(Code(code), "reason"));
            let fits = match code {
                4 => matches!(error, TimedOut),
                8 => matches!(error, Full { .. }),
                3 | 5 | 6 | 7 | 9 | 11 | 12 | 16 => matches!(error, Refused { .. }),
                17 => matches!(error, Invalid { .. }),
                _ => matches!(error, Unreachable { .. }),
            };
            assert!(fits, "{code}: {error:?}");
        }
        assert_eq!(Status::of_http(http::StatusCode::BAD_GATEWAY).to_string(), "UNAVAILABLE: HTTP 502");
    }
}
