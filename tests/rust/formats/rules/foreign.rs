//! Malformed files of the formats of other projects.

use zstn_core::container::foreign::compressed_tensors::{
    Checkpoint, CheckpointEntry, Config, SparseWriter, TensorSpec, WeightFormat,
};
use zstn_core::container::foreign::ztensor::{SourceTensor, TensorLayout, ZTensorWriter};
use zstn_core::container::safetensors::{Header, header_len_bytes};
use zstn_core::dtype::Dtype;
use zstn_core::engine::Engine;
use zstn_core::{Result, Rule};
use zstn_tests::cases::read;
use zstn_tests::foreign::manifest;
use zstn_tests::ztensor2::{self, map, number, text};

use super::{Case, read_all};

/// Returns a version 2 file with one dense tensor of one element. `fields` lists the
/// entries of its part other than the location and the dtype.
fn version_2(name: &str, fields: &[(&str, Vec<u8>)], blob: &[u8]) -> Vec<u8> {
    let part = ztensor2::part(0, "u8", blob.len(), fields);
    one_tensor(name, &[("data", part)], blob)
}

/// Returns a version 2 file with one dense tensor of one element and these parts.
fn one_tensor(name: &str, parts: &[(&str, Vec<u8>)], blob: &[u8]) -> Vec<u8> {
    let tensor = ztensor2::tensor(&[1], "dense", parts);
    ztensor2::file(&[("objects", map(&[(name, tensor)]))], &[blob])
}

/// Returns a version 0.1 file with a one-dimensional tensor whose format is sparse
/// rows.
fn rows_of_a_vector() -> Vec<u8> {
    let (mut writer, magic) = ZTensorWriter::new();
    let entry = SourceTensor {
        layout: TensorLayout::PackedCsr,
        ..SourceTensor::dense("t", Dtype::U8, &[8])
    };
    let mut file = magic.to_vec();
    let blob = [0; 16];
    file.extend_from_slice(writer.add(&entry, &blob).expect("nothing is checked here"));
    file.extend_from_slice(&blob);
    file.extend_from_slice(&writer.finish());
    file
}

pub fn ztensor_files(engine: &impl Engine) -> Vec<Case> {
    let read = |file: Vec<u8>| read_all(engine, &file);
    read(version_2("t", &[], b"x")).expect("in order");
    let seekable = [
        ("encoding", text("zt.zstd-seekable/1")),
        ("decoded_length", number(1)),
    ];
    vec![
        (Rule::ZTensorName, read(version_2("", &[], b"x"))),
        (Rule::ZTensorLayout, read(one_tensor("t", &[], b""))),
        (
            Rule::ZTensorBool,
            read(version_2("t", &[("type", text("bool"))], &[2])),
        ),
        (
            Rule::ZTensorPadding,
            read(version_2("t", &[("type", text("f4_e2m1"))], &[0x10])),
        ),
        (
            Rule::ZTensorSeekTable,
            read(version_2("t", &seekable, &[0; 9])),
        ),
        (Rule::ZTensorSparse, read(rows_of_a_vector())),
        (Rule::ZTensorShard, other_shard()),
    ]
}

/// Compares a shard with the digest of another one.
fn other_shard() -> Result<()> {
    let shard = ztensor2::data_shard(&[b"x"]);
    let entry = map(&[
        ("size", number(shard.len())),
        ("digest", text("xxh3:0000000000000000")),
    ]);
    let root = [("objects", map(&[])), ("shards", map(&[("s", entry)]))];
    let listed = &manifest(&ztensor2::file(&root, &[]))?.shards[0];
    listed.check_digest(|add| {
        add(&shard);
        Ok(())
    })
}

/// Returns a file with one raw tensor `w` of these dimensions and no bytes.
fn raw_gauss(shape: &[u32]) -> Vec<u8> {
    let mut file = b"GAUSS004\0\0\0\0\x01\0\0\0\x01\0w".to_vec();
    file.push(u8::try_from(shape.len()).expect("few dimensions"));
    file.extend(shape.iter().flat_map(|dimension| dimension.to_le_bytes()));
    // The dtype F32, and the length.
    file.extend_from_slice(&[0; 5]);
    file
}

/// Returns a file with one coded F32 tensor of one element, in `shards` shards, the
/// first with `components` components. The zeros that follow suffice for one shard with
/// two components.
fn coded_gauss(shards: u8, components: u8) -> Vec<u8> {
    let mut file = b"GAUSS004\x01\0\0\0\0\0\0\0\x01\0w".to_vec();
    file.extend_from_slice(&[1, 1, 0, 0, 0, 0]);
    file.extend_from_slice(&[shards, 0, 1, 0, 0, 0, components]);
    file.resize(file.len() + 60, 0);
    file
}

pub fn gauss_files(engine: &impl Engine) -> Vec<Case> {
    vec![
        (
            Rule::GaussShape,
            read_all(engine, &raw_gauss(&[u32::MAX; 3])),
        ),
        // The vectors for these two rules are too short for their tensor count, which
        // readers detect first.
        (Rule::GaussShards, read_all(engine, &coded_gauss(0, 2))),
        (Rule::Truncated, read_all(engine, &coded_gauss(1, 255))),
    ]
}

