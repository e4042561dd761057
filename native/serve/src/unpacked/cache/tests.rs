use std::future::{pending, ready};
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

use super::*;

/// With these times, no reader ever counts as slow.
const ENDLESS: Patience = Patience {
    unread: Duration::MAX,
    in_all: Duration::from_secs(1 << 20),
};

/// With these times, every reader counts as slow unless it is reading at this moment.
const NONE: Patience = Patience {
    unread: Duration::ZERO,
    in_all: Duration::ZERO,
};

fn run(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(work);
}

fn cache(limit_bytes: u64, patience: Patience) -> (Arc<DecodedTensors>, Arc<AtomicUsize>) {
    let cache = Arc::new(DecodedTensors::new(limit_bytes, patience));
    (cache, Arc::default())
}

/// Returns a reader of a tensor of ten bytes; `count` counts how often one is decoded.
fn ten(cache: &Arc<DecodedTensors>, number: usize, count: &Arc<AtomicUsize>) -> Reading {
    let count = Arc::clone(count);
    let decode = move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        ready(Ok(vec![7; 10])).boxed()
    };
    cache.reading((0, number, 0), 10, Arc::new(decode))
}

async fn read(cache: &Arc<DecodedTensors>, number: usize, count: &Arc<AtomicUsize>) {
    let mut reading = ten(cache, number, count);
    assert_eq!(*reading.bytes().await.unwrap(), [7; 10]);
}

