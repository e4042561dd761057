//! The GPUs that all parts of a process share, so that they share buffers as well.

use std::collections::BTreeMap;
use std::process;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Gpu;
use crate::{Error, Result};

struct Opened {
    process: u32,
    /// The GPUs, or the reasons why they cannot be used.
    gpus: BTreeMap<u16, Result<Gpu, String>>,
}

static OPENED: Mutex<Option<Opened>> = Mutex::new(None);

fn opened() -> MutexGuard<'static, Option<Opened>> {
    OPENED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gpu {
    /// Returns the GPU with this number, which all callers of this function share. The
    /// first call opens it.
    ///
    /// # Errors
    /// [`Error::Driver`] if [`Gpu::open`] fails, which is not tried again, and in a process
    /// that was forked from one that uses GPUs, because the driver does not support that.
    pub fn of_process(number: u16) -> Result<Self> {
        let process = process::id();
        let mut opened = opened();
        let opened = opened.get_or_insert_with(|| Opened {
            process,
            gpus: BTreeMap::new(),
        });
        if opened.process != process {
            return Err(Error::Driver {
                action: "use the GPU",
                detail: "this process was forked from one that uses it".into(),
            });
        }
        let open = || Self::open(number).map_err(|error| error.to_string());
        let gpu = opened.gpus.entry(number).or_insert_with(open);
        gpu.clone().map_err(|detail| Error::Driver {
            action: "use the GPU",
            detail,
        })
    }

    /// Frees the buffers that are not in use, of all GPUs of [`Gpu::of_process`].
    pub fn release_buffers_of_process() {
        let opened = opened();
        let opened = opened.iter().filter(|all| all.process == process::id());
        opened
            .flat_map(|all| all.gpus.values().flatten())
            .for_each(Self::release_buffers);
    }
}
