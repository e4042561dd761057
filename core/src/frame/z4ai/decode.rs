//! Planes back to the buffer.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use super::{Frame, Transform};
use crate::bytes;
use crate::engine::Engine;
use crate::frame::plane::Plane;
use crate::transform::byteplane;
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
                let planes = self.decode_planes(engine)?;
                let views: Vec<&[u8]> = planes.iter().map(AsRef::as_ref).collect();
                byteplane::join(&views, body);
                Ok(())
            }
            Transform::BitField(format) => {
                let planes = self.decode_planes(engine)?;
                format.join([&planes[0], &planes[1], &planes[2]], body)
            }
        }
    }

    fn decode_planes<E: Engine>(&self, engine: &E) -> Result<Vec<Cow<'_, [u8]>>> {
        let planes: Vec<&Plane> = self.planes.iter().collect();
        engine
            .map(planes, |plane| plane.decode(engine))
            .into_iter()
            .collect()
    }
}
