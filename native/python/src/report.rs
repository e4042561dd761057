//! Reports as dictionaries, which `zstn/_reports.py` converts to typed objects.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use zstn::convert::Detail;
use zstn::family::BaseChoice;
use zstn::{
    ConvertReport, DiffReport, FolderReport, PackReport, PackedFile, Storage, TensorDiff,
    UnpackReport, UnpackedFile, Uploaded, VerifiedFile, VerifyReport,
};

pub type Dict<'py> = PyResult<Bound<'py, PyDict>>;

/// Creates a dictionary from `key: value` pairs; the keys are strings.
macro_rules! dict {
    ($py:expr, $($key:ident: $value:expr),* $(,)?) => {{
        let dict = PyDict::new($py);
        $(dict.set_item(stringify!($key), $value)?;)*
        dict
    }};
}

fn files<'py, T>(
    py: Python<'py>,
    files: &[T],
    each: impl Fn(Python<'py>, &T) -> Dict<'py>,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    files.iter().map(|file| each(py, file)).collect()
}

pub fn packed<'py>(py: Python<'py>, report: &PackReport) -> Dict<'py> {
    Ok(dict!(py,
        files: files(py, &report.files, packed_file)?,
        folder: folder(py, report.folder.as_ref())?,
    ))
}

pub fn chosen<'py>(py: Python<'py>, choice: &BaseChoice) -> Dict<'py> {
    let base = choice.base.as_ref();
    let chain = base.iter().flat_map(|base| &base.chain);
    let expected = base.map_or(choice.plain, |base| base.estimate);
    Ok(dict!(py,
        bases: chain.map(ToString::to_string).collect::<Vec<_>>(),
        candidates: choice.compared,
        expected_bytes: expected.packed_bytes,
        expected_plain_bytes: choice.plain.packed_bytes,
        left_out: choice.left_out.clone(),
    ))
}

fn packed_file<'py>(py: Python<'py>, file: &PackedFile) -> Dict<'py> {
    let mut counts = [None; 4];
    let storage = match &file.storage {
        Storage::Indexed { aliased, .. } => {
            counts[0] = Some(*aliased);
            "indexed"
        }
        Storage::Delta {
            copied,
            differing,
            whole,
            ..
        } => {
            counts[1..].copy_from_slice(&[Some(*copied), Some(*differing), Some(*whole)]);
            "delta"
        }
        _ => "single_frame",
    };
    Ok(dict!(py,
        input: &file.input,
        output: file.output.as_ref().map(|path| path.display().to_string()),
        original_bytes: file.original_bytes,
        packed_bytes: file.packed_bytes,
        tensors: file.tensors,
        storage: storage,
        original_kind: file.original.as_ref().map(|original| original.kind.clone()),
        refusal: file.original.as_ref().and_then(|original| original.refusal.clone()),
        aliased: counts[0],
        copied: counts[1],
        differing: counts[2],
        whole: counts[3],
        upload: uploaded(py, file.upload)?,
    ))
}

pub fn unpacked<'py>(py: Python<'py>, report: &UnpackReport) -> Dict<'py> {
    Ok(dict!(py,
        files: files(py, &report.files, unpacked_file)?,
        folder: folder(py, report.folder.as_ref())?,
    ))
}

fn unpacked_file<'py>(py: Python<'py>, file: &UnpackedFile) -> Dict<'py> {
    Ok(dict!(py,
        input: &file.input,
        output: file.output.as_ref().map(|path| path.display().to_string()),
        packed_bytes: file.packed_bytes,
        original_bytes: file.original_bytes,
        upload: uploaded(py, file.upload)?,
    ))
}

fn uploaded(py: Python<'_>, upload: Option<Uploaded>) -> PyResult<Option<Bound<'_, PyDict>>> {
    let Some(upload) = upload else {
        return Ok(None);
    };
    Ok(Some(dict!(py,
        parts: upload.parts,
        parts_reused: upload.parts_reused,
    )))
}

pub fn verified<'py>(py: Python<'py>, report: &VerifyReport) -> Dict<'py> {
    Ok(dict!(py,
        files: files(py, &report.files, verified_file)?,
        compared: report.compared,
        identical: report.identical,
        indexed_tensors: report.indexed_tensors,
        missing_tensors: &report.missing_tensors,
        unchecked_files: texts(&report.unchecked_files),
    ))
}

fn verified_file<'py>(py: Python<'py>, file: &VerifiedFile) -> Dict<'py> {
    Ok(dict!(py,
        name: &file.name,
        kind: file.kind.name(),
        packed_bytes: file.packed_bytes,
        original_bytes: file.original_bytes,
        frames: file.frames,
        has_digests: file.has_digests,
        has_file_digest: file.has_file_digest,
        max_error: file.max_error,
        is_confirmed: file.is_confirmed,
    ))
}

pub fn compared<'py>(py: Python<'py>, report: &DiffReport) -> Dict<'py> {
    Ok(dict!(py,
        changed: files(py, &report.changed, tensor_diff)?,
        elements: report.elements,
        changed_elements: report.changed_elements(),
        equal_tensors: report.equal,
        equal_unread: report.equal_unread,
        only_in_first: &report.only_in_first,
        only_in_second: &report.only_in_second,
        unreadable: &report.unreadable,
        changed_metadata: &report.metadata,
        is_equal: report.is_equal(),
    ))
}

fn tensor_diff<'py>(py: Python<'py>, tensor: &TensorDiff) -> Dict<'py> {
    let figures = tensor.difference.as_ref();
    let size = figures.and_then(|figures| figures.size);
    let [first, second] = &tensor.shapes;
    Ok(dict!(py,
        name: &tensor.name,
        dtypes: tensor.dtypes.map(zstn::zstn_core::dtype::Dtype::name),
        shapes: (first.as_slice(), second.as_slice()),
        changed_elements: figures.map(|figures| figures.changed),
        lost_finite: figures.map(|figures| figures.lost_finite),
        gained_finite: figures.map(|figures| figures.gained_finite),
        relative_change: tensor.relative(),
        max_change: size.map(|size| size.max_abs),
    ))
}

pub fn converted<'py>(py: Python<'py>, report: &ConvertReport) -> Dict<'py> {
    let paths = report.files.iter().map(|path| path.display().to_string());
    let sparse = match report.detail {
        Detail::Sparse(count) => Some(count),
        _ => None,
    };
    Ok(dict!(py,
        source_kind: report.from.name(),
        kind: report.to.name(),
        tensors: report.tensors,
        tensor_bytes: report.tensor_bytes,
        written_bytes: report.written_bytes,
        files: paths.collect::<Vec<_>>(),
        dropped: &report.dropped,
        is_decoded: report.is_decoded,
        is_rotated: report.is_rotated,
        sparse: sparse,
    ))
}

fn texts(paths: &[std::path::PathBuf]) -> Vec<String> {
    let paths = paths.iter();
    paths.map(|path| path.display().to_string()).collect()
}

fn folder<'py>(
    py: Python<'py>,
    folder: Option<&FolderReport>,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let Some(folder) = folder else {
        return Ok(None);
    };
    let not_packed = folder.not_packed.iter();
    let not_packed = not_packed.map(|(path, reason)| (path.display().to_string(), reason.as_str()));
    Ok(Some(dict!(py,
        index: &folder.index,
        copied: texts(&folder.copied),
        copied_bytes: folder.copied_bytes,
        not_packed: not_packed.collect::<Vec<_>>(),
        missing_tensors: &folder.missing_tensors,
        left_out: texts(&folder.left_out),
    )))
}
