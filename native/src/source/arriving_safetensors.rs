//! A safetensors file that is packed while it arrives.

use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use zstn_core::container::safetensors::{self, Header, PREFIX_BYTES};

use super::{Feed, Local, Source};
use crate::output::temporary;
use crate::{Error, Result};

/// A safetensors file whose header has arrived and whose data are fetched on demand.
/// The data are stored in an unnamed file in the folder for temporary files. It has the
/// length that the header implies, and the disk space of data that are no longer needed
/// is freed.
pub(crate) struct Arriving {
    input: Local,
    arrival: Mutex<Arrival>,
}

struct Arrival {
    feed: Feed,
    file: File,
    /// The number of bytes that have arrived, including freed ones.
    arrived_bytes: u64,
    /// The number of bytes whose disk space has been freed.
    freed_bytes: u64,
}

/// The result of reading the header of a feed.
pub(crate) enum Begun {
    /// The header states the layout of the file.
    Arriving(Arriving),
    /// The whole file, copied because its header does not state its layout, or because
    /// this system cannot reserve or free parts of the copy.
    Whole(Local),
}

impl Arriving {
    /// Reads the header of `feed`. If the file cannot be processed while it arrives
    /// ([`Begun::Whole`]), copies the whole file and calls `progress` with the number
    /// of bytes that have arrived and the length, if it is known. Before that, `check`
    /// receives the first bytes and, if it is known, the length, and may refuse the
    /// file.
    pub(crate) fn begin(
        feed: Feed,
        check: impl FnOnce(&Local, Option<u64>) -> Result<()>,
        progress: &dyn Fn(u64, Option<u64>),
    ) -> Result<Begun> {
        let mut arrival = Arrival {
            feed,
            file: temporary::create()?,
            arrived_bytes: 0,
            freed_bytes: 0,
        };
        let len_bytes = arrival.header()?;
        let head = arrival.input(arrival.arrived_bytes)?;
        check(&head, len_bytes.or(arrival.feed.len_bytes()))?;
        let whole = len_bytes.filter(|&len_bytes| GIVES_SPACE_BACK && arrival.fits(len_bytes));
        match whole {
            Some(len_bytes) => Ok(Begun::Arriving(Self {
                input: arrival.input(len_bytes)?,
                arrival: Mutex::new(arrival),
            })),
            None => {
                let Arrival {
                    mut feed,
                    file,
                    arrived_bytes,
                    ..
                } = arrival;
                feed.copy(file, arrived_bytes, progress).map(Begun::Whole)
            }
        }
    }

    /// Returns the file. Only bytes that have been fetched and not freed can be read.
    pub(crate) fn input(&self) -> &Local {
        &self.input
    }

    /// Waits until the file has arrived up to the offset `end`.
    ///
    /// # Errors
    /// The errors of the feed; a file that ends earlier.
    pub(crate) fn fetch_until(&self, end: u64) -> Result<()> {
        let mut arrival = self.arrival();
        while arrival.arrived_bytes < end {
            if !arrival.fetch()? {
                return Err(Error::place(self.input.name())(
                    arrival.cut_off(&self.input),
                ));
            }
        }
        Ok(())
    }

    /// Frees the disk space of all bytes before the offset `end`, which must not be
    /// read again.
    pub(crate) fn free_until(&self, end: u64) {
        self.arrival().free_until(end);
    }

    /// Checks that the file ends at the length that its header implies.
    ///
    /// # Errors
    /// A file that is longer; [`Error::Changed`] if the source has changed.
    pub(crate) fn check_end(&self) -> Result<()> {
        let len_bytes = self.input.len_bytes();
        self.fetch_until(len_bytes)?;
        let mut arrival = self.arrival();
        if arrival.arrived_bytes > len_bytes || arrival.fetch()? {
            return Err(Error::Usage(format!(
                "{} continues after its last tensor, at byte {len_bytes}; save it to a file and \
                 pack that",
                self.input.name()
            )));
        }
        arrival.feed.check_unchanged()
    }

