//! Planes back to floats, a tile of elements at a time: their bytes are put
//! together plane by plane, then mixed, in loops of a fixed length that become
//! vector instructions.

/// Elements that share a byte of signs.
const GROUP: usize = 8;
/// Elements of a tile.
const TILE: usize = 8 * GROUP;

/// Elements of two bytes, mantissas of one: bfloat16.
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

/// Elements of two bytes, mantissas of two: float16.
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

/// Elements of four bytes, mantissas of three: float32.
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

/// Joins elements of `W` bytes from `P` planes. `bytes` returns those of a tile
/// byte by byte, from its signs, each on top of a byte, and its planes.
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
    // The last tile, filled up.
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

/// Returns the bits of bytes of signs, from the top, each on top of a byte. A
/// product because vectors of WebAssembly cannot be shifted by as many bits as
/// they have lanes.
#[inline(always)]
fn spread(signs: &[u8; GROUP]) -> [u8; TILE] {
    let mut out = [0; TILE];
    for (group, &signs) in out.as_chunks_mut::<GROUP>().0.iter_mut().zip(signs) {
        // Bit 7 - k arrives at the top of byte k; no two bits meet.
        let copies = u64::from(signs).wrapping_mul(0x8040_2010_0804_0201);
        *group = (copies & 0x8080_8080_8080_8080).to_le_bytes();
    }
    out
}
