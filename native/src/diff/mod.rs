//! Compares the tensors of two models.

use zstn_core::dtype::Dtype;

pub use zstn_core::statistics::{Difference, DifferenceSize};

use crate::source::Input;
use crate::{Error, Job, Reader, Result, View};
use comparison::Comparison;

mod comparison;

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
