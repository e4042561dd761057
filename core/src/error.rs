//! The error type of this crate: what is wrong, where, and which rule of the
//! format is broken.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::fmt;

use crate::Rule;
use crate::limits::DIMENSIONS;

/// The result of every fallible operation of this crate.
pub type Result<T, E = Error> = core::result::Result<T, E>;

/// The cause of an error, which determines what the caller can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The bytes break a rule of their format: they are damaged, truncated or
    /// forged.
    Malformed,
    /// The bytes may be valid, but this version or build does not support their
    /// content.
    Unsupported,
    /// An input exceeds a cap in [`crate::limits`] or one that the caller has
    /// set.
    Limit,
    /// The file or model has no tensor of the requested name.
    NotFound,
    /// The caller passed an invalid argument.
    InvalidInput,
}

impl ErrorKind {
    /// Returns the name of the kind in JSON output and in JavaScript.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Unsupported => "unsupported",
            Self::Limit => "limit",
            Self::NotFound => "not_found",
            Self::InvalidInput => "invalid_input",
        }
    }
}

/// An error: its kind, a message, and, where they apply, the broken rule, the
/// offset in bytes and the name of the tensor.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Refusal>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Refusal {
    kind: ErrorKind,
    rule: Option<Rule>,
    offset: Option<u64>,
    tensor: Option<String>,
    detail: Cow<'static, str>,
}

impl Error {
    fn new(kind: ErrorKind, rule: Option<Rule>, detail: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Refusal {
            kind,
            rule,
            offset: None,
            tensor: None,
            detail: detail.into(),
        }))
    }

    /// Creates the error for bytes that break `rule`.
    #[must_use]
    pub fn malformed(rule: Rule, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Malformed, Some(rule), detail)
    }

    /// Creates the error for bytes that may be valid but that this library does
    /// not support.
    #[must_use]
    pub fn unsupported(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Unsupported, None, detail)
    }

    /// Creates the error for a file of a format or version that this build of the
    /// library leaves out.
    pub(crate) fn left_out() -> Self {
        Self::unsupported("this build of the reader does not include the format of this file")
    }

    /// Creates the error for a limit that was exceeded.
    #[must_use]
    pub fn limit(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Limit, None, detail)
    }

    /// Creates the error for an index out of bounds: `what` names the items of
    /// the list, and `count` is its length.
    #[cold]
    pub(crate) fn no_such(what: &str, number: usize, count: usize) -> Self {
        Self::invalid_input(format!("there is no {what} {number}, there are {count}"))
    }

    /// Creates the error for a tensor with more dimensions than
    /// [`crate::limits::DIMENSIONS`].
    pub(crate) fn dimensions() -> Self {
        let rule = Some(Rule::TensorDimensions);
        let detail = format!("its shape has over {DIMENSIONS} dimensions, the most that are read");
        Self::new(ErrorKind::Limit, rule, detail)
    }

    /// Creates the error for a tensor that does not exist.
    #[must_use]
    pub fn not_found(name: &str) -> Self {
        Self::new(
            ErrorKind::NotFound,
            None,
            format!("there is no tensor named `{name}` in this file"),
        )
    }

    /// Creates the error for a call with invalid arguments.
    #[must_use]
    pub fn invalid_input(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::InvalidInput, None, detail)
    }

    /// Sets the offset of the problem, relative to the start of the file or
    /// frame being read. An offset that is already set remains, so the
    /// innermost one wins.
    #[must_use]
    pub fn at(mut self, offset_bytes: u64) -> Self {
        self.0.offset.get_or_insert(offset_bytes);
        self
    }

    /// Converts an offset relative to a section into one relative to the
    /// enclosing data, in which the section starts at `base_bytes`.
    #[must_use]
    pub fn within(mut self, base_bytes: u64) -> Self {
        if let Some(offset) = &mut self.0.offset {
            *offset = offset.saturating_add(base_bytes);
        }
        self
    }

    /// Sets the name of the tensor concerned, unless one is already set.
    #[must_use]
    pub fn tensor(mut self, name: &str) -> Self {
        self.0.tensor.get_or_insert_with(|| name.into());
        self
    }

    /// Appends `hint`, a suggestion to the caller, to the message.
    #[must_use]
    pub fn hint(mut self, hint: &str) -> Self {
        self.0.detail.to_mut().push_str(hint);
        self
    }

    /// Prefixes the message with the name of the file concerned, for callers
    /// that process several files.
    #[must_use]
    pub(crate) fn file(mut self, name: &str) -> Self {
        self.0.detail = format!("{name}: {}", self.0.detail).into();
        self
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns a short name for programs: `"wrong_base"` if the base is not the
    /// one that the delta was made against, otherwise the [code of the
    /// kind](ErrorKind::code).
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self.rule() {
            Some(Rule::DeltaReference | Rule::DeltaBaseTensor) => "wrong_base",
            _ => self.kind().code(),
        }
    }

    /// Returns the broken rule: set for [`ErrorKind::Malformed`], and for the
    /// few caps that are rules of their own.
    #[must_use]
    pub fn rule(&self) -> Option<Rule> {
        self.0.rule
    }

    /// Returns the offset of the problem in bytes, if it is known.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// Returns the name of the tensor concerned, if the error is about one.
    #[must_use]
    pub fn tensor_name(&self) -> Option<&str> {
        self.0.tensor.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.0.tensor {
            write!(f, "tensor `{name}`: ")?;
        }
        f.write_str(&self.0.detail)?;
        if let Some(offset) = self.0.offset {
            write!(f, " (at byte {offset})")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl core::error::Error for Error {}
