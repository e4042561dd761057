//! Stages for whole files in memory, including everything besides their frames.

use std::hint::black_box;

use zstn_core::bytes::part;
use zstn_core::catalog::FileOpener;
use zstn_core::container::zstn::{pack, unpack};
use zstn_core::frame::select::Effort;
use zstn_core::model::{Model, ModelBuilder};
use zstn_core::pure::Pure;

use crate::tensors::{BF16, F32, ROW};
use crate::{OneThread, Stage, Work};
use zstn_tests::checkpoint;

/// Number of small tensors, such as norms and biases, in addition to the large ones.
const SMALL_TENSORS: usize = 24;
/// Number of rows per read.
const ROWS: u64 = 8;

/// Returns the stages for packing, opening, unpacking, and reading rows.
#[must_use]
pub fn files() -> Vec<Stage> {
    vec![
        Stage::new("file: pack", |tensor_bytes| {
            let engine = OneThread::new();
            let file = model(tensor_bytes);
            Work::new(file.len(), move || {
                black_box(packed(&engine, black_box(&file)));
            })
        }),
        Stage::new("file: unpack", |tensor_bytes| {
            let engine = OneThread::new();
            let file = model(tensor_bytes);
            let packed = packed(&engine, &file);
            Work::new(file.len(), move || {
                black_box(unpack(&engine, black_box(&packed)).expect("our file"));
            })
        }),
        Stage::new("file: open", |tensor_bytes| {
            let packed = packed(&OneThread::new(), &model(tensor_bytes));
            // The number of bytes read depends only on the list of tensors.
            let read = opened(&packed).1;
            Work::new(read, move || {
                black_box(opened(black_box(&packed)));
            })
        }),
        Stage::new("file: rows, Pure", rows),
    ]
}

/// Returns a checkpoint of two tensors of `tensor_bytes` each, and small ones.
fn model(tensor_bytes: usize) -> Vec<u8> {
    let tensors = [BF16, F32].map(|float| (float.name, float.tensor(tensor_bytes)));
    let small = BF16.tensor(2 * ROW);
    let names: Vec<String> = (0..SMALL_TENSORS)
        .map(|number| format!("layers.{number}.norm.weight"))
        .collect();
    let mut list: Vec<(&str, &str, &[u8])> = tensors
        .iter()
        .map(|(name, tensor)| (*name, *name, tensor.as_slice()))
        .collect();
    list.extend(names.iter().enumerate().map(|(number, name)| {
        // All tensors differ.
        let norm = &small[2 * number..2 * (number + ROW / 2)];
        (name.as_str(), "BF16", norm)
    }));
    checkpoint(&list)
}

fn packed(engine: &OneThread, file: &[u8]) -> Vec<u8> {
    pack(engine, file, Effort::Balanced).expect("a checkpoint")
}

/// Opens the model in `file`. Returns it with the number of bytes read for its list of
/// tensors.
fn opened(file: &[u8]) -> (Model, usize) {
    let len = file.len() as u64;
    let head = part(file, 0..FileOpener::head_len_bytes(len)).to_vec();
    let mut read = head.len();
    let mut opening = FileOpener::new(len, head).expect("our file");
    loop {
        let needs = opening.needs().expect("our file");
        if needs.is_empty() {
            break;
        }
        for range in needs {
            let bytes = part(file, range.clone());
            read += bytes.len();
            opening.supply(range.start, bytes).expect("asked for");
        }
    }
    let catalog = opening.finish(&Pure).expect("our file");
    let assembly = ModelBuilder::new(vec![catalog], None, None).expect("one file");
    (assembly.finish(&Pure).expect("a model"), read)
}

/// Plans and decodes some rows from the middle of a large tensor.
fn rows(tensor_bytes: usize) -> Work {
    let tensor = BF16.tensor(tensor_bytes);
    let file = in_rows(&tensor);
    let packed = packed(&OneThread::new(), &file);
    let model = opened(&packed).0;
    let middle = (tensor.len() / (2 * ROW) / 2) as u64;
    let table = model
        .block_table(0, &[])
        .map(|(_, range)| part(&packed, range).to_vec());
    let len_bytes = usize::try_from(ROWS).expect("few") * 2 * ROW;
    Work::new(len_bytes, move || {
        let rows = model
            .rows(0, middle..middle + ROWS, table.as_deref())
            .expect("rows of it");
        let fetched: Vec<&[u8]> = rows
            .ranges()
            .map(|(_, range)| part(&packed, range))
            .collect();
        black_box(rows.decode(&Pure, &fetched, None).expect("our file"));
    })
}

/// Returns a checkpoint with one matrix.
fn in_rows(tensor: &[u8]) -> Vec<u8> {
    let shape = [tensor.len() / (2 * ROW), ROW];
    let header = format!(
        r#"{{"w":{{"dtype":"BF16","shape":{shape:?},"data_offsets":[0,{}]}}}}"#,
        tensor.len()
    );
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(tensor);
    file
}
