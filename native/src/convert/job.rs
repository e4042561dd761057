//! The input of a conversion, and reading all of it in bounded memory.

use std::path::Path;

use zstn_core::catalog::{self, Kind};
use zstn_core::engine::Engine as _;
use zstn_core::model;

use super::ConvertOptions;
use crate::output::check_inputs;
use crate::pack::batch;
use crate::source::{Map, Place, Source};
use crate::{Engine, Error, Output, Reader, Result, Tensor};

/// Parts of the memory allowed that the tensors of a batch may take: they are
/// read from some bytes, become others, and coding needs room.
const SHARES: u64 = 4;

/// A conversion under way.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    pub engine: &'a Engine,
    pub input: &'a Place,
    pub reader: &'a Reader,
    pub output: &'a Path,
    pub options: ConvertOptions<'a>,
}

impl<'a> Job<'a> {
    /// The same, unwatched.
    pub fn quiet(mut self) -> Self {
        self.options.progress = &();
        self
    }

    pub fn tensors(&self) -> &'a [model::Tensor] {
        self.reader.header()
    }

    pub fn kind(&self) -> Kind {
        self.reader.model().kind()
    }

    /// Bytes of all tensors.
    pub fn tensors_len_bytes(&self) -> u64 {
        let lens = self.tensors().iter().map(model::Tensor::len_bytes);
        lens.fold(0, u64::saturating_add)
    }

    /// The input as one mapped file, if it is a single one of `kind`.
    pub fn whole(&self, kind: Kind) -> Result<Option<Map>> {
        if !matches!(kind, Kind::Safetensors | Kind::Zstn) {
            return Ok(None);
        }
        let place = self.input;
        let name = place.file_name();
        let is_index = name.is_some_and(|name| name.ends_with(".json"));
        let is_folder = matches!(place, Place::Path(path) if path.is_dir());
        if self.kind() != kind || is_index || is_folder {
            return Ok(None);
        }
        let map = place.whole(&|_, _| ())?;
        let found = catalog::recognise(&map[..map.len().min(16)], map.len_bytes());
        Ok((found == Ok(kind)).then_some(map))
    }

    /// Reads the tensors of those numbers batch by batch, gives each to `job`
    /// on whatever thread is free and the results to `sink`, in order.
    pub fn each<R: Send>(
        &self,
        numbers: &[usize],
        job: impl Fn(usize, Tensor) -> Result<R> + Sync + Send,
        mut sink: impl FnMut(usize, R) -> Result<()>,
    ) -> Result<()> {
        let tensors = self.tensors();
        let lens: Vec<u64> = numbers.iter().map(|&n| tensors[n].len_bytes()).collect();
        let no_ties = vec![None; lens.len()];
        for batch in batch::cut(&lens, &no_ties, self.options.memory_bytes / SHARES) {
            let numbers = &numbers[batch.tensors];
            let results = self.engine.map(numbers.to_vec(), |number| {
                let result = job(number, self.read(number)?);
                self.options.progress.advance(tensors[number].len_bytes());
                result
            });
            for (&number, result) in numbers.iter().zip(results) {
                sink(number, result?)?;
            }
        }
        self.check_unchanged()
    }

    /// A tensor that is what the list of tensors says.
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

    /// Everything that is read, the base too.
    fn inputs(&self) -> Vec<&dyn Source> {
        let mut inputs = Vec::new();
        let mut reader = Some(self.reader);
        while let Some(each) = reader {
            inputs.extend(each.sources().iter().map(|source| &**source));
            reader = each.base();
        }
        inputs
    }

    /// Refuses an output that is being read, and one that exists unless it
    /// may be replaced.
    pub fn check_output(&self, path: &Path) -> Result<()> {
        super::refuse_input(self.input, path)?;
        check_inputs(path, &self.inputs())?;
        if !self.options.replace && path.is_file() {
            return Err(Error::Exists { path: path.into() });
        }
        Ok(())
    }

    /// Begins the file at `path`: the output, or one in a folder that is not
    /// published yet, where every name is ours.
    pub fn create(&self, path: &Path) -> Result<Output> {
        let output = match self.options.replace || path != self.output {
            true => Output::create(path),
            false => Output::create_new(path),
        }?;
        output.check_inputs(&self.inputs())?;
        Ok(output)
    }

    /// Refuses the result if an input was written to meanwhile.
    pub fn check_unchanged(&self) -> Result<()> {
        self.inputs()
            .into_iter()
            .try_for_each(Source::check_unchanged)
    }

    /// Names the output in a refusal of the core.
    pub fn refuse(&self) -> impl Fn(zstn_core::Error) -> Error {
        Error::place(self.output.display())
    }
}
