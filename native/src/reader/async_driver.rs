//! The driver that runs work without blocking a thread.

use std::borrow::Cow;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::sync::oneshot;

use super::state_machine::{Need, Work};
use crate::source::parallel::READS_AT_ONCE;
use crate::source::{AsyncSource, check_lens};
use crate::{Engine, Error, Result};

/// The source of the file that a [`Need`] refers to.
pub(super) type Find<'a> = &'a (dyn Fn(&Need) -> Arc<dyn AsyncSource> + Sync);

/// Runs `work`, whose ranges come from the sources that `source` finds.
pub(super) async fn run<T, W>(mut work: W, engine: &Engine, source: Find<'_>) -> Result<T>
where
    T: Send + 'static,
    W: Work<'static, Output = T> + Send + 'static,
{
    enum Step<W, T> {
        Fetch(W, Vec<Need>),
        Done(T),
    }
    let mut needs = work.needs()?;
    loop {
        let bytes = fetch(&needs, source).await?;
        let step = on_engine(engine, move |engine| {
            if !needs.is_empty() {
                work.supply(needs, bytes)?;
            }
            let needs = work.needs()?;
            Ok(match needs.is_empty() {
                true => Step::Done(work.finish(engine)?),
                false => Step::Fetch(work, needs),
            })
        });
        (work, needs) = match step.await? {
            Step::Done(done) => return Ok(done),
            Step::Fetch(work, needs) => (work, needs),
        };
    }
}

/// The index of a need, and the bytes that were read for it.
type Part = (usize, Vec<u8>);

/// Reads the ranges of `needs`. Each source is called once for all ranges that are
/// compared and once for all others, and several sources are read at the same time.
async fn fetch(needs: &[Need], source: Find<'_>) -> Result<Vec<Cow<'static, [u8]>>> {
    let mut groups: Vec<(&Need, Vec<usize>)> = Vec::new();
    for (number, need) in needs.iter().enumerate() {
        if need.range.is_empty() {
            continue;
        }
        let key = |need: &Need| (need.level, need.file, need.is_compared);
        match groups.iter_mut().find(|(first, _)| key(first) == key(need)) {
            Some((_, numbers)) => numbers.push(number),
            None => groups.push((need, vec![number])),
        }
    }
    let reads = groups.into_iter().map(|(first, numbers)| {
        let (source, is_compared) = (source(first), first.is_compared);
        let ranges: Vec<_> = numbers.iter().map(|&n| needs[n].range.clone()).collect();
        async move {
            let read = match is_compared {
                true => source.read_compared(&ranges),
                false => source.read_ranges(&ranges),
            };
            let bytes = read.await?;
            check_lens(source.name(), &ranges, &bytes)?;
            Ok(numbers.into_iter().zip(bytes).collect())
        }
    });
    let reads: Vec<_> = reads.collect();
    let read = stream::iter(reads).buffered(READS_AT_ONCE);
    let read: Result<Vec<Vec<Part>>> = read.try_collect().await;
    let mut parts = vec![Cow::Borrowed(&[][..]); needs.len()];
    for (number, bytes) in read?.into_iter().flatten() {
        parts[number] = Cow::Owned(bytes);
    }
    Ok(parts)
}

/// Runs `work` on a thread of the engine. The work is skipped if the future is dropped
/// before it begins.
async fn on_engine<T: Send + 'static>(
    engine: &Engine,
    work: impl FnOnce(&Engine) -> Result<T> + Send + 'static,
) -> Result<T> {
    let (sender, receiver) = oneshot::channel();
    let own = engine.clone();
    engine.spawn(move || {
        if !sender.is_closed() {
            let done = catch_unwind(AssertUnwindSafe(|| work(&own)));
            // Sending fails only if the caller no longer waits.
            let _ = sender.send(done);
        }
    });
    match receiver.await {
        Ok(Ok(done)) => done,
        Ok(Err(panic)) => resume_unwind(panic),
        Err(error) => Err(Error::io("decode", io::Error::other(error))),
    }
}
