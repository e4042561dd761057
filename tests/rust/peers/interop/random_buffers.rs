//! Generates random buffers that resemble checkpoints, and difficult ones: empty, of
//! odd lengths, and of lengths near the sizes of blocks and chunks.

use std::fmt;

use half::{bf16, f16};
use proptest::prelude::*;
use proptest::sample::select;
use zstn_tests::rng::Rng;

/// The element type of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    Bf16,
    F16,
    F32,
    F64,
    /// An integer with this many bytes.
    Int(usize),
}

impl Element {
    pub const ALL: [Self; 8] = [
        Self::Bf16,
        Self::F16,
        Self::F32,
        Self::F64,
        Self::Int(1),
        Self::Int(2),
        Self::Int(4),
        Self::Int(8),
    ];

    pub fn len_bytes(self) -> usize {
        match self {
            Self::Bf16 | Self::F16 => 2,
            Self::F32 => 4,
            Self::F64 => 8,
            Self::Int(len_bytes) => len_bytes,
        }
    }

    fn mantissa_bits(self) -> u32 {
        match self {
            Self::Bf16 => 7,
            Self::F16 => 10,
            Self::F32 => 23,
            Self::F64 => 52,
            // The upper half takes the place of sign and exponent.
            Self::Int(len_bytes) => [4, 8, 16, 32][len_bytes.ilog2() as usize],
        }
    }

    /// Returns the bit pattern of a random weight.
    fn weight(self, rng: &mut Rng) -> u64 {
        let value = rng.normal(0.02);
        match self {
            Self::Bf16 => bf16::from_f64(value).to_bits().into(),
            Self::F16 => f16::from_f64(value).to_bits().into(),
            #[allow(clippy::cast_possible_truncation)]
            Self::F32 => (value as f32).to_bits().into(),
            Self::F64 => value.to_bits(),
            #[allow(clippy::cast_possible_truncation)]
            Self::Int(_) => ((value * 1000.0) as i64).cast_unsigned(),
        }
    }

    /// Returns the bit pattern of a NaN with any payload, an infinity, a denormal, a
    /// zero of either sign, or a weight.
    fn special(self, rng: &mut Rng) -> u64 {
        let bits = u32::try_from(8 * self.len_bytes()).expect("at most 64");
        let mantissa_mask = (1 << self.mantissa_bits()) - 1;
        let exponents = (1 << (bits - 1)) - 1 - mantissa_mask;
        let sign = (rng.next_u64() & 1) << (bits - 1);
        let mantissa = rng.next_u64() & mantissa_mask;
        match rng.next_u64() % 6 {
            0 => sign,
            1 => sign | exponents,
            2 => sign | exponents | mantissa,
            3 => sign | mantissa,
            4 => sign | 1,
            _ => self.weight(rng),
        }
    }
}

/// The relation between the elements of a buffer.
#[derive(Debug, Clone, Copy)]
pub enum Pattern {
    Zeros,
    Constant,
    /// Each byte value is about half as frequent as the previous one.
    Skewed,
    Ramp,
    Weights,
    Special,
    /// Weights with this percentage of zeros.
    Sparse(u64),
    /// At most this number of distinct elements.
    Few(u64),
    Noise,
}

/// A compact description of a buffer, from which its bytes are generated.
#[derive(Clone)]
pub struct Buffer {
    pub element: Element,
    pub pattern: Pattern,
    pub len_bytes: usize,
    pub seed: u64,
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            element,
            pattern,
            len_bytes,
            seed,
        } = self;
        write!(
            f,
            "{len_bytes} bytes of {element:?} {pattern:?} (seed {seed})"
        )
    }
}

