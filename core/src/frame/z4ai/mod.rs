//! Frame `Z4AI` (docs/formats/z4ai-frames.md 3).
//!
//! A frame is decoded one span of elements at a time. One job decodes a span of
//! every plane, joins the spans and hashes the result while they are in a CPU
//! cache. A plane of independent blocks is never in memory as a whole.

use alloc::format;
use alloc::vec::Vec;
use core::iter::repeat_n;

use crate::bytes::{self, Cursor};
use crate::digest::{self, ChainingValue, Digest, SubtreeHasher};
use crate::engine::Engine;
use crate::frame::family::{Extras, FrameFamily, FrameInfo, body_len, dtype, float_format};
use crate::frame::plane::{Pieces, Plane};
use crate::transform::FloatFormat;
use crate::{Error, Result, Rule};

mod encode;
mod plane_coder;
mod recipe;
mod transform;

pub use encode::{EncodedPlanes, encode, head};
pub use plane_coder::{PlaneCoder, PlaneShape};
pub use recipe::{BlockCodecs, Codec, PlaneRecipe, Recipe, SEARCH_BLOCK_BYTES};
pub use transform::{PlaneLayout, Transform};

pub(super) const MAGIC: &[u8] = b"Z4AI";
const VERSION: u8 = 1;

/// A parsed frame whose fields are consistent.
#[derive(Debug, Clone)]
pub struct Frame<'a> {
    transform: Transform,
    planes: Vec<Plane<'a>>,
    info: FrameInfo<'a>,
}

impl<'a> FrameFamily<'a> for Frame<'a> {
    type Streams = ();

    fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(bytes);
        cursor.expect_magic(MAGIC, Rule::FrameMagic, "Z4AI frame")?;
        cursor.expect_version(VERSION, Rule::FrameVersion, "Z4AI frame")?;
        let flags = cursor.u8("frame flags")?;
        let transform_id = cursor.u8("transform")?;
        let width = cursor.u8("element width")?;
        let plane_count = cursor.u8("plane count")?;
        let dtype = dtype(&mut cursor)?;
        let format = float_format(&mut cursor)?;
        let transform = transform(transform_id, width, format)?;
        let extras = Extras::after_dtype(&mut cursor, flags, dtype)?;

        let expected = transform.planes();
        if usize::from(plane_count) != expected {
            return Err(Error::malformed(
                Rule::FramePlaneCount,
                format!(
                    "a {} frame has {plane_count} planes instead of {expected}",
                    transform.name()
                ),
            )
            .at(8));
        }
        let planes = (0..plane_count)
            .map(|_| Plane::parse(&mut cursor))
            .collect::<Result<Vec<_>>>()?;
        let lens: Vec<u64> = planes.iter().map(Plane::len_bytes).collect();
        let elements = transform.elements(&lens)?;
        let body_len = body_len(elements, transform.item_bytes() as u64)?;
        Ok(Self {
            transform,
            planes,
            info: FrameInfo::new(extras, cursor.position(), body_len)?,
        })
    }

    fn info(&self) -> &FrameInfo<'a> {
        &self.info
    }

    fn streams<E: Engine>(&self, _: &E) -> Result<()> {
        Ok(())
    }

    fn join<E: Engine>(&self, engine: &E, (): (), body: &mut [u8]) -> Result<()> {
        let join = |_, parts: &[&[u8]], out: &mut [u8]| self.transform.join(parts, out);
        self.decode_body(engine, body, join).map(drop)
    }
}

impl<'a> Frame<'a> {
    /// Returns the transform that split the buffer into planes.
    #[must_use]
    pub fn transform(&self) -> Transform {
        self.transform
    }

    /// Returns the planes in frame order.
    #[must_use]
    pub fn planes(&self) -> &[Plane<'a>] {
        &self.planes
    }

    /// Decodes like [`FrameFamily::decode`], and returns the digest of `out`.
    pub(crate) fn decode_and_hash<E: Engine>(&self, engine: &E, out: &mut [u8]) -> Result<Digest> {
        let body = self.info.start(out)?;
        let piece_len = self
            .piece_elements()
            .saturating_mul(self.transform.item_bytes());
        if !(self.info.tail().is_empty() && digest::has_subtrees(body.len(), piece_len)) {
            self.join(engine, (), body)?;
            return Ok(digest::of(engine, out));
        }
        let values = self.decode_body(engine, body, |first, parts, out| {
            self.join_and_hash(first, parts, out)
        })?;
        Ok(digest::of_subtrees(&values).unwrap_or_else(|| digest::of(engine, out)))
    }
}

