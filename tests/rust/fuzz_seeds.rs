//! Writes the seed inputs of the fuzz targets in `tests/fuzz`: the golden vectors, and
//! small files that the packer makes from them. `fuzz-seeds FOLDER` creates one
//! subfolder per target.

use std::error::Error;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{env, fs};

use safetensors::SafeTensors;
use serde_json::{Map, Value};
use zstn::Job;
use zstn::family::{SketchOptions, sketch};
use zstn_core::container::model_delta::{self, Base};
use zstn_core::container::zstn::{ContainerOptions, pack};
use zstn_core::dtype::Dtype;
use zstn_core::engine::{PackEngine, ZstdCoding};
use zstn_core::frame::select::{Effort, EncodeOptions};
use zstn_tests::rng::Rng;
use zstn_tests::{checkpoint, repository};

/// Maximum length of a seed; long inputs slow a fuzzer down.
const MAX_BYTES: usize = 256 << 10;

/// HTTP requests to the gateway.
const REQUESTS: [&str; 6] = [
    "GET /o/n/resolve/main/a%20b/model.safetensors\nHost: localhost\nRange: bytes=0-9,-5\n\n",
    "HEAD /datasets/o/n/resolve/refs%2Fpr%2F1/f?x=1\nIf-Range: \"tag\"\nIf-None-Match: W/\"tag\"\n\n",
    "GET /api/models/o/n/tree/main/a/b?recursive=true\nIf-Match: *\nRange: bytes=5-\n\n",
    "GET /api/models/o/n/revision/v1\nOrigin: http://localhost:1\n\n[{\"a\":\"\\\"]\"}, 1]",
    "POST /api/models/o/n/paths-info/main\nContent-Type: application/x-www-form-urlencoded\n\npaths=a%2Fb&expand=true",
    "GET /o/n/resolve/main/%2e%2e/..%5c\n\n{\"paths\": [\"a/../b\"]}",
];

type Result<T> = std::result::Result<T, Box<dyn Error>>;

struct Seeds {
    folder: PathBuf,
    engine: zstn::Engine,
    count: usize,
}

impl Seeds {
    fn add(&mut self, target: &str, seed: &[u8]) -> Result<()> {
        if seed.len() <= MAX_BYTES {
            let folder = self.folder.join(target);
            fs::create_dir_all(&folder)?;
            fs::write(folder.join(format!("{:05}", self.count)), seed)?;
            self.count += 1;
        }
        Ok(())
    }
}

fn main() -> Result<()> {
    let mut arguments = env::args_os().skip(1).map(PathBuf::from);
    let Some(folder) = arguments.next() else {
        return Err("usage: fuzz-seeds FOLDER".into());
    };
    let engine = zstn::Engine::new(2)?;
    let mut seeds = Seeds {
        folder,
        engine,
        count: 0,
    };
    for path in files(&repository().join("tests/vectors"))? {
        of_vector(&mut seeds, &path)?;
    }
    for request in REQUESTS {
        seeds.add("requests", request.as_bytes())?;
    }
    of_other_bytes(&mut seeds)?;
    of_merge(&mut seeds)?;
    println!("{} seeds", seeds.count);
    Ok(())
}

/// Returns an input of two files: the length of the first file, then both files.
fn pair_of(first: &[u8], second: &[u8]) -> Vec<u8> {
    let len = u32::try_from(first.len()).expect("a small file");
    [&len.to_le_bytes(), first, second].concat()
}

/// Returns all files below a folder, sorted by path.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => found.extend(files(&path)?),
            false => found.push(path),
        }
    }
    found.sort();
    Ok(found)
}

