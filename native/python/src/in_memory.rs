//! Functions for data in memory: frames, deltas, and whole safetensors files.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use zstn::zstn_core::TensorRef;
use zstn::zstn_core::bytes::index;
use zstn::zstn_core::catalog::is_other_format;
use zstn::zstn_core::dtype::Dtype;
use zstn::zstn_core::engine::ZstdCoding;
use zstn::zstn_core::frame::select::{self, EncodeOptions};
use zstn::zstn_core::frame::zara::{self, StreamCodec};
use zstn::zstn_core::frame::{Families, Family, Frame, NumPy, describe};
use zstn::zstn_core::frame::{chunked, palette, sparse, turbo};
use zstn::zstn_core::limits::HEAD_LEN_BYTES;
use zstn::zstn_core::transform::FloatFormat;
use zstn::{Effort, Engine, Job, PackOptions, Result, Sink, UnpackOptions};

use crate::arguments::{self, Argument};
use crate::engine::{self, Threads};
use crate::error::{to_python, zstn_error};
use crate::interrupt::run;
use crate::object::Memory;
use crate::progress::Watch;

fn dtype(py: Python<'_>, name: Option<&str>) -> PyResult<Option<Dtype>> {
    let Some(name) = name else {
        return Ok(None);
    };
    let found = Dtype::from_name(name);
    found
        .map(Some)
        .ok_or_else(|| zstn_error(py, format!("{name:?} is not a dtype"), "unsupported"))
}

/// Runs `work` with an engine and returns its bytes. `borrows` is true if `work` reads
/// memory that the caller may change.
fn bytes<'py>(
    py: Python<'py>,
    threads: Threads,
    borrows: bool,
    work: impl FnOnce(&Engine) -> Result<Vec<u8>> + Send + 'static,
) -> PyResult<Bound<'py, PyBytes>> {
    let made = run(py, &Watch::none().borrowing(borrows), move |_| {
        work(&engine::with_threads(threads)?)
    })?;
    Ok(PyBytes::new(py, &made))
}

/// Encodes bytes as a frame. `families` names the allowed frame families:
/// `"standalone"`, `"container"`, or `"plain"` for `Z4AI` only.
#[pyfunction]
pub fn compress<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyAny>,
    dtype: Option<&str>,
    effort: &str,
    families: &str,
    threads: Threads,
) -> PyResult<Bound<'py, PyBytes>> {
    let (data, dtype) = (Memory::new(data)?, self::dtype(py, dtype)?);
    let effort = arguments::effort(effort)?;
    let families = match families {
        "standalone" => Families::STANDALONE,
        "container" => Families::CONTAINER,
        _ => Families::CONTAINER
            .without(Family::Sparse)
            .without(Family::Palette),
    };
    let borrows = data.may_change();
    bytes(py, threads, borrows, move |engine| {
        let options = EncodeOptions::new(effort).families(families);
        let tensor = TensorRef::flat(data.as_slice(), dtype);
        Ok(select::encode(engine, tensor, options))
    })
}

/// Decodes a frame.
#[pyfunction]
pub fn decompress<'py>(
    py: Python<'py>,
    frame: &Bound<'py, PyAny>,
    threads: Threads,
) -> PyResult<Bound<'py, PyBytes>> {
    let frame = Memory::new(frame)?;
    let borrows = frame.may_change();
    bytes(py, threads, borrows, move |engine| {
        zstn::decompress(engine, frame.as_slice())
    })
}

/// Encodes `current` as a delta from `reference`.
#[pyfunction]
pub fn compress_delta<'py>(
    py: Python<'py>,
    current: &Bound<'py, PyAny>,
    reference: &Bound<'py, PyAny>,
    dtype: Option<&str>,
    effort: &str,
    threads: Threads,
) -> PyResult<Bound<'py, PyBytes>> {
    let (current, reference) = (Memory::new(current)?, Memory::new(reference)?);
    let (dtype, effort) = (self::dtype(py, dtype)?, arguments::effort(effort)?);
    let borrows = current.may_change() || reference.may_change();
    bytes(py, threads, borrows, move |engine| {
        let (current, reference) = (current.as_slice(), reference.as_slice());
        zstn::compress_delta(engine, current, reference, dtype, effort)
    })
}

