//! The progress of one transfer, in bytes of the original file.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::channel::Replies;
use super::message::Response;
use super::oid::Oid;
use zstn::{Progress, Result};

/// Minimum time between two messages.
const INTERVAL: Duration = Duration::from_millis(100);

/// Reports the progress of one transfer to git-lfs. Positions only increase, and only
/// the last message reports the full size.
pub(super) struct Meter<'a> {
    channel: &'a dyn Replies,
    oid: &'a Oid,
    size: u64,
    state: Mutex<State>,
}

struct State {
    sent_bytes: u64,
    /// The time of the last message.
    at: Option<Instant>,
}

impl<'a> Meter<'a> {
    pub(super) fn new(channel: &'a dyn Replies, oid: &'a Oid, size: u64) -> Self {
        let state = State {
            sent_bytes: 0,
            at: None,
        };
        Self {
            channel,
            oid,
            size,
            state: Mutex::new(state),
        }
    }

    /// Returns the stage that covers the work from `from`/`of` to `to`/`of` of the
    /// whole.
    pub(super) fn stage(&self, from: u64, to: u64, of: u64) -> Stage<'_> {
        Stage {
            meter: self,
            from: share(self.size, from, of),
            to: share(self.size, to, of),
            total_bytes: AtomicU64::new(0),
            done_bytes: AtomicU64::new(0),
        }
    }

    /// Reports that the whole transfer is done.
    pub(super) fn finish(&self) -> Result<()> {
        let mut state = self.state();
        let since_last = self.size - state.sent_bytes;
        state.sent_bytes = self.size;
        let response = Response::progress(self.oid.as_str(), self.size, since_last);
        self.channel.send(&response)
    }

    fn reach(&self, position: u64) {
        let position = position.min(self.size.saturating_sub(1));
        let mut state = self.state();
        let is_due = state.at.is_none_or(|at| at.elapsed() >= INTERVAL);
        if position <= state.sent_bytes || !is_due {
            return;
        }
        let since_last = position - state.sent_bytes;
        state.sent_bytes = position;
        state.at = Some(Instant::now());
        let response = Response::progress(self.oid.as_str(), position, since_last);
        // If git-lfs has gone, the final message of the transfer fails.
        let _ = self.channel.send(&response);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stage of a transfer, whose work is measured in its own units.
pub(super) struct Stage<'a> {
    meter: &'a Meter<'a>,
    from: u64,
    to: u64,
    total_bytes: AtomicU64,
    done_bytes: AtomicU64,
}

impl Stage<'_> {
    /// Reports that `done_bytes` of `total_bytes` of this stage are done.
    pub(super) fn at(&self, done_bytes: u64, total_bytes: u64) {
        let done = share(self.to - self.from, done_bytes, total_bytes);
        self.meter.reach(self.from + done);
    }
}

impl Progress for Stage<'_> {
    fn begin(&self, len_bytes: u64) {
        self.total_bytes.store(len_bytes, Relaxed);
    }

    fn advance(&self, len_bytes: u64) {
        let done = self.done_bytes.fetch_add(len_bytes, Relaxed) + len_bytes;
        self.at(done, self.total_bytes.load(Relaxed));
    }
}

/// Returns `part / whole` of `bytes`, rounded down and at most `bytes`.
fn share(bytes: u64, part: u64, whole: u64) -> u64 {
    let share = u128::from(bytes) * u128::from(part.min(whole)) / u128::from(whole.max(1));
    u64::try_from(share).unwrap_or(bytes).min(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::channel::Channel;
    use super::*;

    #[test]
    fn positions_grow_and_never_pass_the_size() {
        let mut lines = Vec::new();
        let oid = "0".repeat(64).parse().unwrap();
        {
            let channel = Channel::new(&mut lines);
            let meter = Meter::new(&channel, &oid, 1000);
            let stage = meter.stage(0, 1, 2);
            stage.begin(10);
            for _ in 0..5 {
                meter.state().at = None;
                stage.advance(7);
            }
            // More work than announced, and a stage without a total.
            meter.stage(1, 2, 2).at(u64::MAX, 1);
            meter.stage(1, 2, 2).at(5, 0);
            meter.finish().unwrap();
        }
        let text = String::from_utf8(lines).unwrap();
        let mut so_far = 0;
        for line in text.lines() {
            let message: serde_json::Value = serde_json::from_str(line).unwrap();
            so_far += message["bytesSinceLast"].as_u64().unwrap();
            assert_eq!(message["bytesSoFar"], so_far, "{text}");
        }
        assert_eq!(so_far, 1000);
        assert!(text.contains(r#""bytesSoFar":350,"#), "{text}");
        assert!(text.contains(r#""bytesSoFar":500,"#), "{text}");
    }
}
