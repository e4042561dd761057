//! Long calls that an exception can end: one from a signal handler or a progress
//! callback, or the cancellation of a task.
//!
//! Once such an exception has reached the caller, the work that it ended reads none of
//! the caller's objects and publishes no result. The work stops at its next step, and
//! the exception is raised after that. Only work that is waiting for something else,
//! such as a server, is abandoned: its unfinished files are removed, its
//! [`Lease`](crate::progress::Lease) is revoked, and its request to publish a result is
//! refused.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::error::{to_python, zstn_error};
use crate::progress::{Question, Watch};

/// Interval between two checks for signals.
const POLL: Duration = Duration::from_millis(50);

/// Time that the work has to stop before it is abandoned.
const GRACE: Duration = Duration::from_millis(100);

/// The same time for work with output files, which may have to remove large ones.
const OUTPUT_GRACE: Duration = Duration::from_secs(2);

/// Runs `work` without holding the interpreter. On Python's main thread, which is the
/// only one that handles signals, the work runs on a new thread while this one checks
/// for signals. The same happens if `watch` has a callback, or if the calling thread
/// works for a task that may be cancelled.
///
/// # Errors
/// Errors of the work, and exceptions of signal handlers, such as `KeyboardInterrupt`,
/// and of `watch`. After such an exception, the result of the work is dropped.
pub fn run<T: Send + 'static>(
    py: Python<'_>,
    watch: &Watch,
    work: impl FnOnce(&Watch) -> zstn::Result<T> + Send + 'static,
) -> PyResult<T> {
    let caller = process::id();
    let task = current_task();
    if !watch.is_watched() && task.is_none() && !is_main_thread(py)? {
        return py
            .detach(|| work(watch))
            .map_err(|error| to_python(py, error));
    }
    // The work sends a request before it publishes its result; the channel is closed
    // when the work ends.
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
                // The work waits for this answer.
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
            // Publishing has begun and cannot be stopped.
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

/// Waits until the work has stopped, or abandons it if that is harmless.
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
                // The result is not needed.
                let _ = py.detach(|| worker.join());
                return;
            }
        }
    }
    zstn::internals::remove_unfinished_of(worker.thread().id());
}

/// Waits for a request of the work. `detach` requires values that threads may share,
/// and a receiver is not; it is therefore moved in and returned.
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

/// Runs short `work` without holding the interpreter.
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

thread_local! {
    static CURRENT: RefCell<Option<Task>> = const { RefCell::new(None) };
}

/// An asyncio task that another thread may cancel while this one works for it.
#[derive(Clone, Default)]
struct Task(Arc<AtomicBool>);

impl Task {
    /// Returns an error if the task has been cancelled.
    fn check(&self) -> PyResult<()> {
        match self.0.load(Relaxed) {
            false => Ok(()),
            true => Python::attach(|py| {
                Err(zstn_error(py, "the work was cancelled".into(), "cancelled"))
            }),
        }
    }
}

/// Returns the task that this thread works for, if any.
fn current_task() -> Option<Task> {
    CURRENT.with_borrow(Clone::clone)
}

/// A context manager. `cancel` ends the calls of `zstn` on all threads that are inside of
/// it. `zstn.to_thread` uses it.
#[pyclass(frozen, module = "zstn._native")]
#[derive(Default)]
pub struct Cancellation(Task);

#[pymethods]
impl Cancellation {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Cancels the calls in progress, and all later ones.
    fn cancel(&self) {
        self.0.0.store(true, Relaxed);
    }

    fn __enter__(&self) -> PyResult<()> {
        self.0.check()?;
        CURRENT.set(Some(self.0.clone()));
        Ok(())
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, pyo3::types::PyTuple>) {
        CURRENT.set(None);
    }
}
