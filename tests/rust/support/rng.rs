//! Reproducible random data that resemble weights.

/// The SplitMix64 generator; the field is its state.
#[derive(Debug, Clone)]
pub struct Rng(pub u64);

impl Rng {
    /// Returns the next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a uniform number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a normally distributed number with mean 0 and this standard deviation.
    pub fn normal(&mut self, deviation: f64) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos() * deviation
    }

    /// Returns `count` normally distributed weights as little-endian bfloat16.
    pub fn bf16_weights(&mut self, count: usize) -> Vec<u8> {
        (0..count)
            .flat_map(|_| {
                #[allow(clippy::cast_possible_truncation)]
                let bits = (self.normal(0.02) as f32).to_bits();
                let [_, _, low, high] = bits.to_le_bytes();
                [low, high]
            })
            .collect()
    }

    /// Returns `len` random bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next_u64().to_le_bytes()[0]).collect()
    }
}
