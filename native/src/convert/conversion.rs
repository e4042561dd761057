//! A running conversion, which reads all of its input in bounded memory.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use zstn_core::catalog::{self, FileKind};
use zstn_core::container::foreign::ztensor::{FOOTER_BYTES, Field, Manifest, ZTensorFooter};
use zstn_core::limits::HEAD_LEN_BYTES;
use zstn_core::model;

use super::{ConvertOptions, TargetKind};
use crate::finished_tensor;
use crate::ordered::{Budget, in_order};
use crate::output::{Mode, check_inputs};
use crate::source::{Input, Local, Location, Source};
use crate::{Error, Job, Output, Progress as _, Reader, Result, Tensor};

/// The number of equal shares of the allowed memory: one each for the tensors that are
/// converted at the same time, for their stored bytes, for the converted tensors, and
/// for buffers of the encoder.
const SHARES: u64 = 4;

/// The input, the output and the options of a running conversion.
#[derive(Clone)]
pub struct Conversion<'a> {
    pub job: Job<'a>,
    pub input: &'a Input,
    pub reader: &'a Reader,
    pub output: &'a Path,
    /// The name of the output in messages.
    pub output_name: &'a str,
    /// True if existing files are replaced.
    pub replace: bool,
    pub options: &'a ConvertOptions<'a>,
}

impl<'a> Conversion<'a> {
    /// Returns the same conversion with another job.
    pub fn with_job<'b>(&self, job: Job<'b>) -> Conversion<'b>
    where
        'a: 'b,
    {
        Conversion {
            job,
            ..self.clone()
        }
    }

    /// Returns the same conversion without progress reports.
    pub fn quiet(&self) -> Self {
        self.with_job(self.job.quiet())
    }

    pub fn tensors(&self) -> &'a [model::TensorInfo] {
        self.reader.tensors()
    }

    pub fn kind(&self) -> FileKind {
        self.reader.model().kind()
    }

    /// Returns the total length of all tensors in bytes.
    pub fn tensor_bytes(&self) -> u64 {
        let lens = self.tensors().iter().map(model::TensorInfo::len_bytes);
        lens.fold(0, u64::saturating_add)
    }

    /// Returns the whole input as a local file, if it is a single file of `kind`.
    pub fn local(&self, kind: FileKind) -> Result<Option<Arc<Local>>> {
        if !matches!(kind, FileKind::Safetensors | FileKind::Zstn) {
            return Ok(None);
        }
        let is_several = |at: &Location| at.is_folder() || at.is_index();
        let files = self.reader.model().files();
        // Such a file restores no safetensors file.
        let has_virtual_header = self.reader.packed_file().is_some()
            || files.iter().any(|file| file.original_kind().is_some());
        if self.kind() != kind
            || has_virtual_header
            || self.input.location().is_some_and(is_several)
        {
            return Ok(None);
        }
        let local = self.input.fetch(&self.job.http, &self.job.quiet())?;
        let found = catalog::recognise(&local.head(HEAD_LEN_BYTES)?, local.len_bytes());
        Ok((found == Ok(kind)).then_some(local))
    }

    /// Reads the tensors with these numbers. Passes each tensor to `convert` on any thread
    /// of the engine, and the results to `sink` in order.
    pub fn each<R: Send>(
        &self,
        numbers: &[usize],
        convert: impl Fn(usize, Tensor) -> Result<R> + Sync + Send,
        sink: impl FnMut(usize, R) -> Result<()>,
    ) -> Result<()> {
        let tensors = self.tensors();
        let convert = |&number: &usize| {
            let result = convert(number, self.read(number)?);
            self.job.advance(tensors[number].len_bytes());
            if self.job.wants_tensors() {
                let tensor = finished_tensor::read(self.reader, &tensors[number]);
                self.job.tensor(&tensor);
            }
            result
        };
        let lens_bytes = numbers.iter().map(|&number| self.cost_bytes(number));
        let largest_bytes = lens_bytes.clone().max().unwrap_or(0);
        let budget = Budget::for_threads(&self.job, largest_bytes, self.job.memory() / SHARES);
        let items = numbers.iter().copied().zip(lens_bytes);
        in_order(&self.job, items, budget, Ok, convert, sink)?;
        self.check_unchanged()
    }

    /// Returns the memory for a tensor in bytes, with that of the bytes into which its
    /// stored bytes are unpacked first.
    fn cost_bytes(&self, number: usize) -> u64 {
        let tensor = &self.tensors()[number];
        let files = self.reader.model().files();
        let unpacked = tensor
            .parts
            .iter()
            .map(|part| files[part.file].unpacked_len_bytes(part.number));
        unpacked.fold(tensor.len_bytes(), u64::saturating_add)
    }

    /// Reads a tensor and checks that it matches the list of tensors.
    fn read(&self, number: usize) -> Result<Tensor> {
        let listed = &self.tensors()[number];
        let tensor = self.reader.read(&listed.name)?;
        if (tensor.dtype, &tensor.shape) != (listed.dtype, &listed.shape)
            || tensor.bytes.len() as u64 != listed.len_bytes()
        {
            return Err(Error::Differs {
                detail: format!(
                    "{}: the tensor `{}` was listed with shape {:?} and dtype {}, but read with \
                     shape {:?} and dtype {}",
                    self.input, listed.name, listed.shape, listed.dtype, tensor.shape, tensor.dtype
                ),
            });
        }
        Ok(tensor)
    }

    /// Refuses an output that is being read, and an existing one that may not be
    /// replaced.
    pub fn check_output(&self, path: &Path) -> Result<()> {
        super::refuse_input(self.input, path)?;
        check_inputs(path, self.reader.all_sources())?;
        if !self.replace && path.is_file() {
            return Err(Error::exists(path));
        }
        Ok(())
    }

    /// Begins the file at `path`: either the output, or a file in an unpublished
    /// folder, where existing files are always replaced.
    pub fn create(&self, path: &Path) -> Result<Output<'static>> {
        let output = match self.replace || path != self.output {
            true => Output::create(path),
            false => Output::create_new(path),
        }?;
        let inputs: Vec<&dyn Source> = self.reader.all_sources().collect();
        output.check_inputs(&inputs)?;
        Ok(output)
    }

    /// Returns the permissions of outputs that are made from the inputs.
    pub fn mode(&self) -> Mode {
        let mode = Mode::default();
        for source in self.reader.all_sources() {
            mode.add(source.file_ids());
        }
        mode
    }

    /// Refuses the result if an input was written to meanwhile.
    pub fn check_unchanged(&self) -> Result<()> {
        let mut inputs = self.reader.all_sources();
        inputs.try_for_each(Source::check_unchanged)
    }

    /// Returns a function that attributes a core error to the output.
    pub fn refuse(&self) -> impl Fn(zstn_core::Error) -> Error {
        Error::place(self.output_name)
    }
}

