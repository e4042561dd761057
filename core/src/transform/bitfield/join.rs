//! Planes back to floats, eight elements at a time: that many share a byte of
//! signs, and loops of a fixed length become vector instructions.

const GROUP: usize = 8;

/// Elements of two bytes, mantissas of one: bfloat16.
pub fn narrow(signs: &[u8], exponents: &[u8], low: &[u8], out: &mut [[u8; 2]]) {
    let (groups, rest) = out.as_chunks_mut::<GROUP>();
    let (e_groups, e_rest) = exponents.as_chunks::<GROUP>();
    let (l_groups, l_rest) = low.as_chunks::<GROUP>();
    let item = |sign: u8, e: u8, l: u8| [e << 7 | l, sign | e >> 1];
    for (((to, &signs), e), l) in groups.iter_mut().zip(signs).zip(e_groups).zip(l_groups) {
        let signs = spread(signs);
        for k in 0..GROUP {
            to[k] = item(signs[k], e[k], l[k]);
        }
    }
    let last = last_of(signs);
    for (((to, sign), &e), &l) in rest.iter_mut().zip(last).zip(e_rest).zip(l_rest) {
        *to = item(sign, e, l);
    }
}

/// Elements of two bytes, mantissas of two: float16.
pub fn half(signs: &[u8], exponents: &[u8], [low, high]: [&[u8]; 2], out: &mut [[u8; 2]]) {
    let (groups, rest) = out.as_chunks_mut::<GROUP>();
    let (e_groups, e_rest) = exponents.as_chunks::<GROUP>();
    let (l_groups, l_rest) = low.as_chunks::<GROUP>();
    let (h_groups, h_rest) = high.as_chunks::<GROUP>();
    let item = |sign: u8, e: u8, h: u8, l: u8| [l, sign | e << 2 | h];
    let fields = e_groups.iter().zip(h_groups).zip(l_groups);
    for ((to, &signs), ((e, h), l)) in groups.iter_mut().zip(signs).zip(fields) {
        let signs = spread(signs);
        for k in 0..GROUP {
            to[k] = item(signs[k], e[k], h[k], l[k]);
        }
    }
    let fields = e_rest.iter().zip(h_rest).zip(l_rest);
    for ((to, sign), ((&e, &h), &l)) in rest.iter_mut().zip(last_of(signs)).zip(fields) {
        *to = item(sign, e, h, l);
    }
}

/// Elements of four bytes, mantissas of three: float32.
pub fn single(signs: &[u8], exponents: &[u8], [low, mid, high]: [&[u8]; 3], out: &mut [[u8; 4]]) {
    let (groups, rest) = out.as_chunks_mut::<GROUP>();
    let (e_groups, e_rest) = exponents.as_chunks::<GROUP>();
    let (l_groups, l_rest) = low.as_chunks::<GROUP>();
    let (m_groups, m_rest) = mid.as_chunks::<GROUP>();
    let (h_groups, h_rest) = high.as_chunks::<GROUP>();
    let item = |sign: u8, e: u8, h: u8, m: u8, l: u8| [l, m, e << 7 | h, sign | e >> 1];
    let fields = e_groups.iter().zip(h_groups).zip(m_groups).zip(l_groups);
    for ((to, &signs), (((e, h), m), l)) in groups.iter_mut().zip(signs).zip(fields) {
        let signs = spread(signs);
        for k in 0..GROUP {
            to[k] = item(signs[k], e[k], h[k], m[k], l[k]);
        }
    }
    let fields = e_rest.iter().zip(h_rest).zip(m_rest).zip(l_rest);
    for ((to, sign), (((&e, &h), &m), &l)) in rest.iter_mut().zip(last_of(signs)).zip(fields) {
        *to = item(sign, e, h, m, l);
    }
}

/// The bits of a byte of signs, from the top, each on top of a byte. A product
/// because vectors of WebAssembly cannot be shifted by as many bits as they
/// have lanes.
#[inline(always)]
fn spread(signs: u8) -> [u8; GROUP] {
    // Bit 7 - k arrives at the top of byte k; no two bits meet.
    let copies = u64::from(signs).wrapping_mul(0x8040_2010_0804_0201);
    (copies & 0x8080_8080_8080_8080).to_le_bytes()
}

/// The signs of the elements that make no whole group.
fn last_of(signs: &[u8]) -> [u8; GROUP] {
    spread(signs.last().copied().unwrap_or(0))
}
