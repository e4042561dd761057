//! Opened models.

use std::collections::BTreeMap;
use std::process;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use zstn::core::engine::Engine as _;
use zstn::core::model;
use zstn::{Engine, Result, View};

use crate::buffer::{Aligned, Buffer};
use crate::engine;
use crate::error::{to_python, zstn_error};
use crate::gather::{Pick, gather};
use crate::http::Http;
use crate::input::{Argument, survives_fork};
use crate::interrupt::{run, run_short};
use crate::progress::Watch;

/// Tensors up to this length are decoded on the caller's thread where they are
/// local: a signal waits that long.
const SHORT_BYTES: u64 = 8 << 20;

/// Tensors below this length are decoded several at a time.
const SMALL_BYTES: u64 = 4 << 20;

/// What the index of a model says about a tensor.
#[pyclass(frozen, module = "zstn", get_all)]
pub struct TensorInfo {
    /// Name.
    name: String,
    /// Element type in the spelling of safetensors, such as `"BF16"`.
    dtype: &'static str,
    /// Shape, outermost dimension first.
    shape: Vec<u64>,
    /// Length in bytes.
    nbytes: u64,
    /// Bytes it takes in its file, including those shared with other tensors.
    stored_nbytes: u64,
}

#[pymethods]
impl TensorInfo {
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape)
    }

    fn __repr__(&self) -> String {
        let shape: Vec<String> = self.shape.iter().map(u64::to_string).collect();
        let comma = if shape.len() == 1 { "," } else { "" };
        format!(
            "TensorInfo(name={:?}, dtype={:?}, shape=({}{comma}), nbytes={})",
            self.name,
            self.dtype,
            shape.join(", "),
            self.nbytes
        )
    }
}

impl From<&model::Tensor> for TensorInfo {
    fn from(tensor: &model::Tensor) -> Self {
        Self {
            name: tensor.name.clone(),
            dtype: tensor.dtype.name(),
            shape: tensor.shape.clone(),
            nbytes: tensor.len_bytes(),
            stored_nbytes: tensor.stored_len_bytes(),
        }
    }
}

/// How a model was opened, to open it again.
#[derive(Clone)]
struct Opening {
    input: Argument,
    bases: Vec<Argument>,
    http: Http,
    view: View,
    threads: usize,
}

