//! Decodes consecutive items at the same time.

use zstn_core::engine::Engine as _;

use crate::{Job, Result};

/// A wave may take one share of the allowed memory; the shares are for its stored
/// bytes, for the result, and for deltas or planes in between.
const WAVE_SHARES: u64 = 3;

/// Runs `decode` for all `items` on all threads of the engine, in waves. A wave has as
/// many items as `memory_bytes` allow if each takes its `cost_bytes`, its decoded
/// length.
pub(crate) fn decode_in_waves<T: Copy + Send + Sync>(
    job: &Job,
    items: &[T],
    cost_bytes: impl Fn(&T) -> u64,
    memory_bytes: u64,
    decode: impl Fn(T) -> Result<()> + Sync + Send,
) -> Result<()> {
    for wave in waves(items, cost_bytes, memory_bytes / WAVE_SHARES) {
        let decoded = job.engine.map(wave.to_vec(), &decode);
        decoded.into_iter().collect::<Result<()>>()?;
    }
    Ok(())
}

/// The maximum decoded length of a wave whose results are consumed in order, and the
/// maximum number of items per thread in such a wave: a few per thread keep all threads
/// busy.
const ORDERED_WAVE_BYTES: u64 = 32 << 20;
const ITEMS_PER_THREAD: u64 = 2;

/// A shorter wave of small items is not worth the cost of waking threads.
const MIN_WAVE_BYTES: u64 = 1 << 20;

/// Runs `decode` for all `items` on all threads of the engine, in waves, and passes the
/// results in order to `next` on one thread while the following wave is decoded. Two
/// waves, and the stored bytes of one of them, take up to about the memory of the job if
/// each item takes its `cost_bytes`, its decoded length.
pub(crate) fn decode_in_order<T: Copy + Send + Sync, R: Send>(
    job: &Job,
    items: &[T],
    cost_bytes: impl Fn(&T) -> u64,
    decode: impl Fn(T) -> Result<R> + Sync + Send,
    mut next: impl FnMut(T, R) -> Result<()> + Send,
) -> Result<()> {
    let longest = items.iter().map(&cost_bytes).max().unwrap_or_default();
    let enough = longest.saturating_mul(ITEMS_PER_THREAD * job.engine.threads() as u64);
    let wave_bytes = ORDERED_WAVE_BYTES
        .min(enough.max(MIN_WAVE_BYTES))
        .min(job.memory() / (WAVE_SHARES + 1));
    let mut ready: Vec<(T, R)> = Vec::new();
    for wave in waves(items, cost_bytes, wave_bytes) {
        let decode = |item: T| decode(item).map(|result| (item, result));
        let mut done = ready.drain(..);
        let hand_on = || done.try_for_each(|(item, result)| next(item, result));
        let decode = || job.engine.map(wave.to_vec(), decode);
        let (handed_on, decoded) = job.engine.join(hand_on, decode);
        drop(done);
        handed_on?;
        ready = decoded.into_iter().collect::<Result<_>>()?;
    }
    ready
        .drain(..)
        .try_for_each(|(item, result)| next(item, result))
}

/// Divides `items` into consecutive waves that each cost up to `max_bytes`. An item
/// that costs more is a wave of its own.
fn waves<T>(items: &[T], cost_bytes: impl Fn(&T) -> u64, max_bytes: u64) -> Vec<&[T]> {
    let mut wave_bytes = 0;
    let is_together = |before: &T, item: &T| {
        wave_bytes = cost_bytes(before).saturating_add(wave_bytes);
        let is_together = wave_bytes.saturating_add(cost_bytes(item)) <= max_bytes;
        if !is_together {
            wave_bytes = 0;
        }
        is_together
    };
    items.chunk_by(is_together).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wave_stays_within_its_limit_unless_it_is_one_item() {
        let lens = [5, 5, 30, 1, 9, 40, 2, 0];
        let waves = |max_bytes| waves(&lens, |&len| len, max_bytes);
        let expected: [&[u64]; 5] = [&[5, 5], &[30], &[1, 9], &[40], &[2, 0]];
        assert_eq!(waves(12), expected);
        assert_eq!(waves(0).concat(), lens);
        assert_eq!(waves(u64::MAX), [&lens]);
    }
}
