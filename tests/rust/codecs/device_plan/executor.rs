//! Decodes by the lists of a plan alone, one symbol at a time. It shares no code with
//! the decoder of the core.

use zstn_core::digest;
use zstn_core::engine::Engine;
use zstn_core::frame::plan::{
    Coding, DevicePlan, HuffmanTable, Join, JoinedTensor, NONE, PlannedDigest, RansTable, Segment,
    Space,
};

use super::executor_differences::restore;

/// The record with the lowest index that is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    Segment(usize),
    Tensor(usize),
    Block(usize),
    Digest(usize),
}

const CODINGS: [Coding; 6] = [
    Coding::Stored,
    Coding::Run,
    Coding::Flat,
    Coding::Huffman,
    Coding::Rans,
    Coding::Host,
];
const JOINS: [Join; 7] = [
    Join::Bytes,
    Join::Bfloat16,
    Join::Float16,
    Join::Float32,
    Join::Palette,
    Join::Sparse,
    Join::Lattice,
];

pub fn coding(segment: &Segment) -> Coding {
    CODINGS[segment.coding as usize]
}

/// Decodes all tensors of `plan` into `output`, which contains the tensors of the base, or
/// returns the damaged record and the problem.
///
/// # Panics
/// If a range of the plan exceeds its buffer, or segments do not fill their planes.
pub fn execute<E: Engine>(
    engine: &E,
    plan: &DevicePlan,
    source: &[u8],
    output: &mut [u8],
) -> Result<(), (Damage, String)> {
    let mut scratch = vec![0; index(plan.scratch_len_bytes())];
    let places = plan
        .xors()
        .iter()
        .map(|xor| index(xor.output)..index(xor.output + xor.len));
    let bases: Vec<_> = places
        .map(|place| (place.clone(), output[place].to_vec()))
        .collect();
    let mut next_segment = 0;
    for (number, plane) in plan.planes().iter().enumerate() {
        let buffer = match plane.space {
            space if space == Space::Output as u32 => &mut *output,
            _ => &mut scratch[..],
        };
        let bytes = &mut buffer[index(plane.at)..][..index(plane.len)];
        assert_eq!(plane.first_segment as usize, next_segment);
        next_segment += plane.segments as usize;
        let segments = &plan.segments()[plane.first_segment as usize..next_segment];
        let mut filled = 0;
        for (k, segment) in segments.iter().enumerate() {
            assert_eq!(segment.plane as usize, number);
            assert_eq!(index(segment.position), filled);
            filled += segment.len as usize;
            let out = &mut bytes[index(segment.position)..filled];
            let index = plane.first_segment as usize + k;
            decode(engine, plan, segment, source, out)
                .map_err(|why| (Damage::Segment(index), why))?;
        }
        assert_eq!(filled, bytes.len(), "segments fill their plane");
    }
    assert_eq!(next_segment, plan.segments().len());
    for (number, tensor) in plan.tensors().iter().enumerate() {
        join(plan, tensor, &scratch, output).map_err(|why| (Damage::Tensor(number), why))?;
    }
    for (number, block) in plan.difference_blocks().iter().enumerate() {
        restore(plan, block, source, output).map_err(|why| (Damage::Block(number), why))?;
    }
    for (place, base) in bases {
        let combined = output[place].iter_mut().zip(base);
        combined.for_each(|(byte, base)| *byte ^= base);
    }
    let is_other = |digest: &PlannedDigest| {
        let bytes = &output[index(digest.output)..][..index(digest.len)];
        digest::of_pieces([bytes])[..16] != digest.expected
    };
    match plan.digests().iter().position(is_other) {
        Some(digest) => Err((Damage::Digest(digest), "other bytes".into())),
        None => Ok(()),
    }
}

pub fn index(value: u64) -> usize {
    usize::try_from(value).expect("a position in memory")
}

