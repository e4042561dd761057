//! Packed files that are served as the safetensors files they restore.

use zstn::Engine;
use zstn_core::bytes::index;
use zstn_core::container::zstn::{ContainerOptions, OriginalSha256, pack};
use zstn_core::frame::select::Effort;
use zstn_tests::checkpoints::quantised;
use zstn_tests::rng::Rng;
use zstn_tests::{cases, checkpoint, sha256};

use super::{ask, bind, get, run, serve};

/// Returns a checkpoint of tensors of at least 1 MB, and its packed file.
pub fn model(seed: u64) -> (Vec<u8>, Vec<u8>) {
    let mut rng = Rng(seed);
    let tensors: Vec<(String, Vec<u8>)> = (0..9)
        .map(|i| (format!("layer.{i}"), rng.bf16_weights(500_000 + 1000 * i)))
        .collect();
    let tensors: Vec<_> = tensors
        .iter()
        .map(|(name, bytes)| (name.as_str(), "BF16", &bytes[..]))
        .collect();
    let original = checkpoint(&tensors);
    let packed = pack(&Engine::new(2).unwrap(), &original, Effort::Fast).unwrap();
    (original, packed)
}

#[test]
fn a_digest_that_is_only_claimed_is_not_in_the_tag() {
    let (original, _) = model(1);
    let claim = OriginalSha256::Claimed([7; 32]);
    let options = ContainerOptions::new(Effort::Fast).original_sha256(claim);
    let packed = pack(&Engine::new(2).unwrap(), &original, options).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("m.zstn"), packed).unwrap();
    let whole = get(serve(folder.path()), "/m.safetensors", &[]);
    assert_eq!(whole.status, 200);
    let tag = whole.header("etag").unwrap();
    assert!(!tag.contains("0707"), "{tag}");
    assert!(whole.body == original);
}

/// A tensor longer than the server decodes at once is read in blocks if it is stored in
/// blocks, and refused otherwise.
#[test]
fn long_tensors_are_decoded_in_blocks_or_refused() {
    let mut rng = Rng(11);
    let weights = rng.bf16_weights(600_000);
    let original = checkpoint(&[("a", "BF16", &weights), ("z", "U8", &vec![0; 600_000])]);
    let packed = pack(&Engine::new(2).unwrap(), &original, Effort::Fast).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("m.zstn"), packed).unwrap();
    let server = run(bind(folder.path()).with_max_tensor(500_000));
    let end = original.len() - 600_000;
    for (start, end) in [(0, 100), (1, end), (700_001, 1_100_003), (end - 1, end)] {
        let range = format!("Range: bytes={start}-{}", end - 1);
        let part = get(server, "/m.safetensors", &[&range]);
        assert_eq!(part.status, 206, "{range}: {}", part.text());
        assert!(part.body == original[start..end], "{range}");
    }
    for range in ["Range: bytes=-10", "Range: bytes=0-"] {
        let refused = get(server, "/m.safetensors", &[range]);
        assert_eq!(refused.status, 500, "{range}");
        let sentence = refused.text();
        assert!(
            sentence.contains("`z`") && sentence.contains("--max-tensor"),
            "{sentence}"
        );
    }
    let head = ask(server, "HEAD", "/m.safetensors", &[]);
    assert_eq!(head.status, 200);
}

#[test]
fn a_file_of_another_format_is_served_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let original = cases::read("gguf", "k-blocks.gguf");
    let path = folder.path().join("m.gguf");
    std::fs::write(&path, &original).unwrap();
    let packed = folder.path().join("m.gguf.zstn");
    zstn::pack(
        &zstn::Job::new(),
        &path,
        packed,
        &zstn::PackOptions::default(),
    )
    .unwrap();
    std::fs::remove_file(path).unwrap();
    let server = serve(folder.path());
    let whole = get(server, "/m.gguf", &[]);
    assert_eq!(whole.status, 200);
    assert!(whole.body == original);
    for (start, end) in [(0, 1), (100, 3000), (original.len() - 5, original.len())] {
        let range = format!("Range: bytes={start}-{}", end - 1);
        let part = get(server, "/m.gguf", &[&range]);
        assert_eq!(part.status, 206, "{range}");
        assert!(part.body == original[start..end], "{range}");
    }
    assert!(get(server, "/", &[]).text().contains(">m.gguf<"));
    // Under the name of a packed safetensors file, it restores no safetensors file.
    let packed = folder.path().join("m.gguf.zstn");
    std::fs::copy(packed, folder.path().join("other.zstn")).unwrap();
    assert_eq!(get(server, "/other.safetensors", &[]).status, 404);
    assert!(!get(server, "/", &[]).text().contains(">other.safetensors<"));
    // Its tensors are read over HTTP, from the packed file.
    let address = format!("http://{server}/m.gguf.zstn");
    let reader = zstn::Reader::open(zstn::Location::url(&address)).unwrap();
    let packed = folder.path().join("m.gguf.zstn");
    let local = zstn::Reader::open(packed).unwrap();
    for name in local.names() {
        assert_eq!(reader.read(name).unwrap(), local.read(name).unwrap());
    }
    assert!(!reader.original().unwrap().unwrap().metadata().is_empty());
}

