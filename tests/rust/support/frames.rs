//! Builds `ZXD1` and `ZXQ1` frames field by field, straight from docs/formats. Readers
//! must accept more combinations of fields than the encoder writes.

#![allow(missing_docs)] // the fields are named as in the format description

use half::bf16;
use zstn_core::container::zstn::integrity::checksum;
use zstn_core::entropy::bits::BitWriter;
use zstn_core::entropy::interleaved::{EncodeTables, Frequencies, encode, encode_side_stream};

/// The fields of a `ZXD1` frame that a writer can choose freely (docs/formats/zxd1.md).
#[derive(Debug, Clone)]
pub struct DifferenceFrame {
    /// Dtype code: 0 for bfloat16, 1 for float16, 2 for float32.
    pub dtype: u8,
    pub states: usize,
    pub group: usize,
    pub block: usize,
    /// First and last context that have a coding.
    pub contexts: [usize; 2],
    /// One code per group.
    pub codes: Vec<u8>,
    pub means: Option<[i32; 64]>,
    /// Table and shift of each context, from the first context to the last.
    pub codings: Vec<(u16, u16)>,
    pub low_rank: Option<LowRankFields>,
}

/// A low-rank product that is added to the base (section 13).
#[derive(Debug, Clone)]
pub struct LowRankFields {
    pub rank: usize,
    pub bits: u32,
    pub shifts: [i16; 2],
    pub rows: usize,
    pub columns: usize,
    /// The factors: the left matrix in row-major order, then the right matrix.
    pub factors: Vec<i64>,
}

impl LowRankFields {
    /// Encodes the low-rank fields and factors (section 13.1).
    fn encode(&self) -> Vec<u8> {
        let mut out = u16::try_from(self.rank)
            .expect("small")
            .to_le_bytes()
            .to_vec();
        out.push(u8::try_from(self.bits).expect("small"));
        for shift in self.shifts {
            out.extend_from_slice(&shift.to_le_bytes());
        }
        for side in [self.rows, self.columns] {
            out.extend_from_slice(&u32::try_from(side).expect("small").to_le_bytes());
        }
        let mut bits = BitWriter::new(&mut out);
        for factor in &self.factors {
            let offset = factor + (1 << (self.bits - 1));
            bits.put(
                u64::try_from(offset).expect("a factor of that many bits"),
                self.bits,
            );
        }
        bits.finish();
        out
    }

    /// Returns the value that the product adds to element `number`.
    fn change(&self, number: usize) -> f64 {
        let (left, right) = self.factors.split_at(self.rank * self.rows);
        let (row, column) = (number / self.columns, number % self.columns);
        let terms =
            (0..self.rank).map(|i| left[row * self.rank + i] * right[i * self.columns + column]);
        let shift = self.shifts.map(i32::from).iter().sum::<i32>();
        terms.sum::<i64>() as f64 * 2f64.powi(-shift)
    }
}

impl DifferenceFrame {
    fn width(&self) -> usize {
        if self.dtype == 2 { 4 } else { 2 }
    }

