//! Impossible conversions are refused with the name of the file or tensor, and
//! leave no files; options and messages of the command line.

use std::path::Path;

use zstn::convert::Target;
use zstn::{Error, Tensor};
use zstn_core::ErrorKind;
use zstn_core::container::foreign::gauss::{Components, GaussOptions};
use zstn_core::container::foreign::ztensor::{SourceTensor, write};
use zstn_core::dtype::Dtype;
use zstn_core::pure::Pure;
use zstn_tests::cases;
use zstn_tests::command::{text, zstn};

use super::{COMMON, file, folder, gauss_options, listing, model, read, run, target, tensor};

const OUTPUTS: [&str; 7] = [
    "no.safetensors",
    "no.safetensors.index.json",
    "no.zstn",
    "no.zstn.index.json",
    "no.zt",
    "no.gauss",
    "no/",
];

/// Returns the error of a conversion that must not change the folder.
fn refused(folder: &Path, input: &str, output: &str, target: &Target) -> Error {
    let before = listing(folder);
    let error = run(folder, input, output, target).expect_err(output);
    assert_eq!(listing(folder), before, "{output}");
    error
}

fn with(odd: Tensor) -> tempfile::TempDir {
    let mut tensors = model(&COMMON);
    tensors.push(odd);
    folder(&tensors, &[])
}

#[test]
fn dtypes_that_a_target_cannot_hold() {
    for dtype in Dtype::ALL {
        let folder = with(tensor("odd one", dtype, &[8]));
        for (output, holds) in [
            (
                "out.zt",
                zstn_core::container::foreign::ztensor::can_write(dtype),
            ),
            ("out.gauss", COMMON.contains(&dtype)),
        ] {
            let target = target(output);
            if holds {
                run(folder.path(), "in.safetensors", output, &target).expect("converted");
                std::fs::remove_file(folder.path().join(output)).expect("there");
                continue;
            }
            let error = refused(folder.path(), "in.safetensors", output, &target);
            let refusal = error.refusal().expect("a refusal");
            assert_eq!(refusal.kind(), ErrorKind::Unsupported);
            assert_eq!(refusal.tensor_name(), Some("odd one"));
            assert!(error.to_string().contains(dtype.name()), "{error}");
        }
    }
}

#[test]
fn names_and_sizes_that_a_target_cannot_hold() {
    let long = "n".repeat(65536);
    let folder = with(tensor(&long, Dtype::F32, &[2]));
    for output in ["no.zstn", "no.zstn.index.json", "no.gauss"] {
        let error = refused(folder.path(), "in.safetensors", output, &target(output));
        let name = error.refusal().and_then(|refusal| refusal.tensor_name());
        assert!(name == Some(&long), "{output}");
    }
    run(folder.path(), "in.safetensors", "ok.zt", &target("ok.zt")).expect("converted");

    let entry = SourceTensor::dense("__metadata__", Dtype::U8, &[1]);
    let odd = write(&Pure, &[(entry, &[7])]).expect("a file");
    std::fs::write(folder.path().join("odd.zt"), odd).expect("written");
    for output in [
        "no.safetensors",
        "no.safetensors.index.json",
        "no.zstn",
        "no/",
    ] {
        let error = refused(folder.path(), "odd.zt", output, &target(output));
        let name = error.refusal().and_then(|refusal| refusal.tensor_name());
        assert_eq!(name, Some("__metadata__"), "{output}");
    }

    let folder = with(tensor("a.bitmask", Dtype::U8, &[2]));
    let error = refused(folder.path(), "in.safetensors", "no/", &target("no/"));
    let name = error.refusal().and_then(|refusal| refusal.tensor_name());
    assert_eq!(name, Some("a.bitmask"));
}

