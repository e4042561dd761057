//! Planes back to floats, eight elements at a time: that many share a byte of
//! signs, and loops of a fixed length become vector instructions.

const GROUP: usize = 8;

/// Elements of two bytes, mantissas of one: bfloat16.
pub fn narrow(mantissa_bits: u32, [signs, exponents, low]: [&[u8]; 3], out: &mut [[u8; 2]]) {
    let (groups, rest) = out.as_chunks_mut::<GROUP>();
    let (e_groups, e_rest) = exponents.as_chunks::<GROUP>();
    let (l_groups, l_rest) = low.as_chunks::<GROUP>();
    let word = |sign: u8, k: usize, e: u8, l: u8| {
        (sign16(sign, k) | u16::from(e) << mantissa_bits | u16::from(l)).to_le_bytes()
    };
    for (((to, &sign), e), l) in groups.iter_mut().zip(signs).zip(e_groups).zip(l_groups) {
        for k in 0..GROUP {
            to[k] = word(sign, k, e[k], l[k]);
        }
    }
    let last = signs.last().copied().unwrap_or(0);
    for (k, ((to, &e), &l)) in rest.iter_mut().zip(e_rest).zip(l_rest).enumerate() {
        *to = word(last, k, e, l);
    }
}

/// Elements of two bytes, mantissas of two: float16.
pub fn half(mantissa_bits: u32, [signs, exponents, mantissas]: [&[u8]; 3], out: &mut [[u8; 2]]) {
    let (low, high) = mantissas.split_at(exponents.len());
    let (groups, rest) = out.as_chunks_mut::<GROUP>();
    let (e_groups, e_rest) = exponents.as_chunks::<GROUP>();
    let (l_groups, l_rest) = low.as_chunks::<GROUP>();
    let (h_groups, h_rest) = high.as_chunks::<GROUP>();
    let word = |sign: u8, k: usize, e: u8, h: u8, l: u8| {
        let mantissa = u16::from_le_bytes([l, h]);
        (sign16(sign, k) | u16::from(e) << mantissa_bits | mantissa).to_le_bytes()
    };
    let fields = e_groups.iter().zip(h_groups).zip(l_groups);
    for ((to, &sign), ((e, h), l)) in groups.iter_mut().zip(signs).zip(fields) {
        for k in 0..GROUP {
            to[k] = word(sign, k, e[k], h[k], l[k]);
        }
    }
    let last = signs.last().copied().unwrap_or(0);
    let fields = e_rest.iter().zip(h_rest).zip(l_rest);
    for (k, (to, ((&e, &h), &l))) in rest.iter_mut().zip(fields).enumerate() {
        *to = word(last, k, e, h, l);
    }
}

/// Elements of four bytes, mantissas of three: float32.
pub fn single(mantissa_bits: u32, [signs, exponents, mantissas]: [&[u8]; 3], out: &mut [[u8; 4]]) {
    let n = exponents.len();
    let (low, upper) = mantissas.split_at(n);
    let (mid, high) = upper.split_at(n);
    let (groups, rest) = out.as_chunks_mut::<GROUP>();
    let (e_groups, e_rest) = exponents.as_chunks::<GROUP>();
    let (l_groups, l_rest) = low.as_chunks::<GROUP>();
    let (m_groups, m_rest) = mid.as_chunks::<GROUP>();
    let (h_groups, h_rest) = high.as_chunks::<GROUP>();
    let word = |sign: u8, k: usize, e: u8, [h, m, l]: [u8; 3]| {
        let sign = u32::from(sign16(sign, k)) << 16;
        let mantissa = u32::from_le_bytes([l, m, h, 0]);
        (sign | u32::from(e) << mantissa_bits | mantissa).to_le_bytes()
    };
    let fields = e_groups.iter().zip(h_groups).zip(m_groups).zip(l_groups);
    for ((to, &sign), (((e, h), m), l)) in groups.iter_mut().zip(signs).zip(fields) {
        for k in 0..GROUP {
            to[k] = word(sign, k, e[k], [h[k], m[k], l[k]]);
        }
    }
    let last = signs.last().copied().unwrap_or(0);
    let fields = e_rest.iter().zip(h_rest).zip(m_rest).zip(l_rest);
    for (k, (to, (((&e, &h), &m), &l))) in rest.iter_mut().zip(fields).enumerate() {
        *to = word(last, k, e, [h, m, l]);
    }
}

/// Bit `k` of a byte of signs, from the top, where a sign stands.
fn sign16(signs: u8, k: usize) -> u16 {
    u16::from(signs << k & 0x80) << 8
}
