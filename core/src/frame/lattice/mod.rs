//! Frame `ZXQ1` (docs/formats/zxq1.md): each element is a value of a small grid
//! times the scale of its group. Dequantised checkpoints consist of such
//! elements.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use crate::bytes::Cursor;
use crate::dtype::Dtype;
use crate::engine::Engine;
use crate::float::float8;
use crate::frame::family::{Extras, FrameFamily, FrameInfo, body_len};
use crate::frame::{self, Families, Family};
use crate::{Error, Result, Rule};
use decode::Exceptions;

mod decode;
mod encode;
mod head;

pub use decode::Groups;
pub use encode::encode;
pub use head::{GroupLayout, LatticeHead};

pub(super) const MAGIC: &[u8] = b"ZXQ1";
const VERSION: u8 = 1;

/// A parsed frame whose fields are consistent.
#[derive(Debug, Clone)]
pub struct Frame<'a> {
    head: LatticeHead,
    // An inner frame never belongs to this family itself.
    symbols: Box<frame::Frame<'a>>,
    side: Box<SideFrames<'a>>,
    /// The range that the inner frame of symbols occupies in the frame.
    symbols_range: Range<usize>,
    info: FrameInfo<'a>,
}

/// The inner frames that follow the frame of symbols.
#[derive(Debug, Clone)]
pub struct SideFrames<'a> {
    scales: frame::Frame<'a>,
    offsets: Option<frame::Frame<'a>>,
    /// The bitmap of the exceptions, and their elements.
    exceptions: Option<(frame::Frame<'a>, frame::Frame<'a>)>,
}

impl<'a> FrameFamily<'a> for Frame<'a> {
    /// The symbols, and the properties of each group.
    type Streams = (Vec<u8>, Groups);

    fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(bytes);
        let head = LatticeHead::parse(&mut cursor)?;
        let mut lens = head.lens(&mut cursor)?.into_iter();
        let elements = head.geometry.elements();
        let symbols_at = cursor.position();
        let symbols_len = lens.next().unwrap_or_default();
        let symbols_bytes = elements.checked_mul(head.grid.symbol_bytes() as u64);
        let symbols = inner(&mut cursor, symbols_len, symbols_bytes, "symbols")?;
        let symbols_range = symbols_at..cursor.position();
        let side = SideFrames::parse(&mut cursor, &head, lens)?;
        let body_len = body_len(elements, head.elements.len_bytes() as u64)?;
        Ok(Self {
            info: FrameInfo::new(Extras::NONE, cursor.position(), body_len)?,
            symbols_range,
            head,
            symbols: Box::new(symbols),
            side: Box::new(side),
        })
    }

    fn info(&self) -> &FrameInfo<'a> {
        &self.info
    }

    fn streams<E: Engine>(&self, engine: &E) -> Result<Self::Streams> {
        let groups = self.side.decode(engine, &self.head)?;
        Ok((self.symbols.decompress(engine)?, groups))
    }

    fn join<E: Engine>(
        &self,
        engine: &E,
        (symbols, groups): Self::Streams,
        body: &mut [u8],
    ) -> Result<()> {
        groups.fill(engine, &self.head, 0, &symbols, body)
    }
}

impl<'a> Frame<'a> {
    /// Returns the fields of the head.
    #[must_use]
    pub fn head(&self) -> &LatticeHead {
        &self.head
    }

    /// Returns the inner frame that holds the symbols.
    #[must_use]
    pub fn symbols(&self) -> &frame::Frame<'a> {
        &self.symbols
    }

    /// Decodes the scales and the zero offsets of all groups. The list of offsets is empty
    /// if the grid has no offsets.
    #[cfg(all(feature = "plan", feature = "extensions"))]
    pub(super) fn group_properties<E: Engine>(&self, engine: &E) -> Result<(Vec<f32>, Vec<u8>)> {
        let groups = self.side.decode(engine, &self.head)?;
        Ok((groups.scales, groups.offsets))
    }

    /// Returns the range that the inner frame of symbols occupies. The other
    /// inner frames follow it and extend to the end of the frame.
    #[must_use]
    pub fn symbols_range(&self) -> Range<usize> {
        self.symbols_range.clone()
    }
}

impl<'a> SideFrames<'a> {
    /// Reads the inner frames that belong to `head` and have the lengths
    /// `lens`. Offsets in errors count from the start of the cursor's bytes.
    pub fn parse(
        cursor: &mut Cursor<'a>,
        head: &LatticeHead,
        lens: impl IntoIterator<Item = u64>,
    ) -> Result<Self> {
        let mut lens = lens.into_iter();
        let mut next = |len_bytes: Option<u64>, what| {
            inner(cursor, lens.next().unwrap_or_default(), len_bytes, what)
        };
        let groups = head.geometry.groups();
        let scales = next(groups.checked_mul(head.scales.len_bytes() as u64), "scales")?;
        let offsets = matches!(head.grid, Grid::OffsetIntegers { .. })
            .then(|| next(Some(groups), "zero offsets"))
            .transpose()?;
        let exceptions = head.has_exceptions.then(|| {
            let bitmap = next(Some(groups.div_ceil(8)), "bitmap of the exceptions")?;
            // The number of exceptions is stated by the bitmap, which is not
            // decoded here.
            Ok((bitmap, next(None, "exceptions")?))
        });
        Ok(Self {
            scales,
            offsets,
            exceptions: exceptions.transpose()?,
        })
    }

