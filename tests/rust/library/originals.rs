//! Files of other formats, and the tensors that their virtual headers should list.

use std::fmt::Write as _;
use zstn_tests::archives::{Archive, StoredTensor, pickle, tar};
use zstn_tests::cases;
use zstn_tests::protobuf::{Message, model, tensor};
use zstn_tests::rng::Rng;
use zstn_tests::tflite::{Tensor, Writer};

/// A file of some format, and the virtual header that it should get.
pub(super) struct Original {
    pub kind: &'static str,
    pub name: &'static str,
    pub bytes: Vec<u8>,
    /// The tensors that are entries: name, dtype and shape.
    pub entries: &'static [(&'static str, &'static str, &'static [u64])],
    /// The tensors that are views.
    pub views: &'static [&'static str],
    pub is_complete: bool,
}

pub(super) fn f32s(rng: &mut Rng, count: usize) -> Vec<u8> {
    #[allow(clippy::cast_possible_truncation)]
    let weights = (0..count).flat_map(|_| (rng.normal(0.02) as f32).to_le_bytes());
    weights.collect()
}

/// A storage: its key, the number of its elements, and its bytes.
type Storage = (&'static str, usize, Vec<u8>);

/// Returns the pickle and the storages of a checkpoint whose tensors share storages in every
/// way.
fn shared_storages() -> (Vec<u8>, Vec<Storage>) {
    let mut rng = Rng(5);
    let storages = vec![
        ("0", 32_768, rng.bf16_weights(32_768)),
        ("1", 60_000, f32s(&mut rng, 60_000)),
        ("2", 15_360, f32s(&mut rng, 15_360)),
        ("3", 10_000, f32s(&mut rng, 10_000)),
        ("4", 64, f32s(&mut rng, 64)),
        ("5", 4096, f32s(&mut rng, 4096)),
        ("6", 1, 77i64.to_le_bytes().to_vec()),
    ];
    type Row<'a> = (&'a str, &'a str, &'a str, usize, &'a [usize], &'a [usize]);
    let rows: [Row; 14] = [
        ("embed", "BFloat16", "0", 0, &[256, 128], &[128, 1]),
        ("head", "BFloat16", "0", 0, &[256, 128], &[128, 1]),
        ("head_t", "BFloat16", "0", 0, &[128, 256], &[1, 128]),
        ("row", "BFloat16", "0", 640, &[128], &[1]),
        ("a", "Float", "1", 0, &[100, 200], &[200, 1]),
        ("b", "Float", "1", 20_000, &[20, 10, 100], &[1000, 100, 1]),
        ("only_t", "Float", "2", 0, &[160, 96], &[1, 160]),
        ("left", "Float", "3", 0, &[6000], &[1]),
        ("right", "Float", "3", 4000, &[60, 100], &[100, 1]),
        ("norm", "Float", "4", 0, &[64], &[1]),
        ("columns", "Float", "5", 3, &[64, 2], &[64, 7]),
        ("step", "Long", "6", 0, &[], &[]),
        ("empty", "Float", "4", 0, &[0, 7], &[7, 1]),
        ("one_row", "Float", "2", 160, &[1, 1, 160], &[9, 9, 1]),
    ];
    let tensors = rows.map(|(name, class, key, offset, shape, strides)| {
        let storage = storages.iter().find(|(of, ..)| *of == key);
        StoredTensor {
            name,
            class,
            key,
            storage_len: storage.expect("a storage").1,
            offset,
            shape,
            strides,
        }
    });
    (pickle(&tensors), storages)
}

const SHARED_ENTRIES: &[(&str, &str, &[u64])] = &[
    ("embed", "BF16", &[256, 128]),
    ("a", "F32", &[100, 200]),
    ("b", "F32", &[20, 10, 100]),
];

const SHARED_VIEWS: &[&str] = &[
    "head", "head_t", "row", "only_t", "left", "right", "norm", "columns", "step", "empty",
    "one_row",
];

pub(super) fn pytorch() -> Original {
    let (pickle, storages) = shared_storages();
    let archive = Archive::default().aligned("m/data.pkl", &pickle);
    let archive = archive.aligned("m/byteorder", b"little");
    let archive = storages.iter().fold(archive, |archive, (key, _, bytes)| {
        archive.aligned(&format!("m/data/{key}"), bytes)
    });
    Original {
        kind: "pytorch",
        name: "model.pt",
        bytes: archive.finish(),
        entries: SHARED_ENTRIES,
        views: SHARED_VIEWS,
        is_complete: true,
    }
}

