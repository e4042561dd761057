//! Merged checkpoints, packed against all checkpoints that they were merged from
//! (docs/formats/zstn-delta.md 9).

use std::path::{Path, PathBuf};

use half::{bf16, f16};
use zstn::{
    Error, Job, PackOptions, PackReport, Reader, ReaderOptions, UnpackOptions, VerifyOptions,
};
use zstn_core::Rule;
use zstn_tests::rng::Rng;
use zstn_tests::{checkpoint, native};

const ELEMENTS: usize = 60_000;

/// Weights, from which checkpoints in several dtypes are made.
type Weights = Vec<f32>;

fn weights(seed: u64) -> Weights {
    let bytes = Rng(seed).bf16_weights(ELEMENTS);
    let bits = bytes.as_chunks().0.iter();
    bits.map(|bits| bf16::from_le_bytes(*bits).to_f32())
        .collect()
}

/// Returns a fine-tune whose weights differ by a few percent.
fn tuned(model: &Weights, seed: u64) -> Weights {
    let changes = weights(seed);
    let changed = model.iter().zip(&changes);
    changed
        .map(|(weight, change)| weight + change / 20.0)
        .collect()
}

fn bytes_of(weights: &[f32], dtype: &str) -> Vec<u8> {
    let bytes = weights.iter().map(|weight| match dtype {
        "BF16" => bf16::from_f32(*weight).to_le_bytes().to_vec(),
        "F16" => f16::from_f32(*weight).to_le_bytes().to_vec(),
        _ => weight.to_le_bytes().to_vec(),
    });
    bytes.flatten().collect()
}

/// Rounds weights to a dtype, as a checkpoint does.
fn stored(weights: &Weights, dtype: &str) -> Weights {
    let rounded = weights.iter().map(|weight| match dtype {
        "BF16" => bf16::from_f32(*weight).to_f32(),
        "F16" => f16::from_f32(*weight).to_f32(),
        _ => *weight,
    });
    rounded.collect()
}

/// Returns a checkpoint with the weights in three tensors, and with a tensor of integers
/// that is the same in all checkpoints.
fn model(weights: &Weights, dtype: &str) -> Vec<u8> {
    let bytes = bytes_of(weights, dtype);
    let third = bytes.len() / 3;
    let ids: Vec<u8> = (0..4096_u32).flat_map(u32::to_le_bytes).collect();
    checkpoint(&[
        ("down", dtype, &bytes[..third]),
        ("ids", "I32", &ids),
        ("norm", dtype, &bytes[third..third + 240]),
        ("up", dtype, &bytes[third + 240..]),
    ])
}

fn job() -> Job<'static> {
    Job::new().engine(&native())
}

/// A folder with two fine-tunes of one model, `one` and `two`, plain and packed, and with
/// that model.
struct Family {
    folder: tempfile::TempDir,
    dtype: &'static str,
    model: Weights,
    one: Weights,
    two: Weights,
}

impl Family {
    fn new(dtype: &'static str) -> Self {
        let base = stored(&weights(1), dtype);
        let [one, two] = [2, 3].map(|seed| stored(&tuned(&base, seed), dtype));
        Self::of(dtype, [base, one, two])
    }

    /// Writes a model and two that were tuned from it.
    fn of(dtype: &'static str, [base, one, two]: [Weights; 3]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let family = Self {
            folder,
            dtype,
            model: base,
            one,
            two,
        };
        for (name, weights) in [
            ("model", &family.model),
            ("one", &family.one),
            ("two", &family.two),
        ] {
            let plain = family.at(&format!("{name}.safetensors"));
            std::fs::write(&plain, model(weights, dtype)).unwrap();
            let packed = family.at(&format!("{name}.zstn"));
            zstn::pack(&job(), &plain, packed, &PackOptions::default()).unwrap();
        }
        family
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn paths(&self, names: &[&str]) -> Vec<PathBuf> {
        names.iter().map(|name| self.at(name)).collect()
    }