fn decode<E: Engine>(
    engine: &E,
    plan: &DevicePlan,
    segment: &Segment,
    source: &[u8],
    out: &mut [u8],
) -> Result<(), String> {
    let coded = &source[index(segment.source)..][..segment.source_len as usize];
    let parameter = segment.parameter as usize;
    match coding(segment) {
        Coding::Stored => out.copy_from_slice(coded),
        Coding::Run => out.fill(segment.parameter.to_le_bytes()[0]),
        Coding::Flat => {
            let mut bits = Bits::new(coded)?;
            for symbol in out {
                *symbol = bits.take(segment.parameter)?.to_le_bytes()[0];
            }
            bits.finish()?;
        }
        Coding::Huffman => huffman(&plan.huffman_tables()[parameter], coded, out)?,
        Coding::Rans => rans(&plan.rans_tables()[parameter], coded, out)?,
        Coding::Host => {
            let host = &plan.host_segments()[parameter];
            let coded = &source[index(host.source)..][..index(host.source_len)];
            let decoded = host.decode(engine, coded, out);
            decoded.map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

/// Reads bits from the end of a stream.
struct Bits<'a> {
    bytes: &'a [u8],
    left: usize,
}

impl<'a> Bits<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self, String> {
        let mark = bytes.last().and_then(|last| last.checked_ilog2());
        let mark = mark.ok_or("a stream has no end mark")?;
        let left = 8 * (bytes.len() - 1) + mark as usize;
        Ok(Self { bytes, left })
    }

    fn take(&mut self, bits: u32) -> Result<usize, String> {
        let mut value = 0;
        for _ in 0..bits {
            self.left = self.left.checked_sub(1).ok_or("a stream is too short")?;
            value = value << 1 | usize::from(self.bytes[self.left / 8] >> (self.left % 8) & 1);
        }
        Ok(value)
    }

    fn finish(&self) -> Result<(), String> {
        match self.left {
            0 => Ok(()),
            left => Err(format!("{left} bits are left")),
        }
    }
}

fn huffman(table: &HuffmanTable, coded: &[u8], out: &mut [u8]) -> Result<(), String> {
    // Symbols in the order of their codes; the longest codes come first.
    let weight = |symbol: usize| u32::from(table.weights[symbol / 2] >> (4 * (symbol % 2)) & 15);
    let mut codes = Vec::new();
    for wanted in 1..=table.bits {
        for symbol in (0..256).filter(|&symbol| weight(symbol) == wanted) {
            codes.extend(std::iter::repeat_n(
                (symbol, table.bits + 1 - wanted),
                1 << (wanted - 1),
            ));
        }
    }
    assert_eq!(codes.len(), 1 << table.bits, "a code is complete");
    let mut bits = Bits::new(coded)?;
    for byte in out {
        let mut code = 0;
        let mut len = 0;
        let (symbol, _) = loop {
            code = code << 1 | bits.take(1)?;
            len += 1;
            let found = codes[code << (table.bits - len)];
            if found.1 == len {
                break found;
            }
        };
        *byte = symbol.to_le_bytes()[0];
    }
    bits.finish()
}

const LOWER: u32 = 1 << 23;

fn rans(table: &RansTable, coded: &[u8], out: &mut [u8]) -> Result<(), String> {
    let mut slots = Vec::new();
    for (symbol, &frequency) in table.frequencies.iter().enumerate() {
        let frequency = u32::from(frequency);
        slots.extend((0..frequency).map(|offset| (symbol, frequency, offset)));
    }
    assert_eq!(slots.len(), 1 << 14, "frequencies have their sum");
    let (heads, mut rest) = coded.split_at_checked(16).ok_or("no states")?;
    let mut states: Vec<u32> = heads
        .as_chunks()
        .0
        .iter()
        .map(|head| u32::from_le_bytes(*head))
        .collect();
    if states.iter().any(|state| !(LOWER..1 << 31).contains(state)) {
        return Err("a state is out of range".into());
    }
    for (number, byte) in out.iter_mut().enumerate() {
        let state = &mut states[number % 4];
        let (symbol, frequency, offset) = slots[(*state & 0x3FFF) as usize];
        *state = frequency * (*state >> 14) + offset;
        while *state < LOWER {
            let (&next, after) = rest.split_first().ok_or("a stream is too short")?;
            *state = *state << 8 | u32::from(next);
            rest = after;
        }
        *byte = symbol.to_le_bytes()[0];
    }
    match rest.is_empty() && states.iter().all(|&state| state == LOWER) {
        true => Ok(()),
        false => Err("a stream does not end with its last symbol".into()),
    }
}

