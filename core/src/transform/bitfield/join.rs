//! Combines planes into floats, one tile of elements at a time. The bytes of a
//! tile are computed byte position by byte position and then interleaved, in
//! loops of fixed length that compile to vector instructions.

/// Number of elements that share a byte of signs.
const GROUP: usize = 8;
/// Number of elements of a tile.
const TILE: usize = 8 * GROUP;

/// Joins elements of two bytes with mantissas of one byte: bfloat16.
#[inline(always)]
pub fn narrow(signs: &[u8], exponents: &[u8], low: &[u8], out: &mut [[u8; 2]]) {
    let planes = [exponents, low];
    tiles(signs, planes, out, |signs, [e, low]: [&[u8; TILE]; 2]| {
        [
            core::array::from_fn(|k| e[k] << 7 | low[k]),
            core::array::from_fn(|k| signs[k] | e[k] >> 1),
        ]
    });
}

/// Joins elements of two bytes with mantissas of two bytes: float16.
#[inline(always)]
pub fn half(signs: &[u8], exponents: &[u8], [low, high]: [&[u8]; 2], out: &mut [[u8; 2]]) {
    let planes = [exponents, low, high];
    tiles(signs, planes, out, |signs, [e, low, high]| {
        [
            *low,
            core::array::from_fn(|k| signs[k] | e[k] << 2 | high[k]),
        ]
    });
}

/// Joins elements of four bytes with mantissas of three bytes: float32.
#[inline(always)]
pub fn single(signs: &[u8], exponents: &[u8], [low, mid, high]: [&[u8]; 3], out: &mut [[u8; 4]]) {
    let planes = [exponents, low, mid, high];
    tiles(signs, planes, out, |signs, [e, low, mid, high]| {
        [
            *low,
            *mid,
            core::array::from_fn(|k| e[k] << 7 | high[k]),
            core::array::from_fn(|k| signs[k] | e[k] >> 1),
        ]
    });
}

/// Joins elements of `W` bytes from `P` planes. For a tile, `bytes` computes
/// each byte position of the elements from the signs, which are in the top bits
/// of bytes, and the planes.
#[inline(always)]
fn tiles<const P: usize, const W: usize>(
    signs: &[u8],
    planes: [&[u8]; P],
    out: &mut [[u8; W]],
    bytes: impl Fn(&[u8; TILE], [&[u8; TILE]; P]) -> [[u8; TILE]; W],
) {
    let parts = planes.map(|plane| plane.as_chunks::<TILE>());
    let (tiles, rest) = out.as_chunks_mut::<TILE>();
    let (whole, sign_rest) = signs.split_at(tiles.len() * GROUP);
    let (sign_tiles, _) = whole.as_chunks::<GROUP>();
    for (number, (tile, signs)) in tiles.iter_mut().zip(sign_tiles).enumerate() {
        let made = bytes(&spread(signs), parts.map(|(tiles, _)| &tiles[number]));
        for (k, element) in tile.iter_mut().enumerate() {
            *element = core::array::from_fn(|byte| made[byte][k]);
        }
    }
    if rest.is_empty() {
        return;
    }
    // The last tile, padded with zeros.
    let mut signs = [0; GROUP];
    let last = &sign_rest[..rest.len().div_ceil(GROUP)];
    signs[..last.len()].copy_from_slice(last);
    let filled = parts.map(|(_, rest)| {
        let mut tile = [0; TILE];
        tile[..rest.len()].copy_from_slice(rest);
        tile
    });
    let made = bytes(&spread(&signs), filled.each_ref());
    for (k, element) in rest.iter_mut().enumerate() {
        *element = core::array::from_fn(|byte| made[byte][k]);
    }
}

/// Expands bytes of signs into one byte per sign, with the sign in the top bit
/// and starting with the highest bit. It uses multiplication because
/// WebAssembly vectors cannot be shifted by different amounts per lane.
#[inline(always)]
fn spread(signs: &[u8; GROUP]) -> [u8; TILE] {
    let mut out = [0; TILE];
    for (group, &signs) in out.as_chunks_mut::<GROUP>().0.iter_mut().zip(signs) {
        // Bit 7 - k moves to the top of byte k, and no two bits collide.
        let copies = u64::from(signs).wrapping_mul(0x8040_2010_0804_0201);
        *group = (copies & 0x8080_8080_8080_8080).to_le_bytes();
    }
    out
}
