//! Reads all tensors of a model.

use zstn_core::catalog::Kind;
use zstn_core::model::Model;
use zstn_core::pure::Pure;

use crate::with_and_without_checksums;
use crate::{LIMIT_BYTES, NATIVE, agree, catalog, model, part, parts, speak};

/// Number of tensors that are read per model.
const TENSORS: usize = 6;

/// Decodes tensors of `files`, and rows of them, with both engines. If
/// `checksums_count`, the rows must equal the same rows of the whole tensor.
///
/// # Panics
/// If the engines disagree, or the rows differ from the whole tensor.
pub fn read(model: &Model, files: &[&[u8]], checksums_count: bool) {
    for (number, tensor) in model.tensors().iter().enumerate().take(TENSORS) {
        if tensor.len_bytes() > LIMIT_BYTES || tensor.base.is_some() {
            continue;
        }
        let parts = parts(tensor, files);
        let whole = model.decode(&*NATIVE, number, &parts, None);
        agree(&whole, &model.decode(&Pure, number, &parts, None));
        let whole = whole.ok().filter(|_| checksums_count);
        read_rows(model, files, number, whole.as_deref());
    }
}

/// Reads some rows, and compares them with the `whole` tensor.
fn read_rows(model: &Model, files: &[&[u8]], number: usize, whole: Option<&[u8]>) {
    let count = model.tensors()[number].shape.first().copied().unwrap_or(0);
    let table = model.block_table(number, &[]);
    let table = table.map(|(of, range)| part(files[of], range));
    for rows in [0..count.min(1), count / 3..count / 2, count / 2..count] {
        let planned = match model.rows(number, rows, table) {
            Ok(planned) if !planned.is_whole() => planned,
            Ok(_) => continue,
            Err(error) => return speak(&error),
        };
        let fetched: Vec<&[u8]> = planned
            .ranges()
            .map(|(of, range)| part(files[of], range))
            .collect();
        match (planned.decode(&Pure, &fetched, None), whole) {
            (Ok(rows), Some(whole)) => assert!(rows == part(whole, planned.span())),
            (Err(error), _) => speak(&error),
            _ => {}
        }
    }
}

/// Reads a file with [`read`] if it has this format. Targets that differ only in the
/// format have separate corpora.
pub fn read_kind(file: &[u8], kind: Kind) {
    with_and_without_checksums(|checksums_count| {
        match catalog(file) {
            Ok(catalog) if catalog.kind() == kind => {}
            Ok(_) => return,
            Err(error) => return speak(&error),
        }
        match model(file, None) {
            Ok(model) => read(&model, &[file], checksums_count),
            Err(error) => speak(&error),
        }
    });
}
