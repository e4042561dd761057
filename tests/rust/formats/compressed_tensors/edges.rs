//! Cases in the description of the format that no file of the package covers.

use half::{bf16, f16};
use zstn_core::Rule;
use zstn_core::dtype::Dtype;
use zstn_tests::foreign::GOOD;
use zstn_tests::foreign::Model;

fn halves(bytes: &[u8]) -> Vec<u16> {
    bytes
        .chunks_exact(2)
        .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
        .collect()
}

fn f32s(values: &[f32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

#[test]
fn power_of_two_scales_at_the_ends_of_their_range() {
    // Each scale has 32 fp4 codes: 0, 0.5, -6, then zeros.
    let row: Vec<u8> = [0x10, 0x0F].into_iter().chain([0; 14]).collect();
    let model = Model::module(
        r#"{"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32}"#,
        "mxfp4-pack-quantized",
        &[
            ("weight_packed", Dtype::U8, &[3, 16], row.repeat(3)),
            ("weight_scale", Dtype::U8, &[3, 1], vec![0, 254, 255]),
        ],
    );
    let dense = model.read("p.weight").expect("a weight");
    assert_eq!((dense.dtype, &dense.shape[..]), (Dtype::Bf16, &[3, 32][..]));
    let values = halves(&dense.bytes);
    let first_three = |row: usize| &values[row * 32..][..3];
    // 2^-128, which is subnormal, and -6 * 2^-127.
    assert_eq!(first_three(0), [0, 0x0020, 0x8140]);
    // 2^126, and -6 * 2^127, which exceeds the largest finite number.
    assert_eq!(first_three(1), [0, 0x7E80, 0xFF80]);
    // Zero times infinity is NaN.
    assert_eq!(first_three(2), [0x7FC0, 0x7F80, 0xFF80]);
}

#[test]
fn nvfp4_divides_and_multiplies_in_f32() {
    let global = 1747.6266_f32;
    let scale = 0x55; // 1.625 * 2^3
    let codes: Vec<u8> = (0..8).map(|k| (2 * k) | (2 * k + 1) << 4).collect();
    let model = Model::module(
        r#"{"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}"#,
        "nvfp4-pack-quantized",
        &[
            ("weight_packed", Dtype::U8, &[1, 8], codes),
            ("weight_scale", Dtype::F8E4M3, &[1, 1], vec![scale]),
            ("weight_global_scale", Dtype::F32, &[1], f32s(&[global])),
        ],
    );
    let magnitudes = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    let signed = magnitudes
        .iter()
        .copied()
        .chain(magnitudes.iter().map(|m| -m));
    let expected: Vec<u16> = signed
        .map(|value| bf16::from_f32(value * (13.0_f32 / global)).to_bits())
        .collect();
    assert_eq!(
        halves(&model.read("p.weight").expect("a weight").bytes),
        expected
    );
    assert_eq!(expected[8], 0x8000, "the sign of zero is kept");
}

/// Returns a module with a row of four 4-bit codes, 1 to 4, and a scale of 2.
fn packed(scheme: &str, more: &[(&str, Dtype, &[u64], Vec<u8>)]) -> Model {
    let mut parts: Vec<(&str, Dtype, &[u64], Vec<u8>)> = vec![
        (
            "weight_shape",
            Dtype::I32,
            &[2],
            [1, 0, 0, 0, 4, 0, 0, 0].to_vec(),
        ),
        ("weight_packed", Dtype::I32, &[1, 1], vec![0xA9, 0xCB, 0, 0]),
    ];
    parts.extend(more.iter().cloned());
    Model::module(scheme, "pack_quantized", &parts)
}

fn read_f16(model: &Model) -> Vec<f32> {
    let dense = model.read("p.weight").expect("a weight");
    assert_eq!(dense.dtype, Dtype::F16);
    let values = halves(&dense.bytes).into_iter();
    values.map(|bits| f16::from_bits(bits).to_f32()).collect()
}

#[test]
fn columns_belong_to_the_groups_their_index_names() {
    let scheme = r#"{"num_bits": 4, "strategy": "group", "group_size": 2, "actorder": true}"#;
    let scale = [f16::from_f32(2.0), f16::from_f32(-8.0)];
    let scale: Vec<u8> = scale.iter().flat_map(|s| s.to_le_bytes()).collect();
    let with = |groups: [i32; 4]| {
        let groups = groups.iter().flat_map(|g| g.to_le_bytes()).collect();
        packed(
            scheme,
            &[
                ("weight_scale", Dtype::F16, &[1, 2], scale.clone()),
                ("weight_g_idx", Dtype::I32, &[4], groups),
            ],
        )
    };
    assert_eq!(read_f16(&with([1, 0, 0, 1])), [-8.0, 4.0, 6.0, -32.0]);
    assert_eq!(read_f16(&with([1, 1, 1, 0])), [-8.0, -16.0, -24.0, 8.0]);
    // An unfilled group index means that groups are consecutive.
    assert_eq!(read_f16(&with([0, 1, -1, 0])), [2.0, 4.0, -24.0, -32.0]);
    for wrong in [2, -2, i32::MAX] {
        let error = with([0, wrong, 1, 1])
            .read("p.weight")
            .expect_err("no such group");
        assert_eq!(error.rule(), Some(Rule::CompressedTensorsGroupIndex));
    }
}

#[test]
fn zero_points_of_all_releases() {
    let scheme = r#"{"num_bits": 4, "strategy": "channel", "symmetric": false}"#;
    let scale = ("weight_scale", Dtype::F16, &[1, 1][..], vec![0, 0x40]);
    let of_release = |version: &str, zeros: Option<(Dtype, Vec<u8>)>| {
        let mut parts = vec![scale.clone()];
        if let Some((dtype, bytes)) = zeros {
            parts.push(("weight_zero_point", dtype, &[1, 1], bytes));
        }
        let mut model = packed(scheme, &parts);
        let config = String::from_utf8(model.config).expect("text");
        model.config = config.replace("0.20.0", version).into_bytes();
        model
    };
    // The value 3, packed and plain.
    let word = vec![0x0B, 0, 0, 0];
    assert_eq!(
        read_f16(&of_release("0.20.0", Some((Dtype::I32, word)))),
        [-4.0, -2.0, 0.0, 2.0]
    );
    assert_eq!(
        read_f16(&of_release("0.8.1", Some((Dtype::I8, vec![3])))),
        [-4.0, -2.0, 0.0, 2.0]
    );
    assert_eq!(read_f16(&of_release("0.5.0", None)), [2.0, 4.0, 6.0, 8.0]);
    for version in ["0.9.0", "1.0", "unknown"] {
        let error = of_release(version, None)
            .read("p.weight")
            .expect_err(version);
        assert_eq!(error.rule(), Some(Rule::CompressedTensorsParts));
    }
}

#[test]
fn zero_points_of_floats_round_before_the_product() {
    // 448 - 2^-9 is not representable in bfloat16, so the difference rounds to 448.
    let model = Model::module(
        r#"{"type": "float", "strategy": "tensor", "symmetric": false}"#,
        "naive-quantized",
        &[
            ("weight", Dtype::F8E4M3, &[1, 2], vec![0x7E, 0x7F]),
            (
                "weight_scale",
                Dtype::Bf16,
                &[],
                bf16::from_f32(3.0).to_le_bytes().to_vec(),
            ),
            ("weight_zero_point", Dtype::F8E4M3, &[], vec![0x01]),
        ],
    );
    let values = halves(&model.read("p.weight").expect("a weight").bytes);
    assert_eq!(values, [bf16::from_f32(1344.0).to_bits(), 0x7FC0]);
}

#[test]
fn models_that_are_not_compressed_yet_are_left_alone() {
    let mut model = Model::module(
        r#"{"strategy": "tensor"}"#,
        "int-quantized",
        &[
            ("weight", Dtype::F32, &[1, 2], f32s(&[1.0, 2.0])),
            ("weight_scale", Dtype::F32, &[1], f32s(&[2.0])),
        ],
    );
    let error = model.read("p.weight").expect_err("no codes");
    assert_eq!(error.rule(), Some(Rule::CompressedTensorsDtype));
    let config = String::from_utf8(model.config).expect("text");
    model.config = config.replace("\"compressed\"", "\"frozen\"").into_bytes();
    assert_eq!(
        model.read("p.weight").expect("a tensor").bytes,
        f32s(&[1.0, 2.0])
    );
}

#[test]
fn a_tensor_stored_twice_is_refused() {
    let mut model = Model::vector(GOOD, "sb013_f32");
    let mut twice = model.tensors[0].clone();
    model.tensors.push(twice.clone());
    let error = model.checkpoint().expect_err("a name twice");
    assert_eq!(error.rule(), Some(Rule::CompressedTensorsName));
    model.tensors.pop();
    twice.0.name = "layers.0.proj.weight".into();
    model.tensors.push(twice);
    let error = model.read("layers.0.proj.weight").expect_err("in two ways");
    assert_eq!(error.rule(), Some(Rule::CompressedTensorsName));
}

#[test]
fn masks_and_offsets_are_checked() {
    let change = |model: &str, part: &str, bytes: &[u8]| {
        let mut model = Model::vector(GOOD, model);
        let tensor = model
            .tensors
            .iter_mut()
            .find(|(stored, _)| stored.name == part);
        tensor.expect("a part").1[..bytes.len()].copy_from_slice(bytes);
        model
    };
    let rule = |model: Model, name: &str| model.read(name).expect_err("damage").rule();
    // The row has seven columns, so the last bit is unused.
    let past = change("sb013_f32", "layers.1.proj.bitmask", &[0xFF]);
    assert_eq!(
        rule(past, "layers.1.proj.weight"),
        Some(Rule::CompressedTensorsMask)
    );
    let offset = change("sb013_f32", "layers.1.proj.row_offsets", &[1]);
    assert_eq!(
        rule(offset, "layers.1.proj.weight"),
        Some(Rule::CompressedTensorsRowOffsets)
    );
    let three = change("s24_f16", "m.0.bitmask", &[0x37]);
    assert_eq!(rule(three, "m.0.weight"), Some(Rule::CompressedTensorsMask));
    let meta = change("marlin24_w4_channel_in64", "m.proj.meta", &[0]);
    assert_eq!(
        rule(meta, "m.proj.weight"),
        Some(Rule::CompressedTensorsPositions)
    );
}