/// The same checkpoint in the format from before version 1.6.
pub(super) fn legacy_pytorch() -> Original {
    let (pickle, storages) = shared_storages();
    let mut bytes = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.".to_vec();
    bytes.extend(b"\x80\x02M\xe9\x03.");
    bytes.extend(b"\x80\x02}(X\x0d\0\0\0little_endian\x88u.");
    bytes.extend(pickle);
    let mut keys = b"\x80\x02](".to_vec();
    for (key, ..) in &storages {
        keys.extend(zstn_tests::archives::text(key));
    }
    keys.extend(b"e.");
    bytes.extend(keys);
    for (_, count, storage) in storages {
        bytes.extend((count as u64).to_le_bytes());
        bytes.extend(storage);
    }
    Original {
        kind: "pytorch",
        name: "model.bin",
        bytes,
        entries: SHARED_ENTRIES,
        views: SHARED_VIEWS,
        is_complete: true,
    }
}

/// A checkpoint with a tensor that repeats its elements, which no view can do, and one in a
/// deflated storage.
fn unplaced_pytorch() -> Original {
    let mut rng = Rng(6);
    let tensor = |name, key, storage_len, shape, strides| StoredTensor {
        name,
        class: "Float",
        key,
        storage_len,
        offset: 0,
        shape,
        strides,
    };
    let pickle = pickle(&[
        tensor("weight", "0", 30_000, &[300, 100], &[100, 1]),
        tensor("expanded", "1", 2000, &[3, 2000], &[0, 1]),
        tensor("windows", "1", 2000, &[999, 1001], &[1, 1]),
        tensor("deflated", "2", 2000, &[2000], &[1]),
    ]);
    let archive = Archive::default().aligned("m/data.pkl", &pickle);
    let archive = archive.aligned("m/data/0", &f32s(&mut rng, 30_000));
    let archive = archive.aligned("m/data/1", &f32s(&mut rng, 2000));
    let archive = archive.deflated("m/data/2", &f32s(&mut rng, 2000));
    Original {
        kind: "pytorch",
        name: "model.pth",
        bytes: archive.finish(),
        entries: &[("weight", "F32", &[300, 100])],
        views: &[],
        is_complete: false,
    }
}

fn npy(descr: &str, is_fortran: bool, shape: &str, values: &[u8]) -> Vec<u8> {
    let order = if is_fortran { "True" } else { "False" };
    let mut dict = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}");
    while !(dict.len() + 11).is_multiple_of(64) {
        dict.push(' ');
    }
    let _ = writeln!(dict);
    let len = u16::try_from(dict.len()).expect("short").to_le_bytes();
    [b"\x93NUMPY\x01\0", &len[..], dict.as_bytes(), values].concat()
}

fn npz(is_complete: bool) -> Original {
    let mut rng = Rng(7);
    let weight = npy("<f4", false, "(128, 96)", &f32s(&mut rng, 128 * 96));
    let fortran = npy("<f4", true, "(64, 96)", &f32s(&mut rng, 64 * 96));
    let small = npy("<i8", false, "(5,)", &rng.bytes(40));
    let archive = Archive::default().member("weight.npy", &weight);
    let archive = archive.member("fortran.npy", &fortran);
    let archive = archive.member("small.npy", &small);
    let archive = match is_complete {
        true => archive,
        false => archive.deflated("deflated.npy", &small).member(
            "big.npy",
            &npy(">f4", false, "(2, 1100)", &f32s(&mut rng, 2200)),
        ),
    };
    Original {
        kind: "npz",
        name: "arrays.npz",
        bytes: archive.finish(),
        entries: &[("weight", "F32", &[128, 96])],
        views: &["fortran", "small"],
        is_complete,
    }
}

fn onnx(is_complete: bool) -> Original {
    let mut rng = Rng(8);
    let doubles = |rng: &mut Rng| -> Vec<u8> {
        (0..1200)
            .flat_map(|_| rng.normal(0.02).to_le_bytes())
            .collect()
    };
    let mut tensors = vec![
        tensor("weight", 1, &[128, 96]).bytes(9, f32s(&mut rng, 128 * 96)),
        tensor("half", 16, &[64, 80]).bytes(9, rng.bf16_weights(64 * 80)),
        tensor("packed", 1, &[60, 40]).bytes(4, f32s(&mut rng, 2400)),
        tensor("doubles", 11, &[12, 100]).bytes(10, doubles(&mut rng)),
        tensor("bias", 1, &[96]).bytes(9, f32s(&mut rng, 96)),
    ];
    if !is_complete {
        let numbers: Vec<u64> = (0..4096).collect();
        tensors.push(tensor("numbers", 7, &[4096]).packed(7, &numbers));
        let one = |message: Message, _| message.fixed(4, 0.5f32.to_le_bytes());
        tensors.push((0..3).fold(tensor("apart", 1, &[3]), one));
        // Packed numbers in two fields are not in one piece.
        let halves = [f32s(&mut rng, 1200), f32s(&mut rng, 1200)];
        let add = |message: Message, half: &Vec<u8>| message.bytes(4, half);
        tensors.push(halves.iter().fold(tensor("halves", 1, &[2400]), add));
    }
    Original {
        kind: "onnx",
        name: "model.onnx",
        bytes: model(&[], &tensors),
        entries: &[
            ("weight", "F32", &[128, 96]),
            ("half", "BF16", &[64, 80]),
            ("packed", "F32", &[60, 40]),
            ("doubles", "F64", &[12, 100]),
        ],
        views: &["bias"],
        is_complete,
    }
}

