//! A safetensors file that is packed while it arrives.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use serde::Deserialize;
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use zstn_core::container::safetensors::{self, Header, PREFIX_BYTES};
use zstn_core::limits::HEAD_LEN_BYTES;

use super::file::read_exact_at;
use super::{Feed, Local, Source};
use crate::output::temporary;
use crate::{Error, Result};

/// A safetensors file whose header has arrived. Its data are taken in order, and are
/// not copied to the disk, unless a range of them has to be read more than once
/// ([`Arriving::store`]).
pub(crate) struct Arriving {
    input: Local,
    stored: Arc<Stored>,
    arrival: Mutex<Arrival>,
}

/// The bytes of an arriving file that can be read at any offset.
#[derive(Debug)]
pub(super) struct Stored {
    len_bytes: u64,
    /// The header and, if they have arrived with it, the first bytes that the format of
    /// a file is recognised by.
    head: Vec<u8>,
    range: RwLock<Option<StoredRange>>,
}

/// A range of the file in an unnamed file in the folder for temporary files.
#[derive(Debug)]
struct StoredRange {
    file: File,
    /// The offset of the range in the arriving file.
    start: u64,
}

struct Arrival {
    feed: Feed,
    /// The number of bytes that have arrived.
    arrived_bytes: u64,
    /// All bytes that have arrived, until the layout is known.
    head: Vec<u8>,
    /// The bytes that have arrived since, and have not been taken.
    pieces: VecDeque<Vec<u8>>,
    /// The number of bytes of the first piece that have been taken.
    taken: usize,
}

/// The result of reading the header of a feed.
pub(crate) enum Begun {
    /// The header states the layout of the file.
    Arriving(Arriving),
    /// The whole file, copied because its header does not state its layout.
    Whole(Local),
}

impl Arriving {
    /// Reads the header of `feed`. If the file cannot be processed while it arrives
    /// ([`Begun::Whole`]), copies the whole file and calls `progress` with the number
    /// of bytes that have arrived and the length, if it is known. Before that, `check`
    /// receives the name, the first bytes and, if it is known, the length, and may
    /// refuse the file.
    pub(crate) fn begin(
        feed: Feed,
        check: impl FnOnce(&str, &[u8], Option<u64>) -> Result<()>,
        progress: &dyn Fn(u64, Option<u64>),
    ) -> Result<Begun> {
        let mut arrival = Arrival {
            feed,
            arrived_bytes: 0,
            head: Vec::new(),
            pieces: VecDeque::new(),
            taken: 0,
        };
        let layout = arrival.layout()?;
        let len_bytes = layout.as_ref().map(|layout| layout.len_bytes);
        let head_len = zstn_core::bytes::index(HEAD_LEN_BYTES).min(arrival.head.len());
        let len_bytes = len_bytes.or(arrival.feed.len_bytes());
        check(arrival.feed.name(), &arrival.head[..head_len], len_bytes)?;
        let Some(Layout {
            data_start,
            len_bytes,
        }) = layout
        else {
            return arrival.copy(progress).map(Begun::Whole);
        };
        let data_start = zstn_core::bytes::index(data_start);
        let mut head = std::mem::take(&mut arrival.head);
        arrival.pieces.push_back(head[data_start..].to_vec());
        head.truncate(data_start.max(head_len));
        head.shrink_to_fit();
        let stored = Arc::new(Stored {
            len_bytes,
            head,
            range: RwLock::new(None),
        });
        let input = Local::of_stored(arrival.feed.name().into(), Arc::clone(&stored));
        Ok(Begun::Arriving(Self {
            input: input.with_file_ids(arrival.feed.file_ids()),
            stored,
            arrival: Mutex::new(arrival),
        }))
    }

    /// Returns the file. Only its header and the bytes that are stored can be read.
    pub(crate) fn input(&self) -> &Local {
        &self.input
    }

    /// Waits for the next `len_bytes` bytes, and passes them to `sink` in pieces.
    ///
    /// # Errors
    /// The errors of the feed and of `sink`; a file that ends earlier.
    pub(crate) fn take(
        &self,
        len_bytes: u64,
        sink: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut arrival = self.arrival();
        let mut left = len_bytes;
        while left > 0 {
            if !arrival.fetch()? {
                let cut_off = arrival.cut_off(&self.input);
                return Err(Error::place(self.input.name())(cut_off));
            }
            let arrived = &arrival.pieces[0][arrival.taken..];
            let len = zstn_core::bytes::index(left.min(arrived.len() as u64));
            sink(&arrived[..len])?;
            arrival.taken += len;
            left -= len as u64;
        }
        Ok(())
    }

    /// Waits for the next `len_bytes` bytes and copies them to the disk, so that
    /// [`Arriving::input`] can read them until [`Arriving::discard`]. Calls `check` for
    /// each piece; its error ends the work.
    ///
    /// # Errors
    /// Like [`Arriving::take`]; I/O errors.
    pub(crate) fn store(&self, len_bytes: u64, check: &dyn Fn() -> Result<()>) -> Result<()> {
        let mut file = temporary::create()?;
        let start = self.arrival().position();
        self.take(len_bytes, &mut |piece| {
            check()?;
            let written = file.write_all(piece);
            written.map_err(|error| temporary::failed("write")(error))
        })?;
        self.stored.set(Some(StoredRange { file, start }));
        Ok(())
    }

