//! Frame `ZPL1` (docs/formats/z4ai-frames.md 10), for buffers with few distinct
//! values.

use alloc::format;
use alloc::vec::Vec;

use super::family::{Extras, FrameFamily, FrameInfo, body_len};
use super::stored_or_zstd;
use crate::bytes::{self, Cursor};
use crate::engine::{Engine, PackEngine, ZstdCoding};
use crate::entropy::zstd;
use crate::transform::palette;
use crate::{Error, Result, Rule};

pub(super) const MAGIC: &[u8] = b"ZPL1";
const VERSION: u8 = 1;

/// A parsed frame whose fields are consistent.
#[derive(Debug, Clone)]
pub struct Frame<'a> {
    width: u8,
    index_bytes: u8,
    elements: u64,
    distinct: u32,
    codebook: &'a [u8],
    index: &'a [u8],
    info: FrameInfo<'a>,
}

impl<'a> FrameFamily<'a> for Frame<'a> {
    /// The decoded codebook and the decoded index.
    type Streams = [Vec<u8>; 2];

    fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(bytes);
        cursor.expect_magic(MAGIC, Rule::FrameMagic, "ZPL1 frame")?;
        cursor.expect_version(VERSION, Rule::FrameVersion, "ZPL1 frame")?;
        let width = cursor.u8("element width")?;
        if !matches!(width, 2 | 4 | 8) {
            let detail = format!("a palette frame has elements of {width} bytes");
            return Err(Error::malformed(Rule::FrameWidth, detail).at(5));
        }
        let flags = cursor.u8("frame flags")?;
        let index_bytes = cursor.u8("index width")?;
        if !matches!(index_bytes, 1 | 2 | 4) {
            let detail = format!("indices of {index_bytes} bytes");
            return Err(Error::malformed(Rule::PaletteIndexWidth, detail).at(7));
        }
        let elements = cursor.u64("element count")?;
        let distinct = cursor.u32("count of distinct values")?;
        let extras = Extras::after_their_lengths(&mut cursor, flags)?;
        let codebook_len = cursor.u32("codebook length")?;
        let codebook_at = cursor.position() as u64;
        let codebook = cursor.take(codebook_len.into(), "codebook")?;
        if (elements == 0) != (distinct == 0) || (elements == 0) != codebook.is_empty() {
            let detail = format!(
                "{distinct} values in a codebook of {codebook_len} bytes for {elements} elements"
            );
            return Err(Error::malformed(Rule::FrameParts, detail).at(16));
        }
        let index_at = cursor.position();
        let mut index = &[][..];
        if elements > 0 {
            let codebook_bytes = u64::from(distinct) * u64::from(width);
            zstd::check_sized(codebook, codebook_bytes).map_err(|e| e.within(codebook_at))?;
            let index_len = body_len(elements, index_bytes.into())?;
            index = zstd::sized_prefix(&bytes[index_at..], index_len)
                .map_err(|e| e.within(index_at as u64))?;
        }
        let body_len = body_len(elements, width.into())?;
        Ok(Self {
            width,
            index_bytes,
            elements,
            distinct,
            codebook,
            index,
            info: FrameInfo::new(extras, index_at + index.len(), body_len)?,
        })
    }

    fn info(&self) -> &FrameInfo<'a> {
        &self.info
    }

    fn streams<E: Engine>(&self, engine: &E) -> Result<Self::Streams> {
        let decode = |payload: &[u8], len_bytes| {
            let mut out = bytes::buffer(len_bytes)?;
            if !out.is_empty() {
                zstd::decode(engine, payload, &mut out)?;
            }
            Ok(out)
        };
        let codebook_bytes = u64::from(self.distinct) * u64::from(self.width);
        Ok([
            decode(self.codebook, codebook_bytes)?,
            decode(self.index, self.elements * u64::from(self.index_bytes))?,
        ])
    }

    fn join<E: Engine>(
        &self,
        _: &E,
        [codebook, index]: Self::Streams,
        body: &mut [u8],
    ) -> Result<()> {
        let (index_bytes, width) = (self.index_bytes.into(), self.width.into());
        palette::join(&index, index_bytes, &codebook, width, body)
    }
}

