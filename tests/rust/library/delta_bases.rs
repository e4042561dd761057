//! Packed bases: containers of every layout, deltas with bases of their own, and files
//! that are refused as bases.

use std::net::SocketAddr;
use std::path::PathBuf;

use zstn::{
    Engine, Error, Input, Job, Location, PackOptions, PackedFile, Sink, Storage, UnpackOptions,
    VerifyOptions,
};
use zstn_core::bytes::index;
use zstn_serve::Server;
use zstn_tests::rng::Rng;
use zstn_tests::{cases, checkpoint, many_kinds};

fn engine() -> Engine {
    Engine::new(2).unwrap()
}

fn job() -> Job<'static> {
    Job::new().engine(&engine())
}

/// A temporary folder of named files.
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

    fn chain(&self, names: &[&str]) -> Vec<Input> {
        let inputs = names.iter().map(|name| self.at(name).into());
        inputs.collect()
    }

    /// Packs a file, and returns whether the result has an index.
    fn pack(&self, name: &str, packed: &str, integrity: bool) -> bool {
        let options = PackOptions::default().integrity(integrity);
        let report = zstn::pack(&job(), self.at(name), self.at(packed), &options);
        matches!(report.unwrap().files[0].storage, Storage::Indexed { .. })
    }

    /// Packs a file against a chain of bases.
    fn try_pack_delta(
        &self,
        name: &str,
        chain: Vec<Input>,
        packed: &str,
    ) -> zstn::Result<PackedFile> {
        let options = PackOptions::default();
        let options = chain.into_iter().fold(options, |o, base| o.base(base));
        let report = zstn::pack(&job(), self.at(name), self.at(packed), &options)?;
        Ok(report.files.into_iter().next().unwrap())
    }

    fn pack_delta(&self, name: &str, chain: &[&str], packed: &str) {
        let file = self.try_pack_delta(name, self.chain(chain), packed);
        let file = file.unwrap();
        let (copied, differing, whole) = shares(&file);
        assert_eq!(copied + differing + whole, file.tensors);
    }

    /// Packs `name` against a base with the same bytes, and checks that every tensor is
    /// copied. Fails if the base cannot be restored.
    fn check_base(&self, name: &str, chain: Vec<Input>) -> zstn::Result<()> {
        let file = self.try_pack_delta(name, chain, "copy.z4dm")?;
        assert_eq!(shares(&file), (file.tensors, 0, 0));
        Ok(())
    }

    /// Restores a delta, and verifies it against `original`.
    fn unpack_delta(&self, packed: &str, chain: &[&str], original: &str) -> zstn::Result<Vec<u8>> {
        let (engine, input) = (engine(), self.at(packed));
        let options = UnpackOptions::default();
        let chain = self.chain(chain);
        let options = chain.iter().fold(options, |o, base| o.base(base));
        zstn::unpack(
            &Job::new().engine(&engine),
            &input,
            self.at("back"),
            &options,
        )?;
        let options = VerifyOptions::default().original(self.at(original));
        let options = chain.iter().fold(options, |o, base| o.base(base));
        assert!(zstn::verify(&Job::new().engine(&engine), &input, &options)?.compared);
        Ok(self.read("back"))
    }
}

/// Returns the numbers of tensors that a delta copies, stores as differences, and
/// stores whole.
fn shares(file: &PackedFile) -> (usize, usize, usize) {
    match file.storage {
        Storage::Delta {
            copied,
            differing,
            whole,
            ..
        } => (copied, differing, whole),
        other => panic!("{other:?}"),
    }
}

/// Returns the model with one bit changed in every `step` bytes of its data.
fn tuned(model: &[u8], step: usize) -> Vec<u8> {
    let mut tuned = model.to_vec();
    let header_len = u64::from_le_bytes(model[..8].try_into().unwrap());
    // The first tensors stay unchanged.
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

/// Creates three generations: `v1` plain and packed, and each later one plain and as a
/// delta from its predecessor.
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
    // The next generation is packed against the longer chain.
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
    let needs_more = "is a delta from another checkpoint; give that checkpoint as its base";
    for (chain, name) in [
        (&["v2.z4dm"][..], "v2.z4dm"),
        (&["v2.z4dm", "v3.z4dm"], "v3.z4dm"),
        (&[], "v3.z4dm"),
    ] {
        assert_says(unpack(chain), &[name, needs_more]);
        assert!(matches!(unpack(chain), Err(Error::NeedsBase { .. })));
    }
    let too_many = ["v1.zstn", "takes no base", "leave out", "v1"];
    assert_says(unpack(&["v1.zstn", "v1"]), &too_many);
    assert_says(unpack(&["v2.z4dm", "v1.zstn", "v1"]), &too_many);
    // A missing generation, two exchanged ones, and another checkpoint as the base.
    let wrong = "made against";
    assert_says(unpack(&["v1.zstn"]), &["v3.z4dm", "v1.zstn", wrong]);
    assert_says(unpack(&["v2.z4dm", "v2"]), &["v2.z4dm", "v2", wrong]);
    assert!(!files.at("back").exists());
}

