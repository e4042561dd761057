//! Cancellation of asyncio tasks while a thread works for them.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use pyo3::prelude::*;

use crate::error::zstn_error;

thread_local! {
    static CURRENT: RefCell<Option<Task>> = const { RefCell::new(None) };
}

/// A task that another thread may cancel.
#[derive(Clone, Default)]
pub struct Task(Arc<AtomicBool>);

impl Task {
    /// Returns an error if the task has been cancelled.
    pub fn check(&self) -> PyResult<()> {
        match self.0.load(Relaxed) {
            false => Ok(()),
            true => Python::attach(|py| {
                Err(zstn_error(py, "the work was cancelled".into(), "cancelled"))
            }),
        }
    }
}

/// Returns the task that this thread works for, if any.
pub fn current() -> Option<Task> {
    CURRENT.with_borrow(Clone::clone)
}

/// Cancels calls of `zstn` on the threads that entered it. `zstn.to_thread` uses it.
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
