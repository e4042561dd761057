//! Every function of the library that reads URLs honours the HTTP options.

use std::path::{MAIN_SEPARATOR_STR, Path};

use zstn::convert::Target;
use zstn::source::HttpOptions;
use zstn::{
    ConvertOptions, Engine, Error, Job, Location, PackOptions, Reader, Result, UnpackOptions,
    VerifyOptions,
};
use zstn_tests::checkpoint;
use zstn_tests::rng::Rng;
use zstn_tests::round_server::{Page, Request, RoundServer};

const TOKEN: &str = "hf_a-secret-token";

/// A model, a fine-tune of it and their packed versions, each in two shards.
struct Files {
    folder: tempfile::TempDir,
    engine: Engine,
}

impl Files {
    fn new() -> Self {
        let files = Self {
            folder: tempfile::tempdir().unwrap(),
            engine: Engine::new(2).unwrap(),
        };
        let at = |name: &str| files.folder.path().join(name);
        let weights = Rng(5).bf16_weights(100_000);
        let mut tuned = weights.clone();
        tuned.iter_mut().step_by(7).for_each(|byte| *byte ^= 1);
        for (name, weights) in [("old", &weights), ("new", &tuned)] {
            let (a, b) = weights.split_at(80_000);
            std::fs::create_dir(at(name)).unwrap();
            let write = |file: &str, bytes: &[u8]| {
                std::fs::write(at(name).join(file), bytes).unwrap();
            };
            write("m-1.safetensors", &checkpoint(&[("a", "BF16", a)]));
            write("m-2.safetensors", &checkpoint(&[("b", "BF16", b)]));
            let index = r#"{"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}}"#;
            write("m.safetensors.index.json", index.as_bytes());
            write("config.json", b"{}");
        }
        let engine = &files.engine;
        let pack = |from: &str, to: &str, options: &PackOptions| {
            zstn::pack(&Job::new().engine(engine), at(from), at(to), options).unwrap();
        };
        pack("old", "old-zstn", &PackOptions::default());
        pack("new", "new-z4dm", &PackOptions::default().base(at("old")));
        let zt = Target::ZTensor {
            is_zstd: false,
            checksum: None,
        };
        let options = ConvertOptions::default();
        let (from, to) = (at("old/m-1.safetensors"), at("m.zt"));
        zstn::convert(&Job::new().engine(engine), from, to, &zt, &options).unwrap();
        files
    }

    /// Adds all files to a server.
    fn serve(&self, server: &RoundServer) {
        let mut pending = vec![self.folder.path().to_path_buf()];
        while let Some(folder) = pending.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    pending.push(path);
                    continue;
                }
                let name = path.strip_prefix(self.folder.path()).unwrap();
                let bytes = std::fs::read(&path).unwrap();
                let name = name.to_str().unwrap().replace(MAIN_SEPARATOR_STR, "/");
                server.add(&name, Page::File(bytes));
            }
        }
    }
}

/// The arguments of a function under test.
struct Arguments<'a> {
    engine: &'a Engine,
    input: Location,
    /// The base of a delta, or the original to compare with.
    other: Location,
    output: &'a Path,
    http: HttpOptions,
}

impl Arguments<'_> {
    fn job(&self) -> Job<'static> {
        Job::new().engine(self.engine).http(self.http.clone())
    }
}

/// The input, the other file that is read (empty if there is none), and a function that
/// calls the library.
type Case = (&'static str, &'static str, fn(Arguments) -> Result<()>);

const PLAIN: &str = "old/m-1.safetensors";
const PACKED: &str = "old-zstn/m-1.zstn";
const TUNED: &str = "new/m-1.safetensors";
const DELTA: &str = "new-z4dm/m-1.z4dm";
const PLAIN_INDEX: &str = "old/m.safetensors.index.json";
const PACKED_INDEX: &str = "old-zstn/m.zstn.index.json";
const TUNED_INDEX: &str = "new/m.safetensors.index.json";
const DELTA_INDEX: &str = "new-z4dm/m.z4dm.index.json";
const ZTENSOR: &str = "m.zt";

const CASES: [Case; 16] = [
    (TUNED, PACKED, pack),
    (TUNED_INDEX, PLAIN_INDEX, pack),
    (DELTA, PLAIN, unpack),
    (DELTA_INDEX, PACKED_INDEX, unpack),
    (PACKED, "", unpack_alone),
    (PACKED_INDEX, "", unpack_alone),
    (DELTA, PACKED, verify),
    (DELTA_INDEX, PLAIN_INDEX, verify),
    (PACKED, PLAIN, compare),
    (PACKED_INDEX, PLAIN_INDEX, compare),
    (ZTENSOR, PLAIN, compare),
    (DELTA, PACKED, convert),
    (ZTENSOR, "", convert_alone),
    (PACKED, "", convert_alone),
    (PLAIN_INDEX, "", convert_alone),
    (DELTA, PLAIN, read),
];

