//! Sharded checkpoints: packed folders are restored byte for byte, and shards are
//! packed as deltas from the shards of a base.

mod folders;
mod other_bases;
mod other_formats;
mod other_shards;
mod refusals;
mod remote;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tempfile::TempDir;
use zstn::{
    Engine, FolderReport, Job, PackOptions, PackReport, PackedFile, Progress, Storage,
    UnpackOptions, UnpackReport, VerifyOptions,
};
use zstn_core::Rule;
use zstn_tests::rng::Rng;
use zstn_tests::{checkpoint, with_header};

const INDEX: &str = "model.safetensors.index.json";
const FIRST: &str = "model-00001-of-00003.safetensors";
const SECOND: &str = "model-00002-of-00003.safetensors";
const THIRD: &str = "model-00003-of-00003.safetensors";

/// The files of a folder, by name.
type Files = BTreeMap<String, Vec<u8>>;

/// Returns a reproducible checkpoint in three shards with the usual additional files.
/// With `tuned`, some bytes of every shard differ.
fn model(tuned: bool) -> Files {
    let mut rng = Rng(31);
    let mut weights = |count: usize| {
        let mut weights = rng.bf16_weights(count);
        if tuned {
            weights.iter_mut().step_by(500).for_each(|byte| *byte ^= 1);
        }
        weights
    };
    let (embed, norm, up, head) = (
        weights(40_000),
        weights(64),
        weights(30_000),
        weights(20_000),
    );
    let index = format!(
        "{{\n  \"metadata\": {{\"total_size\": 180128}},\n  \"weight_map\": {{\n    \
         \"head\": \"{THIRD}\",\n    \"embed\": \"{FIRST}\",\n    \"norm\": \"{FIRST}\",\n    \
         \"up\": \"{SECOND}\"\n  }}\n}}\n"
    );
    let files: [(&str, Vec<u8>); 6] = [
        (
            FIRST,
            checkpoint(&[("embed", "BF16", &embed), ("norm", "BF16", &norm)]),
        ),
        (SECOND, checkpoint(&[("up", "BF16", &up)])),
        // The index does not list `extra`.
        (
            THIRD,
            checkpoint(&[("head", "BF16", &head), ("extra", "BF16", &norm)]),
        ),
        (INDEX, index.into_bytes()),
        ("config.json", b"{\"hidden_size\": 64}\n".to_vec()),
        ("tokenizer.model", rng.bytes(3000)),
    ];
    files.map(|(name, bytes)| (name.to_owned(), bytes)).into()
}

fn write(folder: &Path, files: &Files) {
    std::fs::create_dir_all(folder).unwrap();
    for (name, bytes) in files {
        std::fs::write(folder.join(name), bytes).unwrap();
    }
}

fn read(folder: &Path) -> Files {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    entries
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, std::fs::read(entry.path()).unwrap())
        })
        .collect()
}

/// Creates a temporary folder with the model in `model`.
fn scratch(files: &Files) -> (TempDir, PathBuf) {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("model");
    write(&folder, files);
    (scratch, folder)
}

/// Returns the names of all entries in a folder, including hidden ones.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let mut names: Vec<_> = entries
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn engine() -> Engine {
    Engine::new(2).unwrap()
}

fn job() -> Job<'static> {
    Job::new().engine(&engine())
}

fn pack(input: &Path, target: &Path) -> zstn::Result<PackReport> {
    zstn::pack(&job(), input, target, &PackOptions::default())
}

fn unpack(input: &Path, target: &Path) -> zstn::Result<UnpackReport> {
    zstn::unpack(&job(), input, target, &UnpackOptions::default())
}

/// Returns the report about the other files of the folder.
fn rest(report: PackReport) -> FolderReport {
    report.folder.expect("a folder was made")
}

fn rule(error: &zstn::Error) -> Option<Rule> {
    error.refusal().and_then(zstn_core::Error::rule)
}

/// The reported progress, in bytes.
#[derive(Default)]
struct Told(Mutex<(Vec<u64>, u64)>);

impl Progress for Told {
    fn begin(&self, len_bytes: u64) {
        self.0.lock().unwrap().0.push(len_bytes);
    }

    fn advance(&self, len_bytes: u64) {
        self.0.lock().unwrap().1 += len_bytes;
    }
}

