//! Reading files from the repositories of a model hub.

use zstn::convert::Target;
use zstn::source::{HttpOptions, Remote, Source};
use zstn::{
    ConvertOptions, Engine, Error, Job, Location, PackOptions, Reader, ReaderOptions,
    UnpackOptions, VerifyOptions, View,
};
use zstn_tests::rng::Rng;
use zstn_tests::round_server::{Hub, Request, RoundServer};
use zstn_tests::{cases, checkpoint};

const TOKEN: &str = "hf_a-secret-token";
const FIRST: &str = "0123456789abcdef0123456789abcdef01234567";
const SECOND: &str = "89abcdef0123456789abcdef0123456789abcdef";
const INDEX: &[u8] = br#"{"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}}"#;

/// Returns options for a hub that requires a login.
fn login(hub: &Hub) -> HttpOptions {
    hub.server.demand(&format!("Bearer {TOKEN}"));
    let options = HttpOptions::default().hub(hub.endpoint(), Some(TOKEN));
    options.unwrap()
}

fn shard(name: &str, seed: u64) -> Vec<u8> {
    checkpoint(&[(name, "BF16", &Rng(seed).bf16_weights(50_000))])
}

fn paths(server: &RoundServer) -> Vec<String> {
    let requests = server.finished_rounds().into_iter();
    requests.map(|request| request.path).collect()
}

fn has_token(request: &Request) -> bool {
    let mut values = request.headers.iter().map(|(_, value)| value);
    values.any(|value| value.contains(TOKEN))
}

#[test]
fn every_function_reads_addresses_in_a_hub() {
    let hub = Hub::start();
    let http = login(&hub);
    let (a, b) = (shard("a", 1), shard("b", 2));
    let files: [(&str, &[u8]); 4] = [
        ("m-1.safetensors", &a),
        ("m-2.safetensors", &b),
        ("m.safetensors.index.json", INDEX),
        ("config.json", b"{}"),
    ];
    let engine = Engine::new(2).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    hub.add("o/n", "main", FIRST, &files);
    hub.add("o/n", FIRST, FIRST, &files);
    let file = |name: &str| Location::url(format!("hf://o/n/{name}"));
    let index = file("m.safetensors.index.json");

    let job = Job::new().engine(&engine).http(http.clone());
    let options = PackOptions::default();
    zstn::pack(&job, &index, at("packed"), &options).unwrap();
    assert_eq!(std::fs::read(at("packed/config.json")).unwrap(), b"{}");
    let options = options.base(file("m-1.safetensors"));
    zstn::pack(&job, file("m-1.safetensors"), at("m.z4dm"), &options).unwrap();
    let options = UnpackOptions::default().base(file("m-1.safetensors"));
    zstn::unpack(&job, at("m.z4dm"), at("back"), &options).unwrap();
    assert!(std::fs::read(at("back")).unwrap() == a);
    let options = VerifyOptions::default().original(&index);
    let verified = zstn::verify(&job, at("packed"), &options).unwrap();
    assert_eq!(verified.indexed_tensors, 2);
    let options = ConvertOptions::default();
    zstn::convert(&job, &index, at("all"), &Target::Safetensors, &options).unwrap();
    let reader = Reader::options().engine(&engine).http(http);
    let reader = reader.open(&index).unwrap();
    assert!(a.ends_with(&reader.read("a").unwrap().bytes));

    // The token is sent to the hub, but not to the server of large files.
    let requests = hub.server.finished_rounds();
    assert!(requests.iter().all(has_token));
    let requests = hub.storage.finished_rounds();
    assert!(!requests.is_empty() && !requests.iter().any(has_token));
}

