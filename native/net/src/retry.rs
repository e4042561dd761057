//! The waits between attempts.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, SystemTime};

use http::{HeaderMap, header};
use httpdate::parse_http_date;

/// The maximum wait before the first retry by default; the maximum doubles for each
/// further retry.
pub const FIRST_BACKOFF: Duration = Duration::from_millis(300);

/// The maximum wait, unless the server requests a longer one.
pub const MAX_BACKOFF: Duration = Duration::from_secs(10);

/// Returns a wait with full jitter, between zero and a limit that begins at `first` and
/// doubles with each of `failures`. Many clients whose server failed at the same moment
/// must not retry at the same moment.
#[must_use]
pub fn backoff(first: Duration, failures: u32) -> Duration {
    let limit = first.saturating_mul(1 << failures.min(16)).min(MAX_BACKOFF);
    limit.mul_f64(f64::from(random()) / f64::from(u32::MAX))
}

/// Returns a random number that is sufficient for waits, from the seed of the standard
/// library's hash maps.
fn random() -> u32 {
    let bits = RandomState::new().build_hasher().finish();
    u32::try_from(bits >> 32).unwrap_or_default()
}

/// Returns the wait that a response requests with `Retry-After`.
#[must_use]
pub fn requested_wait(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(header::RETRY_AFTER)?;
    parse_retry_after(value.to_str().ok()?, SystemTime::now())
}

/// Parses `Retry-After` (RFC 9110, section 10.2.3), which is a number of seconds or a
/// date.
fn parse_retry_after(header: &str, now: SystemTime) -> Option<Duration> {
    let text = header.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number that overflows is a very long wait.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = parse_http_date("Sun, 06 Nov 1994 08:49:00 GMT").unwrap();
        for (header, seconds) in [
            ("0", Some(0)),
            ("120", Some(120)),
            (" 3 ", Some(3)),
            ("99999999999999999999999", Some(u64::MAX)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(37)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(37)),
            ("Sun Nov  6 08:49:37 1994", Some(37)),
            ("Sun, 06 Nov 1994 08:40:00 GMT", Some(0)),
            ("-5", None),
            ("+5", None),
            ("1.5", None),
            ("soon", None),
            ("", None),
        ] {
            let expected = seconds.map(Duration::from_secs);
            assert_eq!(parse_retry_after(header, now), expected, "{header}");
        }
    }

    #[test]
    fn waits_double_up_to_a_limit() {
        let first = Duration::from_millis(300);
        for (failures, limit_ms) in [(0, 300), (1, 600), (5, 9600), (6, 10_000), (40, 10_000)] {
            let limit = Duration::from_millis(limit_ms);
            let waits: Vec<_> = (0..200).map(|_| backoff(first, failures)).collect();
            assert!(waits.iter().all(|wait| *wait <= limit), "{failures}");
            assert!(waits.iter().any(|wait| *wait > limit / 2), "{failures}");
            assert!(waits.iter().any(|wait| *wait < limit / 2), "{failures}");
        }
    }
}
