//! Long calls that a signal ends.

use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::error::{lost, to_python};
use crate::progress::Watch;

/// The time between two looks at signals.
const POLL: Duration = Duration::from_millis(50);

/// The time that work has to end after a signal before its caller goes on
/// without it.
const GRACE: Duration = Duration::from_millis(100);

/// Runs `work` without holding the interpreter. On Python's main thread, the
/// only one that handles signals, the work runs on a thread of its own while
/// this one looks for signals; so it does if `watch` has to be informed.
///
/// # Errors
/// Those of the work, and the exceptions of signal handlers, such as
/// `KeyboardInterrupt`, and of `watch`. After such an exception the work is
/// asked to stop; what it was about to return is dropped.
pub fn run<T: Send + 'static>(
    py: Python<'_>,
    watch: &Watch,
    work: impl FnOnce(&Watch) -> zstn::Result<T> + Send + 'static,
) -> PyResult<T> {
    if !watch.is_watched() && !is_main_thread(py)? {
        return py
            .detach(|| work(watch))
            .map_err(|error| to_python(py, error));
    }
    let (sender, mut receiver) = mpsc::sync_channel(1);
    let of_worker = watch.clone();
    let worker = thread::Builder::new().name("zstn-call".into());
    worker.spawn(move || {
        let result = panic::catch_unwind(AssertUnwindSafe(|| work(&of_worker)));
        // Nobody waits any more after a signal.
        let _ = sender.send(result);
    })?;
    loop {
        // A receiver cannot be shared between threads, and `detach` asks for it.
        let (back, received) = py.detach(|| wait(receiver, POLL));
        let receiver_again = back;
        match received {
            Ok(Ok(result)) => {
                watch.report(py)?;
                return result.map_err(|error| to_python(py, error));
            }
            Ok(Err(panic)) => panic::resume_unwind(panic),
            Err(RecvTimeoutError::Disconnected) => return Err(lost()),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Err(error) = py.check_signals().and_then(|()| watch.report(py)) {
            watch.stop();
            py.detach(|| wait(receiver_again, GRACE)).1.ok();
            return Err(error);
        }
        receiver = receiver_again;
    }
}

fn wait<T: Send>(
    receiver: mpsc::Receiver<T>,
    time: Duration,
) -> (mpsc::Receiver<T>, Result<T, RecvTimeoutError>) {
    let received = receiver.recv_timeout(time);
    (receiver, received)
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
