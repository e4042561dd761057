//! Downloads of files through the gateway.

use zstn::{Job, PackOptions};
use zstn_core::container::zstn::ContainerOptions;
use zstn_tests::extended::quantised;

use super::*;

#[test]
fn a_packed_file_is_the_original_whole_and_in_ranges() {
    let site = site();
    for (name, original) in &site.originals {
        let whole = site.file(name, &[]);
        assert_eq!(whole.status, 200, "{name}: {}", whole.text());
        assert!(whole.body == *original, "{name}");
        assert_eq!(whole.header("x-repo-commit"), Some(&*site.commit));
        let len = original.len();
        let middle = len / 2;
        let part = site.file(name, &[&format!("Range: bytes=1-{middle}")]);
        assert_eq!(part.status, 206, "{name}");
        assert!(part.body == original[1..=middle], "{name}");
    }
}

#[test]
fn a_file_with_extension_frames_is_the_original_whole_and_in_ranges() {
    let original = quantised();
    let options = ContainerOptions::new(Effort::Fast).extended(true);
    let bytes = pack(&Engine::new(2).unwrap(), &original, options).unwrap();
    assert_eq!(bytes[4], 4);
    let site = site_with(Options::default(), &[("grid.zstn", &bytes)]);
    let whole = site.file("grid.safetensors", &[]);
    assert_eq!(whole.status, 200, "{}", whole.text());
    assert!(whole.body == original);
    let digest = format!("\"{}\"", sha256(&original));
    assert_eq!(whole.header("etag"), Some(&*digest));
    for start in (0..original.len()).step_by(7_001) {
        let end = original.len().min(start + 3_000);
        let range = format!("Range: bytes={start}-{}", end - 1);
        let part = site.file("grid.safetensors", &[&range]);
        assert_eq!(part.status, 206, "{range}");
        assert!(part.body == original[start..end], "{range}");
    }
}

#[test]
fn clients_learn_digest_and_length_without_the_bytes() {
    let site = site();
    let (name, original) = &site.originals[0];
    let path = format!("/me/model/resolve/main/{name}");
    let head = ask(site.gateway, "HEAD", &path, &[]);
    let digest = format!("\"{}\"", sha256(original));
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("etag"), Some(&*digest));
    assert_eq!(head.header("x-linked-etag"), Some(&*digest));
    assert_eq!(
        head.header("x-linked-size"),
        Some(&*original.len().to_string())
    );
    assert_eq!(
        head.header("content-length"),
        Some(&*original.len().to_string())
    );
    assert_eq!(head.header("x-repo-commit"), Some(&*site.commit));
    assert_eq!(head.header("x-xet-hash"), None);
    // The commit id is accepted as a revision like a branch.
    let path = format!("/me/model/resolve/{}/{name}", site.commit);
    let again = ask(
        site.gateway,
        "HEAD",
        &path,
        &[&format!("If-None-Match: {digest}")],
    );
    assert_eq!(again.status, 304);
}

#[test]
fn files_that_are_there_are_passed_on() {
    let plain = shard("plain", 3);
    let both = shard("both", 4);
    let other = packed(&shard("other", 5));
    let more: [(&str, &[u8]); 3] = [
        ("plain.safetensors", &plain),
        ("both.safetensors", &both),
        ("both.zstn", &other),
    ];
    let site = site_with(Options::default(), &more);
    // The gateway redirects to the server that has the bytes, as the hub does.
    for name in ["plain.safetensors", "both.safetensors", "both.zstn"] {
        let answer = site.file(name, &[]);
        assert_eq!(answer.status, 302, "{name}");
        assert!(
            answer
                .header("location")
                .unwrap()
                .starts_with("http://localhost:")
        );
        assert!(answer.header("x-linked-etag").is_some());
    }
    let config = site.file("config.json", &[]);
    assert_eq!((config.status, &*config.body), (200, &b"{}"[..]));
    let missing = site.file("missing.safetensors", &[]);
    assert_eq!(missing.status, 404);
    assert_eq!(missing.header("x-error-code"), Some("EntryNotFound"));
}

/// The name of an index may have a variant on either side of the word `index`.
#[test]
fn indices_with_variants_are_restored() {
    let index = WEIGHTS.replace(".safetensors", ".zstn");
    let more: [(&str, &[u8]); 2] = [
        ("model.zstn.index.fp16.json", index.as_bytes()),
        ("sub/model.zstn.fp16.index.json", index.as_bytes()),
    ];
    let site = site_with(Options::default(), &more);
    for name in [
        "model.safetensors.index.fp16.json",
        "sub/model.safetensors.fp16.index.json",
    ] {
        let answer = site.file(name, &[]);
        assert_eq!(answer.status, 200, "{name}: {}", answer.text());
        assert_eq!(answer.text(), WEIGHTS, "{name}");
    }
    let tree = site.json("/api/models/me/model/tree/main");
    let names = lists::names(&tree);
    let shown = "model.safetensors.index.fp16.json".to_owned();
    assert!(names.contains(&shown), "{names:?}");
}

#[test]
fn what_was_fetched_is_not_fetched_again() {
    let site = site();
    assert_eq!(site.file(FIRST, &[]).status, 200);
    assert!(!site.fetched().is_empty());
    site.hub.clear_log();
    assert_eq!(site.file(FIRST, &[]).status, 200);
    assert_eq!(site.file(FIRST, &["Range: bytes=100-200"]).status, 206);
    assert!(!site.has_fetched());
}

/// The gateway cannot restore a file packed against a base, so it shows it unchanged.
#[test]
fn a_difference_is_shown_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("base.safetensors"), shard("x", 1)).unwrap();
    std::fs::write(at("tuned.safetensors"), shard("x", 2)).unwrap();
    let options = PackOptions::default().base(at("base.safetensors"));
    let job = Job::new().engine(&Engine::new(2).unwrap());
    // The name has the extension of a container without a base.
    zstn::pack(&job, at("tuned.safetensors"), at("delta.zstn"), &options).unwrap();
    let delta = std::fs::read(at("delta.zstn")).unwrap();
    let site = site_with(Options::default(), &[("delta.zstn", &delta)]);
    let answer = site.file("delta.safetensors", &[]);
    assert_eq!(answer.status, 404, "{}", answer.text());
    let names = lists::names(&site.json("/api/models/me/model/tree/main"));
    assert!(names.contains(&"delta.zstn".to_owned()), "{names:?}");
}

#[test]
fn other_readers_of_this_project_read_through_it() {
    let site = site();
    let url = format!("http://{}/me/model/resolve/main/{FIRST}", site.gateway);
    let reader = Reader::open(Location::url(url)).unwrap();
    let expected = Rng(1).bf16_weights(400_000);
    assert!(reader.read("a").unwrap().bytes == expected);
}
