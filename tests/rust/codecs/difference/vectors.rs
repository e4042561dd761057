//! Golden vectors with every feature of the format. Every field is chosen here and none
//! by the encoder. `NAME.zxd1` decodes to `NAME.tensor` with the base `NAME.base`.

use std::collections::BTreeSet;
use std::fs;

use zstn_core::frame::difference::Difference;
use zstn_core::pure::Pure;
use zstn_tests::cases;
use zstn_tests::frames::{DifferenceFrame, LowRankFields};
use zstn_tests::rng::Rng;

use super::{DTYPES, decode, native, trained};

const FOLDER: &str = "zxd1";

pub struct Vector {
    pub name: &'static str,
    pub frame: Vec<u8>,
    pub base: Vec<u8>,
    pub tensor: Vec<u8>,
}

/// Generates all vectors.
pub fn made() -> Vec<Vector> {
    let mut all = Vec::new();
    let mut add = |name, fields: DifferenceFrame, (base, tensor): (Vec<u8>, Vec<u8>)| {
        all.push(Vector {
            name,
            frame: fields.encode(&base, &tensor),
            base,
            tensor,
        });
    };
    let plain = |dtype, count: usize, group: usize| DifferenceFrame {
        dtype,
        states: 8,
        group,
        block: 4096,
        contexts: [0, 160],
        codes: vec![90; count.div_ceil(group)],
        means: None,
        codings: vec![(0, 0); 161],
        low_rank: None,
    };
    let pair = |seed, dtype: u8, count, change| {
        trained(&mut Rng(seed), DTYPES[usize::from(dtype)], count, change)
    };

    add("one-element", plain(0, 1, 1), (vec![0, 0], vec![0, 0x80]));
    add("bf16-rows", plain(0, 90, 13), pair(1, 0, 90, 1e-2));
    let states = DifferenceFrame {
        states: 16,
        ..plain(1, 77, 77)
    };
    add("f16-16-states", states, pair(2, 1, 77, 1e-2));
    let states = DifferenceFrame {
        states: 32,
        ..plain(2, 70, 9)
    };
    add("f32-32-states", states, pair(3, 2, 70, 1e-3));

    // All pairs of signs, infinities and NaNs. The differences wrap in some of these
    // pairs, which depends on the width of 16 or 32 bits.
    let edges: [u16; 12] = [
        0, 0x8000, 1, 0x8001, 0x7F80, 0xFF80, 0x7FC0, 0xFFFF, 0x7FFF, 0x3F80, 0xBF80, 0x7C00,
    ];
    let pairs = edges
        .iter()
        .flat_map(|a| edges.iter().map(move |b| (*a, *b)));
    let (bases, tensors): (Vec<[u8; 2]>, Vec<[u8; 2]>) = pairs
        .map(|(a, b)| (a.to_le_bytes(), b.to_le_bytes()))
        .unzip();
    let edge_pair = (bases.concat(), tensors.concat());
    add("bf16-edges", plain(0, 144, 144), edge_pair.clone());
    add("f16-edges", plain(1, 144, 144), edge_pair.clone());
    let wide = |words: &[[u8; 2]]| {
        words
            .iter()
            .flat_map(|w| [[0x80, 1], *w].concat())
            .collect()
    };
    add(
        "f32-edges",
        plain(2, 144, 144),
        (wide(&bases), wide(&tensors)),
    );

    // Each context has its own shift, the contexts alternate between 16 tables, and the
    // codes cover the whole range.
    let fields = DifferenceFrame {
        codes: (0..=255).collect(),
        codings: (0..161)
            .map(|context| (context % 16, context % 25))
            .collect(),
        ..plain(2, 256 * 8, 8)
    };
    add("f32-every-code", fields, pair(4, 2, 256 * 8, 1.0));
    let fields = DifferenceFrame {
        codes: (0..=255).collect(),
        contexts: [20, 40],
        codings: (0..21).map(|context| (context % 3, context % 6)).collect(),
        ..plain(0, 256 * 2, 2)
    };
    add("bf16-bounded-contexts", fields, pair(5, 0, 256 * 2, 0.1));
    let random = DifferenceFrame {
        codings: vec![(0, 24); 161],
        ..plain(2, 60, 60)
    };
    add(
        "f32-noise-shift-24",
        random,
        (Rng(6).bytes(240), Rng(7).bytes(240)),
    );
    let random = plain(2, 60, 60);
    add(
        "f32-noise-shift-0",
        random,
        (Rng(6).bytes(240), Rng(7).bytes(240)),
    );

    // Unchanged groups that take no bits, and the code for unchanged groups used for
    // groups that did change.
    let unchanged = pair(8, 0, 4096 + 700, 0.0).0;
    let fields = DifferenceFrame {
        codes: vec![255; 5],
        ..plain(0, 4796, 1000)
    };
    add("bf16-unchanged", fields, (unchanged.clone(), unchanged));
    let fields = DifferenceFrame {
        codes: vec![255; 2],
        ..plain(0, 60, 30)
    };
    add("bf16-changed-as-255", fields, pair(9, 0, 60, 1e-2));
    let fields = DifferenceFrame {
        codes: vec![255; 1],
        ..plain(0, 9, 9)
    };
    let (base, _) = pair(9, 0, 9, 0.0);
    let all_one = base.as_chunks::<2>().0.iter();
    let moved = all_one
        .flat_map(|b| (u16::from_le_bytes(*b) + 1).to_le_bytes())
        .collect();
    add("bf16-all-one-step-as-255", fields, (base, moved));

    // Means, with and without differences from them; the largest means wrap.
    let mut means = [0; 64];
    for (i, mean) in (0..).zip(&mut means) {
        *mean = [-998 - i, 5, i32::MIN, i32::MAX][i as usize % 4];
    }
    let fields = DifferenceFrame {
        codes: vec![254, 90, 254, 255],
        means: Some(means),
        codings: (0..161)
            .map(|c| if c < 96 { (0, 8) } else { (1, 0) })
            .collect(),
        ..plain(2, 400, 100)
    };
    let (base, mut tensor) = pair(10, 2, 400, 1e-4);
    for (word, base) in tensor
        .as_chunks_mut::<4>()
        .0
        .iter_mut()
        .zip(base.as_chunks::<4>().0)
        .skip(200)
    {
        let base = u32::from_le_bytes(*base);
        let mean = means[(base >> 17 & 63) as usize];
        let order = (base ^ if base >> 31 == 1 { 0x7FFF_FFFF } else { 0 }).cast_signed();
        let moved = if order < 0 {
            order.wrapping_sub(mean)
        } else {
            order.wrapping_add(mean)
        };
        *word = (moved ^ if moved < 0 { 0x7FFF_FFFF } else { 0 }).to_le_bytes();
    }
    tensor[1200..].copy_from_slice(&base[1200..]);
    add("f32-means", fields, (base, tensor));
    let fields = DifferenceFrame {
        codes: vec![254; 3],
        ..plain(0, 90, 40)
    };
    add("bf16-by-mantissa", fields, pair(11, 0, 90, 1e-2));

    // More codes than are worth storing uncoded, and frames whose last block is short.
    let mut codes = vec![91; 600];
    codes[77] = 80;
    let fields = DifferenceFrame {
        codes,
        ..plain(0, 1200, 2)
    };
    add("bf16-coded-side-stream", fields, pair(12, 0, 1200, 1e-3));
    let fields = DifferenceFrame {
        states: 32,
        codings: vec![(0, 2); 161],
        ..plain(0, 8192 + 45, 500)
    };
    add("bf16-three-blocks", fields, pair(13, 0, 8192 + 45, 1e-2));

    // Products whose sums fit single precision, and others that need double precision.
    // The rows of the matrix do not coincide with groups, and some elements differ from
    // the prediction.
    for (name, seed, dtype, bits, shifts) in [
        ("bf16-low-rank", 14, 0, 8, [9, 9]),
        ("f32-low-rank", 15, 2, 20, [20, 23]),
    ] {
        let [rows, columns, rank] = [150, 31, 3];
        let mut rng = Rng(seed);
        let half = 1i64 << (bits - 1);
        let factors = (0..rank * (rows + columns))
            .map(|_| (rng.next_u64() >> (64 - bits)).cast_signed() - half)
            .collect();
        let fields = DifferenceFrame {
            codes: vec![90; 47],
            low_rank: Some(LowRankFields {
                rank,
                bits,
                shifts,
                rows,
                columns,
                factors,
            }),
            ..plain(dtype, rows * columns, 100)
        };
        let (mut base, _) = pair(seed, dtype, rows * columns, 0.0);
        let width = base.len() / (rows * columns);
        // Infinities and a NaN, which stay unchanged, zeros, and the smallest and
        // largest numbers.
        for (number, high) in [0x7F80, 0xFF80, 0x7FC1, 0, 0x8000, 1, 0x7F7Fu16]
            .into_iter()
            .enumerate()
        {
            let end = (40 * number + 1) * width;
            base[end - 2..end].copy_from_slice(&high.to_le_bytes());
        }
        let mut tensor = fields.predicted(&base);
        for element in tensor.chunks_mut(width).skip(3).step_by(11) {
            element[0] ^= 1;
        }
        add(name, fields, (base, tensor));
    }
    all
}

