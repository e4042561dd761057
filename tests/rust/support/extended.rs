//! Checkpoints that become smaller with extension frames (docs/formats/extensions.md).

use crate::rng::Rng;

/// Rows and columns of each matrix.
const ROWS: usize = 96;
const COLUMNS: usize = 256;

/// Returns a safetensors file of bfloat16 matrices with `COLUMNS` columns each, given
/// as pairs of name and bytes.
fn matrices(tensors: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let (mut entries, mut data) = (Vec::new(), Vec::new());
    for (name, bytes) in tensors {
        let start = data.len();
        data.extend_from_slice(bytes);
        let rows = bytes.len() / 2 / COLUMNS;
        let end = data.len();
        entries.push(format!(
            r#""{name}":{{"dtype":"BF16","shape":[{rows},{COLUMNS}],"data_offsets":[{start},{end}]}}"#
        ));
    }
    let header = format!("{{{}}}", entries.join(","));
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(&data);
    file
}

fn bf16(value: f32) -> [u8; 2] {
    let [_, _, low, high] = value.to_bits().to_le_bytes();
    [low, high]
}

/// Returns `rows` rows of dequantised weights: integers from -7 to 7, each multiplied
/// by the scale of its row. The scales have few significant bits, so the products are
/// exact.
fn lattice(rng: &mut Rng, rows: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..rows {
        let scale = (16 + rng.next_u64() % 16) as f32 / 4096.0;
        for _ in 0..COLUMNS {
            #[allow(clippy::cast_possible_truncation)]
            let step = (rng.normal(3.0).round() as f32).clamp(-7.0, 7.0);
            out.extend(bf16(step * scale));
        }
    }
    out
}

/// Returns a checkpoint with one tensor of ordinary weights and two of dequantised
/// ones.
#[must_use]
pub fn quantised() -> Vec<u8> {
    let mut rng = Rng(2209);
    matrices(&[
        ("embedding", rng.bf16_weights(COLUMNS * ROWS)),
        ("up", lattice(&mut rng, ROWS)),
        ("down", lattice(&mut rng, 2 * ROWS)),
    ])
}

/// Returns a checkpoint with one dequantised tensor of `rows` rows and 256 columns.
#[must_use]
pub fn one_lattice(rows: usize) -> Vec<u8> {
    matrices(&[("up", lattice(&mut Rng(2212), rows))])
}

/// Returns a checkpoint of ordinary weights, which extension frames do not make
/// smaller.
#[must_use]
pub fn usual() -> Vec<u8> {
    let mut rng = Rng(2210);
    matrices(&[
        ("embedding", rng.bf16_weights(COLUMNS * ROWS)),
        ("up", rng.bf16_weights(COLUMNS * ROWS)),
    ])
}

/// Returns a base and a fine-tune of it. One tensor is unchanged, one has small changes
/// everywhere, and one is new and dequantised.
#[must_use]
pub fn fine_tuned() -> (Vec<u8>, Vec<u8>) {
    let mut rng = Rng(2211);
    let same = rng.bf16_weights(COLUMNS * ROWS);
    let before = rng.bf16_weights(COLUMNS * ROWS);
    let mut after = Vec::new();
    for bits in before.chunks(2) {
        let value = f32::from_bits(u32::from(u16::from_le_bytes([bits[0], bits[1]])) << 16);
        #[allow(clippy::cast_possible_truncation)]
        let value = value + rng.normal(0.000_04) as f32;
        after.extend(bf16(value));
    }
    let base = matrices(&[("same", same.clone()), ("up", before)]);
    let new = lattice(&mut rng, ROWS);
    let tuned = matrices(&[("same", same), ("up", after), ("new", new)]);
    (base, tuned)
}
