//! Folders that contain model files of other formats than safetensors
//! (docs/formats/zstn-virtual-header.md 1).

use std::fs;
use std::path::Path;

use zstn::Reader;
use zstn_tests::cases;
use zstn_tests::checkpoints::npy;
use zstn_tests::command::{json, text, zstn};

use super::folders::{plant, run, tree};
use super::*;

const POINTER: &[u8] = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";

/// Returns a sharded model, with model files of other formats and with files that only
/// have their extensions.
fn mixed(tuned: bool) -> Files {
    let mut files = model(tuned);
    for (path, bytes) in [
        ("model.gguf", cases::read("gguf", "k-blocks.gguf")),
        (
            "extra/model.weights.h5",
            cases::read("hdf5", "model.weights.h5"),
        ),
        (
            "extra/pytorch_model.bin",
            cases::read("pytorch", "by-hand.pt"),
        ),
        ("extra/weights.npy", npy(3, 5000)),
        ("notes.bin", b"plain text".to_vec()),
        ("pointer.gguf", POINTER.to_vec()),
        ("safetensors.pt", checkpoint(&[("x", "U8", &[1, 2, 3])])),
    ] {
        files.insert(path.into(), bytes);
    }
    files
}

const PACKED: [&str; 4] = [
    "model.gguf.zstn",
    "extra/model.weights.h5.zstn",
    "extra/pytorch_model.bin.zstn",
    "extra/weights.npy.zstn",
];

fn as_path(path: &str) -> PathBuf {
    path.split('/').collect()
}

#[test]
fn model_files_of_other_formats_are_packed_and_restored() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let files = mixed(false);
    plant(&at("model"), &files);
    let told = Told::default();
    let watched = job().progress(&told);
    let report = zstn::pack(&watched, at("model"), at("packed"), &PackOptions::default());
    let report = report.unwrap();
    let (begun, advanced) = &*told.0.lock().unwrap();
    assert_eq!(
        (begun.as_slice(), *advanced),
        (&[report.original_bytes()][..], report.original_bytes())
    );
    let others = report.files.iter().filter(|file| file.original.is_some());
    let others: Vec<_> = others.map(|file| file.output.clone().unwrap()).collect();
    assert_eq!(others, PACKED.map(as_path));
    assert_eq!(report.files.len(), 3 + PACKED.len());
    let rest = rest(report);
    let refused: Vec<_> = rest
        .not_packed
        .iter()
        .map(|(path, _)| path.clone())
        .collect();
    assert_eq!(
        refused,
        ["pointer.gguf", "safetensors.pt"].map(PathBuf::from)
    );
    for name in ["notes.bin", "pointer.gguf", "safetensors.pt"] {
        assert!(rest.copied.contains(&name.into()), "{name}");
    }

    // The tensors have the same values as in the original files.
    for name in PACKED {
        let plain = Reader::open(at("model").join(name.strip_suffix(".zstn").unwrap())).unwrap();
        let packed = Reader::open(at("packed").join(name)).unwrap();
        for tensor in plain.names() {
            let read = |reader: &Reader| reader.read(tensor).expect(name).bytes;
            assert!(read(&plain) == read(&packed), "{name}: {tensor}");
        }
    }

    let against = VerifyOptions::default().original(at("model"));
    let verified = zstn::verify(&job(), at("packed"), &against).unwrap();
    assert!(verified.identical);
    assert_eq!(verified.files.len(), 3 + PACKED.len());
    let report = unpack(&at("packed"), &at("back")).unwrap();
    assert_eq!(report.files.len(), 3 + PACKED.len());
    assert!(tree(&at("back")) == files);

    // A damaged original is found, and so is one that differs.
    let mut changed = files["extra/weights.npy"].clone();
    *changed.last_mut().unwrap() ^= 1;
    fs::write(at("model/extra/weights.npy"), changed).unwrap();
    let out = zstn(scratch.path(), &["verify", "packed", "--against", "model"]);
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
}

