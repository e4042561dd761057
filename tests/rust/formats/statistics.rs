//! Statistics in a packed file: the figures equal the results of a plain loop over the
//! elements, the bytes match the description (docs/formats/zstn-integrity.md 7), and
//! damage never produces wrong figures.

use proptest::prelude::*;
use zstn_core::catalog::{FileCatalog, FileOpener};
use zstn_core::container::zstn::{ContainerOptions, pack_into, unpack};
use zstn_core::dtype::Dtype;
use zstn_core::frame::select::Effort;
use zstn_core::pure::Pure;
use zstn_core::statistics::{BandGrid, Figures, Statistics, has_figures};
use zstn_core::{Rule, TensorRef};
use zstn_tests::with_header;

/// Returns a safetensors file with one tensor.
fn checkpoint(dtype: Dtype, shape: &[u64], bytes: &[u8]) -> Vec<u8> {
    let header = format!(
        r#"{{"t":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[0,{}]}}}}"#,
        bytes.len()
    );
    with_header(header, bytes)
}

fn packed(file: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    let options = ContainerOptions::new(Effort::Fast);
    pack_into(&Pure, file, options, &mut packed).expect("packs");
    packed
}

fn opened(file: &[u8]) -> zstn_core::Result<FileCatalog> {
    let opener = FileOpener::new(file.len() as u64, file.to_vec())?;
    assert!(opener.needs()?.is_empty(), "the whole file is there");
    opener.finish(&Pure)
}

/// Reads the statistics of the only tensor.
fn read(file: &[u8]) -> zstn_core::Result<Option<Statistics>> {
    let Some(all) = opened(file)?.statistics()? else {
        return Ok(None);
    };
    let Some(stored) = &all[0] else {
        return Ok(None);
    };
    let bands = stored.bands(zstn_core::bytes::part(file, stored.range.clone()))?;
    Ok(Some(Statistics::new(
        stored.summary,
        stored.rows_per_band,
        bands,
    )))
}

/// Returns the value of an element, computed from the definition of its dtype.
fn value(bytes: &[u8], dtype: Dtype) -> f64 {
    let small = |exponent_bits: u32, bias: i32, fnuz: bool, max_nan: bool| {
        let (code, mantissa_bits) = (bytes[0], 7 - exponent_bits);
        let exponent = i32::from((code & 0x7F) >> mantissa_bits);
        let mantissa = f64::from(code & ((1 << mantissa_bits) - 1)) / f64::from(1 << mantissa_bits);
        let sign = if code < 0x80 { 1.0 } else { -1.0 };
        match (fnuz, max_nan) {
            (true, _) if code == 0x80 => f64::NAN,
            (false, true) if code & 0x7F == 0x7F => f64::NAN,
            (false, false) if exponent == 31 && mantissa == 0.0 => sign * f64::INFINITY,
            (false, false) if exponent == 31 => f64::NAN,
            _ if exponent == 0 => sign * mantissa * 2f64.powi(1 - bias),
            _ => sign * (1.0 + mantissa) * 2f64.powi(exponent - bias),
        }
    };
    macro_rules! of {
        ($type:ty) => {
            <$type>::from_le_bytes(bytes.try_into().expect("an element"))
        };
    }
    match dtype {
        Dtype::Bool | Dtype::U8 => bytes[0].into(),
        Dtype::I8 => of!(i8).into(),
        Dtype::F8E4M3 => small(4, 7, false, true),
        Dtype::F8E5M2 => small(5, 15, false, false),
        Dtype::F8E4M3Fnuz => small(4, 8, true, false),
        Dtype::F8E5M2Fnuz => small(5, 16, true, false),
        Dtype::F8E8M0 if bytes[0] == 0xFF => f64::NAN,
        Dtype::F8E8M0 => 2f64.powi(i32::from(bytes[0]) - 127),
        Dtype::I16 => of!(i16).into(),
        Dtype::U16 => of!(u16).into(),
        Dtype::F16 => of!(half::f16).into(),
        Dtype::Bf16 => of!(half::bf16).into(),
        Dtype::I32 => of!(i32).into(),
        Dtype::U32 => of!(u32).into(),
        Dtype::F32 => of!(f32).into(),
        Dtype::F64 => of!(f64),
        Dtype::I64 => of!(i64) as f64,
        Dtype::U64 => of!(u64) as f64,
        _ => panic!("no figures"),
    }
}

