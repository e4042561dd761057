//! The expected errors in the manifests of malformed files.

use serde::Deserialize;
use zstn_core::{Error, ErrorKind, Result};

use crate::cases::text;

/// The error with which a malformed file must be rejected.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Refusal {
    /// Code of the rule that the file breaks, if the error is about a rule.
    #[serde(default)]
    pub rule: Option<String>,
    /// Kind of the error; `None` for `malformed`.
    #[serde(default)]
    pub error: Option<String>,
}

impl Refusal {
    /// Returns the refusal that a manifest entry states, if any.
    #[must_use]
    pub fn of(entry: &serde_json::Value) -> Option<Self> {
        let field = |name: &str| entry.get(name).map(text);
        let refusal = Self {
            rule: field("rule"),
            error: field("error"),
        };
        (refusal.rule.is_some() || refusal.error.is_some()).then_some(refusal)
    }

    /// Returns the refusal that is expected when the file is opened with its format
    /// detected and its tensors are read individually. The manifest has it under
    /// `"opened"` where it differs from the refusal of the format's own reader.
    ///
    /// # Panics
    /// If the manifest entry states no refusal.
    #[must_use]
    pub fn of_opened(entry: &serde_json::Value) -> Self {
        Self::of(entry.get("opened").unwrap_or(entry)).expect("a rule or a kind of error")
    }

    /// Checks that `result` is this refusal, and returns the error.
    ///
    /// # Panics
    /// If `result` is a value, or an error with another rule or kind.
    pub fn check<T>(&self, name: &str, result: Result<T>) -> Error {
        let Err(error) = result else {
            panic!("{name} was accepted");
        };
        let kind = self.error.as_deref();
        assert_eq!(
            error.rule().map(|rule| rule.code()),
            self.rule.as_deref(),
            "{name}: {error}"
        );
        assert_eq!(
            error.kind().code(),
            kind.unwrap_or(ErrorKind::Malformed.code()),
            "{name}: {error}"
        );
        error
    }
}
