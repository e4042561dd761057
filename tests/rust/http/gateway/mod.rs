//! `zstn gateway`: how clients see the packed files of a hub or a folder.

mod faults;
mod files;
mod folder;
mod lists;
mod own;
mod permissions;
mod trust;

use std::net::SocketAddr;
use std::time::Duration;

use zstn::source::HttpOptions;
use zstn::{Engine, Location, Reader};
use zstn_core::container::zstn::pack;
use zstn_core::frame::select::Effort;
use zstn_hub::gateway::Gateway;
use zstn_tests::rng::Rng;
use zstn_tests::stub_hub::{LoggedRequest, Options, RepoId, StubHub};
use zstn_tests::{checkpoint, sha256};

use crate::serve::client::{Answer, ask, get};

/// A hub with a repository of packed files, and a gateway in front of it.
struct Site {
    hub: StubHub,
    gateway: SocketAddr,
    commit: String,
    /// The files before packing, by name.
    originals: Vec<(&'static str, Vec<u8>)>,
}

const FIRST: &str = "model-00001-of-00002.safetensors";
const SECOND: &str = "model-00002-of-00002.safetensors";
const INDEX: &str = "model.safetensors.index.json";
const WEIGHTS: &str = r#"{"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}}"#;

fn shard(name: &str, seed: u64) -> Vec<u8> {
    let mut rng = Rng(seed);
    let [large, small] = [400_000, 1000].map(|len| rng.bf16_weights(len));
    checkpoint(&[
        (name, "BF16", &large),
        (&format!("{name}.bias"), "BF16", &small),
    ])
}

fn packed(original: &[u8]) -> Vec<u8> {
    pack(&Engine::new(2).unwrap(), original, Effort::Fast).unwrap()
}

fn model() -> RepoId {
    RepoId::model("me/model")
}

/// Returns short timeouts, so that tests of faults end soon.
fn impatient() -> HttpOptions {
    let mut http = HttpOptions::default();
    http.retries = 1;
    http.first_backoff = Duration::from_millis(10);
    http.idle_timeout = Duration::from_secs(2);
    http
}

/// Returns a gateway that checks every request with the hub.
fn gateway(upstream: &Location) -> Gateway {
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    let gateway = Gateway::bind(upstream, any_port, &impatient()).unwrap();
    gateway.with_trust(Duration::ZERO)
}

/// Runs `gateway` until the test process ends. Returns its address.
fn run(gateway: Gateway) -> SocketAddr {
    let url = gateway.url();
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    let address = address.parse().unwrap();
    std::thread::spawn(move || gateway.run(|_| ()));
    address
}

fn site_with(options: Options, more: &[(&str, &[u8])]) -> Site {
    let hub = StubHub::start(options).unwrap();
    let originals = vec![
        (FIRST, shard("a", 1)),
        (SECOND, shard("b", 2)),
        (INDEX, WEIGHTS.as_bytes().to_vec()),
        ("config.json", b"{}".to_vec()),
    ];
    let [first, second] = [0, 1].map(|number: usize| packed(&originals[number].1));
    let index = WEIGHTS.replace(".safetensors", ".zstn");
    let files: [(&str, &[u8]); 4] = [
        ("model-00001-of-00002.zstn", &first),
        ("model-00002-of-00002.zstn", &second),
        ("model.zstn.index.json", index.as_bytes()),
        ("config.json", b"{}"),
    ];
    let files: Vec<_> = files.iter().chain(more).copied().collect();
    let commit = hub.add(&model(), &files).unwrap();
    let gateway = run(gateway(&Location::url(hub.url())));
    Site {
        hub,
        gateway,
        commit,
        originals,
    }
}

fn site() -> Site {
    site_with(Options::default(), &[])
}

impl Site {
    fn file(&self, name: &str, headers: &[&str]) -> Answer {
        get(
            self.gateway,
            &format!("/me/model/resolve/main/{name}"),
            headers,
        )
    }

    fn json(&self, path: &str) -> serde_json::Value {
        let answer = get(self.gateway, path, &[]);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        serde_json::from_slice(&answer.body).unwrap()
    }

    /// Returns whether the gateway fetched bytes of large files other than the first
    /// byte, which it requests to prove that a client may read the file.
    fn has_fetched(&self) -> bool {
        let is_proof = |request: &LoggedRequest| request.header("range") == Some("bytes=0-0");
        !self.fetched().iter().all(is_proof)
    }

    /// Returns the requests for bytes of large files.
    fn fetched(&self) -> Vec<LoggedRequest> {
        let requests = self.hub.log().into_iter();
        let is_storage = |request: &LoggedRequest| {
            request
                .header("host")
                .is_some_and(|host| host.starts_with("localhost"))
        };
        requests.filter(is_storage).collect()
    }
}
