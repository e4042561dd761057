//! Compares the tensors of two models.

use std::collections::HashMap;
use std::ops::Range;

use zstn_core::bytes;
use zstn_core::catalog::{BaseUse, FileKind};
use zstn_core::dtype::Dtype;
use zstn_core::engine::Engine as _;
use zstn_core::model::TensorInfo;

pub use zstn_core::statistics::{Difference, DifferenceSize};

use crate::progress::Progress as _;
use crate::source::Input;
use crate::{Error, Job, Reader, Result, View};

/// The decoded bytes of each model that are in memory at the same time, unless a single
/// tensor has more.
const WINDOW_BYTES: u64 = 32 << 20;

/// Options for [`diff`].
#[derive(Debug, Clone)]
#[must_use]
pub struct DiffOptions {
    bases: Vec<Input>,
    view: View,
    figures: bool,
}

impl Default for DiffOptions {
    fn default() -> Self {
        Self {
            bases: Vec::new(),
            view: View::Dense,
            figures: true,
        }
    }
}

impl DiffOptions {
    /// Reads a delta with the base that it was packed against, plain or packed. If the
    /// base is a delta itself, the next call adds the base's own base, and so on. If it was
    /// packed against several bases, the next call adds the next of them. Without a base,
    /// the other model is taken as the base of a delta.
    pub fn base(mut self, base: impl Into<Input>) -> Self {
        self.bases.push(base.into());
        self
    }

    /// Selects how weights that are stored in several tensors are read; the default is
    /// [`View::Dense`].
    pub fn view(mut self, view: View) -> Self {
        self.view = view;
        self
    }

    /// Sets whether the changes of changed tensors are measured, which reads these
    /// tensors of both models; the default is true. Otherwise, only the tensors that
    /// lack a digest in one of the files are read.
    pub fn figures(mut self, figures: bool) -> Self {
        self.figures = figures;
        self
    }

    /// Opens a model. A delta is opened with the bases that are given, or else with the
    /// other model as its base.
    fn open(&self, job: &Job, input: &Input, other: &Input) -> Result<Reader> {
        let reader = job.open(input, &[], self.view)?;
        if !reader.model().needs_base() {
            return Ok(reader);
        }
        match &self.bases[..] {
            [] => job.open(input, std::slice::from_ref(other), self.view),
            bases => job.open(input, bases, self.view),
        }
    }
}

/// The result of [`diff`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct DiffReport {
    /// The tensors of both models that are not equal, most changed first. Those in which
    /// values became NaN or infinite, or finite again, come before all others, and those
    /// whose relative change is not known come last.
    pub changed: Vec<TensorDiff>,
    /// The number of tensors that both models have with equal bytes, dtype and shape.
    pub equal: usize,
    /// The number of elements of all tensors that have the same shape in both models.
    pub elements: u64,
    /// The number of equal tensors that were not read, because the digests in both files
    /// are equal, or because they have no elements.
    pub equal_unread: usize,
    /// The names of the tensors that only the first model has.
    pub only_in_first: Vec<String>,
    /// The names of the tensors that only the second model has.
    pub only_in_second: Vec<String>,
    /// The names of the tensors that both models have, and that one of them cannot read,
    /// with the reason.
    pub unreadable: Vec<(String, String)>,
    /// The keys of the safetensors metadata that are missing or have another value in one
    /// of the models. Metadata of other formats are not compared.
    pub metadata: Vec<String>,
}

impl DiffReport {
    /// Returns whether both models have the same tensors and the same safetensors
    /// metadata, and all tensors could be compared.
    #[must_use]
    pub fn is_equal(&self) -> bool {
        self.changed.is_empty()
            && self.only_in_first.is_empty()
            && self.only_in_second.is_empty()
            && self.unreadable.is_empty()
            && self.metadata.is_empty()
    }

    /// Returns the number of elements that differ in all tensors; `None` if it is not
    /// known of a changed tensor.
    #[must_use]
    pub fn changed_elements(&self) -> Option<u64> {
        let of_each = self.changed.iter().map(|tensor| tensor.difference);
        of_each.map(|difference| Some(difference?.changed)).sum()
    }

    /// Returns the number of tensors that both models have and can read.
    #[must_use]
    pub fn compared(&self) -> usize {
        self.changed.len() + self.equal
    }
}

/// A tensor that two models have, and that is not equal in them.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TensorDiff {
    /// The name of the tensor.
    pub name: String,
    /// The dtype in the first and in the second model.
    pub dtypes: [Dtype; 2],
    /// The shape in the first and in the second model.
    pub shapes: [Vec<u64>; 2],
    /// How much the elements differ; `None` if this was not measured
    /// ([`DiffOptions::figures`]), if the shapes differ, or if the dtypes differ and one
    /// of them has no numbers ([`has_figures`](zstn_core::statistics::has_figures)).
    pub difference: Option<Difference>,
}

