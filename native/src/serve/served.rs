//! A line of the log.

use std::fmt::{Display, Formatter, Result};

use crate::display::{escaped, size};

/// One request, after it was answered. Shown, it is a line for a terminal.
#[derive(Debug, Clone)]
pub struct Served {
    /// Method.
    pub method: String,
    /// Path as asked for.
    pub path: String,
    /// `Range` header, if any.
    pub range: Option<String>,
    /// Status of the answer.
    pub status: u16,
    /// Bytes of its body.
    pub body_bytes: u64,
    /// Why it was refused and which option helps, where that is for who runs
    /// the server to know.
    pub note: Option<String>,
}

impl Display for Served {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        let size = size(self.body_bytes);
        let path = escaped(&self.path);
        write!(out, "{} {:<4} {size:>8}  {path}", self.status, self.method)?;
        if let Some(range) = &self.range {
            write!(out, " {}", escaped(range))?;
        }
        if let Some(note) = &self.note {
            write!(out, "  ({})", escaped(note))?;
        }
        Ok(())
    }
}
