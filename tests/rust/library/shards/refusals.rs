//! Refused operations, which leave no files.

use zstn_core::Rule;

use super::*;

#[test]
fn an_index_that_is_not_true_is_refused_and_leaves_nothing() {
    let index = String::from_utf8(model(false)[INDEX].clone()).unwrap();
    for (from, to, expected) in [
        (SECOND, "gone.safetensors", Rule::ShardMissing),
        (SECOND, "../model.safetensors", Rule::ShardFileName),
        (SECOND, "/etc/passwd", Rule::ShardFileName),
        (SECOND, "model-00002-of-00003.bin", Rule::ShardRenaming),
        ("180128", "\"x.zstn\"", Rule::ShardRenaming),
        ("weight_map", "weights", Rule::ShardIndex),
    ] {
        let mut files = model(false);
        files.insert(INDEX.into(), index.replace(from, to).into_bytes());
        let (scratch, folder) = scratch(&files);
        let error = pack(&folder.join(INDEX), &scratch.path().join("packed")).expect_err(to);
        assert_eq!(rule(&error), Some(expected), "{to}: {error}");
        assert_eq!(names(scratch.path()), ["model"], "{to}");
        // When the whole folder is packed, the index is copied, so no file is lost.
        let (packed, back) = (scratch.path().join("packed"), scratch.path().join("back"));
        let others = rest(pack(&folder, &packed).expect(to));
        assert_eq!(others.not_packed.len(), 1, "{to}: {:?}", others.not_packed);
        assert_eq!(others.not_packed[0].0, Path::new(INDEX));
        assert!(packed.join("model-00001-of-00003.zstn").is_file(), "{to}");
        assert!(packed.join("model-00003-of-00003.zstn").is_file(), "{to}");
        verify_against(&packed, &folder);
        unpack(&packed, &back).expect(to);
        assert!(read(&back) == files, "{to}");
    }
    // A packed index with wrong file names is refused in the same way.
    let (scratch, folder) = scratch(&model(false));
    let packed = scratch.path().join("packed");
    pack(&folder, &packed).unwrap();
    let path = packed.join("model.zstn.index.json");
    let text = std::fs::read_to_string(&path).unwrap();
    for (from, to, expected) in [
        ("model-00002", "model-00009", Rule::ShardMissing),
        ("model-00002", "../packed/model-00002", Rule::ShardFileName),
    ] {
        std::fs::write(&path, text.replace(from, to)).unwrap();
        let error = unpack(&packed, &scratch.path().join("back")).expect_err(to);
        assert_eq!(rule(&error), Some(expected), "{to}: {error}");
        assert_eq!(names(scratch.path()), ["model", "packed"], "{to}");
    }
}

fn verify_against(packed: &Path, original: &Path) {
    let options = VerifyOptions::default().original(original);
    let report = zstn::verify(&job(), packed, &options).expect("the same");
    assert!(report.identical && report.unchecked_files.is_empty());
}

#[test]
fn a_tensor_that_only_the_index_knows_stops_nothing() {
    let index = String::from_utf8(model(false)[INDEX].clone()).unwrap();
    let mut files = model(false);
    files.insert(
        INDEX.into(),
        index.replace("\"up\"", "\"down\"").into_bytes(),
    );
    let (scratch, folder) = scratch(&files);
    let (packed, back) = (scratch.path().join("packed"), scratch.path().join("back"));
    let others = rest(pack(&folder, &packed).unwrap());
    assert_eq!(others.missing_tensors, ["down"]);
    verify_against(&packed, &folder);
    let report = zstn::verify(&job(), packed.as_path(), &Default::default()).unwrap();
    assert_eq!(report.missing_tensors, ["down"]);
    unpack(&packed, &back).unwrap();
    assert!(read(&back) == files);
    for location in [&folder, &packed] {
        let reader = zstn::Reader::options().open(location.as_path()).unwrap();
        let up = reader.read("up").unwrap();
        assert_eq!(up.bytes.len(), 60_000);
        let error = reader.read("down").unwrap_err();
        assert_eq!(rule(&error), Some(Rule::ShardTensorMissing), "{error}");
        assert_eq!(reader.model().refused().count(), 1);
    }
}

#[test]
fn what_could_not_be_restored_is_not_packed() {
    for (stray, sentence) in [
        ("model-00001-of-00003.zstn", "would be called"),
        ("other.zstn.index.json", "could not be told apart"),
    ] {
        let mut files = model(false);
        files.insert(stray.into(), b"{}".to_vec());
        let (scratch, folder) = scratch(&files);
        let error = pack(&folder, &scratch.path().join("packed")).expect_err(stray);
        assert!(error.to_string().contains(sentence), "{error}");
        assert!(error.to_string().contains(stray), "{error}");
    }
    // A packed file in the folder of a checkpoint is not ambiguous, so it is copied.
    let mut files = model(false);
    files.insert("consolidated.zstn".into(), b"as it is".to_vec());
    let (scratch, folder) = scratch(&files);
    let (packed, back) = (scratch.path().join("packed"), scratch.path().join("back"));
    pack(&folder, &packed).unwrap();
    unpack(&packed, &back).unwrap();
    assert!(read(&back) == files);
}

#[test]
fn an_error_half_way_leaves_nothing() {
    let mut files = model(false);
    files.insert(
        THIRD.into(),
        b"<!doctype html><title>Not found</title>".to_vec(),
    );
    let (scratch, folder) = scratch(&files);
    let error = pack(&folder.join(INDEX), &scratch.path().join("packed")).unwrap_err();
    assert!(error.to_string().contains("web page"), "{error}");
    assert_eq!(names(scratch.path()), ["model"]);

    write(&folder, &model(false));
    let packed = scratch.path().join("packed");
    pack(&folder, &packed).unwrap();
    let last = packed.join("model-00003-of-00003.zstn");
    let bytes = std::fs::read(&last).unwrap();
    std::fs::write(&last, &bytes[..bytes.len() - 100]).unwrap();
    unpack(&packed, &scratch.path().join("back")).unwrap_err();
    assert_eq!(names(scratch.path()), ["model", "packed"]);
}

#[test]
fn a_folder_that_is_there_is_never_replaced() {
    let (scratch, folder) = scratch(&model(false));
    let target = scratch.path().join("target");
    std::fs::create_dir(&target).unwrap();
    pack(&folder, &target).expect("an empty folder is as good as none");
    let before = read(&target);
    let error = pack(&folder, &target).unwrap_err();
    assert!(error.to_string().contains("never replaced"), "{error}");
    assert!(read(&target) == before);
    let file = scratch.path().join("file");
    std::fs::write(&file, "x").unwrap();
    pack(&folder, &file).unwrap_err();
    assert_eq!(std::fs::read(&file).unwrap(), b"x");
    assert_eq!(names(scratch.path()), ["file", "model", "target"]);
}