fn join(
    plan: &DevicePlan,
    tensor: &JoinedTensor,
    scratch: &[u8],
    output: &mut [u8],
) -> Result<(), String> {
    let planes = &plan.planes()[tensor.first_plane as usize..][..tensor.planes as usize];
    let planes: Vec<&[u8]> = planes
        .iter()
        .map(|plane| {
            assert_ne!(plane.tensor, NONE);
            &scratch[index(plane.at)..][..index(plane.len)]
        })
        .collect();
    let (n, width) = (index(tensor.elements), tensor.item_bytes as usize);
    let out = &mut output[index(tensor.output)..][..n * width];
    let (exponent_bits, mantissa_bits) = match JOINS[tensor.join as usize] {
        Join::Bfloat16 => (8, 7),
        Join::Float16 => (5, 10),
        Join::Float32 => (8, 23),
        Join::Palette => return look_up(&planes, width, out),
        Join::Sparse => return restore_zeros(&planes, width, out),
        Join::Lattice => return multiply(plan, tensor, planes[0], out),
        Join::Bytes => {
            for (k, byte) in out.iter_mut().enumerate() {
                *byte = planes[k % width][k / width];
            }
            return Ok(());
        }
    };
    for (k, element) in out.chunks_mut(width).enumerate() {
        let sign = u64::from(planes[0][k / 8] >> (7 - k % 8) & 1);
        let exponent = u64::from(planes[1][k]);
        let parts = planes[2].len() / n;
        let mantissa = (0..parts)
            .rev()
            .fold(0, |m, part| m << 8 | u64::from(planes[2][part * n + k]));
        if exponent >> exponent_bits != 0 || mantissa >> mantissa_bits != 0 {
            return Err(format!("element {k} has a field that is too wide"));
        }
        let bits = (sign << exponent_bits | exponent) << mantissa_bits | mantissa;
        element.copy_from_slice(&bits.to_le_bytes()[..width]);
    }
    if n % 8 > 0 && planes[0][n / 8] << (n % 8) != 0 {
        return Err("the padding of the signs is not zero".into());
    }
    Ok(())
}

/// Replaces every index of the second plane by its entry in the first one.
fn look_up(planes: &[&[u8]], width: usize, out: &mut [u8]) -> Result<(), String> {
    let index_bytes = planes[1].len() / (out.len() / width);
    let indices = planes[1].chunks(index_bytes);
    for (element, index) in out.chunks_mut(width).zip(indices) {
        let index = index.iter().rev();
        let index = index.fold(0, |index, &byte| index << 8 | usize::from(byte));
        let entry = planes[0].chunks(width).nth(index);
        element.copy_from_slice(entry.ok_or("an index is outside of the codebook")?);
    }
    Ok(())
}

/// Puts values to the places whose bits are set in the first plane. The other planes have
/// the values, or there are none.
fn restore_zeros(planes: &[&[u8]], width: usize, out: &mut [u8]) -> Result<(), String> {
    let (bitmap, values) = planes.split_first().expect("a bitmap");
    let elements = out.len() / width;
    let mut next = 0;
    for (k, element) in out.chunks_mut(width).enumerate() {
        element.fill(0);
        if bitmap[k / 8] >> (7 - k % 8) & 1 == 0 {
            continue;
        }
        for (j, byte) in element.iter_mut().enumerate() {
            let value = match values {
                [whole] => whole.get(next * width + j),
                planes => planes.get(j).and_then(|plane| plane.get(next)),
            };
            *byte = *value.ok_or("a bit of the bitmap has no value")?;
        }
        next += 1;
    }
    let count = match values {
        [whole] => whole.len() / width,
        planes => planes.first().map_or(0, |plane| plane.len()),
    };
    if next != count {
        return Err("a value has no bit".into());
    }
    if !elements.is_multiple_of(8) && bitmap[elements / 8] << (elements % 8) != 0 {
        return Err("the padding of the bitmap is not zero".into());
    }
    Ok(())
}

/// Multiplies the values of symbols by the scales of their groups.
fn multiply(
    plan: &DevicePlan,
    tensor: &JoinedTensor,
    symbols: &[u8],
    out: &mut [u8],
) -> Result<(), String> {
    let lattice = &plan.lattices()[tensor.parameter as usize];
    let columns = lattice.columns as usize;
    let across = columns.div_ceil(lattice.group_columns as usize);
    let elements = out.chunks_mut(tensor.item_bytes as usize);
    for (k, (element, &symbol)) in elements.zip(symbols).enumerate() {
        let row = k / columns / lattice.group_rows as usize;
        let group = row * across + k % columns / lattice.group_columns as usize;
        let group = plan.lattice_groups()[lattice.first_group as usize + group];
        let mut value = f32::from_bits(lattice.values[usize::from(symbol)]);
        if value.is_nan() {
            return Err(format!("symbol {symbol} has no value"));
        }
        if lattice.negative_zero != NONE && lattice.negative_zero != u32::from(symbol) {
            value += f32::from(i16::try_from(group.offset).expect("a small offset"));
        }
        let product = value * f32::from_bits(group.scale);
        match lattice.dtype {
            0 => element.copy_from_slice(&half::bf16::from_f32(product).to_le_bytes()),
            1 => element.copy_from_slice(&half::f16::from_f32(product).to_le_bytes()),
            _ => element.copy_from_slice(&product.to_le_bytes()),
        }
    }
    Ok(())
}