#[test]
fn it_is_the_original_whole_and_in_ranges() {
    let (original, packed) = model(1);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("m 1.zstn"), packed).unwrap();
    let server = serve(folder.path());
    let path = "/m%201.safetensors";
    let whole = get(server, path, &[]);
    assert_eq!(whole.status, 200);
    assert!(whole.body == original);
    // The digest stored in the packed file is unverified, so it is not used as ETag.
    let tag = whole.header("etag").unwrap().to_owned();
    assert!(!tag.contains(&sha256(&original)), "{tag}");
    assert_eq!(whole.header("accept-ranges"), Some("bytes"));

    let head = ask(server, "HEAD", path, &["Range: bytes=0-7"]);
    let len = original.len();
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("content-length"), Some(&*len.to_string()));
    assert_eq!(head.header("etag"), Some(tag.as_str()));

    for (range, start, end) in [
        ("0-7", 0, 8),
        ("8-1500000", 8, 1_500_001),
        ("1000000-1000000", 1_000_000, 1_000_001),
        ("-3", len - 3, len),
        ("7-", 7, len),
        ("4000000-99999999", 4_000_000, len),
        ("3-", 3, len),
    ] {
        let part = get(server, path, &[&format!("Range: bytes={range}")]);
        assert_eq!(part.status, 206, "{range}");
        let expected = format!("bytes {start}-{}/{len}", end - 1);
        assert_eq!(part.header("content-range"), Some(&*expected));
        assert!(
            part.is_complete() && part.body == original[start..end],
            "{range}"
        );
    }
    for range in [format!("bytes={len}-"), "bytes=-0".into()] {
        let none = get(server, path, &[&format!("Range: {range}")]);
        assert_eq!(none.status, 416, "{range}");
        assert_eq!(
            none.header("content-range"),
            Some(&*format!("bytes */{len}"))
        );
    }
    // Servers may ignore ranges of this form.
    for range in ["bytes=0-7,100-200", "lines=1-2"] {
        let all = get(server, path, &[&format!("Range: {range}")]);
        assert_eq!((all.status, all.body.len()), (200, len), "{range}");
    }
    let range = "Range: bytes=0-7";
    for (condition, status) in [
        (format!("If-Range: {tag}"), 206),
        ("If-Range: \"other\"".into(), 200),
        (format!("If-None-Match: {tag}"), 304),
        ("If-None-Match: \"other\"".into(), 206),
    ] {
        let answer = get(server, path, &[range, &condition]);
        assert_eq!(answer.status, status, "{condition}");
    }
    let post = ask(server, "POST", path, &[]);
    assert_eq!(
        (post.status, post.header("allow")),
        (405, Some("GET, HEAD"))
    );
}

#[test]
fn a_file_with_extension_frames_is_served_whole_and_in_ranges() {
    let original = quantised();
    let options = ContainerOptions::new(Effort::Fast).extended(true);
    let packed = pack(&Engine::new(2).unwrap(), &original, options).unwrap();
    assert_eq!(packed[4], 4);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("m.zstn"), packed).unwrap();
    let server = serve(folder.path());
    let whole = get(server, "/m.safetensors", &[]);
    assert_eq!(whole.status, 200);
    assert!(whole.body == original);
    for start in (0..original.len()).step_by(7_001) {
        let end = original.len().min(start + 3_000);
        let range = format!("Range: bytes={start}-{}", end - 1);
        let part = get(server, "/m.safetensors", &[&range]);
        assert_eq!(part.status, 206, "{range}");
        assert!(
            part.is_complete() && part.body == original[start..end],
            "{range}"
        );
    }
}

#[test]
fn every_container_is_served_as_its_original() {
    let vectors = zstn_tests::repository().join("tests/vectors/zstn");
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path());
    let (mut same, mut refused) = (0, 0);
    for case in cases::containers() {
        let name = &case.name;
        let packed = format!("{name}.zstn");
        std::fs::copy(vectors.join(&packed), folder.path().join(packed)).unwrap();
        let answer = get(server, &format!("/{name}.safetensors"), &[]);
        let official = case.official.as_ref().is_some_and(|o| o.valid);
        if official && case.layout.as_ref().is_some_and(|l| l.contiguous != 0) {
            assert!(answer.body == case.original(), "{name}");
            same += 1;
        } else {
            assert!(matches!(answer.status, 404 | 500), "{name}");
            refused += 1;
        }
    }
    assert!(same >= 30 && refused > 0, "{same} and {refused}");
}

