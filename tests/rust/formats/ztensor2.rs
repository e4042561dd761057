//! zTensor 2: what a reader must refuse when it opens a file, what it lists and refuses
//! to read, and what it reads (docs/formats/ztensor.md 8).

use zstn_core::pure::Pure;
use zstn_core::{Error, ErrorKind, Rule};
use zstn_tests::foreign::{manifest, open_in_trips, read_tensors};
use zstn_tests::ztensor2::{array, file, map, number, part, tensor, text};

type Entries<'e> = &'e [(&'e str, Vec<u8>)];

/// Returns a file with these objects and no blobs but `blobs`.
fn objects(objects: Entries, blobs: &[&[u8]]) -> Vec<u8> {
    file(&[("objects", map(objects))], blobs)
}

fn shard_table(name: &str, fields: Entries) -> Vec<u8> {
    let root = [
        ("objects", map(&[])),
        ("shards", map(&[(name, map(fields))])),
    ];
    file(&root, &[])
}

/// Returns the entries of a shard of three pages.
fn shard() -> [(&'static str, Vec<u8>); 2] {
    [
        ("size", number(3 * 4096 + 40)),
        ("digest", text("xxh3:0123456789abcdef")),
    ]
}

/// Returns a file with two tensors in a shard: `len_bytes` at each of `pages`.
fn in_shard(pages: [usize; 2], len_bytes: usize) -> Vec<u8> {
    let named = |page| part(page, "u8", len_bytes, &[("shard", text("base"))]);
    let tensors = pages.map(|page| tensor(&[len_bytes], "dense", &[("data", named(page))]));
    let [a, b] = tensors;
    let root = [
        ("objects", map(&[("a", a), ("b", b)])),
        ("shards", map(&[("base", map(&shard()))])),
    ];
    file(&root, &[])
}

/// Returns a matrix of 2 rows and 3 columns in compressed rows, with parts of these
/// lengths in bytes.
fn rows(values: usize, indices: usize, pointers: usize) -> Vec<u8> {
    let parts = [
        ("values", part(0, "f32", values, &[])),
        ("indices", part(1, "u32", indices, &[])),
        ("indptr", part(2, "u32", pointers, &[])),
    ];
    let matrix = tensor(&[2, 3], "zt.sparse_csr/1", &parts);
    objects(&[("m", matrix)], &[&[0; 12], &[0; 12], &[0; 12]])
}

fn coordinates(shape: &[usize], values: usize, coords: usize) -> Vec<u8> {
    let parts = [
        ("values", part(0, "f32", values, &[])),
        ("coords", part(1, "u32", coords, &[])),
    ];
    let sparse = tensor(shape, "zt.sparse_coo/1", &parts);
    objects(&[("m", sparse)], &[&[0; 16], &[0; 16]])
}

fn rule_of(file: &[u8]) -> Option<Rule> {
    open_in_trips(file).err().as_ref().and_then(Error::rule)
}

#[test]
fn what_the_list_of_tensors_must_not_say_is_refused_at_opening() {
    let attributes = |key: &str| map(&[(key, number(1))]);
    let of_file = |key: &str| {
        file(
            &[("objects", map(&[])), ("attributes", attributes(key))],
            &[],
        )
    };
    let of_tensor = |key: &str| {
        let with_attributes = map(&[
            ("shape", array(&[number(1)])),
            ("layout", text("dense")),
            ("parts", map(&[("data", part(0, "u8", 1, &[]))])),
            ("attributes", attributes(key)),
        ]);
        objects(&[("t", with_attributes)], &[b"x"])
    };
    for build in [&of_file as &dyn Fn(&str) -> Vec<u8>, &of_tensor] {
        assert_eq!(rule_of(&build("a key")), None);
        for key in ["", "a\0b", &"k".repeat(1025)] {
            assert_eq!(rule_of(&build(key)), Some(Rule::ZTensorName), "{key:?}");
        }
    }
    // Keys inside a value are free.
    let nested = map(&[("key", map(&[("", number(1))]))]);
    assert_eq!(
        rule_of(&file(&[("objects", map(&[])), ("attributes", nested)], &[])),
        None
    );
    let role = |role| {
        objects(
            &[("t", tensor(&[1], "x.y/1", &[(role, part(0, "u8", 1, &[]))]))],
            &[b"x"],
        )
    };
    assert_eq!(rule_of(&role("any")), None);
    assert_eq!(rule_of(&role("")), Some(Rule::ZTensorName));
}

#[test]
fn every_entry_of_the_table_of_shards_is_checked() {
    assert_eq!(rule_of(&shard_table("00001", &shard())), None);
    for name in [
        "",
        ".hidden",
        "a/b",
        "..",
        "a\\b",
        "\u{e9}",
        &"s".repeat(65),
    ] {
        let refused = rule_of(&shard_table(name, &shard()));
        assert_eq!(refused, Some(Rule::ZTensorName), "{name:?}");
    }
    let [size, digest] = shard();
    let short = ("size", number(47));
    let capital = ("digest", text("xxh3:0123456789ABCDEF"));
    for (fields, rule) in [
        ([size.clone(), capital], Rule::ZTensorChecksumText),
        ([short, digest.clone()], Rule::ZTensorField),
    ] {
        assert_eq!(rule_of(&shard_table("s", &fields)), Some(rule));
    }
    for field in [size, digest] {
        assert_eq!(
            rule_of(&shard_table("s", &[field])),
            Some(Rule::ZTensorField)
        );
    }
}

#[test]
fn places_in_a_shard_are_checked_from_the_root_alone() {
    assert_eq!(rule_of(&in_shard([0, 1], 4096)), None);
    // Two tensors may have the same bytes, but must not overlap otherwise.
    assert_eq!(rule_of(&in_shard([0, 0], 4096)), None);
    assert_eq!(rule_of(&in_shard([0, 1], 4097)), Some(Rule::ZTensorPlace));
    // The second page ends where the footer of the shard begins.
    assert_eq!(rule_of(&in_shard([1, 1], 4096)), None);
    assert_eq!(rule_of(&in_shard([1, 1], 4097)), Some(Rule::ZTensorPlace));
    assert_eq!(rule_of(&in_shard([2, 2], 1)), Some(Rule::ZTensorPlace));
    let shards = manifest(&in_shard([0, 1], 8)).expect("in order").shards;
    assert_eq!(shards.len(), 1);
    assert_eq!(
        (shards[0].name.as_str(), shards[0].len_bytes),
        ("base", 12328)
    );
}

#[test]
fn lengths_of_sparse_parts_are_checked_at_opening() {
    assert_eq!(rule_of(&rows(8, 8, 12)), None);
    for lens in [
        (8, 8, 8),
        (8, 8, 16),
        (8, 7, 12),
        (12, 8, 12),
        (4, 8, 12),
        (8, 12, 12),
    ] {
        let refused = rule_of(&rows(lens.0, lens.1, lens.2));
        assert_eq!(refused, Some(Rule::ZTensorLength), "{lens:?}");
    }
    assert_eq!(rule_of(&coordinates(&[2, 3], 8, 16)), None);
    assert_eq!(rule_of(&coordinates(&[], 4, 0)), None);
    for (shape, values, coords) in [
        (&[2, 3][..], 8, 12),
        (&[2, 3], 4, 16),
        (&[2, 3], 8, 15),
        (&[], 4, 4),
    ] {
        let refused = rule_of(&coordinates(shape, values, coords));
        assert_eq!(
            refused,
            Some(Rule::ZTensorLength),
            "{shape:?} {values} {coords}"
        );
    }
}

#[test]
fn unknown_types_and_encodings_are_listed_and_not_read() {
    let future = part(0, "f32", 8, &[("type", text("x.future/1"))]);
    let encoded = part(
        0,
        "u8",
        8,
        &[("encoding", text("x.z/1")), ("decoded_length", number(4))],
    );
    let known = tensor(&[8], "dense", &[("data", part(0, "u8", 8, &[]))]);
    for (shape, unknown, word) in [(&[999][..], future, "x.future/1"), (&[4], encoded, "x.z/1")] {
        let unknown = tensor(shape, "dense", &[("data", unknown)]);
        let file = objects(
            &[("known", known.clone()), ("unknown", unknown)],
            &[b"12345678"],
        );
        let (catalog, _) = open_in_trips(&file).expect("listed");
        assert_eq!(catalog.tensors().len(), 2);
        let number = catalog.find("unknown").expect("listed");
        let shape: Vec<u64> = shape.iter().map(|&dimension| dimension as u64).collect();
        assert_eq!(catalog.tensors()[number].shape, shape);
        let error = catalog
            .decode(&Pure, number, b"12345678")
            .expect_err("unknown");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains(word), "{error}");
        let number = catalog.find("known").expect("listed");
        assert_eq!(
            *catalog.decode(&Pure, number, b"12345678").expect("plain"),
            *b"12345678"
        );
    }
    // The declared length of a part with an unknown encoding still has to fit the shape.
    let encoded = part(
        0,
        "u8",
        8,
        &[("encoding", text("x.z/1")), ("decoded_length", number(5))],
    );
    let wrong = tensor(&[4], "dense", &[("data", encoded)]);
    assert_eq!(
        rule_of(&objects(&[("t", wrong)], &[b"12345678"])),
        Some(Rule::ZTensorLength)
    );
}

#[test]
fn the_unused_half_of_a_byte_is_zero() {
    let halves = |count: usize, bytes: &[u8]| {
        let part = part(0, "u8", bytes.len(), &[("type", text("f4_e2m1"))]);
        objects(
            &[("t", tensor(&[count], "dense", &[("data", part)]))],
            &[bytes],
        )
    };
    assert_eq!(
        read_tensors(&Pure, &halves(3, &[0x21, 0x03])).expect("in order"),
        [[0x21, 0x03]]
    );
    assert_eq!(
        read_tensors(&Pure, &halves(4, &[0x21, 0x43])).expect("in order"),
        [[0x21, 0x43]]
    );
    let wrong = halves(3, &[0x21, 0x43]);
    open_in_trips(&wrong).expect("opens");
    let error = read_tensors(&Pure, &wrong).expect_err("not zero");
    assert_eq!(error.rule(), Some(Rule::ZTensorPadding));
}
