//! Reads a file in memory through callbacks, which may return fewer bytes than
//! requested, or fail.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use zstn_capi::{
    ZSTN_VIEW_DENSE, zstn_engine, zstn_input, zstn_io, zstn_model, zstn_open_io, zstn_open_options,
    zstn_read, zstn_read_many, zstn_read_rows, zstn_reader, zstn_reader_free, zstn_reader_model,
    zstn_report, zstn_target, zstn_unpacked, zstn_unpacked_describe, zstn_unpacked_read_at,
    zstn_verify, zstn_work_options,
};

use super::{GuardedBuffer, Handle, Outcome, call, fill, index};
use crate::part;

/// A reader, which is freed before its file.
pub struct Reader<'a> {
    reader: Handle<zstn_reader>,
    _file: &'a File<'a>,
}

impl<'a> Reader<'a> {
    /// Opens a file. The engine may be freed before the reader.
    pub fn open(file: &'a File<'a>, engine: &Handle<zstn_engine>) -> Outcome<Self> {
        let options = zstn_open_options {
            struct_size: size_of::<zstn_open_options>(),
            engine: engine.pointer,
            base: ptr::null(),
            token: ptr::null(),
            cache_len: 1 << 20,
            view: ZSTN_VIEW_DENSE,
            reserved: 0,
            max_full_download_len: 0,
            bases: ptr::null(),
            base_count: 0,
        };
        let (io, len) = (file.callbacks(), file.len_bytes());
        let reader = Handle::new(zstn_reader_free, |out, error| {
            // SAFETY: the callbacks belong to a file that outlives the reader, the
            // options hold a valid engine handle, `out` points to a writable pointer,
            // and `error` comes from `call`.
            unsafe { zstn_open_io(&raw const io, len, &raw const options, out, error) }
        })?;
        let _file = file;
        Ok(Self { reader, _file })
    }

    /// Returns the reader's model, which is freed with the reader.
    pub fn model(&self) -> *const zstn_model {
        // SAFETY: `self.reader` owns a valid handle.
        unsafe { zstn_reader_model(self.reader.pointer) }
    }

    /// Reads a tensor of `len_bytes` bytes.
    pub fn read(&self, name: &CStr, len_bytes: u64) -> Outcome<Vec<u8>> {
        fill(index(len_bytes), 1, |out, capacity, error| {
            // SAFETY: `self.reader` owns a valid handle, `name` is NUL-terminated,
            // `out` points to `capacity` writable bytes, and `error` comes from `call`.
            unsafe { zstn_read(self.reader.pointer, name.as_ptr(), out, capacity, error) }
        })
    }

    /// Reads rows with `len_bytes` bytes in total.
    pub fn rows(&self, name: &CStr, rows: (u64, u64), len_bytes: u64) -> Outcome<Vec<u8>> {
        let (reader, name) = (self.reader.pointer, name.as_ptr());
        fill(index(len_bytes), 1, |out, capacity, error| {
            // SAFETY: `reader` is a valid handle, `name` is NUL-terminated, `out`
            // points to `capacity` writable bytes, and `error` comes from `call`.
            unsafe { zstn_read_rows(reader, name, rows.0, rows.1, out, capacity, error) }
        })
    }

    /// Reads several tensors in one call, each given by its index and length.
    pub fn many(&self, tensors: &[(usize, u64)]) -> Outcome<Vec<Vec<u8>>> {
        let buffers = tensors
            .iter()
            .map(|(_, len)| GuardedBuffer::new(index(*len), 1));
        let mut buffers: Vec<GuardedBuffer> = buffers.collect();
        let targets = tensors.iter().zip(&mut buffers);
        let targets = targets.map(|((tensor, len), buffer)| zstn_target {
            tensor: *tensor,
            out: buffer.pointer(),
            capacity: index(*len),
        });
        let targets: Vec<zstn_target> = targets.collect();
        let outcome = call(|error| {
            let (list, count, ctx) = (targets.as_ptr(), targets.len(), ptr::null_mut());
            // SAFETY: `self.reader` owns a valid handle, `list` points to `count`
            // targets whose buffers have the stated lengths, there is no callback, and
            // `error` comes from `call`.
            unsafe { zstn_read_many(self.reader.pointer, list, count, None, ctx, error) }
        });
        let bytes = buffers.into_iter().map(GuardedBuffer::into_bytes).collect();
        outcome.map(|()| bytes)
    }

    /// Returns the length of the unpacked safetensors file.
    pub fn unpacked_len(&self) -> Outcome<u64> {
        let mut unpacked = zstn_unpacked {
            struct_size: size_of::<zstn_unpacked>(),
            len: u64::MAX,
            is_original: 2,
            has_sha256: 2,
            sha256: [0; 32],
        };
        call(|error| {
            // SAFETY: `self.reader` owns a valid handle, `unpacked` has its
            // `struct_size` set, and `error` comes from `call`.
            unsafe { zstn_unpacked_describe(self.reader.pointer, &raw mut unpacked, error) }
        })?;
        assert!([unpacked.is_original, unpacked.has_sha256].map(|flag| flag < 2) == [true; 2]);
        Ok(unpacked.len)
    }

