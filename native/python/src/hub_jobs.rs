//! Work for model hubs, called by the Python package `zstn-hub` and by `zstn.hf`: plans
//! for many files, the choice of bases among them, the work on one file, and the entries
//! of finished files. Rows and entries are passed as JSON texts, as they appear in the
//! files.

use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use zstn::family::{Candidate, Digests, Sketch, SketchOptions};
use zstn::source::HttpOptions;
use zstn::zstn_core::engine::Engine as _;
use zstn::zstn_core::frame::select::EncodeOptions;
use zstn::zstn_core::sketch::MAX_FILE_BYTES;
use zstn::{Job, Location};
use zstn_hub::hub::Hub;
use zstn_hub::manifest::{Bases, Class, Done, Failed, ListedResult, PlanShare, Row, key_against};
use zstn_hub::proof::StoredFile;
use zstn_hub::work::{Origin, RowOutcome, RowWork, WorkerOptions};

use crate::arguments::{Common, effort};
use crate::engine::{self, Threads};
use crate::error::to_python;
use crate::interrupt::{run, run_short};
use crate::progress::Watch;

/// The environment variable that contains the hub's token.
const TOKEN: &str = "HF_TOKEN";

/// Returns the key of the work on a file with these options and bases, which are JSON as in
/// a row. `sha256` is its SHA-256, followed by the extension of its name with the dot.
/// Without an extension, the key is that of a safetensors file.
#[pyfunction]
pub fn plan_key(sha256: &str, effort: &str, extended: bool, bases: &str) -> PyResult<String> {
    let bases: Bases = from_json(bases)?;
    let digits = sha256.split('.').next().unwrap_or(sha256);
    let options = encode(effort, extended)?;
    Ok(key_against((sha256, digits), options, &bases))
}

/// Reads a plan and returns its rows as JSON, each with its key.
#[pyfunction]
pub fn read_plan(
    py: Python<'_>,
    path: PathBuf,
    effort: &str,
    extended: bool,
) -> PyResult<Vec<String>> {
    let options = encode(effort, extended)?;
    let rows = run_short(py, || zstn_hub::manifest::read_plan(&path, options))?;
    rows.iter().map(to_json).collect()
}

/// Reads a plan without checking the options and the version of its keys, and returns its
/// rows as JSON.
#[pyfunction]
pub fn load_plan(py: Python<'_>, path: PathBuf) -> PyResult<Vec<String>> {
    let rows = run_short(py, || zstn_hub::manifest::load_plan(&path))?;
    rows.iter().map(to_json).collect()
}

/// Returns the numbers of the rows of share `index` of `count`, given the key of each row and the
/// keys of all its bases.
#[pyfunction]
pub fn plan_share(rows: Vec<(String, Vec<String>)>, index: usize, count: usize) -> Vec<usize> {
    let rows = rows.iter().map(|(key, bases)| {
        let bases = bases.iter().map(String::as_str).collect();
        (key.as_str(), bases)
    });
    let rows: Vec<(&str, Vec<&str>)> = rows.collect();
    zstn_hub::manifest::share(&rows, PlanShare { index, count })
}

/// Reads a file sequentially and returns its length and SHA-256.
#[pyfunction]
pub fn stream_sha256(py: Python<'_>, location: &str) -> PyResult<(u64, String)> {
    let location = self::location(location);
    run(py, &Watch::none(), move |_| {
        zstn_hub::work::stream_sha256(&location, &HttpOptions::default())
    })
}

/// Checks that a stored packed file restores the original with this SHA-256, and raises
/// an error with the reason if it does not.
#[pyfunction]
pub fn check_restores(
    py: Python<'_>,
    stored: &str,
    stored_sha256: Option<String>,
    bases: Vec<String>,
    original_sha256: String,
    mut common: Common,
) -> PyResult<()> {
    let stored = location(stored);
    let watch = Watch::new(common.progress.take());
    run(py, &watch, move |watch| {
        let address = stored.to_string();
        let address = Location::is_url(&address).then_some(&*address);
        let mut file = StoredFile::new(&stored).http(common.http.options(address)?);
        if let Some(sha256) = stored_sha256 {
            file = file.sha256(sha256);
        }
        if let Some(bytes) = common.memory {
            file = file.memory_bytes(bytes);
        }
        for base in &bases {
            file = file.base(location(base));
        }
        let engine = engine::with_threads(common.threads)?;
        zstn_hub::proof::check_restores(&engine, &file, &original_sha256, watch)
    })
}