#[test]
fn extremes_of_64_bits_are_exact_at_any_magnitude() {
    for values in [
        [1e-300, 1e300],
        [-5e-324, -1e300],
        [f64::MIN_POSITIVE, 1e-310],
    ] {
        let bytes: Vec<u8> = values.iter().flat_map(|v| f64::to_le_bytes(*v)).collect();
        let file = packed(&checkpoint(Dtype::F64, &[2], &bytes));
        let read = read(&file).expect("no error").expect("statistics");
        assert_figures(&read.summary, &bytes, Dtype::F64);
    }
}

/// Compares figures with a plain loop over the elements. Extremes and counts must be
/// equal; means may be rounded in another order.
fn assert_figures(figures: &Figures, bytes: &[u8], dtype: Dtype) {
    let len = dtype.len_bytes().expect("whole bytes");
    let values: Vec<f64> = bytes
        .chunks(len)
        .map(|element| value(element, dtype))
        .collect();
    let count = |is: fn(&f64) -> bool| values.iter().filter(|value| is(value)).count() as u64;
    assert_eq!(figures.count, values.len() as u64, "{dtype}");
    assert_eq!(figures.zeros, count(|value| *value == 0.0), "{dtype}");
    assert_eq!(figures.nans, count(|value| value.is_nan()), "{dtype}");
    assert_eq!(
        figures.infinities,
        count(|value| value.is_infinite()),
        "{dtype}"
    );
    let finite: Vec<f64> = values
        .into_iter()
        .filter(|value| value.is_finite())
        .collect();
    let Some(min) = finite.iter().copied().reduce(f64::min) else {
        let Figures {
            min,
            max,
            mean,
            rms,
            ..
        } = figures;
        assert!([min, max, mean, rms].iter().all(|figure| figure.is_nan()));
        return;
    };
    let max = finite.iter().copied().fold(min, f64::max);
    assert_eq!((figures.min, figures.max), (min, max), "{dtype}");
    // Values are scaled by the largest magnitude so that their squares stay in range.
    let magnitude = max.max(-min);
    let unit = if magnitude == 0.0 { 1.0 } else { magnitude };
    let n = finite.len() as f64;
    let mean = finite.iter().map(|value| value / unit).sum::<f64>() / n;
    let squares = finite
        .iter()
        .map(|value| (value / unit).powi(2))
        .sum::<f64>()
        / n;
    // 32-bit numbers near the smallest one have few significant digits.
    let close = |a: f64, b: f64| (a / unit - b).abs() < 1e-6 || (a - b * unit).abs() < 1e-44;
    assert!(
        close(figures.mean, mean),
        "{dtype}: {figures:?}, mean {mean}"
    );
    assert!(close(figures.rms, squares.sqrt()), "{dtype}: {figures:?}");
}

fn dtypes() -> impl Strategy<Value = Dtype> {
    let all: Vec<Dtype> = Dtype::ALL
        .into_iter()
        .filter(|&dtype| has_figures(dtype))
        .collect();
    prop::sample::select(all)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn figures_are_those_of_a_plain_loop(
        dtype in dtypes(),
        elements in 1usize..900,
        seed in any::<u64>(),
        kind in 0u8..4,
    ) {
        let mut rng = zstn_tests::rng::Rng(seed | 1);
        let len = elements * dtype.len_bytes().expect("whole bytes");
        let mut bytes: Vec<u8> = (0..len).map(|_| rng.next_u64().to_le_bytes()[3]).collect();
        match kind {
            // Long runs of zeros.
            1 => bytes[..len / 2].fill(0),
            // The bits of bfloat16 weights, interpreted in this dtype.
            2 => bytes = rng.bf16_weights(len.div_ceil(2)),
            // All values have the same sign.
            3 => bytes.iter_mut().for_each(|byte| *byte &= 0x7F),
            _ => {}
        }
        bytes.truncate(len);
        let tensor = [elements as u64];
        let statistics = Statistics::of(&Pure, TensorRef::new(&bytes, dtype, &tensor));
        assert_figures(&statistics.expect("figures").summary, &bytes, dtype);
    }
}

