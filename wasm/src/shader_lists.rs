//! Makes the lists with which shaders decode one packed tensor (`wasm/ts/gpu`) from its
//! plan ([`zstn_core::frame::plan`]).
//!
//! All numbers are `u32`, because shaders have no longer integers. Every record states
//! where its bytes go, and the records of a shader are consecutive. Bytes that only the
//! CPU can decode become stored bytes behind the frame.

use alloc::vec;
use alloc::vec::Vec;
use core::mem::size_of;

use js_sys::{Array, Uint8Array, Uint32Array};
use wasm_bindgen::prelude::*;
use zstn_core::catalog::FrameTask;
use zstn_core::frame::plan::{
    Coding, DevicePlan, HuffmanTable, Join, Placement, PlannedPlane, RansTable, Segment, Space,
};
use zstn_core::pure::Pure;
use zstn_core::{Error, Result, bytes};

use crate::conversion::to_js_error;

/// Offset of the frame in the source, in bytes. Shaders read up to eight bytes before a
/// stream.
const FRAME_START: u64 = 8;

/// Number of words before the records.
const HEADER_WORDS: usize = 24;

/// Positions of numbers in the header. `wasm/ts/gpu/wgsl/lists.ts` has the same ones.
mod header {
    /// The number of Huffman codes, and the position of the first one.
    pub const CODES: usize = 0;
    /// The same for each list of segments: Huffman streams; stored bytes, runs and flat
    /// codes; rANS streams.
    pub const SEGMENTS: [usize; 3] = [2, 4, 6];
    /// The position of the first table of frequencies.
    pub const FREQUENCIES: usize = 8;
    /// How planes are joined: 0 if they are not, otherwise the number of the `Join`
    /// plus 1. Then follow the bytes of an element and the number of elements.
    pub const JOIN: usize = 9;
    /// Offsets of up to eight planes in the scratch buffer, in bytes.
    pub const PLANES: usize = 12;
    /// The length of the scratch buffer, in bytes.
    pub const SCRATCH: usize = 21;
    /// Offset in the source of the bytes that the CPU has decoded.
    pub const DECODED: usize = 22;
}

/// Returns `[lists, decoded]` for the tensor that `task` describes and its `stored`
/// bytes: the lists, and the bytes that this function has decoded. Returns undefined if
/// the CPU has to decode the tensor.
#[wasm_bindgen(js_name = shaderLists)]
pub fn shader_lists(task: &[u8], stored: &[u8]) -> Result<Option<Array>, JsValue> {
    let lists = lists(task, stored).map_err(|error| to_js_error(&error))?;
    Ok(lists.map(|(words, decoded)| {
        Array::of2(
            &Uint32Array::from(&words[..]).into(),
            &Uint8Array::from(&decoded[..]).into(),
        )
    }))
}

fn lists(task: &[u8], stored: &[u8]) -> Result<Option<(Vec<u32>, Vec<u8>)>> {
    let mut plan = DevicePlan::new();
    let task = FrameTask::from_bytes(task)?;
    if task.add_to_plan(&Pure, stored, FRAME_START, &mut plan)? != Placement::Device {
        return Ok(None);
    }
    if !is_for_shaders(&plan) {
        return Ok(None);
    }
    let decoded_start = FRAME_START + (stored.len() as u64).next_multiple_of(4);
    let (decoded, starts) = decode_host_segments(&plan, stored, decoded_start)?;
    let mut words = vec![0; HEADER_WORDS];
    for (position, value) in [
        (header::SCRATCH, plan.scratch_len_bytes()),
        (header::DECODED, decoded_start),
    ] {
        words[position] = word(value)?;
    }
    add_join(&plan, &mut words)?;
    words[header::CODES] = word(plan.huffman_tables().len() as u64)?;
    words[header::CODES + 1] = word(words.len() as u64)?;
    let [_, _, _, huffman, rans, ..] = plan.list_bytes();
    add_words(huffman, &mut words);
    words[header::FREQUENCIES] = word(words.len() as u64)?;
    add_words(rans, &mut words);
    for (list, position) in header::SEGMENTS.into_iter().enumerate() {
        words[position + 1] = word(words.len() as u64)?;
        for segment in plan.segments() {
            if list_of(segment) == list {
                words[position] += 1;
                add_segment(&plan, segment, &starts, &mut words)?;
            }
        }
    }
    Ok(Some((words, decoded)))
}