impl TensorDiff {
    /// Returns the norm of the change divided by the norm of the tensor in the first
    /// model ([`DifferenceSize::relative`]), if it was measured.
    #[must_use]
    pub fn relative(&self) -> Option<f64> {
        self.difference?.size?.relative()
    }

    /// Returns the number of elements that are finite in one of the models only.
    fn changed_finiteness(&self) -> u64 {
        let changed = |d: &Difference| d.lost_finite + d.gained_finite;
        self.difference.as_ref().map_or(0, changed)
    }
}

/// Compares the tensors of two models of any supported formats by name.
///
/// Tensors with a digest in both files are only read if the digests differ and
/// [`DiffOptions::figures`] is set. Digests are claims of the files, which
/// [`verify`](crate::verify()) checks. Needs memory for twice the longest tensor, or for
/// 64 MiB of decoded tensors, and what [`Reader::read_many_into`] needs for each model.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # std::env::set_current_dir(&folder)?;
/// # let header = br#"{"w":{"dtype":"I8","shape":[4],"data_offsets":[0,4]}}"#;
/// # let len = (header.len() as u64).to_le_bytes();
/// # std::fs::write("base.safetensors", [&len[..], header, &[1, 2, 3, 4]].concat())?;
/// # std::fs::write("tuned.safetensors", [&len[..], header, &[1, 2, 3, 6]].concat())?;
/// use zstn::{DiffOptions, Job};
///
/// let [base, tuned] = ["base.safetensors", "tuned.safetensors"];
/// let report = zstn::diff(&Job::new(), base, tuned, &DiffOptions::default())?;
/// let change = report.changed[0].difference.expect("the shapes are equal");
/// assert_eq!((change.elements, change.changed), (4, 1));
/// assert_eq!(change.size.expect("the elements are numbers").max_abs, 2.0);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// An input that is refused or cannot be read; a delta whose base is neither given nor
/// the other model; [`Error::Cancelled`](crate::Error::Cancelled).
pub fn diff(
    job: &Job,
    first: impl Into<Input>,
    second: impl Into<Input>,
    options: &DiffOptions,
) -> Result<DiffReport> {
    let (first, second) = (first.into(), second.into());
    job.run(|job| {
        let (first, second) = (
            &options.open(job, &first, &second)?,
            &options.open(job, &second, &first)?,
        );
        let is_delta = |reader: &Reader| reader.model().needs_base();
        if let (Some(base), false) = (options.bases.first(), is_delta(first) || is_delta(second)) {
            return Err(Error::Usage(format!(
                "neither {} nor {} is a delta; leave out the base {base}",
                first.name(),
                second.name()
            )));
        }
        for reader in [first, second] {
            let mut files = reader.model().files().iter();
            if files.any(|file| file.delta_format().is_none()) {
                return Err(Error::Usage(format!(
                    "{} was packed as bytes, so it has no tensors to compare; `verify` compares it \
                     with its original",
                    reader.name()
                )));
            }
        }
        let comparison = Comparison { job, first, second };
        comparison.report(options)
    })
}

/// A tensor of both models, by its numbers in them.
#[derive(Debug, Clone, Copy)]
struct Pair {
    first: usize,
    second: usize,
}

/// One of the two models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    First,
    Second,
}

struct Comparison<'a> {
    job: &'a Job<'a>,
    first: &'a Reader,
    second: &'a Reader,
}

