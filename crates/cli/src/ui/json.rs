//! Values of JSON results.

use std::time::Duration;

use serde_json::Value;

/// A number as JSON; what JSON has no number for, as a text.
pub(crate) fn number(value: f64) -> Value {
    match value {
        value if value.is_nan() => "NaN".into(),
        f64::INFINITY => "inf".into(),
        f64::NEG_INFINITY => "-inf".into(),
        value => value.into(),
    }
}

/// Milliseconds, for people and programs.
pub(crate) fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}
