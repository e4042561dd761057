//! Reads byte ranges of the safetensors file that a model restores to.

use std::ops::Range;

use zstn_core::bytes::index;
use zstn_core::container::zstn::integrity::Integrity;
use zstn_core::model::{Piece, TensorInfo, Unpacked};

use crate::{Error, Reader, Result};
use decoded::DecodedTensors;

mod decoded;

/// A model as a single safetensors file that is decoded on demand. For a packed file,
/// this is the file that was packed, byte for byte.
///
/// Several threads may read from it at the same time, but not threads of the reader's
/// [`Engine`](crate::Engine): a thread that waits for a tensor could be needed to
/// decode it.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # std::env::set_current_dir(&folder)?;
/// # let header = br#"{"x":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}"#;
/// # let len = (header.len() as u64).to_le_bytes();
/// # std::fs::write("model.safetensors", [&len[..], header, &[1, 2, 3]].concat())?;
/// use zstn::{Job, Reader, SafetensorsView};
///
/// zstn::pack(&Job::new(), "model.safetensors", "model.zstn", &Default::default())?;
/// let view = SafetensorsView::new(Reader::open("model.zstn")?, 64 << 20)?;
/// let mut end = [0; 2];
/// view.read_into(view.len_bytes() - 2, &mut end)?;
/// assert!(view.is_original() && end == [2, 3]);
/// # Ok(())
/// # }
/// ```
pub struct SafetensorsView {
    reader: Reader,
    ranges: UnpackedRanges,
}

impl SafetensorsView {
    /// Creates a view of an opened model. Decoded tensors that are cached for further
    /// reads take up to `cache_bytes`, or the length of the largest one if that is
    /// more.
    ///
    /// # Errors
    /// A weight that cannot be read, or that safetensors cannot store.
    pub fn new(reader: Reader, cache_bytes: u64) -> Result<Self> {
        let ranges = UnpackedRanges::new(&reader, cache_bytes)?;
        Ok(Self { reader, ranges })
    }

    /// Returns the reader of the model.
    #[must_use]
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Returns the length of the file in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.ranges.len_bytes()
    }

    /// Returns whether the view equals the packed or plain original file byte for byte.
    /// If not, its header was generated.
    #[must_use]
    pub fn is_original(&self) -> bool {
        self.ranges.is_original()
    }

    /// Returns the SHA-256 of the file, if the packed file contains it and has
    /// checksums of all bytes that are read.
    #[must_use]
    pub fn sha256(&self) -> Option<&[u8; 32]> {
        let [file] = self.reader.model().files() else {
            return None;
        };
        let integrity = file.integrity().filter(|_| self.is_original());
        let complete = integrity.filter(|integrity| integrity.is_complete());
        complete.and_then(Integrity::original_sha256)
    }

    /// Reads the bytes from the offset `start` into `out`, which is filled completely.
    ///
    /// # Errors
    /// A range that is not inside the file; [`Error::NeedsBase`] for a delta that was
    /// opened without its base; the errors of [`Reader::read`]. After an error, the
    /// contents of `out` are unspecified.
    pub fn read_into(&self, start: u64, out: &mut [u8]) -> Result<()> {
        self.ranges.read_into(&self.reader, start, out)
    }
}

/// Reads byte ranges of the safetensors file, for callers that own the reader
/// themselves and pass it to each call, so that they can close it.
#[doc(hidden)]
pub struct UnpackedRanges {
    layout: Unpacked,
    decoded: DecodedTensors,
}

impl UnpackedRanges {
    /// Uses the layout of `reader`'s model. All calls must pass a reader of the same
    /// model.
    pub fn new(reader: &Reader, cache_bytes: u64) -> Result<Self> {
        let layout = reader.model().unpacked();
        Ok(Self {
            layout: layout.map_err(Error::place(reader.name()))?,
            decoded: DecodedTensors::new(cache_bytes),
        })
    }

    /// Uses the data of the one file that all files of `reader`'s model make up
    /// (docs/formats/zstn-delta.md 8), without its header.
    pub(crate) fn of_joined_data(reader: &Reader, cache_bytes: u64) -> Result<Self> {
        let layout = reader.model().joined();
        Ok(Self {
            layout: layout.map_err(Error::place(reader.name()))?.without_head(),
            decoded: DecodedTensors::new(cache_bytes),
        })
    }

    /// Sets whether the tensors of the restored file are being listed. A small file could
    /// otherwise claim a tensor of any length that has to be decoded for the list.
    pub(crate) fn set_listing(&self, is_listing: bool) {
        self.decoded.set_listing(is_listing);
    }

    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.layout.len_bytes()
    }

    #[must_use]
    pub fn is_original(&self) -> bool {
        self.layout.is_original()
    }

    /// Returns the total length of the tensors that a range touches, since reading a
    /// part of a tensor may require decoding all of it.
    #[must_use]
    pub fn touched_len_bytes(&self, reader: &Reader, range: Range<u64>) -> u64 {
        let lens = self.layout.pieces(range).map(|piece| match piece {
            Piece::Head(_) => 0,
            Piece::Tensor { number, .. } => {
                let tensor = reader.tensors().get(number);
                tensor.map_or(0, TensorInfo::len_bytes)
            }
        });
        lens.fold(0, u64::saturating_add)
    }

    /// Refuses a range that is not inside the file.
    pub(crate) fn check(&self, reader: &Reader, range: &Range<u64>) -> Result<()> {
        let len_bytes = self.len_bytes();
        if range.start <= range.end && range.end <= len_bytes {
            return Ok(());
        }
        let (wanted, start) = (range.end.saturating_sub(range.start), range.start);
        let detail =
            format!("there are no {wanted} bytes at {start} in a file of {len_bytes} bytes");
        let refusal = zstn_core::Error::invalid_input(detail);
        Err(Error::place(reader.name())(refusal))
    }

    /// Reads the bytes from the offset `start` into `out`, which is filled completely.
    pub fn read_into(&self, reader: &Reader, start: u64, mut out: &mut [u8]) -> Result<()> {
        let end = start.saturating_add(out.len() as u64);
        self.check(reader, &(start..end))?;
        let mut whole = Vec::new();
        for piece in self.layout.pieces(start..end) {
            match piece {
                Piece::Head(range) => {
                    let (part, rest) = out.split_at_mut(range.len());
                    part.copy_from_slice(&self.layout.head()[range]);
                    out = rest;
                }
                Piece::Tensor { number, bytes } => {
                    let (part, rest) = out.split_at_mut(index(bytes.end - bytes.start));
                    out = rest;
                    let tensor = &reader.tensors()[number];
                    if bytes == (0..tensor.len_bytes()) {
                        whole.push((&*tensor.name, part));
                    } else {
                        self.decoded.read(reader, number, bytes, part)?;
                    }
                }
            }
        }
        match whole.is_empty() {
            true => Ok(()),
            false => reader.read_many_into(whole, &()),
        }
    }

    /// Reads the bytes of tensor `number` from the offset `start` into `out`, which is
    /// filled completely.
    pub fn read_tensor_into(
        &self,
        reader: &Reader,
        number: usize,
        start: u64,
        out: &mut [u8],
    ) -> Result<()> {
        let end = start.saturating_add(out.len() as u64);
        self.decoded.read(reader, number, start..end, out)
    }
}