impl Buffer {
    pub fn bytes(&self) -> Vec<u8> {
        let mut rng = Rng(self.seed);
        let item_bytes = self.element.len_bytes();
        let first = self.element.special(&mut rng);
        let mut out = Vec::with_capacity(self.len_bytes + item_bytes);
        let mut number = 0;
        while out.len() < self.len_bytes {
            let rng = &mut rng;
            let bits = match self.pattern {
                Pattern::Zeros => 0,
                Pattern::Constant => first,
                Pattern::Skewed => (0..item_bytes).fold(0, |bits, _| {
                    bits << 8 | u64::from(rng.next_u64().trailing_zeros())
                }),
                Pattern::Ramp => first.wrapping_add(number),
                Pattern::Weights => self.element.weight(rng),
                Pattern::Special => self.element.special(rng),
                Pattern::Sparse(percent) if rng.next_u64() % 100 < percent => 0,
                Pattern::Sparse(_) => self.element.weight(rng),
                // All values occur once, so that their number is right if the buffer is
                // long enough; further elements are random.
                Pattern::Few(most) if number < most => spread(number),
                Pattern::Few(most) => spread(rng.next_u64() % most),
                Pattern::Noise => rng.next_u64(),
            };
            out.extend_from_slice(&bits.to_le_bytes()[..item_bytes]);
            number += 1;
        }
        out.truncate(self.len_bytes);
        out
    }
}

/// Maps distinct numbers to numbers that are also distinct in their low 16 and 32 bits.
fn spread(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Returns a buffer that some codings compress with every transform.
pub fn compressible(len_bytes: usize) -> Buffer {
    Buffer {
        element: Element::Int(1),
        pattern: Pattern::Skewed,
        len_bytes,
        seed: 1,
    }
}

/// Returns the fixed inputs that every encoder gets in addition to random buffers.
pub fn anchors() -> Vec<Buffer> {
    [0, 1, 5, 24_001].map(compressible).into()
}

/// Maximum length of random buffers in bytes: two planes that are slightly longer than
/// a block of 1 MiB.
pub const MOST_BYTES: usize = (2 << 20) + 64;

/// Generates lengths for elements of `item_bytes` bytes.
fn len_bytes(item_bytes: usize) -> impl Strategy<Value = usize> {
    let around = move |edges: &'static [usize]| {
        (select(edges), 0..3usize, any::<bool>(), 0..item_bytes).prop_map(
            move |(edge, offset, of_planes, tail)| {
                let len = edge + offset - 1;
                match len * item_bytes + tail {
                    whole if of_planes && whole <= MOST_BYTES => whole,
                    _ => len,
                }
            },
        )
    };
    prop_oneof![
        6 => 0..=40usize,
        14 => 41..6000usize,
        3 => around(&[1 << 16, 1 << 17]),
        1 => around(&[1 << 20]),
    ]
}

fn pattern() -> impl Strategy<Value = Pattern> {
    prop_oneof![
        1 => Just(Pattern::Zeros),
        1 => Just(Pattern::Constant),
        2 => Just(Pattern::Skewed),
        1 => Just(Pattern::Ramp),
        3 => Just(Pattern::Weights),
        2 => Just(Pattern::Special),
        2 => select(&[10, 50, 90, 99][..]).prop_map(Pattern::Sparse),
        2 => select(&[2, 3, 16, 255, 256, 257, 5000][..]).prop_map(Pattern::Few),
        2 => Just(Pattern::Noise),
    ]
}

/// Generates random buffers for a transform of `item_bytes` bytes. Most of them have
/// elements of that length.
pub fn buffers(item_bytes: usize) -> BoxedStrategy<Buffer> {
    let fitting: Vec<Element> = Element::ALL
        .into_iter()
        .filter(|element| element.len_bytes() == item_bytes)
        .collect();
    let element = if fitting.is_empty() {
        select(&Element::ALL[..]).boxed()
    } else {
        prop_oneof![3 => select(fitting), 1 => select(&Element::ALL[..])].boxed()
    };
    (element, pattern(), len_bytes(item_bytes), any::<u64>())
        .prop_map(|(element, pattern, len_bytes, seed)| Buffer {
            element,
            pattern,
            len_bytes,
            seed,
        })
        .boxed()
}

/// Generates random buffers that are short enough for slow codings.
pub fn short_buffers(item_bytes: usize, most_bytes: usize) -> BoxedStrategy<Buffer> {
    buffers(item_bytes)
        .prop_map(move |mut buffer| {
            buffer.len_bytes = buffer.len_bytes.min(most_bytes);
            buffer
        })
        .boxed()
}
