//! ONNX models: files of released writers have their values, damaged ones are refused for
//! their rule or leave other tensors readable, and long values are not fetched to list a
//! model.

use serde_json::Value;
use zstn_core::bytes::{index, part};
use zstn_core::catalog::{FileCatalog, FileKind, FileOpener, recognise};
use zstn_core::container::foreign::onnx::{OnnxWalk, Walk, Window};
use zstn_core::pure::Pure;
use zstn_core::{ErrorKind, Rule};
use zstn_tests::cases::{self, Refusal, text};
use zstn_tests::foreign::{open_named, read_named, read_opened, refused};
use zstn_tests::protobuf::{Message, external, graph, model, node, tensor};
use zstn_tests::sha256;

const NAME: &str = "model.onnx";

fn open(file: &[u8]) -> FileCatalog {
    open_named(NAME, file).expect("a model").0
}

fn float(name: &str, values: &[f32]) -> Message {
    let raw: Vec<u8> = values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    tensor(name, 1, &[values.len() as u64]).bytes(9, raw)
}

#[test]
fn vectors_have_their_values() {
    let mut tensors = 0;
    for entry in cases::entries("onnx", "files") {
        let name = text(&entry["file"]);
        let file = cases::read("onnx", &name);
        let (catalog, trips) = open_named(&name, &file).expect(&name);
        assert_eq!((catalog.kind(), trips), (FileKind::Onnx, 1), "{name}");
        let values = read_opened(&Pure, &catalog, &file).expect(&name);
        let told = entry["tensors"].as_array().expect("tensors");
        assert_eq!(catalog.tensors().len(), told.len(), "{name}");
        for told in told {
            let place = format!("{name}/{}", text(&told["name"]));
            let number = catalog.find(&text(&told["name"])).expect(&place);
            let tensor = &catalog.tensors()[number];
            assert_eq!(tensor.dtype.name(), text(&told["dtype"]), "{place}");
            assert_eq!(Value::from(tensor.shape.clone()), told["shape"], "{place}");
            if let Some(offset) = told["offset"].as_u64() {
                assert_eq!(tensor.stored.start, offset, "{place}");
                assert_eq!(Some(tensor.stored_len_bytes()), told["length"].as_u64());
            }
            assert_eq!(
                sha256(&values[number]),
                text(&told["values_sha256"]),
                "{place}"
            );
            check_parts(&catalog, number, &file, &values[number]);
            tensors += 1;
        }
        for (key, value) in entry["metadata_text"].as_object().into_iter().flatten() {
            assert_eq!(catalog.metadata().get(key), Some(&text(value)), "{key}");
        }
        let unread = entry["unread"].as_array().cloned().unwrap_or_default();
        let refused = refused(catalog);
        assert!(
            refused
                .keys()
                .eq(unread.iter().map(|name| name.as_str().expect("text")))
        );
    }
    assert!(tensors >= 50, "only {tensors} tensors");
}

/// Compares parts of a tensor with its whole values.
fn check_parts(catalog: &FileCatalog, number: usize, file: &[u8], value: &[u8]) {
    let len = value.len() as u64;
    for span in [0..len, 0..len.min(1), len / 3..len - len / 4, len..len] {
        let Some(plan) = catalog.plan(number, span.clone(), None).expect("inside") else {
            continue;
        };
        let ranges = plan.ranges().iter();
        let fetched: Vec<_> = ranges.map(|range| part(file, range.clone())).collect();
        let decoded = plan.decode(&Pure, &fetched, None).expect("decodes");
        assert!(decoded == part(value, span));
    }
}

#[test]
fn malformed_files_are_refused_for_their_rule() {
    let entries = cases::malformed("onnx-bad");
    assert!(entries.len() >= 20);
    for entry in entries {
        let name = text(&entry["file"]);
        let file = cases::named("onnx-bad", &entry);
        if name == "external-missing.onnx" {
            let catalog = open(&file);
            assert!(catalog.external_files().eq(["missing.bin"]), "{name}");
            continue;
        }
        let mut walk = OnnxWalk::default();
        let walked = walk.walk(&Window::new(0, &file, file.len() as u64));
        let parsed = walked.and_then(|_| walk.finish());
        let read = read_named(&name, &file);
        Refusal::of_opened(&entry).check(&name, read.clone());
        let refusal = Refusal::of(&entry).expect("a rule");
        refusal.check(&name, parsed.and(read));
    }
}

