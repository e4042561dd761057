//! Reads files of every format through the reader and through the command line.

use std::path::{Path, PathBuf};

use serde_json::Value;
use zstn::{Engine, Error, Job, Reader, VerifyOptions};
use zstn_core::catalog::FileKind;
use zstn_tests::cases::{self, Refusal, text};
use zstn_tests::command;
use zstn_tests::foreign::{BAD, GOOD, model_folder};
use zstn_tests::protobuf;

fn open(path: impl AsRef<Path>) -> Result<Reader, Error> {
    Reader::open(path.as_ref())
}

/// Asserts that every tensor of `truth` has the same value in `model`.
fn same(model: &Reader, truth: &Reader) {
    for name in truth.names() {
        let expected = truth.read(name).expect("the truth");
        let read = model.read(name).unwrap_or_else(|error| panic!("{error}"));
        assert!(read == expected, "{}: {name} differs", model.name());
    }
}

/// Reads all tensors.
fn read_all(path: &Path) -> Result<(), Error> {
    let job = Job::new();
    zstn::verify(&job, path, &VerifyOptions::default()).map(drop)
}

#[test]
fn gauss_files_read_like_others() {
    let mut files = 0;
    for vector in cases::entries("gauss", "vectors") {
        let name = text(&vector["name"]);
        let model = open(cases::path("gauss").join(format!("{name}.gauss"))).expect(&name);
        assert_eq!(model.model().kind(), FileKind::Gauss);
        let truth =
            open(cases::path("gauss").join(format!("{name}.restored.safetensors"))).expect(&name);
        assert_eq!(model.names().count(), truth.names().count(), "{name}");
        same(&model, &truth);
        files += 1;
    }
    assert!(files >= 40, "only {files} files");
}

#[test]
fn gguf_files_read_and_convert_like_others() {
    let path = cases::path("gguf").join("k-blocks.gguf");
    let model = open(&path).expect("a vector");
    assert_eq!(model.model().kind(), FileKind::Gguf);
    let formats: Vec<_> = model.tensors().iter().map(|t| t.format()).collect();
    let names = ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"];
    assert_eq!(formats, names.map(Some));
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["m.safetensors", "m.zstn"] {
        let out = folder.path().join(name);
        let convert = ["convert", path.to_str().expect("UTF-8"), name, "--json"];
        let run = command::zstn(folder.path(), &convert);
        let report: Value = serde_json::from_slice(&run.stdout).expect("a report");
        assert_eq!(
            (&report["from"], &report["decoded"]),
            (&"gguf".into(), &true.into())
        );
        same(&open(out).expect("converted"), &model);
    }
    // The name of a packed file states that the restored one is safetensors.
    let misnamed = folder.path().join("misnamed.safetensors");
    std::fs::copy(&path, misnamed).expect("a copy");
    let run = command::zstn(folder.path(), &["pack", "misnamed.safetensors"]);
    assert_eq!(run.status.code(), Some(2));
    let told = String::from_utf8(run.stderr).expect("UTF-8");
    assert!(told.contains("of the format gguf"), "{told}");
    assert!(!folder.path().join("misnamed.zstn").exists());
}

/// Returns an ONNX model with values in two other files, one of which is missing.
fn onnx_in_files(folder: &Path) -> PathBuf {
    let at = |name, offset| [("location", name), ("offset", offset)];
    let raw: Vec<u8> = [1.0f32, 2.0]
        .into_iter()
        .flat_map(f32::to_le_bytes)
        .collect();
    let model = protobuf::model(
        &[],
        &[
            protobuf::tensor("own", 1, &[2]).bytes(9, &raw),
            protobuf::external("far", 1, &[3, 2], &at("data/weights 1.onnx_data", "4")),
            protobuf::external("lost", 1, &[2], &at("missing.bin", "0")),
            protobuf::external("itself", 2, &[2], &at("model.onnx", "0")),
        ],
    );
    let path = folder.join("model.onnx");
    std::fs::create_dir(folder.join("data")).expect("a folder");
    std::fs::write(
        folder.join("data/weights 1.onnx_data"),
        (0..28).collect::<Vec<u8>>(),
    )
    .expect("written");
    std::fs::write(&path, model).expect("written");
    path
}

