//! Work on whole checkpoints.

use std::ffi::{c_char, c_void};
use std::ptr;

use zstn::source::HttpOptions;
use zstn::{Effort, Engine, Input, PackOptions, UnpackOptions, VerifyOptions};

use crate::engine::{self, zstn_engine};
use crate::input::{self, Opened, zstn_input};
use crate::pointer;
use crate::progress::{Watch, zstn_progress};
use crate::report::{self, zstn_report};
use crate::sink::{self, zstn_output};
use crate::status::{self, Failure, zstn_error, zstn_status};
use crate::structure::{self, Structure};

/// The usual trade-off of time against size.
pub const ZSTN_EFFORT_BALANCED: i32 = 0;
/// Less time, a little larger.
pub const ZSTN_EFFORT_FAST: i32 = 1;
/// Smaller, several times the time.
pub const ZSTN_EFFORT_MAX: i32 = 2;

/// Options for work on a whole checkpoint. Zeros ask for what is usual.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct zstn_work_options {
    /// `sizeof(zstn_work_options)`.
    pub struct_size: usize,
    /// Works on the checkpoint; NULL for the shared engine.
    pub engine: *const zstn_engine,
    /// The base of a delta; if that is a delta too, the base of that one, and so
    /// on.
    pub bases: *const *const zstn_input,
    /// Number of bases; 0 for none.
    pub base_count: usize,
    /// Token for the server of an input's address, which no other server receives;
    /// NULL for none.
    pub token: *const c_char,
    /// Watches the work; NULL for none.
    pub progress: zstn_progress,
    /// Passed to `progress`.
    pub progress_ctx: *mut c_void,
    /// For packing: the 32 bytes of the SHA-256 of the input, a single file, which is
    /// then not computed but taken on trust; NULL for none. `zstn_unpack` and
    /// `zstn_verify` compare it, and fail if it is wrong.
    pub sha256: *const u8,
    /// Bytes of memory to stay within, roughly; 0 for what is usual.
    pub memory: u64,
    /// 1 replaces an existing output; by default that is `ZSTN_ERROR_EXISTS`.
    pub overwrite: i32,
    /// For packing: one of `ZSTN_EFFORT_...`.
    pub effort: i32,
    /// For packing: 1 leaves the checksums out.
    pub no_checksums: i32,
    /// For packing: 1 packs a file that was cut short; by default it is refused.
    pub allow_truncated: i32,
    /// For packing: 1 leaves the statistics of the tensors out.
    pub no_statistics: i32,
    /// For packing: 1 writes extension frames where they are smaller. A file with
    /// one is read by zstn 0.1 and later.
    pub extended: i32,
}

// SAFETY: such a structure: it ends in an even number of 32 bits.
unsafe impl Structure for zstn_work_options {}

/// The arguments of the caller, read.
struct Given<'a> {
    input: Opened<'a>,
    /// For verifying.
    original: Option<Input>,
    work: Work,
}

impl<'a> Given<'a> {
    /// Reads all inputs before the first error is returned: the contexts of all
    /// callbacks are released whatever is wrong with other arguments.
    ///
    /// # Safety
    /// The pointers are NULL or valid, and so is all that they point to.
    unsafe fn read(
        input: *const zstn_input,
        original: *const zstn_input,
        options: *const zstn_work_options,
        report: *mut zstn_report,
    ) -> Result<Self, Failure> {
        // SAFETY: see above.
        let (input, original, options) = unsafe {
            (
                input::required(input, "the input"),
                input::optional(original, "the original"),
                structure::read(options, "the options"),
            )
        };
        let bases = match &options {
            // SAFETY: a list of the caller.
            Ok(Some(options)) => unsafe { read_bases(options) },
            _ => Ok(Vec::new()),
        };
        let (input, original, bases) = (input?, original?, bases?);
        let options = options?.unwrap_or_else(structure::zeroed);
        // SAFETY: see above.
        let work = unsafe { Work::new(options, bases, input.url) }?;
        // SAFETY: see above.
        unsafe { report::check(report) }?;
        Ok(Self {
            input,
            original: original.map(|original| original.input),
            work,
        })
    }
}