    fn words(&self, bytes: &[u8]) -> Vec<u64> {
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |w, &b| w << 8 | u64::from(b));
        bytes.chunks(self.width()).map(word).collect()
    }

    /// Returns the table and shift for an element whose prediction is `base`, in a
    /// group with this code (section 6).
    fn coding(&self, code: u8, base: u64) -> (u16, u16) {
        let (mantissa_bits, exponents, bias) = match self.dtype {
            0 => (7, 0xFF, 127),
            1 => (10, 0x1F, 15),
            _ => (23, 0xFF, 127),
        };
        let context = match code {
            255 => 96,
            254 => 97 + (base >> (mantissa_bits - 6) & 63),
            _ => {
                let exponent = i64::try_from(base >> mantissa_bits & exponents).expect("small");
                let context = 2 * (exponent - bias) - (i64::from(code) - 100) + 16;
                context.clamp(0, 95).cast_unsigned()
            }
        };
        let [first, last] = self.contexts;
        let context = usize::try_from(context).expect("small").clamp(first, last);
        self.codings[context - first]
    }

    /// Returns the coded value that turns `base` into `current` (section 5).
    fn value(&self, code: u8, base: u64, current: u64) -> u64 {
        let bits = 8 * self.width();
        let modulus = 1i128 << bits;
        let order = |x: u64| match x >> (bits - 1) {
            0 => i128::from(x),
            _ => -i128::from(x & ((1 << (bits - 1)) - 1)) - 1,
        };
        let mut difference = order(current) - order(base);
        if base >> (bits - 1) == 1 {
            difference = -difference;
        }
        if let (254, Some(means)) = (code, self.means) {
            difference -= i128::from(means[(base >> 17 & 63) as usize]);
        }
        let wrapped = (difference + modulus / 2).rem_euclid(modulus) - modulus / 2;
        let value = if wrapped >= 0 {
            2 * wrapped
        } else {
            -2 * wrapped - 1
        };
        u64::try_from(value).expect("inside the modulus")
    }

    /// Returns the predictions for all elements: the base itself, or the base plus the
    /// low-rank product (section 13.2).
    ///
    /// # Panics
    /// If the frame has a product and the elements are float16.
    #[must_use]
    pub fn predicted(&self, base: &[u8]) -> Vec<u8> {
        let Some(low_rank) = &self.low_rank else {
            return base.to_vec();
        };
        let sum = |number, value: f32| {
            #[allow(clippy::cast_possible_truncation)] // rounds to the nearest
            let sum = (f64::from(value) + low_rank.change(number)) as f32;
            sum
        };
        match self.dtype {
            0 => {
                let elements = base.as_chunks::<2>().0.iter().enumerate();
                let predicted = elements.map(|(number, bytes)| {
                    let element = bf16::from_le_bytes(*bytes);
                    match element.is_finite() {
                        true => bf16::from_f32(sum(number, element.to_f32())),
                        false => element,
                    }
                });
                predicted.flat_map(bf16::to_le_bytes).collect()
            }
            2 => {
                let elements = base.as_chunks::<4>().0.iter().enumerate();
                let predicted = elements.map(|(number, bytes)| {
                    let element = f32::from_le_bytes(*bytes);
                    match element.is_finite() {
                        true => sum(number, element).to_le_bytes(),
                        false => *bytes,
                    }
                });
                predicted.flatten().collect()
            }
            dtype => panic!("no prediction for dtype {dtype}"),
        }
    }

    /// Encodes `current` against `base`.
    ///
    /// # Panics
    /// If the fields do not fit the tensors.
    #[must_use]
    pub fn encode(&self, base: &[u8], current: &[u8]) -> Vec<u8> {
        let (predicted, currents) = (self.words(&self.predicted(base)), self.words(current));
        let count = predicted.len();
        assert_eq!(self.codes.len(), count.div_ceil(self.group));
        let mut choices = Vec::new();
        let mut symbols = Vec::new();
        let mut raw = Vec::new();
        for (i, (&predicted, &current)) in predicted.iter().zip(&currents).enumerate() {
            let code = self.codes[i / self.group];
            let (table, shift) = self.coding(code, predicted);
            let value = self.value(code, predicted, current);
            let (symbol, extra) = match value >> shift {
                small @ 0..32 => (small, 0),
                large => {
                    let log = large.ilog2();
                    let half = large >> (log - 1) & 1;
                    (32 + 2 * (u64::from(log) - 5) + half, log - 1)
                }
            };
            let len = u32::from(shift) + extra;
            choices.push(table << 12);
            symbols.push(u8::try_from(symbol).expect("at most 85"));
            raw.push((value & ((1 << len) - 1), len));
        }
        let tables: Vec<Frequencies> = (0..self.table_count())
            .map(|table| {
                let mut counts = [0; 86];
                for (&choice, &symbol) in choices.iter().zip(&symbols) {
                    counts[usize::from(symbol)] += u32::from(choice >> 12 == table);
                }
                Frequencies::round(&counts)
            })
            .collect();
        let coders = EncodeTables::new(&tables);
        let blocks: Vec<(Vec<u8>, Vec<u8>)> = (0..count)
            .step_by(self.block)
            .map(|start| {
                let range = start..count.min(start + self.block);
                let mut raw_bytes = Vec::new();
                let mut bits = BitWriter::new(&mut raw_bytes);
                for &(value, len) in &raw[range.clone()] {
                    bits.put(value, len);
                }
                bits.finish();
                let rans = encode(
                    &coders,
                    &symbols[range.clone()],
                    &choices[range],
                    self.states,
                );
                (rans, raw_bytes)
            })
            .collect();
        let mut frame = self.head(base, count, &tables, &blocks);
        for (rans, raw) in &blocks {
            frame.extend_from_slice(rans);
            frame.extend_from_slice(raw);
        }
        seal(&mut frame);
        frame
    }

    fn table_count(&self) -> u16 {
        1 + self
            .codings
            .iter()
            .map(|coding| coding.0)
            .max()
            .unwrap_or(0)
    }

    fn head(
        &self,
        base: &[u8],
        count: usize,
        tables: &[Frequencies],
        blocks: &[(Vec<u8>, Vec<u8>)],
    ) -> Vec<u8> {
        let byte = |number: usize| u8::try_from(number).expect("small");
        let len = |bytes: &[u8]| u32::try_from(bytes.len()).expect("small").to_le_bytes();
        let mut out = b"ZXD1\x01".to_vec();
        out.push(self.dtype);
        out.push(u8::from(self.means.is_some()) | u8::from(self.low_rank.is_some()) << 1);
        out.push(byte(self.states.ilog2() as usize));
        out.extend_from_slice(&blake3(base)[..16]);
        out.extend_from_slice(&(count as u64).to_le_bytes());
        out.extend_from_slice(&(self.group as u64).to_le_bytes());
        out.extend_from_slice(&u32::try_from(self.block).expect("small").to_le_bytes());
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(&[
            byte(self.contexts[0]),
            byte(self.contexts[1]),
            byte(tables.len()),
        ]);
        out.extend_from_slice(&encode_side_stream(&self.codes));
        for mean in self.means.iter().flatten() {
            out.extend_from_slice(&mean.to_le_bytes());
        }
        if let Some(low_rank) = &self.low_rank {
            out.extend_from_slice(&low_rank.encode());
        }
        let mut bits = BitWriter::new(&mut out);
        for &(table, shift) in &self.codings {
            bits.put(table.into(), 4);
            bits.put(shift.into(), 5);
        }
        bits.finish();
        let mut table_bytes = Vec::new();
        let mut bits = BitWriter::new(&mut table_bytes);
        for table in tables {
            table.write(&mut bits);
        }
        bits.finish();
        let tables = table_bytes;
        out.extend_from_slice(&len(&tables)[..2]);
        out.extend_from_slice(&tables);
        for (rans, raw) in blocks {
            out.extend_from_slice(&len(rans));
            out.extend_from_slice(&len(raw));
            out.extend_from_slice(&short_checksum(&[rans, raw]));
        }
        let head_len = len(&out);
        out[44..48].copy_from_slice(&head_len);
        out
    }
}