fn of_vector(seeds: &mut Seeds, path: &Path) -> Result<()> {
    let bytes = fs::read(path)?;
    let beside = |extension: &str| {
        let name = path.file_name().and_then(OsStr::to_str)?;
        let stem = name.split('.').next()?;
        fs::read(path.with_file_name(format!("{stem}.{extension}"))).ok()
    };
    match path.extension().and_then(OsStr::to_str) {
        Some("z4ai" | "zxq1" | "zxi1") => seeds.add("frames", &bytes),
        Some("zstn") => {
            seeds.add("unpack", &bytes)?;
            seeds.add("originals", &bytes)?;
            seeds.add("agreement", &pair_of(&[], &bytes))?;
            of_file(seeds, &bytes)
        }
        Some("zt") => {
            seeds.add("ztensor", &bytes)?;
            of_file(seeds, &bytes)
        }
        Some("gauss") => {
            seeds.add("gauss", &bytes)?;
            of_file(seeds, &bytes)
        }
        Some("gguf") => {
            seeds.add("gguf", &bytes)?;
            of_file(seeds, &bytes)
        }
        Some("npy") => {
            seeds.add("npy", &bytes)?;
            of_file(seeds, &bytes)
        }
        Some(kind @ ("onnx" | "msgpack" | "tflite")) => seeds.add(kind, &bytes),
        Some("npz") => {
            seeds.add("npz", &bytes)?;
            of_file(seeds, &bytes)
        }
        Some("pt" | "pth" | "ckpt") => {
            seeds.add("pytorch", &bytes)?;
            of_file(seeds, &bytes)
        }
        Some("h5") => seeds.add("hdf5", &bytes),
        Some("keras") => seeds.add("keras", &bytes),
        Some("nemo") => seeds.add("tar", &bytes),
        Some("zxd1") => match beside("base") {
            Some(base) => seeds.add("differences", &pair_of(&base, &bytes)),
            None => Ok(()),
        },
        Some("z4dm") => {
            of_c_program(seeds, &bytes)?;
            match beside("base.safetensors") {
                Some(base) => seeds.add("deltas", &pair_of(&base, &bytes)),
                None => Ok(()),
            }
        }
        Some("bin" | "tensor") => of_tensor(seeds, &bytes, beside("base")),
        Some("safetensors") => {
            let config = beside("config.json");
            if let Some(config) = &config {
                seeds.add("quantised", &pair_of(config, &bytes))?;
            }
            of_shards(seeds, &bytes, config.as_deref())?;
            let options = SketchOptions::default();
            if let Ok(sketch) = sketch(&Job::new().engine(&seeds.engine), path, &options) {
                seeds.add("sketches", &pair_of(&[], &sketch.to_bytes(&seeds.engine)))?;
            }
            of_checkpoint(seeds, &bytes)
        }
        _ => Ok(()),
    }
}

/// Adds a container file to the targets that read any container.
fn of_file(seeds: &mut Seeds, bytes: &[u8]) -> Result<()> {
    seeds.add("files", bytes)?;
    seeds.add("pieces", bytes)?;
    // The selector chooses rows 1 to 3 of the first tensor.
    seeds.add("rows", &[&[0, 1, 0, 3, 0], bytes].concat())?;
    of_c_program(seeds, bytes)?;
    for target in 0..4 {
        seeds.add("convert", &[&[target], bytes].concat())?;
    }
    Ok(())
}

/// Adds inputs for the C API that read rows 1 to 3 of the first tensor. The first
/// input's callbacks fail at the fourth call; the second input's callbacks return few
/// bytes at a time and never fail.
fn of_c_program(seeds: &mut Seeds, bytes: &[u8]) -> Result<()> {
    for choice in [[0, 1, 0, 3, 0, 0, 3, 1], [0, 1, 0, 3, 0, 7, 255, 0]] {
        seeds.add("c_boundary", &[&choice, bytes].concat())?;
    }
    Ok(())
}

/// Adds the tensors of a checkpoint, divided into two shards, plain and packed. The
/// index of the shards also contains the fields of `config.json`.
fn of_shards(seeds: &mut Seeds, file: &[u8], config: Option<&[u8]>) -> Result<()> {
    const FILES: [&str; 2] = ["a", "b"];
    let Ok(all) = SafeTensors::deserialize(file) else {
        return Ok(());
    };
    let (_, head) = SafeTensors::read_metadata(file)?;
    let mut tensors = all.tensors();
    tensors.sort_by(|(name, _), (other, _)| name.cmp(other));
    let mut index: Map<String, Value> = match config {
        Some(config) => serde_json::from_slice(config)?,
        None => Map::new(),
    };
    let file_of = |number: usize| FILES[number % FILES.len()];
    let map = (0..).zip(&tensors);
    let map = map.map(|(number, (name, _))| (name.clone(), file_of(number).into()));
    index.insert("weight_map".into(), Value::Object(map.collect()));
    let index = serde_json::to_vec(&index)?;
    let (mut plain, mut packed) = (Vec::new(), Vec::new());
    for file in FILES {
        // Both shards contain the first tensor.
        let own = (0..).zip(&tensors);
        let own = own.filter(|(number, _)| *number == 0 || file_of(*number) == file);
        let own = own.map(|(_, (name, tensor))| (name, tensor));
        plain.push(safetensors::serialize(own, head.metadata().clone())?);
    }
    for file in &plain {
        let options = ContainerOptions::new(Effort::Balanced);
        packed.push(pack(&seeds.engine, file, options)?);
    }
    for [first, second] in [[&plain[0], &plain[1]], [&packed[0], &packed[1]]] {
        seeds.add("shards", &pair_of(&index, &pair_of(first, second)))?;
    }
    seeds.add("shards", &pair_of(&index, &pair_of(&plain[0], &packed[1])))
}

