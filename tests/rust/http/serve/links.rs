//! Symbolic links that lead out of the served folder.

#![cfg(unix)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use zstn::Engine;
use zstn_core::container::zstn::pack;
use zstn_core::frame::select::Effort;
use zstn_tests::checkpoint;

use super::{address, bind, get, run, serve};

struct Cache {
    folder: tempfile::TempDir,
    original: Vec<u8>,
    packed: Vec<u8>,
}

impl Cache {
    /// Creates `hub/models--org--m` with `blobs`, `refs` and a snapshot of links, in a
    /// hidden folder like `~/.cache`.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let original = checkpoint(&[("a", "U8", &[7; 100])]);
        let packed = pack(&Engine::new(1).unwrap(), &original, Effort::Fast).unwrap();
        let cache = Self {
            folder,
            original,
            packed,
        };
        let model = cache.model();
        for name in ["blobs", "refs", "snapshots/abc/onnx"] {
            fs::create_dir_all(model.join(name)).unwrap();
        }
        fs::write(model.join("refs/main"), "abc").unwrap();
        for (hash, bytes) in [("f00d", &cache.original), ("beef", &cache.packed)] {
            fs::write(model.join("blobs").join(hash), bytes).unwrap();
        }
        for (target, link) in [
            ("../../blobs/f00d", "model.safetensors"),
            ("../../blobs/beef", "packed.zstn"),
            ("../../../blobs/f00d", "onnx/model.onnx"),
        ] {
            symlink(target, cache.snapshot().join(link)).unwrap();
        }
        cache
    }

    fn model(&self) -> PathBuf {
        self.folder.path().join(".cache/hub/models--org--m")
    }

    fn snapshot(&self) -> PathBuf {
        self.model().join("snapshots/abc")
    }
}

#[test]
fn a_snapshot_of_a_hub_cache_is_served_by_itself() {
    let cache = Cache::new();
    for (root, base) in [
        (cache.snapshot(), ""),
        (cache.model().join("snapshots"), "/abc"),
        (cache.model(), "/snapshots/abc"),
        (
            cache.folder.path().join(".cache/hub"),
            "/models--org--m/snapshots/abc",
        ),
    ] {
        let server = serve(&root);
        for (name, bytes) in [
            ("model.safetensors", &cache.original),
            ("packed.zstn", &cache.packed),
            ("packed.safetensors", &cache.original),
            ("onnx/model.onnx", &cache.original),
        ] {
            let answer = get(server, &format!("{base}/{name}"), &[]);
            assert_eq!(answer.status, 200, "{name} in {}", root.display());
            assert!(answer.body == *bytes, "{name} in {}", root.display());
        }
        let page = get(server, &format!("{base}/"), &[]).text();
        for name in [
            "model.safetensors</a>",
            "packed.zstn</a>",
            "packed.safetensors</a>",
        ] {
            assert!(page.contains(name), "{page}");
        }
    }
    let server = serve(&cache.snapshot().join("onnx"));
    assert_eq!(get(server, "/model.onnx", &[]).body, cache.original);
}

#[test]
fn other_links_out_of_the_folder_are_refused_with_the_option_that_helps() {
    let cache = Cache::new();
    let secret = cache.folder.path().join("secret.bin");
    fs::write(&secret, "secret").unwrap();
    fs::create_dir(cache.model().join("blobs/inner")).unwrap();
    fs::write(cache.model().join("blobs/inner/x"), "secret").unwrap();
    symlink(&secret, cache.model().join("blobs/further")).unwrap();
    for (target, link) in [
        (secret.as_path(), "out.bin"),
        (secret.as_path(), "out.zstn"),
        (cache.folder.path(), "folder"),
        (Path::new("../../refs/main"), "ref"),
        (Path::new("../../blobs"), "blobs"),
        (Path::new("../../blobs/inner/x"), "inner"),
        (Path::new("../../blobs/further"), "further"),
    ] {
        symlink(target, cache.snapshot().join(link)).unwrap();
    }
    let server = serve(&cache.snapshot());
    for path in [
        "/out.bin",
        "/out.zstn",
        "/out.safetensors",
        "/folder",
        "/folder/secret.bin",
        "/folder/missing.bin",
        "/ref",
        "/blobs",
        "/blobs/f00d",
        "/inner",
        "/further",
    ] {
        let answer = get(server, path, &[]);
        assert_eq!(answer.status, 404, "{path}");
        let text = answer.text();
        assert!(text.contains("does not follow"), "{path}: {text}");
        let place = cache.folder.path().display().to_string();
        assert!(!text.contains(&place), "{path}: {text}");
    }
    let page = get(server, "/", &[]).text();
    assert!(!page.contains("href=\"/out"), "{page}");
    assert!(!page.contains("href=\"/folder"), "{page}");
}

