//! Packs inputs that can only be read once into outputs that can only be written once.

use std::borrow::Cow;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use zstn::{Effort, Engine, Error, Input, Job, PackOptions, Sink, Source};
use zstn_tests::rng::Rng;
use zstn_tests::{checkpoint, tier, with_header};

/// Bytes that do not come from a file.
struct Elsewhere(Vec<u8>);

impl Source for Elsewhere {
    fn name(&self) -> &str {
        "elsewhere"
    }

    fn len_bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read(&self, range: Range<u64>) -> zstn::Result<Cow<'_, [u8]>> {
        Ok(Cow::Borrowed(zstn_core::bytes::part(&self.0, range)))
    }
}

/// A source whose file changes while it is read.
struct Changing(Elsewhere);

impl Source for Changing {
    fn name(&self) -> &str {
        "changing"
    }

    fn len_bytes(&self) -> u64 {
        self.0.len_bytes()
    }

    fn read(&self, range: Range<u64>) -> zstn::Result<Cow<'_, [u8]>> {
        self.0.read(range)
    }

    fn check_unchanged(&self) -> zstn::Result<()> {
        Err(Error::Changed {
            name: "changing".into(),
            detail: String::new(),
        })
    }
}

/// Returns a few bytes per read, in lengths unrelated to the tensors.
struct Trickle(io::Cursor<Vec<u8>>, Rng);

impl Read for Trickle {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = usize::try_from(self.1.next_u64() % 300_000).unwrap_or(0) + 1;
        let len = len.min(out.len());
        self.0.read(&mut out[..len])
    }
}

fn trickle(bytes: &[u8]) -> Input {
    Input::reader("stream", Trickle(io::Cursor::new(bytes.to_vec()), Rng(5)))
}

fn packed(input: impl Into<Input>, options: &PackOptions) -> zstn::Result<Vec<u8>> {
    let job = Job::new().engine(&Engine::new(2).unwrap());
    packed_by(&job, input, options)
}

fn packed_by(job: &Job, input: impl Into<Input>, options: &PackOptions) -> zstn::Result<Vec<u8>> {
    let mut packed = Vec::new();
    zstn::pack(job, input, Sink::writer(&mut packed), options)?;
    Ok(packed)
}

/// Returns files that are packed tensor by tensor, and files that are packed as a
/// whole.
fn originals() -> Vec<(&'static str, Vec<u8>)> {
    let mut rng = Rng(9);
    let pair = rng.bf16_weights(30_000);
    let tied = |number: u8| [&[number], &pair[1..]].concat();
    let (first, second) = (tied(1), tied(2));
    vec![
        ("all kinds", zstn_tests::many_kinds(24 << 20)),
        (
            "equal lengths",
            checkpoint(&[
                ("a", "BF16", &first),
                ("b", "BF16", &second),
                ("c", "BF16", &first),
                ("none", "U8", &[]),
                ("d", "BF16", &second),
                ("no more", "U8", &[]),
            ]),
        ),
        ("no tensors", checkpoint(&[])),
        ("blanks after the header", with_header("{}      ", b"")),
        ("bytes no tensor has", with_header("{}", [7; 5000])),
        (
            "overlapping tensors",
            with_header(
                r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}}"#,
                [1, 2, 3, 4, 5, 6],
            ),
        ),
    ]
}

#[test]
fn streams_and_sources_pack_to_the_same_bytes_as_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    for (name, original) in originals() {
        std::fs::write(&path, &original).unwrap();
        for memory_bytes in [64 << 20, 1 << 30] {
            for integrity in [true, false].into_iter().take(tier::count(1, 2)) {
                let options = PackOptions::default()
                    .effort(Effort::Fast)
                    .integrity(integrity);
                let target = folder.path().join("model.zstn");
                let engine = Engine::new(2).unwrap();
                let job = Job::new().engine(&engine).memory_bytes(memory_bytes);
                zstn::pack(&job, &path, &target, &options).unwrap();
                let expected = std::fs::read(&target).unwrap();
                let same = |input: Input| packed_by(&job, input, &options).unwrap() == expected;
                assert!(same((&path).into()), "{name}: a file to a writer");
                assert!(same(trickle(&original)), "{name}: a stream");
                let source = Elsewhere(original.clone());
                assert!(same(Input::source(source)), "{name}: a source");
            }
        }
    }
}