fn transform(id: u8, width: u8, format: &str) -> Result<Transform> {
    match id {
        0 => Ok(Transform::Opaque),
        1 if width == 0 => Err(Error::malformed(
            Rule::FrameTransform,
            "a byte-plane frame has elements of no bytes",
        )
        .at(7)),
        1 => Ok(Transform::BytePlane(width)),
        2 => FloatFormat::by_name(format.as_bytes())
            .map(Transform::BitField)
            .ok_or_else(|| {
                Error::malformed(
                    Rule::FrameFloatFormat,
                    format!("float format \"{format}\" does not exist in bit-field frames"),
                )
                .at(10)
            }),
        _ => Err(Error::malformed(
            Rule::FrameTransform,
            format!("transform {id} does not exist in this frame family"),
        )
        .at(6)),
    }
}

impl Frame<'_> {
    /// Decodes all planes into `body`, which is the content without its tail. `join`
    /// joins a span: it gets the index of the first element, the parts of all
    /// planes, and the place of the elements. Its results are returned in order;
    /// there are none if the only plane is the body.
    fn decode_body<E: Engine, R: Send>(
        &self,
        engine: &E,
        body: &mut [u8],
        join: impl Fn(usize, &[&[u8]], &mut [u8]) -> Result<R> + Sync + Send,
    ) -> Result<Vec<R>> {
        let item_bytes = self.transform.item_bytes();
        if let [only] = &self.planes[..]
            && item_bytes == 1
        {
            only.decode_into(engine, body)?;
            return Ok(Vec::new());
        }
        let n = body.len() / item_bytes;
        let planes = self.pieces(engine, n as u64)?;
        self.each_piece(engine, n, body, |first, out| {
            let end = first + out.len() / item_bytes;
            let range = first as u64..end as u64;
            let mut wanted = Vec::new();
            for (layout, plane) in &planes {
                for part in 0..layout.parts {
                    wanted.push((plane, layout.range(part, &range, n as u64)));
                }
            }
            let mut buffers: Vec<Vec<u8>> = wanted.iter().map(|_| engine.recycled()).collect();
            let mut parts = Vec::with_capacity(wanted.len());
            for ((plane, range), buffer) in wanted.into_iter().zip(&mut buffers) {
                let range = bytes::index(range.start)..bytes::index(range.end);
                parts.push(plane.get(engine, range, buffer)?);
            }
            let joined = join(first, &parts, out)?;
            buffers
                .into_iter()
                .for_each(|buffer| engine.recycle(buffer));
            Ok(joined)
        })
    }

    /// Joins a span that begins with the element `first`, and returns the chaining
    /// value of the result.
    fn join_and_hash(
        &self,
        first: usize,
        parts: &[&[u8]],
        out: &mut [u8],
    ) -> Result<ChainingValue> {
        let item_bytes = self.transform.item_bytes();
        let densities = self.transform.layouts();
        let densities =
            densities.flat_map(|layout| repeat_n(layout.elements_per_byte, layout.parts));
        let parts: Vec<(&[u8], usize)> = parts.iter().copied().zip(densities).collect();
        let mut hasher = SubtreeHasher::new(first as u64 * item_bytes as u64);
        for (number, joined) in out.chunks_mut(JOINED_ELEMENTS * item_bytes).enumerate() {
            let start = number * JOINED_ELEMENTS;
            let end = start + joined.len() / item_bytes;
            let parts: Vec<&[u8]> = parts
                .iter()
                .map(|&(part, per_byte)| &part[start / per_byte..end.div_ceil(per_byte)])
                .collect();
            self.transform.join(&parts, joined)?;
            hasher.update(joined);
        }
        Ok(hasher.value())
    }

    /// Returns the number of elements that one job decodes. It covers whole
    /// blocks where planes are divided into blocks, and is small enough for the
    /// decoded planes to stay in a cache until they are joined. It is a
    /// multiple of eight, so that every span begins at a byte boundary in every
    /// plane.
    fn piece_elements(&self) -> usize {
        let blocks = self.planes.iter().filter_map(Plane::block_bytes);
        // A block is shorter than its plane, whose length fits in memory.
        let most = blocks.max().map_or(0, bytes::index);
        if most > 0 && most.is_multiple_of(8) {
            most * (PIECE_ELEMENTS / most).max(1)
        } else {
            PIECE_ELEMENTS
        }
    }

    fn pieces<E: Engine>(&self, engine: &E, n: u64) -> Result<Vec<(PlaneLayout, Pieces<'_, '_>)>> {
        let step = self.piece_elements() as u64;
        let planes: Vec<(PlaneLayout, &Plane)> =
            self.transform.layouts().zip(&self.planes).collect();
        engine
            .map(planes, |(layout, plane)| {
                let part_bytes = layout.part_len_bytes(n);
                let step_bytes = step / layout.elements_per_byte as u64;
                Ok((layout, plane.pieces(engine, part_bytes, step_bytes)?))
            })
            .into_iter()
            .collect()
    }

    /// Divides `body`, which holds `n` elements, into spans and runs `job` for
    /// each with the index of its first element. Returns the results in order.
    fn each_piece<E: Engine, R: Send>(
        &self,
        engine: &E,
        n: usize,
        body: &mut [u8],
        job: impl Fn(usize, &mut [u8]) -> Result<R> + Sync + Send,
    ) -> Result<Vec<R>> {
        if n == 0 {
            return Ok(Vec::new());
        }
        // A block of a mantissa plane may hold more elements than the tensor
        // has.
        let step = self.piece_elements().min(n);
        let item_bytes = body.len() / n;
        let firsts = (0..n).step_by(step);
        let jobs: Vec<_> = firsts.zip(body.chunks_mut(step * item_bytes)).collect();
        engine
            .map(jobs, |(first, out)| job(first, out))
            .into_iter()
            .collect()
    }
}