#[test]
fn a_folder_without_safetensors_files_is_packed() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let files: Files = [
        ("config.json".to_owned(), b"{}".to_vec()),
        (
            "model.gguf".to_owned(),
            cases::read("gguf", "k-blocks.gguf"),
        ),
        ("x.npy".to_owned(), npy(4, 300)),
    ]
    .into();
    plant(&at("model"), &files);
    run(scratch.path(), &["pack", "model"]);
    assert_eq!(
        names(&at("model-zstn")),
        ["config.json", "model.gguf.zstn", "x.npy.zstn"]
    );
    // Commands that read choose the file that they choose in the original folder.
    let listed = |folder: &str| json(&zstn(scratch.path(), &["ls", folder, "--json"]));
    let [plain, packed] = ["model", "model-zstn"].map(listed);
    let beside = at("model/model.gguf.zstn");
    fs::copy(at("model-zstn/model.gguf.zstn"), &beside).unwrap();
    assert!(listed("model") == plain);
    fs::remove_file(beside).unwrap();
    let tensors = |listed: &serde_json::Value| {
        let tensors = listed["tensors"].as_array().unwrap().iter();
        let mut names: Vec<_> = tensors.map(|tensor| tensor["name"].to_string()).collect();
        names.sort();
        names
    };
    assert_eq!(tensors(&plain), tensors(&packed));
    run(
        scratch.path(),
        &["verify", "model-zstn", "--against", "model"],
    );
    fs::rename(at("model"), at("original")).unwrap();
    run(scratch.path(), &["unpack", "model-zstn"]);
    assert!(read(&at("model")) == files);
}

#[test]
fn deltas_leave_other_formats_whole() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let tuned = mixed(true);
    plant(&at("base"), &model(false));
    plant(&at("tuned"), &tuned);
    run(scratch.path(), &["pack", "tuned", "--base", "base"]);
    assert!(at("tuned-z4dm/model.gguf.zstn").is_file());
    assert!(
        at("tuned-z4dm")
            .join(SECOND.replace("safetensors", "z4dm"))
            .is_file()
    );
    let unpack = ["unpack", "tuned-z4dm", "--base", "base", "-o", "back"];
    run(scratch.path(), &unpack);
    assert!(tree(&at("back")) == tuned);
}

#[test]
fn no_name_is_used_twice() {
    let packed = |files: &[(&str, Vec<u8>)]| {
        let scratch = tempfile::tempdir().unwrap();
        let files = files
            .iter()
            .map(|(name, bytes)| ((*name).to_owned(), bytes.clone()));
        plant(&scratch.path().join("model"), &files.collect());
        let result = pack(
            &scratch.path().join("model"),
            &scratch.path().join("packed"),
        );
        (result, scratch)
    };
    let gguf = || cases::read("gguf", "k-blocks.gguf");
    let weights = || checkpoint(&[("x", "U8", &[1, 2, 3])]);
    for (files, sentence) in [
        (
            [
                ("model.gguf", gguf()),
                ("model.gguf.safetensors", weights()),
            ],
            "two files of the result would be called model.gguf.zstn",
        ),
        (
            [("model.gguf", gguf()), ("model.gguf.zstn", b"x".to_vec())],
            "two files of the result would be called model.gguf.zstn",
        ),
    ] {
        let (result, scratch) = packed(&files);
        let said = result.unwrap_err().to_string();
        assert!(said.contains(sentence), "{said}");
        assert_eq!(names(scratch.path()), ["model"]);
    }
    // A file that was packed before would be restored as well.
    let (result, scratch) = packed(&[("x.gguf", gguf())]);
    result.unwrap();
    let before = fs::read(scratch.path().join("packed/x.gguf.zstn")).unwrap();
    let files = [("model.safetensors", weights()), ("x.gguf.zstn", before)];
    let (result, _scratch) = packed(&files);
    let said = result.unwrap_err().to_string();
    assert!(said.contains("x.gguf.zstn"), "{said}");
    // The name of a safetensors file may end like that of another format.
    let (result, scratch) = packed(&[("a.pt.safetensors", weights()), ("b.gguf", gguf())]);
    result.unwrap();
    let back = scratch.path().join("back");
    unpack(&scratch.path().join("packed"), &back).unwrap();
    assert_eq!(names(Path::new(&back)), ["a.pt.safetensors", "b.gguf"]);
}
