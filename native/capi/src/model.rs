//! Models: the lists of tensors in opened files, with their strings for C.

use std::ffi::c_char;
use std::ptr;
use std::sync::{Arc, OnceLock};

use zstn::Reader;
use zstn::zstn_core::dtype::Dtype;
use zstn::zstn_core::model::Model;

use crate::pointer::{self, Structure};
use crate::status::{self, Failure, zstn_error, zstn_status};

/// The list of a model's tensors, with their names, element types, shapes and places in
/// the files. It never changes, and any number of threads may use it at the same time.
pub struct zstn_model {
    pub opened: Arc<Opened>,
}

/// The data that a model's handle shares with its plans.
pub struct Opened {
    owner: Owner,
    strings: OnceLock<Strings>,
}

enum Owner {
    Itself(Model),
    Reader(Reader),
}

impl zstn_model {
    pub fn new(model: Model) -> Self {
        Self::with(Owner::Itself(model))
    }

    pub fn of_reader(reader: &Reader) -> Self {
        Self::with(Owner::Reader(reader.clone()))
    }

    fn with(owner: Owner) -> Self {
        Self {
            opened: Arc::new(Opened {
                owner,
                strings: OnceLock::new(),
            }),
        }
    }
}

impl Opened {
    pub fn model(&self) -> &Model {
        match &self.owner {
            Owner::Itself(model) => model,
            Owner::Reader(reader) => reader.model(),
        }
    }

    fn strings(&self) -> &Strings {
        self.strings.get_or_init(|| Strings::of(self.model()))
    }
}

/// The index entry of a tensor. The caller sets `struct_size`. Strings and shape belong
/// to the model and stay valid until it is freed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct zstn_tensor {
    /// `sizeof(zstn_tensor)`.
    pub struct_size: usize,
    /// Name of the tensor, NUL-terminated.
    pub name: *const c_char,
    /// Length of the name in bytes, needed because a forged name may contain a NUL.
    pub name_len: usize,
    /// Element type in the spelling of safetensors, such as "BF16".
    pub dtype: *const c_char,
    /// Lengths of the dimensions, outermost first.
    pub shape: *const u64,
    /// Number of dimensions; 0 for a scalar.
    pub rank: usize,
    /// Length in bytes of the decoded tensor, which is little-endian and row-major.
    pub len: u64,
    /// Number of bytes that the tensor takes in its file; its share, if it is only a part
    /// of an entry of a packed file.
    pub stored_len: u64,
    /// Number of another tensor with the same bytes, or `ZSTN_NONE`. In files of other
    /// programs, that tensor may come later in the list.
    pub alias_of: u64,
    /// Number of bits per element.
    pub dtype_bits: i32,
    /// 1 if the tensor can only be read together with a base.
    pub needs_base: i32,
}

/// The value of `alias_of` in a tensor that is not an alias.
pub const ZSTN_NONE: u64 = 0xFFFF_FFFF_FFFF_FFFF;

// SAFETY: zeros are valid, and the 32-bit fields are even in number, so no padding is at
// the end.
unsafe impl Structure for zstn_tensor {}

/// An entry of a model's metadata. The strings belong to the model.
#[repr(C)]
pub struct zstn_metadata {
    /// Key, NUL-terminated.
    pub key: *const c_char,
    /// Length of the key in bytes, without the NUL.
    pub key_len: usize,
    /// Value, NUL-terminated.
    pub value: *const c_char,
    /// Length of the value in bytes, without the NUL.
    pub value_len: usize,
}

/// Returns the number of tensors; 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_model_tensor_count(model: *const zstn_model) -> usize {
    // SAFETY: the header requires that `model` is NULL or a live handle.
    match unsafe { model.as_ref() } {
        Some(model) => model.opened.model().tensors().len(),
        None => 0,
    }
}

/// Fills `tensor` with the index entry of tensor `number`. Tensors are numbered from 0,
/// in the order of the index.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_model_tensor(
    model: *const zstn_model,
    number: usize,
    tensor: *mut zstn_tensor,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: the header requires that `model` is NULL or a live handle.
        let opened = &unsafe { pointer::reference(model, "the model") }?.opened;
        let info = opened.model().tensor(number)?;
        let strings = opened.strings();
        let (name, name_len) = strings.names.get(number);
        let value = zstn_tensor {
            struct_size: size_of::<zstn_tensor>(),
            name,
            name_len,
            dtype: strings.dtype(info.dtype),
            shape: match &info.shape[..] {
                [] => ptr::null(),
                shape => shape.as_ptr(),
            },
            rank: info.shape.len(),
            len: info.len_bytes(),
            stored_len: info.stored_share_bytes(),
            alias_of: info.alias_of.map_or(ZSTN_NONE, |number| number as u64),
            dtype_bits: i32::try_from(info.dtype.bits()).unwrap_or(0),
            needs_base: info.base.is_some().into(),
        };
        // SAFETY: the header requires that `tensor` is NULL or a structure with its size
        // set.
        unsafe { pointer::fill(tensor, &value, "the tensor") }
    })
}

