//! Copying slices of tensors, in any number of dimensions, from memory.

use zstn::zstn_core::tensor::element_count;

/// The selected indices of one dimension: `start`, `start + step`, …
#[derive(Debug, Clone, Copy)]
pub struct Pick {
    pub start: i64,
    pub step: i64,
    pub count: u64,
}

impl Pick {
    /// Returns the lowest index and the highest index plus 1; `None` if no index is
    /// selected.
    pub fn bounds(&self) -> Option<(u64, u64)> {
        let steps = i64::try_from(self.count.checked_sub(1)?).ok()?;
        let last = self.start.checked_add(self.step.checked_mul(steps)?)?;
        let low = u64::try_from(self.start.min(last)).ok()?;
        let high = u64::try_from(self.start.max(last)).ok()?;
        Some((low, high.checked_add(1)?))
    }

    fn is_all(&self, len: u64) -> bool {
        self.start == 0 && self.step == 1 && self.count == len
    }
}

/// Copies the selected elements of a row-major array of `shape` to `out`, which has
/// exactly their length. Each element has `element_bytes` bytes. All selected indices
/// must be inside their dimensions.
pub fn gather(from: &[u8], shape: &[u64], picks: &[Pick], element_bytes: usize, out: &mut [u8]) {
    // Trailing dimensions that are selected whole are copied as one long element.
    let whole = shape.iter().zip(picks).rev();
    let whole = whole.take_while(|(len, pick)| pick.is_all(**len)).count();
    let outer = picks.len() - whole;
    // If the product overflows, another dimension is 0, so there is nothing to copy.
    let run = element_count(&shape[outer..]).unwrap_or(0);
    let run_bytes = index(run) * element_bytes;
    let mut writer = Writer {
        from,
        shape: &shape[..outer],
        picks: &picks[..outer],
        run_bytes,
        out,
    };
    if run_bytes > 0 {
        writer.dimension(0, 0);
    }
}

struct Writer<'a> {
    from: &'a [u8],
    shape: &'a [u64],
    picks: &'a [Pick],
    run_bytes: usize,
    out: &'a mut [u8],
}

impl Writer<'_> {
    /// Copies the selected runs of `dimension` and the dimensions inside it, where
    /// `first` is the number of the run at index 0.
    fn dimension(&mut self, dimension: usize, first: usize) {
        let Some(pick) = self.picks.get(dimension).copied() else {
            return self.copy(first, 1);
        };
        let inner = element_count(&self.shape[dimension + 1..]).unwrap_or(0);
        if dimension + 1 == self.picks.len() && pick.step == 1 {
            return self.copy(first + index(pick.start.unsigned_abs()), index(pick.count));
        }
        let mut at = pick.start;
        for _ in 0..pick.count {
            self.dimension(dimension + 1, first + index(at.unsigned_abs() * inner));
            at += pick.step;
        }
    }

    /// Copies `count` consecutive runs from number `first`.
    fn copy(&mut self, first: usize, count: usize) {
        let (start, len) = (first * self.run_bytes, count * self.run_bytes);
        let (out, rest) = std::mem::take(&mut self.out).split_at_mut(len);
        out.copy_from_slice(&self.from[start..start + len]);
        self.out = rest;
    }
}

fn index(number: u64) -> usize {
    zstn::zstn_core::bytes::index(number)
}
