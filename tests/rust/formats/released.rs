//! Files of every released version stay readable: `tests/vectors/released`.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde::Deserialize;
use zstn_core::bytes::part;
use zstn_core::container::model_delta::{Base, ModelDelta};
use zstn_core::container::zstn::unpack;
use zstn_core::engine::Engine;
use zstn_core::frame::decompress;
use zstn_core::limits::FRAME_DECODED_BYTES;
use zstn_core::pure::Pure;
use zstn_core::sketch::Sketch;
use zstn_tests::{repository, sha256};

use super::vectors::open;

/// The releases and the digests of their manifests, which contain the digests of all
/// files. Each release with new files adds an entry; existing entries never change.
const RELEASES: [(&str, &str); 1] = [(
    "0.1.0",
    "ae5765efb919df3d8154bbb0f1276968960ab7b8dbf04cc9272eb326db817d90",
)];

#[derive(Deserialize)]
struct Manifest {
    originals: BTreeMap<String, String>,
    files: Vec<File>,
}

#[derive(Deserialize)]
struct File {
    file: String,
    kind: String,
    sha256: String,
    /// The version stored in the file, if its format has one.
    version: Option<u8>,
    /// Name of the original that the file restores.
    restores: Option<String>,
    /// Name of the base that the file needs.
    base: Option<String>,
    /// The digests of its tensors, by name.
    tensors: Option<BTreeMap<String, String>>,
}

/// The files of one release.
struct Release {
    folder: PathBuf,
    manifest: Manifest,
}

impl Release {
    fn read(&self, name: &str) -> Vec<u8> {
        let path = self.folder.join(name);
        fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }
}

fn releases() -> Vec<Release> {
    let all = repository().join("tests/vectors/released");
    let folders = fs::read_dir(&all).expect("the releases").count();
    assert_eq!(
        folders,
        RELEASES.len(),
        "a release without a line in RELEASES"
    );
    let release = |(version, digest): &(&str, &str)| {
        let folder = all.join(version);
        let bytes = fs::read(folder.join("manifest.json")).expect("a manifest");
        assert_eq!(
            sha256(&bytes),
            *digest,
            "the manifest of {version} was changed"
        );
        let manifest = serde_json::from_slice(&bytes).expect("a manifest");
        Release { folder, manifest }
    };
    RELEASES.iter().map(release).collect()
}

#[test]
fn no_released_file_is_changed_or_removed() {
    for release in releases() {
        let files = release.manifest.files.iter();
        let digests = files.map(|file| (&file.file, &file.sha256));
        for (name, digest) in digests.chain(&release.manifest.originals) {
            assert_eq!(sha256(&release.read(name)), *digest, "{name}");
        }
    }
}

fn released_files_decode(engine: &impl Engine) {
    let mut decoded = 0;
    for release in releases() {
        for file in &release.manifest.files {
            let bytes = release.read(&file.file);
            decode(engine, &release, file, &bytes);
            decoded += 1;
        }
    }
    assert!(decoded >= 8, "only {decoded} files");
}

fn decode(engine: &impl Engine, release: &Release, file: &File, bytes: &[u8]) {
    let name = &file.file;
    if let Some(version) = file.version {
        assert_eq!(bytes[4], version, "{name}");
    }
    let restored = match &*file.kind {
        "zstn" => unpack(engine, bytes).expect(name),
        "z4dm" => {
            let base = release.read(file.base.as_deref().expect("a base"));
            let base = Base::parse(&base).expect(name);
            let delta = ModelDelta::parse(bytes).expect(name);
            delta.unpack(engine, &base).expect(name)
        }
        "frame" => decompress(engine, bytes, FRAME_DECODED_BYTES).expect(name),
        "sketch" => {
            let sketch = Sketch::parse(engine, bytes).expect(name);
            assert_eq!(sketch.tensors().len(), 8, "{name}");
            let len = release.read("base.safetensors").len() as u64;
            assert_eq!(sketch.original_len_bytes(), len, "{name}");
            return;
        }
        _ => return tensors(engine, file, bytes),
    };
    let original = release.read(file.restores.as_deref().expect("an original"));
    assert!(restored == original, "{name} restores other bytes");
}

/// Reads the tensors of a file by name and compares their digests.
fn tensors(engine: &impl Engine, file: &File, bytes: &[u8]) {
    let (catalog, _, _) = open(bytes).expect(&file.file);
    let expected = file.tensors.as_ref().expect("digests of tensors");
    assert_eq!(catalog.tensors().len(), expected.len(), "{}", file.file);
    for (name, digest) in expected {
        let number = catalog.find(name).expect("listed");
        let stored = part(bytes, catalog.tensors()[number].stored.clone());
        let tensor = catalog.decode(engine, number, stored).expect(name);
        assert_eq!(sha256(&tensor), *digest, "{}: {name}", file.file);
    }
}

#[test]
fn released_files_decode_with_c_zstd() {
    released_files_decode(&zstn::Engine::new(2).expect("two threads"));
}

#[test]
fn released_files_decode_with_rust_alone() {
    released_files_decode(&Pure);
}
