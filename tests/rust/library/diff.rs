//! Differences between two models: which tensors changed, by how much, and what is read to
//! find that out.

use std::path::PathBuf;

use half::bf16;
use tempfile::TempDir;
use zstn::{DiffOptions, DiffReport, Error, Job, PackOptions, Result, TensorDiff};
use zstn_tests::rng::Rng;
use zstn_tests::{checkpoint, gguf, with_header};

/// A folder of models.
struct Models(TempDir);

impl Models {
    fn new(models: &[(&str, Vec<u8>)]) -> Self {
        let models_in = Self(tempfile::tempdir().unwrap());
        for (name, bytes) in models {
            std::fs::write(models_in.at(name), bytes).unwrap();
        }
        models_in
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn pack(&self, input: &str, output: &str, options: &PackOptions) {
        zstn::pack(&Job::new(), self.at(input), self.at(output), options).unwrap();
    }

    fn diff(&self, first: &str, second: &str, options: &DiffOptions) -> Result<DiffReport> {
        zstn::diff(&Job::new(), self.at(first), self.at(second), options)
    }
}

fn floats(values: &[f32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

/// Returns a base and a fine-tune, with the known answers of [`assert_tuned`].
fn base_and_tuned() -> [Vec<u8>; 2] {
    let mut rng = Rng(5);
    let kept = rng.bf16_weights(40_000);
    let ones = bf16::ONE.to_le_bytes().repeat(50_000);
    let mut changed = ones.clone();
    for element in [0, 7, 49_999] {
        changed[2 * element..2 * element + 2].copy_from_slice(&bf16::from_f32(3.0).to_le_bytes());
    }
    let base = checkpoint(&[
        ("kept", "BF16", &kept),
        ("some", "BF16", &ones),
        ("sick", "F32", &floats(&[1.0, 2.0, f32::INFINITY, 4.0])),
        ("flags", "BOOL", &[0, 1, 1, 0]),
        ("old", "U8", &[1]),
        ("grown", "U8", &[1, 2]),
        ("empty", "F32", &[]),
    ]);
    let tuned = checkpoint(&[
        ("empty", "F32", &[]),
        ("grown", "U8", &[1, 2, 3]),
        ("new", "U8", &[1]),
        ("flags", "BOOL", &[0, 1, 1, 1]),
        ("sick", "F32", &floats(&[1.0, f32::NAN, 3.0, 4.5])),
        ("some", "BF16", &changed),
        ("kept", "BF16", &kept),
    ]);
    [base, tuned]
}

fn named<'a>(report: &'a DiffReport, name: &str) -> &'a TensorDiff {
    let mut changed = report.changed.iter();
    changed.find(|tensor| tensor.name == name).unwrap()
}

fn assert_tuned(report: &DiffReport, has_figures: bool) {
    let names: Vec<&str> = report.changed.iter().map(|tensor| &*tensor.name).collect();
    let expected = match has_figures {
        // Tensors with NaN, then the most changed ones, then those that were not measured.
        true => vec!["sick", "some", "grown", "flags"],
        false => vec!["flags", "grown", "sick", "some"],
    };
    let mut names_in_order = names.clone();
    if !has_figures {
        names_in_order.sort_unstable();
    }
    assert_eq!(names_in_order, expected);
    assert_eq!((report.equal, report.compared()), (2, 6));
    assert_eq!(report.only_in_first, ["old"]);
    assert_eq!(report.only_in_second, ["new"]);
    assert!(report.unreadable.is_empty() && !report.is_equal());
    assert_eq!(report.elements, 40_000 + 50_000 + 4 + 4);
    assert_eq!(named(report, "grown").shapes, [[2], [3]]);
    assert_eq!(named(report, "grown").difference, None);
    if !has_figures {
        return;
    }
    let some = named(report, "some").difference.unwrap();
    assert_eq!((some.elements, some.changed), (50_000, 3));
    let size = some.size.unwrap();
    assert_eq!(size.max_abs, 2.0);
    assert!((size.norm - 12f64.sqrt()).abs() < 1e-9, "{size:?}");
    assert!(
        (size.first_norm - 50_000f64.sqrt()).abs() < 1e-9,
        "{size:?}"
    );
    let sick = named(report, "sick").difference.unwrap();
    assert_eq!(
        (sick.changed, sick.lost_finite, sick.gained_finite),
        (3, 1, 1)
    );
    assert_eq!(sick.size.unwrap().max_abs, 0.5);
    let flags = named(report, "flags").difference.unwrap();
    assert_eq!((flags.changed, flags.size), (1, None));
}

#[test]
fn a_fine_tune_is_described_whatever_the_files_are() {
    let [base, tuned] = base_and_tuned();
    let models = Models::new(&[("base.safetensors", base), ("tuned.safetensors", tuned)]);
    let plain = PackOptions::default();
    models.pack("base.safetensors", "base.zstn", &plain);
    models.pack("tuned.safetensors", "tuned.zstn", &plain);
    let against = plain.clone().base(models.at("base.zstn"));
    models.pack("tuned.safetensors", "tuned.z4dm", &against);
    let bare = plain.integrity(false);
    models.pack("tuned.safetensors", "bare.zstn", &bare);
    for (first, second, unread) in [
        ("base.safetensors", "tuned.safetensors", 1),
        ("base.zstn", "tuned.safetensors", 1),
        ("base.zstn", "tuned.zstn", 2),
        ("base.zstn", "tuned.z4dm", 2),
        ("base.safetensors", "tuned.z4dm", 1),
        ("base.zstn", "bare.zstn", 1),
    ] {
        let report = models.diff(first, second, &DiffOptions::default()).unwrap();
        assert_tuned(&report, true);
        assert_eq!(report.equal_unread, unread, "{first} {second}");
        assert_eq!(report.changed_elements(), None);
        let names = models.diff(first, second, &DiffOptions::default().figures(false));
        assert_tuned(&names.unwrap(), false);
    }
    let equal = models.diff("tuned.safetensors", "tuned.z4dm", &DiffOptions::default());
    // Its base is neither given nor the other model.
    assert!(equal.is_err(), "{equal:?}");
    let with_base = DiffOptions::default().base(models.at("base.safetensors"));
    let equal = models.diff("tuned.safetensors", "tuned.z4dm", &with_base);
    let equal = equal.unwrap();
    assert!(equal.is_equal() && equal.equal == 7, "{equal:?}");
}

#[test]
fn a_delta_is_not_equal_to_a_model_that_is_not_its_base() {
    let mut rng = Rng(6);
    let kept = rng.bf16_weights(40_000);
    let mut other = kept.clone();
    other[0] ^= 1;
    let file = |weights: &[u8]| checkpoint(&[("kept", "BF16", weights)]);
    let models = Models::new(&[
        ("base.safetensors", file(&kept)),
        ("other.safetensors", file(&other)),
        ("same.safetensors", file(&kept)),
    ]);
    let plain = PackOptions::default();
    models.pack("other.safetensors", "other.zstn", &plain);
    let against = plain.base(models.at("base.safetensors"));
    models.pack("same.safetensors", "same.z4dm", &against);
    for figures in [true, false] {
        let options = DiffOptions::default().figures(figures);
        let equal = models.diff("base.safetensors", "same.z4dm", &options);
        assert!(equal.expect("compared").is_equal());
        for other in ["other.safetensors", "other.zstn"] {
            for (first, second) in [(other, "same.z4dm"), ("same.z4dm", other)] {
                let report = models.diff(first, second, &options);
                let is_equal = report.is_ok_and(|report| report.is_equal());
                assert!(!is_equal, "{first} {second}");
            }
        }
    }
}

#[test]
fn files_that_were_packed_as_bytes_are_not_called_equal() {
    let models = Models::new(&[("a.bin", vec![1; 500]), ("b.bin", vec![2; 500])]);
    for name in ["a.bin", "b.bin"] {
        models.pack(name, &format!("{name}.zstn"), &PackOptions::default());
    }
    let error = models.diff("a.bin.zstn", "b.bin.zstn", &DiffOptions::default());
    let said = error.expect_err("no tensors").to_string();
    assert!(said.contains("packed as bytes"), "{said}");
}

#[test]
fn metadata_of_other_formats_are_not_compared() {
    let file = |value| {
        let weights = vec![0; 128];
        gguf::file(
            &[("my.key", gguf::Value::U16(value))],
            &[("w", gguf::F32, &[32], weights)],
        )
    };
    let models = Models::new(&[("a.gguf", file(1)), ("b.gguf", file(2))]);
    models.pack("a.gguf", "a.gguf.zstn", &PackOptions::default());
    for second in ["b.gguf", "a.gguf.zstn"] {
        let report = models.diff("a.gguf", second, &DiffOptions::default());
        let report = report.expect("compared");
        assert!(report.metadata.is_empty() && report.is_equal(), "{second}");
    }
}

#[test]
fn dtypes_and_metadata_are_compared_as_well() {
    let header = |dtype: &str, len: usize, note: &str| {
        format!(
            r#"{{"__metadata__":{{"format":"pt",{note}}},"w":{{"dtype":"{dtype}","shape":[2],"data_offsets":[0,{len}]}}}}"#
        )
    };
    let halves: Vec<u8> = [1.0, 0.1]
        .map(bf16::from_f32)
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .collect();
    let models = Models::new(&[
        (
            "f32.safetensors",
            with_header(header("F32", 8, r#""a":"1""#), floats(&[1.0, 0.1])),
        ),
        (
            "bf16.safetensors",
            with_header(header("BF16", 4, r#""b":"1""#), &halves),
        ),
        (
            "i16.safetensors",
            with_header(header("I16", 4, r#""b":"1""#), &halves),
        ),
    ]);
    let diff = |first, second| models.diff(first, second, &DiffOptions::default()).unwrap();
    let report = diff("f32.safetensors", "bf16.safetensors");
    assert_eq!(report.metadata, ["a", "b"]);
    let [tensor] = &report.changed[..] else {
        panic!("{report:?}")
    };
    assert_eq!(tensor.dtypes.map(|dtype| dtype.name()), ["F32", "BF16"]);
    let difference = tensor.difference.unwrap();
    assert_eq!(difference.changed, 1);
    assert!(
        (tensor.relative().unwrap() - 1e-4).abs() < 2e-4,
        "{tensor:?}"
    );
    // The bytes are equal, but not the values.
    let report = diff("bf16.safetensors", "i16.safetensors");
    assert_eq!(report.changed_elements(), Some(2));
    assert!(report.metadata.is_empty() && !report.is_equal());
}

#[test]
fn a_damaged_tensor_is_an_error_and_never_a_difference() {
    let weights = Rng(8).bf16_weights(30_000);
    let mut other = weights.clone();
    other[0] ^= 1;
    let models = Models::new(&[
        ("a.safetensors", checkpoint(&[("w", "BF16", &weights)])),
        ("b.safetensors", checkpoint(&[("w", "BF16", &other)])),
    ]);
    models.pack("b.safetensors", "b.zstn", &PackOptions::default());
    let mut packed = std::fs::read(models.at("b.zstn")).unwrap();
    packed[20_000] ^= 0x10;
    std::fs::write(models.at("b.zstn"), packed).unwrap();
    let error = models
        .diff("a.safetensors", "b.zstn", &DiffOptions::default())
        .unwrap_err();
    assert!(matches!(error, Error::Format { .. }), "{error}");
}