/// Copies a file to a path and returns its length and SHA-256.
#[pyfunction]
pub fn copy_sha256(py: Python<'_>, location: &str, path: PathBuf) -> PyResult<(u64, String)> {
    let location = self::location(location);
    run(py, &Watch::none().making_output(), move |_| {
        zstn_hub::work::copy_sha256(&location, &path, &HttpOptions::default())
    })
}

/// Returns the objects below a folder in an object store: their names relative to the
/// folder, lengths and entity tags.
#[pyfunction]
pub fn list_objects(py: Python<'_>, url: String) -> PyResult<Vec<(String, u64, Option<String>)>> {
    run(py, &Watch::none(), move |_| {
        zstn_hub::work::list_objects(&url)
    })
}

/// Returns the sketch of a file, made from samples of it.
#[pyfunction]
pub fn sample_sketch<'py>(py: Python<'py>, location: &str) -> PyResult<Bound<'py, PyBytes>> {
    let location = self::location(location);
    let bytes = run(py, &Watch::none(), move |_| {
        let engine = engine::shared()?;
        let options = SketchOptions::default().digests(Digests::Stored);
        let job = Job::new().engine(&engine);
        let sketch = zstn::family::sketch(&job, &location, &options)?;
        Ok(sketch.to_bytes(&engine))
    })?;
    Ok(PyBytes::new(py, &bytes))
}

/// Chooses bases among the other sketched files for each file: none, one, or the sources of
/// a merge. `names` are the names of the sketches in `folder`. A planned file keeps its bases;
/// `planned` has the number of packed files that it is read from, and `None` for the others.
#[pyfunction]
pub fn choose_bases(
    py: Python<'_>,
    results: &Results,
    folder: String,
    names: Vec<String>,
    planned: Vec<Option<usize>>,
    extended: bool,
) -> PyResult<Vec<Vec<usize>>> {
    let results = results.0.clone();
    run(py, &Watch::none(), move |_| {
        let engine = engine::shared()?;
        let sketch = |number: usize| {
            let name = &names[number];
            let at = || results.at(&folder, name);
            let file = results.read_file(&folder, name, MAX_FILE_BYTES)?;
            let file = file.ok_or_else(|| zstn::Error::Usage(format!("{} was removed", at())))?;
            Sketch::parse(&engine, &file).map_err(|error| zstn::Error::place(at())(error))
        };
        let planned = (0..names.len()).zip(planned).collect();
        let candidates = engine.map(planned, |(number, files): (usize, Option<usize>)| {
            let candidate = Candidate::new(&sketch(number)?);
            zstn::Result::Ok(match files {
                Some(files) => candidate.planned(files),
                None => candidate,
            })
        });
        let candidates: Vec<Candidate> = candidates.into_iter().collect::<zstn::Result<_>>()?;
        zstn::family::bases(&engine, &candidates, sketch, extended)
    })
}

/// The entries of finished work in a folder or an object store.
#[pyclass(frozen, module = "zstn._native")]
pub struct Results(zstn_hub::manifest::Results);

#[pymethods]
impl Results {
    /// Opens a folder, and creates it if it is missing; with `existing`, the folder
    /// must contain results.
    #[new]
    #[pyo3(signature = (root, existing=false))]
    fn new(py: Python<'_>, root: &str, existing: bool) -> PyResult<Self> {
        let (root, http) = (location(root), HttpOptions::default());
        let open = || match existing {
            true => zstn_hub::manifest::Results::existing(&root, &http),
            false => zstn_hub::manifest::Results::open(&root, &http),
        };
        run_short(py, open).map(Self)
    }

    /// Returns the path or address of a file in one of the folders.
    fn at(&self, folder: &str, name: &str) -> String {
        self.0.at(folder, name).to_string()
    }

    fn done(&self, py: Python<'_>, key: &str) -> PyResult<Option<String>> {
        let done = run_short(py, || self.0.done(key))?;
        done.as_ref().map(to_json).transpose()
    }

    /// Returns the entry of a finished row, if its packed file exists.
    fn packed(&self, py: Python<'_>, row: &str) -> PyResult<Option<String>> {
        let row: Row = from_json(row)?;
        let done = run_short(py, || self.0.packed(&row))?;
        done.as_ref().map(to_json).transpose()
    }

    fn failed(&self, py: Python<'_>, key: &str) -> PyResult<Option<String>> {
        let failed = run_short(py, || self.0.failed(key))?;
        failed.as_ref().map(to_json).transpose()
    }