#[test]
fn files_of_a_checkpoint_are_of_one_commit() {
    let hub = Hub::start();
    let http = login(&hub);
    let (a, b, other) = (shard("a", 1), shard("b", 2), shard("b", 3));
    // Another user pushes right after the index was read.
    let index = ("m.safetensors.index.json", INDEX);
    hub.add("o/n", "main", FIRST, &[index]);
    let (first, second) = (("m-1.safetensors", &*a), ("m-2.safetensors", &*b));
    hub.add(
        "o/n",
        FIRST,
        FIRST,
        &[index, first, second, ("config.json", b"{}")],
    );
    hub.add("o/n", "main", SECOND, &[first, ("m-2.safetensors", &other)]);
    let location = Location::url("hf://o/n/m.safetensors.index.json");
    let reader = Reader::options()
        .http(http.clone())
        .open(&location)
        .unwrap();
    assert!(b.ends_with(&reader.read("b").unwrap().bytes));
    let expected = format!("hf://o/n@{FIRST}/m-2.safetensors");
    assert_eq!(reader.sources()[1].name(), expected);
    let scratch = tempfile::tempdir().unwrap();
    let job = Job::new().engine(&Engine::new(1).unwrap()).http(http);
    let packed = scratch.path().join("packed");
    zstn::pack(&job, &location, &packed, &PackOptions::default()).unwrap();
    assert!(packed.join("config.json").exists());
    for path in paths(&hub.server) {
        let is_index = path == "/o/n/resolve/main/m.safetensors.index.json";
        assert!(
            is_index || path.starts_with(&format!("/o/n/resolve/{FIRST}/")),
            "{path}"
        );
    }
}

#[test]
fn one_file_is_read_from_the_commit_it_was_opened_in() {
    let hub = Hub::start();
    let http = login(&hub);
    let (before, after) = (shard("a", 1), shard("a", 2));
    hub.add("o/n", "main", FIRST, &[("a b.safetensors", b"")]);
    hub.add("o/n", "main", FIRST, &[("a%20b.safetensors", &before)]);
    hub.add("o/n", FIRST, FIRST, &[("a%20b.safetensors", &before)]);
    let remote = Remote::open("hf://o/n/a b.safetensors", 10, &http).unwrap();
    hub.add("o/n", "main", SECOND, &[("a%20b.safetensors", &after)]);
    assert!(*remote.read(1000..50_000).unwrap() == before[1000..50_000]);
    let pinned = Location::url(format!("hf://o/n@{FIRST}/a b.safetensors"));
    assert_eq!(remote.pinned_location(), Some(pinned));
}

#[test]
fn the_config_of_a_single_file_is_of_its_commit() {
    let hub = Hub::start();
    let http = login(&hub);
    let read = |name: &str| cases::read("compressed-tensors", name);
    let model = read("fp8_channel.safetensors");
    let config = read("fp8_channel.config.json");
    hub.add(
        "o/n",
        "main",
        FIRST,
        &[("m", &model), ("config.json", b"{}")],
    );
    hub.add(
        "o/n",
        FIRST,
        FIRST,
        &[("m", &model), ("config.json", &config)],
    );
    let options = Reader::options().http(http);
    let tensors = |options: &ReaderOptions| {
        let reader = options.open(Location::url("hf://o/n/m")).unwrap();
        reader.tensors().len()
    };
    let dense = tensors(&options);
    assert!(dense < tensors(&options.view(View::Stored)));
}

#[test]
fn revisions_and_other_kinds_of_repositories() {
    let hub = Hub::start();
    let http = login(&hub);
    let bytes = shard("a", 1);
    for (address, repository, revision) in [
        ("hf://datasets/o/n@v1/m", "datasets/o/n", "v1"),
        ("hf://spaces/o/n@a%2Fb/m", "spaces/o/n", "a%2Fb"),
        ("hf://o/n@refs/pr/3/m", "o/n", "refs%2Fpr%2F3"),
        ("hf://o/n@refs%2Fpr%2F4/m", "o/n", "refs%2Fpr%2F4"),
    ] {
        hub.add(repository, revision, FIRST, &[("m", &bytes)]);
        let copy = Location::url(address).fetch(&http, &|_, _| ()).unwrap();
        assert!(*copy.read_all().unwrap() == bytes, "{address}");
    }
}

