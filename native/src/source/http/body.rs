//! Reads the body of a response and checks its exact length.

use std::io::Read;

use super::answer::{Answer, Framing};
use super::client::Client;
use super::retry::{Failure, Progress};
use crate::Result;

const BUFFER_BYTES: usize = 128 << 10;

/// Receives the bytes of a file from one response or several.
pub(super) trait Sink {
    fn len_bytes(&self) -> u64;

    /// Discards all bytes received so far.
    fn restart(&mut self) -> Result<()>;

    fn append(&mut self, bytes: &[u8]) -> Result<()>;

    /// Called with the total length once it is known.
    fn expect(&mut self, _total_bytes: u64) {}
}

impl Sink for Vec<u8> {
    fn len_bytes(&self) -> u64 {
        self.len() as u64
    }

    fn restart(&mut self) -> Result<()> {
        self.clear();
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.extend_from_slice(bytes);
        Ok(())
    }
}

/// The expected length of a body.
#[derive(Debug, Clone, Copy)]
pub(super) enum Expected {
    /// Exactly this number of bytes. More are an error; fewer are a failure that may be
    /// retried.
    Exactly(u64),
    /// Any number of bytes up to this limit.
    AtMost(u64),
}

/// Appends the body to `sink`. Returns `false` if it is longer than
/// [`Expected::AtMost`]. After a failure, `sink` retains the bytes that have arrived.
pub(super) fn receive(
    client: &Client,
    mut answer: Answer,
    expected: Expected,
    sink: &mut dyn Sink,
    progress: &mut Progress<'_>,
) -> Result<bool, Failure> {
    let (most, exact) = match expected {
        Expected::Exactly(len) => (len, Some(len)),
        Expected::AtMost(most) => (most, None),
    };
    if let (Some(len), Framing::Length(announced)) = (exact, answer.framing)
        && announced > len
    {
        return Err(too_long(client, len));
    }
    let mut reader = answer.body.as_reader();
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut got = 0;
    progress.begin_body();
    loop {
        let read = match reader.read(&mut buffer) {
            Ok(read) => read,
            // Servers may break a connection after the last byte.
            Err(_) if exact == Some(got) => 0,
            Err(error) => return Err(client.broken(&error, got, exact)),
        };
        client.count(read);
        if let Some(in_flight) = &mut answer.in_flight {
            in_flight.received(read);
        }
        if read as u64 > most - got {
            return match exact {
                Some(len) => Err(too_long(client, len)),
                None => Ok(false),
            };
        }
        if read == 0 {
            return match exact {
                Some(len) if got < len => Err(client.cut(got, exact)),
                _ => Ok(true),
            };
        }
        got += read as u64;
        sink.append(&buffer[..read])?;
        let goes_on = progress.received(read, sink.len_bytes());
        if !goes_on && exact != Some(got) {
            return Err(client.stalled());
        }
    }
}

fn too_long(client: &Client, len: u64) -> Failure {
    let detail = format!("the server sent more than the {len} bytes of its answer");
    client.problem(detail).into()
}
