//! A zstd decoder for WebAssembly with two entry points. [`Frames`] decodes frames that
//! stay in the module's memory, which times the decoder alone; [`decode`] copies frames
//! in and out, as JavaScript packages do.

use wasm_bindgen::prelude::*;

#[cfg(feature = "ours")]
fn decode_frame(frame: &[u8], out: &mut [u8]) {
    use zstn_core::engine::Engine;
    use zstn_core::pure::Pure;
    Pure.zstd_decode(frame, out).expect("a good frame");
}

#[cfg(all(feature = "ruzstd", not(feature = "ours")))]
fn decode_frame(frame: &[u8], out: &mut [u8]) {
    let mut decoder = ruzstd::decoding::FrameDecoder::new();
    let len = decoder.decode_all(frame, out).expect("a good frame");
    assert_eq!(len, out.len());
}

#[cfg(all(feature = "structured", not(any(feature = "ours", feature = "ruzstd"))))]
fn decode_frame(frame: &[u8], out: &mut [u8]) {
    let mut decoder = structured_zstd::decoding::FrameDecoder::new();
    let len = decoder.decode_all(frame, out).expect("a good frame");
    assert_eq!(len, out.len());
}

/// Frames in the module's memory, and a buffer for their contents.
#[wasm_bindgen]
#[derive(Default)]
pub struct Frames {
    frames: Vec<(Vec<u8>, usize)>,
    out: Vec<u8>,
}

#[wasm_bindgen]
impl Frames {
    /// Creates an empty list.
    #[wasm_bindgen(constructor)]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a frame that decodes to `len_bytes` bytes.
    pub fn push(&mut self, frame: &[u8], len_bytes: usize) {
        self.frames.push((frame.to_vec(), len_bytes));
        self.out.resize(self.out.len() + len_bytes, 0);
    }

    /// Decodes all frames sequentially.
    pub fn decode(&mut self) {
        let mut rest = self.out.as_mut_slice();
        for (frame, len_bytes) in &self.frames {
            let (out, behind) = rest.split_at_mut(*len_bytes);
            decode_frame(frame, out);
            rest = behind;
        }
    }

    /// Returns the concatenated contents of all frames.
    pub fn decoded(&self) -> Vec<u8> {
        self.out.clone()
    }
}

/// Returns the contents of `frame`, which has `len_bytes` bytes.
#[wasm_bindgen]
pub fn decode(frame: &[u8], len_bytes: usize) -> Vec<u8> {
    let mut out = vec![0; len_bytes];
    decode_frame(frame, &mut out);
    out
}
