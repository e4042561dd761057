//! Conversions of checkpoints between formats: checkpoints to convert, and readers for
//! the results that do not share code with the writers.

mod compressed_tensors;
mod pairs;
mod refusals;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;
use zstn::convert::{Target, TargetKind};
use zstn::{ConvertOptions, ConvertReport, Effort, Engine, Job, Reader, Result, Tensor, convert};
use zstn_core::bytes::part;
use zstn_core::container::foreign::compressed_tensors::WeightFormat;
use zstn_core::container::foreign::gauss::{self, Components, GaussIndex, ParsedIndex};
use zstn_core::container::safetensors::ShardIndex;
use zstn_core::dtype::Dtype;
use zstn_core::pure::Pure;
use zstn_tests::rng::Rng;

/// Dtypes that every output format supports.
pub const COMMON: [Dtype; 8] = [
    Dtype::F32,
    Dtype::F16,
    Dtype::Bf16,
    Dtype::F64,
    Dtype::I8,
    Dtype::I16,
    Dtype::I32,
    Dtype::I64,
];

pub fn engine() -> Engine {
    Engine::new(2).expect("threads")
}

/// Returns a tensor of finite weights in this dtype.
pub fn tensor(name: &str, dtype: Dtype, shape: &[u64]) -> Tensor {
    let mut rng = Rng(name.bytes().map(u64::from).sum());
    let count: u64 = shape.iter().product();
    let bytes = (0..count).flat_map(|_| {
        let value = rng.normal(0.3);
        #[allow(clippy::cast_possible_truncation)]
        match dtype {
            Dtype::F64 => value.to_le_bytes().to_vec(),
            Dtype::F32 => (value as f32).to_le_bytes().to_vec(),
            Dtype::F16 => half::f16::from_f64(value).to_le_bytes().to_vec(),
            Dtype::Bf16 => half::bf16::from_f64(value).to_le_bytes().to_vec(),
            Dtype::Bool => vec![u8::from(value > 0.0)],
            other => rng.bytes(other.len_bytes().unwrap_or(1)),
        }
    });
    let mut bytes: Vec<u8> = bytes.collect();
    // Dtypes narrower than a byte need fewer bytes.
    bytes.truncate(usize::try_from(count * dtype.bits() / 8).expect("small"));
    Tensor {
        name: name.into(),
        dtype,
        shape: shape.into(),
        bytes,
    }
}

/// Returns a matrix, a vector, a scalar and an empty tensor of each dtype.
pub fn model(dtypes: &[Dtype]) -> Vec<Tensor> {
    let shapes: [&[u64]; 4] = [&[24, 16], &[33], &[], &[3, 0, 2]];
    let names = ["matrix.weight", "vector", "scal\u{e4}r \"1\"", "empty"];
    dtypes
        .iter()
        .flat_map(|&dtype| {
            shapes.iter().zip(names).filter_map(move |(shape, name)| {
                let count: u64 = shape.iter().product();
                let is_whole = (count * dtype.bits()).is_multiple_of(8);
                is_whole.then(|| tensor(&format!("{dtype}.{name}"), dtype, shape))
            })
        })
        .collect()
}

/// Returns a safetensors file whose header is neither compact nor aligned.
pub fn file(tensors: &[Tensor], metadata: &[(&str, &str)]) -> Vec<u8> {
    let mut entries = Vec::new();
    let mut data = Vec::new();
    if !metadata.is_empty() {
        let metadata: BTreeMap<_, _> = metadata.iter().copied().collect();
        entries.push(format!("\"__metadata__\": {}", json!(metadata)));
    }
    for tensor in tensors {
        let start = data.len();
        data.extend_from_slice(&tensor.bytes);
        let entry = json!({
            "shape": tensor.shape,
            "dtype": tensor.dtype.name(),
            "data_offsets": [start, data.len()],
        });
        entries.push(format!("{} : {entry}", json!(tensor.name)));
    }
    let header = format!("{{ {}\n}}", entries.join(", "));
    let len = header.len() as u64;
    [&len.to_le_bytes()[..], header.as_bytes(), &data].concat()
}

