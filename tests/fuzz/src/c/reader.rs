//! Reads a file through callbacks.

use std::ffi::CStr;
use std::ptr;

use zstn_capi::{
    ZSTN_VIEW_DENSE, zstn_engine, zstn_input, zstn_model, zstn_open_io, zstn_open_options,
    zstn_read, zstn_read_many, zstn_read_rows, zstn_reader, zstn_reader_free, zstn_reader_model,
    zstn_report, zstn_target, zstn_unpacked, zstn_unpacked_describe, zstn_unpacked_read_at,
    zstn_verify, zstn_work_options,
};

use super::io::File;
use super::room::{Room, fill};
use super::{Handle, Outcome, call, index};

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
        let rooms = tensors.iter().map(|(_, len)| Room::new(index(*len), 1));
        let mut rooms: Vec<Room> = rooms.collect();
        let targets = tensors.iter().zip(&mut rooms);
        let targets = targets.map(|((tensor, len), room)| zstn_target {
            tensor: *tensor,
            out: room.pointer(),
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
        let bytes = rooms.into_iter().map(Room::into_bytes).collect();
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
        let mut room = Room::new(len, offset as usize);
        let outcome = call(|error| {
            let out = room.pointer();
            // SAFETY: `self.reader` owns a valid handle, `out` points to `len` writable
            // bytes, and `error` comes from `call`.
            unsafe { zstn_unpacked_read_at(self.reader.pointer, offset, out, len, error) }
        });
        let bytes = room.into_bytes();
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
