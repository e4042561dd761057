//! Packs and unpacks whole containers in memory, for callers without files,
//! such as tests, benchmarks and WebAssembly.

use alloc::borrow::Cow;
use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

use super::integrity::{EncodedStatistics, FrameDigests, StatisticsCheck, check_table};
use super::{
    CheckedFrame, ContainerBuilder, ContainerLayout, ContainerOptions, ContainerPrefix,
    ContainerStart, ContainerTail, StoredFrame, aliases, single_frame,
};
use crate::bytes::{self, index as position, part};
use crate::checksum::checksum;
use crate::container::{VERSION_OFFSET_BYTES, safetensors};
use crate::digest;
use crate::engine::{Engine, PackEngine};
use crate::frame::select::EncodedTensor;
use crate::frame::{ContainedFrame, Edition};
use crate::{Error, Result, Rule, TensorRef, sort};

/// Packs the safetensors file `file`, by default with an integrity section.
///
/// A file that breaks an official rule, but whose header length is within
/// bounds, is stored as a single frame.
///
/// # Errors
/// A file without a safetensors header, and, unless the options allow it, a
/// file that ends before its tensors do.
pub fn pack<E: PackEngine>(
    engine: &E,
    file: &[u8],
    options: impl Into<ContainerOptions>,
) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    pack_into(engine, file, options, &mut out)?;
    Ok(out)
}

/// Packs like [`pack`] and overwrites `out`, whose memory is reused. The
/// content of `out` is unspecified after an error.
pub fn pack_into<E: PackEngine>(
    engine: &E,
    file: &[u8],
    options: impl Into<ContainerOptions>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let options = options.into();
    let header_len = safetensors::header_len_bytes(file, file.len() as u64)?;
    let (header, data) = file[8..].split_at(position(header_len));
    let start = ContainerBuilder::start(engine, header, data.len() as u64, &options)?;
    let ContainerStart::Indexed {
        mut builder,
        prefix,
        tensors,
    } = start
    else {
        out.clear();
        out.extend(single_frame(engine, header, data, &options)?.concat());
        return Ok(());
    };
    let tensor = |i: usize| part(data, tensors[i].span.clone());
    let lens: Vec<u64> = tensors.iter().map(|t| t.span.end - t.span.start).collect();
    let probe = |i: usize| {
        let ranges = aliases::probed_ranges(lens[i]).into_iter();
        Ok(checksum(ranges.map(|range| part(tensor(i), range))))
    };
    let aliases = aliases::find(&lens, probe, |i| {
        Ok::<_, Error>(digest::of(engine, tensor(i)))
    })?;
    let distinct: Vec<usize> = (0..tensors.len())
        .filter(|&i| aliases[i].is_none())
        .collect();

    // The file can only be hashed sequentially, so that is started first, and
    // other threads encode meanwhile.
    let ((), frames) = engine.join(
        || builder.original(data),
        || {
            engine.map(distinct, |i| {
                let bytes = tensor(i);
                let tensor = TensorRef::new(bytes, tensors[i].dtype, &tensors[i].shape);
                let frame = EncodedTensor::new(engine, tensor, options.encode);
                // The tensor is still in the processor's cache.
                let digest = options.has_integrity.then(|| digest::of(engine, bytes));
                let statistics = options.has_integrity && options.has_statistics;
                let statistics = statistics.then(|| EncodedStatistics::of(engine, tensor));
                (frame, digest, statistics.flatten())
            })
        },
    );

    let lens: Vec<usize> = frames.iter().map(|(frame, ..)| frame.len_bytes()).collect();
    bytes::resize(out, (prefix.len() + lens.iter().sum::<usize>()) as u64)?;
    let mut rest = out.as_mut_slice();
    let mut next = |len: usize| rest.split_off_mut(..len).unwrap_or_default();
    next(prefix.len()).copy_from_slice(&prefix);
    let outputs = frames.into_iter().zip(&lens);
    let outputs = outputs.map(|(frame, &len)| (frame, next(len)));
    let written = engine.map(outputs.collect(), |((frame, digest, statistics), dest)| {
        frame.write(engine, dest);
        let digests = digest.map(|digest| FrameDigests {
            statistics,
            ..FrameDigests::with_digest(engine, digest, dest)
        });
        StoredFrame {
            len_bytes: dest.len() as u64,
            edition: Edition::of_frame(dest),
            digests,
        }
    });
    let mut written = written.into_iter();
    for (tensor, alias_of) in tensors.into_iter().zip(aliases) {
        match alias_of {
            Some(target) => builder.alias(tensor.name, tensor.span, target)?,
            None => {
                let frame = written.next().unwrap_or_default();
                builder.frame(tensor.name, tensor.span, frame);
            }
        }
    }
    let end = builder.finish()?;
    out[position(VERSION_OFFSET_BYTES)] = end.version;
    out.extend_from_slice(&end.bytes);
    Ok(())
}

/// Restores the file that `file` was packed from, byte for byte. If there is an
/// integrity section, everything is compared with it.
pub fn unpack<E: Engine>(engine: &E, file: &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    unpack_into(engine, file, &mut out)?;
    Ok(out)
}

