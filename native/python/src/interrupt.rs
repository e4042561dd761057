//! Long calls that an exception ends: of a signal handler, of a progress callback, or
//! the cancellation of a task.
//!
//! Once such an exception has reached the caller, the work that it ended reads nothing
//! that belongs to the caller and publishes nothing. Work stops at its next step, and
//! the exception waits for that. Only work that waits for somebody else, such as a
//! server, is left behind: its unfinished files are removed, it may not use objects of
//! the caller any more ([`Lease`](crate::progress::Lease)), and it asks in vain whether
//! its result may appear.

use std::panic::{self, AssertUnwindSafe};
use std::process;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::cancellation;
use crate::error::to_python;
use crate::progress::{Question, Watch};

/// The time between two looks at signals.
const POLL: Duration = Duration::from_millis(50);

/// The time that work has to stop before it is left behind.
const GRACE: Duration = Duration::from_millis(100);

/// The same for work that makes files, which takes a while to remove large ones.
const OUTPUT_GRACE: Duration = Duration::from_secs(2);

/// Runs `work` without holding the interpreter. On Python's main thread, the
/// only one that handles signals, the work runs on a thread of its own while
/// this one looks for signals; so it does if `watch` has to be informed, and for a
/// task that may be cancelled.
///
/// # Errors
/// Those of the work, and the exceptions of signal handlers, such as
/// `KeyboardInterrupt`, and of `watch`. What the work was about to return is dropped
/// after such an exception.
pub fn run<T: Send + 'static>(
    py: Python<'_>,
    watch: &Watch,
    work: impl FnOnce(&Watch) -> zstn::Result<T> + Send + 'static,
) -> PyResult<T> {
    let caller = process::id();
    let task = cancellation::current();
    if !watch.is_watched() && task.is_none() && !is_main_thread(py)? {
        return py
            .detach(|| work(watch))
            .map_err(|error| to_python(py, error));
    }
    // Work that asks whether its result may appear; its end drops the sender.
    let (asks, mut questions) = mpsc::channel();
    watch.set_caller(Some(asks));
    let of_worker = watch.clone();
    let builder = thread::Builder::new().name("zstn-call".into());
    let worker = builder.spawn(move || {
        let result = panic::catch_unwind(AssertUnwindSafe(|| work(&of_worker)));
        of_worker.set_caller(None);
        result
    })?;
    let look = || {
        py.check_signals()?;
        if let Some(task) = &task {
            task.check()?;
        }
        watch.report(py)
    };
    let mut is_published = false;
    loop {
        let received;
        (questions, received) = wait(py, questions, POLL);
        let looked = match received {
            Ok(question) => {
                let looked = look();
                is_published = looked.is_ok();
                // The work waits for the answer.
                let _ = question.send(is_published);
                looked
            }
            Err(RecvTimeoutError::Disconnected) => {
                let result = py.detach(|| worker.join().and_then(|result| result));
                return match result {
                    Ok(Ok(result)) if is_published => Ok(result),
                    Ok(Ok(result)) => watch.report(py).map(|()| result),
                    Ok(Err(error)) => Err(to_python(py, error)),
                    Err(panic) => panic::resume_unwind(panic),
                };
            }
            // A result that is appearing cannot be called back.
            Err(RecvTimeoutError::Timeout) if is_published => Ok(()),
            Err(RecvTimeoutError::Timeout) => look(),
        };
        if let Err(error) = looked {
            // A child that was forked meanwhile has no such worker, and the output is its
            // parent's.
            if process::id() == caller {
                end(py, watch, questions, worker);
            }
            return Err(error);
        }
    }
}

/// Waits until the work has stopped, or leaves it behind where that is harmless.
fn end<T: Send>(
    py: Python<'_>,
    watch: &Watch,
    mut questions: mpsc::Receiver<Question>,
    worker: JoinHandle<thread::Result<T>>,
) {
    watch.stop(py);
    let grace = if watch.makes_output() {
        OUTPUT_GRACE
    } else {
        GRACE
    };
    let started = Instant::now();
    while watch.borrows() || started.elapsed() < grace {
        let received;
        (questions, received) = wait(py, questions, POLL);
        match received {
            Ok(question) => drop(question.send(false)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                // Its result is not needed.
                let _ = py.detach(|| worker.join());
                return;
            }
        }
    }
    zstn::remove_unfinished_of(worker.thread().id());
}

/// Waits for a question. A receiver cannot be shared between threads, which `detach`
/// demands, so that it is handed over and back.
fn wait(
    py: Python<'_>,
    questions: mpsc::Receiver<Question>,
    time: Duration,
) -> (mpsc::Receiver<Question>, Result<Question, RecvTimeoutError>) {
    py.detach(move || {
        let received = questions.recv_timeout(time);
        (questions, received)
    })
}

/// Runs `work` that is over soon, without holding the interpreter.
pub fn run_short<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> zstn::Result<T> + Send,
) -> PyResult<T> {
    py.detach(work).map_err(|error| to_python(py, error))
}

fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    static MAIN: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static IDENT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let main = MAIN.import(py, "threading", "main_thread")?.call0()?;
    let ident = IDENT.import(py, "threading", "get_ident")?.call0()?;
    main.getattr("ident")?.eq(ident)
}