fn blake3(bytes: &[u8]) -> [u8; 32] {
    zstn_core::digest::of_pieces([bytes])
}

fn short_checksum(parts: &[&[u8]]) -> [u8; 4] {
    let [a, b, c, d, ..] = checksum(parts.iter().copied()).to_le_bytes();
    [a, b, c, d]
}

/// Recomputes the checksum of a frame's head after its fields were changed.
///
/// # Panics
/// If the frame is shorter than its head.
pub fn seal(frame: &mut [u8]) {
    let len = u32::from_le_bytes([frame[44], frame[45], frame[46], frame[47]]) as usize;
    let sum = short_checksum(&[&frame[..48], &frame[52..len]]);
    frame[48..52].copy_from_slice(&sum);
}

/// Recomputes the checksums of a frame's only block and of its head after the block was
/// changed.
///
/// # Panics
/// If the frame is shorter than its head.
pub fn seal_block(frame: &mut [u8]) {
    let len = u32::from_le_bytes([frame[44], frame[45], frame[46], frame[47]]) as usize;
    let sum = short_checksum(&[&frame[len..]]);
    frame[len - 4..len].copy_from_slice(&sum);
    seal(frame);
}

/// Recomputes the checksums of the blocks and of the head of a `ZXI1` frame, as far as its
/// lengths are within it.
pub fn seal_intervals(frame: &mut [u8]) {
    let number = |frame: &[u8], at: usize| {
        let bytes = frame.get(at..at + 4).and_then(|bytes| bytes.first_chunk());
        bytes.map_or(usize::MAX, |bytes| u32::from_le_bytes(*bytes) as usize)
    };
    let head_len = number(frame, 28);
    let Some(head) = frame.get(..head_len).filter(|head| head.len() >= 36) else {
        return;
    };
    let elements = u64::from_le_bytes([8, 9, 10, 11, 12, 13, 14, 15].map(|at| head[at]));
    let blocks = elements.div_ceil(number(frame, 24).max(1) as u64);
    let list_len = usize::try_from(blocks).map_or(usize::MAX, |blocks| blocks.saturating_mul(12));
    let mut start = head_len;
    if let Some(list) = head_len.checked_sub(list_len).filter(|list| *list >= 36) {
        for at in (list..head_len).step_by(12) {
            let end = start.saturating_add(number(frame, at).saturating_add(number(frame, at + 4)));
            let Some(block) = frame.get(start..end) else {
                break;
            };
            let sum = short_checksum(&[block]);
            frame[at + 8..at + 12].copy_from_slice(&sum);
            start = end;
        }
    }
    let sum = short_checksum(&[&frame[..32], &frame[36..head_len]]);
    frame[32..36].copy_from_slice(&sum);
}

