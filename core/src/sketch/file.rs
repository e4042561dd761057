//! The file format of sketches (docs/formats/sketch.md 1).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::{MAX_FILE_BYTES, Sketch, SketchedTensor};
use crate::bytes::{self, Cursor};
use crate::checksum::agrees;
use crate::container::model_delta::{ShortDigest, short_digest};
use crate::dtype::Dtype;
use crate::engine::{Engine, PackEngine};
use crate::frame::select::{self, Effort};
use crate::frame::{ContainedFrame, Edition};
use crate::limits::{DIMENSIONS, HEADER_LEN_BYTES};
use crate::{Error, Result, Rule, TensorRef, sketch};

/// The first bytes of the file.
pub(crate) const MAGIC: [u8; 8] = *b"ZSTNSKCH";
const VERSION: u8 = 1;

/// The largest number of bytes that a frame may decode to per stored byte, in
/// addition to [`FREE_BYTES`]. Sampled weights shrink by a half, tensors of
/// zeros by a factor of 1000.
const BYTES_PER_BYTE: u64 = 4096;
const FREE_BYTES: u64 = 64 << 10;

const HAS_DIGEST: u8 = 1;

impl Sketch {
    /// Returns the bytes of the file. Equal sketches give equal bytes.
    pub fn to_bytes<E: PackEngine>(&self, engine: &E) -> Vec<u8> {
        let mut directory = self.original_len_bytes.to_le_bytes().to_vec();
        directory.push(u8::from(self.base.is_some()));
        directory.extend_from_slice(&self.base.unwrap_or_default());
        directory.extend_from_slice(&(self.tensors.len() as u64).to_le_bytes());
        for tensor in &self.tensors {
            write_tensor(tensor, &mut directory);
        }
        let mut rest = (directory.len() as u64).to_le_bytes().to_vec();
        write_frame(engine, &directory, None, &mut rest);
        for dtype in Dtype::ALL {
            let tensors = self.tensors.iter().filter(|tensor| tensor.dtype == dtype);
            let samples: Vec<u8> = tensors.flat_map(|t| t.samples.iter().copied()).collect();
            if !samples.is_empty() {
                write_frame(engine, &samples, Some(dtype), &mut rest);
            }
        }
        [&MAGIC[..], &[VERSION], &short_digest([&rest[..]]), &rest].concat()
    }

    /// Parses the bytes of a file.
    ///
    /// # Errors
    /// [`Rule::SketchMagic`] and [`Rule::SketchVersion`] for other files;
    /// [`Rule::SketchDigest`], [`Rule::SketchLayout`] and the rules of frames
    /// for damaged or forged ones.
    pub fn parse<E: Engine>(engine: &E, file: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new(file);
        cursor.expect_magic(&MAGIC, Rule::SketchMagic, "sketch")?;
        cursor.expect_version(VERSION, Rule::SketchVersion, "sketch")?;
        let digest: ShortDigest = cursor.array("digest of the sketch")?;
        if !agrees(digest, short_digest([cursor.rest()])) {
            let detail = "the sketch does not match its digest: it is damaged, make it again";
            return Err(Error::malformed(Rule::SketchDigest, detail).at(9));
        }
        let at = cursor.position() as u64;
        let directory_len = cursor.u64("length of the directory")?;
        if directory_len > HEADER_LEN_BYTES {
            let detail = format!("a directory of {directory_len} bytes");
            return Err(Error::malformed(Rule::SketchLayout, detail).at(at));
        }
        let mut room = MAX_FILE_BYTES;
        let directory = read_frame(engine, &mut cursor, directory_len, &mut room)?;
        let mut sketch = Self::from_directory(&directory)?;
        for dtype in Dtype::ALL {
            let lens = sketch.tensors.iter().filter(|tensor| tensor.dtype == dtype);
            let lens = lens.map(|tensor| sketch::sample_len_bytes(dtype, tensor.len_bytes));
            let len = lens.fold(0, u64::saturating_add);
            if len == 0 {
                continue;
            }
            let samples = read_frame(engine, &mut cursor, len, &mut room)?;
            let mut rest = &samples[..];
            for tensor in sketch.tensors.iter_mut().filter(|t| t.dtype == dtype) {
                let len = bytes::index(sketch::sample_len_bytes(dtype, tensor.len_bytes));
                let (own, others) = rest.split_at(len);
                (tensor.samples, rest) = (own.to_vec(), others);
            }
        }
        match cursor.remaining() {
            0 => Ok(sketch),
            more => {
                let detail = format!("{more} bytes follow the last frame");
                Err(Error::malformed(Rule::SketchLayout, detail).at(cursor.position() as u64))
            }
        }
    }

