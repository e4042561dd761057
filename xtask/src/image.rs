//! The container image of the gateway and the worker: an archive in the image layout of
//! the Open Container Initiative (OCI).
//!
//! The image has one layer, with the static program, its licences, root certificates, and
//! folders that the program may write to. There is no shell and no package manager.
//! Nothing in the archive depends on the time or on the user who builds it.

use std::collections::BTreeSet;
use std::fmt::Write;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};
use tar::EntryType;

use crate::deps::NOTICES;
use crate::prelude::*;
use crate::release::sha256;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const PROGRAM: &str = "usr/bin/zstn";
/// The user and the group that the program runs as.
const USER: u32 = 65532;
/// The folder for the state of a worker, which belongs to [`USER`].
const STATE: &str = "var/lib/zstn/";
/// The file in which programs on Linux find root certificates.
const CERTIFICATES: &str = "etc/ssl/certs/ca-certificates.crt";
const DOCUMENTS: &str = "usr/share/doc/zstn";

const BLOBS: &str = "blobs/sha256/";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// Builds the image of a static program in `folder`, reads it again, and runs the program
/// in it.
pub fn run(program: &Path, folder: &Path) -> Result<()> {
    let archive = folder.join(format!("zstn-{VERSION}-oci.tar"));
    step("container image", |step| {
        let layer = layer(program)?;
        let packed = gzip(step, &layer)?;
        fs::write(&archive, image(&layer, &packed)?)?;
        step.note(format!("layer of {} bytes", packed.len()));
        Ok(())
    })?;
    step("program in the container image", |step| {
        let root = unpack(step, &archive)?;
        start(step, &root)
    })
}

/// Returns the archive of the image's files.
fn layer(program: &Path) -> Result<Vec<u8>> {
    let mut layer = Tar::new();
    for folder in [
        "etc/",
        "etc/ssl/",
        "etc/ssl/certs/",
        "usr/",
        "usr/bin/",
        "usr/share/",
        "usr/share/doc/",
        "usr/share/doc/zstn/",
        "var/",
        "var/lib/",
    ] {
        layer.folder(folder, 0o755, 0)?;
    }
    layer.folder("tmp/", 0o1777, 0)?;
    layer.folder(STATE, 0o755, USER)?;
    let users = format!("root:x:0:0::/:\nzstn:x:{USER}:{USER}::/{STATE}:\n");
    layer.file("etc/passwd", 0o644, users.as_bytes())?;
    let groups = format!("root:x:0:\nzstn:x:{USER}:\n");
    layer.file("etc/group", 0o644, groups.as_bytes())?;
    layer.file(CERTIFICATES, 0o644, certificates()?.as_bytes())?;
    layer.file(PROGRAM, 0o755, &fs::read(program)?)?;
    for file in ["LICENSE", NOTICES] {
        layer.file(
            &format!("{DOCUMENTS}/{file}"),
            0o644,
            &fs::read(path(file))?,
        )?;
    }
    layer.finish()
}

/// Returns Mozilla's root certificates in PEM.
fn certificates() -> Result<String> {
    const LINE_LEN: usize = 64;
    let mut out = String::new();
    for certificate in webpki_root_certs::TLS_SERVER_ROOT_CERTS {
        let text = BASE64_STANDARD.encode(certificate);
        out += "-----BEGIN CERTIFICATE-----\n";
        for line in text.as_bytes().chunks(LINE_LEN) {
            writeln!(out, "{}", std::str::from_utf8(line)?)?;
        }
        out += "-----END CERTIFICATE-----\n";
    }
    Ok(out)
}

fn gzip(step: &mut Step, contents: &[u8]) -> Result<Vec<u8>> {
    let file = target("image/layer.tar");
    paths::empty(&file.with_file_name(""))?;
    fs::write(&file, contents)?;
    step.run(cmd("gzip --no-name --best").arg(&file))?;
    Ok(fs::read(file.with_extension("tar.gz"))?)
}

/// Returns the archive of an image with one layer.
fn image(layer: &[u8], packed: &[u8]) -> Result<Vec<u8>> {
    const NO_TIME: &str = "1970-01-01T00:00:00Z";
    let config = serde_json::to_vec(&json!({
        "created": NO_TIME,
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "Env": ["PATH=/usr/bin"],
            "Entrypoint": ["zstn"],
            "WorkingDir": format!("/{STATE}").trim_end_matches('/'),
            "Labels": {
                "org.opencontainers.image.title": "zstn",
                "org.opencontainers.image.version": VERSION,
                "org.opencontainers.image.licenses": env!("CARGO_PKG_LICENSE"),
                "org.opencontainers.image.source": env!("CARGO_PKG_REPOSITORY"),
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", sha256(layer))] },
        "history": [{ "created": NO_TIME, "created_by": "cargo xtask release" }],
    }))?;
    let manifest = serde_json::to_vec(&json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": descriptor(CONFIG, &config),
        "layers": [descriptor(LAYER, packed)],
    }))?;
    let mut listed = descriptor(MANIFEST, &manifest);
    listed["platform"] = json!({ "architecture": "amd64", "os": "linux" });
    // `podman` and `skopeo` read the tag, and Docker's containerd the whole name.
    listed["annotations"] = json!({
        "org.opencontainers.image.ref.name": VERSION,
        "io.containerd.image.name": format!("docker.io/library/zstn:{VERSION}"),
    });
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [listed] });
    let blob = |contents: &[u8]| format!("{BLOBS}{}", sha256(contents));
    // A Docker without containerd reads this list instead of the index.
    let docker = json!([{
        "Config": blob(&config),
        "RepoTags": [format!("zstn:{VERSION}")],
        "Layers": [blob(packed)],
    }]);
    let mut archive = Tar::new();
    archive.file("oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    archive.file("index.json", 0o644, &serde_json::to_vec(&index)?)?;
    archive.file("manifest.json", 0o644, &serde_json::to_vec(&docker)?)?;
    archive.folder("blobs/", 0o755, 0)?;
    archive.folder(BLOBS, 0o755, 0)?;
    for contents in [&manifest, &config, packed] {
        archive.file(&blob(contents), 0o644, contents)?;
    }
    archive.finish()
}

