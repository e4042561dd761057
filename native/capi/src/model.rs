//! Opened models: the list of their tensors.

use std::ffi::c_char;
use std::ptr;
use std::sync::{Arc, OnceLock};

use zstn::Reader;
use zstn::core::model::Model;

use crate::handle;
use crate::pointer;
use crate::status::{self, Failure, zstn_error, zstn_status};
use crate::strings::Strings;
use crate::structure::{self, Structure};

/// The list of a model's tensors: names, types, shapes, and where they are. It
/// never changes; any number of threads may use one at the same time.
pub struct zstn_model {
    pub opened: Arc<Opened>,
}

/// A model that its handles and plans share.
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

/// The index entry of a tensor. The caller sets `struct_size`. Texts and
/// shape belong to the model and are valid as long as it is.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct zstn_tensor {
    /// `sizeof(zstn_tensor)`.
    pub struct_size: usize,
    /// Name, which ends in a NUL.
    pub name: *const c_char,
    /// Length of the name in bytes: a forged name may contain a NUL.
    pub name_len: usize,
    /// Element type as safetensors spells it, like "BF16".
    pub dtype: *const c_char,
    /// Lengths of the dimensions, outermost first.
    pub shape: *const u64,
    /// Number of dimensions; 0 for a scalar.
    pub rank: usize,
    /// Length of the tensor in bytes: little-endian and row-major.
    pub len: u64,
    /// Bytes that it takes in its file.
    pub stored_len: u64,
    /// Number of another tensor with the same bytes, or `ZSTN_NONE`. Files of other
    /// programs may have it later in the list.
    pub alias_of: u64,
    /// Bits of an element.
    pub dtype_bits: i32,
    /// 1 if it can only be read together with a base.
    pub needs_base: i32,
}

/// In place of a tensor's number: there is none.
pub const ZSTN_NONE: u64 = 0xFFFF_FFFF_FFFF_FFFF;

// SAFETY: such a structure: it ends in an even number of 32 bits.
unsafe impl Structure for zstn_tensor {}

/// An entry of a model's metadata. Texts belong to the model.
#[repr(C)]
pub struct zstn_metadata {
    /// Key, which ends in a NUL.
    pub key: *const c_char,
    /// Length of the key in bytes.
    pub key_len: usize,
    /// Value, which ends in a NUL.
    pub value: *const c_char,
    /// Length of the value in bytes.
    pub value_len: usize,
}

/// Returns the number of tensors; 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_model_tensor_count(model: *const zstn_model) -> usize {
    // SAFETY: NULL or a handle, as the header says.
    match unsafe { model.as_ref() } {
        Some(model) => model.opened.model().tensors().len(),
        None => 0,
    }
}

/// Fills `tensor` with what the index says about the tensor of this number. The
/// order is that of the index.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_model_tensor(
    model: *const zstn_model,
    number: usize,
    tensor: *mut zstn_tensor,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: NULL or a handle, as the header says.
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
            stored_len: info.stored_len_bytes(),
            alias_of: info.alias_of.map_or(ZSTN_NONE, |number| number as u64),
            dtype_bits: i32::try_from(info.dtype.bits()).unwrap_or(0),
            needs_base: info.base.is_some().into(),
        };
        // SAFETY: an out parameter that says its size.
        unsafe { structure::fill(tensor, &value, "the tensor") }
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
        // SAFETY: NULL or a handle, as the header says.
        let model = unsafe { pointer::reference(model, "the model") }?;
        // SAFETY: NULL or a text.
        let name = unsafe { pointer::text(name, "the name") }?;
        let found = model.opened.model().find(name)?;
        // SAFETY: an out parameter.
        unsafe { pointer::write(number, found, "the address for the number") }
    })
}

/// Returns the number of entries of metadata; 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_model_metadata_count(model: *const zstn_model) -> usize {
    // SAFETY: NULL or a handle, as the header says.
    match unsafe { model.as_ref() } {
        Some(model) => model.opened.model().metadata().len(),
        None => 0,
    }
}

/// Fills `entry` with the entry of metadata of this number; they are sorted by
/// key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_model_metadata(
    model: *const zstn_model,
    number: usize,
    entry: *mut zstn_metadata,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: NULL or a handle, as the header says.
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
        // SAFETY: an out parameter.
        unsafe { pointer::write(entry, found, "the entry") }
    })
}

/// Returns the kind of the model's files, like "zstn" or "safetensors", which
/// belongs to the model; NULL for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_model_kind(model: *const zstn_model) -> *const c_char {
    // SAFETY: NULL or a handle, as the header says.
    match unsafe { model.as_ref() } {
        Some(model) => model.opened.strings().kind.get(0).0,
        None => ptr::null(),
    }
}

/// Returns 1 if the model is a delta, which can only be read together with a base;
/// 0 if not, and for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_model_needs_base(model: *const zstn_model) -> i32 {
    // SAFETY: NULL or a handle, as the header says.
    match unsafe { model.as_ref() } {
        Some(model) => model.opened.model().needs_base().into(),
        None => 0,
    }
}

/// Frees a model that `zstn_opening_finish` has returned. Its plans may be used on.
/// NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_model_free(model: *mut zstn_model) {
    // SAFETY: a handle that is not used any more, or NULL.
    unsafe { handle::free(model) }
}
