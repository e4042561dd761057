//! Whole containers in memory, for callers without files: tests, benchmarks
//! and WebAssembly.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::integrity::{FileCheck, FrameSums, Integrity, Sums};
use super::{Layout, Prefix, Tail, Writer, single_frame, ties};
use crate::bytes::{self, index as position, part};
use crate::container::safetensors::{self, Header};
use crate::engine::{Engine, PackEngine};
use crate::frame::Stored;
use crate::frame::select::{self, Effort};
use crate::{Error, Result, Rule, limits, order};

/// Packs the safetensors file `file`, with an integrity section.
///
/// A file that breaks an official rule but has a header length within its
/// bounds is stored as a single frame; only what cannot be expressed at all
/// is refused.
pub fn pack<E: PackEngine>(engine: &E, file: &[u8], effort: Effort) -> Result<Vec<u8>> {
    let header_len = safetensors::header_len_bytes(file, file.len() as u64)?;
    let (header, data) = file[8..].split_at(position(header_len));
    let tensors = match Header::parse(header, data.len() as u64) {
        Ok(parsed) if names_fit(&parsed) => parsed.tensors,
        _ => {
            let frame = select::encode(engine, data, None, effort);
            let mut out = single_frame(header, data.len() as u64, frame.len() as u64);
            out.extend_from_slice(&frame);
            return Ok(out);
        }
    };
    let slice = |span: &Range<u64>| part(data, span.clone());
    let lens: Vec<u64> = tensors.iter().map(|t| t.span.end - t.span.start).collect();
    let tensor = |i: usize| slice(&tensors[i].span);
    let ties = ties::find(&lens, tensor, |i| ties::digest([tensor(i)]));

    let (mut writer, mut out) = Writer::new(engine, header, data.len() as u64, true);
    let distinct: Vec<usize> = (0..tensors.len()).filter(|&i| ties[i].is_none()).collect();
    // The digest of the file is one long chain: it comes first, so that other
    // threads code meanwhile.
    let jobs = [None].into_iter().chain(distinct.into_iter().map(Some));
    let mut done = engine
        .map(jobs.collect(), |job| match job {
            None => {
                let mut sums = Sums::new(header);
                sums.data(data);
                Done::File(sums)
            }
            Some(i) => {
                let frame = select::encode(engine, tensor(i), Some(tensors[i].dtype), effort);
                Done::Frame(FrameSums::of(tensor(i), &frame), frame)
            }
        })
        .into_iter();
    let Some(Done::File(mut sums)) = done.next() else {
        unreachable!("results come in the order of the jobs");
    };
    out.reserve_exact(done.as_slice().iter().map(Done::len_bytes).sum());
    for (tensor, tie) in tensors.into_iter().zip(ties) {
        match tie {
            Some(target) => writer.reference(tensor.name, tensor.span, target)?,
            None => {
                let Some(Done::Frame(frame_sums, frame)) = done.next() else {
                    continue;
                };
                sums.frame(frame_sums);
                writer.frame(tensor.name, tensor.span, frame.len() as u64);
                out.extend_from_slice(&frame);
            }
        }
    }
    out.extend_from_slice(&writer.finish(Some(sums))?);
    Ok(out)
}

/// What the jobs of [`pack`] come to.
enum Done {
    File(Sums),
    Frame(FrameSums, Vec<u8>),
}

impl Done {
    fn len_bytes(&self) -> usize {
        match self {
            Self::File(_) => 0,
            Self::Frame(_, frame) => frame.len(),
        }
    }
}

/// Whether a ZSTN index can hold all names of `header`.
pub fn names_fit(header: &Header) -> bool {
    header
        .tensors
        .iter()
        .all(|tensor| tensor.name.len() <= limits::NAME_LEN_BYTES)
}

/// Restores the file that `file` was packed from, byte for byte. Everything is
/// compared with the integrity section, if there is one.
pub fn unpack<E: Engine>(engine: &E, file: &[u8]) -> Result<Vec<u8>> {
    let file_len = file.len() as u64;
    let prefix = Prefix::parse(file, file_len)?;
    match prefix.layout {
        Layout::SingleFrame => unpack_single(engine, file, &prefix),
        Layout::Indexed => unpack_indexed(engine, file, &prefix),
    }
}

fn start_output(file: &[u8], prefix: &Prefix) -> Result<Vec<u8>> {
    let header = part(file, prefix.header.clone());
    let mut out = bytes::buffer(prefix.original_len_bytes())?;
    out[..8].copy_from_slice(&(header.len() as u64).to_le_bytes());
    out[8..8 + header.len()].copy_from_slice(header);
    Ok(out)
}