/// Returns whether the shaders can decode a plan: they have no palettes, sparse frames and
/// lattices, and a thread that decodes a long rANS stream would block the device for too
/// long.
fn is_for_shaders(plan: &DevicePlan) -> bool {
    const MAX_SYMBOLS: u32 = 1 << 18;
    let joins = [Join::Bytes, Join::Bfloat16, Join::Float16, Join::Float32];
    let is_joined = |join: u32| joins.iter().any(|&known| known as u32 == join);
    let is_short =
        |segment: &Segment| segment.coding != Coding::Rans as u32 || segment.len <= MAX_SYMBOLS;
    plan.tensors().iter().all(|tensor| is_joined(tensor.join))
        && plan.segments().iter().all(is_short)
}

const _: () = assert!(size_of::<HuffmanTable>() == 4 * 33 && size_of::<RansTable>() == 4 * 128);

/// Decodes the host segments of a plan. Returns their bytes, and the offset of each in
/// the source, where the first one is at `start`.
fn decode_host_segments(
    plan: &DevicePlan,
    stored: &[u8],
    start: u64,
) -> Result<(Vec<u8>, Vec<u64>)> {
    let lens = plan.host_segments().iter().map(|host| host.len);
    let mut decoded = bytes::buffer(lens.fold(0, u64::saturating_add))?;
    let (mut rest, mut starts) = (&mut decoded[..], Vec::new());
    let mut at = start;
    for host in plan.host_segments() {
        let first = host.source.saturating_sub(FRAME_START);
        let coded = bytes::part(stored, first..first.saturating_add(host.source_len));
        // The buffer has the total length of all segments.
        let len = usize::try_from(host.len).unwrap_or(usize::MAX);
        let (out, after) = rest
            .split_at_mut_checked(len)
            .ok_or_else(|| Error::limit("the planes of a tensor are too long"))?;
        host.decode(&Pure, coded, out)?;
        starts.push(at);
        at = at.saturating_add(host.len);
        rest = after;
    }
    Ok((decoded, starts))
}

/// Returns the list of a segment: its index in [`header::SEGMENTS`].
fn list_of(segment: &Segment) -> usize {
    match segment.coding {
        coding if coding == Coding::Huffman as u32 => 0,
        coding if coding == Coding::Rans as u32 => 2,
        _ => 1,
    }
}

/// Adds the record of a segment: offset and number of its coded bytes, where its bytes go
/// and their number, the space, the coding and its parameter.
fn add_segment(
    plan: &DevicePlan,
    segment: &Segment,
    starts: &[u64],
    words: &mut Vec<u32>,
) -> Result<()> {
    let plane = plan.planes().get(segment.plane as usize);
    let plane = plane.ok_or_else(|| Error::invalid_input("a segment has no plane"))?;
    let to = word(plane.at.saturating_add(segment.position))?;
    let mut source = (segment.source, segment.source_len, segment.coding);
    if segment.coding == Coding::Host as u32 {
        let start = starts.get(segment.parameter as usize).copied();
        let start = start.ok_or_else(|| Error::invalid_input("a segment was not decoded"))?;
        source = (start, segment.len, Coding::Stored as u32);
    }
    let (start, coded_len, coding) = source;
    let (space, parameter) = (plane.space, segment.parameter);
    words.extend([
        word(start)?,
        coded_len,
        to,
        segment.len,
        space,
        coding,
        parameter,
    ]);
    Ok(())
}

/// Writes how planes are joined to the header.
fn add_join(plan: &DevicePlan, words: &mut [u32]) -> Result<()> {
    let Some(tensor) = plan.tensors().first() else {
        return Ok(());
    };
    words[header::JOIN] = tensor.join + 1;
    words[header::JOIN + 1] = tensor.item_bytes;
    words[header::JOIN + 2] = word(tensor.elements)?;
    let in_scratch = |plane: &&PlannedPlane| plane.space == Space::Scratch as u32;
    let planes = plan.planes().iter().filter(in_scratch);
    let places = &mut words[header::PLANES..header::SCRATCH];
    for (place, plane) in places.iter_mut().zip(planes) {
        *place = word(plane.at)?;
    }
    Ok(())
}

/// Adds records, whose length is a multiple of four bytes.
fn add_words(records: &[u8], words: &mut Vec<u32>) {
    let (records, _) = records.as_chunks();
    words.extend(records.iter().copied().map(u32::from_le_bytes));
}

fn word(value: u64) -> Result<u32> {
    u32::try_from(value).map_err(|_| Error::limit("a tensor is too long for a shader"))
}
