//! The registry of file formats. To support a new format, add a module to
//! `container`, a module with an [`Opener`] and a [`Contents`] to this folder,
//! and an entry at the end of this file.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::ops::Range;

use serde::{Deserialize, Serialize};

#[cfg(feature = "deltas")]
use super::delta;
use super::file_opener::FetchedRanges;
#[cfg(feature = "gauss")]
use super::gauss;
#[cfg(feature = "gguf")]
use super::gguf;
#[cfg(feature = "hdf5")]
use super::hdf5;
#[cfg(feature = "keras")]
use super::keras;
#[cfg(feature = "msgpack")]
use super::msgpack;
#[cfg(feature = "npy")]
use super::npy;
#[cfg(feature = "onnx")]
use super::onnx;
use super::range_plan::RangePlan;
#[cfg(feature = "tar")]
use super::tar;
#[cfg(feature = "tflite")]
use super::tflite;
#[cfg(feature = "ztensor")]
use super::ztensor;
use super::{FileCatalog, FileTensor, safetensors, zstn};
#[cfg(feature = "zip")]
use super::{npz, pytorch};
use crate::container::foreign::{
    GAUSS_MAGIC, GGUF_MAGIC, NPY_MAGIC, PYTORCH_MAGIC, ZIP_MAGICS, ZTENSOR_MAGICS,
};
#[cfg(feature = "virtual-headers")]
use crate::container::zstn::virtual_header::PlacedTensor;
use crate::container::{model_delta, zstn as zstn_container};
use crate::engine::Engine;
use crate::{Error, Result, catalog};

/// Reads the sections of a file that list its tensors, in as few round trips as
/// the format allows.
pub(super) trait Opener: Default {
    /// Returns the ranges that are still missing.
    fn needs(&self, fetched: &FetchedRanges) -> Result<Vec<Range<u64>>>;

    /// Adds the bytes of a range that [`Opener::needs`] has returned.
    fn supply(&self, fetched: &mut FetchedRanges, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
        fetched.supply(offset_bytes, bytes)
    }

    /// Parses as much as the fetched bytes allow, in formats where the result
    /// determines the next range.
    fn advance(&mut self, fetched: &FetchedRanges) -> Result<()> {
        let _ = fetched;
        Ok(())
    }

    /// Returns the catalog. [`Opener::needs`] must have returned no range.
    fn finish<E: Engine>(self, fetched: &FetchedRanges, engine: &E) -> Result<FileCatalog>;
}

/// A tensor to decode: its catalog entry and its stored bytes.
#[derive(Clone, Copy)]
pub(super) struct StoredTensor<'a, 't> {
    pub tensor: &'t FileTensor,
    /// The number of the tensor in the file.
    pub number: usize,
    pub bytes: &'a [u8],
    /// The bytes of the base's tensor that this tensor depends on, if there is
    /// one.
    pub base: Option<&'a [u8]>,
}

impl StoredTensor<'_, '_> {
    /// Returns a function that converts an error in the stored bytes: its
    /// offset becomes relative to the start of the file, and it names the
    /// tensor.
    pub fn in_file(&self) -> impl Fn(Error) -> Error {
        |error| {
            error
                .within(self.tensor.stored.start)
                .tensor(&self.tensor.name)
        }
    }
}

/// The part of a catalog that is specific to a format.
pub(super) trait Contents: Sized {
    /// Decodes a tensor. Offsets in errors are relative to the start of the
    /// file.
    fn decode<'a, E: Engine>(
        &self,
        engine: &E,
        stored: StoredTensor<'a, '_>,
    ) -> Result<Cow<'a, [u8]>>;

    /// Decodes a tensor into `out`; fails if `out` does not have the length of
    /// the tensor. The default implementation decodes it and then copies it.
    fn decode_into<E: Engine>(
        &self,
        engine: &E,
        stored: StoredTensor,
        out: &mut [u8],
    ) -> Result<()> {
        let decoded = self.decode(engine, stored)?;
        catalog::copy(&stored.tensor.name, &decoded, out)
    }

    /// Returns the range of the file whose bytes [`Contents::plan`] requires as
    /// `table`, or `None` if `fetched` is enough. `fetched` is empty at first,
    /// then contains the bytes of the range that was returned before.
    fn table(&self, tensor: &FileTensor, number: usize, fetched: &[u8]) -> Option<Range<u64>> {
        let _ = (tensor, number, fetched);
        None
    }

    /// Plans how to read the bytes `span` of a tensor. Returns `None` if the
    /// tensor can only be read as a whole.
    fn plan(
        &self,
        tensor: &FileTensor,
        number: usize,
        span: &Range<u64>,
        table: Option<&[u8]>,
    ) -> Result<Option<RangePlan>> {
        let _ = (tensor, number, span, table);
        Ok(None)
    }

    /// Returns the number of bytes into which the stored bytes of tensor `number` are
    /// unpacked before its values are taken from them; 0 if they are its values.
    fn unpacked_len_bytes(&self, tensor: &FileTensor, number: usize) -> u64 {
        let _ = (tensor, number);
        0
    }

    /// Returns tensor `number` with its type and strides, if its elements are in the file
    /// in one piece and little-endian.
    #[cfg(feature = "virtual-headers")]
    fn place(&self, tensor: &FileTensor, number: usize) -> Option<PlacedTensor> {
        let _ = (tensor, number);
        None
    }

    /// Returns contents that are enough to decode tensor `number` and no other.
    #[cfg(feature = "decode-task")]
    fn project(&self, number: usize) -> Self;
}