#[test]
fn a_folder_comes_back_byte_for_byte() {
    let mut files = model(false);
    files.insert(".gitattributes".into(), b"*".to_vec());
    let (scratch, folder) = scratch(&files);
    #[cfg(unix)]
    for name in [FIRST, INDEX, "config.json"] {
        // Caches of models contain links to files outside the folder.
        let elsewhere = scratch.path().join(name);
        std::fs::rename(folder.join(name), &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, folder.join(name)).unwrap();
    }
    let (packed, back) = (scratch.path().join("packed"), scratch.path().join("back"));

    let told = Told::default();
    let watched = job().progress(&told);
    let report = zstn::pack(&watched, &folder, &packed, &PackOptions::default()).unwrap();
    let result = read(&packed);
    assert_eq!(
        result.keys().map(String::as_str).collect::<Vec<_>>(),
        [
            ".gitattributes",
            "config.json",
            "model-00001-of-00003.zstn",
            "model-00002-of-00003.zstn",
            "model-00003-of-00003.zstn",
            "model.zstn.index.json",
            "tokenizer.model",
        ]
    );
    let original: usize = [FIRST, SECOND, THIRD]
        .map(|name| files[name].len())
        .iter()
        .sum();
    assert_eq!(report.original_bytes(), original as u64);
    let output = |file: &PackedFile| {
        let output = file.output.as_ref().unwrap().to_str().unwrap();
        result[output].clone()
    };
    let stored = report.files.iter().map(|file| output(file).len());
    assert_eq!(report.packed_bytes(), stored.sum::<usize>() as u64);
    assert_eq!(
        *told.0.lock().unwrap(),
        (vec![original as u64], original as u64)
    );

    // Each packed shard equals the container from packing the file alone.
    for file in &report.files {
        let alone = scratch.path().join("alone.zstn");
        zstn::pack(
            &job(),
            folder.join(&file.input),
            &alone,
            &PackOptions::default(),
        )
        .unwrap();
        assert!(std::fs::read(&alone).unwrap() == output(file));
    }
    let others = rest(report);
    let copied = [".gitattributes", "config.json", "tokenizer.model"].map(PathBuf::from);
    assert_eq!(others.copied, copied);
    assert!(others.left_out.is_empty());
    let report = unpack(&packed, &back).unwrap();
    assert_eq!(report.original_bytes(), original as u64);
    assert!(read(&back) == files);
}

#[test]
fn an_index_brings_its_shards_and_the_configuration() {
    let mut files = model(false);
    let (scratch, folder) = scratch(&files);
    let (packed, back) = (scratch.path().join("packed"), scratch.path().join("back"));
    let report = pack(&folder.join(INDEX), &packed).unwrap();
    let others = rest(report);
    assert_eq!(
        (others.copied, others.left_out),
        (vec!["config.json".into()], vec![])
    );
    unpack(&packed.join("model.zstn.index.json"), &back).unwrap();
    files.remove("tokenizer.model");
    assert!(read(&back) == files);
    std::fs::remove_file(folder.join("config.json")).unwrap();
    let report = pack(&folder.join(INDEX), &scratch.path().join("bare")).unwrap();
    assert!(rest(report).copied.is_empty());
}

#[test]
fn a_folder_with_one_file_needs_no_index() {
    let mut files = Files::new();
    files.insert(
        "weights.safetensors".into(),
        checkpoint(&[("w", "U8", b"0123")]),
    );
    files.insert("config.json".into(), b"{}".to_vec());
    let (scratch, folder) = scratch(&files);
    let (packed, back) = (scratch.path().join("packed"), scratch.path().join("back"));
    assert_eq!(rest(pack(&folder, &packed).unwrap()).index, None);
    assert_eq!(names(&packed), ["config.json", "weights.zstn"]);
    unpack(&packed, &back).unwrap();
    assert!(read(&back) == files);

    // Of several checkpoints, only the one called `model` is packed, or all of them if
    // none has this name.
    let adapter = checkpoint(&[("lora", "U8", &[1, 2, 3])]);
    std::fs::write(folder.join("adapter.safetensors"), adapter).unwrap();
    pack(&folder, &scratch.path().join("all")).unwrap();
    assert_eq!(
        names(&scratch.path().join("all")),
        ["adapter.zstn", "config.json", "weights.zstn"]
    );
    std::fs::rename(
        folder.join("weights.safetensors"),
        folder.join("model.safetensors"),
    )
    .unwrap();
    pack(&folder, &scratch.path().join("two")).unwrap();
    assert_eq!(
        names(&scratch.path().join("two")),
        ["adapter.safetensors", "config.json", "model.zstn"]
    );
}