/// Unpacks like [`unpack`] and overwrites `out`, whose memory is reused. The
/// content of `out` is unspecified after an error.
pub fn unpack_into<E: Engine>(engine: &E, file: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let file_len = file.len() as u64;
    let prefix = ContainerPrefix::parse(file, file_len)?;
    match prefix.layout {
        ContainerLayout::SingleFrame => unpack_single(engine, file, &prefix, out),
        ContainerLayout::Indexed => unpack_indexed(engine, file, &prefix, out),
    }
}

/// Resizes `out` to the length of the original file, writes the header, and
/// returns the space for the data, whose content is unspecified.
fn start_output<'a>(
    file: &[u8],
    prefix: &ContainerPrefix,
    out: &'a mut Vec<u8>,
) -> Result<&'a mut [u8]> {
    let header = part(file, prefix.header.clone());
    let head = prefix.original_head(header);
    bytes::resize(out, prefix.original_len_bytes())?;
    let (dest, data) = out.split_at_mut(head.len());
    dest.copy_from_slice(&head);
    Ok(data)
}

fn unpack_single<E: Engine>(
    engine: &E,
    file: &[u8],
    prefix: &ContainerPrefix,
    out: &mut Vec<u8>,
) -> Result<()> {
    let len_bytes = file.len() as u64;
    let frame = single_frame_range(part(file, prefix.end()..len_bytes), len_bytes, prefix)?;
    let stored = ContainedFrame::parse(
        part(file, frame.clone()),
        prefix.data_len_bytes,
        prefix.edition,
    )
    .map_err(|error| error.within(frame.start))?;
    stored.decode(engine, start_output(file, prefix, out)?)
}

/// Returns the range of the frame in the single-frame layout, in a file of
/// `file_len_bytes`. `after_prefix` begins with the 8 bytes after the prefix.
pub fn single_frame_range(
    after_prefix: &[u8],
    file_len_bytes: u64,
    prefix: &ContainerPrefix,
) -> Result<Range<u64>> {
    let mut cursor = bytes::Cursor::new(after_prefix);
    let len = cursor
        .u64("frame length")
        .map_err(|e| e.within(prefix.end()))?;
    let start = prefix.end() + 8;
    let available = file_len_bytes.saturating_sub(start);
    if len != available {
        let detail = match len > available {
            true => format!("the frame of {len} bytes reaches past the end of the file"),
            false => format!(
                "{} bytes follow the frame: the file is damaged, get it again",
                available - len
            ),
        };
        return Err(Error::malformed(Rule::ZstnFramePlace, detail).at(prefix.end()));
    }
    Ok(start..start + len)
}

fn unpack_indexed<E: Engine>(
    engine: &E,
    file: &[u8],
    prefix: &ContainerPrefix,
    out: &mut Vec<u8>,
) -> Result<()> {
    let tail = ContainerTail::of_file(prefix, file)?;
    let header = part(file, prefix.header.clone());
    prefix.check_virtual_header(header)?;
    let read = |range| Ok::<_, Error>(Cow::Borrowed(part(file, range)));
    let statistics = StatisticsCheck::new(header, prefix, &tail, read)?;
    let ContainerTail { index, integrity } = &tail;
    let integrity = integrity.as_ref();
    // Every frame is checked to be long enough for its span before the output
    // is allocated, so a forged data length cannot cause a large allocation.
    let mut frames = Vec::with_capacity(index.records().len());
    for (number, record) in index.records().iter().enumerate() {
        let range = index.frame(number).1;
        let expected = integrity.map(|integrity| (integrity, number));
        let len_bytes = record.span.end - record.span.start;
        let frame = CheckedFrame::parse(
            part(file, range.clone()),
            len_bytes,
            prefix.edition,
            expected,
        )
        .map_err(|error| error.within(range.start).tensor(&record.name))?;
        frames.push((number, range, frame));
    }
    let span = |number: usize| index.records()[number].span.clone();
    let frames = sort::sorted(frames, |(number, ..)| {
        (span(*number).start, span(*number).end)
    });

    let mut rest = start_output(file, prefix, out)?;
    let jobs = frames.into_iter().map(|frame| {
        let span = span(frame.0);
        let dest = rest.split_off_mut(..position(span.end - span.start));
        (frame, span, dest.unwrap_or_default())
    });
    let restored = engine.map(jobs.collect(), |((number, place, frame), span, dest)| {
        let in_tensor = |error: Error| error.tensor(&index.records()[number].name);
        let decoded = frame.decode(engine, dest);
        decoded.map_err(|error| in_tensor(error.within(place.start)))?;
        statistics.check(engine, &span, dest)?;
        let Some(table) = integrity.and_then(|all| all.table(number)) else {
            return Ok(());
        };
        let in_file = |place: Range<u64>| (place.start, part(file, place));
        let len_bytes = dest.len() as u64;
        let checked = check_table(in_file(table), in_file(place), len_bytes, prefix.edition);
        checked.map_err(in_tensor)
    });
    restored.into_iter().collect::<Result<()>>()?;
    match integrity {
        Some(integrity) => integrity.check_file([out.as_slice()]),
        None => Ok(()),
    }
}
