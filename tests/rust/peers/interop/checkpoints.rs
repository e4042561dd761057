//! Generates whole files: containers, deltas of buffers, and deltas of checkpoints.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use zstn_core::TensorRef;
use zstn_core::container::model_delta::{Base, pack as pack_delta};
use zstn_core::container::zstn;
use zstn_core::dtype::Dtype;
use zstn_core::frame::delta;
use zstn_core::frame::select::Effort;
use zstn_tests::rng::Rng;
use zstn_tests::with_header;

use crate::planes::element;
use crate::random_buffers::{self, Buffer};
use crate::{Call, Case, Encoding, engine};

const EFFORTS: [Effort; 3] = [Effort::Fast, Effort::Balanced, Effort::Max];

pub fn encodings() -> Vec<Encoding> {
    let mut encodings = Vec::new();
    for effort in EFFORTS {
        encodings.push(buffer_delta(effort));
        encodings.push(container(effort));
        encodings.push(model_delta(effort));
    }
    encodings
}

/// The change that turns one buffer into another.
#[derive(Debug, Clone, Copy)]
enum Change {
    None,
    /// Flips one bit in each run of this many bytes.
    Bits(u64),
    /// Changes all bits.
    All,
}

impl Change {
    fn apply(self, bytes: &mut [u8], seed: u64) {
        let mut rng = Rng(seed);
        for byte in bytes {
            match self {
                Self::Bits(per) if rng.next_u64().is_multiple_of(per) => {
                    *byte ^= 1 << (rng.next_u64() % 8)
                }
                Self::None | Self::Bits(_) => {}
                Self::All => *byte = rng.next_u64().to_le_bytes()[0],
            }
        }
    }
}

fn change() -> impl Strategy<Value = Change> {
    select(
        &[
            Change::None,
            Change::Bits(5),
            Change::Bits(300),
            Change::All,
        ][..],
    )
}

fn buffer_delta(effort: Effort) -> Encoding {
    let anchors = Dtype::ALL
        .into_iter()
        .map(Some)
        .chain([None])
        .flat_map(|dtype| {
            random_buffers::anchors()
                .into_iter()
                .map(move |buffer| (dtype, buffer, Change::Bits(50)))
        })
        .collect();
    let dtype = proptest::option::of(select(&Dtype::ALL[..]));
    Encoding::new(
        format!("Z4DL, {effort:?}"),
        anchors,
        (dtype, random_buffers::buffers(2), change()),
        move |(dtype, buffer, change)| {
            let reference = buffer.bytes();
            let mut bytes = reference.clone();
            change.apply(&mut bytes, buffer.seed);
            let encoded = delta::encode(
                engine(),
                TensorRef::flat(&bytes, *dtype),
                &reference,
                effort.into(),
            )
            .expect("two buffers of one length");
            Case {
                call: Call::Delta,
                reference,
                ..Case::frame(bytes, encoded)
            }
        },
    )
}

#[derive(Debug, Clone)]
struct Tensor {
    name: String,
    dtype: Dtype,
    /// The dimensions; the last one may be adjusted to whole bytes.
    shape: Vec<usize>,
    content: Buffer,
    /// True if the tensor has the bytes of the previous one, if both have the same
    /// length.
    tied: bool,
    /// The change in the fine-tune.
    change: Change,
}

impl Tensor {
    /// Returns the shape. Elements below one byte are grouped into whole bytes.
    fn shape(&self) -> Vec<usize> {
        let mut shape = self.shape.clone();
        if self.dtype.bits() < 8 {
            match shape.last_mut() {
                Some(last) => *last *= 4,
                None => shape.push(4),
            }
        }
        shape
    }

    fn bytes(&self) -> Vec<u8> {
        let elements: usize = self.shape().iter().product();
        let bits = usize::try_from(self.dtype.bits()).expect("at most 64");
        Buffer {
            element: element(Some(self.dtype)),
            len_bytes: elements * bits / 8,
            ..self.content.clone()
        }
        .bytes()
    }
}

