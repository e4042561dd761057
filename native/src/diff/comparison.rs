//! Reads the tensors of two models, and compares them.

use std::collections::HashMap;
use std::ops::Range;

use zstn_core::bytes;
use zstn_core::catalog::{BaseUse, FileKind};
use zstn_core::engine::Engine as _;
use zstn_core::model::TensorInfo;

use super::{DiffOptions, DiffReport, Difference, TensorDiff};
use crate::progress::Progress as _;
use crate::{Job, Reader, Result};

/// The decoded bytes of each model that are in memory at the same time, unless a single
/// tensor has more.
const WINDOW_BYTES: u64 = 32 << 20;

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

/// Two models whose tensors are compared by name.
pub(super) struct Comparison<'a> {
    pub(super) job: &'a Job<'a>,
    pub(super) first: &'a Reader,
    pub(super) second: &'a Reader,
}

impl Comparison<'_> {
    pub(super) fn report(&self, options: &DiffOptions) -> Result<DiffReport> {
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

    /// Returns which model is a delta that copies this tensor from the other model, its base.
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
    /// For the pairs in `copies`, only the delta is read: the bytes of the tensor come from
    /// the other model, and are compared with the digest in the delta.
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