/// Stores the number of the tensor called `name`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_model_find(
    model: *const zstn_model,
    name: *const c_char,
    number: *mut usize,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: the header requires that `model` is NULL or a live handle.
        let model = unsafe { pointer::reference(model, "the model") }?;
        // SAFETY: the header requires that `name` is NULL or a NUL-terminated string.
        let name = unsafe { pointer::text(name, "the name") }?;
        let found = model.opened.model().find(name)?;
        // SAFETY: the header requires that `number` is NULL or a writable address.
        unsafe { pointer::write(number, found, "the address for the number") }
    })
}

/// Returns the number of metadata entries; 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_model_metadata_count(model: *const zstn_model) -> usize {
    // SAFETY: the header requires that `model` is NULL or a live handle.
    match unsafe { model.as_ref() } {
        Some(model) => model.opened.model().metadata().len(),
        None => 0,
    }
}

/// Fills `entry` with metadata entry `number`. Entries are numbered from 0 and sorted
/// by key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_model_metadata(
    model: *const zstn_model,
    number: usize,
    entry: *mut zstn_metadata,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: the header requires that `model` is NULL or a live handle.
        let opened = &unsafe { pointer::reference(model, "the model") }?.opened;
        let strings = opened.strings();
        let count = strings.keys.len();
        if number >= count {
            return Err(Failure::usage(format!(
                "there is no entry {number} of metadata, there are {count}"
            )));
        }
        let ((key, key_len), (value, value_len)) =
            (strings.keys.get(number), strings.values.get(number));
        let found = zstn_metadata {
            key,
            key_len,
            value,
            value_len,
        };
        // SAFETY: the header requires that `entry` is NULL or a writable address.
        unsafe { pointer::write(entry, found, "the entry") }
    })
}

/// Returns the name of the model's file format, such as "zstn" or "safetensors". The
/// string belongs to the model. Returns NULL for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_model_kind(model: *const zstn_model) -> *const c_char {
    // SAFETY: the header requires that `model` is NULL or a live handle.
    match unsafe { model.as_ref() } {
        Some(model) => model.opened.strings().kind.get(0).0,
        None => ptr::null(),
    }
}

/// Returns 1 if the model is a delta, which can only be read together with a base, and
/// 0 otherwise or for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_model_needs_base(model: *const zstn_model) -> i32 {
    // SAFETY: the header requires that `model` is NULL or a live handle.
    match unsafe { model.as_ref() } {
        Some(model) => model.opened.model().needs_base().into(),
        None => 0,
    }
}

/// Frees a model returned by `zstn_opening_finish`. Plans made from it remain usable.
/// Does nothing for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_model_free(model: *mut zstn_model) {
    // SAFETY: the header requires that `model` is NULL or a live handle that is not used
    // again.
    unsafe { pointer::free(model) }
}

/// The strings of one model for C. Each ends in a NUL and lives as long as the model.
struct Strings {
    names: Texts,
    keys: Texts,
    values: Texts,
    kind: Texts,
    dtypes: Texts,
}

impl Strings {
    fn of(model: &Model) -> Self {
        let metadata = model.metadata();
        Self {
            names: Texts::of(model.tensors().iter().map(|tensor| &*tensor.name)),
            keys: Texts::of(metadata.keys().map(String::as_str)),
            values: Texts::of(metadata.values().map(String::as_str)),
            kind: Texts::of([model.kind().name()].into_iter()),
            dtypes: Texts::of(Dtype::ALL.iter().map(|dtype| dtype.name())),
        }
    }

    fn dtype(&self, dtype: Dtype) -> *const c_char {
        let number = Dtype::ALL.iter().position(|other| *other == dtype);
        number.map_or(ptr::null(), |number| self.dtypes.get(number).0)
    }
}

/// NUL-terminated strings in one allocation.
#[derive(Default)]
struct Texts {
    bytes: Vec<u8>,
    starts: Vec<usize>,
}

impl Texts {
    fn of<'a>(texts: impl Iterator<Item = &'a str>) -> Self {
        let mut all = Self::default();
        for text in texts {
            all.starts.push(all.bytes.len());
            all.bytes.extend_from_slice(text.as_bytes());
            all.bytes.push(0);
        }
        all
    }

    fn len(&self) -> usize {
        self.starts.len()
    }

    /// Returns a string and its length without the NUL, or NULL if `number` is out of
    /// range.
    fn get(&self, number: usize) -> (*const c_char, usize) {
        let Some(&start) = self.starts.get(number) else {
            return (ptr::null(), 0);
        };
        let end = self.starts.get(number + 1).copied();
        let text = &self.bytes[start..end.unwrap_or(self.bytes.len())];
        (text.as_ptr().cast(), text.len() - 1)
    }
}
