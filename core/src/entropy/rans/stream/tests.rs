use super::*;
use crate::Rule;
use crate::entropy::histogram::count;
use crate::entropy::rans::table::{Code, Frequencies};
use crate::pure::Pure;

const TEXT: &[u8] = b"abracadabra";
const STREAM: [u8; 16] = [
    0x7A, 0x99, 0x8F, 0x42, 0x24, 0xDE, 0x48, 0x21, 0xF4, 0xFB, 0x88, 0x42, 0x60, 0xC2, 0x6A, 0x02,
];

fn table() -> Frequencies {
    Frequencies::round(&count(TEXT), BITS)
}

fn encode_one(symbols: &[u8], codes: &[Code; 256]) -> Vec<u8> {
    encode(&Pure, &[Plain { symbols, codes }]).concat()
}

/// Encodes with a division for each symbol, as docs/formats/z4ai-frames.md 5.3
/// describes.
fn encode_slowly(symbols: &[u8], frequencies: &Frequencies) -> Vec<u8> {
    let codes = frequencies.codes();
    let mut states = [LOWER; STATES];
    let mut emitted = Vec::new();
    for (place, symbol) in symbols.iter().enumerate().rev() {
        let code = codes[usize::from(*symbol)];
        let state = &mut states[place % STATES];
        while u64::from(*state) >= u64::from(code.frequency()) << (31 - BITS) {
            emitted.push(state.to_le_bytes()[0]);
            *state >>= 8;
        }
        let quotient = *state / code.frequency();
        *state = (quotient << BITS) + *state % code.frequency() + code.start();
    }
    emitted.reverse();
    let head = states.map(u32::to_le_bytes);
    [head.as_flattened(), &emitted].concat()
}

#[test]
fn streams_side_by_side_are_those_of_a_division_for_each_symbol() {
    let rare = [vec![7; 100_000], (0..=255).collect(), vec![7; 1000]].concat();
    let texts = [
        vec![200; 4000],
        rare.clone(),
        rare[99_000..].to_vec(),
        uneven(1, 30_000),
        uneven(2, 4099),
        uneven(3, 5),
        Vec::new(),
        (0..=255).cycle().take(1 << 16).collect(),
    ];
    let tables: Vec<Frequencies> = texts
        .iter()
        .map(|text| match text.is_empty() {
            true => Frequencies::round(&count(&[0]), BITS),
            false => Frequencies::round(&count(text), BITS),
        })
        .collect();
    let codes: Vec<_> = tables.iter().map(Frequencies::codes).collect();
    let slow: Vec<_> = texts
        .iter()
        .zip(&tables)
        .map(|(text, table)| encode_slowly(text, table))
        .collect();
    let plain = |number: usize| Plain {
        symbols: &texts[number],
        codes: &codes[number],
    };
    for first in 0..texts.len() {
        assert_eq!(encode(&Pure, &[plain(first)]), [slow[first].clone()]);
        for second in 0..texts.len() {
            let both = encode(&Pure, &[plain(first), plain(second)]);
            assert_eq!(both, [slow[first].clone(), slow[second].clone()]);
        }
    }
}

fn decode_one(stream: &[u8], out: &mut [u8]) -> Result<()> {
    let lookup = &Lookup::new(&table());
    let coded = Coded {
        stream,
        lookup,
        out,
    };
    decode([coded].into())
}

#[test]
fn two_streams_of_any_lengths() {
    let codes = table().codes();
    let lookup = &Lookup::new(&table());
    let texts =
        [TEXT, b"abracadabraabracad", &TEXT[..2]].map(|text| (text, encode_one(text, &codes)));
    for (first, first_stream) in &texts {
        for (second, second_stream) in &texts {
            let (mut a, mut b) = (vec![0; first.len()], vec![0; second.len()]);
            let one = Coded {
                stream: first_stream,
                lookup,
                out: &mut a,
            };
            let two = Coded {
                stream: second_stream,
                lookup,
                out: &mut b,
            };
            decode([one, two].into()).unwrap();
            assert_eq!((&a[..], &b[..]), (*first, *second));
        }
    }
}

