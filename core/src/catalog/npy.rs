//! Opens a NumPy array. Its header comes first and states its own length.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use super::file_opener::FetchedRanges;
use super::format::{AnyContents, Contents, Opener, StoredTensor};
use super::range_plan::RangePlan;
use super::{FileCatalog, FileTensor};
use crate::Result;
#[cfg(feature = "virtual-headers")]
use crate::container::foreign::ElementCoding;
use crate::container::foreign::npy::{NpyArray, NpyLayout, header_len_bytes};
#[cfg(feature = "virtual-headers")]
use crate::container::zstn::virtual_header::PlacedTensor;
use crate::engine::Engine;

/// The opener of a NumPy array. It has no state, since only the header has to
/// be fetched.
#[derive(Debug, Clone, Default)]
pub(super) struct FormatOpener;

impl Opener for FormatOpener {
    fn needs(&self, fetched: &FetchedRanges) -> Result<Vec<Range<u64>>> {
        let end = header_len_bytes(fetched.head(), fetched.len_bytes())?;
        Ok(fetched.missing_head(end).into_iter().collect())
    }

    fn finish<E: Engine>(self, fetched: &FetchedRanges, _: &E) -> Result<FileCatalog> {
        let len_bytes = fetched.len_bytes();
        let end = header_len_bytes(fetched.head(), len_bytes)?;
        let array = NpyArray::parse(&fetched.have(0..end), len_bytes)?;
        let tensor = FileTensor {
            name: String::new(),
            dtype: array.dtype,
            shape: array.shape,
            span: 0..len_bytes - end,
            stored: end..len_bytes,
            base: None,
            alias_of: None,
        };
        FileCatalog::new(
            AnyContents::Npy(FormatContents(array.layout)),
            len_bytes,
            len_bytes - end,
            None,
            BTreeMap::new(),
            [tensor].into(),
        )
    }
}

/// The layout of the only tensor.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct FormatContents(NpyLayout);

impl Contents for FormatContents {
    fn decode<'a, E: Engine>(&self, _: &E, stored: StoredTensor<'a, '_>) -> Result<Cow<'a, [u8]>> {
        let (dtype, shape) = (stored.tensor.dtype, &stored.tensor.shape);
        let decoded = self.0.decode(dtype, shape, stored.bytes);
        decoded.map_err(stored.in_file())
    }

    fn plan(
        &self,
        tensor: &FileTensor,
        _: usize,
        span: &Range<u64>,
        _: Option<&[u8]>,
    ) -> Result<Option<RangePlan>> {
        let start = tensor.stored.start;
        let rows = (!self.0.is_fortran).then(|| RangePlan::of_units(start, self.0.coding, span));
        Ok(rows)
    }

    #[cfg(feature = "virtual-headers")]
    fn place(&self, tensor: &FileTensor, _: usize) -> Option<PlacedTensor> {
        let strides = self.0.strides(tensor.dtype, &tensor.shape);
        tensor.placed_plain(self.0.coding == ElementCoding::Plain, strides)
    }

    #[cfg(feature = "decode-task")]
    fn project(&self, _: usize) -> Self {
        self.clone()
    }
}