#[test]
fn one_tensor_that_cannot_be_read_leaves_the_others() {
    let raw = [0; 8];
    let bad: [(Message, Option<Rule>); 15] = [
        (tensor("a", 8, &[1]).bytes(6, "text"), Some(Rule::OnnxType)),
        (tensor("a", 0, &[2]).bytes(9, raw), Some(Rule::OnnxType)),
        (tensor("a", 27, &[4]).bytes(9, [0; 3]), Some(Rule::OnnxType)),
        (tensor("a", 99, &[2]).bytes(9, raw), Some(Rule::OnnxType)),
        (tensor("a", 1, &[3]).bytes(9, raw), Some(Rule::OnnxLength)),
        (tensor("a", 1, &[2]), Some(Rule::OnnxLength)),
        (
            tensor("a", 6, &[100]).packed(5, &[1; 9]),
            Some(Rule::OnnxLength),
        ),
        (
            tensor("a", 1, &[2]).bytes(9, raw).bytes(9, raw),
            Some(Rule::OnnxValue),
        ),
        (tensor("a", 1, &[2]).bytes(10, raw), Some(Rule::OnnxValue)),
        (
            tensor("a", 7, &[2]).packed(5, &[1, 2]),
            Some(Rule::OnnxValue),
        ),
        (
            tensor("a", 1, &[0, 1 << 40, 1 << 40]),
            Some(Rule::OnnxShape),
        ),
        (
            tensor("a", 11, &[1 << 60]).bytes(9, raw),
            Some(Rule::OnnxShape),
        ),
        (
            tensor("a", 2, &[1; 256]).bytes(9, [1]),
            Some(Rule::TensorDimensions),
        ),
        (tensor("a", 1, &[2]).bytes(3, "").bytes(9, raw), None),
        (
            external("a", 1, &[2], &[("offset", "0")]),
            Some(Rule::OnnxLocation),
        ),
    ];
    for (bad, rule) in bad {
        let file = model(&[], &[bad, float("b", &[1.0, 2.0])]);
        assert_eq!(refused(open(&file)), [("a".into(), rule)].into());
        let catalog = open(&file);
        let values = read_opened(&Pure, &catalog, &file).expect("the other one");
        assert_eq!(values, [[1.0f32, 2.0].map(f32::to_le_bytes).concat()]);
    }
}

#[test]
fn numbers_in_fields_are_elements_of_their_type() {
    let minus = |number: i64| number.cast_unsigned();
    let read = |tensor: Message| {
        let read = read_named(NAME, &model(&[], &[tensor]));
        read.map(|all| all["w"].clone())
            .map_err(|error| error.rule())
    };
    let whole = |data_type, numbers: &[u64]| {
        let count = numbers.len() as u64;
        read(tensor("w", data_type, &[count]).packed(5, numbers))
    };
    assert_eq!(whole(3, &[127, minus(-128)]), Ok(vec![0x7f, 0x80]));
    // Some writers leave out the upper half of a negative number.
    assert_eq!(whole(6, &[0xffff_fffe]), Ok(vec![0xfe, 0xff, 0xff, 0xff]));
    assert_eq!(whole(9, &[1, 0]), Ok(vec![1, 0]));
    assert_eq!(whole(10, &[0x3c00]), Ok(vec![0, 0x3c]));
    for (data_type, number) in [
        (3, 128),
        (3, minus(-129)),
        (2, 256),
        (2, minus(-1)),
        (4, 65536),
        (5, 32768),
        (6, 1 << 32),
        (6, minus(-1 << 32)),
        (9, 2),
        (10, 65536),
        (17, 256),
    ] {
        assert_eq!(
            whole(data_type, &[number]),
            Err(Some(Rule::OnnxValue)),
            "{data_type}"
        );
    }
    let unsigned = |number| read(tensor("w", 12, &[1]).packed(11, &[number]));
    assert_eq!(unsigned(u64::from(u32::MAX)), Ok(vec![0xff; 4]));
    assert_eq!(unsigned(1 << 32), Err(Some(Rule::OnnxValue)));
    // Numbers need not be packed, and fields may come in any order.
    let mixed = Message::new().number(5, 7).packed(5, &[8, 9]).number(5, 10);
    let mixed = mixed.bytes(8, "w").number(1, 4).number(2, 2);
    assert_eq!(read(mixed), Ok(vec![7, 8, 9, 10]));
    let mixed = tensor("w", 1, &[2])
        .fixed(4, [1, 2, 3, 4])
        .bytes(4, [5, 6, 7, 8]);
    assert_eq!(read(mixed), Ok(vec![1, 2, 3, 4, 5, 6, 7, 8]));
    // The number of numbers is only known once they are read.
    let fewer = tensor("w", 6, &[3]).packed(5, &[1, 1 << 20]);
    assert_eq!(read(fewer), Err(Some(Rule::OnnxLength)));
}

