//! Conversions to Gauss: the bytes and the messages.

use std::sync::Mutex;
use std::time::Duration;

use zstn::Job;
use zstn::convert::{ConvertOptions, Detail, GaussPlan, GaussWatch, Target, convert};
use zstn_core::Error;
use zstn_core::container::foreign::gauss::{Options, OtherDtypes, RawReason, TensorReport, encode};
use zstn_core::dtype::Dtype;
use zstn_tests::checkpoints::Checkpoint;

use super::model::{COMMON, engine, folder, gauss_options, model, read, run, tensor};

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
        Options {
            shard_threshold: 1000,
            shard_rows: 32,
            ..gauss_options()
        },
        Options {
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
    let options = Options {
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