fn tflite(is_complete: bool) -> Original {
    let mut rng = Rng(9);
    let mut tensors = vec![
        Tensor("weight", 0, &[128, 96], f32s(&mut rng, 128 * 96)),
        Tensor("half", 18, &[64, 80], rng.bf16_weights(64 * 80)),
        Tensor("bias", 0, &[96], f32s(&mut rng, 96)),
    ];
    if !is_complete {
        tensors.push(Tensor("narrow", 17, &[9000], rng.bytes(4500)));
    }
    Original {
        kind: "tflite",
        name: "model.tflite",
        bytes: Writer::model(&tensors),
        entries: &[("weight", "F32", &[128, 96]), ("half", "BF16", &[64, 80])],
        views: &["bias"],
        is_complete,
    }
}

fn hdf5() -> Original {
    Original {
        kind: "hdf5",
        name: "model.h5",
        bytes: cases::read("hdf5", "contiguous.h5"),
        entries: &[
            ("layers/dense/vars/0", "F32", &[96, 80]),
            ("half", "F16", &[64, 48]),
        ],
        views: &["layers/dense/vars/1", "tied", "none"],
        is_complete: true,
    }
}

fn keras() -> Original {
    let archive = Archive::default().member("config.json", b"{}");
    Original {
        kind: "keras",
        name: "model.keras",
        bytes: archive.member("model.weights.h5", &hdf5().bytes).finish(),
        ..hdf5()
    }
}

fn nemo() -> Original {
    let members = [
        ("./model_config.yaml", &b"name: m"[..]),
        ("./model_weights.ckpt", &pytorch().bytes),
        ("./more.ckpt", &unplaced_pytorch().bytes),
    ];
    Original {
        kind: "tar",
        name: "model.nemo",
        bytes: tar(&members),
        entries: &[
            ("model_weights.ckpt/embed", "BF16", &[256, 128]),
            ("model_weights.ckpt/a", "F32", &[100, 200]),
            ("model_weights.ckpt/b", "F32", &[20, 10, 100]),
            ("more.ckpt/weight", "F32", &[300, 100]),
        ],
        views: &[
            "model_weights.ckpt/head",
            "model_weights.ckpt/head_t",
            "model_weights.ckpt/row",
            "model_weights.ckpt/only_t",
            "model_weights.ckpt/left",
            "model_weights.ckpt/right",
            "model_weights.ckpt/norm",
            "model_weights.ckpt/columns",
            "model_weights.ckpt/step",
            "model_weights.ckpt/empty",
            "model_weights.ckpt/one_row",
        ],
        is_complete: false,
    }
}

fn msgpack() -> Original {
    let mut rng = Rng(10);
    let string = |text: &str| -> Vec<u8> {
        let len = u8::try_from(text.len()).expect("short");
        [&[0xd9, len], text.as_bytes()].concat()
    };
    let array = |dtype: &str, shape: &[u16], values: Vec<u8>| -> Vec<u8> {
        let rank = u8::try_from(shape.len()).expect("short");
        let mut inner = vec![0x93, 0x90 | rank];
        for size in shape {
            inner.push(0xcd);
            inner.extend(size.to_be_bytes());
        }
        inner.extend(string(dtype));
        inner.push(0xc6);
        inner.extend(u32::try_from(values.len()).expect("short").to_be_bytes());
        inner.extend(values);
        let len = u32::try_from(inner.len()).expect("short").to_be_bytes();
        [&[0xc9], &len[..], &[1], &inner[..]].concat()
    };
    let entries = [
        (
            "kernel",
            array("float32", &[128, 96], f32s(&mut rng, 128 * 96)),
        ),
        (
            "half",
            array("bfloat16", &[64, 80], rng.bf16_weights(64 * 80)),
        ),
        ("bias", array("float32", &[96], f32s(&mut rng, 96))),
    ];
    let entries = entries
        .iter()
        .flat_map(|(key, value)| [&string(key)[..], value].concat());
    Original {
        kind: "msgpack",
        name: "params.msgpack",
        bytes: [0x83].into_iter().chain(entries).collect(),
        entries: &[("kernel", "F32", &[128, 96]), ("half", "BF16", &[64, 80])],
        views: &["bias"],
        is_complete: true,
    }
}

pub(super) fn originals() -> [Original; 13] {
    [
        pytorch(),
        legacy_pytorch(),
        unplaced_pytorch(),
        npz(true),
        npz(false),
        onnx(true),
        onnx(false),
        tflite(true),
        tflite(false),
        hdf5(),
        keras(),
        nemo(),
        msgpack(),
    ]
}
