//! Reads selected elements of a tensor, and caches decoded parts for further selections.
//!
//! A packed tensor consists of bands of elements that are decoded together. Of each band
//! with selected elements, the range from the first one to the last one is read. If the
//! band has been read before, it is read whole: the next selections are likely to need
//! more of it.

use std::ops::Range;
use std::slice;
use std::sync::Arc;

use zstn_core::bytes;
use zstn_core::engine::Engine as _;
use zstn_core::model::{Rows, StoredPart};

use super::band_cache::{CACHE_BYTES, Decoded, Divided, Geometry};
use super::plan_rows::PlanRows;
use super::rows::{ReadRows, RowsPlan, stored_with_bases};
use super::state_machine::{self, Opened as _, Together};
use super::{Reader, Selection, tensor};
use crate::source::Source;
use crate::{Error, Result, Tensor};

/// The length of a band of a tensor that is not stored in blocks.
const OTHER_BAND_BYTES: u64 = 512 << 10;

/// The length of a band of a tensor that is stored plain. Bands of which adjacent ranges
/// are needed are read together.
pub(super) const PLAIN_BAND_BYTES: u64 = 64 << 10;

/// Ranges of a plain tensor are read together if at most this many bytes separate them,
/// because reading the gap is as cheap as a separate read.
const MAX_GAP_BYTES: u64 = 64 << 10;

/// The maximum length of ranges of a plain tensor that are read together.
const MAX_MERGED_BYTES: u64 = 1 << 20;

/// The number of decoded bytes that are in memory at the same time, apart from the
/// cache and the result. A longer band is decoded by itself.
const WAVE_BYTES: u64 = 32 << 20;