macro_rules! formats {
    ($(
        $(#[$doc:meta])*
        $kind:ident = $name:literal, $extension:literal, $magics:expr, $module:ident
            $(if $feature:tt)?;
    )*) => {
        /// The formats whose files can be read tensor by tensor.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum FileKind {
            $( $(#[$doc])* $kind, )*
            /// Weights that `config.json` describes, in files of another
            /// format. Only a [`Model`](crate::model::Model) can be of this
            /// kind.
            CompressedTensors,
        }

        impl FileKind {
            /// Every kind of file, in the order in which folders are searched
            /// for them.
            pub const FILES: &[Self] = &[ $( Self::$kind, )* ];

            /// Returns the name of the format in JSON output and in JavaScript.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $( Self::$kind => $name, )*
                    Self::CompressedTensors => "compressed-tensors",
                }
            }

            /// Returns the extension of file names, without a dot. Files of
            /// compressed-tensors are safetensors files.
            #[must_use]
            pub fn extension(self) -> &'static str {
                match self {
                    $( Self::$kind => $extension, )*
                    Self::CompressedTensors => Self::Safetensors.extension(),
                }
            }

            /// Returns the magic numbers with which files of this format begin.
            /// Formats that have none are recognised in other ways.
            #[must_use]
            pub fn magics(self) -> &'static [&'static [u8]] {
                match self {
                    $( Self::$kind => $magics, )*
                    Self::CompressedTensors => &[],
                }
            }

            /// Returns whether this build can read the format.
            #[must_use]
            pub(crate) fn is_included(self) -> bool {
                match self {
                    $( Self::$kind => true $(&& cfg!(feature = $feature))?, )*
                    Self::CompressedTensors => cfg!(feature = "compressed-tensors"),
                }
            }
        }

        /// The opener of a file of any format.
        #[derive(Debug, Clone)]
        #[allow(clippy::large_enum_variant)] // there is only one per file being opened
        pub(super) enum AnyOpener { $( $(#[cfg(feature = $feature)])? $kind($module::FormatOpener), )* }

        impl AnyOpener {
            /// Creates the opener for `kind`, or returns `None` if this build
            /// omits the format.
            pub fn new(kind: FileKind) -> Option<Self> {
                match kind {
                    $( $(#[cfg(feature = $feature)])?
                    FileKind::$kind => Some(Self::$kind(Default::default())), )*
                    #[allow(unreachable_patterns)]
                    _ => None,
                }
            }

            pub fn needs(&self, fetched: &FetchedRanges) -> Result<Vec<Range<u64>>> {
                match self { $( $(#[cfg(feature = $feature)])? Self::$kind(opener) => opener.needs(fetched), )* }
            }

            pub fn supply(&self, fetched: &mut FetchedRanges, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
                match self { $( $(#[cfg(feature = $feature)])? Self::$kind(opener) => opener.supply(fetched, offset_bytes, bytes), )* }
            }

            pub fn advance(&mut self, fetched: &FetchedRanges) -> Result<()> {
                match self { $( $(#[cfg(feature = $feature)])? Self::$kind(opener) => opener.advance(fetched), )* }
            }

            pub fn finish<E: Engine>(self, fetched: &FetchedRanges, engine: &E) -> Result<FileCatalog> {
                match self { $( $(#[cfg(feature = $feature)])? Self::$kind(opener) => opener.finish(fetched, engine), )* }
            }
        }

        /// The contents of a catalog of any format.
        #[derive(Debug, Clone, Serialize, Deserialize)]
        #[allow(clippy::large_enum_variant, reason = "there is one for each file, and without features only one kind is large")]
        pub(super) enum AnyContents { $( $(#[cfg(feature = $feature)])? $kind($module::FormatContents), )* }

        impl AnyContents {
            pub fn kind(&self) -> FileKind {
                match self { $( $(#[cfg(feature = $feature)])? Self::$kind(_) => FileKind::$kind, )* }
            }

            pub fn decode<'a, E: Engine>(&self, engine: &E, stored: StoredTensor<'a, '_>) -> Result<Cow<'a, [u8]>> {
                match self { $( $(#[cfg(feature = $feature)])? Self::$kind(contents) => contents.decode(engine, stored), )* }
            }

            pub fn decode_into<E: Engine>(&self, engine: &E, stored: StoredTensor, out: &mut [u8]) -> Result<()> {
                match self { $( $(#[cfg(feature = $feature)])? Self::$kind(contents) => contents.decode_into(engine, stored, out), )* }
            }

            pub fn table(&self, tensor: &FileTensor, number: usize, fetched: &[u8]) -> Option<Range<u64>> {
                match self { $( $(#[cfg(feature = $feature)])? Self::$kind(contents) => contents.table(tensor, number, fetched), )* }
            }

            pub fn plan(&self, tensor: &FileTensor, number: usize, span: &Range<u64>, table: Option<&[u8]>) -> Result<Option<RangePlan>> {
                match self { $( $(#[cfg(feature = $feature)])? Self::$kind(contents) => contents.plan(tensor, number, span, table), )* }
            }

            pub fn unpacked_len_bytes(&self, tensor: &FileTensor, number: usize) -> u64 {
                match self { $( $(#[cfg(feature = $feature)])? Self::$kind(contents) => contents.unpacked_len_bytes(tensor, number), )* }
            }

            #[cfg(feature = "virtual-headers")]
            pub fn place(&self, tensor: &FileTensor, number: usize) -> Option<PlacedTensor> {
                match self { $( $(#[cfg(feature = $feature)])? Self::$kind(contents) => contents.place(tensor, number), )* }
            }

            #[cfg(feature = "decode-task")]
            pub fn project(&self, number: usize) -> Self {
                match self { $( $(#[cfg(feature = $feature)])? Self::$kind(contents) => Self::$kind(contents.project(number)), )* }
            }
        }
    };
}

formats! {
    /// Uncompressed safetensors.
    Safetensors = "safetensors", "safetensors", &[], safetensors;
    /// ZSTN version 3, or version 4 with extension frames.
    Zstn = "zstn", "zstn", &[&zstn_container::MAGIC], zstn;
    /// `Z4DM`: a checkpoint stored as a delta against a base.
    Delta = "z4dm", "z4dm", &[&model_delta::MAGIC], delta if "deltas";
    /// zTensor of any version.
    ZTensor = "ztensor", "zt", ZTENSOR_MAGICS, ztensor if "ztensor";
    /// Gauss of any version.
    Gauss = "gauss", "gauss", &[&GAUSS_MAGIC], gauss if "gauss";
    /// GGUF, the format of llama.cpp, of version 2 or 3.
    Gguf = "gguf", "gguf", &[&GGUF_MAGIC], gguf if "gguf";
    /// A NumPy array, whose name is empty.
    Npy = "npy", "npy", &[&NPY_MAGIC], npy if "npy";
    /// An ONNX model.
    Onnx = "onnx", "onnx", &[], onnx if "onnx";
    /// Arrays in msgpack, as Flax writes.
    Msgpack = "msgpack", "msgpack", &[], msgpack if "msgpack";
    /// A TensorFlow Lite model.
    Tflite = "tflite", "tflite", &[], tflite if "tflite";
    /// A NumPy archive of arrays. The magics are those of any zip archive; its members
    /// decide whether it is a PyTorch file or a Keras model.
    Npz = "npz", "npz", ZIP_MAGICS, npz if "zip";
    /// PyTorch: a zip archive, or a file from before version 1.6.
    PyTorch = "pytorch", "pt", &[&PYTORCH_MAGIC], pytorch if "zip";
    /// HDF5, as Keras writes.
    Hdf5 = "hdf5", "h5", &[], hdf5 if "hdf5";
    /// A Keras model: a zip archive with weights in HDF5.
    Keras = "keras", "keras", &[], keras if "keras";
    /// A tar archive with checkpoints of PyTorch, as NeMo writes.
    Tar = "tar", "nemo", &[], tar if "tar";
}
