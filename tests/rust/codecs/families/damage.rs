//! Damaged frames, and frames in places where their family is not allowed.

use zstn_core::engine::ZstdCoding;
use zstn_core::frame::zara::StreamCodec;
use zstn_core::frame::{
    ContainedFrame, Edition, Family, Frame, chunked, decompress, palette, sparse, turbo, zara,
};
use zstn_core::pure::Pure;
use zstn_core::{ErrorKind, Rule};
use zstn_tests::cases;
use zstn_tests::rng::Rng;
use zstn_tests::tier::stepped;

use super::{CODINGS, bit_pack, example, native};

/// Returns small frames of every family with every method that the family has.
fn small_frames() -> Vec<Vec<u8>> {
    let engine = native();
    let mut bytes = example().repeat(12);
    bytes.extend(Rng(9).bf16_weights(40));
    let planes = turbo::TurboTransform::BytePlane;
    let mut frames = vec![
        sparse::encode(&engine, &bytes, 2, planes, &CODINGS),
        sparse::encode(&engine, &[0; 33], 2, planes, &CODINGS),
        palette::encode(&engine, &bytes, 2, 256, &CODINGS).expect("few values"),
        turbo::encode(&engine, &bytes, 2, planes, &CODINGS),
        chunked::encode(&engine, &bytes, 2, 99, &CODINGS),
    ];
    for choice in [
        StreamCodec::Zstd(ZstdCoding::Search(3)),
        StreamCodec::Rans,
        StreamCodec::Brotli(11),
        StreamCodec::BrotliBlocks {
            quality: 9,
            block_bytes: 100,
        },
    ] {
        frames.push(zara::encode(
            &engine,
            &bytes,
            bit_pack("bfloat16"),
            &[choice],
        ));
    }
    for name in [
        "palette-fp32-index4",
        "zara-fp32-byteplane-mixed",
        "np-f2-sparse-1d",
    ] {
        frames.push(cases::read("z4ai", &format!("{name}.z4ai")));
    }
    frames
}

#[test]
fn every_truncation_is_refused() {
    for frame in small_frames() {
        for len in 0..frame.len() {
            let error = decompress(&Pure, &frame[..len], 1 << 20).expect_err("cut");
            assert_eq!(error.kind(), ErrorKind::Malformed, "cut at {len}: {error}");
        }
        let mut longer = frame.clone();
        longer.push(0);
        let error = decompress(&Pure, &longer, 1 << 20).expect_err("a byte too many");
        assert_eq!(error.rule(), Some(Rule::FrameTrailing), "{error}");
    }
}

#[test]
fn every_bit_flip_gives_an_error_or_as_many_bytes() {
    let native = native();
    for frame in small_frames() {
        let truth = decompress(&Pure, &frame, 1 << 20).expect("good");
        let mut flipped = frame.clone();
        for bit in stepped(0..frame.len() * 8, 5) {
            flipped[bit / 8] ^= 1 << (bit % 8);
            let results = [
                decompress(&Pure, &flipped, 1 << 20),
                decompress(&native, &flipped, 1 << 20),
            ];
            for bytes in results.into_iter().flatten() {
                // No checksum covers widths and tails.
                assert!(bytes.len() <= truth.len() * 8, "bit {bit}");
            }
            flipped[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn containers_hold_the_families_of_their_edition_and_bytes_after_a_frame() {
    let bytes = example().repeat(20);
    let editions = [Edition::Plain, Edition::Extended];
    let cases = small_frames().into_iter();
    for (mut frame, edition) in
        cases.flat_map(|frame| editions.map(|edition| (frame.clone(), edition)))
    {
        let family = Family::recognise(&frame).expect("a frame");
        let len = Frame::parse(&frame).expect("good").decoded_len_bytes();
        let truth = decompress(&Pure, &frame, len).expect("good");
        frame.extend_from_slice(&bytes[..7]);
        match ContainedFrame::parse(&frame, len, edition) {
            Ok(stored) => {
                assert!(edition.families().contains(family));
                let mut out = vec![1; truth.len()];
                stored.decode(&Pure, &mut out).expect("decodes");
                assert!(out == truth, "{}", family.name());
                let error =
                    ContainedFrame::parse(&frame, len + 1, edition).expect_err("another length");
                assert_eq!(error.rule(), Some(Rule::ZstnDecodedLength));
            }
            Err(error) => {
                assert!(
                    !edition.families().contains(family),
                    "{}: {error}",
                    family.name()
                );
                assert_eq!(error.rule(), Some(Rule::ZstnFrameKind));
            }
        }
    }
}

#[test]
fn a_brotli_bomb_stops_at_the_promised_length() {
    let engine = native();
    let zeros = vec![0; 20 << 20];
    let mut frame = zara::encode(
        &engine,
        &zeros,
        zara::ZaraTransform::Raw(1),
        &[StreamCodec::Brotli(5)],
    );
    assert!(frame.len() < 1000);
    let at = 24 + 1;
    for (promised, rule) in [
        (1000u64, Rule::BrotliLength),
        (1 << 35, Rule::BrotliLength),
        ((20 << 20) - 1, Rule::BrotliLength),
    ] {
        frame[at..at + 8].copy_from_slice(&promised.to_le_bytes());
        let error = decompress(&engine, &frame, 1 << 40).expect_err("a lie");
        assert_eq!(error.rule(), Some(rule), "{error}");
    }
}
