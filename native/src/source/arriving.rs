//! A safetensors file that is worked on while it arrives.

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

/// A safetensors file whose header is there, and whose data come as they are
/// asked for. They pass through a file without a name in the folder for
/// temporary files, whose length is that which the header implies; the
/// disk space of what is no longer needed is given back.
pub(crate) struct Arriving {
    input: Local,
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
    Whole(Local),
}

impl Arriving {
    /// Reads the header of `feed`. If that does not say where everything is,
    /// reads all of it; `progress` is called then with the bytes that are there
    /// and, if known, the length. `check` sees the first bytes and the length, as
    /// far as it is known, before that, and may refuse them.
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

    /// Returns the file, of which only what has been fetched and not freed can
    /// be read.
    pub(crate) fn input(&self) -> &Local {
        &self.input
    }

    /// Waits until the file is there up to `end`, in bytes.
    ///
    /// # Errors
    /// Those of the feed; a file that is shorter.
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
        let len_bytes = self.input.len_bytes();
        self.fetch_until(len_bytes)?;
        let mut arrival = self.arrival();
        if arrival.arrived_bytes > len_bytes || arrival.fetch()? {
            return Err(Error::Usage(format!(
                "{} goes on after its last tensor, at byte {len_bytes}; save it to a file and \
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
    /// Gives the file the length that it is to have. Returns `false` if there can be
    /// no such file: a header may claim any length.
    fn fits(&self, len_bytes: u64) -> bool {
        let fits = self.file.set_len(len_bytes).is_ok();
        if !fits {
            // What has arrived stays as it is.
            let _ = self.file.set_len(self.arrived_bytes);
        }
        fits
    }

    /// Returns the file as one of `len_bytes`, whatever has arrived of it.
    fn input(&self, len_bytes: u64) -> Result<Local> {
        let input = Local::of_range(self.feed.name().into(), &self.file, 0..len_bytes)?;
        Ok(input.with_file_ids(self.feed.file_ids()))
    }

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

/// Returns the length of the data that a header implies: where the last tensor
/// ends. `None` for what is not a header. Nothing of it is kept in memory.
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
