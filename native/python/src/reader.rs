//! Readers of opened models.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::{iter, process};

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use zstn::zstn_core::catalog::{FileCatalog, FileKind};
use zstn::zstn_core::model;
use zstn::zstn_core::statistics::Figures;
use zstn::{Engine, Indices, Progress, Result, Selection, Verify, View};

use crate::arguments::{Argument, Http, survives_fork};
use crate::buffer::{Aligned, Buffer};
use crate::engine::{self, Threads};
use crate::error::{to_python, zstn_error};
use crate::gpu;
use crate::interrupt::{run, run_short};
use crate::progress::Watch;
use crate::tensor::TensorInfo;

/// Length in bytes of the longest tensor that is decoded on the caller's thread if the
/// files are local. Signals are not handled until that ends.
const SHORT_BYTES: u64 = 8 << 20;

/// The arguments with which a model was opened, to open it again after a fork.
#[derive(Clone)]
struct Opening {
    input: Argument,
    bases: Vec<Argument>,
    http: Http,
    view: View,
    verify: Verify,
    threads: Threads,
}

impl Opening {
    /// Returns a watch for work that reads the model.
    fn watch(&self) -> Watch {
        let mut inputs = iter::once(&self.input).chain(&self.bases);
        Watch::none().borrowing(inputs.any(|input| input.borrows))
    }

    fn open(&self) -> Result<(zstn::Reader, Engine)> {
        let engine = engine::with_threads(self.threads)?;
        let mut options = zstn::Reader::options()
            .engine(&engine)
            .view(self.view)
            .verify(self.verify)
            .http(self.http.options(self.input.address.as_deref())?);
        for base in &self.bases {
            options = options.base(&base.input);
        }
        Ok((options.open(&self.input.input)?, engine))
    }
}

struct OfProcess {
    process: u32,
    reader: zstn::Reader,
}

/// An opened model. `zstn.Reader` wraps it.
#[pyclass(frozen, module = "zstn._native")]
pub struct Reader {
    opening: Opening,
    opened: Mutex<Option<OfProcess>>,
    /// The metadata, once they have been asked for.
    metadata: OnceLock<BTreeMap<String, String>>,
}

impl Reader {
    fn watch(&self) -> Watch {
        self.opening.watch()
    }

    fn lock(&self) -> MutexGuard<'_, Option<OfProcess>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the reader of this process.
    pub fn get(&self, py: Python<'_>) -> PyResult<zstn::Reader> {
        let this = process::id();
        let former = match &*self.lock() {
            None => return Err(zstn_error(py, "the model has been closed".into(), "closed")),
            Some(OfProcess { process, reader }) if *process == this => return Ok(reader.clone()),
            Some(OfProcess { reader, .. }) => reader.clone(),
        };
        // This process is a forked child of the one that opened the model.
        let opening = self.opening.clone();
        let survives = survives_fork(former.all_sources());
        let reader = run(py, &opening.watch(), move |_| {
            if survives {
                return Ok(former.with_engine(&engine::with_threads(opening.threads)?));
            }
            std::mem::forget(former);
            Ok(opening.open()?.0)
        })?;
        let replaced = self.lock().replace(OfProcess {
            process: this,
            reader: reader.clone(),
        });
        // The parent's reader may own threads and connections, so it must not be
        // dropped here.
        std::mem::forget(replaced);
        Ok(reader)
    }

    /// Runs `work`. If the work may take long, because it reads many bytes or a remote
    /// source, a signal can end it.
    pub fn work<T: Send + 'static>(
        &self,
        py: Python<'_>,
        reader: zstn::Reader,
        len_bytes: u64,
        work: impl FnOnce(&zstn::Reader) -> Result<T> + Send + 'static,
    ) -> PyResult<T> {
        if len_bytes <= SHORT_BYTES && survives_fork(reader.all_sources()) {
            return run_short(py, move || work(&reader));
        }
        run(py, &self.watch(), move |_| work(&reader))
    }
}

#[pymethods]
impl Reader {
    /// Opens a model.
    #[new]
    #[pyo3(signature = (input, base, http, dense, threads, full=true))]
    fn open(
        py: Python<'_>,
        input: &Bound<'_, PyAny>,
        base: Option<&Bound<'_, PyAny>>,
        http: Http,
        dense: bool,
        threads: Threads,
        full: bool,
    ) -> PyResult<Self> {
        let opening = Opening {
            input: Argument::new(input, None)?,
            bases: Argument::several(base, None)?,
            http,
            view: if dense { View::Dense } else { View::Stored },
            verify: if full { Verify::Full } else { Verify::Stored },
            threads,
        };
        let again = opening.clone();
        let (reader, _) = run(py, &opening.watch(), move |_| again.open())?;
        Ok(Self {
            opening,
            opened: Mutex::new(Some(OfProcess {
                process: process::id(),
                reader,
            })),
            metadata: OnceLock::new(),
        })
    }