impl Reader {
    /// Reads the selected elements of a tensor. Only the blocks that contain them are
    /// fetched and decoded. Decoded blocks are cached for further selections; this cache
    /// has up to 16 MiB, and all clones of a reader share it. In addition to the result
    /// and the cache, 32 MiB of decoded blocks are in memory, or the tensor if it is not
    /// stored in blocks.
    ///
    /// # Errors
    /// The errors of [`Reader::read_rows`]; a selection that was made for a tensor of
    /// another shape or dtype.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.safetensors");
    /// # let header = br#"{"w":{"dtype":"U8","shape":[3,2],"data_offsets":[0,6]}}"#;
    /// # let len = (header.len() as u64).to_le_bytes();
    /// # std::fs::write(&path, [&len[..], header, &[1, 2, 3, 4, 5, 6]].concat())?;
    /// use zstn::{Indices, Reader, Selection};
    ///
    /// let reader = Reader::open(&path)?;
    /// let (rows, columns) = (Indices::List(vec![0, 2]), Indices::range(1..2));
    /// let selection = Selection::new(reader.find("w")?, vec![rows, columns])?;
    /// let read = reader.read_selection(&selection)?;
    /// assert_eq!((read.shape, read.bytes), (vec![2, 1], vec![2, 6]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_selection(&self, selection: &Selection) -> Result<Tensor> {
        let mut out = bytes::buffer(selection.len_bytes())?;
        self.read_selection_into(selection, &mut out)?;
        Ok(tensor(self.find(selection.name())?, selection.shape(), out))
    }

    /// Reads the selected elements of a tensor into `out`, which must have the length
    /// [`Selection::len_bytes`], like [`Reader::read_selection`].
    ///
    /// # Errors
    /// The errors of [`Reader::read_selection`]; an `out` of another length. After an
    /// error, the contents of `out` are unspecified.
    pub fn read_selection_into(&self, selection: &Selection, out: &mut [u8]) -> Result<()> {
        if out.len() as u64 != selection.len_bytes() {
            let (len, has) = (selection.len_bytes(), out.len());
            let detail =
                format!("the selection has {len} bytes, the buffer to read it into has {has}");
            return Err(Error::Usage(detail));
        }
        let number = selection.number_in(self)?;
        if out.is_empty() {
            return Ok(());
        }
        let contiguous = selection.contiguous();
        if contiguous == Some(0..self.tensors()[number].len_bytes()) {
            return self.decode_into(&self.engine, number, out);
        }
        let plain = self.model.plain_part(number);
        if let (Some(part), Some(range)) = (plain, contiguous)
            && (!self.source(part).is_remote() || out.len() as u64 > CACHE_BYTES)
        {
            let start = part.stored.start + range.start;
            self.source(part).read_into(start, out)?;
            return self.check_parts(slice::from_ref(part));
        }
        let geometry = self.geometry(number)?;
        if geometry.is_whole {
            let decoded = self.whole(&geometry)?;
            selection.copy(&decoded.span, &decoded.bytes, out);
        } else {
            self.read_bands(&geometry, selection, out)?;
        }
        // Cached bytes may have been read long ago.
        self.check_parts(&self.tensors()[number].parts)
    }

    /// Returns the number of bytes that have to be read or decoded for a selection, up
    /// to the length of the tensor; zero if everything is cached.
    #[doc(hidden)]
    #[must_use]
    pub fn missing_len_bytes(&self, selection: &Selection) -> u64 {
        let Ok(tensor) = self.number(selection.name()) else {
            return 0;
        };
        let is_adjacent = selection.contiguous().is_some();
        if is_adjacent && self.model.plain_part(tensor).is_some() {
            return selection.len_bytes();
        }
        let mut cache = self.bands.lock();
        let Some(geometry) = cache.geometry(tensor).filter(|known| !known.is_whole) else {
            return match cache.get(tensor, 0) {
                Some(Decoded { span, .. }) if span.end == self.tensors()[tensor].len_bytes() => 0,
                _ => self.tensors()[tensor].len_bytes(),
            };
        };
        let spans = selection.spans(geometry.band_bytes);
        let missing = cache.divide(&geometry, spans).missing;
        missing.iter().map(|span| span.end - span.start).sum()
    }

    /// Returns the number of stored bytes that have to be read for a selection, in bases
    /// as well, as if nothing was cached. Reads the block tables that this requires.
    ///
    /// # Errors
    /// The errors of [`Reader::plan_rows`].
    pub fn fetched_len_bytes(&self, selection: &Selection) -> Result<u64> {
        let number = selection.number_in(self)?;
        if selection.len_bytes() == 0 {
            return Ok(0);
        }
        let len_bytes = |span: Range<u64>| span.end - span.start;
        if let (Some(_), Some(range)) = (self.model.plain_part(number), selection.contiguous()) {
            return Ok(len_bytes(range));
        }
        let geometry = self.geometry(number)?;
        let spans = selection.spans(geometry.band_bytes);
        if self.model.plain_part(number).is_some() {
            return Ok(merged(spans).into_iter().map(len_bytes).sum());
        }
        if geometry.is_whole {
            return Ok(stored_with_bases(self, number));
        }
        let mut fetched = 0;
        for plan in self.plan_spans(&geometry, &spans)? {
            let stored_len_bytes = plan.stored_len_bytes();
            fetched += plan.fetched_len_bytes().unwrap_or(stored_len_bytes);
        }
        Ok(fetched)
    }

    /// Returns how a tensor is stored, from the cache if possible.
    fn geometry(&self, number: usize) -> Result<Arc<Geometry>> {
        if let Some(geometry) = self.bands.lock().geometry(number) {
            return Ok(geometry);
        }
        let geometry = Arc::new(self.new_geometry(number)?);
        self.bands.lock().keep(Arc::clone(&geometry));
        Ok(geometry)
    }

    fn new_geometry(&self, number: usize) -> Result<Geometry> {
        let tensor = &self.tensors()[number];
        let mut geometry = Geometry {
            number,
            len_bytes: tensor.len_bytes(),
            band_bytes: PLAIN_BAND_BYTES,
            is_whole: false,
            is_cached: true,
            table: None,
        };
        if let Some(part) = self.model.plain_part(number) {
            geometry.is_cached = self.source(part).is_remote();
            return Ok(geometry);
        }
        if tensor.base.is_none() {
            let fetched = |table: &Option<Vec<u8>>| {
                let fetched = table.as_deref().unwrap_or_default();
                self.model.block_table(number, fetched)
            };
            while let Some((file, range)) = fetched(&geometry.table) {
                geometry.table = Some(self.sources()[file].read(range)?.into_owned());
                self.check_unchanged(file)?;
            }
        }
        // The first bytes show how a tensor is stored.
        let plans = self.plan_spans(&geometry, slice::from_ref(&(0..1)))?;
        match plans.iter().find_map(|plan| division(plan.rows())) {
            Some(band_bytes) => geometry.band_bytes = band_bytes,
            None => geometry.is_whole = true,
        }
        Ok(geometry)
    }

    /// Plans the reads of ranges of a tensor's bytes.
    fn plan_spans(&self, geometry: &Geometry, spans: &[Range<u64>]) -> Result<Vec<RowsPlan>> {
        let number = geometry.number;
        if self.tensors()[number].base.is_some() {
            let work = PlanRows::of_bytes(self, number, spans);
            let planned = state_machine::run(work, &self.engine, |need| self.needed(need))?;
            return Ok(planned.plans);
        }
        let plans = spans.iter().map(|span| {
            let rows = self
                .model
                .part(number, span.clone(), geometry.table.as_deref());
            let rows = rows.map_err(Error::place(self.name()))?;
            Ok(RowsPlan::without_base(self, number, rows))
        });
        plans.collect()
    }

    /// Returns a tensor that can only be decoded as a whole.
    fn whole(&self, geometry: &Geometry) -> Result<Decoded> {
        let number = geometry.number;
        let span = 0..geometry.len_bytes;
        let cached = self.bands.lock().get(number, 0);
        if let Some(cached) = cached.filter(|cached| cached.contains(&span)) {
            return Ok(cached);
        }
        let decoded = Decoded {
            span,
            bytes: Arc::new(self.decode(&self.engine, number)?),
        };
        self.bands.lock().insert(number, 0, decoded.clone());
        Ok(decoded)
    }

    fn read_bands(&self, geometry: &Geometry, selection: &Selection, out: &mut [u8]) -> Result<()> {
        let spans = selection.spans(geometry.band_bytes);
        let Divided {
            cached,
            mut missing,
        } = self.bands.lock().divide(geometry, spans);
        for (span, decoded) in cached {
            let start = decoded.span.start;
            let part = bytes::part(&decoded.bytes, span.start - start..span.end - start);
            selection.copy(&span, part, out);
        }
        if let Some(part) = self.model.plain_part(geometry.number) {
            missing = merged(missing);
            if !geometry.is_cached {
                return self.read_plain(part, &missing, selection, out);
            }
        }
        // Tensors of deltas may need the whole tensor of the base, and new rows the whole
        // tensor, which would then be decoded for each range.
        if self.tensors()[geometry.number].base.is_some()
            && let [first, .., last] = &missing[..]
            && self
                .plan_spans(geometry, &[first.clone(), last.clone()])?
                .iter()
                .any(RowsPlan::reads_whole)
        {
            let whole = self.decode(&self.engine, geometry.number)?;
            for span in &missing {
                selection.copy(span, bytes::part(&whole, span.clone()), out);
            }
            return Ok(());
        }
        let total: u64 = missing.iter().map(|span| span.end - span.start).sum();
        // A longer selection would replace everything in the cache, and most of itself.
        let is_cached = geometry.is_cached && total <= CACHE_BYTES;
        for wave in waves(&missing) {
            let decoded = self.read_spans(geometry, wave)?;
            for (span, bytes) in wave.iter().zip(decoded) {
                selection.copy(span, &bytes, out);
                if is_cached {
                    let decoded = Decoded {
                        span: span.clone(),
                        bytes: Arc::new(bytes),
                    };
                    self.bands
                        .lock()
                        .insert(geometry.number, geometry.band(span), decoded);
                }
            }
        }
        Ok(())
    }

    /// Reads the selected elements of a plain tensor in a local file. All ranges are read
    /// into the same memory, because the system has to clear fresh memory.
    fn read_plain(
        &self,
        part: &StoredPart,
        spans: &[Range<u64>],
        selection: &Selection,
        out: &mut [u8],
    ) -> Result<()> {
        let lens = spans.iter().map(|span| span.end - span.start);
        let mut memory = bytes::buffer(lens.max().unwrap_or(0))?;
        for span in spans {
            let memory = &mut memory[..bytes::index(span.end - span.start)];
            let start = part.stored.start + span.start;
            self.source(part).read_into(start, memory)?;
            selection.copy(span, memory, out);
        }
        Ok(())
    }

    /// Reads and decodes ranges of a tensor's bytes.
    fn read_spans(&self, geometry: &Geometry, spans: &[Range<u64>]) -> Result<Vec<Vec<u8>>> {
        if let [span] = spans
            && *span == (0..geometry.len_bytes)
        {
            return Ok(vec![self.decode(&self.engine, geometry.number)?]);
        }
        let plans = self.plan_spans(geometry, spans)?;
        if !self.all_sources().any(Source::is_remote) {
            let read = |plan: RowsPlan| Ok(self.read_planned(&plan)?.bytes);
            return self.engine.map(plans, read).into_iter().collect();
        }
        // All ranges are requested together, so that close ones take one request.
        let reads = plans.into_iter().map(|plan| ReadRows::new(self, plan));
        let reads = Together::new(reads.collect::<Result<_>>()?);
        state_machine::run(reads, &self.engine, |need| self.needed(need))
    }
}

