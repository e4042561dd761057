//! The bytes of a range, in pieces of bounded length.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use futures_util::stream;
use zstn_core::bytes::index;
use zstn_core::model::Piece;

use super::cache::{DecodedTensors, Reading};
use super::packed::Packed;

/// Bytes that are handed to a connection at a time, which is what it holds for a
/// client that does not read on.
const CHUNK_BYTES: usize = 128 << 10;

/// Up to this length everything is decoded once before the answer begins, so
/// that what goes wrong has a status.
const CHECKED_BYTES: u64 = 4 << 20;

/// The rest of a range of the file that a packed one restores. Tensors
/// are held while their bytes are copied, not while a client reads.
pub(super) struct Rest {
    decoded: Arc<DecodedTensors>,
    packed: Arc<Packed>,
    range: Range<u64>,
    /// The number of the tensor that is being read, and those of the next ones.
    tensor: Option<(usize, Reading)>,
    next: VecDeque<(usize, Reading)>,
}

impl Rest {
    /// `range` of the file that `packed` restores, all of it inside.
    pub(super) fn new(
        decoded: Arc<DecodedTensors>,
        packed: Arc<Packed>,
        range: Range<u64>,
    ) -> Self {
        Self {
            decoded,
            packed,
            range,
            tensor: None,
            next: VecDeque::new(),
        }
    }

    /// The body of an answer; its first chunk is there before the answer
    /// begins.
    pub(super) async fn into_body(mut self) -> io::Result<Body> {
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

    /// Decodes every tensor that the range touches.
    async fn check(&mut self) -> io::Result<()> {
        let mut at = self.range.start;
        while let Some(piece) = self.piece(at, 0) {
            at += match piece {
                Piece::Head(range) => range.len() as u64,
                Piece::Tensor { number, bytes } => {
                    drop(self.bytes_of(number).await?);
                    bytes.end - bytes.start
                }
            };
        }
        Ok(())
    }

    /// The next bytes; none at the end.
    async fn chunk(&mut self) -> io::Result<Bytes> {
        let left = self.range.end - self.range.start;
        let mut chunk = Vec::with_capacity(index(left.min(CHUNK_BYTES as u64)));
        while chunk.len() < CHUNK_BYTES
            && let Some(piece) = self.piece(self.range.start, 0)
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
                    let (start, end) = (index(bytes.start), index(bytes.end));
                    let len = (end - start).min(room);
                    let tensor = self.bytes_of(number).await?;
                    let part = tensor.get(start..start + len);
                    let part = part.ok_or_else(|| io::Error::other("a tensor is too short"))?;
                    chunk.extend_from_slice(part);
                    drop(tensor);
                    if start + len == end {
                        self.tensor = None;
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

    /// The piece of the file at `at`, or one `further` on.
    fn piece(&self, at: u64, further: usize) -> Option<Piece> {
        let mut pieces = self.packed.layout().pieces(at..self.range.end);
        pieces.nth(further)
    }

    async fn bytes_of(&mut self, number: usize) -> io::Result<Arc<Vec<u8>>> {
        let held = self.tensor.take().filter(|(held, _)| *held == number);
        // Tensors that are done with are dropped before waiting for memory.
        let reading = match held {
            Some(held) => held,
            None => {
                let is_next = |(next, _): &(usize, Reading)| *next == number;
                let passed = self.next.iter().position(is_next);
                // Those before it have been read, or are not part of the range.
                self.next.drain(..passed.unwrap_or(self.next.len()));
                let next = self.next.pop_front();
                next.unwrap_or_else(|| (number, self.reading(number)))
            }
        };
        let (_, reading) = self.tensor.insert(reading);
        reading.bytes().await.map_err(io::Error::other)
    }

    /// Starts to decode the next tensors, as far as there is room.
    fn prefetch(&mut self) {
        let first = self.next.len() + 1;
        for further in first..=self.decoded.ahead() {
            let Some(Piece::Tensor { number, .. }) = self.piece(self.range.start, further) else {
                return;
            };
            let mut next = self.reading(number);
            next.prefetch();
            self.next.push_back((number, next));
        }
    }

    fn reading(&self, number: usize) -> Reading {
        let packed = Arc::clone(&self.packed);
        let key = (packed.id(), number);
        let len_bytes = packed.tensor_len_bytes(number);
        let decode = move || packed.read(number).map_err(|error| error.to_string());
        self.decoded.reading(key, len_bytes, Arc::new(decode))
    }
}
