//! Parser of a frame, which checks everything that can be checked without
//! decoding.

use alloc::format;
use alloc::vec::Vec;

use super::{MAGIC, Transform, VERSION};
use crate::bytes::Cursor;
use crate::engine::Engine;
use crate::frame::family::FrameFamily;
use crate::frame::info::{FrameInfo, body_len};
use crate::frame::numpy::{Extras, dtype, float_format};
use crate::frame::plane::Plane;
use crate::transform::FloatFormat;
use crate::{Error, Result, Rule};

/// A parsed frame whose fields are consistent.
#[derive(Debug, Clone)]
pub struct Frame<'a> {
    pub(super) transform: Transform,
    pub(super) planes: Vec<Plane<'a>>,
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
        self.decode_body(engine, body)
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
