//! The errors of a server.

use opkeep_cache::RemoteError;

use super::xml;
use crate::http::Answer;
use crate::server_text::shown;

/// Codes of a server that has no space.
const FULL: [&str; 7] = [
    "EntityTooLarge",
    "InsufficientCapacity",
    "QuotaExceeded",
    "ServiceQuotaExceeded",
    "StorageFull",
    "XMinioStorageFull",
    "XMinioAdminBucketQuotaExceeded",
];
/// Codes of a server that may answer later.
const BUSY: [&str; 8] = [
    "InternalError",
    "OperationAborted",
    "RequestLimitExceeded",
    "RequestTimeout",
    "ServiceUnavailable",
    "SlowDown",
    "Throttling",
    "ThrottlingException",
];
const EXPIRED: [&str; 5] =
    ["ExpiredToken", "ExpiredTokenException", "InvalidToken", "TokenRefreshRequired", "InvalidAccessKeyId"];

/// An answer that is an error.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ServerError {
    status: u16,
    /// S3's code, such as `NoSuchKey`, by which programs decide; empty in an answer without S3's document. It is not shown.
    code: String,
    /// The code and the message as they are shown.
    shown_code: String,
    message: String,
    /// The region that the bucket is in, if another one is meant.
    region: Option<String>,
}

impl ServerError {
    /// Reads an answer. `redact` replaces the keys in the texts that are shown. The code is interpreted as the server sent it.
    pub(super) fn read(answer: &Answer, redact: &dyn Fn(&str) -> String) -> Self {
        let mut error = Self { status: answer.status, ..Self::default() };
        let mut region = answer.header("x-amz-bucket-region").map(str::to_owned);
        let read = xml::read(&answer.body, |path, text| match path {
            [root, name] if root == "Error" => match name.as_str() {
                "Code" => (error.code, error.shown_code) = (text.to_owned(), shown(text, redact)),
                "Message" => error.message = shown(text, redact),
                "Region" => region = Some(text.to_owned()),
                _ => {}
            },
            _ => {}
        });
        if read.is_err() {
            error = Self { status: answer.status, ..Self::default() };
        }
        error.region = region.map(|region| shown(&region, redact)).filter(|region| !region.is_empty());
        error
    }

    /// Reads an answer that is an error. A server may begin an answer of success before it fails.
    pub(super) fn read_if_failed(
        answer: &Answer,
        is_object: bool,
        redact: &dyn Fn(&str) -> String,
    ) -> Option<Self> {
        if !answer.is_success() {
            return Some(Self::read(answer, redact));
        }
        // An object may be anything, a document of an error as well.
        let has_document = !is_object && !answer.body.is_empty();
        has_document.then(|| Self::read(answer, redact)).filter(Self::has_code)
    }

    pub(super) fn status(&self) -> u16 {
        self.status
    }

    pub(super) fn is(&self, code: &str) -> bool {
        self.code == code
    }

    /// Whether an answer with a status of success has an error's document as its body.
    pub(super) fn has_code(&self) -> bool {
        !self.code.is_empty()
    }

    /// Whether the server says that an object is missing. A server that has another purpose says so about any path.
    pub(super) fn is_missing_object(&self, has_body: bool) -> bool {
        self.status == 404 && (self.is("NoSuchKey") || !has_body)
    }

    /// Whether the server refuses the keys themselves, so that others might do.
    pub(super) fn is_expired(&self) -> bool {
        EXPIRED.contains(&self.code.as_str())
    }

    /// Whether the signature has another time than the server.
    pub(super) fn is_skewed(&self) -> bool {
        self.is("RequestTimeTooSkewed")
    }

    /// Whether the server does not know a header of the request.
    pub(super) fn is_unsupported(&self) -> bool {
        self.status == 501 || self.is("NotImplemented")
    }
}

impl From<ServerError> for RemoteError {
    fn from(error: ServerError) -> Self {
        let ServerError { status, code, shown_code, message, region } = error;
        let text = match (shown_code.as_str(), message.as_str()) {
            ("", _) => String::new(),
            (code, "") => format!(" {code}"),
            (code, message) => format!(" {code}: {message}"),
        };
        let mut reason = format!("HTTP {status}{text}");
        if let Some(region) = region.filter(|_| matches!(status, 300..=400)) {
            reason.push_str(&format!(" (the bucket is in another region: the URL needs `region={region}`)"));
        }
        let is_one_of = |codes: &[&str]| codes.contains(&code.as_str());
        if matches!(status, 507 | 413) || is_one_of(&FULL) {
            return Self::Full { reason };
        }
        if matches!(status, 408 | 425 | 429) || (status >= 500 && status != 501) || is_one_of(&BUSY) {
            return Self::Unreachable { reason };
        }
        match code.as_str() {
            "" if status == 404 || status < 300 => {
                Self::Invalid { reason: format!("{reason} without S3's document") }
            }
            _ => Self::Refused { reason },
        }
    }
}
