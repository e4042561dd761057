//! The registry of frame families. To add one, implement [`FrameFamily`] in a
//! module and list it at the end of this file.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::family::{FLAG, FrameFamily as _, FrameInfo, NumPy};
use super::{chunked, intervals, lattice, palette, sparse, turbo, z4ai, zara};
use crate::engine::Engine;
use crate::{Error, Result, Rule};

macro_rules! families {
    ($(
        $(#[$doc:meta])*
        $family:ident: $module:ident, $name:literal $(if $feature:tt)?;
    )*) => {
        /// The frame families, distinguished by their magic.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Family { $( $(#[$doc])* $family, )* }

        impl Family {
            /// Every family. [`Family::recognise`] tries their magics in this
            /// order.
            pub const ALL: &[Self] = &[ $( Self::$family, )* ];

            /// Returns the magic, the first bytes of a frame.
            #[must_use]
            pub fn magic(self) -> &'static [u8] {
                match self { $( Self::$family => $module::MAGIC, )* }
            }

            /// Returns the magic and a descriptive word, for messages.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $( Self::$family => $name, )* }
            }
        }

        /// A frame of any family whose fields are consistent.
        #[derive(Debug, Clone)]
        #[non_exhaustive]
        pub enum Frame<'a> { $( $(#[$doc])* $(#[cfg(feature = $feature)])? $family($module::Frame<'a>), )* }

        impl<'a> Frame<'a> {
            fn parse_as(family: Family, bytes: &'a [u8]) -> Result<Self> {
                match family {
                    $( $(#[cfg(feature = $feature)])?
                    Family::$family => $module::Frame::parse(bytes).map(Self::$family), )*
                    #[allow(unreachable_patterns)]
                    _ => Err(Error::left_out()),
                }
            }

            /// Returns the fields that every family has: NumPy description,
            /// tail, stored length and decoded length.
            #[must_use]
            pub fn info(&self) -> &FrameInfo<'a> {
                match self { $( $(#[cfg(feature = $feature)])? Self::$family(frame) => frame.info(), )* }
            }

            /// Decodes into `out`.
            ///
            /// # Errors
            /// [`ErrorKind::InvalidInput`](crate::ErrorKind) if the length of
            /// `out` differs from the decoded length, and errors for damage
            /// that `parse` could not detect.
            pub fn decode<E: Engine>(&self, engine: &E, out: &mut [u8]) -> Result<()> {
                let body = self.info().start(out)?;
                match self {
                    $( $(#[cfg(feature = $feature)])?
                    Self::$family(frame) => frame.join(engine, frame.streams(engine)?, body), )*
                }
            }

            /// Decodes into a new buffer.
            pub fn decompress<E: Engine>(&self, engine: &E) -> Result<Vec<u8>> {
                match self { $( $(#[cfg(feature = $feature)])? Self::$family(frame) => frame.decompress(engine), )* }
            }
        }
    };
}

/// A set of frame families.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Families(u32);

impl Families {
    /// The families that z4ai reads inside a container
    /// (docs/formats/z4ai-containers.md 0).
    pub const CONTAINER: Self = Self::NONE
        .with(Family::Z4ai)
        .with(Family::Sparse)
        .with(Family::Palette);

    /// The families whose frames z4ai reads as files of their own.
    pub const STANDALONE: Self = Self::CONTAINER.with(Family::Zara);

    /// The families of a container of the extended edition, which z4ai does not read.
    pub(crate) const EXTENDED: Self = Self::CONTAINER
        .with(Family::Lattice)
        .with(Family::Intervals);

    const NONE: Self = Self(0);

    /// Returns the set with `family` in it.
    #[must_use]
    pub const fn with(self, family: Family) -> Self {
        Self(self.0 | 1 << family as u32)
    }

    /// Returns the set without `family`. Encoders use `Z4AI` even if it is not in
    /// the set.
    #[must_use]
    pub const fn without(self, family: Family) -> Self {
        Self(self.0 & !(1 << family as u32))
    }

    /// Returns whether `family` is in the set.
    #[must_use]
    pub fn contains(self, family: Family) -> bool {
        self.0 & (1 << family as u32) != 0
    }
}

impl Default for Families {
    fn default() -> Self {
        Self::CONTAINER
    }
}

impl Family {
    /// Returns the family of a frame that starts with `bytes`.
    #[must_use]
    pub fn recognise(bytes: &[u8]) -> Option<Self> {
        let mut families = Self::ALL.iter().copied();
        families.find(|family| bytes.starts_with(family.magic()))
    }
}

impl<'a> Frame<'a> {
    /// Parses the frame at the start of `bytes` and checks everything that can
    /// be checked without decoding. Other data may follow the frame.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        if let Some(family) = Family::recognise(bytes) {
            return Self::parse_as(family, bytes);
        }
        let is_cut_off = |family: &Family| family.magic().starts_with(bytes);
        if Family::ALL.iter().any(is_cut_off) {
            return Err(Error::malformed(Rule::Truncated, "the frame ends inside its magic").at(0));
        }
        let detail = format!(
            "no frame starts here: its first bytes are {}",
            printable(&bytes[..bytes.len().min(4)])
        );
        Err(Error::malformed(Rule::FrameMagic, detail).at(0))
    }

    /// Returns NumPy's description of the array, if the frame has one.
    #[must_use]
    pub fn numpy(&self) -> Option<&NumPy<'a>> {
        self.info().numpy()
    }

    /// Returns the length of the frame in bytes.
    #[must_use]
    pub fn stored_len(&self) -> usize {
        self.info().stored_len()
    }

    /// Returns the length of the decoded content in bytes.
    #[must_use]
    pub fn decoded_len_bytes(&self) -> u64 {
        self.info().decoded_len_bytes()
    }
}

/// Formats `bytes` for a message: as quoted text if possible, otherwise in hex.
pub(crate) fn printable(bytes: &[u8]) -> String {
    match core::str::from_utf8(bytes) {
        Ok(text) if !text.is_empty() && text.chars().all(|c| !c.is_control()) => {
            format!("\"{text}\"")
        }
        _ if bytes.is_empty() => "missing".into(),
        _ => {
            let mut out = String::new();
            for byte in bytes {
                out.push_str(&format!("{byte:02X} "));
            }
            out.pop();
            out
        }
    }
}

/// Returns a copy of `frame` with the description `array` added. The frame must
/// not have one yet. Only the families of standalone files
/// ([`Families::STANDALONE`](super::Families::STANDALONE)) have fields for it.
#[inline] // instantiated only in programs that call it, which are few
pub fn describe(frame: &[u8], array: &NumPy) -> Result<Vec<u8>> {
    let refuse = |detail: &str| Error::invalid_input(format!("the frame {detail}"));
    let parsed = Frame::parse(frame)?;
    // Offsets of the flags, of the dtype length and of the dimension count.
    let (flags_at, dtype_at, dimensions_at) = match Family::recognise(frame) {
        Some(Family::Z4ai) => (5, 9, 11 + usize::from(frame[10])),
        Some(Family::Zara) => {
            let after_format = 18 + usize::from(frame[9]);
            (5, after_format, after_format + 1)
        }
        Some(Family::Sparse) => (6, 28, 29),
        Some(Family::Palette) => (6, 24, 25),
        _ => return Err(refuse("cannot hold the description of an array")),
    };
    if parsed.numpy().is_some() || frame[dtype_at] != 0 || frame[dimensions_at] != 0 {
        return Err(refuse("describes an array already"));
    }
    let (Ok(dtype_len), Ok(dimensions), true) = (
        u8::try_from(array.dtype.len()),
        u8::try_from(array.shape.len()),
        array.dtype.is_ascii(),
    ) else {
        return Err(refuse(
            "cannot describe this array: its dtype or shape is too long",
        ));
    };
    let shape = array.shape.iter().flat_map(|length| length.to_le_bytes());
    let mut out = frame[..dtype_at].to_vec();
    out[flags_at] |= FLAG;
    out.push(dtype_len);
    let is_dtype_first = match parsed {
        Frame::Z4ai(_) => true,
        #[cfg(feature = "standalone-frames")]
        Frame::Zara(_) => true,
        _ => false,
    };
    if is_dtype_first {
        out.extend_from_slice(array.dtype.as_bytes());
        out.extend_from_slice(&frame[dtype_at + 1..dimensions_at]);
        out.push(dimensions);
    } else {
        out.push(dimensions);
        out.extend_from_slice(array.dtype.as_bytes());
    }
    out.extend(shape);
    out.extend_from_slice(&frame[dimensions_at + 1..]);
    Ok(out)
}

// If one magic is a prefix of another, the longer one must come first.
families! {
    /// `Z4AIMF01`: byte planes, stored chunk by chunk.
    Chunked: chunked, "Z4AIMF01 (chunked)" if "standalone-frames";
    /// `Z4AI`: the general frame.
    Z4ai: z4ai, "Z4AI";
    /// `ZSP1`: a buffer of mostly zeros.
    Sparse: sparse, "ZSP1 (sparse)";
    /// `ZPL1`: a buffer with few distinct values.
    Palette: palette, "ZPL1 (palette)";
    /// `ZARA`: z4ai's format for its higher efforts.
    Zara: zara, "ZARA (auto)" if "standalone-frames";
    /// `ZRT1`: the values inside a `ZSP1` frame.
    Turbo: turbo, "ZRT1 (turbo)";
    /// `ZXQ1`: elements that are values of a small grid times the scale of their group.
    /// Only containers of the extended edition may contain this family.
    Lattice: lattice, "ZXQ1 (lattice)" if "extensions";
    /// `ZXI1`: numbers in intervals. Only containers of the extended edition may contain this
    /// family.
    Intervals: intervals, "ZXI1 (intervals)" if "extensions";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_read_back_and_decoding_ignores_them() {
        // An opaque frame of one stored byte (3.1).
        let mut frame = b"Z4AI\x01\0\0\x01\x01\0\0\0\0\0\0\0\0".to_vec();
        frame.extend_from_slice(&1u64.to_le_bytes());
        frame.extend_from_slice(&1u64.to_le_bytes());
        frame.push(7);
        let array = NumPy {
            dtype: "|u1",
            shape: [1, 1].into(),
        };
        let described = describe(&frame, &array).unwrap();
        let parsed = Frame::parse(&described).unwrap();
        assert_eq!(parsed.numpy(), Some(&array));
        assert_eq!(parsed.decoded_len_bytes(), 1);
        assert_eq!(parsed.stored_len(), described.len());
        // A second description is refused.
        assert!(describe(&described, &array).is_err());
    }
}