/// Reads all bases, and then returns the first error.
///
/// # Safety
/// The list is NULL or valid, and so is all that it points to.
unsafe fn read_bases(options: &zstn_work_options) -> Result<Vec<Input>, Failure> {
    // SAFETY: see above.
    let bases = unsafe { pointer::list(options.bases, options.base_count, "the list of bases") }?;
    let bases = bases.iter().map(|base| {
        // SAFETY: an input of the caller.
        unsafe { input::required(*base, "a base") }.map(|base| base.input)
    });
    let bases = bases.collect::<Vec<_>>();
    bases.into_iter().collect()
}

/// Options of the caller, read.
struct Work {
    given: zstn_work_options,
    engine: Engine,
    watch: Watch,
    bases: Vec<Input>,
    http: HttpOptions,
}

impl Work {
    /// # Safety
    /// That of [`Given::read`]; `url` is that of the input.
    unsafe fn new(
        given: zstn_work_options,
        bases: Vec<Input>,
        url: Option<&str>,
    ) -> Result<Self, Failure> {
        Ok(Self {
            bases,
            // SAFETY: NULL or a handle.
            engine: unsafe { engine::of(given.engine) },
            watch: Watch::new(given.progress, given.progress_ctx),
            // SAFETY: NULL or a text.
            http: unsafe { input::http(given.token, url) }?,
            given,
        })
    }

    fn effort(&self) -> Result<Effort, Failure> {
        match self.given.effort {
            ZSTN_EFFORT_BALANCED => Ok(Effort::Balanced),
            ZSTN_EFFORT_FAST => Ok(Effort::Fast),
            ZSTN_EFFORT_MAX => Ok(Effort::Max),
            other => Err(Failure::usage(format!("there is no effort {other}"))),
        }
    }

    fn memory_bytes(&self) -> Option<u64> {
        Some(self.given.memory).filter(|bytes| *bytes > 0)
    }
}

fn len(count: usize) -> u64 {
    count as u64
}

/// Packs a checkpoint of safetensors without losing a bit: a file into a ZSTN
/// container, or with a base into its difference from that; a folder or an index
/// into a folder. `options` and `report` may be NULL. After an error nothing of
/// the output is left.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_pack(
    input: *const zstn_input,
    output: *const zstn_output,
    options: *const zstn_work_options,
    report: *mut zstn_report,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: structures of the caller, as the header says.
        let given = unsafe { Given::read(input, ptr::null(), options, report) }?;
        let (input, work) = (given.input.input, given.work);
        // SAFETY: an output of the caller.
        let sink = unsafe { sink::required(output, work.given.overwrite != 0) }?;
        let mut options = PackOptions::default()
            .effort(work.effort()?)
            .extended(work.given.extended != 0)
            .integrity(work.given.no_checksums == 0)
            .statistics(work.given.no_statistics == 0)
            .allow_truncated(work.given.allow_truncated != 0)
            .http(work.http.clone())
            .progress(&work.watch);
        if let Some(bytes) = work.memory_bytes() {
            options = options.memory_bytes(bytes);
        }
        // SAFETY: NULL or 32 bytes of the caller.
        if let Some(sha256) = unsafe { work.given.sha256.cast::<[u8; 32]>().as_ref() } {
            options = options.sha256(*sha256);
        }
        for base in &work.bases {
            options = options.base(base);
        }
        let packed = work
            .watch
            .run(|| zstn::pack(&work.engine, input, sink, &options))?;
        let value = zstn_report {
            files: len(packed.files.len()),
            tensors: len(packed.tensors()),
            packed_len: packed.packed_bytes(),
            original_len: packed.original_bytes(),
            ..structure::zeroed()
        };
        // SAFETY: a report of the caller.
        unsafe { report::fill(report, &value) }
    })
}