#[test]
fn bands_are_those_of_their_rows_and_are_read_as_they_were_written() {
    let engine = zstn::Engine::new(2).expect("two threads");
    for dtype in [
        Dtype::Bf16,
        Dtype::F32,
        Dtype::F8E4M3,
        Dtype::I32,
        Dtype::F64,
    ] {
        let len = dtype.len_bytes().expect("whole bytes");
        let shape = [3, 200, 300];
        let mut rng = zstn_tests::rng::Rng(9);
        let bytes = rng.bf16_weights(3 * 200 * 300 * len / 2 + 1);
        let bytes = &bytes[..3 * 200 * 300 * len];
        let tensor = TensorRef::new(bytes, dtype, &shape);
        let statistics = Statistics::of(&Pure, tensor).expect("figures");
        assert_eq!((statistics.rows_per_band, statistics.bands.len()), (256, 3));
        let grid = BandGrid::new(&shape).expect("elements");
        for (number, band) in (0..).zip(&statistics.bands) {
            let elements = grid.elements(number);
            let bytes = elements.start * len as u64..elements.end * len as u64;
            assert_figures(band, zstn_core::bytes::part(tensor.bytes, bytes), dtype);
        }
        assert_figures(&statistics.summary, bytes, dtype);
        assert_eq!(
            Statistics::of(&engine, tensor),
            Some(statistics.clone()),
            "threads"
        );

        let file = checkpoint(dtype, &shape, bytes);
        let packed = packed(&file);
        assert_eq!(read(&packed).expect("in order"), Some(statistics));
        assert!(unpack(&Pure, &packed).expect("in order") == file);
    }
}

#[test]
fn the_bytes_are_those_of_the_description() {
    let bytes: Vec<u8> = [1.0f32, -2.0, 0.0, f32::NAN, f32::INFINITY, 4.0]
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    let packed = packed(&checkpoint(Dtype::F32, &[6], &bytes));
    let at = packed
        .windows(4)
        .position(|bytes| bytes == b"STAT")
        .expect("a record");
    let mut expected = b"STAT".to_vec();
    expected.extend_from_slice(&20u64.to_le_bytes());
    // Statistics without bands; one zero, and the other counts: one NaN and one
    // infinity.
    expected.extend_from_slice(&[1, 3, 1, 1]);
    for value in [-2.0f32, 4.0, 0.75, 2.291_288] {
        expected.extend_from_slice(&value.to_le_bytes());
    }
    assert_eq!(packed[at..at + expected.len()], expected);
}

#[test]
fn tensors_without_figures_have_none() {
    for (dtype, shape, len) in [
        (Dtype::F32, &[0, 4][..], 0),
        (Dtype::F4, &[4], 2),
        (Dtype::C64, &[2], 16),
    ] {
        let packed = packed(&checkpoint(dtype, shape, &vec![1; len]));
        assert_eq!(read(&packed), Ok(None), "{dtype}");
    }
    let file = checkpoint(Dtype::F32, &[1], &[0; 4]);
    let mut bare = Vec::new();
    let options = ContainerOptions::default().statistics(false);
    pack_into(&Pure, &file, options, &mut bare).expect("packs");
    assert_eq!(read(&bare), Ok(None));
    assert!(!bare.windows(4).any(|bytes| bytes == b"STAT"));
}