#[test]
fn a_shard_outside_the_rules_is_kept_whole() {
    let mut files = model(false);
    let header = br#"{"up":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}"#;
    let odd = with_header(header, b"12 and more than that");
    files.insert(SECOND.into(), odd);
    let (scratch, folder) = scratch(&files);
    let (packed, back) = (scratch.path().join("packed"), scratch.path().join("back"));
    let report = pack(&folder, &packed).unwrap();
    let packed_files = report.files.iter();
    let indexed = packed_files.map(|file| matches!(file.storage, Storage::Indexed { .. }));
    assert_eq!(indexed.collect::<Vec<_>>(), [true, false, true]);
    unpack(&packed, &back).unwrap();
    assert!(read(&back) == files);
}

#[test]
fn shards_that_are_processed_at_the_same_time_give_the_same_result() {
    let files = model(false);
    let (scratch, folder) = scratch(&files);
    let at = |name: &str| scratch.path().join(name);
    let options = PackOptions::default();
    zstn::pack(&job(), &folder, at("two"), &options).unwrap();
    // Four of eight threads begin a shard each.
    let eight = Job::new().engine(&Engine::new(8).unwrap());
    for round in 0..4 {
        let [packed, back] = ["packed", "back"].map(|name| at(&format!("{name}-{round}")));
        let report = zstn::pack(&eight, &folder, &packed, &options).unwrap();
        let names: Vec<_> = report.files.iter().map(|file| &*file.input).collect();
        assert_eq!(names, [FIRST, SECOND, THIRD]);
        assert!(read(&packed) == read(&at("two")));
        zstn::unpack(&eight, &packed, &back, &UnpackOptions::default()).unwrap();
        assert!(read(&back) == files);
        // The first damaged shard is named, whichever fails first.
        for name in [SECOND, THIRD] {
            let path = packed.join(name.replace(".safetensors", ".zstn"));
            let mut bytes = std::fs::read(&path).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            std::fs::write(&path, bytes).unwrap();
        }
        let error = zstn::verify(&eight, &packed, &VerifyOptions::default()).unwrap_err();
        assert!(
            error.to_string().contains("model-00002-of-00003"),
            "{error}"
        );
        let target = at("nothing");
        zstn::unpack(&eight, &packed, &target, &UnpackOptions::default()).unwrap_err();
        assert!(!target.exists());
    }
}

#[test]
fn verifying_finds_what_differs() {
    let files = model(false);
    let (scratch, folder) = scratch(&files);
    let packed = scratch.path().join("packed");
    pack(&folder, &packed).unwrap();
    let verify = || {
        let options = VerifyOptions::default().original(&folder);
        zstn::verify(&job(), &packed, &options)
    };
    assert_eq!(verify().unwrap().indexed_tensors, 4);
    let mut shard = files[SECOND].clone();
    *shard.last_mut().unwrap() ^= 1;
    std::fs::write(folder.join(SECOND), &shard).unwrap();
    let error = verify().unwrap_err();
    assert!(matches!(error, zstn::Error::Differs { .. }), "{error}");
    assert!(
        error.to_string().contains("model-00002-of-00003"),
        "{error}"
    );
    write(&folder, &files);
    let index = String::from_utf8(files[INDEX].clone()).unwrap();
    std::fs::write(folder.join(INDEX), index.replace("180128", "180129")).unwrap();
    let error = verify().unwrap_err();
    assert!(
        error.to_string().contains(&format!("{INDEX} differs")),
        "{error}"
    );
}