    /// Reads a range of the unpacked file.
    pub fn unpacked(&self, offset: u64, len: usize) -> Outcome<Vec<u8>> {
        let mut buffer = GuardedBuffer::new(len, offset as usize);
        let outcome = call(|error| {
            let out = buffer.pointer();
            // SAFETY: `self.reader` owns a valid handle, `out` points to `len` writable
            // bytes, and `error` comes from `call`.
            unsafe { zstn_unpacked_read_at(self.reader.pointer, offset, out, len, error) }
        });
        let bytes = buffer.into_bytes();
        outcome.map(|()| bytes)
    }
}

/// Verifies a file, and checks that the library released it.
pub fn verify(file: &File, engine: &Handle<zstn_engine>) -> Outcome<()> {
    let io = file.callbacks();
    let input = zstn_input {
        struct_size: size_of::<zstn_input>(),
        path: ptr::null(),
        url: ptr::null(),
        io: &raw const io,
        io_len: file.len_bytes(),
    };
    let options = zstn_work_options {
        struct_size: size_of::<zstn_work_options>(),
        engine: engine.pointer,
        bases: ptr::null(),
        base_count: 0,
        token: ptr::null(),
        progress: None,
        progress_ctx: ptr::null_mut(),
        sha256: ptr::null(),
        memory: 64 << 20,
        overwrite: 0,
        effort: 0,
        no_checksums: 0,
        allow_truncated: 0,
        no_statistics: 0,
        extended: 0,
        confirm: 0,
        fast: 0,
    };
    let mut report = zstn_report {
        struct_size: size_of::<zstn_report>(),
        files: 0,
        tensors: 0,
        packed_len: 0,
        original_len: 0,
        was_compared: 2,
        has_checksums: 2,
        is_identical: 2,
        unchecked_files: 0,
    };
    let outcome = call(|error| {
        let (input, options) = (&raw const input, &raw const options);
        // SAFETY: all structures have their `struct_size` set, the callbacks belong to
        // a file that outlives the call, the original is null, and `error` comes from
        // `call`.
        unsafe { zstn_verify(input, ptr::null(), options, &raw mut report, error) }
    });
    file.is_released(1);
    outcome.map(|()| {
        assert_eq!((report.files, report.was_compared), (1, 0));
        assert_eq!(report.packed_len, file.len_bytes());
    })
}

/// A file, and how its callbacks behave.
pub struct File<'a> {
    bytes: &'a [u8],
    /// Maximum number of bytes that a call returns.
    most: usize,
    /// Number of calls that succeed, and the result of all later calls.
    failure: Option<(u64, i64)>,
    calls: AtomicU64,
    released: AtomicUsize,
}

impl<'a> File<'a> {
    pub fn new(bytes: &'a [u8], most: usize, failure: Option<(u64, i64)>) -> Self {
        Self {
            bytes,
            most,
            failure,
            calls: AtomicU64::new(0),
            released: AtomicUsize::new(0),
        }
    }

    pub fn len_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Returns the callbacks, which are valid while this file is borrowed.
    pub fn callbacks(&self) -> zstn_io {
        zstn_io {
            struct_size: size_of::<zstn_io>(),
            ctx: ptr::from_ref(self).cast_mut().cast(),
            read_at: Some(read_at),
            release: Some(release),
            name: c"a file in memory".as_ptr(),
        }
    }

    /// Checks that the library released the file exactly `times` times.
    pub fn is_released(&self, times: usize) {
        assert_eq!(self.released.load(Ordering::Relaxed), times);
    }
}

/// Implements `read_at` of `zstn_io`. A panic ends the process.
///
/// # Safety
/// `ctx` points to a live [`File`], and `buffer` to `len` writable bytes.
unsafe extern "C" fn read_at(
    ctx: *mut c_void,
    offset: u64,
    buffer: *mut c_void,
    len: usize,
) -> i64 {
    // SAFETY: the caller guarantees that `ctx` points to a live `File`, which is only
    // accessed through shared references.
    let file = unsafe { &*ctx.cast::<File>() };
    assert_eq!(file.released.load(Ordering::Relaxed), 0, "it was released");
    assert!(len > 0, "nothing was asked for");
    let all = part(file.bytes, offset..offset + len as u64);
    let call = file.calls.fetch_add(1, Ordering::Relaxed);
    match file.failure {
        Some((good, result)) if call >= good => return result,
        _ => {}
    }
    let some = &all[..len.min(file.most)];
    // SAFETY: the caller guarantees `len` writable bytes at `buffer`, and `some` is at
    // most that long. The buffer belongs to the library, so it does not overlap the
    // file.
    unsafe { ptr::copy_nonoverlapping(some.as_ptr(), buffer.cast(), some.len()) };
    i64::try_from(some.len()).expect("a small file")
}

/// Records that the library has released the file.
///
/// # Safety
/// `ctx` points to a live [`File`].
unsafe extern "C" fn release(ctx: *mut c_void) {
    // SAFETY: the caller guarantees that `ctx` points to a live `File`, which is only
    // accessed through shared references.
    let file = unsafe { &*ctx.cast::<File>() };
    file.released.fetch_add(1, Ordering::Relaxed);
}
