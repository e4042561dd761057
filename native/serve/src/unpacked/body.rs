//! Response bodies that are decoded chunk by chunk.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use futures_util::{FutureExt, stream};
use zstn_core::bytes::index;
use zstn_core::model::Piece;

use super::Packed;
use super::cache::{Claim, DecodedTensors, Reading};
use zstn::display::size;

/// Length of a body chunk, which is all that a connection buffers for a client that has
/// stopped reading.
const CHUNK_BYTES: usize = 128 << 10;

/// Ranges up to this length are decoded completely before the answer begins, so that an
/// error can change its status.
const CHECKED_BYTES: u64 = 4 << 20;

/// The remaining part of a range of the restored file. Tensors stay in memory while
/// their bytes are copied, not while the client reads them.
pub(super) struct Rest {
    decoded: Arc<DecodedTensors>,
    packed: Arc<Packed>,
    range: Range<u64>,
    /// The span being read; `next` contains the spans that are decoded ahead.
    current: Option<(Unit, Reading)>,
    next: VecDeque<(Unit, Reading)>,
}

/// A span of a tensor that is decoded at once.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Unit {
    number: usize,
    span: Range<u64>,
}

impl Rest {
    /// Creates the body for `range`, which must lie within the file that `packed`
    /// restores.
    pub(super) fn new(
        decoded: Arc<DecodedTensors>,
        packed: Arc<Packed>,
        range: Range<u64>,
    ) -> Self {
        Self {
            decoded,
            packed,
            range,
            current: None,
            next: VecDeque::new(),
        }
    }

    /// Returns the body of an answer. The first chunk is decoded before the answer
    /// begins.
    pub(super) async fn into_body(mut self) -> io::Result<Body> {
        self.check_lengths().await?;
        if self.range.end - self.range.start <= CHECKED_BYTES {
            self.check().await?;
        }
        let first = self.chunk().await?;
        if self.range.is_empty() {
            return Ok(Body::from(first));
        }
        let parts = stream::try_unfold((Some(first), self), |(first, mut rest)| async move {
            let chunk = match first {
                Some(first) => first,
                None => rest.chunk().await?,
            };
            Ok::<_, io::Error>((!chunk.is_empty()).then_some((chunk, (None, rest))))
        });
        Ok(Body::from_stream(parts))
    }

    /// Refuses a range that contains a tensor, or block of one, that is too long to be
    /// decoded.
    async fn check_lengths(&self) -> io::Result<()> {
        let max_bytes = self.decoded.max_bytes();
        let packed = Arc::clone(&self.packed);
        for piece in packed.layout().pieces(self.range.clone()) {
            let Piece::Tensor { number, bytes } = piece else {
                continue;
            };
            if packed.tensor_len_bytes(number) <= max_bytes {
                continue;
            }
            let unit = self.unit(number, bytes.start).await?;
            let len_bytes = unit.span.end - unit.span.start;
            if len_bytes > max_bytes {
                return Err(io::Error::other(format!(
                    "the tensor `{}` can only be decoded {} at a time, and this server decodes at \
                     most {}; its option --max-tensor sets that limit",
                    packed.tensor_name(number),
                    size(len_bytes),
                    size(max_bytes),
                )));
            }
        }
        Ok(())
    }

    /// Decodes every span that the range touches, so that an error is found before the
    /// answer begins.
    async fn check(&mut self) -> io::Result<()> {
        let mut at = self.range.start;
        while let Some(piece) = self.piece(at) {
            at += match piece {
                Piece::Head(range) => range.len() as u64,
                Piece::Tensor { number, bytes } => {
                    let unit = self.unit(number, bytes.start).await?;
                    let len = bytes.end.min(unit.span.end) - bytes.start;
                    drop(self.bytes_of(unit).await?);
                    len
                }
            };
        }
        Ok(())
    }