    /// Writes the merge of `one`, `two` and the model as `merged.safetensors`.
    fn merge(&self, combine: impl Fn(f32, f32, f32) -> f64) -> PathBuf {
        let all = self.one.iter().zip(&self.two).zip(&self.model);
        #[allow(clippy::cast_possible_truncation)]
        let merged = all.map(|((one, two), model)| combine(*one, *two, *model) as f32);
        self.write("merged.safetensors", &merged.collect())
    }

    fn write(&self, name: &str, weights: &Weights) -> PathBuf {
        let path = self.at(name);
        std::fs::write(&path, model(weights, self.dtype)).unwrap();
        path
    }

    fn write_tensors(&self, name: &str, tensors: &[(&str, &str, &[u8])]) -> PathBuf {
        let path = self.at(name);
        std::fs::write(&path, checkpoint(tensors)).unwrap();
        path
    }
}

fn with<T>(options: T, bases: &[PathBuf], add: impl Fn(T, PathBuf) -> T) -> T {
    bases.iter().cloned().fold(options, add)
}

fn pack(input: &Path, bases: &[PathBuf], packed: &Path) -> PackReport {
    let options = with(PackOptions::default(), bases, PackOptions::base);
    zstn::pack(&job(), input, packed, &options).unwrap()
}

fn unpack(packed: &Path, bases: &[PathBuf]) -> zstn::Result<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let back = folder.path().join("back.safetensors");
    let options = with(UnpackOptions::default(), bases, UnpackOptions::base);
    zstn::unpack(&job(), packed, &back, &options)?;
    Ok(std::fs::read(back).unwrap())
}

fn open(packed: &Path, bases: &[PathBuf]) -> zstn::Result<Reader> {
    with(ReaderOptions::default(), bases, ReaderOptions::base).open(packed)
}

