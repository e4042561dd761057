//! Decodes the planes of a frame into a buffer, one span of elements at a time.
//! One job decodes a span of every plane and joins the spans while they are in
//! a CPU cache. A plane of independent blocks is never in memory as a whole.

use alloc::vec::Vec;

use super::{Frame, PlaneLayout};
use crate::Result;
use crate::bytes;
use crate::engine::Engine;
use crate::frame::plane::{Pieces, Plane};

impl Frame<'_> {
    /// Decodes all planes and joins them in `body`, which is the content
    /// without its tail.
    pub(super) fn decode_body<E: Engine>(&self, engine: &E, body: &mut [u8]) -> Result<()> {
        if let [only] = &self.planes[..]
            && self.transform.item_bytes() == 1
        {
            return only.decode_into(engine, body);
        }
        let n = body.len() / self.transform.item_bytes();
        let planes = self.pieces(engine, n as u64)?;
        self.each_piece(engine, n, body, |first, out| {
            let end = first + out.len() / self.transform.item_bytes();
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
            self.transform.join(&parts, out)?;
            buffers
                .into_iter()
                .for_each(|buffer| engine.recycle(buffer));
            Ok(())
        })
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
    /// each with the index of its first element.
    fn each_piece<E: Engine>(
        &self,
        engine: &E,
        n: usize,
        body: &mut [u8],
        job: impl Fn(usize, &mut [u8]) -> Result<()> + Sync + Send,
    ) -> Result<()> {
        if n == 0 {
            return Ok(());
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