    /// Returns the next chunk, which is empty at the end of the range.
    async fn chunk(&mut self) -> io::Result<Bytes> {
        let left = self.range.end - self.range.start;
        let mut chunk = Vec::with_capacity(index(left.min(CHUNK_BYTES as u64)));
        while chunk.len() < CHUNK_BYTES
            && let Some(piece) = self.piece(self.range.start)
        {
            let room = CHUNK_BYTES - chunk.len();
            let len = match piece {
                Piece::Head(range) => {
                    let len = range.len().min(room);
                    let head = &self.packed.layout().head()[range];
                    chunk.extend_from_slice(&head[..len]);
                    len
                }
                Piece::Tensor { number, bytes } => {
                    let unit = self.unit(number, bytes.start).await?;
                    let end = bytes.end.min(unit.span.end);
                    let start = index(bytes.start - unit.span.start);
                    let len = index(end - bytes.start).min(room);
                    let is_over = bytes.start + len as u64 == end;
                    let decoded = self.bytes_of(unit).await?;
                    let part = decoded.get(start..start + len);
                    let part = part.ok_or_else(|| io::Error::other("a tensor is too short"))?;
                    chunk.extend_from_slice(part);
                    drop(decoded);
                    if is_over {
                        self.current = None;
                    } else {
                        self.prefetch();
                    }
                    len
                }
            };
            self.range.start += len as u64;
        }
        Ok(chunk.into())
    }

    /// Returns the part of the head or of a tensor that begins at byte `at` of the
    /// restored file.
    fn piece(&self, at: u64) -> Option<Piece> {
        self.packed.layout().pieces(at..self.range.end).next()
    }

    /// Returns the span that is decoded for byte `at` of a tensor.
    async fn unit(&self, number: usize, at: u64) -> io::Result<Unit> {
        let max_bytes = self.decoded.max_bytes();
        let span = match self.packed.span(number, at, max_bytes) {
            Some(span) => span,
            None => {
                let _turn = self.decoded.turn().await;
                let found = self.packed.find_cut(number, max_bytes).await;
                found.map_err(io::Error::other)?;
                let span = self.packed.span(number, at, max_bytes);
                span.ok_or_else(|| io::Error::other("the blocks of a tensor are not known"))?
            }
        };
        Ok(Unit { number, span })
    }

    async fn bytes_of(&mut self, unit: Unit) -> io::Result<Arc<Vec<u8>>> {
        let held = self.current.take().filter(|(held, _)| *held == unit);
        // The previous span has been dropped before this one waits for memory.
        let (unit, reading) = match held {
            Some(held) => held,
            None => {
                let passed = self.next.iter().position(|(next, _)| *next == unit);
                // Earlier entries have been read or are not part of the range.
                self.next.drain(..passed.unwrap_or(self.next.len()));
                let next = self.next.pop_front();
                next.unwrap_or_else(|| {
                    let reading = self.reading(&unit);
                    (unit, reading)
                })
            }
        };
        let (_, reading) = self.current.insert((unit, reading));
        reading.bytes().await.map_err(io::Error::other)
    }

    /// Starts to decode the next spans if there is memory for them without waiting.
    fn prefetch(&mut self) {
        let Some(last) = self.next.back().or(self.current.as_ref()) else {
            return;
        };
        let mut last = last.0.clone();
        for _ in self.next.len()..self.decoded.ahead() {
            let Some(unit) = self.unit_after(&last) else {
                return;
            };
            let mut reading = self.reading(&unit);
            reading.prefetch();
            last = unit.clone();
            self.next.push_back((unit, reading));
        }
    }

    /// Returns the span that follows `unit` in the range, if its bounds are known.
    fn unit_after(&self, unit: &Unit) -> Option<Unit> {
        let pieces = self.packed.layout().pieces(self.range.clone());
        let mut tensors = pieces.filter_map(|piece| match piece {
            Piece::Tensor { number, bytes } => Some((number, bytes)),
            Piece::Head(_) => None,
        });
        let (_, bytes) = tensors.find(|(number, _)| *number == unit.number)?;
        let (number, at) = match unit.span.end < bytes.end {
            true => (unit.number, unit.span.end),
            false => {
                let (number, bytes) = tensors.next()?;
                (number, bytes.start)
            }
        };
        let span = self.packed.span(number, at, self.decoded.max_bytes())?;
        Some(Unit { number, span })
    }

    fn reading(&self, unit: &Unit) -> Reading {
        let (packed, Unit { number, span }) = (Arc::clone(&self.packed), unit.clone());
        let key = (packed.id(), number, span.start);
        let len_bytes = span.end - span.start;
        let decode = move |claim: Arc<Claim>| {
            let (packed, span) = (packed.with_claim(claim), span.clone());
            async move {
                let read = packed.read(number, &span).await;
                read.map_err(|error| error.to_string())
            }
            .boxed()
        };
        self.decoded.reading(key, len_bytes, Arc::new(decode))
    }
}