/// Opens the ONNX model at `path` with both readers, and checks the values that they read.
fn check_onnx_in_files(path: &Path) {
    let check = |names: Vec<&str>, files: usize, refused: Vec<(String, String)>, far: Vec<u8>| {
        assert_eq!((names, files), (vec!["own", "far"], 2));
        assert_eq!(far, (12..20).collect::<Vec<u8>>());
        let [(itself, of_itself), (lost, missing)] = &refused[..] else {
            panic!("{refused:?}");
        };
        assert_eq!((itself.as_str(), lost.as_str()), ("itself", "lost"));
        assert!(
            of_itself.contains("the file of the model itself"),
            "{of_itself}"
        );
        assert!(missing.contains("missing.bin") && missing.contains("beside the model"));
    };
    let reader = open(path).expect("a model");
    let far = reader.read_rows("far", 1..2).expect("rows").bytes;
    let files = reader.sources().len();
    check(reader.names().collect(), files, unread(reader.model()), far);
    assert_eq!(
        reader.read("far").expect("values").bytes,
        (4..28).collect::<Vec<u8>>()
    );
    assert!(
        reader
            .read("lost")
            .expect_err("missing")
            .to_string()
            .contains("missing.bin")
    );

    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let reader = zstn::AsyncReader::open(path).await.expect("a model");
        let far = reader.read_rows("far", 1..2).await.expect("rows").bytes;
        let files = reader.model().files().len();
        check(reader.names().collect(), files, unread(reader.model()), far);
    });
}

fn unread(model: &zstn_core::model::Model) -> Vec<(String, String)> {
    let refused = model.refused();
    refused
        .map(|(name, error)| (name.into(), error.to_string()))
        .collect()
}

#[test]
fn onnx_models_read_values_of_other_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = onnx_in_files(folder.path());
    check_onnx_in_files(&path);

    // A model in memory has no folder.
    let bytes = std::fs::read(&path).expect("written");
    let input = zstn::Input::bytes("m.onnx", bytes);
    let reader = Reader::options().open(input).expect("a model");
    let refused = unread(reader.model());
    assert_eq!(refused.len(), 3);
    assert!(
        refused[0].1.contains("by its path or address"),
        "{refused:?}"
    );
}

#[test]
fn onnx_models_are_listed_printed_and_converted() {
    let folder = tempfile::tempdir().expect("a folder");
    onnx_in_files(folder.path());
    let run = |arguments: &[&str]| {
        let run = command::zstn(folder.path(), arguments);
        let text = String::from_utf8(run.stdout).expect("UTF-8");
        (run.status.code(), text)
    };
    let run_ls = command::zstn(folder.path(), &["ls", "model.onnx"]);
    assert_eq!(run_ls.status.code(), Some(0));
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    let (list, notes) = (text(run_ls.stdout), text(run_ls.stderr));
    assert!(list.contains("far  "), "{list}");
    assert!(
        notes.contains("2 tensors") && notes.contains("warning: lost cannot be read"),
        "{notes}"
    );
    let (code, text) = run(&["ls", "model.onnx", "--json"]);
    let json: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((code, &json["kind"]), (Some(0), &"onnx".into()));
    assert_eq!(json["refused"].as_array().map(Vec::len), Some(2));
    let (code, text) = run(&["info", "model.onnx"]);
    assert_eq!(code, Some(0));
    assert!(
        text.contains("onnx") && text.contains("ir_version"),
        "{text}"
    );
    let (code, _) = run(&["get", "model.onnx", "far", "-o", "far.npy"]);
    assert_eq!(code, Some(0));
    let far = std::fs::read(folder.path().join("far.npy")).expect("written");
    assert!(far.ends_with(&(4..28).collect::<Vec<u8>>()));

    for (vector, tensors) in [
        ("onnx/raw-types.onnx", 19),
        ("msgpack/types.msgpack", 12),
        ("tflite/types.tflite", 3),
    ] {
        let path = cases::path("").join(vector);
        let model = open(&path).expect(vector);
        for name in ["m.safetensors", "m.zstn"] {
            let out = folder.path().join(name);
            let convert = ["convert", path.to_str().expect("UTF-8"), name, "--force"];
            assert_eq!(run(&convert).0, Some(0), "{vector}");
            let converted = open(&out).expect("converted");
            assert_eq!(converted.names().count(), tensors, "{vector}");
            same(&converted, &model);
        }
    }
}