    fn arrival(&self) -> MutexGuard<'_, Arrival> {
        self.arrival.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Arrival {
    /// Extends the file to its final length. Returns `false` if the file system does
    /// not allow that length: a header may claim any length.
    fn fits(&self, len_bytes: u64) -> bool {
        let fits = self.file.set_len(len_bytes).is_ok();
        if !fits {
            // The bytes that have arrived are not affected.
            let _ = self.file.set_len(self.arrived_bytes);
        }
        fits
    }

    /// Returns a handle to the first `len_bytes` bytes of the file, which may not have
    /// arrived yet.
    fn input(&self, len_bytes: u64) -> Result<Local> {
        let input = Local::of_range(self.feed.name().into(), &self.file, 0..len_bytes)?;
        Ok(input.with_file_ids(self.feed.file_ids()))
    }

    /// Fetches the next bytes; returns `false` at the end of the feed.
    fn fetch(&mut self) -> Result<bool> {
        let mut piece = Vec::new();
        self.feed.read(&mut piece)?;
        let written = self.file.write_all(&piece);
        written.map_err(|error| temporary::failed("write")(error))?;
        self.arrived_bytes += piece.len() as u64;
        Ok(!piece.is_empty())
    }

    /// Fetches the header. Returns the length of the file that it implies, or `None` if
    /// it breaks a rule or contradicts the length of the feed.
    fn header(&mut self) -> Result<Option<u64>> {
        let len_bytes = self.feed.len_bytes();
        while self.arrived_bytes < PREFIX_BYTES {
            if !self.fetch()? {
                return Ok(None);
            }
        }
        let start = self.input(PREFIX_BYTES)?;
        let start = start.read_all()?;
        let Ok(header_len) = safetensors::header_len_bytes(&start, len_bytes.unwrap_or(u64::MAX))
        else {
            return Ok(None);
        };
        let data_start = PREFIX_BYTES + header_len;
        while self.arrived_bytes < data_start {
            if !self.fetch()? {
                return Ok(None);
            }
        }
        let input = self.input(data_start)?;
        let header = &*input.read(PREFIX_BYTES..data_start)?;
        let Some(data_len) = data_len_bytes(header) else {
            return Ok(None);
        };
        let Some(whole) = data_start.checked_add(data_len) else {
            return Ok(None);
        };
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

    fn cut_off(&self, input: &Local) -> zstn_core::Error {
        let detail = format!(
            "the file ends after {} bytes, its tensors need {}: it was cut off",
            self.arrived_bytes,
            input.len_bytes()
        );
        zstn_core::Error::malformed(zstn_core::Rule::SafetensorsTruncated, detail)
    }
}

/// Returns the length of the data that a header implies, which is the end of the last
/// tensor; `None` if the bytes are not a header. Parsing does not retain any entries in
/// memory.
fn data_len_bytes(header: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct Entry {
        data_offsets: (u64, u64),
    }

    struct End;

    impl<'de> Visitor<'de> for End {
        type Value = u64;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object of tensors")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<u64, A::Error> {
            let mut end = 0;
            while let Some(name) = map.next_key::<Cow<'de, str>>()? {
                if name == "__metadata__" {
                    map.next_value::<IgnoredAny>()?;
                } else {
                    end = end.max(map.next_value::<Entry>()?.data_offsets.1);
                }
            }
            Ok(end)
        }
    }

    let mut json = serde_json::Deserializer::from_slice(header);
    json.deserialize_map(End).ok()
}

/// The unit in which disk space is freed, in bytes: a multiple of every page size.
const PAGE_BYTES: u64 = 2 << 20;

/// True if this system can free the space of part of a file. Without that, a file is
/// better copied as a whole.
const GIVES_SPACE_BACK: bool = cfg!(target_os = "linux");

/// Frees the disk space of a range of `file`. Errors are ignored: some file systems do
/// not support this, and then only space is lost.
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