/// The fields of a `ZXQ1` frame, which need not be consistent.
#[derive(Debug, Clone, Default)]
pub struct LatticeFields {
    /// Dtype of the elements, grid type, and flags.
    pub dtype_grid_flags: [u8; 3],
    /// Rows, columns, rows per group and columns per group.
    pub geometry: [u32; 4],
    /// Size of the grid and dtype of the scales.
    pub size_scales: [u8; 2],
    /// The table of grid 1.
    pub table: Vec<f32>,
    /// The encoded inner frames.
    pub frames: Vec<Vec<u8>>,
}

impl LatticeFields {
    /// Encodes the frame.
    #[must_use]
    pub fn frame(&self) -> Vec<u8> {
        let mut out = b"ZXQ1\x01".to_vec();
        out.extend_from_slice(&self.dtype_grid_flags);
        out.extend(self.geometry.iter().flat_map(|field| field.to_le_bytes()));
        out.extend_from_slice(&self.size_scales);
        out.extend(self.table.iter().flat_map(|value| value.to_le_bytes()));
        for frame in &self.frames {
            out.extend_from_slice(&(frame.len() as u64).to_le_bytes());
        }
        out.extend(self.frames.concat());
        out
    }
}

/// Returns a `Z4AI` frame that stores `bytes` uncompressed.
#[must_use]
pub fn stored(bytes: &[u8]) -> Vec<u8> {
    let mut frame = b"Z4AI\x01\0\0\x01\x01\0\0\0\0\0\0\0\0".to_vec();
    frame.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    frame.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    frame.extend_from_slice(bytes);
    frame
}