fn tensor() -> impl Strategy<Value = Tensor> {
    let shape = prop_oneof![
        1 => Just(vec![]),
        1 => Just(vec![0]),
        1 => Just(vec![3, 0, 2]),
        1 => vec(1..9usize, 1..4),
        3 => vec(1..80usize, 2),
        1 => (65_530..65_545usize).prop_map(|len| vec![len]),
    ];
    (
        "\\PC{0,6}",
        select(&Dtype::ALL[..]),
        shape,
        random_buffers::buffers(1),
        proptest::bool::weighted(0.2),
        change(),
    )
        .prop_map(|(name, dtype, shape, content, tied, change)| Tensor {
            name,
            dtype,
            shape,
            content,
            tied,
            change,
        })
}

#[derive(Debug, Clone)]
struct Checkpoint {
    tensors: Vec<Tensor>,
    metadata: Option<String>,
    /// The number of spaces after the header.
    padding: usize,
}

fn checkpoint() -> impl Strategy<Value = Checkpoint> {
    (
        vec(tensor(), 0..9),
        proptest::option::of("\\PC{0,12}"),
        0..9usize,
    )
        .prop_map(|(tensors, metadata, padding)| Checkpoint {
            tensors,
            metadata,
            padding,
        })
}

/// Returns one tensor of every dtype, and an alias of each.
fn every_dtype() -> Checkpoint {
    let tensors = Dtype::ALL.into_iter().flat_map(|dtype| {
        [false, true].map(|tied| Tensor {
            name: format!("{dtype}"),
            dtype,
            shape: vec![31, 40],
            content: random_buffers::compressible(0),
            tied,
            change: Change::Bits(50),
        })
    });
    Checkpoint {
        tensors: tensors.collect(),
        metadata: Some("pt".into()),
        padding: 0,
    }
}

fn nothing() -> Checkpoint {
    Checkpoint {
        tensors: Vec::new(),
        metadata: None,
        padding: 0,
    }
}

impl Checkpoint {
    /// Returns the safetensors file of the original, or of the fine-tune if `tuned` is
    /// set.
    fn file(&self, tuned: bool) -> Vec<u8> {
        let mut data = Vec::new();
        let mut before = Vec::new();
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let mut entries = Vec::new();
        if let Some(value) = &self.metadata {
            entries.push(format!("\"__metadata__\":{{\"format\":{}}}", quoted(value)));
        }
        for (number, tensor) in self.tensors.iter().enumerate() {
            let mut bytes = tensor.bytes();
            if tensor.tied && bytes.len() == before.len() {
                bytes.clone_from(&before);
            } else if tuned {
                tensor.change.apply(&mut bytes, tensor.content.seed);
            }
            let start = data.len();
            data.extend_from_slice(&bytes);
            entries.push(format!(
                "{}:{{\"dtype\":\"{}\",\"shape\":{:?},\"data_offsets\":[{start},{}]}}",
                quoted(&format!("{} {number}", tensor.name)),
                tensor.dtype,
                tensor.shape(),
                data.len()
            ));
            before = bytes;
        }
        let header = format!("{{{}}}{}", entries.join(","), " ".repeat(self.padding));
        with_header(header, data)
    }
}

fn container(effort: Effort) -> Encoding {
    Encoding::new(
        format!("ZSTN, {effort:?}"),
        vec![(nothing(), 0), (every_dtype(), 0), (every_dtype(), 5)],
        (checkpoint(), prop_oneof![5 => Just(0), 1 => 1..9usize]),
        // Bytes outside all tensors violate the format, so such a file is stored as a
        // whole.
        move |(checkpoint, trailing)| {
            let mut file = checkpoint.file(false);
            file.resize(file.len() + trailing, 7);
            let encoded = zstn::pack(engine(), &file, effort).expect("a safetensors file");
            Case {
                call: Call::Container,
                ..Case::frame(file, encoded)
            }
        },
    )
}

fn model_delta(effort: Effort) -> Encoding {
    Encoding::new(
        format!("Z4DM, {effort:?}"),
        vec![(nothing(), 0), (every_dtype(), 0), (every_dtype(), 40)],
        (checkpoint(), 0..9usize),
        // The base lacks the first tensors of the target.
        move |(checkpoint, new)| {
            let target = checkpoint.file(true);
            let mut base = checkpoint.clone();
            for tensor in base.tensors.iter_mut().take(*new) {
                tensor.name.push('?');
            }
            let reference = base.file(false);
            let encoded = Base::parse(&reference)
                .and_then(|base| pack_delta(engine(), &target, &base, effort))
                .expect("two safetensors files");
            Case {
                call: Call::ModelDelta,
                reference,
                ..Case::frame(target, encoded)
            }
        },
    )
}
