//! Models in several files of other formats: GGUF files that name each other, and files of
//! PyTorch and Keras with an index (docs/formats/sharded.md 1 and 2, gguf.md 6).

use std::fs;

use zstn::{Reader, View};
use zstn_tests::archives::{Archive, state_dict};
use zstn_tests::cases;
use zstn_tests::gguf::{F32, GgufTensor, Value, file, part, three_parts};

use super::folders::plant;
use super::*;

fn gguf_files() -> Files {
    three_parts().into()
}

fn names_of(reader: &Reader) -> Vec<&str> {
    reader.names().collect()
}

#[test]
fn the_first_of_several_gguf_files_opens_the_model() {
    let (_scratch, folder) = scratch(&gguf_files());
    let [first, second, _] = three_parts().map(|(name, _)| folder.join(name));
    let stored = Reader::options().view(View::Stored);
    for reader in [
        Reader::open(&first).unwrap(),
        Reader::open(&folder).unwrap(),
        stored.open(&folder).unwrap(),
    ] {
        assert_eq!(names_of(&reader), ["a", "b", "c", "d"]);
        assert_eq!(reader.sources().len(), 3);
        assert_eq!(reader.model().kind().name(), "gguf");
        let rows = reader.read_rows("d", 1..2).unwrap();
        assert_eq!(rows.to_vec::<f32>().unwrap(), [43.0, 44.0, 45.0]);
    }
    // Any other file, and the first one as it is stored, are opened by themselves.
    assert_eq!(names_of(&Reader::open(second).unwrap()), ["b", "c"]);
    assert_eq!(names_of(&stored.open(&first).unwrap()), ["a"]);

    // A program that looks at one file downloads only this one.
    let alone = tempfile::tempdir().unwrap();
    let copy = alone.path().join("renamed.gguf");
    fs::copy(first, &copy).unwrap();
    assert_eq!(names_of(&Reader::open(copy).unwrap()), ["a"]);
}

#[test]
fn gguf_files_that_do_not_belong_together_are_refused() {
    let [first, second, third] = three_parts();
    let opened = |files: &[(&str, &[u8])]| {
        let scratch = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            fs::write(scratch.path().join(name), bytes).unwrap();
        }
        let reader = Reader::open(scratch.path().join(&first.0));
        reader.map(|reader| names_of(&reader).join(" "))
    };
    let tensor: [GgufTensor; 1] = [("x", F32, &[1], vec![0; 4])];
    let without_place = file(&[("general.name", Value::Text("x"))], &tensor);
    let short = part(2, 3, 4, &[]);
    let npy = zstn_tests::checkpoints::npy(2, 3);
    for (files, expected, sentence) in [
        (
            [&first.1, &second.1, &short],
            Rule::GgufSplit,
            "have 3 tensors",
        ),
        (
            [&first.1, &third.1, &second.1],
            Rule::GgufSplit,
            "file 3 of 3",
        ),
        (
            [&first.1, &second.1, &without_place],
            Rule::GgufSplit,
            "in one file",
        ),
        ([&first.1, &npy, &third.1], Rule::GgufSplit, "format npy"),
    ] {
        let [one, two, three] = files.map(Vec::as_slice);
        let error = opened(&[(&first.0, one), (&second.0, two), (&third.0, three)]).unwrap_err();
        assert_eq!(rule(&error), Some(expected), "{error}");
        assert!(error.to_string().contains(sentence), "{error}");
    }
    let error = opened(&[(&first.0, &first.1), (&second.0, &second.1)]).unwrap_err();
    assert_eq!(rule(&error), Some(Rule::ShardMissing), "{error}");
    assert!(error.to_string().contains(&third.0), "{error}");
    // The metadata decide whether there are other files.
    let names = opened(&[(&first.0, &without_place)]).unwrap();
    assert_eq!(names, "x");
    let names = opened(&[(&first.0, &part(0, 2, 1, &tensor))]).unwrap();
    assert_eq!(names, "x");
}