/// Checks that a delta restores the file, and that its tensors and rows can be read.
fn check(packed: &Path, bases: &[PathBuf], original: &Path) {
    assert!(unpack(packed, bases).unwrap() == std::fs::read(original).unwrap());
    let options = with(VerifyOptions::default(), bases, VerifyOptions::base);
    let verified = zstn::verify(&job(), packed, &options.original(original)).unwrap();
    assert!(verified.compared && verified.identical);
    let reader = open(packed, bases).unwrap();
    let expected = Reader::open(original).unwrap();
    for tensor in expected.tensors() {
        let name = &tensor.name;
        assert_eq!(reader.read(name).unwrap(), expected.read(name).unwrap());
        let rows = |reader: &Reader| reader.read_rows(name, 3..7).unwrap();
        assert_eq!(rows(&reader), rows(&expected));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(async {
        let options = with(Reader::options(), bases, ReaderOptions::base);
        let reader = options.open_async(packed).await.unwrap();
        for tensor in expected.tensors() {
            let name = &tensor.name;
            assert_eq!(
                reader.read(name).await.unwrap(),
                expected.read(name).unwrap()
            );
        }
    });
}

/// Returns the angle between two tensors.
fn angle(one: &[f32], two: &[f32]) -> f64 {
    let product = |one: &[f32], two: &[f32]| -> f64 {
        let products = one.iter().zip(two);
        products
            .map(|(one, two)| f64::from(*one) * f64::from(*two))
            .sum()
    };
    (product(one, two) / (product(one, one) * product(two, two)).sqrt()).acos()
}

#[test]
fn merges_of_every_kind_are_nearly_free() {
    for dtype in ["BF16", "F16", "F32"] {
        let family = Family::new(dtype);
        let omega = angle(&family.one, &family.two);
        let slerp = |t: f64| (t * omega).sin() / omega.sin();
        type Combine<'a> = &'a dyn Fn(f32, f32, f32) -> f64;
        let kinds: [(&str, &[&str], Combine); 4] = [
            ("linear", &["one", "two"], &|one, two, _| {
                f64::from(one) * 0.3 + f64::from(two) * 0.7
            }),
            ("in single precision", &["one", "two"], &|one, two, _| {
                f64::from(one * 0.25 + two * 0.75)
            }),
            ("spherical", &["one", "two"], &|one, two, _| {
                f64::from(one) * slerp(0.4) + f64::from(two) * slerp(0.6)
            }),
            (
                "task arithmetic",
                &["one", "two", "model"],
                &|one, two, model| {
                    let [one, two, model] = [one, two, model].map(f64::from);
                    model + 0.6 * (one - model) + 0.45 * (two - model)
                },
            ),
        ];
        for (kind, sources, combine) in kinds {
            let merged = family.merge(combine);
            let plain: Vec<_> = sources
                .iter()
                .map(|name| format!("{name}.safetensors"))
                .collect();
            let bases = plain.iter().map(|name| family.at(name)).collect::<Vec<_>>();
            let packed = family.at("merged.z4dm");
            let report = pack(&merged, &bases, &packed);
            let alone = pack(&merged, &bases[..1], &family.at("alone.z4dm"));
            // Weights of a spherical merge are known as precisely as a sample shows them.
            let least = if (dtype, kind) == ("F32", "spherical") {
                1.05
            } else {
                5.0
            };
            let [bytes, of_one] = [&report, &alone].map(|report| report.packed_bytes());
            assert!(
                of_one as f64 > bytes as f64 * least,
                "{dtype} {kind}: {bytes} bytes, {of_one} from one source"
            );
            check(&packed, &bases, &merged);
        }
    }
}

#[test]
fn merges_of_sources_that_hardly_differ_are_predicted() {
    let base = weights(1);
    let mean = base
        .iter()
        .map(|weight| f64::from(weight.abs()))
        .sum::<f64>()
        / base.len() as f64;
    // Most of the changes are smaller than the distance of two numbers.
    let tuned = |seed| {
        let mut rng = Rng(seed);
        #[allow(clippy::cast_possible_truncation)]
        let moved = base
            .iter()
            .map(|weight| weight + rng.normal(1e-3 * mean) as f32);
        stored(&moved.collect(), "BF16")
    };
    let family = Family::of("BF16", [stored(&base, "BF16"), tuned(2), tuned(3)]);
    let merged = family.merge(|one, two, _| f64::from(one) * 0.6 + f64::from(two) * 0.4);
    let bases = family.paths(&["one.safetensors", "two.safetensors"]);
    let report = pack(&merged, &bases, &family.at("merged.z4dm"));
    let alone = pack(&merged, &bases[..1], &family.at("alone.z4dm"));
    let [bytes, of_one] = [&report, &alone].map(|report| report.packed_bytes());
    assert!(
        bytes * 5 < of_one,
        "{bytes} bytes, {of_one} from one source"
    );
    check(&family.at("merged.z4dm"), &bases, &merged);
}

#[test]
fn sources_may_be_packed_or_deltas_themselves() {
    let family = Family::new("BF16");
    let merged = family.merge(|one, two, _| f64::from(one) * 0.5 + f64::from(two) * 0.5);
    let plain = family.paths(&["one.safetensors", "two.safetensors"]);
    let packed = family.at("merged.z4dm");
    pack(&merged, &plain, &packed);
    check(&packed, &family.paths(&["one.zstn", "two.zstn"]), &merged);
    for name in ["one", "two"] {
        let plain = family.at(&format!("{name}.safetensors"));
        pack(
            &plain,
            &family.paths(&["model.zstn"]),
            &family.at(&format!("{name}.z4dm")),
        );
    }
    let chains = ["one.z4dm", "model.zstn", "two.z4dm", "model.safetensors"];
    check(&packed, &family.paths(&chains), &merged);
    // The result does not depend on how the sources are stored.
    let again = family.at("again.z4dm");
    pack(&merged, &family.paths(&chains), &again);
    assert!(std::fs::read(&again).unwrap() == std::fs::read(&packed).unwrap());

    // A merge is a base of its own fine-tune.
    let merged_weights: Weights = family
        .one
        .iter()
        .zip(&family.two)
        .map(|(a, b)| (a + b) / 2.0)
        .collect();
    let child = family.write("child.safetensors", &tuned(&merged_weights, 9));
    let chain = family.paths(&["merged.z4dm", "one.zstn", "two.safetensors"]);
    pack(&child, &chain, &family.at("child.z4dm"));
    check(&family.at("child.z4dm"), &chain, &child);
}

#[test]
fn sources_may_lack_tensors() {
    let family = Family::new("BF16");
    let ids: Vec<u8> = (0..999_u32).flat_map(u32::to_le_bytes).collect();
    let [one, two] = [&family.one, &family.two].map(|weights| bytes_of(weights, "BF16"));
    let half = one.len() / 2;
    let bases = [
        family.write_tensors(
            "a.safetensors",
            &[("x", "BF16", &one[..half]), ("ids", "U8", &ids)],
        ),
        family.write_tensors(
            "b.safetensors",
            &[
                ("x", "BF16", &two[..half]),
                ("y", "BF16", &two[half..]),
                ("z", "I64", &two[..800]),
            ],
        ),
    ];
    let merged = family.write_tensors(
        "c.safetensors",
        &[
            ("ids", "U8", &ids),
            ("new", "BF16", &one[half..]),
            ("x", "BF16", &one[..half]),
            ("y", "BF16", &two[half..]),
            ("z", "F64", &two[..800]),
        ],
    );
    let packed = family.at("c.z4dm");
    pack(&merged, &bases, &packed);
    check(&packed, &bases, &merged);
}

#[test]
fn sources_may_contribute_tensors_of_their_own() {
    let family = Family::new("BF16");
    let [tower, words] = [&family.one, &family.two].map(|weights| bytes_of(weights, "BF16"));
    let bases = [
        family.write_tensors(
            "clip.safetensors",
            &[("vision_model.patch.weight", "BF16", &tower)],
        ),
        family.write_tensors(
            "text.safetensors",
            &[("model.embed.weight", "BF16", &words)],
        ),
    ];
    let tuned = bytes_of(&tuned(&family.two, 5), "BF16");
    let both = family.write_tensors(
        "both.safetensors",
        &[
            ("vision_tower.vision_model.patch.weight", "BF16", &tower),
            ("language_model.model.embed.weight", "BF16", &tuned),
        ],
    );
    let packed = family.at("both.z4dm");
    let report = pack(&both, &bases, &packed);
    let alone = zstn::pack(
        &job(),
        &both,
        family.at("both.zstn"),
        &PackOptions::default(),
    );
    let alone = alone.unwrap().packed_bytes();
    assert!(
        report.packed_bytes() * 2 < alone,
        "{} of {alone}",
        report.packed_bytes()
    );
    check(&packed, &bases, &both);
}

#[test]
fn checkpoints_in_several_files_are_merged() {
    let family = Family::new("BF16");
    let merged = family.merge(|one, two, _| f64::from(one) * 0.8 + f64::from(two) * 0.2);
    let divide = |name: &str| {
        let folder = family.at(&format!("{name}-shards"));
        std::fs::create_dir(&folder).unwrap();
        let reader = Reader::open(family.at(&format!("{name}.safetensors"))).unwrap();
        let tensor = |name: &str| reader.read(name).unwrap().bytes;
        let files = [
            ("model-00001-of-00002.safetensors", ["down", "up"]),
            ("model-00002-of-00002.safetensors", ["ids", "norm"]),
        ];
        let mut weights = Vec::new();
        for (file, names) in files {
            let tensors = names.map(|name| (name, tensor(name)));
            let dtype = |name: &str| if name == "ids" { "I32" } else { "BF16" };
            let listed = tensors
                .iter()
                .map(|(name, bytes)| (*name, dtype(name), &**bytes));
            std::fs::write(folder.join(file), checkpoint(&listed.collect::<Vec<_>>())).unwrap();
            weights.extend(names.map(|name| format!("\"{name}\": \"{file}\"")));
        }
        let index = format!("{{\"weight_map\": {{{}}}}}", weights.join(", "));
        std::fs::write(folder.join("model.safetensors.index.json"), index).unwrap();
        folder
    };
    let shards = ["one", "two", "merged"].map(divide);
    for bases in [
        family.paths(&["one.zstn", "two.safetensors"]),
        shards[..2].to_vec(),
    ] {
        let packed = tempfile::tempdir().unwrap();
        let report = pack(&shards[2], &bases, packed.path());
        assert!(report.packed_bytes() * 10 < report.original_bytes());
        let reader = open(packed.path(), &bases).unwrap();
        let expected = Reader::open(&merged).unwrap();
        for tensor in expected.tensors() {
            let name = &tensor.name;
            assert_eq!(reader.read(name).unwrap(), expected.read(name).unwrap());
        }
        let options = with(ReaderOptions::default(), &bases, ReaderOptions::base).only("up");
        let up = options.open(packed.path()).unwrap().read("up").unwrap();
        assert_eq!(up, expected.read("up").unwrap());
        let back = tempfile::tempdir().unwrap();
        let options = with(UnpackOptions::default(), &bases, UnpackOptions::base);
        zstn::unpack(&job(), packed.path(), back.path(), &options).unwrap();
        for name in [
            "model-00001-of-00002.safetensors",
            "model-00002-of-00002.safetensors",
        ] {
            let [restored, original] = [back.path(), &shards[2]].map(|folder| folder.join(name));
            assert!(std::fs::read(restored).unwrap() == std::fs::read(original).unwrap());
        }
    }
}

#[test]
fn other_sources_are_refused() {
    let family = Family::new("BF16");
    let merged = family.merge(|one, two, _| f64::from(one) * 0.3 + f64::from(two) * 0.7);
    let names = ["one.safetensors", "two.safetensors", "model.safetensors"];
    let [one, two, model] = names.map(|name| family.at(name));
    let packed = family.at("merged.z4dm");
    pack(&merged, &[one.clone(), two.clone()], &packed);
    let cases = [
        (vec![two.clone(), one.clone()], "made against"),
        (vec![one.clone(), model.clone()], "made against"),
        (vec![one.clone()], "against 2 bases"),
        (vec![one.clone(), two.clone(), model], "leave out"),
    ];
    for (bases, expected) in cases {
        let read = open(&packed, &bases).and_then(|reader| reader.read("up"));
        for refused in [unpack(&packed, &bases).map(drop), read.map(drop)] {
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains(expected), "{refused}");
        }
    }
    let alone = family.at("alone.z4dm");
    pack(&merged, std::slice::from_ref(&one), &alone);
    for refused in [
        unpack(&alone, &[one.clone(), two.clone()]).map(drop),
        open(&alone, &[one, two]).map(drop),
    ] {
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("leave out"), "{refused}");
    }
}