    /// Decodes all side frames.
    pub fn decode<E: Engine>(&self, engine: &E, head: &LatticeHead) -> Result<Groups> {
        let scales = self.scales.decompress(engine)?;
        let offsets = self.offsets.as_ref().map(|frame| frame.decompress(engine));
        let exceptions = match &self.exceptions {
            Some((bitmap, elements)) => {
                let bitmap = bitmap.decompress(engine)?;
                let len_bytes = elements.decoded_len_bytes();
                Exceptions::new(head, &bitmap, len_bytes, || elements.decompress(engine))?
            }
            None => Exceptions::default(),
        };
        let offsets = offsets.transpose()?.unwrap_or_default();
        Groups::new(head, &scales, offsets, exceptions)
    }
}

/// Reads an inner frame of exactly `stored_len` bytes. If `len_bytes` is given,
/// the frame must decode to that length.
fn inner<'a>(
    cursor: &mut Cursor<'a>,
    stored_len: u64,
    len_bytes: Option<u64>,
    what: &str,
) -> Result<frame::Frame<'a>> {
    let at = cursor.position() as u64;
    let bytes = cursor.take(stored_len, what)?;
    let bad = |detail| Err(Error::malformed(Rule::LatticeFrames, detail).at(at));
    match Family::recognise(bytes) {
        Some(family) if !Families::CONTAINER.contains(family) => {
            return bad(format!(
                "the {what} are in a frame of kind {}",
                family.name()
            ));
        }
        _ => {}
    }
    let frame = frame::Frame::parse(bytes).map_err(|error| error.within(at))?;
    if frame.stored_len() != bytes.len() {
        let rest = bytes.len() - frame.stored_len();
        return bad(format!("{rest} bytes follow the frame of the {what}"));
    }
    let found = frame.decoded_len_bytes();
    match len_bytes {
        Some(expected) if found != expected => bad(format!(
            "the {what} have {found} bytes where {expected} are expected"
        )),
        _ => Ok(frame),
    }
}

/// The mapping from the symbols of a frame to values (docs/formats/zxq1.md 3).
#[derive(Debug, Clone, PartialEq)]
pub enum Grid {
    /// Symbol s means s − K, and symbol 2K + 1 means −0.
    Integers {
        /// K, from 1 to 127.
        largest: u8,
    },
    /// Symbol s means s + (the group's offset) − 128, and symbol `last` + 1
    /// means −0.
    OffsetIntegers {
        /// The last symbol that means an integer, from 1 to 254.
        last: u8,
    },
    /// Symbol s means entry s of a table of 1 to 256 finite values.
    Table(Vec<f32>),
    /// The symbol is a float in the format e4m3fn.
    E4m3,
    /// The symbol is an IEEE half-precision float.
    F16,
    /// The symbol is a bfloat16 float.
    Bf16,
}

impl Grid {
    /// Returns the size of a symbol in bytes.
    #[must_use]
    pub(crate) fn symbol_bytes(&self) -> usize {
        match self {
            Self::F16 | Self::Bf16 => 2,
            _ => 1,
        }
    }

    /// Returns whether every symbol in `symbols`, in stored form, has a finite
    /// value.
    #[must_use]
    pub fn holds(&self, symbols: &[u8]) -> bool {
        let most = |mask: u8| symbols.iter().fold(0, |most: u8, &s| most.max(s & mask));
        let most16 = |infinity: u16| {
            let (symbols, rest) = symbols.as_chunks::<2>();
            let magnitudes = symbols.iter().map(|&s| u16::from_le_bytes(s) & 0x7fff);
            magnitudes.fold(0, u16::max) < infinity && rest.is_empty()
        };
        match self {
            Self::Integers { largest } => most(0xff) <= 2 * largest + 1,
            Self::OffsetIntegers { last } => most(0xff) <= last + 1,
            Self::Table(values) => usize::from(most(0xff)) < values.len(),
            Self::E4m3 => most(0x7f) < 0x7f,
            Self::F16 => most16(0x7c00),
            Self::Bf16 => most16(0x7f80),
        }
    }

    /// Returns the value of every one-byte symbol of a grid that is decoded by
    /// table lookup. Unassigned symbols, and all symbols of other grids, have
    /// the value 0.
    #[must_use]
    pub fn values(&self) -> Vec<f32> {
        let mut values = vec![0.0; 256];
        match self {
            Self::Table(table) => values[..table.len()].copy_from_slice(table),
            Self::E4m3 => {
                for (value, code) in values.iter_mut().zip(0..=0xff) {
                    *value = e4m3(code);
                }
            }
            _ => {}
        }
        values
    }
}

/// Returns the value of the e4m3fn number `code`, or 0 for NaN.
#[must_use]
fn e4m3(code: u8) -> f32 {
    #[allow(clippy::cast_possible_truncation)] // exact: a multiple of 2^-9 below 512
    let value = float8(code, Dtype::F8E4M3) as f32;
    if value.is_nan() { 0.0 } else { value }
}