/// Creates a folder with this safetensors file as `in.safetensors`.
pub fn folder(tensors: &[Tensor], metadata: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(
        folder.path().join("in.safetensors"),
        file(tensors, metadata),
    )
    .expect("written");
    folder
}

/// Returns the names of all files in a folder.
pub fn listing(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = names
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Returns the conversion target for a file name, with options that affect small
/// tensors.
pub fn target(output: &str) -> Target {
    match TargetKind::from_path(Path::new(output)).expect("a known name") {
        TargetKind::Safetensors => Target::Safetensors,
        TargetKind::Zstn => Target::Zstn {
            effort: Effort::Fast,
        },
        TargetKind::ZTensor => Target::ZTensor {
            is_zstd: false,
            checksum: None,
        },
        TargetKind::Gauss => Target::Gauss(gauss_options()),
        TargetKind::CompressedTensors => Target::CompressedTensors {
            format: WeightFormat::SparseBitmask,
        },
        other => panic!("{other:?}"),
    }
}

pub fn gauss_options() -> gauss::GaussOptions {
    gauss::GaussOptions {
        components: Components::Exactly(4),
        raw_threshold: 100,
        ..gauss::GaussOptions::default()
    }
}

/// Converts a file inside `folder`, with shards of 2000 bytes.
pub fn run(folder: &Path, input: &str, output: &str, target: &Target) -> Result<ConvertReport> {
    let options = ConvertOptions::default().shard_bytes(2000);
    let input = folder.join(input);
    // A trailing slash is significant, so the path is joined as text.
    let output = format!("{}/{output}", folder.display());
    let job = Job::new().engine(&engine());
    convert(&job, input.as_path(), output, target, &options)
}

/// Reads all tensors at `path` in order, and the metadata.
pub fn read(path: &Path) -> (Vec<Tensor>, BTreeMap<String, String>) {
    if path.is_dir() {
        assert!(path.join("config.json").is_file());
        return one(path);
    }
    match path.extension().and_then(|e| e.to_str()) {
        Some("json") => sharded(path),
        Some("gauss") => (read_gauss(path), BTreeMap::new()),
        _ => one(path),
    }
}

fn one(path: &Path) -> (Vec<Tensor>, BTreeMap<String, String>) {
    let reader = Reader::open(path).expect("our own file");
    let tensors = reader.names().map(|name| reader.read(name).expect("there"));
    (tensors.collect(), reader.metadata().clone())
}

fn sharded(path: &Path) -> (Vec<Tensor>, BTreeMap<String, String>) {
    let text = std::fs::read(path).expect("an index");
    let index = ShardIndex::parse(&text).expect("an index by the rules");
    let (mut tensors, mut metadata) = (Vec::new(), BTreeMap::new());
    for (number, file) in index.files().iter().enumerate() {
        let (own, of_file) = one(&path.with_file_name(file));
        for tensor in &own {
            assert_eq!(index.file_of(&tensor.name), Some(number), "{}", tensor.name);
        }
        let len: usize = own.iter().map(|tensor| tensor.bytes.len()).sum();
        assert!(len <= 2000 || own.len() == 1, "{file} holds {len} bytes");
        tensors.extend(own);
        metadata.extend(of_file);
    }
    assert_eq!(index.weights().count(), tensors.len());
    let index: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    let len: usize = tensors.iter().map(|tensor| tensor.bytes.len()).sum();
    assert_eq!(index["metadata"]["total_size"], len);
    (tensors, metadata)
}

pub fn gauss_index(file: &[u8]) -> GaussIndex {
    match GaussIndex::parse(file, file.len() as u64).expect("our own file") {
        ParsedIndex::Complete(index) => index,
        ParsedIndex::Needs(bytes) => panic!("a whole file needs {bytes} bytes"),
    }
}

fn read_gauss(path: &Path) -> Vec<Tensor> {
    let file = std::fs::read(path).expect("a file");
    let index = gauss_index(&file);
    let decoded = index.tensors.iter().map(|tensor| {
        let stored = part(&file, tensor.stored.clone());
        let bytes = gauss::decode(&Pure, tensor, stored).expect("our own file");
        Tensor {
            name: tensor.name.clone(),
            dtype: tensor.dtype,
            shape: tensor.shape.clone(),
            bytes: bytes.into_owned(),
        }
    });
    decoded.collect()
}