#[test]
fn damaged_mixes_are_refused() {
    let family = Family::new("BF16");
    let merged = family.merge(|one, two, _| f64::from(one) * 0.3 + f64::from(two) * 0.7);
    let bases = family.paths(&["one.safetensors", "two.safetensors"]);
    let packed = family.at("merged.z4dm");
    pack(&merged, &bases, &packed);
    let bytes = std::fs::read(&packed).unwrap();
    let tag = bytes
        .windows(4)
        .rposition(|window| window == b"MIXS")
        .unwrap();
    let original = std::fs::read(&merged).unwrap();
    let damaged = family.at("damaged.z4dm");
    for place in tag..bytes.len() {
        let mut changed = bytes.clone();
        changed[place] ^= 1 << (place % 8);
        std::fs::write(&damaged, &changed).unwrap();
        match unpack(&damaged, &bases) {
            Err(Error::Format { source, .. }) => {
                // Without its tag, the field is unknown, and the base is not computed.
                let is_value = (tag + 12..bytes.len() - 16).contains(&place);
                let is_seal = source.rule() == Some(Rule::DeltaSeal);
                assert!(is_seal || !is_value, "{place}: {source}");
            }
            Err(Error::Usage(_)) => assert!(place < tag + 4, "{place}"),
            Err(error) => panic!("{place}: {error}"),
            Ok(restored) => assert!(restored == original, "{place}"),
        }
    }
}