#[test]
fn vectors_decode() {
    let native = native();
    for Vector {
        name,
        frame,
        base,
        tensor,
    } in made()
    {
        let read = |extension| cases::read(FOLDER, &format!("{name}.{extension}"));
        assert!(
            read("base") == base && read("tensor") == tensor,
            "{name} differs"
        );
        let golden = read("zxd1");
        assert!(
            golden == frame,
            "{name}: the frame made here differs from the vector"
        );
        assert!(decode(&golden, &base).expect(name) == tensor, "{name}");
        let difference = Difference::parse(&golden).expect(name);
        assert!(
            difference.decode(&native, &base).expect(name) == tensor,
            "{name}"
        );
    }
}

#[test]
fn the_folder_holds_nothing_else() {
    let folder = zstn_tests::repository().join("tests/vectors").join(FOLDER);
    let names = fs::read_dir(folder)
        .expect("vectors")
        .map(|entry| entry.expect("an entry").file_name());
    let found: BTreeSet<String> = names
        .map(|name| name.into_string().expect("ASCII"))
        .collect();
    let extensions = ["base", "tensor", "zxd1"];
    let made = made();
    let expected = made
        .iter()
        .flat_map(|v| extensions.map(|e| format!("{}.{e}", v.name)));
    assert_eq!(found, expected.collect());
}