impl Frame<'_> {
    /// Returns the size of one element in bytes.
    #[must_use]
    pub fn width(&self) -> u8 {
        self.width
    }

    /// Returns the number of entries in the codebook.
    #[must_use]
    pub fn distinct(&self) -> u32 {
        self.distinct
    }

    /// Returns the coded codebook and the coded index, which are zstd frames, each with
    /// its decoded length in bytes. Both are empty if there are no elements.
    #[cfg(feature = "plan")]
    pub(super) fn coded(&self) -> [(&[u8], u64); 2] {
        let codebook_bytes = u64::from(self.distinct) * u64::from(self.width);
        let index_bytes = self.elements * u64::from(self.index_bytes);
        [(self.codebook, codebook_bytes), (self.index, index_bytes)]
    }

    /// Returns the number of elements.
    #[cfg(feature = "plan")]
    pub(super) fn elements(&self) -> u64 {
        self.elements
    }
}

/// A tensor split into a codebook and an index.
#[derive(Debug, Clone)]
pub struct PaletteSplit<'a> {
    item_bytes: u8,
    values: Vec<u64>,
    index: Vec<u8>,
    tail: &'a [u8],
    elements: usize,
}

impl<'a> PaletteSplit<'a> {
    /// Splits a tensor whose elements are `width` bytes each. Returns `None` if
    /// there are more than `most_values` distinct elements.
    ///
    /// # Panics
    /// If `width` is not 2, 4 or 8.
    #[must_use]
    pub fn new(tensor: &'a [u8], width: u8, most_values: u32) -> Option<Self> {
        assert!(matches!(width, 2 | 4 | 8));
        let item_bytes = usize::from(width);
        let elements = tensor.len() / item_bytes;
        let (body, tail) = tensor.split_at(elements * item_bytes);
        let most = usize::try_from(most_values).unwrap_or(usize::MAX);
        let (values, index) = palette::split(body, item_bytes, most)?;
        Some(Self {
            item_bytes: width,
            values,
            index,
            tail,
            elements,
        })
    }

    /// Returns the number of distinct elements.
    #[must_use]
    pub fn distinct(&self) -> usize {
        self.values.len()
    }

    /// Returns the index, which has [`palette::index_bytes`] bytes per element.
    #[must_use]
    pub fn index(&self) -> &[u8] {
        &self.index
    }

    /// Encodes the frame, taking the smallest result among `codings` for the
    /// codebook and for the index. Returns `None` if the coded codebook reaches
    /// 4 GiB.
    #[must_use]
    pub fn encode<E: PackEngine>(&self, engine: &E, codings: &[ZstdCoding]) -> Option<Vec<u8>> {
        let index_bytes = palette::index_bytes(self.values.len());
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&[VERSION, self.item_bytes, 0, index_bytes.to_le_bytes()[0]]);
        out.extend_from_slice(&(self.elements as u64).to_le_bytes());
        out.extend_from_slice(&(self.values.len() as u64).to_le_bytes()[..4]);
        // The tail is shorter than an element, so its length fits in four
        // bytes.
        out.extend_from_slice(&(self.tail.len() as u64).to_le_bytes()[..4]);
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(self.tail);
        if self.elements == 0 {
            out.extend_from_slice(&[0; 4]);
            return Some(out);
        }
        let values = self.values.iter();
        let codebook: Vec<u8> = values
            .flat_map(|value| value.to_le_bytes().into_iter().take(self.item_bytes.into()))
            .collect();
        let codebook = stored_or_zstd::zstd_smallest(engine, &codebook, codings);
        // The 32-bit length field overflows only for a codebook of several gigabytes.
        out.extend_from_slice(&u32::try_from(codebook.len()).ok()?.to_le_bytes());
        out.extend_from_slice(&codebook);
        out.extend_from_slice(&stored_or_zstd::zstd_smallest(engine, &self.index, codings));
        Some(out)
    }
}

/// Splits a tensor with [`PaletteSplit::new`] and encodes it with [`PaletteSplit::encode`].
/// Returns `None` if either does.
///
/// # Panics
/// If `width` is not 2, 4 or 8.
#[must_use]
pub fn encode<E: PackEngine>(
    engine: &E,
    tensor: &[u8],
    width: u8,
    most_values: u32,
    codings: &[ZstdCoding],
) -> Option<Vec<u8>> {
    PaletteSplit::new(tensor, width, most_values)?.encode(engine, codings)
}
