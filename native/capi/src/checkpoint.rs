//! Packing, restoring and verifying whole checkpoints, and the reports of these
//! functions.

use std::ffi::{c_char, c_void};
use std::ptr;

use zstn::source::HttpOptions;
use zstn::{Effort, Engine, Input, Job, PackOptions, UnpackOptions, VerifyOptions};

use crate::engine::{self, zstn_engine};
use crate::input::{self, Opened, zstn_input};
use crate::output::{self, zstn_output};
use crate::pointer::{self, Structure};
use crate::progress::{Watch, zstn_progress};
use crate::status::{self, Failure, zstn_error, zstn_status};

/// The result of packing, restoring or verifying. The caller sets `struct_size`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct zstn_report {
    /// `sizeof(zstn_report)`.
    pub struct_size: usize,
    /// Number of files that were packed, restored or verified.
    pub files: u64,
    /// For packing: number of tensors. For verifying: number of frames, records or
    /// tensors that were decoded. For unpacking: 0.
    pub tensors: u64,
    /// Total length of the packed files in bytes.
    pub packed_len: u64,
    /// Total length of the original files in bytes.
    pub original_len: u64,
    /// For verifying: 1 if all tensors were compared with those of the original.
    pub was_compared: i32,
    /// For verifying: 1 if every byte was compared with checksums in the files.
    pub has_checksums: i32,
    /// For verifying: 1 if every byte of every file was compared with the original and
    /// is the same.
    pub is_identical: i32,
    /// For verifying a folder: the number of files that were not checked, because
    /// copied files have no checksums.
    pub unchecked_files: u32,
}

// SAFETY: zeros are valid, and the 32-bit fields are even in number, so no padding is at
// the end.
unsafe impl Structure for zstn_report {}

/// The default balance between time and size.
pub const ZSTN_EFFORT_BALANCED: i32 = 0;
/// Takes less time; the output is a little larger.
pub const ZSTN_EFFORT_FAST: i32 = 1;
/// Takes several times as long; the output is smaller.
pub const ZSTN_EFFORT_MAX: i32 = 2;

/// Options for packing, restoring or verifying a whole checkpoint. A field that is 0 or
/// NULL selects its default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct zstn_work_options {
    /// `sizeof(zstn_work_options)`.
    pub struct_size: usize,
    /// The threads that do the work; NULL for the shared engine.
    pub engine: *const zstn_engine,
    /// The base of a delta, followed by the base of that base if it is a delta too, and
    /// so on; or the checkpoints that a model was merged from, each with its own bases
    /// after it.
    pub bases: *const *const zstn_input,
    /// Number of elements in `bases`; 0 for none.
    pub base_count: usize,
    /// Token sent to the server in the input's address, and to no other server; NULL
    /// for none.
    pub token: *const c_char,
    /// Callback that receives the progress and can stop the work; NULL for none.
    pub progress: zstn_progress,
    /// Passed to `progress`.
    pub progress_ctx: *mut c_void,
    /// For packing: the 32 bytes of the SHA-256 of the input, which must be a single
    /// file; NULL to have it computed. The digest is recorded without being checked;
    /// `zstn_unpack` and `zstn_verify` compare it and fail if it is wrong. See `confirm`.
    pub sha256: *const u8,
    /// Approximate limit on the memory used, in bytes; 0 for the default.
    pub memory: u64,
    /// 1 replaces an existing output; 0 fails with `ZSTN_ERROR_EXISTS`.
    pub overwrite: i32,
    /// For packing: one of `ZSTN_EFFORT_...`.
    pub effort: i32,
    /// For packing: 1 omits the checksums.
    pub no_checksums: i32,
    /// For packing: 1 accepts a file that was cut short; 0 refuses it.
    pub allow_truncated: i32,
    /// For packing: 1 omits the tensor statistics.
    pub no_statistics: i32,
    /// For packing: 1 writes extension frames where they are smaller. zstn 0.1 and later
    /// can read a file that contains one; z4ai cannot.
    pub extended: i32,
    /// For verifying: 1 records in a packed file at a path that its SHA-256, which
    /// `zstn_pack` was given, has been compared. The file is then replaced by a copy.
    pub confirm: i32,
    /// For verifying: 1 leaves out the digest of the restored file as a whole, usually its
    /// SHA-256. All tensors are still compared with their own digests.
    pub fast: i32,
}

// SAFETY: zeros are valid, and the 32-bit fields are even in number, so no padding is at
// the end.
unsafe impl Structure for zstn_work_options {}

/// The arguments of one call, converted from their C structures.
struct Given<'a> {
    input: Opened<'a>,
    /// The checkpoint to compare the input with; only `zstn_verify` has one.
    original: Option<Input>,
    work: Work,
}

