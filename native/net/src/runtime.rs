//! The runtime that sends requests, shared by the whole process.
//!
//! Two threads wait for all connections. They start with the first request. Code that
//! blocks waits for a request with [`block_on`]; asynchronous code, on any executor,
//! wraps its requests in [`within`].

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::unconstrained;

/// Number of threads. Requests wait far more than they compute; with two threads, one
/// can encrypt while the other receives.
const THREADS: usize = 2;

/// The runtime of one process. A forked child has none of its parent's threads, so it
/// starts its own runtime and stores it in `of_child`.
struct OfProcess {
    process: u32,
    runtime: Runtime,
    of_child: OnceLock<Box<Self>>,
}

/// Returns the runtime of this process, and starts it on the first call.
///
/// # Errors
/// The system refuses to start threads.
pub fn handle() -> io::Result<&'static Handle> {
    static FIRST: OnceLock<Box<OfProcess>> = OnceLock::new();
    let mut place = &FIRST;
    loop {
        // `set` instead of `get_or_init`: a child that is forked while another thread
        // starts the runtime must not wait for that thread.
        let Some(known) = place.get() else {
            let runtime = Builder::new_multi_thread()
                .worker_threads(THREADS)
                .thread_name("zstn-net")
                .enable_all()
                .build()?;
            let of_process = OfProcess {
                process: process::id(),
                runtime,
                of_child: OnceLock::new(),
            };
            // If another thread was faster, its runtime is used.
            if let Err(unused) = place.set(Box::new(of_process)) {
                unused.runtime.shutdown_background();
            }
            continue;
        };
        if known.process == process::id() {
            return Ok(known.runtime.handle());
        }
        place = &known.of_child;
    }
}

/// Runs `work` on this thread and waits for its result, while the threads of the
/// runtime wait for the network. Unlike the function of the same name in tokio, this
/// one may be called on a thread of another runtime, which it blocks.
///
/// # Errors
/// The system refuses to start threads.
pub fn block_on<F: Future>(work: F) -> io::Result<F::Output> {
    let handle = handle()?;
    let signal = Arc::new(Signal {
        thread: thread::current(),
        is_set: AtomicBool::new(false),
    });
    let waker = Waker::from(Arc::clone(&signal));
    let mut context = Context::from_waker(&waker);
    // If this thread belongs to another runtime, tokio would limit `work` to the budget
    // of the current task, which is not renewed in this loop.
    let mut work = pin!(unconstrained(work));
    let _inside = handle.enter();
    loop {
        if let Poll::Ready(result) = work.as_mut().poll(&mut context) {
            return Ok(result);
        }
        // `work` may itself park this thread and consume the wake-up, so the flag is
        // checked.
        while !signal.is_set.swap(false, Ordering::Acquire) {
            thread::park();
        }
    }
}

/// Wakes a thread that waits in [`block_on`].
struct Signal {
    thread: Thread,
    is_set: AtomicBool,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_set.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Makes connections and timers available to `work`, whatever executor polls it.
/// Dropping the result ends the requests of `work`.
///
/// # Errors
/// The system refuses to start threads.
pub async fn within<F: Future>(work: F) -> io::Result<F::Output> {
    let mut inside = Inside {
        handle: handle()?,
        work: Some(Box::pin(work)),
    };
    poll_fn(move |context| inside.poll(context)).await
}

/// Work that is polled, and dropped, in the context of the runtime.
struct Inside<F> {
    handle: &'static Handle,
    work: Option<Pin<Box<F>>>,
}

impl<F: Future> Inside<F> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Result<F::Output>> {
        let _inside = self.handle.enter();
        match &mut self.work {
            Some(work) => work.as_mut().poll(context).map(Ok),
            None => Poll::Pending,
        }
    }
}

impl<F> Drop for Inside<F> {
    fn drop(&mut self) {
        let _inside = self.handle.enter();
        self.work = None;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn any_thread_can_wait_for_a_timer() {
        let wait = || async { tokio::time::sleep(Duration::from_millis(1)).await };
        block_on(wait()).unwrap();
        // A thread of another runtime can wait, too; tokio's `block_on` would panic there.
        let other = Builder::new_current_thread().build().unwrap();
        other.block_on(async { block_on(wait()) }).unwrap();
        // A runtime without timers gets them.
        other.block_on(within(wait())).unwrap();
    }
}