#[test]
fn three_streams_of_any_lengths() {
    let codes = table().codes();
    let lookup = &Lookup::new(&table());
    for lens in [[11, 11, 11], [11, 3, 8], [1, 11, 5], [9, 10, 0]] {
        let streams = lens.map(|len| encode_one(&TEXT[..len], &codes));
        let mut outs = lens.map(|len| vec![0; len]);
        let coded = streams.iter().zip(&mut outs).map(|(stream, out)| Coded {
            stream,
            lookup,
            out,
        });
        decode(coded.collect()).unwrap();
        assert_eq!(outs, lens.map(|len| TEXT[..len].to_vec()));
    }
}

#[test]
fn groups_are_even_but_for_the_last() {
    let lens = |count: usize| -> Vec<usize> { groups(0..count).iter().map(Vec::len).collect() };
    assert!(lens(0).is_empty());
    for count in 1..100 {
        let lens = lens(count);
        assert_eq!(lens.iter().sum::<usize>(), count);
        let (last, others) = lens.split_last().unwrap();
        assert!(others.iter().all(|len| [4, 6, 8].contains(len)), "{lens:?}");
        assert!((1..=8).contains(last), "{lens:?}");
    }
    assert_eq!(lens(9), [8, 1]);
    assert_eq!(lens(26), [8, 8, 6, 4]);
    let all: Vec<usize> = groups(0..27).concat();
    assert!(all.is_sorted());
}

/// Returns symbols that include rare ones, whose codes take two bytes.
fn uneven(seed: usize, len: usize) -> Vec<u8> {
    let mut word = seed as u64 * 2 + 1;
    let symbols = core::iter::repeat_with(|| {
        word = word
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(99);
        u32::try_from(word >> 54).unwrap()
    });
    let symbol = |number: u32| (number | 1).ilog2().to_le_bytes()[0];
    symbols.map(symbol).take(len).collect()
}

#[test]
fn groups_of_any_size_and_lengths() {
    let tables: Vec<Frequencies> = (0..3)
        .map(|seed| Frequencies::round(&count(&uneven(seed, 1 << 16)), BITS))
        .collect();
    let lookups: Vec<_> = tables.iter().map(Lookup::new).collect();
    for many in 1..=20 {
        let texts: Vec<Vec<u8>> = (0..many)
            .map(|i| uneven(i, (i * 131 + many * 17) % 1000))
            .collect();
        let mut streams: Vec<Vec<u8>> = texts
            .iter()
            .enumerate()
            .map(|(i, text)| encode_one(text, &tables[i % 3].codes()))
            .collect();
        let decoded = |streams: &[Vec<u8>]| -> Result<Vec<Vec<u8>>> {
            let mut outs: Vec<_> = texts.iter().map(|text| vec![0; text.len()]).collect();
            let coded = streams.iter().zip(&mut outs).enumerate();
            let coded = coded.map(|(i, (stream, out))| Coded {
                stream,
                lookup: &lookups[i % 3],
                out,
            });
            let coded: Vec<Coded> = coded.collect();
            groups(coded.into_iter()).into_iter().try_for_each(decode)?;
            Ok(outs)
        };
        assert_eq!(decoded(&streams).unwrap(), texts);
        for damaged in 0..many {
            let whole = streams[damaged].clone();
            streams[damaged].pop();
            assert!(decoded(&streams).is_err());
            streams[damaged] = [&whole[..], &[0]].concat();
            assert_eq!(decoded(&streams).unwrap_err().rule(), Some(Rule::RansEnd));
            streams[damaged] = whole;
        }
    }
}

#[test]
fn the_worked_example_of_chapter_17() {
    assert_eq!(encode_one(TEXT, &table().codes()), STREAM);
    let mut out = [0; 11];
    decode_one(&STREAM, &mut out).unwrap();
    assert_eq!(out, TEXT);
}

#[test]
fn ends_are_checked() {
    let rule = |stream: &[u8], n: usize| decode_one(stream, &mut vec![0; n]).unwrap_err().rule();
    assert_eq!(rule(&STREAM[..15], 11), Some(Rule::Truncated));
    assert_eq!(rule(&STREAM, 10), Some(Rule::RansEnd));
    assert_eq!(rule(&STREAM, 12), Some(Rule::RansEnd));
    assert_eq!(rule(&[&STREAM[..], &[0]].concat(), 11), Some(Rule::RansEnd));
    for state in [[0xFF, 0xFF, 0x7F, 0], [0, 0, 0, 0x80]] {
        let mut stream = STREAM;
        stream[4..8].copy_from_slice(&state);
        assert_eq!(rule(&stream, 11), Some(Rule::RansState));
    }
}
