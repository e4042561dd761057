//! Writes a sparse file with the layout of a packed model of 70 billion parameters to
//! the given path. Its header, index and statistics are realistic, and its frames are a
//! hole, so its tensors can be listed and displayed, but not decoded.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::process::ExitCode;

use zstn_core::container::zstn::integrity::{bands_checksum, checksum};
use zstn_core::container::zstn::{
    ContainerBuilder, ContainerOptions, ContainerStart, FOOTER_BYTES, StoredFrame,
};
use zstn_core::dtype::Dtype;
use zstn_core::pure::Pure;
use zstn_core::statistics::{self, BandGrid, Figures, write_number};

const LAYERS: u64 = 80;
const VOCABULARY: u64 = 128_256;
const WIDTH: u64 = 8192;
const HEADS_WIDTH: u64 = 1024;
const INNER_WIDTH: u64 = 28_672;

fn main() -> ExitCode {
    let Some(path) = std::env::args_os().nth(1) else {
        eprintln!("name the file to write");
        return ExitCode::FAILURE;
    };
    match File::create(&path).and_then(|mut file| write(&mut file)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{} cannot be written: {error}", path.display());
            ExitCode::FAILURE
        }
    }
}

/// Returns the name and shape of every tensor.
fn tensors() -> Vec<(String, Vec<u64>)> {
    let mut tensors = vec![("model.embed_tokens.weight".into(), vec![VOCABULARY, WIDTH])];
    for layer in 0..LAYERS {
        for (module, shape) in [
            ("input_layernorm", vec![WIDTH]),
            ("mlp.down_proj", vec![WIDTH, INNER_WIDTH]),
            ("mlp.gate_proj", vec![INNER_WIDTH, WIDTH]),
            ("mlp.up_proj", vec![INNER_WIDTH, WIDTH]),
            ("post_attention_layernorm", vec![WIDTH]),
            ("self_attn.k_proj", vec![HEADS_WIDTH, WIDTH]),
            ("self_attn.o_proj", vec![WIDTH, WIDTH]),
            ("self_attn.q_proj", vec![WIDTH, WIDTH]),
            ("self_attn.v_proj", vec![HEADS_WIDTH, WIDTH]),
        ] {
            tensors.push((format!("model.layers.{layer}.{module}.weight"), shape));
        }
    }
    tensors.push(("model.norm.weight".into(), vec![WIDTH]));
    tensors.push(("lm_head.weight".into(), vec![VOCABULARY, WIDTH]));
    tensors
}

fn write(file: &mut File) -> io::Result<()> {
    let tensors = tensors();
    let mut end = 0;
    let entries = tensors.iter().map(|(name, shape)| {
        let start = end;
        end += 2 * shape.iter().product::<u64>();
        format!(r#""{name}":{{"dtype":"BF16","shape":{shape:?},"data_offsets":[{start},{end}]}}"#)
    });
    let header = format!("{{{}}}", entries.collect::<Vec<_>>().join(","));
    let options = ContainerOptions::default().integrity(false);
    let started = ContainerBuilder::start(&Pure, header.as_bytes(), end, &options);
    let Ok(ContainerStart::Indexed {
        mut builder,
        prefix,
        tensors,
    }) = started
    else {
        return Err(io::Error::other("the header is not that of safetensors"));
    };
    for tensor in &tensors {
        let len_bytes = tensor.span.end - tensor.span.start;
        // Such weights pack to about two thirds of their size.
        let frame = StoredFrame {
            len_bytes: len_bytes / 3 * 2,
            ..StoredFrame::default()
        };
        builder.frame(tensor.name.clone(), tensor.span.clone(), frame);
    }
    let frames_end = builder.position();
    let tail = builder.finish().map_err(io::Error::other)?.bytes;
    let footer_bytes = zstn_core::bytes::index(FOOTER_BYTES);
    let (index, footer) = tail.split_at(tail.len() - footer_bytes);
    let (record, bands) = statistics_of(&tensors);
    file.write_all(&prefix)?;
    file.seek(SeekFrom::Start(frames_end))?;
    file.write_all(&bands)?;
    file.write_all(index)?;
    file.write_all(&section(&prefix, index, &record))?;
    let index_start = frames_end + bands.len() as u64;
    file.write_all(&index_start.to_le_bytes())?;
    file.write_all(&footer[8..])
}

/// Returns the statistics record of all tensors, and their bands.
fn statistics_of(
    tensors: &[zstn_core::container::safetensors::HeaderTensor],
) -> (Vec<u8>, Vec<u8>) {
    let (mut record, mut bands) = (Vec::new(), Vec::new());
    for (number, tensor) in (0u32..).zip(tensors) {
        let grid = BandGrid::new(&tensor.shape).expect("elements");
        let start = bands.len();
        if grid.bands() > 1 {
            for band in 0..grid.bands() {
                let elements = grid.elements(band);
                let spread = f64::from(number % 9 + 1) * (1.0 + (band % 16) as f64 / 16.0);
                let figures = figures(elements.end - elements.start, spread / 400.0);
                statistics::write(&mut bands, &figures, Dtype::Bf16);
            }
            let sum = bands_checksum(&bands[start..]);
            bands.extend_from_slice(&sum.to_le_bytes());
        }
        write_number(&mut record, (bands.len() - start) as u64 + 1);
        let spread = f64::from(number % 9 + 1) / 400.0 * (1.0 + f64::from(number) / 720.0);
        statistics::write(&mut record, &figures(grid.count(), spread), Dtype::Bf16);
    }
    (record, bands)
}

fn figures(count: u64, rms: f64) -> Figures {
    // These values are exact in bfloat16.
    Figures::new(count, [-0.5, 0.5], rms / 64.0, rms)
}

/// Returns an integrity section for these parts of the file.
fn section(prefix: &[u8], index: &[u8], statistics: &[u8]) -> Vec<u8> {
    let head = [
        checksum([prefix]).to_le_bytes(),
        checksum([index]).to_le_bytes(),
    ]
    .concat();
    let mut section = 1u16.to_le_bytes().to_vec();
    for (tag, value) in [(b"HEAD", head.as_slice()), (b"STAT", statistics)] {
        section.extend_from_slice(tag);
        section.extend_from_slice(&(value.len() as u64).to_le_bytes());
        section.extend_from_slice(value);
    }
    let sum = checksum([section.as_slice()]);
    section.extend_from_slice(&sum.to_le_bytes());
    let len = (section.len() as u64).to_le_bytes();
    [&section[..], &len, b"ZSTNINTG"].concat()
}