/// Restores what `zstn_pack` has packed, byte for byte. What the packed file says
/// of its bytes is checked before the output gets its name, or a writer anything.
/// Otherwise as `zstn_pack`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_unpack(
    input: *const zstn_input,
    output: *const zstn_output,
    options: *const zstn_work_options,
    report: *mut zstn_report,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: structures of the caller, as the header says.
        let given = unsafe { Given::read(input, ptr::null(), options, report) }?;
        let (input, work) = (given.input.input, given.work);
        // SAFETY: an output of the caller.
        let sink = unsafe { sink::required(output, work.given.overwrite != 0) }?;
        let mut options = UnpackOptions::default()
            .http(work.http.clone())
            .progress(&work.watch);
        if let Some(bytes) = work.memory_bytes() {
            options = options.memory_bytes(bytes);
        }
        for base in &work.bases {
            options = options.base(base);
        }
        let unpacked = work
            .watch
            .run(|| zstn::unpack(&work.engine, input, sink, &options))?;
        let value = zstn_report {
            files: len(unpacked.files.len()),
            packed_len: unpacked.packed_bytes(),
            original_len: unpacked.original_bytes(),
            ..structure::zeroed()
        };
        // SAFETY: a report of the caller.
        unsafe { report::fill(report, &value) }
    })
}

/// Decodes everything of a checkpoint and compares it with the checksums in its
/// files, and with `original` unless that is NULL. `options` and `report` may be
/// NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_verify(
    input: *const zstn_input,
    original: *const zstn_input,
    options: *const zstn_work_options,
    report: *mut zstn_report,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: structures of the caller, as the header says.
        let given = unsafe { Given::read(input, original, options, report) }?;
        let (input, original, work) = (given.input.input, given.original, given.work);
        let mut options = VerifyOptions::default()
            .http(work.http.clone())
            .progress(&work.watch);
        if let Some(bytes) = work.memory_bytes() {
            options = options.memory_bytes(bytes);
        }
        for base in &work.bases {
            options = options.base(base);
        }
        if let Some(original) = original {
            options = options.original(original);
        }
        let verified = work
            .watch
            .run(|| zstn::verify(&work.engine, input, &options))?;
        let value = zstn_report {
            files: len(verified.files.len()),
            tensors: len(verified.frames()),
            packed_len: verified.packed_bytes(),
            original_len: verified.original_bytes(),
            was_compared: verified.compared.into(),
            has_checksums: verified.has_digests().into(),
            is_identical: verified.identical.into(),
            unchecked_files: u32::try_from(verified.unchecked_files.len()).unwrap_or(u32::MAX),
            ..structure::zeroed()
        };
        // SAFETY: a report of the caller.
        unsafe { report::fill(report, &value) }
    })
}

/// Packs the checkpoint at one path to another: `zstn_pack` for those who need
/// nothing else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_pack_path(
    input: *const c_char,
    output: *const c_char,
    options: *const zstn_work_options,
    report: *mut zstn_report,
    error: *mut zstn_error,
) -> zstn_status {
    let (input, output) = paths(input, output);
    // SAFETY: the same demands.
    unsafe { zstn_pack(&raw const input, &raw const output, options, report, error) }
}

/// Restores the checkpoint at one path to another: `zstn_unpack` for those who
/// need nothing else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_unpack_path(
    input: *const c_char,
    output: *const c_char,
    options: *const zstn_work_options,
    report: *mut zstn_report,
    error: *mut zstn_error,
) -> zstn_status {
    let (input, output) = paths(input, output);
    // SAFETY: the same demands.
    unsafe { zstn_unpack(&raw const input, &raw const output, options, report, error) }
}

fn paths(input: *const c_char, output: *const c_char) -> (zstn_input, zstn_output) {
    let input = zstn_input {
        path: input,
        ..structure::zeroed()
    };
    let output = zstn_output {
        path: output,
        ..structure::zeroed()
    };
    (input, output)
}