#[test]
fn tensors_in_nodes_and_nested_graphs_have_names_of_their_place() {
    let value = |name: &str, of: Message| Message::new().bytes(1, name).bytes(5, of);
    let body = |name: &str, of: Message| Message::new().bytes(1, name).bytes(6, of);
    let constant = node("", "Constant", &[value("value", float("ignored", &[1.0]))]);
    let list = Message::new()
        .bytes(1, "list")
        .bytes(10, float("x", &[2.0]));
    let list = node("n", "Other", &[list.bytes(10, float("x", &[3.0]))]);
    let inner = graph(std::slice::from_ref(&constant), &[float("w", &[4.0])]);
    let branch = node(
        "if",
        "If",
        &[
            body("then_branch", inner.clone()),
            body("else_branch", inner),
        ],
    );
    let file = model(&[constant.clone(), list, branch], &[float("w", &[5.0])]);
    let function = Message::new().bytes(1, "f").bytes(7, constant);
    let file = Message(file).bytes(25, function).0;
    let catalog = open(&file);
    let values = read_opened(&Pure, &catalog, &file).expect("readable");
    let names = catalog.tensors().iter().map(|tensor| tensor.name.as_str());
    let values = values
        .iter()
        .map(|value| f32::from_le_bytes(*value.as_array().expect("one")));
    let found: Vec<_> = names.zip(values).collect();
    let expected = [
        ("0/value", 1.0),
        ("n/list/0", 2.0),
        ("n/list/1", 3.0),
        ("if/then_branch/0/value", 1.0),
        ("if/then_branch/w", 4.0),
        ("if/else_branch/0/value", 1.0),
        ("if/else_branch/w", 4.0),
        ("w", 5.0),
        ("f/0/value", 1.0),
    ];
    assert_eq!(found, expected);
    let metadata = catalog.metadata();
    assert_eq!(metadata["nodes"], "6");
    assert_eq!(metadata["operators"], "Constant 4, If 1, Other 1");

    // Names that are equal cannot be read, except that two initializers of the main graph
    // make its list unusable.
    let twice = node("w", "Constant", &[value("v", float("", &[1.0]))]);
    let file = model(&[twice.clone(), twice], &[float("b", &[1.0])]);
    assert_eq!(
        refused(open(&file)),
        [("w/v".into(), Some(Rule::OnnxName))].into()
    );
    for bad in [
        [float("b", &[1.0]), float("b", &[1.0])],
        [float("", &[]), float("c", &[])],
    ] {
        let error = read_named(NAME, &model(&[], &bad)).expect_err("names");
        assert_eq!(error.rule(), Some(Rule::OnnxName));
    }
}

#[test]
fn nesting_and_names_have_limits() {
    let nested = |depth: usize, name: &str| {
        let mut inner = graph(&[], &[float("w", &[1.0])]);
        for _ in 1..depth {
            let attribute = Message::new().bytes(1, "body").bytes(6, &inner);
            inner = graph(&[node(name, "Loop", &[attribute])], &[]);
        }
        Message::new().number(1, 8).bytes(7, inner).0
    };
    assert_eq!(open(&nested(32, "l")).tensors().len(), 1);
    let deep = nested(33, "l");
    let refused = refused(open(&deep));
    assert_eq!(open(&deep).tensors().len(), 0);
    assert!(
        refused
            .keys()
            .all(|name| name.starts_with("l/body/l/body/"))
    );
    assert!(refused.values().eq([&Some(Rule::OnnxDepth)]));
    let long = read_named(NAME, &nested(2, &"l".repeat(70_000))).expect_err("a long name");
    assert_eq!((long.kind(), long.rule()), (ErrorKind::Limit, None));
    // A long name of a node that contains many tensors.
    let tensors: Vec<_> = (0..2000).map(|n| float(&n.to_string(), &[])).collect();
    let attribute = Message::new().bytes(6, graph(&[], &tensors));
    let many = model(&[node(&"n".repeat(60_000), "If", &[attribute])], &[]);
    let error = read_named(NAME, &many).expect_err("long names");
    assert_eq!((error.kind(), error.rule()), (ErrorKind::Limit, None));
}