#[test]
fn folders_beside_snapshots_are_no_cache() {
    let cache = Cache::new();
    let other = cache.model().join("other/abc");
    fs::create_dir_all(&other).unwrap();
    symlink("../../blobs/f00d", other.join("x.bin")).unwrap();
    assert_eq!(get(serve(&other), "/x.bin", &[]).status, 404);
}

/// Links within the served folder are always followed, even into hidden folders,
/// because git-annex and caches store files there.
#[test]
fn links_inside_the_folder_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join(".annex/objects")).unwrap();
    fs::write(folder.path().join(".annex/objects/x"), "bytes").unwrap();
    symlink(".annex/objects/x", folder.path().join("x.bin")).unwrap();
    symlink("nowhere", folder.path().join("broken.bin")).unwrap();
    let server = serve(folder.path());
    assert_eq!(get(server, "/x.bin", &[]).body, b"bytes");
    assert_eq!(get(server, "/broken.bin", &[]).status, 404);
}

#[test]
fn a_named_folder_may_be_linked_to() {
    let cache = Cache::new();
    let shared = cache.folder.path().join("shared");
    fs::create_dir_all(shared.join("inner/.hidden")).unwrap();
    for name in ["x.bin", "inner/index.html", "inner/.hidden/y"] {
        fs::write(shared.join(name), name).unwrap();
    }
    fs::write(cache.folder.path().join("secret"), "secret").unwrap();
    symlink("../../secret", shared.join("inner/out")).unwrap();
    let served = cache.folder.path().join("served");
    fs::create_dir(&served).unwrap();
    for (target, link) in [
        ("../shared/x.bin", "x.bin"),
        ("../shared/inner", "folder"),
        ("../secret", "secret"),
    ] {
        symlink(target, served.join(link)).unwrap();
    }
    let server = run(bind(&served).with_links_in(&shared).unwrap());
    assert_eq!(get(server, "/x.bin", &[]).body, b"x.bin");
    assert_eq!(get(server, "/folder/", &[]).body, b"inner/index.html");
    for path in ["/secret", "/folder/out", "/folder/.hidden/y"] {
        assert_eq!(get(server, path, &[]).status, 404, "{path}");
    }
    let page = get(server, "/", &[]).text();
    assert!(
        page.contains("x.bin</a>") && !page.contains("secret</a>"),
        "{page}"
    );
    let missing = bind(&served).with_links_in(&served.join("nowhere"));
    let error = missing.err().unwrap().to_string();
    assert!(error.contains("nowhere"), "{error}");
}

/// The server's log contains the target of a refused link; its answers do not.
#[test]
fn the_log_says_which_folder_to_name() {
    let cache = Cache::new();
    let served = cache.folder.path().join("served");
    fs::create_dir(&served).unwrap();
    let blob = cache.model().join("blobs/f00d").canonicalize().unwrap();
    symlink(&blob, served.join("model.safetensors")).unwrap();
    let server = bind(&served);
    let (log, lines) = std::sync::mpsc::channel();
    let address = address(&server);
    std::thread::spawn(move || {
        server.run(move |line| {
            let _ = log.send(line.to_string());
        })
    });
    assert_eq!(get(address, "/model.safetensors", &[]).status, 404);
    let line = lines.recv().unwrap();
    let target = blob.display().to_string();
    assert!(
        line.starts_with("404 GET ") && line.contains(&target),
        "{line}"
    );
}