#[test]
fn archives_read_convert_and_verify_like_others() {
    let folder = tempfile::tempdir().expect("a folder");
    for (from, name, kind) in [
        ("npz", "deflated.npz", FileKind::Npz),
        ("pytorch", "strided.pt", FileKind::PyTorch),
        ("pytorch", "training-checkpoint.ckpt", FileKind::PyTorch),
        ("pytorch", "legacy-shared-storage.pth", FileKind::PyTorch),
        ("keras", "chunks.keras", FileKind::Keras),
        ("tar", "gnu.nemo", FileKind::Tar),
    ] {
        let path = cases::path(from).join(name);
        let model = open(&path).expect(name);
        assert_eq!(model.model().kind(), kind);
        let path = path.to_str().expect("UTF-8");
        let list = command::json(&command::zstn(folder.path(), &["ls", path, "--json"]));
        assert_eq!(list["kind"], kind.name());
        for out in ["m.safetensors", "m.zstn"] {
            let run = command::zstn(folder.path(), &["convert", path, out, "--force", "--json"]);
            let report: Value = serde_json::from_slice(&run.stdout).expect("a report");
            assert_eq!(report["from"], kind.name());
            same(&open(folder.path().join(out)).expect("converted"), &model);
        }
        read_all(Path::new(path)).expect(name);
    }
    // A tensor that cannot be read is named, the others are read, and nothing that is
    // written lacks it.
    let path = cases::path("pytorch").join("unreadable-beside.pt");
    assert!(read_all(&path).is_err());
    let path = path.to_str().expect("UTF-8");
    let listed = command::zstn(folder.path(), &["ls", path]);
    assert!(listed.status.success());
    let warned = command::text(&listed.stderr) + &command::text(&listed.stdout);
    assert!(warned.contains("quantised cannot be read"), "{warned}");
    let got = command::zstn(folder.path(), &["get", path, "a", "--json"]);
    assert_eq!(command::json(&got)["name"], "a");
    let run = command::zstn(folder.path(), &["convert", path, "part.safetensors"]);
    assert!(!run.status.success() && !folder.path().join("part.safetensors").exists());
    // Values that are no tensors are metadata.
    let path = cases::path("pytorch").join("training-checkpoint.ckpt");
    let model = open(&path).expect("a vector");
    let metadata = model.model().metadata();
    assert!(
        metadata
            .keys()
            .any(|key| key.starts_with("optimizer.param_groups.0."))
    );
}

#[test]
fn the_checksum_of_the_weights_of_keras_is_compared_when_they_are_verified() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.keras");
    let mut file = cases::read("keras", "model.keras");
    std::fs::write(&path, &file).expect("written");
    read_all(&path).expect("a vector");
    let model = open(&path).expect("a vector");
    let place = model.tensors()[0].parts[0].stored.start;
    file[usize::try_from(place).expect("in memory")] ^= 1;
    std::fs::write(&path, &file).expect("written");
    open(&path).expect("the list is not damaged");
    let error = read_all(&path).expect_err("damaged values");
    let rule = error.refusal().and_then(zstn_core::Error::rule);
    assert_eq!(rule, Some(zstn_core::Rule::ZipChecksum), "{error}");
}

#[test]
fn weights_in_parts_read_like_others() {
    let mut models = 0;
    for vector in cases::entries(GOOD, "vectors") {
        let name = text(&vector["name"]);
        let folder = model_folder(GOOD, &name);
        let model = open(folder.path()).expect(&name);
        assert_eq!(model.model().kind(), FileKind::CompressedTensors, "{name}");
        assert_eq!(model.model().refused().count(), 0, "{name}");
        let truth = cases::path(GOOD).join(format!("{name}.dense.safetensors"));
        same(&model, &open(truth).expect(&name));
        // The model can also be opened by the path of its file in the same folder.
        let by_file = open(folder.path().join("model.safetensors")).expect(&name);
        assert_eq!(
            by_file.model().kind(),
            FileKind::CompressedTensors,
            "{name}"
        );
        assert_eq!(by_file.names().count(), model.names().count(), "{name}");
        // Without its configuration, tensors are returned as stored.
        std::fs::remove_file(folder.path().join("config.json")).expect("removed");
        let stored = open(folder.path()).expect(&name);
        assert_eq!(stored.model().kind(), FileKind::Safetensors, "{name}");
        models += 1;
    }
    assert!(models >= 20, "only {models} models");
}

