//! Bases that are packed themselves: containers of every layout, deltas with
//! bases of their own, and what is refused as a base.

use std::net::SocketAddr;
use std::path::PathBuf;

use zstn::pack::pack_map;
use zstn::serve::Server;
use zstn::source::{Map, Place};
use zstn::{BaseFile, Engine, Error, Output, PackOptions, pack_delta, unpack_delta, verify_delta};
use zstn_core::bytes::index;
use zstn_tests::rng::Rng;
use zstn_tests::{cases, checkpoint, many_kinds};

fn engine() -> Engine {
    Engine::new(2).unwrap()
}

/// A folder of files by their names.
struct Files(tempfile::TempDir);

impl Files {
    fn new(files: &[(&str, &[u8])]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            std::fs::write(folder.path().join(name), bytes).unwrap();
        }
        Self(folder)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.at(name)).unwrap()
    }

    fn map(&self, name: &str) -> Map {
        Map::open(&self.at(name)).unwrap()
    }

    fn base(&self, chain: &[&str]) -> zstn::Result<BaseFile> {
        let chain = chain.iter().map(|name| Place::Path(self.at(name)));
        BaseFile::open(&engine(), &chain.collect::<Vec<_>>(), 1 << 30, &())
    }

    fn pack(&self, name: &str, packed: &str, integrity: bool) -> bool {
        let output = Output::create(&self.at(packed)).unwrap();
        let options = PackOptions {
            integrity,
            ..PackOptions::default()
        };
        let report = pack_map(&engine(), &self.map(name), output, &options);
        report.unwrap().indexed
    }

    fn pack_delta(&self, name: &str, chain: &[&str], packed: &str) {
        let base = self.base(chain).unwrap();
        let output = Output::create(&self.at(packed)).unwrap();
        let options = PackOptions::default();
        let report = pack_delta(&engine(), &self.map(name), &base, output, &options).unwrap();
        let sum = report.copied + report.differing + report.whole;
        assert_eq!(sum, report.tensors);
    }

    /// Restores a delta, and verifies it against `original`.
    fn unpack_delta(&self, packed: &str, chain: &[&str], original: &str) -> zstn::Result<Vec<u8>> {
        let (engine, input) = (engine(), self.map(packed));
        let base = self.base(chain)?;
        let output = Output::create(&self.at("back"))?;
        unpack_delta(&engine, &input, &base, output, &())?;
        let original = self.map(original);
        let report = verify_delta(&engine, &input, &base, Some(&original), &())?;
        assert!(report.compared);
        Ok(self.read("back"))
    }
}

/// The model with one bit in every `step` bytes of its data changed.
fn tuned(model: &[u8], step: usize) -> Vec<u8> {
    let mut tuned = model.to_vec();
    let header_len = u64::from_le_bytes(model[..8].try_into().unwrap());
    // The first tensors stay.
    for byte in tuned[8 + index(header_len) + 5000..]
        .iter_mut()
        .step_by(step)
    {
        *byte ^= 1;
    }
    tuned
}

#[test]
fn containers_of_every_layout_are_bases() {
    let model = many_kinds(300_000);
    let mut odd = model.clone();
    odd.extend_from_slice(b"bytes of no tensor");
    for (base, integrity, indexed) in [
        (&model, true, true),
        (&model, false, true),
        (&odd, true, false),
    ] {
        let files = Files::new(&[("base", base), ("tuned", &tuned(&model, 700))]);
        assert_eq!(files.pack("base", "base.zstn", integrity), indexed);
        files.pack_delta("tuned", &["base"], "plain.z4dm");
        files.pack_delta("tuned", &["base.zstn"], "packed.z4dm");
        let plain = files.read("plain.z4dm");
        assert!(plain == files.read("packed.z4dm"));
        assert!(plain.len() * 3 < model.len(), "{} bytes", plain.len());
        let back = files.unpack_delta("plain.z4dm", &["base.zstn"], "tuned");
        assert!(back.unwrap() == files.read("tuned"));
    }
}

/// Three generations: `v1` plain and packed, the others plain and as deltas
/// from the one before.
fn generations() -> Files {
    let first = many_kinds(200_000);
    let second = tuned(&first, 900);
    let third = tuned(&second, 1100);
    let files = Files::new(&[("v1", &first), ("v2", &second), ("v3", &third)]);
    files.pack("v1", "v1.zstn", true);
    files.pack_delta("v2", &["v1.zstn"], "v2.z4dm");
    files.pack_delta("v3", &["v2.z4dm", "v1.zstn"], "v3.z4dm");
    files
}

#[test]
fn a_delta_is_the_base_of_the_next() {
    let files = generations();
    files.pack_delta("v3", &["v2"], "plain.z4dm");
    assert!(files.read("plain.z4dm") == files.read("v3.z4dm"));
    for chain in [&["v2.z4dm", "v1.zstn"][..], &["v2.z4dm", "v1"], &["v2"]] {
        let back = files.unpack_delta("v3.z4dm", chain, "v3");
        assert!(back.unwrap() == files.read("v3"), "{chain:?}");
    }
    // And of the one after that.
    std::fs::write(files.at("v4"), tuned(&files.read("v3"), 1300)).unwrap();
    let chain = ["v3.z4dm", "v2.z4dm", "v1.zstn"];
    files.pack_delta("v4", &chain, "v4.z4dm");
    let back = files.unpack_delta("v4.z4dm", &chain, "v4");
    assert!(back.unwrap() == files.read("v4"));
}