    /// Closes the model's files.
    fn close(&self, py: Python<'_>) {
        let reader = self.lock().take();
        py.detach(|| drop(reader));
    }

    #[getter]
    fn is_closed(&self) -> bool {
        self.lock().is_none()
    }

    /// Path or address of the model.
    #[getter]
    fn name(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.get(py)?.name().into())
    }

    /// The file format, such as `"zstn"`.
    #[getter]
    fn kind(&self, py: Python<'_>) -> PyResult<&'static str> {
        Ok(self.get(py)?.model().kind().name())
    }

    /// Extension of the file that a packed file restores, `bin` if its format is unknown.
    /// `None` if that is a safetensors file, or the model is not a single packed file.
    #[getter]
    fn original_extension(&self, py: Python<'_>) -> PyResult<Option<&'static str>> {
        let reader = self.get(py)?;
        let Some(file) = only_file(&reader) else {
            return Ok(None);
        };
        Ok(file.original_kind().map(|name| {
            let mut kinds = FileKind::FILES.iter();
            let kind = kinds.find(|kind| kind.name() == name);
            kind.map_or("bin", |kind| kind.extension())
        }))
    }

    /// SHA-256 of the original file in hex. `None` if the container does not contain it
    /// or the model consists of several files.
    #[getter]
    fn original_sha256(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let reader = self.get(py)?;
        let Some(file) = only_file(&reader) else {
            return Ok(None);
        };
        let digest = file
            .integrity()
            .and_then(|integrity| integrity.original_sha256());
        Ok(digest.map(|digest| digest.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// Names of all tensors, in the order of the index. Tensors that cannot be read
    /// come last: code that reads all tensors then gets an error instead of too few
    /// tensors.
    fn keys(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let reader = self.get(py)?;
        let refused = reader.model().refused().map(|(name, _)| name);
        Ok(reader.names().chain(refused).map(str::to_owned).collect())
    }

    /// Names of all tensors, in the order of their data.
    fn offset_keys(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let reader = self.get(py)?;
        let mut tensors: Vec<&model::TensorInfo> = reader.tensors().iter().collect();
        let start = |tensor: &model::TensorInfo| {
            let part = tensor.parts.first();
            part.map(|part| (part.file, part.stored.start, tensor.alias_of.is_some()))
        };
        tensors.sort_by_key(|tensor| start(tensor));
        let names = tensors.into_iter().map(|tensor| tensor.name.clone());
        let refused = reader.model().refused().map(|(name, _)| name.to_owned());
        Ok(names.chain(refused).collect())
    }

    fn metadata(&self, py: Python<'_>) -> PyResult<BTreeMap<String, String>> {
        let reader = self.get(py)?;
        if let Some(known) = self.metadata.get() {
            return Ok(known.clone());
        }
        let found = self.work(py, reader, 0, zstn::Reader::original_metadata)?;
        Ok(self.metadata.get_or_init(|| found).clone())
    }

    fn len(&self, py: Python<'_>) -> PyResult<usize> {
        let reader = self.get(py)?;
        Ok(reader.tensors().len() + reader.model().refused().count())
    }

    /// The index entry of a tensor; `None` if there is no tensor with this name.
    fn find(&self, py: Python<'_>, name: &str) -> PyResult<Option<TensorInfo>> {
        let reader = self.get(py)?;
        Ok(match reader.model().find(name) {
            Ok(number) => Some(TensorInfo::of(reader.model(), number)),
            Err(error) if error.kind() == zstn::zstn_core::ErrorKind::NotFound => None,
            Err(error) => return Err(to_python(py, error.into())),
        })
    }

    /// Reads a tensor.
    fn read(&self, py: Python<'_>, name: String) -> PyResult<Buffer> {
        let reader = self.get(py)?;
        let len = reader
            .find(&name)
            .map_err(|error| to_python(py, error))?
            .len_bytes();
        self.work(py, reader, len, move |reader| read(reader, &name))
            .map(Buffer::from)
    }

    /// Reads several tensors at once.
    fn read_many(&self, py: Python<'_>, names: Vec<String>) -> PyResult<Vec<Buffer>> {
        let reader = self.get(py)?;
        let buffers = run(py, &self.watch(), move |watch| {
            read_many(&reader, &names, watch)
        })?;
        Ok(buffers.into_iter().map(Buffer::from).collect())
    }

    /// Reads several tensors into the memory of a GPU, after all present work of a stream.
    /// Returns the number of tensors that the CPU has decoded, or the reason if the GPU
    /// cannot be used.
    fn read_into_device(
        &self,
        py: Python<'_>,
        device: u16,
        stream: u64,
        places: Vec<gpu::Place>,
    ) -> PyResult<(usize, Option<String>)> {
        let reader = self.get(py)?;
        let watch = self.watch().borrowing(true);
        let lens = places
            .iter()
            .map(|(name, _)| Ok(reader.find(name)?.len_bytes()));
        let len_bytes = lens.sum::<Result<u64>>();
        let len_bytes = len_bytes.map_err(|error| to_python(py, error))?;
        let read = move |watch: &Watch| gpu::read_into(&reader, device, stream, &places, watch);
        let result = match len_bytes <= SHORT_BYTES {
            true => run_short(py, move || read(&watch)),
            false => run(py, &watch, read),
        }?;
        Ok(match result {
            Ok(by_cpu) => (by_cpu, None),
            Err(reason) => (0, Some(reason)),
        })
    }

    /// Returns whether reads wait for another machine.
    fn is_remote(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(!survives_fork(self.get(py)?.all_sources()))
    }

    /// Returns the name and summary statistics of every tensor that has statistics.
    fn summaries(&self, py: Python<'_>) -> PyResult<Vec<(String, Numbers)>> {
        let reader = self.get(py)?;
        let summaries = reader.summaries().map_err(|error| to_python(py, error))?;
        let named = reader.names().zip(&summaries);
        let found =
            named.filter_map(|(name, figures)| Some((name.to_owned(), numbers(figures.as_ref()?))));
        Ok(found.collect())
    }

    /// Returns the summary statistics of a tensor, the number of rows per band, and the
    /// statistics of each band.
    fn statistics(
        &self,
        py: Python<'_>,
        name: String,
    ) -> PyResult<Option<(Numbers, u64, Vec<Numbers>)>> {
        let reader = self.get(py)?;
        let found = run(py, &self.watch(), move |_| reader.statistics(&name))?;
        Ok(found.map(|found| {
            let bands = found.bands.iter().map(numbers).collect();
            (numbers(&found.summary), found.rows_per_band, bands)
        }))
    }

    /// Reads a slice. `picks` contains, for each dimension, either start, step and number
    /// of indices, or a list of ascending indices as little-endian integers of 64 bits.
    fn read_slice(&self, py: Python<'_>, name: String, picks: Vec<Pick>) -> PyResult<Buffer> {
        let reader = self.get(py)?;
        let tensor = reader.find(&name).map_err(|error| to_python(py, error))?;
        let selection = selection(tensor, picks)?;
        let missing = reader.missing_len_bytes(&selection);
        let read = move |reader: &zstn::Reader| {
            let mut memory = Aligned::zeroed(selection.len_bytes())?;
            reader.read_selection_into(&selection, memory.as_mut_slice())?;
            Ok(memory)
        };
        match missing {
            0 => run_short(py, move || read(&reader)),
            _ => self.work(py, reader, missing, read),
        }
        .map(Buffer::from)
    }
}

/// Returns the packed file in which a model was opened, or the only file of a model.
fn only_file(reader: &zstn::Reader) -> Option<&FileCatalog> {
    match (reader.packed_file(), reader.model().files()) {
        (Some(packed), _) => Some(packed),
        (None, [file]) => Some(file),
        (None, _) => None,
    }
}

/// Selects indices of a tensor, one entry for each dimension.
pub fn selection(tensor: &model::TensorInfo, picks: Vec<Pick>) -> PyResult<Selection> {
    let picks = picks.into_iter().map(Indices::from).collect();
    Selection::new(tensor, picks).map_err(|error| PyIndexError::new_err(error.to_string()))
}

/// The selected indices of a dimension.
#[derive(FromPyObject)]
pub enum Pick {
    Steps(u64, i64, u64),
    List(PyBackedBytes),
}

impl From<Pick> for Indices {
    fn from(pick: Pick) -> Self {
        match pick {
            Pick::Steps(start, step, count) => Self::Steps { start, step, count },
            Pick::List(bytes) => {
                let list = bytes.as_chunks().0.iter();
                Self::List(list.map(|index| u64::from_le_bytes(*index)).collect())
            }
        }
    }
}

/// Count, minimum, maximum, mean and root mean square, then the numbers of zeros, NaNs
/// and infinities.
type Numbers = (u64, f64, f64, f64, f64, u64, u64, u64);

fn numbers(of: &Figures) -> Numbers {
    let Figures {
        count,
        min,
        max,
        mean,
        rms,
        zeros,
        nans,
        infinities,
        ..
    } = *of;
    (count, min, max, mean, rms, zeros, nans, infinities)
}

fn read(reader: &zstn::Reader, name: &str) -> Result<Aligned> {
    let mut memory = Aligned::zeroed(reader.find(name)?.len_bytes())?;
    reader.read_into(name, memory.as_mut_slice())?;
    Ok(memory)
}

fn read_many(
    reader: &zstn::Reader,
    names: &[String],
    progress: &dyn Progress,
) -> Result<Vec<Aligned>> {
    let buffers = names
        .iter()
        .map(|name| Aligned::zeroed(reader.find(name)?.len_bytes()));
    let mut buffers: Vec<Aligned> = buffers.collect::<Result<_>>()?;
    let wanted = names.iter().map(String::as_str);
    let wanted = wanted.zip(buffers.iter_mut().map(Aligned::as_mut_slice));
    reader.read_many_into(wanted.collect(), progress)?;
    Ok(buffers)
}