#[test]
fn packed_files_keep_their_configuration() {
    let job = Job::new().engine(&Engine::new(1).expect("a thread"));
    for name in ["pack013_w4_g32_asym_gidx", "sb013_f32"] {
        let folder = model_folder(GOOD, name);
        let plain = folder.path().join("model.safetensors");
        let packed = folder.path().join("model.zstn");
        zstn::pack(&job, &plain, &packed, &zstn::PackOptions::default()).expect("packed");
        std::fs::remove_file(plain).expect("removed");
        let model = open(folder.path()).expect(name);
        assert_eq!(model.model().kind(), FileKind::CompressedTensors);
        let truth = cases::path(GOOD).join(format!("{name}.dense.safetensors"));
        same(&model, &open(truth).expect(name));
    }
}

#[test]
fn malformed_files_are_refused_for_their_rule() {
    let gauss = cases::malformed("gauss-bad");
    let compressed = cases::malformed(BAD);
    assert!(gauss.len() >= 20 && compressed.len() >= 12);
    for file in gauss {
        let name = text(&file["file"]);
        refused(&file, &name, &cases::path("gauss-bad").join(&name));
    }
    for vector in compressed {
        let name = text(&vector["name"]);
        let folder = model_folder(BAD, &name);
        refused(&vector, &name, folder.path());
    }
}

/// Checks that reading `path` fails with the error in the manifest's `entry`.
fn refused(entry: &Value, name: &str, path: &Path) {
    let error = read_all(path).expect_err(name);
    let Error::Format { source, .. } = error else {
        panic!("{name}: {error}");
    };
    Refusal::of_opened(entry).check::<()>(name, Err(source));
}

#[test]
fn verify_compares_tensors_of_any_kind() {
    let job = Job::new();
    let verify = |name: &str, original: &str| {
        let [name, original] = [name, original].map(|name| cases::path("ztensor").join(name));
        zstn::verify(&job, name, &VerifyOptions::default().original(original))
    };
    for case in cases::ztensor() {
        let report = verify(&case.file, &case.truth).expect("equal");
        assert_eq!(
            (report.files[0].kind, report.frames(), report.compared),
            (FileKind::ZTensor, case.tensors.len(), true)
        );
    }
    assert!(read_all(&cases::path("ztensor-bad").join("crc_mismatch_raw.zt")).is_err());
    let error = verify("v21_py212_raw.zt", "v20_py200_raw.safetensors").expect_err("others");
    assert!(matches!(error, Error::Differs { .. }), "{error}");
}

/// Vectors whose encoder exceeded the error bound: it clipped outliers, or rounded
/// integers to single precision.
const BROKEN_PROMISES: [&str; 3] = ["big_values", "clipped", "int_gmm"];

#[test]
fn gauss_keeps_its_promise_or_is_told_off() {
    for vector in cases::entries("gauss", "vectors") {
        let name = text(&vector["name"]);
        let at = |ending: &str| cases::path("gauss").join(format!("{name}.{ending}"));
        let [truth, model] = ["safetensors", "gauss"].map(|ending| open(at(ending)).expect(&name));
        if truth.names().count() != model.names().count() {
            continue;
        }
        let options = VerifyOptions::default().original(at("safetensors"));
        match zstn::verify(&Job::new(), at("gauss"), &options) {
            Ok(report) => {
                assert!(!BROKEN_PROMISES.contains(&name.as_str()), "{name}");
                let listed = vector["tensors"].as_array().expect("a list").iter();
                let worst = listed
                    .filter_map(|t| t["max_abs_err"].as_f64())
                    .fold(0.0, f64::max);
                let own = report.max_error().unwrap_or(0.0);
                assert!(
                    (own - worst).abs() <= 1e-6 * (1.0 + worst),
                    "{name}: {own} {worst}"
                );
            }
            Err(Error::Differs { detail }) => {
                assert!(BROKEN_PROMISES.contains(&name.as_str()), "{detail}");
            }
            Err(other) => panic!("{name}: {other}"),
        }
    }
}

#[test]
fn the_command_line_tells_of_gauss() {
    let folder = cases::path("gauss");
    let list = command::json(&command::zstn(
        &folder,
        &["ls", "sharded_mixed.gauss", "--json"],
    ));
    assert_eq!(list["kind"], "gauss");
    let info = command::zstn(&folder, &["info", "sharded_mixed.gauss"]);
    let shown = command::text(&info.stdout);
    for word in ["tensor", "ratio", "K", "S", "shards", "raw", "F32"] {
        assert!(shown.contains(word), "{shown}");
    }
    let info = command::json(&command::zstn(
        &folder,
        &["info", "--json", "sharded_mixed.gauss"],
    ));
    let tensors = info["gauss"].as_array().expect("a list");
    assert_eq!(
        tensors.len(),
        list["tensors"].as_array().expect("a list").len()
    );
    let got = command::zstn(&folder, &["get", "sharded_mixed.gauss", "w0", "--json"]);
    assert_eq!(command::json(&got)["name"], "w0");
    let verified = command::zstn(
        &folder,
        &[
            "verify",
            "f32_2d_k4.gauss",
            "--against",
            "f32_2d_k4.safetensors",
        ],
    );
    assert!(
        verified.status.success(),
        "{}",
        command::text(&verified.stderr)
    );
    assert!(command::text(&verified.stderr).contains("as promised"));
    let clipped = command::zstn(
        &folder,
        &[
            "verify",
            "clipped.gauss",
            "--against",
            "clipped.safetensors",
        ],
    );
    assert_eq!(clipped.status.code(), Some(1));
    assert!(command::text(&clipped.stderr).contains("further away"));
}