#[test]
fn refusals_say_what_to_do() {
    for (status, code, message, with, without) in [
        (
            "404 Not Found",
            "EntryNotFound",
            "Entry not found",
            "no such file in o/n at main",
            "",
        ),
        (
            "404 Not Found",
            "RevisionNotFound",
            "Invalid rev id: main",
            "no branch, tag or commit main",
            "",
        ),
        (
            "403 Forbidden",
            "GatedRepo",
            "Access is restricted",
            "with the account",
            "HF_TOKEN",
        ),
        (
            "401 Unauthorized",
            "GatedRepo",
            "Access is restricted",
            "accept its terms at",
            "accept its terms at",
        ),
        (
            "401 Unauthorized",
            "RepoNotFound",
            "Repository not found",
            "token's permissions",
            "or it is private",
        ),
        (
            "404 Not Found",
            "RepoNotFound",
            "Repository not found",
            "no repository o/n",
            "HF_TOKEN",
        ),
        (
            "401 Unauthorized",
            "",
            "Invalid credentials in Authorization header",
            "make another one",
            "",
        ),
        (
            "401 Unauthorized",
            "",
            "",
            "token's permissions",
            "HF_TOKEN",
        ),
        (
            "403 Forbidden",
            "",
            "Access to this resource is disabled.",
            "has disabled access",
            "",
        ),
        (
            "403 Forbidden",
            "",
            "the quota is spent",
            "the quota is spent",
            "",
        ),
        ("404 Not Found", "", "", "no such file, check", ""),
    ] {
        let hub = Hub::start();
        for name in ["m.safetensors", "m.safetensors.index.json"] {
            hub.refuse(&format!("o/n/{name}"), status, code, message);
            for (token, sentence) in [(Some(TOKEN), with), (None, without)] {
                let http = HttpOptions::default().hub(hub.endpoint(), token).unwrap();
                let address = format!("hf://o/n/{name}");
                let opened = Reader::options().http(http).open(Location::url(&address));
                let error = opened.err().unwrap();
                let text = error.to_string();
                assert!(text.contains(sentence) && text.contains(&address), "{text}");
                assert!(!text.contains(TOKEN), "{text}");
                let Error::Http { status: found, .. } = error else {
                    panic!("{text}");
                };
                assert_eq!(found, status[..3].parse().ok(), "{text}");
            }
        }
    }
}

#[test]
fn a_header_for_the_hub_comes_before_its_token() {
    let hub = Hub::start();
    hub.server.demand("Basic own");
    hub.add("o/n", "main", FIRST, &[("m", b"bytes")]);
    let http = HttpOptions::default()
        .header(hub.endpoint(), "authorization", "Basic own")
        .and_then(|http| http.hub(hub.endpoint(), Some(TOKEN)));
    Remote::open("hf://o/n/m", 10, &http.unwrap()).unwrap();
}

#[test]
fn malformed_addresses_are_usage_errors() {
    let http = HttpOptions::default()
        .hub("https://hub.invalid/", None)
        .unwrap();
    for address in [
        "hf://o/n",
        "hf://o",
        "hf://o/n@main",
        "hf://o/n/",
        "hf://o/n@/x.index.json",
    ] {
        let error = Reader::options()
            .http(http.clone())
            .open(Location::url(address));
        let error = error.err().unwrap();
        assert!(matches!(error, Error::Usage(_)), "{error:?}");
        assert!(
            error.to_string().contains("hf://OWNER/NAME@REVISION/FILE"),
            "{error}"
        );
    }
    for endpoint in ["", "hub", "ftp://hub", "hf://o/n/f"] {
        let refused = HttpOptions::default().hub(endpoint, None);
        assert!(matches!(refused, Err(Error::Usage(_))), "{endpoint}");
    }
    let refused = HttpOptions::default().hub("https://hub.invalid", Some("a\nb"));
    let refused = Remote::open("hf://o/n/f", 1, &refused.unwrap());
    assert!(matches!(refused, Err(Error::Usage(_))));
}
