//! Parses and builds safetensors files in memory: tensors of very many dimensions,
//! checkpoints that become smaller with extension frames (docs/formats/extensions.md),
//! and reproducible random weights.

use serde_json::{Map, json};
use zstn_core::bytes::part;
use zstn_core::catalog::{FileCatalog, FileOpener};
use zstn_core::container::foreign::compressed_tensors::TensorSpec;
use zstn_core::container::foreign::gauss::SourceTensor;
use zstn_core::container::safetensors::{Header, HeaderTensor, PREFIX_BYTES, header_len_bytes};
use zstn_core::pure::Pure;
use zstn_core::{Error, ErrorKind, Result};

use crate::rng::Rng;
use crate::with_header;

/// Returns a NumPy array of BF16 weights as numbers of 32 bits, which becomes smaller when
/// it is packed.
#[must_use]
pub fn npy(seed: u64, count: usize) -> Vec<u8> {
    let text = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({count},), }}");
    let mut file = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    file.extend(format!("{text:<117}\n").into_bytes());
    for weight in Rng(seed).bf16_weights(count).chunks_exact(2) {
        file.extend([0, 0, weight[0], weight[1]]);
    }
    file
}

/// A parsed safetensors file that borrows its bytes.
#[derive(Debug)]
pub struct Checkpoint<'a> {
    /// The parsed header.
    pub header: Header,
    data: &'a [u8],
}

impl<'a> Checkpoint<'a> {
    /// Parses the header of a safetensors file.
    ///
    /// # Panics
    /// If the file is not valid safetensors.
    #[must_use]
    pub fn parse(file: &'a [u8]) -> Self {
        let len = header_len_bytes(file, file.len() as u64).expect("a header");
        let (start, end) = (PREFIX_BYTES, PREFIX_BYTES + len);
        let data = part(file, end..file.len() as u64);
        let header = Header::parse(part(file, start..end), data.len() as u64).expect("a header");
        Self { header, data }
    }

    /// Returns the tensor called `name` and its bytes.
    ///
    /// # Panics
    /// If the file has no such tensor.
    #[must_use]
    pub fn tensor(&self, name: &str) -> (&HeaderTensor, &'a [u8]) {
        let tensor = self
            .header
            .tensors
            .iter()
            .find(|tensor| tensor.name == name);
        let tensor = tensor.expect("a tensor of that name");
        (tensor, part(self.data, tensor.span.clone()))
    }

    /// Returns all tensors in data order, as sources for an encoder.
    #[must_use]
    pub fn sources(&self) -> Vec<SourceTensor<'_>> {
        let tensors = self.header.tensors.iter();
        tensors
            .map(|tensor| SourceTensor {
                name: &tensor.name,
                dtype: tensor.dtype,
                shape: &tensor.shape,
                bytes: part(self.data, tensor.span.clone()),
            })
            .collect()
    }
}

/// Builds a safetensors file that contains these tensors in this order.
#[must_use]
pub fn safetensors<'a>(tensors: impl IntoIterator<Item = (&'a TensorSpec, &'a [u8])>) -> Vec<u8> {
    let mut header = Map::new();
    let mut data = Vec::new();
    for (stored, bytes) in tensors {
        let end = data.len() + bytes.len();
        let entry = json!({
            "dtype": stored.dtype.name(), "shape": stored.shape, "data_offsets": [data.len(), end],
        });
        header.insert(stored.name.clone(), entry);
        data.extend_from_slice(bytes);
    }
    let header = json!(header).to_string();
    with_header(header, data)
}

/// Returns a safetensors file with two tensors. The second, `deep`, has three bytes and
/// `dimensions` dimensions.
#[must_use]
pub fn with_dimensions(dimensions: usize) -> Vec<u8> {
    let ones = ",1".repeat(dimensions - 1);
    let header = format!(
        r#"{{"flat":{{"dtype":"U8","shape":[2],"data_offsets":[0,2]}},"deep":{{"dtype":"U8","shape":[3{ones}],"data_offsets":[2,5]}}}}"#
    );
    with_header(header, b"12345")
}