    /// Frees the disk space of the bytes that are stored.
    pub(crate) fn discard(&self) {
        self.stored.set(None);
    }

    /// Checks that the file ends at the length that its header implies. All of its bytes
    /// must have been taken.
    ///
    /// # Errors
    /// A file that is longer; [`Error::Changed`] if the source has changed.
    pub(crate) fn check_end(&self) -> Result<()> {
        let mut arrival = self.arrival();
        if arrival.fetch()? {
            return Err(Error::Usage(format!(
                "{} continues after its last tensor, at byte {}; save it to a file and pack that",
                self.input.name(),
                self.stored.len_bytes
            )));
        }
        arrival.feed.check_unchanged()
    }

    fn arrival(&self) -> MutexGuard<'_, Arrival> {
        self.arrival.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stored {
    pub(super) fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    pub(super) fn head_len_bytes(&self) -> u64 {
        self.head.len() as u64
    }

    /// Fills `out` with bytes of the file from the offset `start`. Messages call the
    /// file `name`.
    ///
    /// # Errors
    /// Bytes that are not stored; I/O errors.
    pub(super) fn read_into(&self, name: &str, start: u64, out: &mut [u8]) -> Result<()> {
        let end = start.saturating_add(out.len() as u64);
        if end <= self.head.len() as u64 {
            out.copy_from_slice(zstn_core::bytes::part(&self.head, start..end));
            return Ok(());
        }
        let range = self.range.read().unwrap_or_else(PoisonError::into_inner);
        let stored = range
            .as_ref()
            .and_then(|range| Some((range, start.checked_sub(range.start)?)));
        match stored {
            Some((range, offset)) => read_exact_at(&range.file, name, 0, offset, out),
            None => Err(Error::Usage(format!(
                "{name} arrives in order, and its bytes {start}..{end} are not stored"
            ))),
        }
    }

    fn set(&self, range: Option<StoredRange>) {
        *self.range.write().unwrap_or_else(PoisonError::into_inner) = range;
    }
}

/// The layout of a file, according to its header.
struct Layout {
    data_start: u64,
    len_bytes: u64,
}

impl Arrival {
    /// Returns the offset of the next byte to be taken.
    fn position(&self) -> u64 {
        let waiting: usize = self.pieces.iter().map(Vec::len).sum();
        self.arrived_bytes - (waiting - self.taken) as u64
    }

    /// Fetches the next bytes unless bytes that have arrived can be taken. Returns
    /// `false` at the end of the feed.
    fn fetch(&mut self) -> Result<bool> {
        if self
            .pieces
            .front()
            .is_some_and(|piece| piece.len() == self.taken)
        {
            self.pieces.pop_front();
            self.taken = 0;
        }
        if self.pieces.is_empty() {
            self.pieces = self.read()?.into();
        }
        Ok(!self.pieces.is_empty())
    }

    /// Reads the next bytes; returns no pieces at the end of the feed.
    fn read(&mut self) -> Result<Vec<Vec<u8>>> {
        let pieces = self.feed.read()?;
        self.arrived_bytes += pieces.iter().map(Vec::len).sum::<usize>() as u64;
        Ok(pieces)
    }

    /// Reads until the first `len_bytes` bytes of the file have arrived; returns `false`
    /// if the feed ends before.
    fn read_head(&mut self, len_bytes: u64) -> Result<bool> {
        while self.arrived_bytes < len_bytes {
            let pieces = self.read()?;
            if pieces.is_empty() {
                return Ok(false);
            }
            pieces.iter().for_each(|piece| self.head.extend(piece));
        }
        Ok(true)
    }

    /// Fetches the header. Returns the layout that it implies, or `None` if it breaks a
    /// rule or contradicts the length of the feed.
    fn layout(&mut self) -> Result<Option<Layout>> {
        let len_bytes = self.feed.len_bytes();
        if !self.read_head(PREFIX_BYTES)? {
            return Ok(None);
        }
        let header_len = safetensors::header_len_bytes(&self.head, len_bytes.unwrap_or(u64::MAX));
        let Ok(header_len) = header_len else {
            return Ok(None);
        };
        let data_start = PREFIX_BYTES + header_len;
        if !self.read_head(data_start)? {
            return Ok(None);
        }
        let header = zstn_core::bytes::part(&self.head, PREFIX_BYTES..data_start);
        let Some(data_len) = data_len_bytes(header) else {
            return Ok(None);
        };
        let Some(whole) = data_start.checked_add(data_len) else {
            return Ok(None);
        };
        let is_right = len_bytes.is_none_or(|len| len == whole)
            && self.arrived_bytes <= whole
            && Header::parse(header, data_len).is_ok();
        Ok(is_right.then_some(Layout {
            data_start,
            len_bytes: whole,
        }))
    }

    /// Copies the whole file, of which nothing has been taken.
    fn copy(mut self, progress: &dyn Fn(u64, Option<u64>)) -> Result<Local> {
        let mut file = temporary::create()?;
        let written = file.write_all(&self.head);
        written.map_err(|error| temporary::failed("write")(error))?;
        self.feed.copy(file, self.arrived_bytes, progress)
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
