//! A local folder as the upstream.

use std::path::Path;

use zstn::{Job, PackOptions, Sink};
use zstn_hub::manifest::{Results, Row};
use zstn_hub::work::{Origin, RowOutcome, RowWork, WorkerOptions};
use zstn_tests::cases;
use zstn_tests::checkpoints::npy;

use super::files::names;
use super::*;

fn write(root: &Path, name: &str, bytes: &[u8]) {
    let path = root.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

fn folder() -> (tempfile::TempDir, Vec<u8>, SocketAddr) {
    let folder = tempfile::tempdir().unwrap();
    let original = shard("a", 1);
    write(folder.path(), "me/model/sub/m.zstn", &packed(&original));
    write(folder.path(), "me/model/config.json", b"{}");
    write(folder.path(), "me/model/.secret", b"s");
    write(folder.path(), "datasets/me/data/rows.bin", &[7; 3 << 20]);
    let gateway = run(gateway(&Location::from(folder.path())));
    (folder, original, gateway)
}

fn json(gateway: SocketAddr, path: &str) -> serde_json::Value {
    let answer = get(gateway, path, &[]);
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    serde_json::from_slice(&answer.body).unwrap()
}

#[test]
fn a_folder_is_a_hub_of_repositories() {
    let (_folder, original, gateway) = folder();
    let info = json(gateway, "/api/models/me/model");
    assert_eq!(
        names(&info["siblings"]),
        ["config.json", "sub/m.safetensors"]
    );
    let commit = info["sha"].as_str().unwrap();
    assert_eq!(commit.len(), 40);
    assert!(commit.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let top = json(gateway, "/api/models/me/model/tree/main");
    assert_eq!(names(&top), ["config.json", "sub"]);
    let all = json(gateway, "/api/models/me/model/tree/main/sub");
    assert_eq!(names(&all), ["sub/m.safetensors"]);
    assert_eq!(all[0]["lfs"]["oid"], sha256(&original));
    let refs = json(gateway, "/api/models/me/model/refs");
    assert_eq!(refs["branches"][0]["targetCommit"], commit);

    for revision in ["main", commit] {
        let path = format!("/me/model/resolve/{revision}/sub/m.safetensors");
        let answer = get(gateway, &path, &[]);
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(answer.body == original);
        assert_eq!(answer.header("x-repo-commit"), Some(commit));
    }
    let data = get(
        gateway,
        "/datasets/me/data/resolve/main/rows.bin",
        &["Range: bytes=5-2000000"],
    );
    assert_eq!(data.status, 206);
    assert!(data.body == [7; 1_999_996]);
}

/// A packed file is offered under the name of the restored file only if that has the
/// format that the name states.
#[test]
fn files_of_other_formats_are_shown_under_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let (model, gguf) = (shard("a", 1), cases::read("gguf", "k-blocks.gguf"));
    let mut of_gguf = Vec::new();
    let sink = Sink::writer(&mut of_gguf);
    zstn::pack(&Job::new(), gguf.clone(), sink, &PackOptions::default()).unwrap();
    for (name, bytes) in [
        ("deep/model.gguf.zstn", &of_gguf),
        ("m.pt.zstn", &packed(&model)),
        ("other.zstn", &of_gguf),
        ("hidden.pt", &of_gguf),
        ("hidden.pt.zstn", &packed(&model)),
    ] {
        write(folder.path(), &format!("me/model/{name}"), bytes);
    }
    let gateway = run(gateway(&Location::from(folder.path())));
    let info = json(gateway, "/api/models/me/model");
    let shown = [
        "deep/model.gguf",
        "hidden.pt",
        "hidden.pt.safetensors",
        "m.pt.safetensors",
        "other.zstn",
    ];
    assert_eq!(names(&info["siblings"]), shown);
    let top = json(gateway, "/api/models/me/model/tree/main");
    assert_eq!(
        names(&top)[1..],
        [
            "hidden.pt",
            "hidden.pt.safetensors",
            "m.pt.safetensors",
            "other.zstn"
        ]
    );
    let deep = json(gateway, "/api/models/me/model/tree/main/deep");
    assert_eq!(names(&deep), ["deep/model.gguf"]);
    assert_eq!(deep[0]["size"], gguf.len());
    assert_eq!(deep[0]["lfs"]["oid"], sha256(&gguf));

    let resolve = |name: &str, headers: &[&str]| {
        get(gateway, &format!("/me/model/resolve/main/{name}"), headers)
    };
    assert!(resolve("deep/model.gguf", &[]).body == gguf);
    let part = resolve("deep/model.gguf", &["Range: bytes=100-2999"]);
    assert_eq!(part.status, 206);
    assert!(part.body == gguf[100..3000]);
    for name in ["m.pt", "other.safetensors"] {
        let answer = resolve(name, &[]);
        assert_eq!(answer.status, 404, "{name}");
        assert_eq!(answer.header("x-error-code"), Some("EntryNotFound"));
    }
    // `zstn pack m.pt.safetensors` makes `m.pt.zstn`.
    assert!(resolve("m.pt.safetensors", &[]).body == model);
    assert!(resolve("other.zstn", &[]).body == of_gguf);
}

#[test]
fn two_files_of_a_plan_with_one_packed_name_do_not_hide_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let files = [
        ("m.npy", npy(1, 20_000)),
        ("m.npy.safetensors", shard("a", 1)),
        ("n.safetensors", shard("b", 2)),
    ];
    let location = Location::from(root.join("results"));
    let results = Results::open(&location, &impatient()).unwrap();
    let engine = Engine::new(2).unwrap();
    let work = RowWork::new(
        &engine,
        Origin::folder(root),
        results,
        &root.join("scratch"),
        WorkerOptions::default(),
    );
    let work = work.unwrap();
    let mut rows = Vec::new();
    for (name, bytes) in &files {
        write(root, &format!("me/model/{name}"), bytes);
        let place = ("me/model", "r", *name);
        let row = Row::new(place, bytes.len() as u64, &sha256(bytes), Effort::Balanced);
        let outcome = work.work(&row, None, &()).unwrap();
        assert!(matches!(outcome, RowOutcome::Packed(_)), "{outcome:?}");
        rows.push(row);
    }
    for rows in [rows.clone(), rows.into_iter().rev().collect()] {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let gateway = Gateway::bind_planned(&location, rows, 1 << 30, address, &impatient());
        let gateway = run(gateway.unwrap());
        let tree = json(gateway, "/api/models/me/model/tree/main");
        assert_eq!(names(&tree), ["m.npy.safetensors", "n.safetensors"]);
        for (name, bytes) in &files[1..] {
            let answer = get(gateway, &format!("/me/model/resolve/main/{name}"), &[]);
            assert!(answer.body == *bytes, "{name}: {}", answer.status);
        }
    }
}