#[test]
fn deltas_from_streams_and_sources_are_those_of_files() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let weights = Rng(10).bf16_weights(30_000);
    // This tensor does not fit into the memory.
    let big: Vec<u8> = (0..7).cycle().take(12 << 20).collect();
    let file = |step: usize| {
        let changed = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            bytes.iter_mut().step_by(step).for_each(|byte| *byte ^= 1);
            bytes
        };
        checkpoint(&[
            ("first", "BF16", &changed(&weights)),
            ("big", "U8", &changed(&big)),
            ("last", "BF16", &weights),
        ])
    };
    std::fs::write(at("base.safetensors"), file(999)).unwrap();
    let options = PackOptions::default().effort(Effort::Fast);
    let options = options.base(at("base.safetensors"));
    let engine = Engine::new(2).unwrap();
    let job = Job::new().engine(&engine).memory_bytes(64 << 20);
    let broken = with_header("{}", [7; 5000]);
    for (name, original) in [("a delta", file(1001)), ("packed as a whole", broken)] {
        std::fs::write(at("model.safetensors"), &original).unwrap();
        let packed = |input: Input| packed_by(&job, input, &options).unwrap();
        let expected = packed(at("model.safetensors").into());
        assert!(packed(trickle(&original)) == expected, "{name}: a stream");
        let source = Input::source(Elsewhere(original));
        assert!(packed(source) == expected, "{name}: a source");
    }
}

/// Records how many bytes the writer had received when the last bytes were requested.
struct Watched {
    bytes: io::Cursor<Vec<u8>>,
    written: Arc<AtomicUsize>,
    at_the_end: Arc<Mutex<Option<usize>>>,
}

impl Read for Watched {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let left = self.bytes.get_ref().len() as u64 - self.bytes.position();
        if left < 1 << 20 {
            let mut at_the_end = self.at_the_end.lock().unwrap();
            at_the_end.get_or_insert(self.written.load(Relaxed));
        }
        self.bytes.read(out)
    }
}

struct Counted(Arc<AtomicUsize>);

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.fetch_add(bytes.len(), Relaxed);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn frames_go_out_while_tensors_come_in() {
    let mut rng = Rng(4);
    let tensors: Vec<_> = (0..8).map(|_| rng.bf16_weights(5 << 20)).collect();
    let names: Vec<_> = (0..8).map(|number| format!("layer.{number}")).collect();
    let tensors: Vec<_> = names
        .iter()
        .zip(&tensors)
        .map(|(name, bytes)| (name.as_str(), "BF16", bytes.as_slice()))
        .collect();
    let original = checkpoint(&tensors);
    let (written, at_the_end) = (Arc::default(), Arc::default());
    let input = Watched {
        bytes: io::Cursor::new(original),
        written: Arc::clone(&written),
        at_the_end: Arc::clone(&at_the_end),
    };
    let job = Job::new().engine(&Engine::new(1).unwrap());
    let sink = Sink::writer(Counted(Arc::clone(&written)));
    let options = PackOptions::default().effort(Effort::Fast);
    zstn::pack(&job, Input::reader("stream", input), sink, &options).unwrap();
    let early = at_the_end.lock().unwrap().unwrap();
    let all = written.load(Relaxed);
    assert!(
        early > all / 2,
        "{early} bytes of {all} were written before the last tensor was read"
    );
}

#[test]
fn streams_that_end_early_or_late_are_errors() {
    let original = zstn_tests::many_kinds(1 << 20);
    let refusal = |bytes: &[u8]| {
        let error = packed(trickle(bytes), &PackOptions::default()).unwrap_err();
        (error.code(), error.to_string())
    };
    for len in [original.len() - 1, original.len() / 2, 2000] {
        let (code, text) = refusal(&original[..len]);
        assert_eq!(code, "malformed", "{text}");
        assert!(text.contains("cut off"), "{text}");
    }
    for len in [0, 100] {
        let (code, text) = refusal(&original[..len]);
        assert_eq!(code, "malformed", "{text}");
    }
    let (code, text) = refusal(&[&original[..], &[0]].concat());
    assert_eq!(code, "usage");
    assert!(text.contains("continues after its last tensor"), "{text}");
    // This option allows both files, which are packed unchanged, because no byte is
    // lost.
    let options = PackOptions::default().allow_truncated(true);
    for odd in [
        &original[..original.len() - 1],
        &[&original[..], &[0]].concat(),
    ] {
        let packed = packed(trickle(odd), &options).unwrap();
        assert!(
            zstn_core::container::zstn::unpack(&zstn_core::pure::Pure, &packed).unwrap() == odd
        );
    }
}

