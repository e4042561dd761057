//! The error type.

/// The result of every fallible operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a GPU, or of a file that is loaded into one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No driver is installed.
    #[error(
        "there is no NVIDIA driver: the library {library} cannot be loaded; install driver 525 \
         or later, or decode on the CPU"
    )]
    NoDriver {
        /// The name of the driver's library.
        library: &'static str,
    },
    /// The GPU lacks instructions that the kernels use.
    #[error(
        "{name} has compute capability {}.{}, and the kernels need 8.0 or later; decode on the \
         CPU", capability.0, capability.1
    )]
    OldGpu {
        /// The name of the GPU.
        name: String,
        /// Its compute capability: the major and the minor number.
        capability: (i32, i32),
    },
    /// The GPU has too little free memory.
    #[error(
        "the GPU does not have {len_bytes} bytes of free memory: free some, or load on the CPU"
    )]
    DeviceMemory {
        /// The length that could not be allocated, in bytes.
        len_bytes: u64,
    },
    /// The driver refuses an operation.
    #[error("cannot {action}: {detail}")]
    Driver {
        /// The attempted action, a verb phrase.
        action: &'static str,
        /// The driver's message.
        detail: String,
    },
    /// The caller's buffers are shorter than the plan requires, or too long.
    #[error("{0}")]
    Usage(String),
    /// The file is refused or cannot be read.
    #[error(transparent)]
    File(#[from] zstn::Error),
}

impl From<zstn_core::Error> for Error {
    fn from(error: zstn_core::Error) -> Self {
        Self::File(error.into())
    }
}