#[test]
fn deltas_go_shard_by_shard() {
    let (tuned, base) = (model(true), model(false));
    let (scratch, input) = scratch(&tuned);
    let at = |name: &str| scratch.path().join(name);
    write(&at("base"), &base);
    let options = PackOptions::default().base(at("base"));
    let report = zstn::pack(&job(), &input, at("d"), &options).unwrap();
    assert!(report.packed_bytes() * 10 < report.original_bytes());
    let index = rest(report).index;
    assert_eq!(index.as_deref(), Some("model.z4dm.index.json"));
    let unpack_with = |packed: &str, bases: &[PathBuf], target: &str| {
        let options = UnpackOptions::default();
        let options = bases.iter().fold(options, |o, base| o.base(base));
        zstn::unpack(&job(), at(packed), at(target), &options)
    };
    unpack_with("d", &[at("base")], "back").unwrap();
    assert!(read(&at("back")) == tuned);
    let options = VerifyOptions::default().base(at("base")).original(&input);
    let verified = zstn::verify(&job(), at("d"), &options).unwrap();
    assert_eq!((verified.files.len(), verified.indexed_tensors), (3, 4));
    assert!(verified.compared);

    let refused = |bases: &[PathBuf], sentence: &str| {
        let error = unpack_with("d", bases, "x").unwrap_err();
        assert!(error.to_string().contains(sentence), "{error}");
    };
    refused(&[], "give that checkpoint as its base");
    refused(std::slice::from_ref(&input), "made against");
    // One file is not the base of all shards, but there may be more files.
    refused(&[at("base").join(FIRST)], "made against");
    let mut more = model(false);
    let index = String::from_utf8(more[INDEX].clone()).unwrap();
    let index = index.replace("\"up\"", "\"more\": \"more.safetensors\",\n \"up\"");
    more.insert(INDEX.into(), index.into_bytes());
    write(&at("more"), &more);
    refused(&[at("more")], "is not there");
    let file = checkpoint(&[("more", "U8", b"more")]);
    std::fs::write(at("more").join("more.safetensors"), file).unwrap();
    unpack_with("d", &[at("more")], "with-more").unwrap();
    assert!(read(&at("with-more")) == tuned);
    pack(&input, &at("packed")).unwrap();
    let error = unpack_with("packed", &[at("base")], "x").unwrap_err();
    assert!(error.to_string().contains("takes no base"), "{error}");
    // The base is a single file in memory.
    let options = UnpackOptions::default().base(base[FIRST].clone());
    let error = zstn::unpack(&job(), at("d"), at("x"), &options).unwrap_err();
    assert!(error.to_string().contains("in memory"), "{error}");
    assert!(!at("x").exists());
}

#[test]
fn packed_shards_and_deltas_are_bases() {
    let (tuned, plain) = (model(true), model(false));
    let (scratch, input) = scratch(&tuned);
    let at = |name: &str| scratch.path().join(name);
    write(&at("plain"), &plain);
    pack(&at("plain"), &at("zstn")).unwrap();
    for base in ["plain", "zstn"] {
        let target = at(&format!("delta-{base}"));
        let options = PackOptions::default().base(at(base));
        zstn::pack(&job(), &input, target, &options).unwrap();
    }
    assert!(read(&at("delta-plain")) == read(&at("delta-zstn")));
    // The first generation packed as a delta from the second.
    let chain = ["delta-zstn", "zstn"];
    let options = chain.iter();
    let options = options.fold(PackOptions::default(), |o, name| o.base(at(name)));
    zstn::pack(&job(), at("plain"), at("again"), &options).unwrap();
    let unpack_with = |bases: &[&str], target: &str| {
        let options = bases.iter();
        let options = options.fold(UnpackOptions::default(), |o, name| o.base(at(name)));
        zstn::unpack(&job(), at("again"), at(target), &options)
    };
    unpack_with(&chain, "back").unwrap();
    assert!(read(&at("back")) == plain);
    let options = VerifyOptions::default().original(at("plain"));
    let options = chain.iter().fold(options, |o, name| o.base(at(name)));
    let verified = zstn::verify(&job(), at("again"), &options).unwrap();
    assert!(verified.compared);

    let refused = |bases: &[&str], sentence: &str| {
        let error = unpack_with(bases, "x").unwrap_err();
        assert!(error.to_string().contains(sentence), "{error}");
        assert!(!at("x").exists());
    };
    refused(&["delta-zstn"], "give that checkpoint as its base");
    refused(&["zstn"], "made against");
    refused(&["zstn", "plain"], "takes no base");
    let shard = at("zstn").join("model-00002-of-00003.zstn");
    let mut damaged = std::fs::read(&shard).unwrap();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 4;
    std::fs::write(&shard, damaged).unwrap();
    refused(&["delta-zstn", "zstn"], "model-00002-of-00003.zstn");
}
