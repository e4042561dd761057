//! Malformed sketches.

use zstn_core::Rule;
use zstn_core::engine::Engine;
use zstn_core::pure::Pure;
use zstn_core::sketch::Sketch;

use super::Case;
use crate::sketch::sealed;

pub fn cases(engine: &impl Engine) -> Vec<Case> {
    let good = Sketch::new(7, None, Vec::new()).unwrap().to_bytes(&Pure);
    let read = |file: &[u8]| Sketch::parse(engine, file).map(drop);
    let changed = |at: usize, byte: u8| {
        let mut file = good.clone();
        file[at] = byte;
        file
    };
    vec![
        (Rule::SketchMagic, read(&changed(0, b'Y'))),
        (Rule::SketchVersion, read(&changed(8, 2))),
        (Rule::SketchDigest, read(&changed(30, 1))),
        (
            Rule::SketchLayout,
            read(&sealed([&good[..], &[0]].concat())),
        ),
    ]
}
