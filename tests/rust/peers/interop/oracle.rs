//! The other end of the pipe: the process that holds the real z4ai. It gets
//! what we encoded and what it has to decode to, and answers with a sentence
//! on what is wrong, or nothing.

use std::io::{self, Read, Write};

use crate::way::Case;

/// Requests go to standard output, answers come from standard input: both are
/// 32-bit lengths with so many bytes behind.
pub struct Oracle<R, W> {
    answers: R,
    requests: W,
}

impl<R: Read, W: Write> Oracle<R, W> {
    pub fn new(answers: R, requests: W) -> Self {
        Self { answers, requests }
    }

    /// What is wrong with `case`, empty if nothing.
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