/// A cut file is refused, or has lost only its description.
#[test]
fn cut_files_are_refused_or_equal() {
    for name in [
        "raw-types",
        "typed-fields",
        "sub-byte",
        "metadata",
        "constants-and-subgraphs",
    ] {
        let name = format!("{name}.onnx");
        let file = cases::read("onnx", &name);
        let whole = read_named(&name, &file).expect(&name);
        let mut refused = 0;
        for end in 0..file.len() {
            match read_named(&name, &file[..end]) {
                Ok(read) => assert!(read == whole, "{name}: {end}"),
                Err(_) => refused += 1,
            }
        }
        assert!(refused > file.len() / 2, "{name}: {refused} refusals");
    }
}

/// No flipped byte causes a panic, and flips of values change only their own tensor.
#[test]
fn flipped_files_are_refused_or_read() {
    for name in [
        "raw-types",
        "typed-fields",
        "sub-byte",
        "constants-and-subgraphs",
        "unknown-fields",
    ] {
        let name = format!("{name}.onnx");
        let mut file = cases::read("onnx", &name);
        let catalog = open_named(&name, &file).expect(&name).0;
        let whole = read_named(&name, &file).expect(&name);
        for at in 0..file.len() {
            for flip in [1, 8, 0x80, 0xff] {
                file[at] ^= flip;
                let read = read_named(&name, &file);
                file[at] ^= flip;
                let hit = catalog
                    .tensors()
                    .iter()
                    .find(|t| t.stored.contains(&(at as u64)));
                let Some(hit) = hit.filter(|hit| hit.stored_len_bytes() <= 4 * hit.len_bytes())
                else {
                    continue;
                };
                if name == "raw-types.onnx" {
                    let read = read.expect("raw values have no rules");
                    let others = whole.iter().filter(|(name, _)| **name != hit.name);
                    assert!(others.into_iter().all(|(name, value)| read[name] == *value));
                }
            }
        }
    }
}

#[test]
fn values_in_other_files_stay_inside_of_them() {
    let keys = [
        ("location", "a/weights.bin"),
        ("offset", "8"),
        ("length", "8"),
    ];
    let tensors = [
        external("whole", 1, &[2], &keys),
        external(
            "rest",
            10,
            &[3],
            &[("location", "half.bin"), ("offset", "2")],
        ),
        external(
            "four",
            22,
            &[3],
            &[("location", "a/weights.bin"), ("checksum", "x")],
        ),
        float("own", &[1.0]),
    ];
    let file = model(&[], &tensors);
    let mut catalog = open(&file);
    let files: Vec<_> = catalog.external_files().map(String::from).collect();
    assert_eq!(files, ["a/weights.bin", "half.bin"]);
    assert_eq!(catalog.tensors().len(), 1);
    let weights: Vec<u8> = (0..16).collect();
    let of_weights = catalog.external(0, 16).expect("the file");
    assert!(
        refused(of_weights.clone()).contains_key("four"),
        "the rest is longer"
    );
    let values = read_opened(&Pure, &of_weights, &weights).expect("inside");
    assert_eq!(values, [(8..16).collect::<Vec<u8>>()]);
    for (len, rule) in [(15, Rule::OnnxExtent), (3, Rule::OnnxExtent)] {
        let refused = refused(catalog.external(0, len).expect("the file"));
        assert_eq!(refused["whole"], Some(rule), "{len}");
    }
    for (len, rule) in [
        (9, Rule::OnnxLength),
        (7, Rule::OnnxExtent),
        (1, Rule::OnnxExtent),
    ] {
        let refused = refused(catalog.external(1, len).expect("the file"));
        assert_eq!(refused["rest"], Some(rule), "{len}");
    }
    let half = catalog.external(1, 8).expect("the file");
    assert_eq!(half.tensors()[0].stored, 2..8);
    assert_eq!(
        catalog.external(2, 8).expect_err("two files").kind(),
        ErrorKind::InvalidInput
    );
    catalog
        .refuse_external(&[(0, "lost".into())])
        .expect("a file");
    let refused = refused(catalog);
    assert_eq!(refused["whole"], Some(Rule::OnnxLocation));
    assert_eq!(refused.len(), 2);
}