impl Comparison<'_> {
    fn report(&self, options: &DiffOptions) -> Result<DiffReport> {
        let (first, second) = (self.first, self.second);
        let numbers = second.names().enumerate();
        let mut others: HashMap<&str, usize> = numbers.map(|(n, name)| (name, n)).collect();
        let refused = |reader: &Reader| {
            let refused = reader.model().refused();
            let texts = refused.map(|(name, error)| (name.to_owned(), error.to_string()));
            texts.collect::<HashMap<_, _>>()
        };
        let refused = [refused(first), refused(second)];
        let mut report = DiffReport {
            changed: Vec::new(),
            equal: 0,
            elements: 0,
            equal_unread: 0,
            only_in_first: Vec::new(),
            only_in_second: Vec::new(),
            unreadable: Vec::new(),
            metadata: self.metadata(),
        };
        let (mut pairs, mut copies) = (Vec::new(), Vec::new());
        for (number, name) in first.names().enumerate() {
            match (others.remove(name), refused[1].get(name)) {
                (Some(other), _) => {
                    let (a, b) = self.tensors(number, other);
                    if a.shape == b.shape {
                        report.elements = report.elements.saturating_add(a.element_count());
                    }
                    match self.stated(number, other) {
                        Some(true) => {
                            report.equal += 1;
                            report.equal_unread += 1;
                        }
                        Some(false) if !options.figures => {
                            report.changed.push(self.changed(number, other, None));
                        }
                        _ => {
                            let pair = Pair {
                                first: number,
                                second: other,
                            };
                            match self.copying(number, other) {
                                Some(delta) => copies.push((delta, pair)),
                                None => pairs.push(pair),
                            }
                        }
                    }
                }
                (None, Some(reason)) => report.unreadable.push((name.into(), reason.clone())),
                (None, None) => report.only_in_first.push(name.into()),
            }
        }
        for name in second.names().filter(|name| others.contains_key(name)) {
            match refused[0].get(name) {
                Some(reason) => report.unreadable.push((name.into(), reason.clone())),
                None => report.only_in_second.push(name.into()),
            }
        }
        self.add_refused(&refused, &mut report);
        report.unreadable.sort();
        self.read(pairs, &copies, options, &mut report)?;
        report.changed.sort_by(|a, b| {
            let by_finiteness = b.changed_finiteness().cmp(&a.changed_finiteness());
            let size = |tensor: &TensorDiff| tensor.relative().unwrap_or(-1.0);
            by_finiteness.then(size(b).total_cmp(&size(a)))
        });
        Ok(report)
    }

    /// Adds the tensors that neither model can read, and those that one model lacks and the
    /// other cannot read.
    fn add_refused(&self, refused: &[HashMap<String, String>; 2], report: &mut DiffReport) {
        let [first, second] = refused;
        for (name, reason) in first {
            if second.contains_key(name) {
                report.unreadable.push((name.clone(), reason.clone()));
            } else if self.second.find(name).is_err() {
                report.only_in_first.push(name.clone());
            }
        }
        for name in second.keys() {
            if !first.contains_key(name) && self.first.find(name).is_err() {
                report.only_in_second.push(name.clone());
            }
        }
    }

    /// Returns the keys of the metadata that differ.
    fn metadata(&self) -> Vec<String> {
        let is_safetensors = |reader: &Reader| {
            let mut files = reader.model().files().iter();
            files.all(|file| file.delta_format() == Some(FileKind::Safetensors.name()))
        };
        if !is_safetensors(self.first) || !is_safetensors(self.second) {
            return Vec::new();
        }
        let (first, second) = (self.first.metadata(), self.second.metadata());
        let missing = second.keys().filter(|key| !first.contains_key(*key));
        let differing = first
            .iter()
            .filter(|(key, value)| second.get(*key) != Some(value));
        let mut keys: Vec<String> = differing
            .map(|(key, _)| key)
            .chain(missing)
            .cloned()
            .collect();
        keys.sort();
        keys
    }

    fn tensors(&self, first: usize, second: usize) -> (&TensorInfo, &TensorInfo) {
        (&self.first.tensors()[first], &self.second.tensors()[second])
    }

    fn changed(&self, first: usize, second: usize, difference: Option<Difference>) -> TensorDiff {
        let (a, b) = self.tensors(first, second);
        TensorDiff {
            name: a.name.clone(),
            dtypes: [a.dtype, b.dtype],
            shapes: [a.shape.clone(), b.shape.clone()],
            difference,
        }
    }

    /// Returns whether a tensor is equal in both models, if this is known without reading
    /// it.
    fn stated(&self, first: usize, second: usize) -> Option<bool> {
        let (a, b) = self.tensors(first, second);
        if a.shape != b.shape || a.dtype != b.dtype {
            return Some(false);
        }
        let (a_bytes, b_bytes) = (a.len_bytes(), b.len_bytes());
        if a_bytes == 0 && b_bytes == 0 {
            return Some(true);
        }
        let own = self.first.model().tensor_digest(first)?;
        let are_equal = own == self.second.model().tensor_digest(second)?;
        match (a.format(), b.format()) {
            (None, None) => Some(are_equal),
            // The digests are of quantised blocks. Different blocks can have equal values.
            (own, other) => (own == other && are_equal).then_some(true),
        }
    }

    /// Returns the model that is a delta and states that its tensor is the one of the other
    /// model, which was taken as its base.
    fn copying(&self, first: usize, second: usize) -> Option<Side> {
        let (a, b) = self.tensors(first, second);
        let is_copy = |delta: &Reader, tensor: &TensorInfo, other: &Reader| {
            let is_base = delta.base().is_some_and(|base| base.name() == other.name());
            is_base && tensor.base == Some(BaseUse::Copy)
        };
        if is_copy(self.first, a, self.second) {
            Some(Side::First)
        } else {
            is_copy(self.second, b, self.first).then_some(Side::Second)
        }
    }

    /// Reads tensors of both models, window by window, and adds the results to the report.
    /// Of `copies`, only the tensor of the delta is read. This reads the other model, which
    /// is the base, and compares the tensor with its digest in the delta.
    fn read(
        &self,
        pairs: Vec<Pair>,
        copies: &[(Side, Pair)],
        options: &DiffOptions,
        report: &mut DiffReport,
    ) -> Result<()> {
        // Tensors of different numbers of elements are not compared element by element.
        let (pairs, others): (Vec<_>, Vec<_>) =
            pairs.into_iter().partition(|pair| self.is_comparable(pair));
        for Pair { first, second } in others {
            report.changed.push(self.changed(first, second, None));
        }
        let copied: Vec<Pair> = copies.iter().map(|(_, pair)| *pair).collect();
        let all = pairs.iter().chain(&copied);
        self.job.begin(all.map(|pair| self.len_bytes(pair)).sum());
        for range in self.windows(&copied) {
            self.job.ensure_running()?;
            for (side, reader) in [(Side::First, self.first), (Side::Second, self.second)] {
                let of_side = copies[range.clone()]
                    .iter()
                    .filter(|(delta, _)| *delta == side);
                let numbers = of_side.map(|(_, pair)| match side {
                    Side::First => pair.first,
                    Side::Second => pair.second,
                });
                let numbers: Vec<usize> = numbers.collect();
                report.equal += self.tensors_of(reader, &numbers)?.len();
            }
            let lens = copied[range].iter().map(|pair| self.len_bytes(pair));
            self.job.advance(lens.sum());
        }
        for range in self.windows(&pairs) {
            self.job.ensure_running()?;
            self.window(&pairs[range], options, report)?;
        }
        Ok(())
    }

    fn is_comparable(&self, pair: &Pair) -> bool {
        let (a, b) = self.tensors(pair.first, pair.second);
        let has_figures = zstn_core::statistics::has_figures;
        a.shape == b.shape && (a.dtype == b.dtype || has_figures(a.dtype) && has_figures(b.dtype))
    }

    fn len_bytes(&self, pair: &Pair) -> u64 {
        let (a, b) = self.tensors(pair.first, pair.second);
        a.len_bytes().saturating_add(b.len_bytes())
    }

    /// Divides the pairs into windows whose decoded bytes are in memory together.
    fn windows(&self, pairs: &[Pair]) -> Vec<Range<usize>> {
        let mut windows = Vec::new();
        let (mut start, mut bytes) = (0, 0_u64);
        for (number, pair) in pairs.iter().enumerate() {
            let own = self.len_bytes(pair);
            bytes = bytes.saturating_add(own);
            if bytes > 2 * WINDOW_BYTES && number > start {
                windows.push(start..number);
                (start, bytes) = (number, own);
            }
        }
        windows.push(start..pairs.len());
        windows
    }

    /// Reads the tensors with these numbers.
    fn tensors_of(&self, reader: &Reader, numbers: &[usize]) -> Result<Vec<Vec<u8>>> {
        let mut buffers = Vec::with_capacity(numbers.len());
        for number in numbers {
            buffers.push(bytes::buffer(reader.tensors()[*number].len_bytes())?);
        }
        let names = numbers
            .iter()
            .map(|number| &*reader.tensors()[*number].name);
        let wanted = names.zip(buffers.iter_mut().map(|buffer| &mut buffer[..]));
        reader.read_many_into(wanted.collect(), &self.job.quiet())?;
        Ok(buffers)
    }

    fn window(&self, pairs: &[Pair], options: &DiffOptions, report: &mut DiffReport) -> Result<()> {
        let numbers = |of: fn(&Pair) -> usize| pairs.iter().map(of).collect::<Vec<_>>();
        let a = self.tensors_of(self.first, &numbers(|pair| pair.first))?;
        let b = self.tensors_of(self.second, &numbers(|pair| pair.second))?;
        let compared = pairs.iter().zip(a.iter().zip(&b)).collect();
        let engine = self.first.engine();
        let differences = engine.map(compared, |(pair, (a, b)): (&Pair, _)| {
            let (first, second) = self.tensors(pair.first, pair.second);
            let is_equal = first.dtype == second.dtype && a == b;
            let difference = || Difference::of(engine, (first.dtype, a), (second.dtype, b));
            (
                is_equal,
                (!is_equal && options.figures).then(difference).flatten(),
            )
        });
        for (pair, (is_equal, difference)) in pairs.iter().zip(differences) {
            match is_equal {
                true => report.equal += 1,
                false => {
                    let changed = self.changed(pair.first, pair.second, difference);
                    report.changed.push(changed);
                }
            }
            self.job.advance(self.len_bytes(pair));
        }
        Ok(())
    }
}