/// Clients compare the digests of small files with their downloads.
#[test]
fn plain_files_have_the_digests_of_git() {
    let (_folder, _, gateway) = folder();
    let digest = "9e26dfeeb6e641a33dae4961196235bdb965b21b";
    let tree = json(gateway, "/api/models/me/model/tree/main");
    let config = tree.as_array().unwrap().iter();
    let mut config = config.filter(|entry| entry["path"] == "config.json");
    assert_eq!(config.next().unwrap()["oid"], digest);
    let info = json(gateway, "/api/models/me/model?blobs=true");
    let config = info["siblings"].as_array().unwrap().iter();
    let mut config = config.filter(|entry| entry["rfilename"] == "config.json");
    assert_eq!(config.next().unwrap()["blobId"], digest);
}

#[test]
fn long_lists_come_in_pages() {
    let (folder, _, gateway) = folder();
    for number in 0..2500 {
        write(folder.path(), &format!("me/many/a b/{number}"), b"");
    }
    let mut found = Vec::new();
    let mut next = Some("/api/models/me/many/tree/main?recursive=true".to_owned());
    let mut pages = 0;
    while let Some(path) = next {
        let answer = get(gateway, &path, &[]);
        assert_eq!(answer.status, 200, "{}", answer.text());
        found.extend(names(&serde_json::from_slice(&answer.body).unwrap()));
        next = answer.header("link").map(|link| {
            let address = link.trim_start_matches('<').split('>').next().unwrap();
            address.strip_prefix("http://localhost").unwrap().to_owned()
        });
        pages += 1;
    }
    let mut expected: Vec<_> = (0..2500).map(|number| format!("a b/{number}")).collect();
    expected.push("a b".into());
    expected.sort();
    assert_eq!((found, pages), (expected, 3));
}

