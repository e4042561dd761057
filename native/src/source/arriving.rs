//! A safetensors file that is worked on while it arrives.

use std::fs::File;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use zstn_core::bytes::index;
use zstn_core::container::safetensors::{self, Header, PREFIX_BYTES};

use super::{Feed, Map, Source};
use crate::output::temporary;
use crate::{Error, Result};

/// A safetensors file whose header is there, and whose data come as they are
/// asked for. They pass through a file without a name in the folder for
/// temporary files, which is mapped with the length that the header implies; the
/// disk space of what is no longer needed is given back.
pub(crate) struct Arriving {
    map: Map,
    arrival: Mutex<Arrival>,
}

struct Arrival {
    feed: Feed,
    file: File,
    /// Bytes that are there, or were.
    arrived_bytes: u64,
    /// Bytes whose space has been given back.
    freed_bytes: u64,
}

/// What the start of a feed shows.
pub(crate) enum Begun {
    /// The header says where everything is.
    Arriving(Arriving),
    /// All of it, because the header does not, or is none.
    Whole(Map),
}

impl Arriving {
    /// Reads the header of `feed`. If that does not say where everything is,
    /// reads all of it; `progress` is called then with the bytes that are there
    /// and, if known, the length.
    pub(crate) fn begin(feed: Feed, progress: &dyn Fn(u64, Option<u64>)) -> Result<Begun> {
        let mut arrival = Arrival {
            feed,
            file: temporary::create()?,
            arrived_bytes: 0,
            freed_bytes: 0,
        };
        match arrival.header()? {
            Some(len_bytes) if GIVES_SPACE_BACK => {
                let made = arrival.file.set_len(len_bytes);
                made.map_err(|error| temporary::failed("make room for")(error))?;
                let map = Map::new(arrival.feed.name().into(), &arrival.file)?;
                Ok(Begun::Arriving(Self {
                    map: map.with_file_ids(arrival.feed.file_ids()),
                    arrival: Mutex::new(arrival),
                }))
            }
            _ => {
                let Arrival {
                    mut feed,
                    file,
                    arrived_bytes,
                    ..
                } = arrival;
                feed.spool(file, arrived_bytes, progress).map(Begun::Whole)
            }
        }
    }

    /// Returns the file, of which only what has been fetched and not freed can
    /// be read.
    pub(crate) fn map(&self) -> &Map {
        &self.map
    }

    /// Waits until the file is there up to `end`, in bytes.
    ///
    /// # Errors
    /// Those of the feed; a file that is shorter.
    pub(crate) fn fetch_until(&self, end: u64) -> Result<()> {
        let mut arrival = self.arrival();
        while arrival.arrived_bytes < end {
            if !arrival.fetch()? {
                return Err(Error::place(self.map.name())(arrival.cut_off(&self.map)));
            }
        }
        Ok(())
    }

    /// Gives back the space of everything before `end`, in bytes, which is not
    /// read again.
    pub(crate) fn free_until(&self, end: u64) {
        self.arrival().free_until(end);
    }

    /// Makes sure that the file ends where its header says.
    ///
    /// # Errors
    /// A file that is longer; [`Error::Changed`] if the source says so.
    pub(crate) fn check_end(&self) -> Result<()> {
        let len_bytes = self.map.len_bytes();
        self.fetch_until(len_bytes)?;
        let mut arrival = self.arrival();
        if arrival.arrived_bytes > len_bytes || arrival.fetch()? {
            return Err(Error::Usage(format!(
                "{} goes on after its last tensor, at byte {len_bytes}; save it to a file and \
                 pack that",
                self.map.name()
            )));
        }
        arrival.feed.check_unchanged()
    }

    fn arrival(&self) -> MutexGuard<'_, Arrival> {
        self.arrival.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Arrival {
    /// Fetches the next bytes; returns `false` at the end.
    fn fetch(&mut self) -> Result<bool> {
        let mut piece = Vec::new();
        self.feed.read(&mut piece)?;
        let written = self.file.write_all(&piece);
        written.map_err(|error| temporary::failed("write")(error))?;
        self.arrived_bytes += piece.len() as u64;
        Ok(!piece.is_empty())
    }

    /// Fetches the header; returns the length of the file that it implies, or
    /// `None` if it breaks a rule or the length is not that of the feed.
    fn header(&mut self) -> Result<Option<u64>> {
        let len_bytes = self.feed.len_bytes();
        while self.arrived_bytes < PREFIX_BYTES {
            if !self.fetch()? {
                return Ok(None);
            }
        }
        let map = Map::new(self.feed.name().into(), &self.file)?;
        let Ok(header_len) = safetensors::header_len_bytes(&map, len_bytes.unwrap_or(u64::MAX))
        else {
            return Ok(None);
        };
        let data_start = PREFIX_BYTES + header_len;
        while self.arrived_bytes < data_start {
            if !self.fetch()? {
                return Ok(None);
            }
        }
        let map = Map::new(self.feed.name().into(), &self.file)?;
        let header = &map[index(PREFIX_BYTES)..index(data_start)];
        let Ok(tensors) = safetensors::parse_lenient(header, u64::MAX - data_start) else {
            return Ok(None);
        };
        let ends = tensors.iter().map(|tensor| tensor.span.end);
        let data_len = ends.max().unwrap_or(0);
        let whole = data_start + data_len;
        let is_right = len_bytes.is_none_or(|len| len == whole)
            && self.arrived_bytes <= whole
            && Header::parse(header, data_len).is_ok();
        Ok(is_right.then_some(whole))
    }

    fn free_until(&mut self, end: u64) {
        let end = end / PAGE_BYTES * PAGE_BYTES;
        if end > self.freed_bytes {
            give_back(&self.file, self.freed_bytes, end - self.freed_bytes);
            self.freed_bytes = end;
        }
    }

    fn cut_off(&self, map: &Map) -> zstn_core::Error {
        let detail = format!(
            "the file ends after {} bytes, its tensors need {}: it was cut off",
            self.arrived_bytes,
            map.len()
        );
        zstn_core::Error::malformed(zstn_core::Rule::SafetensorsTruncated, detail)
    }
}

/// Space is given back in pieces of these many bytes, a multiple of every page.
const PAGE_BYTES: u64 = 2 << 20;

/// Whether parts of a file can be given back here. Where they cannot, nothing is
/// gained over a copy of the whole.
const GIVES_SPACE_BACK: bool = cfg!(target_os = "linux");

/// Gives back the space of a part of `file`. Failure costs space and nothing
/// else: some file systems cannot.
fn give_back(file: &File, start: u64, len_bytes: u64) {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{FallocateFlags, fallocate};
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let _ = fallocate(file, flags, start, len_bytes);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, start, len_bytes);
}
