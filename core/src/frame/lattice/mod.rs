//! Frame `ZXQ1` (docs/formats/zxq1.md): each element is a value of a small grid
//! times the scale of its group. Dequantised checkpoints consist of such
//! elements.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

use crate::bytes::Cursor;
use crate::engine::Engine;
use crate::frame::family::{Extras, FrameFamily, FrameInfo, body_len};
use crate::frame::{self, Families, Family};
use crate::{Error, Result, Rule};
use decode::Exceptions;

mod decode;
mod encode;
mod grid;
mod head;

pub use decode::Groups;
pub use encode::encode;
pub use grid::Grid;
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