#[test]
fn an_alias_of_another_shape_has_none() {
    let header = r#"{"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"b":{"dtype":"F32","shape":[2,2],"data_offsets":[16,32]},"c":{"dtype":"F32","shape":[4],"data_offsets":[32,48]},"d":{"dtype":"I32","shape":[2,2],"data_offsets":[48,64]}}"#;
    let file = with_header(header, [0x3F; 64]);
    let all = opened(&packed(&file)).expect("in order").statistics();
    let all = all.expect("in order").expect("statistics");
    let has: Vec<bool> = all.iter().map(Option::is_some).collect();
    assert_eq!(has, [true, true, false, false]);
    assert_eq!(all[0], all[1]);
}

#[test]
fn damaged_statistics_are_refused_and_harm_nothing_else() {
    let mut rng = zstn_tests::rng::Rng(3);
    let bytes = rng.bf16_weights(300 * 300);
    let file = checkpoint(Dtype::Bf16, &[300, 300], &bytes);
    let packed = packed(&file);
    let truth = read(&packed).expect("in order").expect("statistics");
    let catalog = opened(&packed).expect("in order");
    let bands = catalog.statistics().expect("in order").expect("there")[0].clone();
    let range = bands.expect("of the tensor").range;
    for at in zstn_core::bytes::index(range.start)..zstn_core::bytes::index(range.end) {
        for bit in 0..8 {
            let mut damaged = packed.clone();
            damaged[at] ^= 1 << bit;
            let error = read(&damaged).expect_err("damaged");
            assert_eq!(error.rule(), Some(Rule::ZstnStatistics), "{at}");
            let error = unpack(&Pure, &damaged).expect_err("damaged");
            assert_eq!(error.rule(), Some(Rule::ZstnStatistics), "{at}");
            let tensor = opened(&damaged).expect("in order");
            let stored = zstn_core::bytes::part(&damaged, tensor.tensors()[0].stored.clone());
            assert!(
                tensor.decode(&Pure, 0, stored).expect("in order") == bytes,
                "single tensors need no statistics"
            );
        }
    }
    // A forged record with a correct checksum leads to an error or to the correct
    // figures.
    let at = packed
        .windows(4)
        .position(|bytes| bytes == b"STAT")
        .expect("a record")
        + 12;
    let section = packed
        .windows(8)
        .rposition(|bytes| bytes == b"ZSTNINTG")
        .expect("there");
    let payload_end = section - 8;
    let start = {
        let len: [u8; 8] = packed[payload_end..section].try_into().expect("eight");
        payload_end - usize::try_from(u64::from_le_bytes(len)).expect("small")
    };
    for position in at..payload_end - 8 {
        for byte in [0, 1, 0x7F, 0x80, 0xFF] {
            let mut forged = packed.clone();
            forged[position] = byte;
            let covered = &forged[start..payload_end - 8];
            let sum = zstn_core::container::zstn::integrity::checksum([covered]);
            forged[payload_end - 8..payload_end].copy_from_slice(&sum.to_le_bytes());
            match unpack(&Pure, &forged) {
                Ok(restored) => assert!(restored == file && forged == packed, "{position}"),
                Err(error) => assert_eq!(error.rule(), Some(Rule::ZstnStatistics)),
            }
            match read(&forged) {
                Ok(found) => assert_eq!(found.expect("there").bands.len(), truth.bands.len()),
                Err(error) => assert!(error.rule().is_some(), "{error}"),
            }
        }
    }
}

#[test]
fn statistics_take_little_of_a_file() {
    let mut rng = zstn_tests::rng::Rng(5);
    let bytes = rng.bf16_weights(4096 * 384);
    let packed = packed(&checkpoint(Dtype::Bf16, &[4096, 384], &bytes));
    let mut bare = Vec::new();
    let options = ContainerOptions::new(Effort::Fast).statistics(false);
    pack_into(
        &Pure,
        &checkpoint(Dtype::Bf16, &[4096, 384], &bytes),
        options,
        &mut bare,
    )
    .expect("packs");
    let cost = packed.len() - bare.len();
    assert!(cost * 5000 <= packed.len(), "{cost} of {}", packed.len());
}
