//! Conversions from every format to every other one, and the bytes and messages of
//! conversions to Gauss.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use zstn::convert::{ConvertOptions, Detail, GaussPlan, GaussWatch, Target, TargetKind, convert};
use zstn::{Effort, Job, Tensor};
use zstn_core::Error;
use zstn_core::container::foreign::gauss::{
    GaussOptions, OtherDtypes, RawReason, TensorReport, encode,
};
use zstn_core::container::foreign::ztensor::{DigestKind, can_write};
use zstn_core::dtype::Dtype;
use zstn_tests::checkpoints::Checkpoint;

use super::{
    COMMON, engine, file, folder, gauss_options, listing, model, read, run, target, tensor,
};

/// Output names of all formats; names of an index produce shards.
const KINDS: [&str; 7] = [
    "a.safetensors",
    "a.safetensors.index.json",
    "a.zstn",
    "a.zstn.index.json",
    "a.zt",
    "a.gauss",
    "folder/",
];

const METADATA: [(&str, &str); 2] = [("format", "pt"), ("note", "\u{1F980} \"quoted\"")];

fn by_name(tensors: Vec<Tensor>) -> BTreeMap<String, Tensor> {
    let named = tensors
        .into_iter()
        .map(|tensor| (tensor.name.clone(), tensor));
    named.collect()
}

/// Returns the largest accepted error of an element, given its value.
fn promise(dtype: Dtype, value: f64) -> f64 {
    match dtype {
        Dtype::Bf16 => 0.5 / 128.0 + value.abs() / 128.0,
        Dtype::F16 => 0.0005 + value.abs() / 1024.0,
        _ => 0.0005 + value.abs() * 1e-7,
    }
}

fn values(tensor: &Tensor) -> Vec<f64> {
    let bytes = &tensor.bytes;
    match tensor.dtype {
        Dtype::F64 => each(bytes, f64::from_le_bytes),
        Dtype::F32 => each(bytes, |b| f32::from_le_bytes(b).into()),
        Dtype::F16 => each(bytes, |b| half::f16::from_le_bytes(b).into()),
        Dtype::Bf16 => each(bytes, |b| half::bf16::from_le_bytes(b).into()),
        other => panic!("{other} is not coded"),
    }
}

fn each<const N: usize>(bytes: &[u8], value: impl Fn([u8; N]) -> f64) -> Vec<f64> {
    bytes.as_chunks().0.iter().map(|&b| value(b)).collect()
}

#[test]
fn every_kind_to_every_kind() {
    let original = model(&COMMON);
    for source in KINDS {
        for kind in KINDS {
            let folder = folder(&original, &METADATA);
            let path = folder.path();
            let first = format!("first-{source}");
            run(path, "in.safetensors", &first, &target(source)).expect("converted");
            let (truth, kept) = read(&path.join(&first));
            let report = run(path, &first, kind, &target(kind)).expect("converted");
            assert_eq!(report.to, TargetKind::from_path(kind.as_ref()).unwrap());
            let is_decoded = source == "a.gauss";
            assert_eq!(
                (report.tensors, report.is_decoded),
                (truth.len(), is_decoded)
            );
            let hidden = listing(path).into_iter().any(|name| name.starts_with('.'));
            assert!(!hidden, "{kind}: something is left behind");

            let (found, metadata) = read(&path.join(kind));
            let expected = METADATA.map(|(k, v)| (k.to_string(), v.to_string()));
            let expected = BTreeMap::from(expected);
            let loses = |kind: &str| matches!(kind, "a.gauss" | "a.zt");
            assert_eq!(kept == expected, !loses(source));
            assert_eq!(
                metadata == kept,
                !loses(kind) || loses(source),
                "{source} → {kind}"
            );
            if !matches!(kind, "a.gauss" | "folder/") {
                assert!(found == truth, "{source} → {kind}");
                continue;
            }
            let (found, truth) = (by_name(found), by_name(truth.clone()));
            let coded = match &report.detail {
                Detail::Gauss(tensors) => tensors.clone(),
                _ => Vec::new(),
            };
            let coded = coded.into_iter().filter(|report| report.raw.is_none());
            let coded: BTreeMap<_, _> = coded.map(|r| (r.name.clone(), r)).collect();
            assert_eq!(coded.len(), if kind == "a.gauss" { 4 } else { 0 });
            assert_eq!(found.len(), truth.len());
            for (name, tensor) in &truth {
                let twin = &found[name];
                assert_eq!((twin.dtype, &twin.shape), (tensor.dtype, &tensor.shape));
                let Some(report) = coded.get(name) else {
                    assert!(twin == tensor, "{source} → {kind}: {name}");
                    continue;
                };
                let mut largest = 0f64;
                for (a, b) in values(tensor).into_iter().zip(values(twin)) {
                    let error = (a - b).abs();
                    assert!(error <= promise(tensor.dtype, a), "{name}: {a} became {b}");
                    largest = largest.max(error);
                }
                assert!((largest - report.max_error).abs() < 1e-12, "{name}");
                assert!(report.deviation > 0.2 && report.deviation < 0.4, "{name}");
            }
        }
    }
}