    /// Parses the directory. The tensors do not have their samples yet.
    fn from_directory(directory: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new(directory);
        let original_len_bytes = cursor.u64("length of the checkpoint")?;
        let has_base = cursor.u8("mark of a base")?;
        let base = cursor.array("identity of the base")?;
        if has_base > 1 || (has_base == 0 && base != ShortDigest::default()) {
            return Err(bad("neither a base nor none"));
        }
        let count = cursor.u64("number of tensors")?;
        let mut tensors: Vec<SketchedTensor> = Vec::new();
        for _ in 0..count {
            let tensor = read_tensor(&mut cursor)?;
            if tensors.last().is_some_and(|last| last.name >= tensor.name) {
                let detail = "the tensors are not in the order of their names";
                return Err(bad(detail).tensor(&tensor.name));
            }
            tensors.push(tensor);
        }
        if cursor.remaining() > 0 {
            return Err(bad("bytes follow the last tensor of the directory"));
        }
        Ok(Self {
            original_len_bytes,
            base: (has_base == 1).then_some(base),
            tensors,
        })
    }
}

/// Appends the directory entry of a tensor.
pub(super) fn write_tensor(tensor: &SketchedTensor, out: &mut Vec<u8>) {
    let dtypes = 0u8..;
    let number = dtypes.zip(Dtype::ALL).find(|(_, d)| *d == tensor.dtype);
    let flags = if tensor.digest.is_some() {
        HAS_DIGEST
    } else {
        0
    };
    out.extend_from_slice(&(tensor.name.len() as u64).to_le_bytes());
    out.extend_from_slice(tensor.name.as_bytes());
    out.extend_from_slice(&[number.map_or(0, |(number, _)| number), flags]);
    out.extend_from_slice(&(tensor.shape.len() as u64).to_le_bytes());
    for len in &tensor.shape {
        out.extend_from_slice(&len.to_le_bytes());
    }
    out.extend_from_slice(tensor.digest.as_ref().map_or(&[], |digest| &digest[..]));
}

fn read_tensor(cursor: &mut Cursor) -> Result<SketchedTensor> {
    let len = cursor.u64("length of a name")?;
    let name = cursor.take(len, "name of a tensor")?;
    let name = str::from_utf8(name).map_err(|_| bad("the name of a tensor is not UTF-8"))?;
    let mut entry = || -> Result<SketchedTensor> {
        let number = cursor.u8("dtype of a tensor")?;
        let Some(&dtype) = Dtype::ALL.get(usize::from(number)) else {
            return Err(bad(format!("there is no dtype {number}")));
        };
        let flags = cursor.u8("flags of a tensor")?;
        if flags & !HAS_DIGEST != 0 {
            return Err(bad(format!("unknown flags {flags:#x}")));
        }
        let dimensions = cursor.u64("number of dimensions")?;
        if dimensions > DIMENSIONS as u64 {
            return Err(Error::dimensions());
        }
        let mut shape = Vec::new();
        for _ in 0..dimensions {
            shape.push(cursor.u64("dimension")?);
        }
        let digest = match flags & HAS_DIGEST {
            0 => None,
            _ => Some(cursor.array("digest of a tensor")?),
        };
        let Some(len_bytes) = super::len_bytes(dtype, &shape) else {
            return Err(bad("no tensor has this shape"));
        };
        Ok(SketchedTensor {
            name: String::from(name),
            dtype,
            shape,
            digest,
            len_bytes,
            samples: Vec::new(),
        })
    };
    entry().map_err(|error| error.tensor(name))
}

/// Appends the length of a frame and the frame.
fn write_frame<E: PackEngine>(engine: &E, data: &[u8], dtype: Option<Dtype>, out: &mut Vec<u8>) {
    let frame = select::encode(engine, TensorRef::flat(data, dtype), Effort::Balanced);
    out.extend_from_slice(&(frame.len() as u64).to_le_bytes());
    out.extend_from_slice(&frame);
}

/// Decodes the next frame, which must hold `len_bytes` bytes. `room` is the
/// number of bytes that the remaining frames of the file may decode to; the
/// length is subtracted from it.
fn read_frame<E: Engine>(
    engine: &E,
    cursor: &mut Cursor,
    len_bytes: u64,
    room: &mut u64,
) -> Result<Vec<u8>> {
    let stored_len = cursor.u64("length of a frame")?;
    let at = cursor.position() as u64;
    let stored = cursor.take(stored_len, "frame")?;
    let earned = FREE_BYTES.saturating_add(stored_len.saturating_mul(BYTES_PER_BYTE));
    if len_bytes > earned {
        let detail =
            format!("{stored_len} bytes cannot decode to the {len_bytes} that are expected");
        return Err(bad(detail).at(at));
    }
    let Some(rest) = room.checked_sub(len_bytes) else {
        let detail = format!("a sketch has at most {MAX_FILE_BYTES} bytes");
        return Err(Error::limit(detail).at(at));
    };
    *room = rest;
    let frame = ContainedFrame::parse(stored, len_bytes, Edition::Plain)
        .map_err(|error| error.within(at))?;
    if frame.frame().stored_len() != stored.len() {
        return Err(bad("bytes follow a frame").at(at));
    }
    let mut out = bytes::buffer(len_bytes)?;
    frame
        .decode(engine, &mut out)
        .map_err(|error| error.within(at))?;
    Ok(out)
}

fn bad(detail: impl Into<alloc::borrow::Cow<'static, str>>) -> Error {
    Error::malformed(Rule::SketchLayout, detail)
}