#[test]
fn damage_found_on_the_way_leaves_nothing() {
    let folder = folder(&model(&COMMON), &[]);
    run(folder.path(), "in.safetensors", "good.zt", &{
        Target::ZTensor {
            is_zstd: false,
            checksum: Some(zstn_core::container::foreign::ztensor::DigestKind::Crc32c),
        }
    })
    .expect("converted");
    let mut file = std::fs::read(folder.path().join("good.zt")).expect("a file");
    // These are the last bytes of the last sufficiently long tensor.
    let tensors = model(&COMMON);
    let last = tensors.iter().rfind(|tensor| tensor.bytes.len() > 16);
    let last = &last.expect("a tensor").bytes;
    let start = file.windows(last.len()).position(|window| window == last);
    let last = start.expect("stored as it is") + last.len() - 1;
    file[last] ^= 1;
    std::fs::write(folder.path().join("bad.zt"), file).expect("written");
    for output in OUTPUTS {
        let error = refused(folder.path(), "bad.zt", output, &target(output));
        let refusal = error.refusal().expect("a refusal");
        assert_eq!(refusal.kind(), ErrorKind::Malformed, "{error}");
    }
    for output in OUTPUTS {
        refused(folder.path(), "missing.zt", output, &target(output));
    }
}

#[test]
fn an_earlier_file_survives_an_error() {
    let folder = with(tensor("odd one", Dtype::C64, &[8]));
    std::fs::write(folder.path().join("out.zt"), b"precious").expect("written");
    refused(folder.path(), "in.safetensors", "out.zt", &target("out.zt"));
    let kept = std::fs::read(folder.path().join("out.zt")).expect("there");
    assert_eq!(kept, b"precious");
}

#[test]
fn the_input_is_not_replaced() {
    let folder = folder(&model(&COMMON), &[]);
    let at = |name: &str| folder.path().join(name);
    let before = std::fs::read(at("in.safetensors")).expect("a file");
    let same = format!(
        "../{}/in.safetensors",
        folder.path().file_name().unwrap().display()
    );
    for output in ["in.safetensors", &same] {
        let error = refused(
            folder.path(),
            "in.safetensors",
            output,
            &Target::Safetensors,
        );
        assert!(matches!(error, Error::Usage(_)), "{error}");
    }
    assert!(std::fs::read(at("in.safetensors")).expect("there") == before);

    // An input is not replaced by an output shard of the same name either.
    let index = "m.safetensors.index.json";
    run(folder.path(), "in.safetensors", index, &Target::Safetensors).expect("converted");
    let shard = listing(folder.path())
        .into_iter()
        .find(|name| name.starts_with("m-00001-of-"))
        .expect("a first shard");
    std::fs::copy(at("in.safetensors"), at(&shard)).expect("copied");
    let error = refused(folder.path(), &shard, index, &Target::Safetensors);
    assert!(error.to_string().contains(&shard), "{error}");
    assert!(std::fs::read(at(&shard)).expect("there") == before);
}

#[test]
fn folders_that_hold_something_are_not_touched() {
    let folder = folder(&model(&COMMON), &[]);
    std::fs::create_dir(folder.path().join("full")).expect("a folder");
    std::fs::write(folder.path().join("full/file"), b"mine").expect("written");
    for output in ["full", "full/", "in.safetensors/"] {
        let error = refused(folder.path(), "in.safetensors", output, &target("x/"));
        assert!(matches!(error, Error::Usage(_)), "{error}");
    }
    assert_eq!(listing(&folder.path().join("full")), ["file"]);
}

#[test]
fn gauss_options_are_checked_before_anything_is_read() {
    let folder = folder(&model(&COMMON), &[]);
    for count in [0, 1, 256] {
        let options = GaussOptions {
            components: Components::Exactly(count),
            ..gauss_options()
        };
        let target = Target::Gauss(options);
        let error = refused(folder.path(), "missing.safetensors", "no.gauss", &target);
        assert!(error.to_string().contains("2 to 255"), "{error}");
    }
    let target = Target::Gauss(GaussOptions {
        layers: Some(vec!["F32.vector".into(), "nothing".into()]),
        ..gauss_options()
    });
    let error = refused(folder.path(), "in.safetensors", "no.gauss", &target);
    let refusal = error.refusal().expect("a refusal");
    assert_eq!(refusal.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("nothing"), "{error}");
}