#[test]
fn all_dtypes_of_safetensors_and_of_ztensor() {
    let all = model(&Dtype::ALL);
    let folder = folder(&all, &[]);
    for kind in ["b.zstn", "b.safetensors", "b.zstn.index.json"] {
        run(folder.path(), "in.safetensors", kind, &target(kind)).expect("converted");
        assert!(read(&folder.path().join(kind)).0 == all, "{kind}");
    }
    let thirteen: Vec<Dtype> = Dtype::ALL.into_iter().filter(|&d| can_write(d)).collect();
    assert_eq!(thirteen.len(), 13);
    let some = model(&thirteen);
    std::fs::write(folder.path().join("in.safetensors"), file(&some, &[])).expect("written");
    for (is_zstd, checksum) in [
        (false, None),
        (true, None),
        (true, Some(DigestKind::Crc32c)),
        (false, Some(DigestKind::Sha256)),
    ] {
        let target = Target::ZTensor { is_zstd, checksum };
        run(folder.path(), "in.safetensors", "b.zt", &target).expect("converted");
        assert!(read(&folder.path().join("b.zt")).0 == some);
        let file = std::fs::read(folder.path().join("b.zt")).expect("a file");
        let counts = |text: &[u8]| file.windows(text.len()).filter(|w| *w == text).count();
        assert_eq!(counts(b"dzstd") > 0, is_zstd);
        let texts: [&[u8]; 2] = [b"crc32c:0x", b"sha256:"];
        let expected = [
            checksum == Some(DigestKind::Crc32c),
            checksum == Some(DigestKind::Sha256),
        ];
        for (text, is_there) in texts.into_iter().zip(expected) {
            assert_eq!(counts(text), if is_there { some.len() } else { 0 });
        }
    }
}

#[test]
fn a_file_without_tensors() {
    let folder = folder(&[], &[]);
    for kind in KINDS {
        let result = run(folder.path(), "in.safetensors", kind, &target(kind));
        if kind.ends_with("json") {
            assert!(result.unwrap_err().to_string().contains("no tensors"));
            continue;
        }
        result.expect("converted");
        assert!(read(&folder.path().join(kind)).0.is_empty(), "{kind}");
    }
}

#[test]
fn a_packed_file_comes_back_to_the_last_blank() {
    let truth = model(&COMMON);
    let folder = folder(&truth, &METADATA);
    let at = |name: &str| folder.path().join(name);
    let convert = |from: &str, to: &str| {
        run(folder.path(), from, to, &target(to)).expect("converted");
        std::fs::read(at(to)).expect("a file")
    };
    let original = std::fs::read(at("in.safetensors")).expect("a file");
    let packed = convert("in.safetensors", "a.zstn");
    assert!(convert("a.zstn", "b.safetensors") == original);
    // Converting a packed file to another effort preserves the original file, and
    // converting back equals packing it directly.
    let best = Target::Zstn {
        effort: Effort::Max,
    };
    run(folder.path(), "a.zstn", "best.zstn", &best).expect("converted");
    assert!(convert("best.zstn", "c.safetensors") == original);
    assert!(convert("best.zstn", "again.zstn") == packed);

    // zstn writes headers that are compact and aligned, and converting them again
    // changes nothing.
    let ours = convert("in.safetensors", "ours.safetensors");
    assert!(ours != original && ours.len() < original.len());
    let header_len = u64::from_le_bytes(ours[..8].try_into().unwrap());
    assert_eq!(header_len % 8, 0);
    assert!(convert("ours.safetensors", "twice.safetensors") == ours);
}

#[test]
fn a_difference_and_its_base() {
    let base = model(&COMMON);
    let mut tuned = base.clone();
    for tensor in &mut tuned {
        if let Some(byte) = tensor.bytes.first_mut() {
            *byte ^= 1;
        }
    }
    let folder = folder(&tuned, &METADATA);
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("base.safetensors"), file(&base, &[])).expect("written");
    let job = Job::new().engine(&engine());
    zstn::pack(
        &job,
        at("in.safetensors"),
        at("tuned.z4dm"),
        &zstn::PackOptions::default().base(at("base.safetensors")),
    )
    .expect("packed");
    run(
        folder.path(),
        "base.safetensors",
        "base.zstn",
        &target("base.zstn"),
    )
    .expect("packed");
    for base in ["base.safetensors", "base.zstn"] {
        for output in ["out.safetensors", "out.zstn", "out.zt"] {
            let options = ConvertOptions::default().base(at(base));
            let (input, to) = (at("tuned.z4dm"), target(output));
            convert(&job, input, at(output), &to, &options).expect("done");
            assert!(read(&at(output)).0 == tuned, "{output}");
        }
    }
    let before = listing(folder.path());
    for output in ["no.safetensors", "no.zstn", "no.zt", "no.gauss", "no/"] {
        let error = run(folder.path(), "tuned.z4dm", output, &target(output)).unwrap_err();
        assert!(matches!(error, zstn::Error::NeedsBase { .. }), "{error}");
        assert_eq!(listing(folder.path()), before);
    }
}