#[test]
fn the_command_line_tells_of_weights_in_parts() {
    let folder = model_folder(GOOD, "mixed_int8_w4");
    let list = command::json(&command::zstn(folder.path(), &["ls", ".", "--json"]));
    assert_eq!(list["kind"], GOOD);
    let tensors = list["tensors"].as_array().expect("a list");
    let weight = tensors
        .iter()
        .find(|tensor| tensor["format"].is_string())
        .expect("a weight");
    assert!(weight["parts"].as_array().expect("parts").len() > 1);
    let stored = command::json(&command::zstn(
        folder.path(),
        &["ls", ".", "--stored", "--json"],
    ));
    assert_eq!(stored["kind"], "safetensors");
    assert!(stored["tensors"].as_array().expect("a list").len() > tensors.len());
    let name = text(&weight["name"]);
    let got = command::zstn(
        folder.path(),
        &["get", "model.safetensors", &name, "-o", "w.npy"],
    );
    assert!(got.status.success(), "{}", command::text(&got.stderr));
    assert!(folder.path().join("w.npy").exists());
    let verified = command::zstn(folder.path(), &["verify", "."]);
    assert!(
        verified.status.success(),
        "{}",
        command::text(&verified.stderr)
    );
}

#[test]
fn packed_onnx_models_read_values_of_packed_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let plain = folder.path().join("plain");
    std::fs::create_dir(&plain).expect("a folder");
    onnx_in_files(&plain);
    let packed = folder.path().join("packed");
    let options = zstn::PackOptions::default();
    zstn::pack(&Job::new(), &plain, &packed, &options).expect("packed");
    // The weights are no model, so they were copied.
    let copied = packed.join("data/weights 1.onnx_data");
    let weights = packed.join("data/weights 1.onnx_data.zstn");
    check_onnx_in_files(&packed.join("model.onnx.zstn"));
    zstn::pack(&Job::new(), &copied, &weights, &options).expect("packed");
    std::fs::remove_file(&copied).expect("removed");
    check_onnx_in_files(&packed.join("model.onnx.zstn"));
    // The stored lengths are those of the packed files.
    let reader = open(packed.join("model.onnx.zstn")).expect("a model");
    let share = |name| reader.find(name).expect(name).stored_share_bytes();
    let len = std::fs::metadata(&weights).expect("packed").len();
    assert!(
        (1..=len).contains(&share("far")),
        "{} of {len}",
        share("far")
    );

    // Only the weights are packed.
    std::fs::copy(plain.join("model.onnx"), packed.join("model.onnx")).expect("a copy");
    check_onnx_in_files(&packed.join("model.onnx"));

    // A packed file of something else, or a damaged one, refuses the tensors in it alone.
    let safetensors = zstn_tests::checkpoint(&[("x", "U8", &[1, 2, 3])]);
    std::fs::write(folder.path().join("x.safetensors"), safetensors).expect("written");
    let other = folder.path().join("x.zstn");
    zstn::pack(
        &Job::new(),
        folder.path().join("x.safetensors"),
        &other,
        &options,
    )
    .expect("packed");
    for bytes in [std::fs::read(&other).expect("packed"), vec![1; 40]] {
        std::fs::write(&weights, bytes).expect("written");
        for name in ["model.onnx", "model.onnx.zstn"] {
            let reader = open(packed.join(name)).expect("a model");
            assert!(reader.names().eq(["own"]), "{name}");
            let refused = unread(reader.model());
            let far = refused.iter().find(|(name, _)| name == "far");
            let (_, reason) = far.expect("a refusal");
            assert!(reason.contains("weights 1.onnx_data.zstn"), "{reason}");
        }
    }
}