#[test]
fn other_files_are_no_bases() {
    let model = many_kinds(20_000);
    let mut gauss = zstn_core::catalog::FileKind::Gauss.magics()[0].to_vec();
    gauss.resize(200, 0);
    let frame = zstn::compress(&engine(), &model, None, zstn::Effort::Fast);
    let files = Files::new(&[
        ("model", &model),
        ("m.gauss", &gauss),
        ("m.zt", &cases::read("ztensor", "v01_py011_basic.zt")),
        ("frame", &frame),
        ("page", b"<html>Sign in</html>"),
        ("empty", b""),
    ]);
    let what_works = [".zstn or .z4dm", "`convert`"];
    let base = |name: &str| files.check_base("model", files.chain(&[name]));
    assert_says(base("m.gauss"), &what_works);
    assert_says(base("m.zt"), &what_works);
    assert_says(base("frame"), &["frame", "decompress it"]);
    assert_says(base("page"), &["page", "web page"]);
    assert_says(base("empty"), &["empty"]);
    assert_says(base("missing"), &["missing"]);
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
            // Flips of unused bits, which no digest covers, change nothing.
            if let Err(error) = files.check_base("v2", files.chain(chain)) {
                assert!(error.to_string().contains(name), "byte {at}: {error}");
            }
        }
        std::fs::write(files.at(name), &sound[..sound.len() / 2]).unwrap();
        let error = files.check_base("v2", files.chain(chain)).unwrap_err();
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
    let remote = |name: &str| Input::from(Location::url(format!("{url}{name}")));
    let chain = vec![remote("v2.z4dm"), remote("v1.zstn")];
    files.check_base("v2", chain).unwrap();
    let error = files.check_base("v2", vec![remote("v0.zstn")]);
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
    let report = files.try_pack_delta("target", files.chain(&["base"]), "d");
    assert_eq!(shares(&report.unwrap()), (1, 0, 2));
}

#[test]
fn an_input_is_a_path_a_source_or_bytes() {
    let files = generations();
    let bytes = |name: &str| Input::bytes(name, files.read(name));
    let source =
        |name: &str| Input::source(zstn::source::FileSource::open(&files.at(name)).unwrap());
    for open in [&bytes as &dyn Fn(&str) -> Input, &source] {
        let mut delta = Vec::new();
        let options = PackOptions::default().base(open("v1.zstn"));
        zstn::pack(&job(), open("v2"), Sink::writer(&mut delta), &options).unwrap();
        assert!(delta == files.read("v2.z4dm"));
        let mut back = Vec::new();
        let options = UnpackOptions::default().base(open("v1"));
        zstn::unpack(&job(), open("v2.z4dm"), Sink::writer(&mut back), &options).unwrap();
        assert!(back == files.read("v2"));
        let options = VerifyOptions::default()
            .base(open("v1"))
            .original(open("v2"));
        assert!(
            zstn::verify(&job(), open("v2.z4dm"), &options)
                .unwrap()
                .compared
        );
        let error = zstn::verify(&job(), open("v2.z4dm"), &VerifyOptions::default());
        assert_says(error, &["v2.z4dm", "its base"]);
    }
    // A file that is being read as a source is not replaced either.
    let options = UnpackOptions::default();
    let error = zstn::unpack(&job(), source("v1.zstn"), files.at("v1.zstn"), &options);
    assert_says(error, &["is being read"]);
}

#[test]
fn a_sink_takes_what_it_can_hold() {
    let files = Files::new(&[("model.safetensors", &many_kinds(2000)), ("taken", b"mine")]);
    let options = PackOptions::default();
    let pack = |input: PathBuf, sink: Sink| zstn::pack(&job(), input, sink, &options);
    let model = || files.at("model.safetensors");
    let taken = || Sink::path(files.at("taken"));
    let error = pack(model(), taken().overwrite(false)).unwrap_err();
    assert!(matches!(error, Error::Exists { .. }), "{error}");
    assert!(files.read("taken") == b"mine");
    pack(model(), taken()).unwrap();
    assert!(files.read("taken").starts_with(b"ZSTN"));
    // A folder consists of several files, so it cannot be written to a single sink.
    let mut bytes = Vec::new();
    let error = pack(files.at(""), Sink::writer(&mut bytes)).unwrap_err();
    assert!(error.to_string().contains("give it a path"), "{error}");
    assert!(bytes.is_empty());
    let report = pack(model(), Sink::writer(&mut bytes)).unwrap();
    assert_eq!(report.files[0].output, None);
    assert!(bytes == files.read("taken"));
}

#[test]
fn a_text_is_a_path_and_an_address_is_said_to_be_one() {
    let error = zstn::Reader::open("https://example.org/model.zstn")
        .err()
        .unwrap();
    assert!(error.to_string().contains("Location::url"), "{error}");
    let error = zstn::Reader::open("-").err().unwrap();
    assert_eq!(error.code(), "io");
}