impl<'a> Given<'a> {
    /// Converts the arguments of a call. All inputs are converted before the first
    /// error is returned, so that the contexts of all callbacks are released even if
    /// another argument is refused.
    ///
    /// # Safety
    /// Each pointer is NULL or valid, and so is everything that it points to.
    unsafe fn read(
        input: *const zstn_input,
        original: *const zstn_input,
        options: *const zstn_work_options,
        report: *mut zstn_report,
    ) -> Result<Self, Failure> {
        // SAFETY: the caller of this function guarantees that each pointer is NULL or
        // valid.
        let (input, original, options) = unsafe {
            (
                input::required(input, "the input"),
                input::optional(original, "the original"),
                pointer::structure(options, "the options"),
            )
        };
        let bases = match &options {
            // SAFETY: `options` was valid, so its list of bases is too.
            Ok(Some(options)) => unsafe { read_bases(options) },
            _ => Ok(Vec::new()),
        };
        let (input, original, bases) = (input?, original?, bases?);
        let options = options?.unwrap_or_else(pointer::zeroed);
        // SAFETY: the pointers in `options` are NULL or valid, as this function
        // requires.
        let work = unsafe { Work::new(options, bases, input.url) }?;
        // SAFETY: this function requires that `report` is NULL or valid.
        unsafe { check_report(report) }?;
        Ok(Self {
            input,
            original: original.map(|original| original.input),
            work,
        })
    }
}

/// Converts all bases, and only then returns the first error.
///
/// # Safety
/// The list in `options` is NULL or valid, and so is everything that it points to.
unsafe fn read_bases(options: &zstn_work_options) -> Result<Vec<Input>, Failure> {
    // SAFETY: this function requires that the list is NULL or has `base_count`
    // elements.
    let bases = unsafe { pointer::list(options.bases, options.base_count, "the list of bases") }?;
    let bases = bases.iter().map(|base| {
        // SAFETY: this function requires that every element is NULL or a valid input.
        unsafe { input::required(*base, "a base") }.map(|base| base.input)
    });
    let bases = bases.collect::<Vec<_>>();
    bases.into_iter().collect()
}

/// The options of one call, converted from `zstn_work_options`.
struct Work {
    given: zstn_work_options,
    engine: Engine,
    watch: Watch,
    bases: Vec<Input>,
    http: HttpOptions,
}

impl Work {
    /// Converts the options; `url` is the address of the input, if it has one.
    ///
    /// # Safety
    /// The pointers in `given` are NULL or valid.
    unsafe fn new(
        given: zstn_work_options,
        bases: Vec<Input>,
        url: Option<&str>,
    ) -> Result<Self, Failure> {
        Ok(Self {
            bases,
            // SAFETY: this function requires that `engine` is NULL or a live handle.
            engine: unsafe { engine::of(given.engine) },
            watch: Watch::new(given.progress, given.progress_ctx),
            // SAFETY: this function requires that `token` is NULL or a NUL-terminated
            // string.
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

    /// Returns the job that does the work.
    fn job(&self) -> Job<'_> {
        let job = Job::new()
            .engine(&self.engine)
            .http(self.http.clone())
            .progress(&self.watch)
            .cancel_token(self.watch.token());
        match self.given.memory {
            0 => job,
            bytes => job.memory_bytes(bytes),
        }
    }
}

/// Fills the caller's report. Does nothing for NULL.
///
/// # Safety
/// `out` is NULL or valid for the size in its `struct_size`.
unsafe fn fill_report(out: *mut zstn_report, value: &zstn_report) -> Result<(), Failure> {
    if out.is_null() {
        return Ok(());
    }
    // SAFETY: this function requires that `out` is valid if it is not NULL.
    unsafe { pointer::fill(out, value, "the report") }
}

/// Refuses a report that could not be filled, before any work is done.
///
/// # Safety
/// `out` is NULL or valid for the size in its `struct_size`.
unsafe fn check_report(out: *mut zstn_report) -> Result<(), Failure> {
    // SAFETY: both functions require the same.
    unsafe { fill_report(out, &pointer::zeroed()) }
}

fn len(count: usize) -> u64 {
    count as u64
}

/// Packs a safetensors checkpoint losslessly. A file becomes a ZSTN container, or a
/// delta if `options` name a base; a folder or an index becomes a folder. `options` and
/// `report` may be NULL. After an error, no output remains.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_pack(
    input: *const zstn_input,
    output: *const zstn_output,
    options: *const zstn_work_options,
    report: *mut zstn_report,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: the header requires that these pointers are NULL or valid structures.
        let given = unsafe { Given::read(input, ptr::null(), options, report) }?;
        let (input, work) = (given.input.input, given.work);
        // SAFETY: the header requires that `output` is NULL or a valid structure.
        let sink = unsafe { output::required(output, work.given.overwrite != 0) }?;
        let mut options = PackOptions::default()
            .effort(work.effort()?)
            .extended(work.given.extended != 0)
            .integrity(work.given.no_checksums == 0)
            .statistics(work.given.no_statistics == 0)
            .allow_truncated(work.given.allow_truncated != 0);
        // SAFETY: the header requires that `sha256` is NULL or points to 32 bytes.
        if let Some(sha256) = unsafe { work.given.sha256.cast::<[u8; 32]>().as_ref() } {
            options = options.sha256(*sha256);
        }
        for base in &work.bases {
            options = options.base(base);
        }
        let packed = zstn::pack(&work.job(), input, sink, &options)?;
        let value = zstn_report {
            files: len(packed.files.len()),
            tensors: len(packed.tensors()),
            packed_len: packed.packed_bytes(),
            original_len: packed.original_bytes(),
            ..pointer::zeroed()
        };
        // SAFETY: the header requires that `report` is NULL or a valid structure.
        unsafe { fill_report(report, &value) }
    })
}