fn descriptor(media_type: &str, contents: &[u8]) -> Value {
    json!({
        "mediaType": media_type,
        "digest": format!("sha256:{}", sha256(contents)),
        "size": contents.len(),
    })
}

/// Unpacks an image, compares all sizes and digests in it, and returns the folder with
/// the files of its layer.
fn unpack(step: &mut Step, archive: &Path) -> Result<PathBuf> {
    let layout = target("image/layout");
    paths::empty(&layout)?;
    step.run(
        cmd("tar --extract --file")
            .arg(archive)
            .arg("--directory")
            .arg(&layout),
    )?;
    let json = |contents: &[u8]| Ok::<Value, anyhow::Error>(serde_json::from_slice(contents)?);
    let mut used = BTreeSet::new();
    let mut read = |listed: &Value| {
        let digest = listed["digest"].as_str().unwrap_or_default();
        let name = digest.strip_prefix("sha256:").context("no digest")?;
        let contents = fs::read(layout.join(BLOBS).join(name))?;
        ensure!(
            sha256(&contents) == name,
            "the blob {name} has another digest"
        );
        let len = contents.len();
        ensure!(listed["size"] == len, "the blob {name} has {len} bytes");
        used.insert(format!("{BLOBS}{name}"));
        Ok(contents)
    };
    let index = json(&fs::read(layout.join("index.json"))?)?;
    let manifest = json(&read(&index["manifests"][0])?)?;
    let config = json(&read(&manifest["config"])?)?;
    read(&manifest["layers"][0])?;
    let docker = &json(&fs::read(layout.join("manifest.json"))?)?[0];
    for name in [&docker["Config"], &docker["Layers"][0]] {
        let name = name.as_str().unwrap_or_default();
        ensure!(used.contains(name), "manifest.json lists {name}");
    }
    let blobs = paths::entries(&layout.join(BLOBS))?;
    ensure!(blobs.len() == used.len(), "there are {} blobs", blobs.len());

    let root = target("image/root");
    paths::empty(&root)?;
    let layer = layout.join(docker["Layers"][0].as_str().unwrap_or_default());
    let packed = target("image/read.tar.gz");
    fs::copy(layer, &packed)?;
    step.run(cmd("gzip --decompress --force").arg(&packed))?;
    let layer = packed.with_extension("");
    let digest = format!("sha256:{}", sha256(&fs::read(&layer)?));
    ensure!(
        config["rootfs"]["diff_ids"][0] == digest,
        "the layer has another digest"
    );
    // In a user namespace, the files must belong to the user who runs the program.
    let mut tar = cmd("tar --extract --no-same-owner --preserve-permissions --file");
    step.run(tar.arg(&layer).arg("--directory").arg(&root))?;
    Ok(root)
}

/// Runs the program with `root` as its root folder and as [`USER`], or with this
/// machine's files if the system allows no user namespaces.
fn start(step: &mut Step, root: &Path) -> Result<()> {
    let isolated = || {
        let mut unshare = cmd("unshare");
        unshare.words(&format!("--map-user={USER} --map-group={USER} --root"));
        unshare.arg(root).arg(format!("/{PROGRAM}"));
        unshare.env_clear();
        unshare
    };
    let is_isolated = ask(isolated().arg("--version")).is_ok();
    for arguments in ["--version", "gateway --help", "worker --help"] {
        let mut program = match is_isolated {
            true => isolated(),
            false => Command::new(root.join(PROGRAM)),
        };
        step.run(program.words(arguments))?;
    }
    step.note(match is_isolated {
        true => format!("with its own root folder, as user {USER}"),
        false => "without a root folder of its own, which this system refuses".into(),
    });
    Ok(())
}

/// An archive in the ustar format, whose entries have no times.
struct Tar(tar::Builder<Vec<u8>>);

impl Tar {
    fn new() -> Self {
        Self(tar::Builder::new(Vec::new()))
    }

    fn folder(&mut self, name: &str, mode: u32, owner: u32) -> Result<()> {
        self.entry(EntryType::Directory, name, mode, owner, &[])
    }

    fn file(&mut self, name: &str, mode: u32, contents: &[u8]) -> Result<()> {
        self.entry(EntryType::Regular, name, mode, 0, contents)
    }

    fn entry(
        &mut self,
        kind: EntryType,
        name: &str,
        mode: u32,
        owner: u32,
        contents: &[u8],
    ) -> Result<()> {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(owner.into());
        header.set_gid(owner.into());
        header.set_size(contents.len().try_into()?);
        Ok(self.0.append_data(&mut header, name, contents)?)
    }

    fn finish(self) -> Result<Vec<u8>> {
        Ok(self.0.into_inner()?)
    }
}