    fn put_done(&self, py: Python<'_>, entry: &str) -> PyResult<bool> {
        let entry: Done = from_json(entry)?;
        run_short(py, || self.0.put_done(&entry))
    }

    fn put_failed(&self, py: Python<'_>, entry: &str) -> PyResult<()> {
        let entry: Failed = from_json(entry)?;
        run_short(py, || self.0.put_failed(&entry))
    }

    /// Returns the name and length of each file and, for a local file, its age in
    /// seconds.
    fn files(&self, py: Python<'_>, folder: &str) -> PyResult<Vec<(String, u64, Option<f64>)>> {
        let listed = run_short(py, || self.0.list(folder))?;
        let file = |file: ListedResult| {
            let age = file.age.map(|age| age.as_secs_f64());
            (file.name, file.len_bytes, age)
        };
        Ok(listed.into_iter().map(file).collect())
    }

    fn create_file(
        &self,
        py: Python<'_>,
        folder: &str,
        name: &str,
        bytes: Vec<u8>,
    ) -> PyResult<bool> {
        run_short(py, || self.0.create_file(folder, name, &bytes))
    }

    fn remove(&self, py: Python<'_>, folder: &str, name: &str) -> PyResult<()> {
        run_short(py, || self.0.remove(folder, name))
    }
}

/// Processes a row. Returns the state, the reason of a failure, the number of bytes
/// read, and the length of the packed file.
#[pyfunction]
#[expect(
    clippy::too_many_arguments,
    reason = "the keywords of a Python function"
)]
pub fn work_row(
    py: Python<'_>,
    row: &str,
    origin: &str,
    results: &Results,
    scratch: PathBuf,
    bases: Option<Vec<PathBuf>>,
    effort: &str,
    extended: bool,
    memory: Option<u64>,
    threads: Threads,
    retry_refused: bool,
) -> PyResult<(&'static str, String, u64, u64)> {
    let row: Row = from_json(row)?;
    let origin = self::origin(origin).map_err(|error| to_python(py, error))?;
    let mut options = WorkerOptions::default();
    options.effort = self::effort(effort)?;
    options.extended = extended;
    options.memory_bytes = memory;
    let results = results.0.clone();
    let bases: Option<Vec<Location>> =
        bases.map(|bases| bases.into_iter().map(Location::from).collect());
    let len_bytes = row.len_bytes;
    let outcome = run(py, &Watch::none().making_output(), move |watch| {
        let engine = engine::with_threads(threads)?;
        let work =
            RowWork::new(&engine, origin, results, &scratch, options)?.retry_refused(retry_refused);
        Ok(match work.work(&row, bases.as_deref(), watch) {
            Ok(outcome) => outcome,
            // The results could not be read or written.
            Err(error) => RowOutcome::of_error(&error),
        })
    })?;
    Ok(match outcome {
        RowOutcome::Packed(done) => ("packed", String::new(), len_bytes, done.packed_bytes),
        RowOutcome::Known(done) => ("known", String::new(), 0, done.packed_bytes),
        RowOutcome::Failed {
            class,
            reason,
            is_unread,
        } => {
            let state = match class {
                Class::Retry => "retry",
                Class::Refused => "refused",
            };
            (state, reason, if is_unread { 0 } else { len_bytes }, 0)
        }
        _ => return Err(PyValueError::new_err("an outcome of another version")),
    })
}

/// Returns the location of the originals: a hub, given by its endpoint, or a folder.
fn origin(text: &str) -> zstn::Result<Origin> {
    if text.starts_with("https://") || text.starts_with("http://") {
        let token = std::env::var(TOKEN).ok();
        return Origin::hub(&Hub::new(text, token.as_deref())?);
    }
    Ok(Origin::folder(location(text)))
}

fn location(text: &str) -> Location {
    match Location::is_url(text) {
        true => Location::url(text),
        false => Location::from(text),
    }
}

fn encode(effort: &str, extended: bool) -> PyResult<EncodeOptions> {
    Ok(EncodeOptions::new(self::effort(effort)?).extended(extended))
}

fn to_json<T: serde::Serialize>(value: &T) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyValueError::new_err(error.to_string()))
}

fn from_json<T: serde::de::DeserializeOwned>(text: &str) -> PyResult<T> {
    serde_json::from_str(text).map_err(|error| PyValueError::new_err(error.to_string()))
}