#[test]
fn packed_gguf_files_open_like_their_originals() {
    let files = gguf_files();
    let (scratch, folder) = scratch(&files);
    let at = |name: &str| scratch.path().join(name);
    pack(&folder, &at("packed")).unwrap();
    let [first, _, third] = three_parts().map(|(name, _)| format!("{name}.zstn"));
    let plain = Reader::open(&folder).unwrap();
    for path in [at("packed"), at("packed").join(&first)] {
        let packed = Reader::open(path).unwrap();
        assert_eq!(names_of(&packed), names_of(&plain));
        for name in plain.names() {
            assert_eq!(packed.read(name).unwrap(), plain.read(name).unwrap());
        }
    }
    unpack(&at("packed"), &at("back")).unwrap();
    assert!(read(&at("back")) == files);

    fs::remove_file(at("packed").join(&third)).unwrap();
    let error = Reader::open(at("packed").join(first)).err().unwrap();
    assert_eq!(rule(&error), Some(Rule::ShardMissing), "{error}");
    assert!(error.to_string().contains(&third), "{error}");
}

const PYTORCH_INDEX: &str = "pytorch_model.bin.index.json";

/// Returns a checkpoint in two PyTorch files with an index.
fn pytorch_files() -> Files {
    let [one, two] = [1, 2].map(|number| format!("pytorch_model-{number:05}-of-00002.bin"));
    let archive = |name: &str| {
        let values: Vec<u8> = (0..4u8).flat_map(|n| f32::from(n).to_le_bytes()).collect();
        let tensors = [(name.to_owned(), "0".to_owned(), 4)];
        Archive::default()
            .aligned("m/data.pkl", &state_dict(&tensors))
            .aligned("m/byteorder", b"little")
            .aligned("m/data/0", &values)
            .finish()
    };
    let index = format!(r#"{{"metadata":{{}},"weight_map":{{"a":"{one}","b":"{two}"}}}}"#);
    [
        (one, archive("a")),
        (two, archive("b")),
        (PYTORCH_INDEX.to_owned(), index.into_bytes()),
        ("training_args.bin".to_owned(), b"no model".to_vec()),
    ]
    .into()
}

#[test]
fn an_index_of_pytorch_files_opens_the_model() {
    let files = pytorch_files();
    let (scratch, folder) = scratch(&files);
    let at = |name: &str| scratch.path().join(name);
    pack(&folder, &at("packed")).unwrap();
    assert!(at("packed").join(PYTORCH_INDEX).is_file());
    for folder in [folder, at("packed")] {
        for path in [folder.join(PYTORCH_INDEX), folder] {
            let reader = Reader::open(&path).unwrap();
            assert_eq!(names_of(&reader), ["a", "b"], "{}", path.display());
            let values = reader.read("b").unwrap().to_vec::<f32>().unwrap();
            assert_eq!(values, [0.0, 1.0, 2.0, 3.0]);
            let only = Reader::options().only("b").open(path).unwrap();
            assert_eq!(names_of(&only), ["b"]);
        }
    }
    unpack(&at("packed"), &at("back")).unwrap();
    assert!(read(&at("back")) == files);

    // A checkpoint in one file is found by its usual name.
    let single = at("single");
    let by_hand = cases::read("pytorch", "by-hand.pt");
    plant(&single, &[("pytorch_model.bin".to_owned(), by_hand)].into());
    assert!(Reader::open(single).unwrap().names().next().is_some());
}

/// Weights that Keras 3.15.1 wrote in two files: the values of all tensors together are
/// 0, 1, 2, …
#[test]
fn an_index_of_keras_opens_the_model() {
    let names = ["m.weights.json", "m_00000.weights.h5", "m_00001.weights.h5"];
    let files: Files = names
        .map(|name| (name.to_owned(), cases::read("keras-sharded", name)))
        .into();
    let (scratch, folder) = scratch(&files);
    let at = |name: &str| scratch.path().join(name);
    pack(&folder, &at("packed")).unwrap();
    for folder in [folder.clone(), at("packed")] {
        for path in [folder.join(names[0]), folder] {
            let reader = Reader::open(&path).unwrap();
            let expected = [
                "layers/dense/vars/0",
                "layers/dense/vars/1",
                "layers/dense_1/vars/0",
                "layers/dense_1/vars/1",
            ];
            assert_eq!(names_of(&reader), expected, "{}", path.display());
            let tensors = expected.map(|name| reader.read(name).unwrap());
            let values = tensors.map(|tensor| tensor.to_vec::<f32>().unwrap());
            assert_eq!(
                values.concat(),
                (0..26u8).map(f32::from).collect::<Vec<_>>()
            );
        }
    }
    unpack(&at("packed"), &at("back")).unwrap();
    assert!(read(&at("back")) == files);

    fs::remove_file(folder.join(names[2])).unwrap();
    let error = Reader::open(folder.join(names[0])).err().unwrap();
    assert_eq!(rule(&error), Some(Rule::ShardMissing), "{error}");
}