/// Restores a checkpoint that `zstn_pack` has packed, byte for byte. The digests
/// recorded in the packed file are checked before the output gets its name. A writer
/// receives every tensor once its digest has been checked, and the last byte of the file
/// once all digests have been; after an error, discard what it has received. It takes the
/// same arguments as `zstn_pack`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_unpack(
    input: *const zstn_input,
    output: *const zstn_output,
    options: *const zstn_work_options,
    report: *mut zstn_report,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: the header requires that these pointers are NULL or valid structures.
        let given = unsafe { Given::read(input, ptr::null(), options, report) }?;
        let (input, work) = (given.input.input, given.work);
        // SAFETY: the header requires that `output` is NULL or a valid structure.
        let sink = unsafe { output::required(output, work.given.overwrite != 0) }?;
        let mut options = UnpackOptions::default();
        for base in &work.bases {
            options = options.base(base);
        }
        let unpacked = zstn::unpack(&work.job(), input, sink, &options)?;
        let value = zstn_report {
            files: len(unpacked.files.len()),
            packed_len: unpacked.packed_bytes(),
            original_len: unpacked.original_bytes(),
            ..pointer::zeroed()
        };
        // SAFETY: the header requires that `report` is NULL or a valid structure.
        unsafe { fill_report(report, &value) }
    })
}

/// Decodes a whole checkpoint and compares it with the checksums in its files, and with
/// `original` unless that is NULL. `options` and `report` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_verify(
    input: *const zstn_input,
    original: *const zstn_input,
    options: *const zstn_work_options,
    report: *mut zstn_report,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: the header requires that these pointers are NULL or valid structures.
        let given = unsafe { Given::read(input, original, options, report) }?;
        let (input, original, work) = (given.input.input, given.original, given.work);
        let mut options = VerifyOptions::default()
            .confirm(work.given.confirm != 0)
            .fast(work.given.fast != 0);
        for base in &work.bases {
            options = options.base(base);
        }
        if let Some(original) = original {
            options = options.original(original);
        }
        let verified = zstn::verify(&work.job(), input, &options)?;
        let value = zstn_report {
            files: len(verified.files.len()),
            tensors: len(verified.frames()),
            packed_len: verified.packed_bytes(),
            original_len: verified.original_bytes(),
            was_compared: verified.compared.into(),
            has_checksums: verified.has_digests().into(),
            is_identical: verified.identical.into(),
            unchecked_files: u32::try_from(verified.unchecked_files.len()).unwrap_or(u32::MAX),
            ..pointer::zeroed()
        };
        // SAFETY: the header requires that `report` is NULL or a valid structure.
        unsafe { fill_report(report, &value) }
    })
}

/// Packs the checkpoint at the path `input` to the path `output`; otherwise the same as
/// `zstn_pack`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_pack_path(
    input: *const c_char,
    output: *const c_char,
    options: *const zstn_work_options,
    report: *mut zstn_report,
    error: *mut zstn_error,
) -> zstn_status {
    let (input, output) = paths(input, output);
    // SAFETY: the two structures are valid, and the caller guarantees the rest.
    unsafe { zstn_pack(&raw const input, &raw const output, options, report, error) }
}

/// Restores the checkpoint at the path `input` to the path `output`; otherwise the same
/// as `zstn_unpack`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_unpack_path(
    input: *const c_char,
    output: *const c_char,
    options: *const zstn_work_options,
    report: *mut zstn_report,
    error: *mut zstn_error,
) -> zstn_status {
    let (input, output) = paths(input, output);
    // SAFETY: the two structures are valid, and the caller guarantees the rest.
    unsafe { zstn_unpack(&raw const input, &raw const output, options, report, error) }
}

fn paths(input: *const c_char, output: *const c_char) -> (zstn_input, zstn_output) {
    let input = zstn_input {
        path: input,
        ..pointer::zeroed()
    };
    let output = zstn_output {
        path: output,
        ..pointer::zeroed()
    };
    (input, output)
}