/// Opens a file in memory.
///
/// # Errors
/// Any error that opening the file returns.
pub fn open(file: Vec<u8>) -> Result<FileCatalog> {
    FileOpener::new(file.len() as u64, file)?.finish(&Pure)
}

/// Checks that the error rejects the number of dimensions of the tensor `deep`.
///
/// # Panics
/// If it is another error.
pub fn assert_dimensions_refused(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    let rule = error.rule().map(|rule| rule.code());
    assert_eq!(rule, Some("tensor.dimensions"), "{error}");
    assert_eq!(error.tensor_name(), Some("deep"), "{error}");
}

/// Rows and columns of each matrix.
const ROWS: usize = 96;
const COLUMNS: usize = 256;

/// Returns a safetensors file of bfloat16 matrices with `COLUMNS` columns each, given
/// as pairs of name and bytes.
fn matrices(tensors: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let (mut entries, mut data) = (Vec::new(), Vec::new());
    for (name, bytes) in tensors {
        let start = data.len();
        data.extend_from_slice(bytes);
        let rows = bytes.len() / 2 / COLUMNS;
        let end = data.len();
        entries.push(format!(
            r#""{name}":{{"dtype":"BF16","shape":[{rows},{COLUMNS}],"data_offsets":[{start},{end}]}}"#
        ));
    }
    let header = format!("{{{}}}", entries.join(","));
    with_header(header, data)
}

fn bf16(value: f32) -> [u8; 2] {
    let [_, _, low, high] = value.to_bits().to_le_bytes();
    [low, high]
}

/// Returns `rows` rows of dequantised weights: integers from -7 to 7, each multiplied
/// by the scale of its row. The scales have few significant bits, so the products are
/// exact.
fn lattice(rng: &mut Rng, rows: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..rows {
        let scale = (16 + rng.next_u64() % 16) as f32 / 4096.0;
        for _ in 0..COLUMNS {
            #[allow(clippy::cast_possible_truncation)]
            let step = (rng.normal(3.0).round() as f32).clamp(-7.0, 7.0);
            out.extend(bf16(step * scale));
        }
    }
    out
}

/// Returns a checkpoint with one tensor of ordinary weights and two of dequantised
/// ones.
#[must_use]
pub fn quantised() -> Vec<u8> {
    let mut rng = Rng(2209);
    matrices(&[
        ("embedding", rng.bf16_weights(COLUMNS * ROWS)),
        ("up", lattice(&mut rng, ROWS)),
        ("down", lattice(&mut rng, 2 * ROWS)),
    ])
}

/// Returns a checkpoint with one dequantised tensor of `rows` rows and 256 columns.
#[must_use]
pub fn one_lattice(rows: usize) -> Vec<u8> {
    matrices(&[("up", lattice(&mut Rng(2212), rows))])
}

/// Returns a checkpoint of ordinary weights, which extension frames do not make
/// smaller.
#[must_use]
pub fn usual() -> Vec<u8> {
    let mut rng = Rng(2210);
    matrices(&[
        ("embedding", rng.bf16_weights(COLUMNS * ROWS)),
        ("up", rng.bf16_weights(COLUMNS * ROWS)),
    ])
}

/// Returns a base and a fine-tune of it. One tensor is unchanged, one has small changes
/// everywhere, and one is new and dequantised.
#[must_use]
pub fn fine_tuned() -> (Vec<u8>, Vec<u8>) {
    let mut rng = Rng(2211);
    let same = rng.bf16_weights(COLUMNS * ROWS);
    let before = rng.bf16_weights(COLUMNS * ROWS);
    let mut after = Vec::new();
    for bits in before.chunks(2) {
        let value = f32::from_bits(u32::from(u16::from_le_bytes([bits[0], bits[1]])) << 16);
        #[allow(clippy::cast_possible_truncation)]
        let value = value + rng.normal(0.000_04) as f32;
        after.extend(bf16(value));
    }
    let base = matrices(&[("same", same.clone()), ("up", before)]);
    let new = lattice(&mut rng, ROWS);
    let tuned = matrices(&[("same", same), ("up", after), ("new", new)]);
    (base, tuned)
}
