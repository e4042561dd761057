//! Packed folders are restored byte for byte.

use std::path::PathBuf;

use zstn::{PackOptions, PackedFile, Storage, VerifyOptions};
use zstn_tests::checkpoint;

use super::*;

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
    let mut odd = (header.len() as u64).to_le_bytes().to_vec();
    odd.extend_from_slice(header);
    odd.extend_from_slice(b"12 and more than that");
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
