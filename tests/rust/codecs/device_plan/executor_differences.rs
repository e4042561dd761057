//! Decodes differences by the lists of a plan alone.

use zstn_core::frame::plan::{DevicePlan, DifferenceBlock};

use super::executor::index;

/// Replaces the base's elements of a block by the restored ones (docs/formats/zxd1.md).
pub fn restore(
    plan: &DevicePlan,
    block: &DifferenceBlock,
    source: &[u8],
    output: &mut [u8],
) -> Result<(), String> {
    let tensor = &plan.differences()[block.difference as usize];
    let (width, count) = (tensor.item_bytes as usize, tensor.states as usize);
    let (bias, mantissa_bits) = [(127, 7), (15, 10), (127, 23)][tensor.dtype as usize];
    let top = 1i64 << (8 * width - 1);
    let (rans, after) = source[index(block.rans)..].split_at(block.rans_len as usize);
    let (heads, words) = rans.split_at_checked(4 * count).ok_or("no states")?;
    let heads = heads.as_chunks::<4>().0.iter();
    let mut states: Vec<u64> = heads.map(|head| u32::from_le_bytes(*head).into()).collect();
    let (words, half) = words.as_chunks::<2>();
    if states.iter().any(|&state| state < 1 << 16) || !half.is_empty() {
        return Err("a state is out of range, or half a word is left".into());
    }
    let mut words = words.iter();
    let raw = &after[..block.raw_len as usize];
    let mut raw_bits = raw
        .iter()
        .flat_map(|&byte| (0..8).map(move |bit| byte >> bit & 1));
    let first = u64::from(block.number) * u64::from(tensor.block_elements);
    let end = tensor
        .elements
        .min(first + u64::from(tensor.block_elements));
    for element in first..end {
        let place = index(tensor.output) + index(element) * width;
        let bytes = &mut output[place..place + width];
        let base = bytes
            .iter()
            .rev()
            .fold(0, |bits, &byte| bits << 8 | i64::from(byte));
        let group = index(tensor.first_code + element / tensor.group_elements);
        let code = plan.difference_codes()[group];
        let exponent = (base & (top - 1)) >> mantissa_bits;
        let by_mantissa = usize::try_from(base >> (mantissa_bits - 6) & 63).expect("six bits");
        let context = match code {
            255 => 96,
            254 => 97 + by_mantissa,
            _ => {
                let context = 2 * (exponent - bias) - (i64::from(code) - 100) + 16;
                usize::try_from(context.clamp(0, 95)).expect("a context")
            }
        };
        let choice = tensor.contexts[context];
        let table = tensor.first_table as usize + usize::from(choice >> 12);
        let state = &mut states[index((element - first) % count as u64)];
        let slot = *state % 4096;
        let (mut symbol, mut start) = (0, 0);
        let frequencies = &plan.difference_tables()[table].frequencies;
        while slot >= start + u64::from(frequencies[symbol]) {
            start += u64::from(frequencies[symbol]);
            symbol += 1;
        }
        *state = u64::from(frequencies[symbol]) * (*state / 4096) + slot - start;
        if *state < 1 << 16 {
            let word = words.next().ok_or("a stream is too short")?;
            *state = *state << 16 | u64::from(u16::from_le_bytes(*word));
        }
        let extra = if symbol < 32 { 0 } else { symbol / 2 - 12 };
        let lead = if symbol < 32 {
            symbol
        } else {
            (2 + symbol % 2) << extra
        };
        let shift = usize::from(choice & 31);
        let mut value = i64::try_from(lead).expect("32 bits") << shift;
        for bit in 0..shift + extra {
            value += i64::from(raw_bits.next().ok_or("raw bits are missing")?) << bit;
        }
        let value = value & (2 * top - 1);
        let mut step = if value % 2 == 0 {
            value / 2
        } else {
            -(value + 1) / 2
        };
        if code == 254 {
            step += i64::from(tensor.means[by_mantissa]);
        }
        // Numbers in the order of the elements.
        let order = if base < top {
            base + step
        } else {
            -(base - top) - 1 - step
        };
        let order = (order + top).rem_euclid(2 * top) - top;
        let restored = if order < 0 { top - order - 1 } else { order };
        bytes.copy_from_slice(&restored.to_le_bytes()[..width]);
    }
    let is_padding = raw_bits.clone().count() < 8 && raw_bits.all(|bit| bit == 0);
    let are_ended = states.iter().all(|&state| state == 1 << 16);
    match is_padding && are_ended && words.next().is_none() {
        true => Ok(()),
        false => Err("a block does not end with its last element".into()),
    }
}