fn pack(arguments: Arguments) -> Result<()> {
    let job = arguments.job();
    let options = PackOptions::default().base(arguments.other);
    zstn::pack(&job, arguments.input, arguments.output, &options).map(drop)
}

fn unpack(arguments: Arguments) -> Result<()> {
    let job = arguments.job();
    let options = UnpackOptions::default().base(arguments.other);
    zstn::unpack(&job, arguments.input, arguments.output, &options).map(drop)
}

fn unpack_alone(arguments: Arguments) -> Result<()> {
    let job = arguments.job();
    let options = UnpackOptions::default();
    zstn::unpack(&job, arguments.input, arguments.output, &options).map(drop)
}

fn verify(arguments: Arguments) -> Result<()> {
    let job = arguments.job();
    let options = VerifyOptions::default().base(arguments.other);
    zstn::verify(&job, arguments.input, &options).map(drop)
}

fn compare(arguments: Arguments) -> Result<()> {
    let job = arguments.job();
    let options = VerifyOptions::default().original(arguments.other);
    zstn::verify(&job, arguments.input, &options).map(drop)
}

fn convert(arguments: Arguments) -> Result<()> {
    let job = arguments.job();
    let options = ConvertOptions::default().base(arguments.other);
    zstn::convert(
        &job,
        arguments.input,
        arguments.output,
        &Target::Safetensors,
        &options,
    )
    .map(drop)
}

fn convert_alone(arguments: Arguments) -> Result<()> {
    let job = arguments.job();
    let options = ConvertOptions::default();
    zstn::convert(
        &job,
        arguments.input,
        arguments.output,
        &Target::Safetensors,
        &options,
    )
    .map(drop)
}

fn read(arguments: Arguments) -> Result<()> {
    let options = Reader::options()
        .engine(arguments.engine)
        .http(arguments.http)
        .base(arguments.other);
    options.open(arguments.input)?.read("a").map(drop)
}

fn has_token(request: &Request) -> bool {
    let mut values = request.headers.iter().map(|(_, value)| value);
    values.any(|value| value.contains(TOKEN))
}

/// Checks that a server received requests, and that either all or none of them had the
/// token.
fn check(server: &RoundServer, name: &str, expected: bool) {
    let requests = server.finished_rounds();
    assert!(!requests.is_empty(), "{name}");
    for request in requests {
        assert_eq!(has_token(&request), expected, "{name}: {}", request.path);
    }
}

#[test]
fn a_token_reaches_every_file_of_its_origin_and_no_other() {
    let files = Files::new();
    for (input, other, work) in CASES {
        let (home, away) = (RoundServer::start(), RoundServer::start());
        files.serve(&home);
        files.serve(&away);
        home.demand(&format!("Bearer {TOKEN}"));
        let at = |server: &RoundServer, path: &str| Location::url(format!("{}{path}", server.url));
        let run = |other: Location, http: HttpOptions| {
            let scratch = tempfile::tempdir().unwrap();
            work(Arguments {
                engine: &files.engine,
                input: at(&home, input),
                other,
                output: &scratch.path().join("out"),
                http,
            })
        };
        let name = format!("{input} with {other}");

        let refused = run(at(&home, other), HttpOptions::default()).unwrap_err();
        let Error::Http { status, .. } = refused else {
            panic!("{name}: {refused}");
        };
        assert_eq!(status, Some(401), "{name}: {refused}");

        let http = HttpOptions::default().token(&home.url, TOKEN).unwrap();
        home.expect_rounds(&[]);
        run(at(&home, other), http.clone()).unwrap_or_else(|error| panic!("{name}: {error}"));
        check(&home, &name, true);
        if other.is_empty() {
            continue;
        }
        home.expect_rounds(&[]);
        run(at(&away, other), http).unwrap_or_else(|error| panic!("{name}: {error}"));
        check(&home, &name, true);
        check(&away, &name, false);
    }
}

#[test]
fn a_redirect_to_another_origin_takes_no_token_along() {
    let files = Files::new();
    for (input, other, work) in CASES {
        let (home, away) = (RoundServer::start(), RoundServer::start());
        files.serve(&away);
        home.demand(&format!("Bearer {TOKEN}"));
        for path in [input, other] {
            // The files that an index lists are in the same folder.
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            for file in ["m-1", "m-2"] {
                for kind in ["safetensors", "zstn", "z4dm"] {
                    let path = format!("{folder}/{file}.{kind}");
                    home.add(&path, Page::Redirect(format!("{}{path}", away.url)));
                }
            }
            home.add(path, Page::Redirect(format!("{}{path}", away.url)));
        }
        let at = |path: &str| Location::url(format!("{}{path}", home.url));
        let scratch = tempfile::tempdir().unwrap();
        let done = work(Arguments {
            engine: &files.engine,
            input: at(input),
            other: at(other),
            output: &scratch.path().join("out"),
            http: HttpOptions::default().token(&home.url, TOKEN).unwrap(),
        });
        let name = format!("{input} with {other}");
        done.unwrap_or_else(|error| panic!("{name}: {error}"));
        check(&home, &name, true);
        check(&away, &name, false);
    }
}