#[test]
fn indices_are_of_two_kinds_of_file() {
    let folder = folder(&model(&COMMON), &[]);
    for (output, target) in [
        ("m.safetensors.index.json", target("m.zstn")),
        ("m.gauss.index.json", target("m.gauss")),
        ("m.index.json", Target::Safetensors),
    ] {
        let error = refused(folder.path(), "in.safetensors", output, &target);
        assert!(
            error.to_string().contains("not a name for an index"),
            "{error}"
        );
    }
}

#[test]
fn a_file_that_breaks_the_rules_of_safetensors() {
    let folder = folder(&[], &[]);
    let mut broken = file(&model(&COMMON), &[]);
    broken.push(0);
    std::fs::write(folder.path().join("broken.safetensors"), broken).expect("written");
    for output in OUTPUTS {
        refused(folder.path(), "broken.safetensors", output, &target(output));
    }
}

fn json(folder: &Path, arguments: &[&str]) -> serde_json::Value {
    let output = zstn(folder, &[arguments, &["--force", "--json"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

/// Returns the message for incorrect arguments, which must leave no file.
fn misused(folder: &Path, arguments: &[&str]) -> String {
    let before = listing(folder);
    let output = zstn(folder, arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    assert_eq!(listing(folder), before);
    text(&output.stderr)
}

#[test]
fn wrong_usage_says_what_to_do() {
    let folder = folder(&model(&COMMON), &[]);
    let misused = |arguments: &[&str]| {
        let arguments = [&["convert", "in.safetensors"], arguments].concat();
        misused(folder.path(), &arguments)
    };
    let lossy = misused(&["out.gauss"]);
    for part in ["--lossy", "0.0005", "1/256"] {
        assert!(lossy.contains(part), "{lossy}");
    }
    assert!(misused(&["out.tensors"]).contains("--to"));
    assert!(misused(&["out.z4dm"]).contains("--base"));
    assert!(misused(&["out.zt", "--to", "onnx"]).contains("compressed-tensors"));
    assert!(misused(&["in.safetensors"]).contains("another name"));
    assert!(misused(&["out.gauss", "--lossy", "--K", "1"]).contains("2 to 255"));
    assert!(misused(&["out.gauss", "--lossy", "--K", "many"]).contains("auto"));
    assert!(misused(&["out.safetensors", "--shard-size", "1G"]).contains("index"));
    assert!(misused(&["out"]).contains("does not name a format"));
    assert!(misused(&[]).contains("-o"));
    for (output, option) in [
        ("out.zt", "--effort=max"),
        ("out.safetensors", "--effort=max"),
        ("out.gauss", "--zstd"),
        ("out.zstn", "--checksum=sha256"),
        ("out.zt", "--format=sparse-bitmask"),
        ("out.zt", "--lossy"),
        ("out/", "--K=4"),
        ("out.zstn", "--layers=a,b"),
    ] {
        let name = option.split('=').next().expect("a name");
        assert!(misused(&[output, option]).contains(name), "{option}");
    }
}

#[test]
fn a_report_for_scripts() {
    let mut truth = model(&COMMON);
    truth.push(tensor("large", Dtype::Bf16, &[300, 200]));
    let folder = folder(&truth, &[("format", "pt"), ("author", "x")]);
    let convert = |arguments: &[&str]| {
        let arguments = [&["convert", "in.safetensors"], arguments].concat();
        json(folder.path(), &arguments)
    };
    let report = convert(&["out.zt", "--zstd", "--checksum", "crc32c"]);
    assert_eq!(report["dropped"], serde_json::json!(["author", "format"]));
    assert_eq!(
        (&report["from"], &report["to"], &report["lossy"]),
        (&"safetensors".into(), &"ztensor".into(), &false.into())
    );
    let len = folder
        .path()
        .join("out.zt")
        .metadata()
        .expect("there")
        .len();
    assert_eq!(report["packed_bytes"], len);
    assert_eq!(report["tensors"], truth.len());
    assert!(read(&folder.path().join("out.zt")).0 == truth);

    let report = convert(&["out.bin", "--to", "zstn", "--effort", "fast"]);
    assert_eq!(report["dropped"], serde_json::json!([]));
    let report = convert(&["s.zstn.index.json", "--shard-size", "100K"]);
    assert_eq!(
        report["files"],
        serde_json::json!([
            "s-00001-of-00002.zstn",
            "s-00002-of-00002.zstn",
            "s.zstn.index.json"
        ])
    );

    let arguments = [
        "out.gauss",
        "--lossy",
        "--K",
        "4",
        "--threads",
        "1",
        "--max-iter",
        "20",
    ];
    let report = convert(&arguments);
    assert_eq!(
        (&report["lossy"], &report["dropped"][0]),
        (&true.into(), &"author".into())
    );
    let tensors = report["gauss"]["tensors"].as_array().expect("a list");
    assert_eq!(tensors.len(), truth.len());
    let large = tensors
        .iter()
        .find(|t| t["name"] == "large")
        .expect("there");
    let error = large["max_error"].as_f64().expect("a number");
    assert!(error > 0.003 && error < 0.006, "{error}");
    assert_eq!(report["gauss"]["max_error"], large["max_error"]);
    assert_eq!(large["shards"][0]["scale"], 128);
    assert_eq!(report["gauss"]["coarse"], serde_json::json!([]));
}

#[test]
fn words_for_people() {
    let mut small = tensor("fine.weight", Dtype::Bf16, &[300, 200]);
    for element in small.bytes.as_chunks_mut().0 {
        let value = half::bf16::from_le_bytes(*element).to_f64() / 50.0;
        *element = half::bf16::from_f64(value).to_le_bytes();
    }
    let truth = [
        small,
        tensor("usual.weight", Dtype::F32, &[200, 300]),
        tensor("bias", Dtype::F32, &[300]),
    ];
    let folder = folder(&truth, &[("format", "pt")]);
    let run = |arguments: &[&str]| {
        let output = zstn(
            folder.path(),
            &[&["convert", "--force"], arguments].concat(),
        );
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(output.stdout.is_empty());
        text(&output.stderr)
    };
    let gauss = run(&[
        "in.safetensors",
        "out.gauss",
        "--lossy",
        "--K",
        "2",
        "--threads",
        "1",
    ]);
    for part in [
        "2 tensors to code (0 sharded), 1 raw, 2 tasks on 1 threads",
        "[   1/2   ] fine.weight",
        "[   2/2   ] usual.weight",
        "[raw] bias",
        "at most, in fine.weight",
        "coarse for 1 of these tensors",
        "dropped: format",
    ] {
        assert!(gauss.contains(part), "no `{part}` in\n{gauss}");
    }
    assert_eq!(run(&["in.safetensors", "out.gauss", "--lossy", "-q"]), "");
    let plain = run(&["in.safetensors", "out.safetensors"]);
    assert_eq!(plain.lines().count(), 1, "{plain}");
    assert!(run(&["in.safetensors", "out/"]).contains("0 tensors are stored sparse"));
}

#[test]
fn keys_of_a_ztensor_file_that_safetensors_has_no_place_for() {
    let custom = cases::read("ztensor", "v01_rs010_custom.zt");
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("in.zt"), custom).expect("written");
    let report = json(folder.path(), &["convert", "in.zt", "out.safetensors"]);
    let keys = [
        "answer", "big", "blob", "flag", "nested", "note", "nothing", "pi", "ratio", "tenth",
    ];
    assert_eq!(report["dropped"], serde_json::json!(keys));
    let empty = file(&[], &[("format", "pt")]);
    std::fs::write(folder.path().join("in.safetensors"), empty).expect("written");
    let report = json(
        folder.path(),
        &["convert", "in.safetensors", "b.safetensors"],
    );
    assert_eq!(report["dropped"], serde_json::json!([]));
}