/// Adds a tensor for the encoders, once per floating-point dtype.
fn of_tensor(seeds: &mut Seeds, bytes: &[u8], base: Option<Vec<u8>>) -> Result<()> {
    let base = base.unwrap_or_default();
    let mut frame = Vec::new();
    let start = &bytes[..bytes.len().min(MAX_BYTES / 8)];
    seeds
        .engine
        .zstd_encode(start, ZstdCoding::Search(3), &mut frame);
    let len = u32::try_from(start.len())?.to_le_bytes();
    seeds.add("zstd", &[&len, frame.as_slice()].concat())?;
    for (number, dtype) in (0u8..).zip(Dtype::ALL) {
        if [Dtype::Bf16, Dtype::F16, Dtype::F32].contains(&dtype) {
            let input = pair_of(&base, &bytes[..bytes.len().min(MAX_BYTES / 8)]);
            let head = [number << 3 | 0b101, 64];
            seeds.add("encoders", &[&head, input.as_slice()].concat())?;
        }
    }
    Ok(())
}

/// Adds deltas whose tensors are renamed, longer and parts of tensors of the base
/// (docs/formats/zstn-delta.md 7), which no golden vector has.
fn of_other_bytes(seeds: &mut Seeds) -> Result<()> {
    let mut rng = Rng(7);
    let (embedding, fused) = (rng.bf16_weights(600), rng.bf16_weights(800));
    let tuned = |bytes: &[u8]| {
        let mut tuned = bytes.to_vec();
        tuned.iter_mut().step_by(6).for_each(|byte| *byte ^= 1);
        tuned
    };
    let longer = [tuned(&embedding), rng.bf16_weights(90)].concat();
    let base = checkpoint(&[
        ("embed.weight", "BF16", &embedding),
        ("layers.0.qkv_proj.weight", "BF16", &fused),
    ]);
    let split = tuned(&fused);
    let target = checkpoint(&[
        ("model.embed.weight", "BF16", &longer),
        ("model.layers.0.q_proj.weight", "BF16", &split[..800]),
        ("model.layers.0.k_proj.weight", "BF16", &split[800..1200]),
        ("model.layers.0.v_proj.weight", "BF16", &split[1200..]),
    ]);
    let renamed = checkpoint(&[
        ("model.embed.weight", "BF16", &tuned(&embedding)),
        ("model.layers.0.qkv_proj.weight", "BF16", &fused),
    ]);
    for target in [target, renamed] {
        let options = EncodeOptions::new(Effort::Fast).extended(true);
        let delta = model_delta::pack(&seeds.engine, &target, &Base::parse(&base)?, options)?;
        if delta[4] != 3 {
            return Err("the delta refers to no other bytes of its base".into());
        }
        seeds.add("deltas", &pair_of(&base, &delta))?;
        seeds.add("agreement", &pair_of(&base, &delta))?;
    }
    Ok(())
}

/// Adds deltas whose base is computed from other checkpoints
/// (docs/formats/zstn-delta.md 9).
fn of_merge(seeds: &mut Seeds) -> Result<()> {
    let folder = repository().join("tests/vectors/released/0.1.0");
    let base = fs::read(folder.join("base.safetensors"))?;
    for delta in ["merged.z4dm", "converted.z4dm"] {
        seeds.add("deltas", &pair_of(&base, &fs::read(folder.join(delta))?))?;
    }
    Ok(())
}

/// Adds a checkpoint in three variants: plain, packed, and as a delta whose target is
/// the checkpoint with some bits changed.
fn of_checkpoint(seeds: &mut Seeds, file: &[u8]) -> Result<()> {
    seeds.add("safetensors", file)?;
    of_file(seeds, file)?;
    seeds.add("packing", &[&[1], file].concat())?;
    let options = ContainerOptions::new(Effort::Balanced);
    if let Ok(packed) = pack(&seeds.engine, file, options) {
        seeds.add("unpack", &packed)?;
        seeds.add("agreement", &pair_of(&[], &packed))?;
        of_file(seeds, &packed)?;
    }
    for extended in [false, true] {
        let options = EncodeOptions::new(Effort::Fast).extended(extended);
        let mut tuned = file.to_vec();
        let start = tuned.len() / 2;
        for byte in tuned[start..].iter_mut().step_by(34) {
            *byte ^= 1;
        }
        let Ok(base) = Base::parse(file) else {
            continue;
        };
        if let Ok(delta) = model_delta::pack(&seeds.engine, &tuned, &base, options) {
            seeds.add("deltas", &pair_of(file, &delta))?;
            seeds.add("agreement", &pair_of(file, &delta))?;
        }
    }
    Ok(())
}