fn assert_says<T>(result: Result<T, Error>, sentences: &[&str]) {
    let Err(error) = result else {
        panic!("accepted instead of: {sentences:?}");
    };
    for sentence in sentences {
        assert!(error.to_string().contains(sentence), "{error}");
    }
}

#[test]
fn chains_that_do_not_fit_are_refused_by_name() {
    let files = generations();
    let unpack = |chain: &[&str]| files.unpack_delta("v3.z4dm", chain, "v3");
    let needs_more = "itself a difference from another checkpoint";
    assert_says(unpack(&["v2.z4dm"]), &["v2.z4dm", needs_more, "--base"]);
    assert_says(
        unpack(&["v2.z4dm", "v3.z4dm"]),
        &["v3.z4dm", needs_more, "--base"],
    );
    let too_many = ["v1.zstn", "takes no base", "leave out", "v1"];
    assert_says(unpack(&["v1.zstn", "v1"]), &too_many);
    assert_says(unpack(&["v2.z4dm", "v1.zstn", "v1"]), &too_many);
    assert_says(unpack(&[]), &["no base"]);
    // A generation left out, the two exchanged, and another checkpoint below.
    let wrong = "made against";
    assert_says(unpack(&["v1.zstn"]), &["v3.z4dm", "v1.zstn", wrong]);
    assert_says(unpack(&["v2.z4dm", "v2"]), &["v2.z4dm", "v2", wrong]);
    assert!(!files.at("back").exists());
}

#[test]
fn other_files_are_no_bases() {
    let model = many_kinds(20_000);
    let mut gauss = zstn_core::catalog::Kind::Gauss.magics()[0].to_vec();
    gauss.resize(200, 0);
    let frame = zstn::compress(&engine(), &model, None, zstn::Effort::Fast);
    let files = Files::new(&[
        ("m.gauss", &gauss),
        ("m.zt", &cases::read("ztensor", "v01_py011_basic.zt")),
        ("frame", &frame),
        ("page", b"<html>Sign in</html>"),
        ("empty", b""),
    ]);
    let what_works = [".zstn or .z4dm", "`zstn convert`"];
    assert_says(files.base(&["m.gauss"]), &what_works);
    assert_says(files.base(&["m.zt"]), &what_works);
    assert_says(files.base(&["frame"]), &["frame", "decompress it"]);
    assert_says(files.base(&["page"]), &["page", "web page"]);
    assert_says(files.base(&["empty"]), &["empty"]);
    assert_says(files.base(&["missing"]), &["missing"]);
}

#[test]
fn a_damaged_base_is_refused_by_name() {
    let files = generations();
    let rule = |error: Error| error.refusal().and_then(zstn_core::Error::rule);
    for (name, chain) in [
        ("v1.zstn", &["v2.z4dm", "v1.zstn"][..]),
        ("v2.z4dm", &["v2.z4dm", "v1"]),
    ] {
        let sound = files.read(name);
        let mut rng = Rng(5);
        for _ in 0..40 {
            let mut damaged = sound.clone();
            let at = index(rng.next_u64() % damaged.len() as u64);
            damaged[at] ^= 1 << (rng.next_u64() % 8);
            std::fs::write(files.at(name), &damaged).unwrap();
            match files.base(chain) {
                // What no digest covers, such as unused bits, changes nothing.
                Ok(base) => assert!(base[..] == files.read("v2")[..], "byte {at} of {name}"),
                Err(error) => {
                    assert!(error.to_string().contains(name), "byte {at}: {error}");
                }
            }
        }
        std::fs::write(files.at(name), &sound[..sound.len() / 2]).unwrap();
        let error = files.base(chain).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
        assert!(rule(error).is_some());
        std::fs::write(files.at(name), &sound).unwrap();
    }
}

#[test]
fn a_base_comes_from_a_server() {
    let files = generations();
    let server = Server::bind(files.0.path(), SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let url = server.url();
    std::thread::spawn(move || server.run(|_| ()));
    let chain = ["v2.z4dm", "v1.zstn"].map(|name| Place::Url(format!("{url}{name}")));
    let base = BaseFile::open(&engine(), &chain, 1 << 30, &()).unwrap();
    assert!(base[..] == files.read("v2")[..]);
    let missing = [Place::Url(format!("{url}v0.zstn"))];
    let error = BaseFile::open(&engine(), &missing, 1 << 30, &());
    assert_says(error, &["v0.zstn"]);
}

#[test]
fn a_target_without_counterparts_is_counted_whole() {
    let mut rng = Rng(9);
    let weights = rng.bf16_weights(1000);
    let noise = rng.bytes(2000);
    let base = checkpoint(&[("same", "BF16", &weights), ("other", "BF16", &weights)]);
    let target = checkpoint(&[
        ("same", "BF16", &weights),
        ("other", "BF16", &noise),
        ("new", "BF16", &weights),
    ]);
    let files = Files::new(&[("base", &base), ("target", &target)]);
    let output = Output::create(&files.at("d")).unwrap();
    let (target, base) = (files.map("target"), files.base(&["base"]).unwrap());
    let options = PackOptions::default();
    let report = pack_delta(&engine(), &target, &base, output, &options).unwrap();
    assert_eq!((report.copied, report.differing, report.whole), (1, 0, 2));
}