/// Returns the length of the bands of a packed tensor, of which `rows` are the first
/// bytes; `None` if it can only be decoded as a whole.
pub(super) fn division(rows: &Rows) -> Option<u64> {
    let decoded_bytes = rows.band_bytes();
    let band_bytes = decoded_bytes.map_or(OTHER_BAND_BYTES, |len| len.max(PLAIN_BAND_BYTES));
    (!rows.is_whole()).then_some(band_bytes)
}

/// Merges ascending ranges that are at most [`MAX_GAP_BYTES`] apart, up to a length of
/// [`MAX_MERGED_BYTES`].
pub(super) fn merged(ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last)
                if range.start - last.end <= MAX_GAP_BYTES
                    && range.end - last.start <= MAX_MERGED_BYTES =>
            {
                last.end = range.end;
            }
            _ => merged.push(range),
        }
    }
    merged
}

/// Divides ranges into groups of up to [`WAVE_BYTES`], or a single longer range.
pub(super) fn waves(ranges: &[Range<u64>]) -> impl Iterator<Item = &[Range<u64>]> {
    let mut rest = ranges;
    std::iter::from_fn(move || {
        let mut total = 0;
        let fits = rest.iter().take_while(|range| {
            total += range.end - range.start;
            total <= WAVE_BYTES
        });
        let count = fits.count().max(1).min(rest.len());
        let (wave, others) = rest.split_at(count);
        rest = others;
        (!wave.is_empty()).then_some(wave)
    })
}