#[test]
fn what_is_not_there_is_said_as_a_hub_says_it() {
    let (_folder, _, gateway) = folder();
    for (path, code) in [
        (
            "/me/model/resolve/main/missing.safetensors",
            "EntryNotFound",
        ),
        ("/me/model/resolve/main/.secret", "EntryNotFound"),
        ("/me/model/resolve/v2/config.json", "RevisionNotFound"),
        ("/me/other/resolve/main/config.json", "RepoNotFound"),
        ("/api/models/me/other", "RepoNotFound"),
        ("/api/models/me", "RepoNotFound"),
        ("/api/models/me/model/tree/v2", "RevisionNotFound"),
        ("/api/models/me/model/tree/main/nothing", "EntryNotFound"),
    ] {
        let answer = get(gateway, path, &[]);
        assert_eq!(answer.status, 404, "{path}");
        assert_eq!(answer.header("x-error-code"), Some(code), "{path}");
    }
    let write = ask(
        gateway,
        "POST",
        "/api/models/me/model/commit/main",
        &["Content-Length: 0"],
    );
    assert_eq!(write.status, 404);
    assert!(write.text().contains("read and not changed"));
}

/// A client that began to download one state must not get files of another state.
#[test]
fn a_changed_folder_is_another_commit() {
    let (folder, _, gateway) = folder();
    let info = json(gateway, "/api/models/me/model");
    let before = info["sha"].as_str().unwrap();
    let changed = shard("a", 2);
    write(folder.path(), "me/model/sub/m.zstn", &packed(&changed));
    let path = format!("/me/model/resolve/{before}/sub/m.safetensors");
    let answer = get(gateway, &path, &[]);
    assert_eq!(answer.status, 404);
    assert_eq!(answer.header("x-error-code"), Some("RevisionNotFound"));
    let answer = get(gateway, "/me/model/resolve/main/sub/m.safetensors", &[]);
    assert!(answer.body == changed);
}

/// Both states have files of the same length, as when a model is trained further.
#[test]
fn bytes_of_two_states_are_not_mixed() {
    let folder = tempfile::tempdir().unwrap();
    let path = "me/model/m.safetensors";
    write(folder.path(), path, &shard("a", 1));
    let upstream = Location::from(folder.path());
    let gateway = run(gateway(&upstream).with_trust(Duration::from_secs(3600)));
    let first = get(
        gateway,
        "/me/model/resolve/main/m.safetensors",
        &["Range: bytes=0-99"],
    );
    assert_eq!(first.status, 206);
    write(folder.path(), path, &shard("a", 2));
    let tag = first.header("etag").unwrap();
    let rest = get(
        gateway,
        "/me/model/resolve/main/m.safetensors",
        &["Range: bytes=100-", &format!("If-Range: {tag}")],
    );
    assert_eq!(rest.status, 502, "{}", rest.text());
    assert!(rest.text().contains("changed"), "{}", rest.text());
}

#[cfg(unix)]
#[test]
fn links_in_a_circle_end() {
    let (folder, _, gateway) = folder();
    let model = folder.path().join("me/model");
    for name in ["here", "again"] {
        std::os::unix::fs::symlink(".", model.join(name)).unwrap();
    }
    std::os::unix::fs::symlink("..", model.join("sub/up")).unwrap();
    let info = json(gateway, "/api/models/me/model");
    assert!(names(&info["siblings"]).contains(&"config.json".to_owned()));
}

#[cfg(unix)]
#[test]
fn links_out_of_the_folder_are_not_followed() {
    let (folder, _, gateway) = folder();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("x"), b"x").unwrap();
    let link = folder.path().join("me/model/link");
    std::os::unix::fs::symlink(outside.path().join("x"), link).unwrap();
    assert_eq!(get(gateway, "/me/model/resolve/main/link", &[]).status, 404);
    let info = json(gateway, "/api/models/me/model");
    assert_eq!(
        names(&info["siblings"]),
        ["config.json", "sub/m.safetensors"]
    );
}

#[test]
fn a_missing_folder_is_an_error_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    let missing = Location::from(folder.path().join("missing"));
    let error = Gateway::bind(&missing, any_port, &impatient())
        .err()
        .unwrap();
    assert!(error.to_string().contains("missing"), "{error}");
}