#[test]
fn those_who_ask_at_the_same_time_share_the_work() {
    run(async {
        let (cache, count) = cache(0, ENDLESS);
        let gate = Arc::new(Notify::new());
        let closed = Arc::clone(&gate);
        let decode = move |_| {
            let closed = Arc::clone(&closed);
            async move {
                closed.notified().await;
                Ok(vec![1; 10])
            }
            .boxed()
        };
        let mut first = cache.reading((0, 0, 0), 10, Arc::new(decode));
        let first = tokio::spawn(async move { first.bytes().await });
        while cache.state().users((0, 0, 0)) < 1 {
            tokio::task::yield_now().await;
        }
        let mut second = ten(&cache, 0, &count);
        let second = tokio::spawn(async move { second.bytes().await });
        while cache.state().users((0, 0, 0)) < 2 {
            tokio::task::yield_now().await;
        }
        gate.notify_one();
        assert_eq!(*first.await.unwrap().unwrap(), [1; 10]);
        assert_eq!(*second.await.unwrap().unwrap(), [1; 10]);
        assert_eq!(count.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn what_was_used_last_is_kept_within_the_limit() {
    run(async {
        let (cache, count) = cache(25, ENDLESS);
        for number in [0, 1, 0, 1, 2] {
            read(&cache, number, &count).await;
        }
        assert_eq!(count.load(Ordering::SeqCst), 3);
        assert_eq!(cache.state().held_bytes(), 20);
        assert!(!cache.state().has((0, 0, 0)), "0 was used longest ago");
    });
}

#[test]
fn one_larger_than_the_limit_is_dropped_with_its_last_reader() {
    run(async {
        let (cache, count) = cache(5, ENDLESS);
        let mut first = ten(&cache, 0, &count);
        let mut second = ten(&cache, 0, &count);
        first.bytes().await.unwrap();
        second.bytes().await.unwrap();
        drop(first);
        assert_eq!(cache.state().held_bytes(), 10);
        drop(second);
        assert_eq!(cache.state().held_bytes(), 0);
        for number in [0, 0, 1] {
            read(&cache, number, &count).await;
        }
        assert_eq!(count.load(Ordering::SeqCst), 4);
        assert_eq!(cache.state().most_bytes, 10);
    });
}

#[test]
fn failures_and_panics_are_not_kept() {
    run(async {
        let (cache, count) = cache(100, ENDLESS);
        let damaged = |_| ready(Err("damaged".into())).boxed();
        let mut failing = cache.reading((0, 0, 0), 10, Arc::new(damaged));
        assert_eq!(failing.bytes().await.err().as_deref(), Some("damaged"));
        let mut failing = cache.reading((0, 0, 0), 10, Arc::new(|_| panic!("on purpose")));
        assert!(failing.bytes().await.is_err());
        assert_eq!(cache.state().held_bytes(), 0);
        read(&cache, 0, &count).await;
    });
}

/// Checks that a reader that makes progress keeps its memory: the other tensor is
/// decoded only after the first reader has left.
#[test]
fn room_is_waited_for() {
    run(async {
        let (cache, count) = cache(15, ENDLESS);
        let mut first = ten(&cache, 0, &count);
        first.bytes().await.unwrap();
        let mut second = ten(&cache, 1, &count);
        second.prefetch();
        assert!(
            !cache.state().has((0, 1, 0)),
            "there is no room to begin early"
        );
        let waiting = tokio::spawn(async move { second.bytes().await.map(|_| second) });
        while !cache.state().has((0, 1, 0)) {
            tokio::task::yield_now().await;
        }
        for _ in 0..100 {
            first.bytes().await.unwrap();
        }
        assert_eq!(count.load(Ordering::SeqCst), 1);
        drop(first);
        let second = waiting.await.unwrap().unwrap();
        assert_eq!(count.load(Ordering::SeqCst), 2);
        assert_eq!(cache.state().most_bytes, 10);
        drop(second);
    });
}

/// Checks that many readers that have stopped stay within the limit together, and can
/// continue later.
#[test]
fn readers_that_stop_lose_their_room_to_others() {
    run(async {
        let (cache, count) = cache(25, NONE);
        let mut stopped = Vec::new();
        for number in 0..50 {
            let mut reading = ten(&cache, number, &count);
            reading.bytes().await.unwrap();
            stopped.push(reading);
        }
        assert_eq!(count.load(Ordering::SeqCst), 50);
        for reading in &mut stopped {
            assert_eq!(*reading.bytes().await.unwrap(), [7; 10]);
        }
        drop(stopped);
        let state = cache.state();
        assert!(state.most_bytes <= 25, "{} bytes", state.most_bytes);
    });
}

#[test]
fn all_get_on_at_once() {
    run(async {
        for limit_bytes in [0, 25, 1000] {
            let (cache, count) = cache(limit_bytes, NONE);
            let tasks: Vec<_> = (0..40)
                .map(|first| {
                    let (cache, count) = (Arc::clone(&cache), Arc::clone(&count));
                    tokio::spawn(async move {
                        for number in first..first + 5 {
                            let mut reading = ten(&cache, number, &count);
                            let mut next = ten(&cache, number + 1, &count);
                            for _ in 0..3 {
                                reading.bytes().await.unwrap();
                                next.prefetch();
                                tokio::task::yield_now().await;
                            }
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            let most_bytes = cache.state().most_bytes;
            assert!(
                most_bytes <= limit_bytes.max(10),
                "{most_bytes} of {limit_bytes}"
            );
        }
    });
}

/// Checks that a reader that gives up leaves the queue, and that a span without readers
/// is not decoded.
#[test]
fn giving_up_while_waiting_leaves_nothing_behind() {
    run(async {
        let (cache, count) = cache(0, ENDLESS);
        let mut first = ten(&cache, 0, &count);
        first.bytes().await.unwrap();
        let mut second = ten(&cache, 1, &count);
        let waiting = tokio::spawn(async move { second.bytes().await.is_ok() });
        while !cache.state().has((0, 1, 0)) {
            tokio::task::yield_now().await;
        }
        waiting.abort();
        assert!(waiting.await.is_err());
        assert!(!cache.state().has((0, 1, 0)));
        drop(first);
        read(&cache, 2, &count).await;
        assert_eq!(count.load(Ordering::SeqCst), 2);
    });
}

/// Checks that a span continues to be decoded while it has readers, that it ends with the
/// last one, and that work on a thread counts until it ends.
#[test]
fn decoding_ends_with_its_last_reader() {
    run(async {
        let (cache, count) = cache(10, ENDLESS);
        let claims = Arc::new(Mutex::new(Vec::new()));
        let begun = Arc::clone(&claims);
        let decode: Decode = Arc::new(move |claim| {
            begun.lock().unwrap().push(claim);
            pending().boxed()
        });
        let mut tasks = [(); 2].map(|()| {
            let mut reading = cache.reading((0, 0, 0), 10, Arc::clone(&decode));
            Some(tokio::spawn(async move { reading.bytes().await.is_ok() }))
        });
        while cache.state().users((0, 0, 0)) < 2 || claims.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        for (task, is_left) in tasks.iter_mut().zip([true, false]) {
            let task = task.take().unwrap();
            task.abort();
            assert!(task.await.is_err());
            assert_eq!(cache.state().has((0, 0, 0)), is_left);
        }
        assert_eq!(cache.state().held_bytes(), 10);
        let mut next = ten(&cache, 1, &count);
        next.prefetch();
        assert!(!cache.state().has((0, 1, 0)), "the memory is still in use");
        claims.lock().unwrap().clear();
        assert_eq!(*next.bytes().await.unwrap(), [7; 10]);
        assert_eq!(cache.state().most_bytes, 10);
    });
}