#[derive(Default)]
struct Watch {
    plans: Mutex<Vec<GaussPlan>>,
    done: Mutex<Vec<TensorReport>>,
}

impl GaussWatch for Watch {
    fn begin(&self, plan: GaussPlan) {
        self.plans.lock().unwrap().push(plan);
    }

    fn done(&self, report: &TensorReport, _: Duration) {
        self.done.lock().unwrap().push(report.clone());
    }
}

fn sorted(mut reports: Vec<TensorReport>) -> Vec<TensorReport> {
    reports.sort_by(|a, b| a.name.cmp(&b.name));
    reports
}

#[test]
fn the_file_is_that_of_the_core_however_it_is_made() {
    let mut truth = model(&COMMON);
    truth.push(tensor("large.weight", Dtype::F32, &[70, 30]));
    truth.push(tensor("\u{e4}.other", Dtype::Bf16, &[2, 3, 60]));
    let mut infinite = tensor("infinite", Dtype::F32, &[20, 20]);
    infinite.bytes[..4].copy_from_slice(&f32::INFINITY.to_le_bytes());
    truth.push(infinite);
    let folder = folder(&truth, &[]);
    let input = folder.path().join("in.safetensors");
    let file = std::fs::read(&input).expect("a file");
    let checkpoint = Checkpoint::parse(&file);
    for options in [
        gauss_options(),
        GaussOptions {
            shard_threshold: 1000,
            shard_rows: 32,
            ..gauss_options()
        },
        GaussOptions {
            layers: Some(vec![
                "infinite".into(),
                "large.weight".into(),
                "F32.vector".into(),
            ]),
            ..gauss_options()
        },
    ] {
        let mut expected = Vec::new();
        let sink = |bytes: &[u8]| {
            expected.extend_from_slice(bytes);
            Ok::<(), Error>(())
        };
        let sources = checkpoint.sources();
        let core = encode(&engine(), &sources, &options, sink).expect("encoded");
        for memory_bytes in [1, 1 << 16, 1 << 30] {
            let watch = Watch::default();
            let report = convert(
                &Job::new().engine(&engine()).memory_bytes(memory_bytes),
                input.to_str().expect("Unicode"),
                folder.path().join("out.gauss"),
                &Target::Gauss(options.clone()),
                &ConvertOptions::default().gauss(&watch),
            )
            .expect("converted");
            let found = std::fs::read(folder.path().join("out.gauss")).expect("a file");
            assert!(found == expected, "{memory_bytes} bytes of memory");
            assert_eq!(report.written_bytes, core.len_bytes);
            assert_eq!(report.detail, Detail::Gauss(core.tensors.clone()));
            let done = watch.done.into_inner().unwrap();
            assert_eq!(sorted(done), sorted(core.tensors.clone()));
            let plans = watch.plans.into_inner().unwrap();
            let coded = || core.tensors.iter().filter(|tensor| tensor.raw.is_none());
            assert_eq!(plans.len(), 1);
            // The plan counts the tensor with an infinite value as coded. The value is found
            // only when the tensor is read, and then the tensor is stored raw.
            assert_eq!(plans[0].coded, coded().count() + 1);
            assert_eq!(plans[0].raw, core.tensors.len() - plans[0].coded);
            let shards: usize = coded().map(|tensor| tensor.shards.len()).sum();
            assert_eq!(plans[0].shards, shards + 1);
            assert_eq!(
                plans[0].sharded,
                coded().filter(|tensor| tensor.shards.len() > 1).count()
            );
            let infinite = core.tensors.iter().find(|t| t.name == "infinite");
            assert_eq!(infinite.unwrap().raw, Some(RawReason::NotFinite));
        }
    }
}

#[test]
fn dtypes_without_a_name_keep_their_bytes_if_that_is_asked_for() {
    let truth = [
        tensor("mask", Dtype::Bool, &[20, 20]),
        tensor("codes", Dtype::U16, &[7]),
    ];
    let folder = folder(&truth, &[]);
    let options = GaussOptions {
        other_dtypes: OtherDtypes::AsSigned,
        ..gauss_options()
    };
    run(
        folder.path(),
        "in.safetensors",
        "out.gauss",
        &Target::Gauss(options),
    )
    .expect("converted");
    let (found, _) = read(&folder.path().join("out.gauss"));
    let shown: Vec<_> = found.iter().map(|t| (t.dtype, &t.bytes)).collect();
    assert_eq!(
        shown,
        [(Dtype::I8, &truth[0].bytes), (Dtype::I16, &truth[1].bytes)]
    );
}
