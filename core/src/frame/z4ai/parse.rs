//! Reading a frame: everything that can be checked without decoding.

use alloc::format;
use alloc::vec::Vec;

use super::{MAGIC, VERSION};
use crate::bytes::Cursor;
use crate::frame::numpy::{Extras, NumPy, dtype, float_format};
use crate::frame::plane::Plane;
use crate::transform::FloatFormat;
use crate::{Error, Result, Rule};

/// How the buffer was split into planes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transform {
    /// One plane, the buffer itself.
    Opaque,
    /// One plane per byte of an element of that many bytes.
    BytePlane(u8),
    /// Sign, exponent and mantissa.
    BitField(FloatFormat),
}

impl Transform {
    /// Returns the word for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Opaque => "opaque",
            Self::BytePlane(_) => "byte-plane",
            Self::BitField(_) => "bit-field",
        }
    }

    /// Returns the number of planes.
    #[must_use]
    pub fn planes(self) -> usize {
        match self {
            Self::Opaque => 1,
            Self::BytePlane(width) => width.into(),
            Self::BitField(_) => 3,
        }
    }

    /// Returns the lengths in bytes of the planes of a buffer of `len_bytes`.
    #[must_use]
    pub fn plane_lens(self, len_bytes: usize) -> Vec<usize> {
        let elements = len_bytes / self.item_bytes();
        match self {
            Self::Opaque | Self::BytePlane(_) => alloc::vec![elements; self.planes()],
            Self::BitField(format) => format.plane_lens(elements).to_vec(),
        }
    }

    /// Returns the bytes of one element.
    #[must_use]
    pub fn item_bytes(self) -> usize {
        match self {
            Self::Opaque => 1,
            Self::BytePlane(width) => width.into(),
            Self::BitField(format) => format.item_bytes,
        }
    }
}

/// A frame whose fields are consistent.
#[derive(Debug, Clone)]
pub struct Frame<'a> {
    pub(super) transform: Transform,
    pub(super) tail: &'a [u8],
    pub(super) planes: Vec<Plane<'a>>,
    numpy: Option<NumPy<'a>>,
    stored_len: usize,
    decoded_len: u64,
}

impl<'a> Frame<'a> {
    /// Reads the frame at the start of `bytes`; offsets in errors count from
    /// there.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(bytes);
        if cursor.take(4, "frame magic")? != MAGIC {
            return Err(Error::malformed(Rule::FrameMagic, "not a Z4AI frame").at(0));
        }
        let version = cursor.u8("frame version")?;
        if version != VERSION {
            return Err(Error::malformed(
                Rule::FrameVersion,
                format!("frame version {version}, only {VERSION} exists"),
            )
            .at(4));
        }
        let flags = cursor.u8("frame flags")?;
        let transform_id = cursor.u8("transform")?;
        let width = cursor.u8("element width")?;
        let plane_count = cursor.u8("plane count")?;
        let dtype = dtype(&mut cursor)?;
        let format = float_format(&mut cursor)?;
        let transform = transform(transform_id, width, format)?;
        let Extras { numpy, tail } = Extras::after_dtype(&mut cursor, flags, dtype)?;

        let expected = match transform {
            Transform::Opaque => 1,
            Transform::BytePlane(width) => width,
            Transform::BitField(_) => 3,
        };
        if plane_count != expected {
            return Err(Error::malformed(
                Rule::FramePlaneCount,
                format!(
                    "{plane_count} planes in a {} frame, which has {expected}",
                    transform.name()
                ),
            )
            .at(8));
        }
        let planes = (0..plane_count)
            .map(|_| Plane::parse(&mut cursor))
            .collect::<Result<Vec<_>>>()?;
        let lens: Vec<u64> = planes.iter().map(Plane::len_bytes).collect();
        let body_len = body_len(transform, &lens)?;
        let decoded_len = body_len
            .checked_add(tail.len() as u64)
            .ok_or_else(|| plane_length("the planes together exceed 64 bits"))?;
        Ok(Self {
            transform,
            tail,
            planes,
            numpy,
            stored_len: cursor.position(),
            decoded_len,
        })
    }

    /// Returns how the buffer was cut.
    #[must_use]
    pub fn transform(&self) -> Transform {
        self.transform
    }

    /// Returns the planes in frame order.
    #[must_use]
    pub fn planes(&self) -> &[Plane<'a>] {
        &self.planes
    }

    /// Returns NumPy's description, if the frame has one.
    #[must_use]
    pub fn numpy(&self) -> Option<&NumPy<'a>> {
        self.numpy.as_ref()
    }

    /// Returns the bytes after the last whole element.
    #[must_use]
    pub fn tail(&self) -> &'a [u8] {
        self.tail
    }

    /// Returns the length of the frame.
    #[must_use]
    pub fn stored_len(&self) -> usize {
        self.stored_len
    }

    /// Returns the length that it decodes to.
    #[must_use]
    pub fn decoded_len_bytes(&self) -> u64 {
        self.decoded_len
    }
}

fn transform(id: u8, width: u8, format: &str) -> Result<Transform> {
    match id {
        0 => Ok(Transform::Opaque),
        1 if width == 0 => Err(Error::malformed(
            Rule::FrameTransform,
            "a byte-plane frame with elements of no bytes",
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

fn plane_length(detail: &'static str) -> Error {
    Error::malformed(Rule::FramePlaneLength, detail)
}

/// Returns the length of what planes of these lengths make together, without
/// the tail. There are as many as the transform makes.
pub(crate) fn body_len(transform: Transform, lens_bytes: &[u64]) -> Result<u64> {
    let first = lens_bytes.first().copied().unwrap_or(0);
    match transform {
        Transform::Opaque => Ok(first),
        Transform::BytePlane(width) => {
            if lens_bytes.iter().any(|&len| len != first) {
                return Err(plane_length("byte planes of unequal length"));
            }
            first
                .checked_mul(width.into())
                .ok_or_else(|| plane_length("the planes together exceed 64 bits"))
        }
        Transform::BitField(format) => {
            let n = lens_bytes[1];
            let mantissas = n.checked_mul(format.mantissa_bytes() as u64);
            if lens_bytes[0] != n.div_ceil(8) || mantissas != Some(lens_bytes[2]) {
                return Err(plane_length(
                    "sign, exponent and mantissa planes do not fit each other",
                ));
            }
            n.checked_mul(format.item_bytes as u64)
                .ok_or_else(|| plane_length("the planes together exceed 64 bits"))
        }
    }
}
