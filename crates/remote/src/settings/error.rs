//! The errors of settings.

use opkeep_cache::{NamespaceError, RemotePolicyError};
use opkeep_trust::TrustError;
use thiserror::Error;

use crate::error::OpenError;
use crate::headers::HeaderError;

/// A setting is not valid. The text names the origin of the setting, and has no part of it that could be a password or a key.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// It is no text.
    #[error("{origin} is not UTF-8")]
    NotUnicode {
        /// The setting.
        origin: String,
    },
    /// It is empty.
    #[error("{origin} is empty; expected a value, or that it is not set")]
    Empty {
        /// The setting.
        origin: String,
    },
    /// The URL cannot be opened.
    #[error("{origin}: {source}")]
    Url {
        /// The setting.
        origin: String,
        /// The problem.
        source: OpenError,
    },
    /// The headers are not valid.
    #[error("{origin}: {source}")]
    Headers {
        /// The setting.
        origin: String,
        /// The problem.
        source: HeaderError,
    },
    /// Headers are given twice.
    #[error("{one} and {other} are both set, expected one")]
    HeadersTwice {
        /// The setting with headers.
        one: String,
        /// The setting with a file of headers.
        other: String,
    },
    /// The key of a client's certificate is given without the certificate.
    #[error("{origin} is set, and there is no certificate that the key belongs to")]
    NoCertificate {
        /// The setting.
        origin: String,
    },
    /// The use of the remote cache is not valid.
    #[error("{origin} is `{text}`: {source}")]
    Mode {
        /// The setting.
        origin: String,
        /// The text.
        text: String,
        /// The problem.
        source: RemotePolicyError,
    },
    /// The namespace is not valid.
    #[error("{origin} is `{text}`: {source}")]
    Namespace {
        /// The setting.
        origin: String,
        /// The text.
        text: String,
        /// The problem.
        source: NamespaceError,
    },
    /// The text of a secret key stands in place of its file.
    #[error("{origin}: this is the text of a secret key; give the name of the file that has it")]
    SecretKeyText {
        /// The setting.
        origin: String,
    },
    /// The secret key cannot be read.
    #[error("{origin}: {source}")]
    SigningKey {
        /// The setting.
        origin: String,
        /// The problem.
        source: TrustError,
    },
    /// The trusted keys are not valid, or cannot be read.
    #[error("{origin}: {source}")]
    TrustedKeys {
        /// The setting.
        origin: String,
        /// The problem.
        source: TrustError,
    },
    /// The trusted keys are neither keys nor a file of them.
    #[error("{origin}: {source}; the name of a file with a list of keys begins with `@`")]
    NotKeys {
        /// The setting.
        origin: String,
        /// The problem.
        source: TrustError,
    },
    /// No key is trusted.
    #[error(
        "{origin}: there is no key; expected public keys as NAME:BASE64, or @FILE with a list of them; if no \
             signature is required, it must not be set"
    )]
    NoTrustedKey {
        /// The setting.
        origin: String,
    },
}