/// Decodes a delta from `reference`.
#[pyfunction]
pub fn decompress_delta<'py>(
    py: Python<'py>,
    delta: &Bound<'py, PyAny>,
    reference: &Bound<'py, PyAny>,
    threads: Threads,
) -> PyResult<Bound<'py, PyBytes>> {
    let (delta, reference) = (Memory::new(delta)?, Memory::new(reference)?);
    let borrows = delta.may_change() || reference.may_change();
    bytes(py, threads, borrows, move |engine| {
        zstn::decompress_delta(engine, delta.as_slice(), reference.as_slice())
    })
}

/// Encodes a safetensors file as a delta from another one.
#[pyfunction]
pub fn model_delta_pack<'py>(
    py: Python<'py>,
    target: &Bound<'py, PyAny>,
    base: &Bound<'py, PyAny>,
    effort: &str,
    threads: Threads,
) -> PyResult<Bound<'py, PyBytes>> {
    let (target, base) = (Memory::new(target)?, Memory::new(base)?);
    let effort = arguments::effort(effort)?;
    let borrows = target.may_change() || base.may_change();
    bytes(py, threads, borrows, move |engine| {
        zstn::model_delta::compress(engine, target.as_slice(), base.as_slice(), effort)
    })
}

/// Restores a safetensors file from its delta.
#[pyfunction]
pub fn model_delta_unpack<'py>(
    py: Python<'py>,
    delta: &Bound<'py, PyAny>,
    base: &Bound<'py, PyAny>,
    threads: Threads,
) -> PyResult<Bound<'py, PyBytes>> {
    let (delta, base) = (Memory::new(delta)?, Memory::new(base)?);
    let borrows = delta.may_change() || base.may_change();
    bytes(py, threads, borrows, move |engine| {
        zstn::model_delta::decompress(engine, delta.as_slice(), base.as_slice())
    })
}

/// Frame families that z4ai writes only through their own modules.
#[derive(Clone, Copy)]
enum Only {
    Sparse,
    Palette,
    Turbo(turbo::TurboTransform),
    Chunked(u32),
}

/// Encodes elements of `width` bytes as a frame of the given family. Returns `None` if
/// there are too many distinct values for a palette.
#[pyfunction]
pub fn compress_as<'py>(
    py: Python<'py>,
    family: &str,
    data: &Bound<'py, PyAny>,
    width: u8,
    chunk_bytes: u32,
    threads: Threads,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let only = match (family, width) {
        ("sparse", 1 | 2 | 4 | 8) => Only::Sparse,
        ("palette", 2 | 4 | 8) => Only::Palette,
        ("turbo", 1) => Only::Turbo(turbo::TurboTransform::Opaque),
        ("turbo", 2..) => Only::Turbo(turbo::TurboTransform::BytePlane),
        ("chunked", 1..) => Only::Chunked(chunk_bytes.max(1)),
        _ => {
            return Err(PyValueError::new_err(format!(
                "{family} frames cannot have elements of {width} bytes"
            )));
        }
    };
    let data = Memory::new(data)?;
    let watch = Watch::none().borrowing(data.may_change());
    let made = run(py, &watch, move |_| {
        let engine = &engine::with_threads(threads)?;
        let data = data.as_slice();
        let codings = &[ZstdCoding::Search(3), ZstdCoding::Long(3)];
        Ok(match only {
            Only::Sparse => {
                let planes = match width {
                    1 => turbo::TurboTransform::Opaque,
                    _ => turbo::TurboTransform::BytePlane,
                };
                Some(sparse::encode(engine, data, width, planes, codings))
            }
            Only::Palette => palette::encode(engine, data, width, 1 << 16, codings),
            Only::Turbo(transform) => Some(turbo::encode(engine, data, width, transform, codings)),
            Only::Chunked(len) => Some(chunked::encode(engine, data, width, len, codings)),
        })
    })?;
    Ok(made.map(|frame| PyBytes::new(py, &frame)))
}