/// A valid scheme.
const SCHEME: &str = r#"{"num_bits": 4, "strategy": "group", "group_size": 2, "actorder": true}"#;

type Tensors = Vec<(TensorSpec, Vec<u8>)>;

fn stored(name: &str, dtype: Dtype, shape: &[u64]) -> TensorSpec {
    TensorSpec {
        name: name.into(),
        dtype,
        shape: shape.to_vec(),
    }
}

/// Decodes the weight called `name`.
fn decode(config: &str, tensors: &Tensors, name: &str) -> Result<()> {
    let config = Config::parse(config.as_bytes())?;
    let checkpoint = Checkpoint::new(&config, tensors.iter().map(|(stored, _)| stored.clone()))?;
    let CheckpointEntry::Weight(weight) = checkpoint.find(name)? else {
        panic!("{name} is no weight in parts");
    };
    let bytes = |stored: &TensorSpec| {
        let tensor = tensors.iter().find(|(other, _)| other == stored);
        tensor.expect("a stored tensor").1.as_slice()
    };
    let parts: Vec<&[u8]> = weight.parts().iter().map(|p| bytes(&p.stored)).collect();
    weight.decode(&parts).map(drop)
}

fn config(format: &str, scheme: &str) -> String {
    format!(
        r#"{{"quantization_config": {{"quant_method": "compressed-tensors",
            "format": "{format}", "config_groups":
            {{"group_0": {{"targets": ["Linear"], "weights": {scheme}}}}}}}}}"#
    )
}

/// Returns a row of four 4-bit codes in two groups; `group` is the group of the last
/// column.
fn packed(group: u8) -> Tensors {
    vec![
        (
            stored("p.weight_shape", Dtype::I32, &[2]),
            vec![1, 0, 0, 0, 4, 0, 0, 0],
        ),
        (stored("p.weight_packed", Dtype::I32, &[1, 1]), vec![0; 4]),
        (stored("p.weight_scale", Dtype::F16, &[1, 2]), vec![0; 4]),
        (
            stored("p.weight_g_idx", Dtype::I32, &[4]),
            [[0, 0, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0], [group, 0, 0, 0]].concat(),
        ),
    ]
}

/// Returns the bytes of the tensor whose name ends with `part`.
fn bytes_of<'t>(tensors: &'t mut Tensors, part: &str) -> &'t mut Vec<u8> {
    let tensor = tensors
        .iter_mut()
        .find(|(stored, _)| stored.name.ends_with(part));
    &mut tensor.expect("a part").1
}

/// Reads a sparse weight of zeros whose first row does not begin at the first value.
fn moved_row() -> Result<()> {
    let mut writer = SparseWriter::new(WeightFormat::SparseBitmask)?;
    let dense = stored("p.weight", Dtype::F16, &[8, 256]);
    let parts = writer.write(&dense, &[0; 4096])?.expect("worth it");
    let mut tensors: Tensors = parts.into_iter().collect();
    bytes_of(&mut tensors, "row_offsets")[0] = 1;
    let config = format!(
        r#"{{"quantization_config": {}}}"#,
        writer.quantization_config()
    );
    decode(&config, &tensors, "p.weight")
}

/// Reads a weight for Marlin kernels whose first group of four contains position 0
/// twice.
fn one_position_twice() -> Result<()> {
    let vector = |suffix: &str| {
        let name = format!("marlin24_w4_channel_in64{suffix}");
        read("compressed-tensors", &name)
    };
    let (config, file) = (vector(".config.json"), vector(".safetensors"));
    let header_len = usize::try_from(header_len_bytes(&file, file.len() as u64)?).expect("short");
    let (header, data) = file[8..].split_at(header_len);
    let header = Header::parse(header, data.len() as u64)?;
    let tensors = header.tensors.iter().map(|tensor| {
        let bytes = zstn_core::bytes::part(data, tensor.span.clone());
        (TensorSpec::from(tensor), bytes.to_vec())
    });
    let mut tensors: Tensors = tensors.collect();
    bytes_of(&mut tensors, "m.proj.meta")[0] = 0;
    let config = String::from_utf8(config).expect("text");
    decode(&config, &tensors, "m.proj.weight")
}

pub fn compressed_tensors_models() -> Vec<Case> {
    let weight = |config: String, tensors: Tensors| decode(&config, &tensors, "p.weight");
    let quantised = config("pack-quantized", SCHEME);
    weight(quantised.clone(), packed(1)).expect("in order");
    let twice = [packed(1), packed(1)].concat();
    vec![
        (Rule::CompressedTensorsConfig, weight("{".into(), packed(1))),
        (
            Rule::CompressedTensorsFormat,
            weight(config("mixed-precision", SCHEME), packed(1)),
        ),
        (
            Rule::CompressedTensorsScheme,
            weight(
                config("pack-quantized", r#"{"type": "complex"}"#),
                packed(1),
            ),
        ),
        (
            Rule::CompressedTensorsName,
            weight(quantised.clone(), twice),
        ),
        (
            Rule::CompressedTensorsGroupIndex,
            weight(quantised, packed(2)),
        ),
        (Rule::CompressedTensorsRowOffsets, moved_row()),
        (Rule::CompressedTensorsPositions, one_position_twice()),
    ]
}