#[test]
fn packed_bytes_of_a_stream_are_refused() {
    let once = packed(
        trickle(&zstn_tests::many_kinds(1 << 20)),
        &PackOptions::default(),
    )
    .unwrap();
    let error = packed(trickle(&once), &PackOptions::default()).unwrap_err();
    assert!(error.to_string().contains("is already packed"), "{error}");
}

#[test]
fn a_source_that_changes_while_it_is_packed_is_an_error() {
    for len_bytes in [1 << 16, 24 << 20] {
        let source = Changing(Elsewhere(zstn_tests::many_kinds(len_bytes)));
        let error = packed(Input::source(source), &PackOptions::default()).unwrap_err();
        assert_eq!(error.code(), "changed", "{error}");
    }
}

/// Returns its bytes and then an error.
struct Failing(io::Cursor<Vec<u8>>);

impl Read for Failing {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self.0.read(out)? {
            0 => Err(io::Error::other("the line is dead")),
            len => Ok(len),
        }
    }
}

#[test]
fn errors_of_readers_and_writers_name_them() {
    let original = zstn_tests::many_kinds(4 << 20);
    for len in [4, 500, original.len() - 9] {
        let bytes = io::Cursor::new(original[..len].to_vec());
        let input = Input::reader("the feed", Failing(bytes));
        let error = packed(input, &PackOptions::default()).unwrap_err();
        assert_eq!(error.code(), "io");
        assert_eq!(error.to_string(), "cannot read the feed: the line is dead");
    }
    struct Full(usize);
    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self
                .0
                .checked_sub(bytes.len())
                .ok_or_else(|| io::Error::other("full"))?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let job = Job::new().engine(&Engine::new(2).unwrap());
    for room in [0, 1 << 20] {
        let sink = Sink::writer(Full(room));
        let options = PackOptions::default();
        let error = zstn::pack(&job, original.clone(), sink, &options).unwrap_err();
        assert_eq!(error.to_string(), "cannot write the output: full");
    }
}

#[test]
fn a_reader_serves_once() {
    let input = trickle(&zstn_tests::many_kinds(1 << 16));
    let again = input.clone();
    packed(input, &PackOptions::default()).unwrap();
    let error = packed(again, &PackOptions::default()).unwrap_err();
    assert_eq!(error.code(), "usage");
    assert!(
        error.to_string().contains("stream has been read already"),
        "{error}"
    );
}

#[test]
fn deltas_and_other_verbs_take_readers_too() {
    let job = Job::new().engine(&Engine::new(2).unwrap());
    let base = zstn_tests::many_kinds(1 << 20);
    let mut tuned = base.clone();
    let last = tuned.len() - 1;
    tuned[last] ^= 1;
    let mut delta = Vec::new();
    let options = PackOptions::default().base(trickle(&base));
    zstn::pack(&job, trickle(&tuned), Sink::writer(&mut delta), &options).unwrap();
    let mut restored = Vec::new();
    let options = zstn::UnpackOptions::default().base(trickle(&base));
    zstn::unpack(&job, trickle(&delta), Sink::writer(&mut restored), &options).unwrap();
    assert!(restored == tuned);
    let once = packed(trickle(&base), &PackOptions::default()).unwrap();
    let options = zstn::VerifyOptions::default().original(trickle(&base));
    assert!(
        zstn::verify(&job, trickle(&once), &options)
            .unwrap()
            .compared
    );
    let reader = zstn::Reader::open(trickle(&once)).unwrap();
    assert_eq!(reader.tensors().len(), 7);
}