/// Returns the smallest of the `ZARA` frames that this effort tries. `format` is the
/// name of the float format, for the transforms that separate the fields of floats.
#[pyfunction]
pub fn compress_auto<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyAny>,
    width: u8,
    format: Option<&str>,
    effort: &str,
    threads: Threads,
) -> PyResult<Bound<'py, PyBytes>> {
    let (level, brotli) = match arguments::effort(effort)? {
        Effort::Fast => (3, None),
        Effort::Balanced => (12, Some(9)),
        _ => (19, Some(11)),
    };
    let format = format.and_then(|name| FloatFormat::by_name(name.as_bytes()));
    let mut transforms = vec![zara::ZaraTransform::BytePlane(width.max(1))];
    let mut codecs = vec![
        StreamCodec::Zstd(ZstdCoding::Search(level)),
        StreamCodec::Zstd(ZstdCoding::Long(level)),
    ];
    if let Some(quality) = brotli {
        transforms.push(zara::ZaraTransform::Raw(width));
        transforms.extend(format.map(zara::ZaraTransform::BitField));
        transforms.extend(format.map(zara::ZaraTransform::BitPack));
        codecs.push(StreamCodec::Rans);
        codecs.push(StreamCodec::BrotliBlocks {
            quality,
            block_bytes: 1 << 20,
        });
    }
    let data = Memory::new(data)?;
    let borrows = data.may_change();
    bytes(py, threads, borrows, move |engine| {
        let frames = transforms
            .into_iter()
            .map(|transform| zara::encode(engine, data.as_slice(), transform, &codecs));
        Ok(frames.min_by_key(Vec::len).unwrap_or_default())
    })
}

/// Returns the family of a frame, its decoded length, and the NumPy dtype and shape if
/// it was made from an array.
#[pyfunction]
#[expect(clippy::type_complexity, reason = "a tuple for Python")]
pub fn inspect_frame(
    py: Python<'_>,
    frame: &Bound<'_, PyAny>,
) -> PyResult<(&'static str, u64, Option<(String, Vec<u64>)>)> {
    let frame = Memory::new(frame)?;
    let bytes = frame.as_slice();
    let parsed = Frame::parse(bytes).map_err(|error| to_python(py, error.into()))?;
    let family = Family::recognise(bytes).map_or("", Family::name);
    let array = parsed.numpy();
    let array = array.map(|array| (array.dtype.to_owned(), array.shape.clone()));
    Ok((family, parsed.decoded_len_bytes(), array))
}

/// Adds the dtype and shape of a NumPy array to a frame.
#[pyfunction]
pub fn describe_frame<'py>(
    py: Python<'py>,
    frame: &Bound<'py, PyAny>,
    dtype: &str,
    shape: Vec<u64>,
) -> PyResult<Bound<'py, PyBytes>> {
    let frame = Memory::new(frame)?;
    let array = NumPy { dtype, shape };
    let described = describe(frame.as_slice(), &array);
    let described = described.map_err(|error| to_python(py, error.into()))?;
    Ok(PyBytes::new(py, &described))
}

/// Packs a safetensors file in memory. Files of other formats are refused.
#[pyfunction]
pub fn pack_bytes<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyAny>,
    effort: &str,
    threads: Threads,
) -> PyResult<Bound<'py, PyBytes>> {
    let memory = Memory::new(data)?;
    let (file, head_len) = (memory.as_slice(), index(HEAD_LEN_BYTES));
    let head = &file[..file.len().min(head_len)];
    if is_other_format("", head, file.len() as u64) {
        let message = "this is not a safetensors file; zstn.pack takes files of any format";
        return Err(zstn_error(py, message.into(), "unsupported"));
    }
    let argument = Argument::new(data, None)?;
    let (input, borrows) = (argument.input, argument.borrows);
    let effort = arguments::effort(effort)?;
    bytes(py, threads, borrows, move |engine| {
        let options = PackOptions::default().effort(effort);
        let mut packed = Vec::new();
        let job = Job::new().engine(engine);
        zstn::pack(&job, &input, Sink::writer(&mut packed), &options)?;
        Ok(packed)
    })
}

/// Restores the safetensors file from a packed file in memory.
#[pyfunction]
pub fn unpack_bytes<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyAny>,
    threads: Threads,
) -> PyResult<Bound<'py, PyBytes>> {
    let argument = Argument::new(data, None)?;
    let (input, borrows) = (argument.input, argument.borrows);
    bytes(py, threads, borrows, move |engine| {
        let mut restored = Vec::new();
        let sink = Sink::writer(&mut restored);
        let job = Job::new().engine(engine);
        zstn::unpack(&job, &input, sink, &UnpackOptions::default())?;
        Ok(restored)
    })
}