/// Returns the keys of metadata that `target` cannot store.
pub fn dropped_keys(conversion: &Conversion, target: TargetKind) -> Result<BTreeSet<String>> {
    let mut keys = BTreeSet::new();
    if conversion.kind() == FileKind::ZTensor {
        keys = custom_keys(conversion)?;
    }
    if matches!(target, TargetKind::ZTensor | TargetKind::Gauss) {
        keys.extend(conversion.reader.metadata().keys().cloned());
    }
    Ok(keys)
}

/// Returns the keys of a zTensor file that safetensors metadata cannot store: the keys
/// of individual tensors, and the keys of the file whose values are not strings.
fn custom_keys(conversion: &Conversion) -> Result<BTreeSet<String>> {
    let refuse = Error::place(conversion.input);
    // The file may be inside a packed one, so it is not opened by its location.
    let Some(source) = conversion.reader.sources().first() else {
        return Ok(BTreeSet::new());
    };
    let len_bytes = source.len_bytes();
    let head = source.read(0..len_bytes.min(8))?;
    let tail = source.read(len_bytes.saturating_sub(FOOTER_BYTES)..len_bytes)?;
    let footer = ZTensorFooter::parse(&head, &tail, len_bytes).map_err(&refuse)?;
    let manifest = source.read(footer.manifest.clone())?;
    let manifest = Manifest::parse(&manifest, &footer).map_err(&refuse)?;
    let name = |field: &Field| field.name().to_owned();
    let own = manifest.tensors.iter().flat_map(|tensor| &tensor.fields);
    let metadata = conversion.reader.metadata();
    let of_file = manifest.attributes.iter().map(name);
    let of_file = of_file.filter(|key| !metadata.contains_key(key));
    Ok(own.map(name).chain(of_file).collect())
}