fn unpack_single<E: Engine>(engine: &E, file: &[u8], prefix: &Prefix) -> Result<Vec<u8>> {
    let frame = single_frame_range(part(file, prefix.end()..file.len() as u64), prefix)?;
    let stored = Stored::parse(part(file, frame.clone()), prefix.data_len_bytes)
        .map_err(|error| error.within(frame.start))?;
    let mut out = start_output(file, prefix)?;
    let data_start = out.len() - position(prefix.data_len_bytes);
    stored.decode(engine, &mut out[data_start..])?;
    Ok(out)
}

/// Where the frame of the single-frame layout lies, from the bytes after the
/// prefix.
pub fn single_frame_range(behind: &[u8], prefix: &Prefix) -> Result<Range<u64>> {
    let mut cursor = bytes::Cursor::new(behind);
    let len = cursor
        .u64("frame length")
        .map_err(|e| e.within(prefix.end()))?;
    if len > cursor.remaining() as u64 {
        return Err(Error::malformed(
            Rule::ZstnFramePlace,
            format!("the frame of {len} bytes reaches past the end of the file"),
        )
        .at(prefix.end()));
    }
    let start = prefix.end() + 8;
    Ok(start..start + len)
}

fn unpack_indexed<E: Engine>(engine: &E, file: &[u8], prefix: &Prefix) -> Result<Vec<u8>> {
    let Tail { index, integrity } = Tail::of_file(prefix, file)?;
    // Every frame is checked to be able to hold its span before the output
    // is allocated: a forged data length costs nothing.
    let mut jobs = Vec::with_capacity(index.records().len());
    for (number, record) in index.records().iter().enumerate() {
        let range = index.frame(number).1;
        let bytes = part(file, range.clone());
        let stored = match &integrity {
            Some(integrity) => integrity.check_stored(number, bytes),
            None => Ok(()),
        }
        .and_then(|()| Stored::parse(bytes, record.span.end - record.span.start))
        .map_err(|error| error.within(range.start).tensor(&record.name))?;
        jobs.push((number, record, stored));
    }
    let jobs = order::sorted(jobs, |(_, record, _)| (record.span.start, record.span.end));

    let mut out = start_output(file, prefix)?;
    let data_start = out.len() - position(prefix.data_len_bytes);
    let (head, mut rest) = out.split_at_mut(data_start);
    let mut file_check = integrity.as_ref().and_then(Integrity::file_check);
    let mut ready: &[u8] = head;
    let mut jobs = jobs.into_iter().peekable();
    while jobs.peek().is_some() || !ready.is_empty() {
        // What the wave before has restored is hashed while this one decodes.
        let mut work = vec![Restore::Digest(file_check.take(), ready)];
        let mut wave_len = 0;
        while let Some((_, record, _)) = jobs.peek() {
            let len = position(record.span.end - record.span.start);
            if wave_len > 0 && wave_len + len > WAVE_BYTES {
                break;
            }
            wave_len += len;
            work.extend(jobs.next().map(Restore::Tensor));
        }
        let (wave, behind) = rest.split_at_mut(wave_len);
        rest = behind;
        let mut spans = &mut *wave;
        let work = work.into_iter().map(|job| {
            let len = match &job {
                Restore::Digest(..) => 0,
                Restore::Tensor((_, record, _)) => position(record.span.end - record.span.start),
            };
            let (span, behind) = core::mem::take(&mut spans).split_at_mut(len);
            spans = behind;
            (job, span)
        });
        let results = engine.map(work.collect(), |(job, span)| match job {
            Restore::Digest(check, bytes) => Ok(check.map(|check| check.with(bytes))),
            Restore::Tensor((number, record, stored)) => stored
                .decode(engine, span)
                .and_then(|()| match &integrity {
                    Some(integrity) => integrity.check_tensor(number, span),
                    None => Ok(()),
                })
                .map(|()| None)
                .map_err(|error| error.tensor(&record.name)),
        });
        for result in results {
            if let Some(check) = result? {
                file_check = Some(check);
            }
        }
        ready = wave;
    }
    file_check.map_or(Ok(()), FileCheck::finish)?;
    Ok(out)
}

/// Restored bytes that are hashed at a time, while others are decoded.
const WAVE_BYTES: usize = 4 << 20;

/// A job of [`unpack`].
enum Restore<'a, T> {
    /// The file's digest goes on over bytes that are complete.
    Digest(Option<FileCheck<'a>>, &'a [u8]),
    Tensor(T),
}
