//! Planes back to the buffer, piece by piece: each is decoded by one job and
//! joined while it is in a cache, and no plane of independent blocks is ever in
//! memory as a whole.

use alloc::vec::Vec;

use super::{Frame, Transform};
use crate::bytes;
use crate::engine::Engine;
use crate::frame::plane::{Pieces, Plane};
use crate::transform::bitfield::Fields;
use crate::transform::{FloatFormat, byteplane};
use crate::{Error, Result};

impl Frame<'_> {
    /// Decodes the whole frame into a buffer of its own.
    pub fn decompress<E: Engine>(&self, engine: &E) -> Result<Vec<u8>> {
        let mut out = bytes::buffer(self.decoded_len_bytes())?;
        self.decode(engine, &mut out)?;
        Ok(out)
    }

    /// Decodes the whole frame into `out`, which is as long as the frame says.
    pub fn decode<E: Engine>(&self, engine: &E, out: &mut [u8]) -> Result<()> {
        if out.len() as u64 != self.decoded_len_bytes() {
            return Err(Error::invalid_input(
                "the buffer is not as long as the frame's content",
            ));
        }
        let (body, tail) = out.split_at_mut(out.len() - self.tail.len());
        tail.copy_from_slice(self.tail);
        match self.transform {
            Transform::Opaque => self.planes[0].decode_into(engine, body),
            Transform::BytePlane(_) => {
                let n = body.len() / self.planes.len();
                let planes = self.pieces(engine, n)?;
                self.each_piece(engine, n, body, |from, out| {
                    let range = from..from + out.len() / planes.len();
                    let mut scratch = alloc::vec![Vec::new(); planes.len()];
                    let views = planes.iter().zip(&mut scratch);
                    let views =
                        views.map(|(plane, scratch)| plane.get(engine, range.clone(), scratch));
                    byteplane::join(&views.collect::<Result<Vec<_>>>()?, out);
                    Ok(())
                })
            }
            Transform::BitField(format) => {
                let n = body.len() / format.item_bytes;
                let planes = self.pieces(engine, n)?;
                self.each_piece(engine, n, body, |from, out| {
                    join_fields(engine, format, &planes, (from, n), out)
                })
            }
        }
    }

    /// Returns the elements of a piece: whole blocks where planes are cut into
    /// blocks, and few enough for the piece to stay in a cache until it is
    /// joined. Pieces begin with a byte of signs.
    fn piece_elements(&self) -> usize {
        let blocks = self.planes.iter().filter_map(Plane::block_bytes);
        // Shorter than the plane, which fits in memory.
        let most = blocks.max().map_or(0, bytes::index);
        if most > 0 && most.is_multiple_of(8) {
            most * (PIECE_ELEMENTS / most).max(1)
        } else {
            PIECE_ELEMENTS
        }
    }

    fn pieces<E: Engine>(&self, engine: &E, n: usize) -> Result<Vec<Pieces<'_, '_>>> {
        let step = self.piece_elements() as u64;
        let is_float = matches!(self.transform, Transform::BitField(_));
        let planes: Vec<(usize, &Plane)> = self.planes.iter().enumerate().collect();
        engine
            .map(planes, |(number, plane)| match number {
                // A bit for each element.
                0 if is_float => plane.pieces(engine, n.div_ceil(8) as u64, step / 8),
                _ => plane.pieces(engine, n as u64, step),
            })
            .into_iter()
            .collect()
    }

    /// Runs `job` for each piece of `body`, which holds `n` elements, with the
    /// number of its first element.
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
        // A block of a mantissa plane may be larger than all elements.
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

/// Elements that are decoded and joined at once.
const PIECE_ELEMENTS: usize = 1 << 17;

/// Decodes and joins the elements from `from` on that fill `out`, of `n`.
fn join_fields<E: Engine>(
    engine: &E,
    format: FloatFormat,
    planes: &[Pieces],
    (from, n): (usize, usize),
    out: &mut [u8],
) -> Result<()> {
    let range = from..from + out.len() / format.item_bytes;
    let [mut a, mut b, mut c, mut d, mut e] = [const { Vec::new() }; 5];
    let bits = from / 8..range.end.div_ceil(8);
    let mantissa = |part: usize| range.start + part * n..range.end + part * n;
    let has = |part| part < format.mantissa_bytes();
    let empty = &[][..];
    let fields = Fields {
        signs: planes[0].get(engine, bits, &mut a)?,
        exponents: planes[1].get(engine, range.clone(), &mut b)?,
        mantissas: [
            planes[2].get(engine, mantissa(0), &mut c)?,
            if has(1) {
                planes[2].get(engine, mantissa(1), &mut d)?
            } else {
                empty
            },
            if has(2) {
                planes[2].get(engine, mantissa(2), &mut e)?
            } else {
                empty
            },
        ],
    };
    format.join(&fields, out)
}
