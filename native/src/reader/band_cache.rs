//! Caches decoded parts of tensors, and how the latest tensors are stored.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The capacity of the cache in decoded bytes.
pub(super) const CACHE_BYTES: u64 = 16 << 20;

/// The length as which a shorter entry of the cache is counted, so that the number of
/// entries is limited, too.
const MIN_ENTRY_BYTES: u64 = 16 << 10;

/// The number of tensors whose block tables are cached.
const MAX_GEOMETRIES: usize = 8;

/// Decoded parts of the tensors of one model: at most one range of each band. When the
/// cache is full, the range that was used least recently is removed.
#[derive(Default)]
pub(super) struct BandCache(Mutex<State>);

#[derive(Default)]
pub(super) struct State {
    /// The ranges, by the number of the tensor and the number of the band.
    ranges: HashMap<(usize, u64), Cached>,
    len_bytes: u64,
    uses: u64,
    /// How the tensors that were read last are stored; the latest is at the end.
    geometries: Vec<Arc<Geometry>>,
}

struct Cached {
    decoded: Decoded,
    last_use: u64,
}

/// Decoded bytes, and their range in the tensor.
#[derive(Clone)]
pub(super) struct Decoded {
    pub span: Range<u64>,
    pub bytes: Arc<Vec<u8>>,
}

/// The ranges of a tensor that a selection needs.
#[derive(Default)]
pub(super) struct Divided {
    pub cached: Vec<(Range<u64>, Decoded)>,
    pub missing: Vec<Range<u64>>,
}

impl Decoded {
    pub(super) fn contains(&self, span: &Range<u64>) -> bool {
        self.span.start <= span.start && span.end <= self.span.end
    }

    fn cost(&self) -> u64 {
        (self.span.end - self.span.start).max(MIN_ENTRY_BYTES)
    }
}

impl BandCache {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    pub(super) fn get(&mut self, tensor: usize, band: u64) -> Option<Decoded> {
        self.uses += 1;
        let cached = self.ranges.get_mut(&(tensor, band))?;
        cached.last_use = self.uses;
        Some(cached.decoded.clone())
    }

    /// Divides ranges of a tensor into the cached ones and the ranges to read.
    pub(super) fn divide(&mut self, geometry: &Geometry, spans: Vec<Range<u64>>) -> Divided {
        let mut divided = Divided::default();
        for span in spans {
            let band = geometry.band(&span);
            match self.get(geometry.number, band) {
                None => divided.missing.push(span),
                Some(decoded) if decoded.contains(&span) => divided.cached.push((span, decoded)),
                Some(_) => divided.missing.push(geometry.whole_band(band)),
            }
        }
        divided
    }

    pub(super) fn geometry(&mut self, tensor: usize) -> Option<Arc<Geometry>> {
        let mut geometries = self.geometries.iter();
        let place = geometries.position(|geometry| geometry.number == tensor)?;
        let geometry = self.geometries.remove(place);
        self.geometries.push(Arc::clone(&geometry));
        Some(geometry)
    }

    pub(super) fn keep(&mut self, geometry: Arc<Geometry>) {
        if self.geometries.len() >= MAX_GEOMETRIES {
            self.geometries.remove(0);
        }
        self.geometries.push(geometry);
    }

    pub(super) fn insert(&mut self, tensor: usize, band: u64, decoded: Decoded) {
        let cost = decoded.cost();
        if cost > CACHE_BYTES {
            return;
        }
        if let Some(replaced) = self.ranges.remove(&(tensor, band)) {
            self.len_bytes -= replaced.decoded.cost();
        }
        while self.len_bytes + cost > CACHE_BYTES
            && let Some(oldest) = self.ranges.iter().min_by_key(|(_, cached)| cached.last_use)
        {
            let (key, freed) = (*oldest.0, oldest.1.decoded.cost());
            self.len_bytes -= freed;
            self.ranges.remove(&key);
        }
        self.len_bytes += cost;
        let last_use = self.uses;
        self.ranges
            .insert((tensor, band), Cached { decoded, last_use });
    }
}

/// How the parts of a tensor are read.
pub(super) struct Geometry {
    pub number: usize,
    pub len_bytes: u64,
    pub band_bytes: u64,
    /// True if the tensor can only be decoded as a whole.
    pub is_whole: bool,
    pub is_cached: bool,
    /// The block table, if it was not loaded together with the index.
    pub table: Option<Vec<u8>>,
}

impl Geometry {
    /// Returns the number of the band in which `span` begins.
    pub(super) fn band(&self, span: &Range<u64>) -> u64 {
        span.start / self.band_bytes
    }

    fn whole_band(&self, band: u64) -> Range<u64> {
        let start = band * self.band_bytes;
        start..start.saturating_add(self.band_bytes).min(self.len_bytes)
    }
}