/// Returns the number of requests and of bytes that listing a file takes.
fn listing(file: &[u8]) -> (usize, u64, FileCatalog) {
    let len = file.len() as u64;
    let head = FileOpener::head_len_bytes(len);
    let mut opener = FileOpener::named(NAME, len, part(file, 0..head).to_vec()).expect("a model");
    let (mut requests, mut bytes) = (1, head);
    loop {
        let needs = opener.needs().expect("a model");
        let [range] = &needs[..] else {
            return (requests, bytes, opener.finish(&Pure).expect("a model"));
        };
        (requests, bytes) = (requests + 1, bytes + (range.end - range.start));
        opener
            .supply(range.start, part(file, range.clone()))
            .expect("requested");
    }
}

#[test]
fn listing_a_model_skips_long_values() {
    // Long values, as in large models: the windows between them are short.
    let long = |count: u64, len: usize| {
        let names = (0..count).map(|number| format!("layer.{number}.weight"));
        let values = vec![7; len];
        let tensors = names.map(|name| tensor(&name, 2, &[len as u64]).bytes(9, &values));
        model(&[], &tensors.collect::<Vec<_>>())
    };
    let file = long(24, 1 << 20);
    let (requests, bytes, catalog) = listing(&file);
    assert_eq!(catalog.tensors().len(), 24);
    assert!(requests <= 26, "{requests} requests");
    assert!(bytes <= 26 * (32 << 10), "{bytes} bytes");
    let last = &catalog.tensors()[23];
    assert_eq!(last.stored_len_bytes(), 1 << 20);
    assert!(
        part(&file, last.stored.clone())
            .iter()
            .all(|byte| *byte == 7)
    );
    // Values of medium length are contained in windows, which become longer.
    let file = long(400, 25_000);
    let (requests, bytes, catalog) = listing(&file);
    assert_eq!(catalog.tensors().len(), 400);
    assert!(requests <= 12, "{requests} requests");
    assert!(bytes <= file.len() as u64, "{bytes} bytes");
    // The number of requests does not grow with the number of values.
    let file = long(1500, 40_000);
    let (requests, _, catalog) = listing(&file);
    assert_eq!(catalog.tensors().len(), 1500);
    assert!(requests <= 100, "{requests} requests");
    // A small file takes two requests.
    let (requests, bytes, _) = listing(&long(2, 1 << 20));
    assert_eq!((requests, bytes), (2, long(2, 1 << 20).len() as u64));
}

#[test]
fn a_field_may_begin_in_the_head_and_end_after_it() {
    // More than 8 MiB of nodes, without a value that could be skipped.
    let padding = |len: usize| node(&"n".repeat(len), "Add", &[]);
    for len in (0..48).chain([200, 5000]) {
        let mut nodes = vec![padding(len)];
        nodes.resize(300, padding(30_000));
        let file = model(&nodes, &[float("w", &[1.0])]);
        assert!(file.len() > 8 << 20);
        let (requests, _, catalog) = listing(&file);
        assert_eq!(catalog.tensors().len(), 1);
        assert!(requests < 16, "{requests} requests");
    }
}

#[test]
fn a_model_is_recognised_by_its_name_and_its_first_bytes() {
    let file = model(&[], &[float("w", &[1.0])]);
    for name in [
        "m.onnx",
        "a/M.ONNX",
        "https://example.org/m.onnx",
        "https://h/m.onnx?download=true#x",
    ] {
        assert_eq!(
            open_named(name, &file).expect(name).0.kind(),
            FileKind::Onnx
        );
    }
    for name in ["", "m", "m.onnx.bin", "onnx"] {
        let error = open_named(name, &file).expect_err(name);
        assert_eq!(error.rule(), Some(Rule::Recognised), "{name}");
    }
    let html = open_named(NAME, b"<!doctype html>").expect_err("a page");
    assert!(html.to_string().contains("web page"));
    assert!(recognise(&file, index(file.len() as u64) as u64).is_err());
    let safetensors = b"\x08\0\0\0\0\0\0\0{}      ";
    let kind = open_named(NAME, safetensors).expect("a header").0.kind();
    assert_eq!(kind, FileKind::Safetensors);
}