/// Writes the vectors; to be run by hand:
///
/// ```sh
/// cargo test -p zstn-tests --test codecs write_vectors -- --ignored
/// ```
#[test]
#[ignore = "writes the vectors"]
fn write_vectors() {
    let folder = zstn_tests::repository().join("tests/vectors").join(FOLDER);
    fs::create_dir_all(&folder).expect("a folder");
    for Vector {
        name,
        frame,
        base,
        tensor,
    } in made()
    {
        for (extension, bytes) in [("zxd1", frame), ("base", base), ("tensor", tensor)] {
            fs::write(folder.join(format!("{name}.{extension}")), bytes).expect("written");
        }
    }
}

/// The example in docs/formats/zxd1.md 15.
#[test]
fn the_worked_example() {
    let words = |words: [u16; 6]| words.map(u16::to_le_bytes).concat();
    let base = words([0x3F80, 0x4000, 0xBF00, 0x3E4C, 0xC180, 0x3F10]);
    let tensor = words([0x3F82, 0x4000, 0xBEFD, 0x3E75, 0xC17F, 0x3F10]);
    let document = zstn_tests::repository().join("docs/formats/zxd1.md");
    let document = fs::read_to_string(document).expect("the format");
    let example = document
        .split("## 15. Worked example")
        .nth(1)
        .expect("an example");
    let listing = example.split("```").nth(1).expect("a listing");
    // The hex bytes of a line end where its remark begins.
    let bytes = listing.lines().skip(1).flat_map(|line| {
        let fields = line.split(' ').take_while(|field| !field.is_empty());
        let digits: String = fields.collect();
        let pairs = digits.into_bytes();
        let pairs = pairs
            .chunks(2)
            .map(|pair| std::str::from_utf8(pair).expect("hex").to_owned());
        pairs
            .map(|pair| u8::from_str_radix(&pair, 16).expect("hex"))
            .collect::<Vec<_>>()
    });
    let frame: Vec<u8> = bytes.collect();
    assert_eq!(frame.len(), 135);
    assert_eq!(decode(&frame, &base).expect("decodes"), tensor);
    assert_eq!(super::frame(&Pure, DTYPES[0], &[6], &base, &tensor), frame);
}