/// The number of elements that one job decodes and joins, unless blocks are
/// larger.
const PIECE_ELEMENTS: usize = 1 << 17;

/// The number of elements that are joined before they are hashed. They fit in a
/// second-level cache together with their planes. It is a multiple of eight, so
/// that they begin at a byte boundary in every plane.
const JOINED_ELEMENTS: usize = 1 << 15;

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::frame::plane::{self, Method};
    use crate::pure::Pure;
    use crate::transform::bitfield::{BFLOAT16, FLOAT32};

    /// Returns a frame of `tensor` whose planes are stored.
    fn stored(transform: Transform, tensor: &[u8]) -> Vec<u8> {
        let item_bytes = transform.item_bytes();
        let (elements, tail) = tensor.split_at(tensor.len() / item_bytes * item_bytes);
        let mut frame = head(transform, tail);
        for (number, len) in transform.plane_lens(tensor.len()).into_iter().enumerate() {
            let mut plane = vec![0; len];
            transform.split(elements, number, 0, &mut plane);
            plane::write(&mut frame, Method::Store, len as u64, &plane);
        }
        frame
    }

    #[test]
    fn pieces_make_the_digest_of_the_tensor() {
        let bytes: Vec<u8> = (0u32..).flat_map(u32::to_le_bytes).take(3 << 20).collect();
        for transform in [
            Transform::Opaque,
            Transform::BytePlane(2),
            Transform::BytePlane(3),
            Transform::BitField(BFLOAT16),
            Transform::BitField(FLOAT32),
        ] {
            let piece_len = PIECE_ELEMENTS * transform.item_bytes();
            for len in [
                0,
                1000,
                piece_len,
                piece_len + 12,
                2 * piece_len,
                2 * piece_len + 1,
            ] {
                let frame = stored(transform, &bytes[..len]);
                let frame = Frame::parse(&frame).expect("a valid frame");
                let mut out = vec![0; len];
                let digest = frame.decode_and_hash(&Pure, &mut out);
                assert_eq!(out, bytes[..len], "{transform:?} {len}");
                assert_eq!(digest, Ok(digest::of(&Pure, &out)), "{transform:?} {len}");
            }
        }
    }
}
