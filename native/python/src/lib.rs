//! The module `zstn._native`, through which the Python package `zstn` calls the crate
//! [`zstn`].
//!
//! It converts arguments, results and errors; the formats themselves are handled in the
//! crate. No call holds the interpreter while it reads, decodes or writes.

mod aio;
mod arguments;
mod buffer;
mod engine;
mod error;
mod gpu;
mod hub_jobs;
mod in_memory;
mod interrupt;
mod names;
mod object;
mod progress;
mod reader;
mod report;
mod save;
mod tensor;
mod view;
mod whole_checkpoint;

use pyo3::prelude::*;

// With huge pages, decoding large tensors takes a third of the time, because the system
// does not have to provide each small page separately.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: zstn::allocator::HugePageAllocator = zstn::allocator::HugePageAllocator;

/// Internals of the package `zstn`; use that package instead.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::aio::{AsyncReader, Running, open_async};
    #[pymodule_export]
    use super::buffer::Buffer;
    #[pymodule_export]
    use super::gpu::release_gpu_buffers;
    #[pymodule_export]
    use super::hub_jobs::{
        Results, check_restores, choose_bases, copy_sha256, list_objects, load_plan, plan_key,
        plan_share, read_plan, sample_sketch, stream_sha256, work_row,
    };
    #[pymodule_export]
    use super::in_memory::{
        compress, compress_as, compress_auto, compress_delta, decompress, decompress_delta,
        describe_frame, inspect_frame, model_delta_pack, model_delta_unpack, pack_bytes,
        unpack_bytes,
    };
    #[pymodule_export]
    use super::interrupt::Cancellation;
    #[pymodule_export]
    use super::names::{
        is_model_name, is_of_another_format, is_other_model, packed_name, restored_name,
    };
    #[pymodule_export]
    use super::reader::Reader;
    #[pymodule_export]
    use super::save::{save, save_file};
    #[pymodule_export]
    use super::tensor::TensorInfo;
    #[pymodule_export]
    use super::view::SafetensorsView;
    #[pymodule_export]
    use super::whole_checkpoint::{convert, diff, pack, sketch, unpack, verify};

    use std::ffi::OsString;
    use std::path::PathBuf;

    use pyo3::prelude::*;

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    #[pymodule_export]
    const PLAN_FORMAT: &str = zstn_hub::manifest::FORMAT;

    /// Runs the command line `zstn` in this process, which has to end with the returned
    /// exit status. `script` is the file that starts this command line.
    #[pyfunction]
    fn run_command_line(py: Python<'_>, script: Option<PathBuf>, arguments: Vec<OsString>) -> u8 {
        py.detach(|| zstn_cli::run(script, arguments))
    }

    /// Removes all unfinished output files of this process. Called when the interpreter
    /// exits.
    #[pyfunction]
    fn remove_unfinished() {
        zstn::remove_unfinished();
    }
}