#[test]
fn ranges_decode_what_they_touch_and_damage_shows() {
    let (original, mut packed) = model(2);
    // This byte is in the frame of the sixth tensor.
    let at = packed.len() * 6 / 9 - 200_000;
    packed[at] ^= 1;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("m.zstn"), packed).unwrap();
    let server = serve(folder.path());
    let path = "/m.safetensors";
    let whole = get(server, path, &[]);
    assert_eq!(whole.status, 200, "the first tensor was fine");
    assert!(!whole.is_complete(), "the answer breaks off");
    assert!(original.starts_with(&whole.body) && whole.body.len() < original.len());
    let (mut fine, mut failed) = (0, 0);
    for start in (0..original.len()).step_by(100_000) {
        let end = original.len().min(start + 100_000);
        let part = get(
            server,
            path,
            &[&format!("Range: bytes={start}-{}", end - 1)],
        );
        if part.status == 206 {
            assert!(part.is_complete() && part.body == original[start..end]);
            fine += 1;
        } else {
            assert_eq!(part.status, 500);
            let text = String::from_utf8_lossy(&part.body);
            assert!(
                text.contains("m.zstn") && text.contains("`layer."),
                "{text}"
            );
            failed += 1;
        }
    }
    assert!(
        fine > 30 && (5..=15).contains(&failed),
        "{fine} and {failed}"
    );
}

#[test]
fn a_damaged_head_is_an_error_and_other_files_are_not_there() {
    let (_, packed) = model(3);
    let folder = tempfile::tempdir().unwrap();
    let mut damaged = packed.clone();
    damaged[20] ^= 1;
    for (name, bytes) in [
        ("damaged.zstn", &damaged[..]),
        ("cut.zstn", &packed[..packed.len() / 2]),
        ("delta.zstn", &cases::read("zstn", "md_identical.z4dm")[..]),
        (
            "single.zstn",
            &cases::read("zstn", "noncontig_hole.zstn")[..],
        ),
        ("other.z4dm", &cases::read("zstn", "md_identical.z4dm")[..]),
    ] {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    let server = serve(folder.path());
    for (name, status) in [
        ("damaged", 500),
        ("cut", 500),
        ("delta", 404),
        ("single", 404),
        ("other", 404),
        ("missing", 404),
    ] {
        let answer = get(server, &format!("/{name}.safetensors"), &[]);
        assert_eq!(answer.status, status, "{name}");
        let text = String::from_utf8_lossy(&answer.body);
        let root = folder.path().display().to_string();
        assert!(text.contains(' ') && !text.contains(&root), "{text}");
    }
    // A listing reads only names and the first bytes of files.
    let page = get(server, "/", &[]).text();
    for (name, is_listed) in [
        ("damaged", true),
        ("cut", true),
        ("delta", false),
        ("single", false),
        ("other", false),
    ] {
        let listed = page.contains(&format!("{name}.safetensors"));
        assert_eq!(listed, is_listed, "{name}: {page}");
    }
}

#[test]
#[cfg_attr(
    windows,
    ignore = "wine does not replace a file that the server has open"
)]
fn a_real_file_goes_first_and_a_replaced_one_is_served_anew() {
    let [first, second] = [4, 5].map(model);
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let part = folder.path().join("part");
        std::fs::write(&part, bytes).unwrap();
        std::fs::rename(part, folder.path().join(name)).unwrap();
    };
    write("m.zstn", &first.1);
    let server = serve(folder.path());
    let path = "/m.safetensors";
    let old = get(server, path, &[]);
    assert!(old.body == first.0);
    write("m.zstn", &second.1);
    let new = get(server, path, &["Range: bytes=8-2000000"]);
    assert!(new.body == second.0[8..2_000_001]);
    assert_ne!(old.header("etag"), new.header("etag"));
    let condition = format!("If-Range: {}", old.header("etag").unwrap());
    assert_eq!(
        get(server, path, &["Range: bytes=0-7", &condition]).status,
        200
    );
    write("m.safetensors", b"something else");
    assert_eq!(get(server, path, &[]).body, b"something else");
}

#[test]
fn many_at_once_all_get_the_bytes() {
    let (original, packed) = model(6);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("m.zstn"), packed).unwrap();
    let server = serve(folder.path());
    std::thread::scope(|scope| {
        for seed in 0..12 {
            let original = &original;
            scope.spawn(move || {
                let mut rng = Rng(seed + 1);
                for _ in 0..8 {
                    let len = original.len() as u64;
                    let start = index(rng.next_u64() % len);
                    let end = original
                        .len()
                        .min(start + index(rng.next_u64() % 3_000_000) + 1);
                    let range = format!("Range: bytes={start}-{}", end - 1);
                    let part = get(server, "/m.safetensors", &[&range]);
                    assert!(part.body == original[start..end], "{range}");
                }
            });
        }
    });
}
