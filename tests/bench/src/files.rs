//! Stages for whole files in memory, and for single frames: the encoder's choice,
//! decoding, and statistics.

use std::hint::black_box;

use zstn_core::TensorRef;
use zstn_core::bytes::part;
use zstn_core::catalog::FileOpener;
use zstn_core::container::zstn::{pack, unpack};
use zstn_core::engine::Engine;
use zstn_core::frame::Frame;
use zstn_core::frame::select::{self, Effort};
use zstn_core::model::{Model, ModelBuilder};
use zstn_core::pure::Pure;
use zstn_core::statistics::Statistics;
use zstn_tests::checkpoint;

use crate::{BF16, F16, F32, Float, ROW};
use crate::{OneThread, Stage, Work};

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

/// Length in bytes of the longest bfloat16 tensor whose planes are short enough for
/// rANS.
const SMALL_BYTES: usize = 1 << 20;

/// A type of tensor.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    float: Float,
    tensor: fn(usize) -> Vec<u8>,
}

const KINDS: [Kind; 6] = [
    Kind {
        name: "BF16",
        float: BF16,
        tensor: |len_bytes| BF16.tensor(len_bytes),
    },
    Kind {
        name: "F16",
        float: F16,
        tensor: |len_bytes| F16.tensor(len_bytes),
    },
    Kind {
        name: "F32",
        float: F32,
        tensor: |len_bytes| F32.tensor(len_bytes),
    },
    // A tensor like most matrices of small models.
    Kind {
        name: "small BF16",
        float: BF16,
        tensor: |len_bytes| BF16.tensor_of_one_scale(len_bytes.min(SMALL_BYTES)),
    },
    Kind {
        name: "BF16 of 15 values",
        float: BF16,
        tensor: |len_bytes| BF16.tensor_of_few_values(len_bytes),
    },
    Kind {
        name: "BF16, half zeros",
        float: BF16,
        tensor: |len_bytes| BF16.tensor_half_zero(len_bytes),
    },
];

/// Returns the stages for tensors of all float formats: packed with the default effort
/// and decoded by both engines, and packed with the lowest effort.
#[must_use]
pub fn frames() -> Vec<Stage> {
    let mut stages = Vec::new();
    for kind in KINDS {
        stages.push(encoding(kind, Effort::Balanced, "encode"));
        stages.push(decoding(kind, "decode, Pure", || Pure));
        stages.push(decoding(kind, "decode, Native", OneThread::new));
    }
    stages.push(encoding(KINDS[0], Effort::Fast, "encode, fast"));
    stages
}

fn encode(engine: &OneThread, float: Float, tensor: &[u8], effort: Effort) -> Vec<u8> {
    select::encode(engine, TensorRef::flat(tensor, Some(float.dtype)), effort)
}

fn encoding(kind: Kind, effort: Effort, what: &str) -> Stage {
    let name = format!("frame, {}: {what}", kind.name);
    Stage::new(name, move |tensor_bytes| {
        let engine = OneThread::new();
        let tensor = (kind.tensor)(tensor_bytes);
        Work::new(tensor.len(), move || {
            black_box(encode(&engine, kind.float, black_box(&tensor), effort));
        })
    })
}

fn decoding<E: Engine + 'static>(
    kind: Kind,
    what: &str,
    engine: impl Fn() -> E + Send + Sync + 'static,
) -> Stage {
    let name = format!("frame, {}: {what}", kind.name);
    Stage::new(name, move |tensor_bytes| {
        let mut tensor = (kind.tensor)(tensor_bytes);
        let frame = encode(&OneThread::new(), kind.float, &tensor, Effort::Balanced);
        let engine = engine();
        Work::new(tensor.len(), move || {
            let parsed = Frame::parse(black_box(&frame)).expect("our frame");
            parsed.decode(&engine, &mut tensor).expect("our frame");
            black_box(&tensor);
        })
    })
}

/// Returns the stages that compute the statistics of a matrix in every float format.
#[must_use]
pub fn statistics() -> Vec<Stage> {
    let stage = |float: Float| {
        Stage::new(format!("statistics, {}", float.name), move |tensor_bytes| {
            let tensor = float.tensor(tensor_bytes);
            let bytes = float.dtype.len_bytes().expect("whole bytes");
            let shape = [(tensor.len() / bytes / ROW) as u64, ROW as u64];
            Work::new(tensor.len(), move || {
                let tensor = TensorRef::new(black_box(&tensor), float.dtype, &shape);
                black_box(Statistics::of(&OneThread::new(), tensor));
            })
        })
    };
    [BF16, F16, F32].map(stage).into()
}
