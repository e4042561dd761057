//! Sharded checkpoints with an invalid index.

use std::path::Path;

use zstn::{Engine, Job, PackOptions, Reader};
use zstn_core::container::safetensors::ShardIndex;
use zstn_core::{Result, Rule};
use zstn_tests::checkpoint;

use super::Case;

fn index(pairs: &str) -> String {
    format!(r#"{{"weight_map":{{{pairs}}}}}"#)
}

fn parsed(json: &str) -> Result<()> {
    ShardIndex::parse(json.as_bytes()).map(drop)
}

/// Creates a folder with an index of `pairs` and the tensor `t` in `m.safetensors` and
/// `m.bin`. Packs the folder by its index and reads the tensor `u`; returns the first
/// error.
fn packed(pairs: &str) -> Result<()> {
    let scratch = tempfile::tempdir().expect("a folder");
    let folder = scratch.path().join("model");
    std::fs::create_dir(&folder).expect("created");
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(folder.join(name), bytes).expect("written");
    };
    write("model.safetensors.index.json", index(pairs).as_bytes());
    for name in ["m.safetensors", "m.bin"] {
        write(name, &checkpoint(&[("t", "U8", b"bytes")]));
    }
    let index = folder.join("model.safetensors.index.json");
    let read = Reader::options()
        .open(index.as_path())
        .and_then(|reader| reader.read("u").map(drop));
    let packed = pack_index(&index, &scratch.path().join("packed"));
    let error = match packed.and(read) {
        Ok(()) => return Ok(()),
        Err(error) => error,
    };
    Err(error.refusal().cloned().expect("no error of the disk"))
}

fn pack_index(index: &Path, target: &Path) -> zstn::Result<()> {
    let job = Job::new().engine(&Engine::new(1)?);
    zstn::pack(&job, index, target, &PackOptions::default()).map(drop)
}

pub fn cases() -> Vec<Case> {
    vec![
        (Rule::ShardIndex, parsed("{}")),
        (Rule::ShardFileName, parsed(&index(r#""t":"../m""#))),
        (Rule::ShardTensorTwice, parsed(&index(r#""t":"m","t":"n""#))),
        (Rule::ShardMissing, packed(r#""t":"n.safetensors""#)),
        (Rule::ShardTensorMissing, packed(r#""u":"m.safetensors""#)),
        (Rule::ShardRenaming, packed(r#""t":"m.bin""#)),
    ]
}
