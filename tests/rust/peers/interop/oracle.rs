//! The connection to the process that runs the real z4ai. For each encoded case with
//! its expected contents, that process returns an error message, or an empty string on
//! success.

use std::io::{self, Read, Write};

use crate::encoding::Case;

/// A client of that process. Requests are written to standard output, and answers read
/// from standard input. Both consist of 32-bit lengths, each followed by bytes of that
/// length.
pub struct Oracle<R, W> {
    answers: R,
    requests: W,
}

impl<R: Read, W: Write> Oracle<R, W> {
    pub fn new(answers: R, requests: W) -> Self {
        Self { answers, requests }
    }

    /// Returns the error message for `case`, or an empty string.
    pub fn ask(&mut self, label: &str, case: &Case) -> io::Result<String> {
        for part in [
            label.as_bytes(),
            case.call.name().as_bytes(),
            &case.original,
            &case.reference,
            &case.encoded,
        ] {
            let len = u32::try_from(part.len()).map_err(io::Error::other)?;
            self.requests.write_all(&len.to_le_bytes())?;
            self.requests.write_all(part)?;
        }
        self.requests.flush()?;
        let mut len = [0; 4];
        self.answers.read_exact(&mut len)?;
        let mut answer = vec![0; u32::from_le_bytes(len) as usize];
        self.answers.read_exact(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}