impl Opening {
    fn open(&self) -> Result<(zstn::Reader, Engine)> {
        let engine = engine::with_threads(self.threads)?;
        let mut options = zstn::Reader::options()
            .engine(&engine)
            .view(self.view)
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

/// An opened model. `zstn.Reader` is made of it.
#[pyclass(frozen, module = "zstn._native")]
pub struct Reader {
    opening: Opening,
    opened: Mutex<Option<OfProcess>>,
}

impl Reader {
    fn lock(&self) -> MutexGuard<'_, Option<OfProcess>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a handle to the reader of this process.
    fn get(&self, py: Python<'_>) -> PyResult<zstn::Reader> {
        let this = process::id();
        let former = match &*self.lock() {
            None => return Err(zstn_error(py, "the model has been closed".into(), "closed")),
            Some(OfProcess { process, reader }) if *process == this => return Ok(reader.clone()),
            Some(OfProcess { reader, .. }) => reader.clone(),
        };
        // A child of the process that opened it.
        let opening = self.opening.clone();
        let survives = survives_fork(former.all_sources());
        let reader = run(py, &Watch::none(), move |_| {
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
        // It may hold threads and connections that are the parent's.
        std::mem::forget(replaced);
        Ok(reader)
    }

    /// Runs `work` where a signal ends it if it may take long: for many bytes,
    /// or a server.
    fn work<T: Send + 'static>(
        py: Python<'_>,
        reader: zstn::Reader,
        len_bytes: u64,
        work: impl FnOnce(&zstn::Reader) -> Result<T> + Send + 'static,
    ) -> PyResult<T> {
        if len_bytes <= SHORT_BYTES && survives_fork(reader.all_sources()) {
            return run_short(py, move || work(&reader));
        }
        run(py, &Watch::none(), move |_| work(&reader))
    }
}

#[pymethods]
impl Reader {
    /// Opens a model.
    #[new]
    #[pyo3(signature = (input, base, http, dense, threads))]
    fn open(
        py: Python<'_>,
        input: &Bound<'_, PyAny>,
        base: Option<&Bound<'_, PyAny>>,
        http: Http,
        dense: bool,
        threads: usize,
    ) -> PyResult<Self> {
        let opening = Opening {
            input: Argument::new(input)?,
            bases: Argument::several(base)?,
            http,
            view: if dense { View::Dense } else { View::Stored },
            threads,
        };
        let again = opening.clone();
        let (reader, _) = run(py, &Watch::none(), move |_| again.open())?;
        Ok(Self {
            opening,
            opened: Mutex::new(Some(OfProcess {
                process: process::id(),
                reader,
            })),
        })
    }

    /// Closes the files.
    fn close(&self, py: Python<'_>) {
        let reader = self.lock().take();
        py.detach(|| drop(reader));
    }

    #[getter]
    fn is_closed(&self) -> bool {
        self.lock().is_none()
    }

    /// Path or address.
    #[getter]
    fn name(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.get(py)?.name().into())
    }

    /// The kind of file, such as `"zstn"`.
    #[getter]
    fn kind(&self, py: Python<'_>) -> PyResult<&'static str> {
        Ok(self.get(py)?.model().kind().name())
    }

    /// Names of all tensors, in the order of the index.
    fn keys(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        Ok(self.get(py)?.names().map(str::to_owned).collect())
    }

    /// Names of all tensors, in the order of their data.
    fn offset_keys(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let reader = self.get(py)?;
        let mut tensors: Vec<&model::Tensor> = reader.tensors().iter().collect();
        let start = |tensor: &model::Tensor| {
            let part = tensor.parts.first();
            part.map(|part| (part.file, part.stored.start, tensor.alias_of.is_some()))
        };
        tensors.sort_by_key(|tensor| start(tensor));
        Ok(tensors
            .into_iter()
            .map(|tensor| tensor.name.clone())
            .collect())
    }

    fn metadata(&self, py: Python<'_>) -> PyResult<BTreeMap<String, String>> {
        Ok(self.get(py)?.metadata().clone())
    }

    fn len(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.get(py)?.tensors().len())
    }

    /// What the index says about a tensor; `None` if there is none of the name.
    fn find(&self, py: Python<'_>, name: &str) -> PyResult<Option<TensorInfo>> {
        let reader = self.get(py)?;
        let mut tensors = reader.tensors().iter();
        Ok(match reader.model().find(name) {
            Ok(number) => tensors.nth(number).map(TensorInfo::from),
            Err(error) if error.kind() == zstn::core::ErrorKind::NotFound => None,
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
        Self::work(py, reader, len, move |reader| read(reader, &name)).map(Buffer::from)
    }

    /// Reads several tensors, small ones of local files at the same time.
    fn read_many(&self, py: Python<'_>, names: Vec<String>) -> PyResult<Vec<Buffer>> {
        let reader = self.get(py)?;
        let buffers = run(py, &Watch::none(), move |_| read_many(&reader, &names))?;
        Ok(buffers.into_iter().map(Buffer::from).collect())
    }

    /// Reads what `picks` say of each dimension: start, step and number of
    /// indices. Fetches the rows that are needed.
    fn read_slice(
        &self,
        py: Python<'_>,
        name: String,
        picks: Vec<(i64, i64, u64)>,
    ) -> PyResult<Buffer> {
        let reader = self.get(py)?;
        let tensor = reader.find(&name).map_err(|error| to_python(py, error))?;
        let picks: Vec<Pick> = picks
            .into_iter()
            .map(|(start, step, count)| Pick { start, step, count })
            .collect();
        let plan = Slice::new(tensor, picks)?;
        let len = tensor.len_bytes();
        Self::work(py, reader, len, move |reader| plan.read(reader)).map(Buffer::from)
    }
}

fn read(reader: &zstn::Reader, name: &str) -> Result<Aligned> {
    let mut memory = Aligned::zeroed(reader.find(name)?.len_bytes())?;
    reader.read_into(name, memory.as_mut_slice())?;
    Ok(memory)
}

fn read_many(reader: &zstn::Reader, names: &[String]) -> Result<Vec<Aligned>> {
    let is_local = survives_fork(reader.all_sources());
    let mut read_all = Vec::with_capacity(names.len());
    let mut rest = names;
    while let Some(first) = rest.first() {
        let mut small = 0;
        for name in rest {
            if !is_local || reader.find(name)?.len_bytes() >= SMALL_BYTES {
                break;
            }
            small += 1;
        }
        if small < 2 {
            // Large ones use all threads by themselves.
            read_all.push(read(reader, first)?);
            rest = &rest[1..];
            continue;
        }
        let (batch, others) = rest.split_at(small);
        let items: Vec<&String> = batch.iter().collect();
        let results = reader.engine().map(items, |name| read(reader, name));
        for result in results {
            read_all.push(result?);
        }
        rest = others;
    }
    Ok(read_all)
}

/// A slice of a tensor in all dimensions.
struct Slice {
    name: String,
    shape: Vec<u64>,
    picks: Vec<Pick>,
    element_bytes: usize,
    len_bytes: u64,
}

impl Slice {
    fn new(tensor: &model::Tensor, mut picks: Vec<Pick>) -> PyResult<Self> {
        let mut shape = tensor.shape.clone();
        if picks.len() != shape.len() {
            return Err(PyIndexError::new_err(
                "a pick for every dimension is needed",
            ));
        }
        for (pick, len) in picks.iter().zip(&shape) {
            let fits = pick.count == 0 || pick.bounds().is_some_and(|(_, end)| end <= *len);
            if !fits {
                return Err(PyIndexError::new_err("an index beyond the end"));
            }
        }
        let element_bytes = match tensor.dtype.len_bytes() {
            Some(bytes) => bytes,
            None => bytes_of_packed(tensor, &mut shape, &mut picks)?,
        };
        let count: u64 = picks.iter().map(|pick| pick.count).product();
        Ok(Self {
            name: tensor.name.clone(),
            len_bytes: count * element_bytes as u64,
            shape,
            picks,
            element_bytes,
        })
    }

    fn read(&self, reader: &zstn::Reader) -> Result<Aligned> {
        let mut out = Aligned::zeroed(self.len_bytes)?;
        if self.len_bytes == 0 {
            return Ok(out);
        }
        let Some(((first, end), rows)) = self
            .picks
            .first()
            .and_then(Pick::bounds)
            .zip(self.shape.first())
        else {
            reader.read_into(&self.name, out.as_mut_slice())?;
            return Ok(out);
        };
        let (mut shape, mut picks) = (self.shape.clone(), self.picks.clone());
        let out_of = |from: &[u8], shape: &[u64], picks: &[Pick], out: &mut Aligned| {
            gather(from, shape, picks, self.element_bytes, out.as_mut_slice());
        };
        if (first, end) == (0, *rows) {
            let mut whole = Aligned::zeroed(reader.find(&self.name)?.len_bytes())?;
            reader.read_into(&self.name, whole.as_mut_slice())?;
            if whole.as_mut_slice().len() as u64 == self.len_bytes
                && self.picks.iter().all(|pick| pick.step == 1)
            {
                return Ok(whole);
            }
            out_of(whole.as_mut_slice(), &shape, &picks, &mut out);
            return Ok(out);
        }
        let read = reader.read_rows(&self.name, first..end)?;
        shape[0] = end - first;
        picks[0].start -= i64::try_from(first).unwrap_or(0);
        out_of(&read.bytes, &shape, &picks, &mut out);
        Ok(out)
    }
}

/// Makes bytes of elements below one byte: the last dimension is then in bytes.
fn bytes_of_packed(
    tensor: &model::Tensor,
    shape: &mut [u64],
    picks: &mut [Pick],
) -> PyResult<usize> {
    let (Some(len), Some(pick)) = (shape.last_mut(), picks.last_mut()) else {
        return Err(PyValueError::new_err("a single element below one byte"));
    };
    let bits = tensor.dtype.bits();
    let is_all = pick.start == 0 && pick.step == 1 && pick.count == *len;
    if !is_all || !(*len * bits).is_multiple_of(8) {
        return Err(PyIndexError::new_err(format!(
            "elements of {} are parts of bytes: the last dimension can be taken as a whole only",
            tensor.dtype
        )));
    }
    *len = *len * bits / 8;
    pick.count = *len;
    Ok(1)
}
