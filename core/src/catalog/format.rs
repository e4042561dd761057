//! The registry of file formats: a new one is a container, a module here with an
//! [`Opener`] and its [`Contents`], and a line at the end of this file.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::ops::Range;

use serde::{Deserialize, Serialize};

#[cfg(feature = "deltas")]
use super::delta;
use super::fetched::FetchedRanges;
#[cfg(feature = "gauss")]
use super::gauss;
use super::range_plan::RangePlan;
#[cfg(feature = "ztensor")]
use super::ztensor;
use super::{FileCatalog, FileTensor, buffer, safetensors, zstn};
use crate::container::foreign::{GAUSS_MAGIC, ZTENSOR_MAGICS};
use crate::container::{model_delta, zstn as zstn_container};
use crate::engine::Engine;
use crate::{Error, Result};

/// Reads what lists the tensors of a file, in as few round trips as the format
/// allows.
pub(super) trait Opener: Default {
    /// Returns the ranges that are missing.
    fn needs(&self, fetched: &FetchedRanges) -> Result<Vec<Range<u64>>>;

    /// Adds the bytes of a range returned by [`Opener::needs`].
    fn supply(&self, fetched: &mut FetchedRanges, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
        fetched.supply(offset_bytes, bytes)
    }

    /// Parses as much as the fetched bytes allow, for formats whose next range
    /// depends on it.
    fn advance(&mut self, fetched: &FetchedRanges) -> Result<()> {
        let _ = fetched;
        Ok(())
    }

    /// Returns the catalog, once nothing is missing.
    fn finish<E: Engine>(self, fetched: &FetchedRanges, engine: &E) -> Result<FileCatalog>;
}

/// One tensor to decode: what the catalog says of it, and the bytes at hand.
#[derive(Clone, Copy)]
pub(super) struct StoredTensor<'a, 't> {
    pub tensor: &'t FileTensor,
    /// Its number in the file.
    pub number: usize,
    pub bytes: &'a [u8],
    /// The tensor of the same name in the base, where it is needed.
    pub base: Option<&'a [u8]>,
}

impl StoredTensor<'_, '_> {
    /// Returns what makes an error in the stored bytes one of the file: its
    /// offset counts from the start of the file, and it names the tensor.
    pub fn in_file(&self) -> impl Fn(Error) -> Error {
        |error| {
            error
                .within(self.tensor.stored.start)
                .tensor(&self.tensor.name)
        }
    }
}

/// What is specific to a format, for tensors in their order.
pub(super) trait Contents: Sized {
    /// Decodes a tensor. Offsets in errors are relative to the start of the
    /// file.
    fn decode<'a, E: Engine>(
        &self,
        engine: &E,
        stored: StoredTensor<'a, '_>,
    ) -> Result<Cow<'a, [u8]>>;

    /// Decodes a tensor into `out`, which may be of another length: that is an
    /// error. By default it is decoded and then copied.
    fn decode_into<E: Engine>(
        &self,
        engine: &E,
        stored: StoredTensor,
        out: &mut [u8],
    ) -> Result<()> {
        let decoded = self.decode(engine, stored)?;
        buffer::copy(&stored.tensor.name, &decoded, out)
    }

    /// Returns the range of the file whose bytes [`Contents::plan`] takes as a table;
    /// `None` if `fetched`, which are no bytes at first, are enough.
    fn table(&self, tensor: &FileTensor, number: usize, fetched: &[u8]) -> Option<Range<u64>> {
        let _ = (tensor, number, fetched);
        None
    }

    /// Plans how to read the bytes `span` of a tensor; `None` if it can only be
    /// read as a whole.
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

    /// Returns what decoding tensor `number` alone takes.
    #[cfg(feature = "decode-task")]
    fn project(&self, number: usize) -> Self;
}

macro_rules! formats {
    ($(
        $(#[$doc:meta])*
        $kind:ident = $name:literal, $extension:literal, $magics:expr, $module:ident
            $(if $feature:tt)?;
    )*) => {
        /// The kinds of file that can be read tensor by tensor.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Kind {
            $( $(#[$doc])* $kind, )*
            /// Weights as `config.json` describes them, in files of another kind; a
            /// [`Model`](crate::model::Model) alone can be that.
            CompressedTensors,
        }

        impl Kind {
            /// Every kind of file, in the order in which a folder is searched for
            /// them.
            pub const FILES: &[Self] = &[ $( Self::$kind, )* ];

            /// Returns the spelling in JSON output and in JavaScript.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $( Self::$kind => $name, )*
                    Self::CompressedTensors => "compressed-tensors",
                }
            }

            /// Returns the extension of file names, without a dot;
            /// compressed-tensors are safetensors files.
            #[must_use]
            pub fn extension(self) -> &'static str {
                match self {
                    $( Self::$kind => $extension, )*
                    Self::CompressedTensors => Self::Safetensors.extension(),
                }
            }

            /// Returns what files of this kind begin with: any of these, or, if
            /// there is none, nothing by which they are recognised.
            #[must_use]
            pub fn magics(self) -> &'static [&'static [u8]] {
                match self {
                    $( Self::$kind => $magics, )*
                    Self::CompressedTensors => &[],
                }
            }

            /// Returns whether this build reads the kind.
            #[must_use]
            pub fn is_included(self) -> bool {
                match self {
                    $( Self::$kind => true $(&& cfg!(feature = $feature))?, )*
                    Self::CompressedTensors => cfg!(feature = "compressed-tensors"),
                }
            }
        }

        /// The opener of any format.
        #[derive(Debug, Clone)]
        #[allow(clippy::large_enum_variant)] // one for a file being opened
        pub(super) enum AnyOpener { $( $(#[cfg(feature = $feature)])? $kind($module::FormatOpener), )* }

        impl AnyOpener {
            /// Returns the opener; `None` for a kind that this build leaves out.
            pub fn new(kind: Kind) -> Option<Self> {
                match kind {
                    $( $(#[cfg(feature = $feature)])?
                    Kind::$kind => Some(Self::$kind(Default::default())), )*
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

        /// The contents of a file of any format.
        #[derive(Debug, Clone, Serialize, Deserialize)]
        #[allow(clippy::large_enum_variant, reason = "there is one for each file, and without features only one kind is large")]
        pub(super) enum AnyContents { $( $(#[cfg(feature = $feature)])? $kind($module::FormatContents), )* }

        impl AnyContents {
            pub fn kind(&self) -> Kind {
                match self { $( $(#[cfg(feature = $feature)])? Self::$kind(_) => Kind::$kind, )* }
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
    /// ZSTN version 3, or 4 with extension frames.
    Zstn = "zstn", "zstn", &[&zstn_container::MAGIC], zstn;
    /// `Z4DM`: a checkpoint as its difference from a base.
    Delta = "z4dm", "z4dm", &[&model_delta::MAGIC], delta if "deltas";
    /// zTensor of any version.
    ZTensor = "ztensor", "zt", ZTENSOR_MAGICS, ztensor if "ztensor";
    /// Gauss of any version.
    Gauss = "gauss", "gauss", &[&GAUSS_MAGIC], gauss if "gauss";
}
