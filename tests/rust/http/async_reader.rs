//! `AsyncReader` reads what `Reader` does, and blocks no thread.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::ops::Range;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use futures_util::TryStreamExt;
use zstn::source::object_store::{ObjectStore, ObjectStoreExt, memory::InMemory};
use zstn::source::{AsyncSource, HttpOptions, ObjectStoreSource, Reading};
use zstn::{AsyncReader, Input, Job, Location, PackOptions, Reader, View};
use zstn_core::Rule;
use zstn_tests::archives::{Archive, StoredTensor, pickle, state_dict};
use zstn_tests::gguf::{self, three_parts};
use zstn_tests::rng::Rng;
use zstn_tests::round_server::{Page, RoundServer};
use zstn_tests::{checkpoint, native, protobuf, ztensor2};

/// Runs `work` on a runtime with one thread and without timers or connections of its
/// own.
pub(super) fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(work)
}

/// A checkpoint, a delta from another one, and that one packed, as files in a folder.
struct Files {
    folder: tempfile::TempDir,
    plain: Vec<u8>,
}

impl Files {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let job = Job::new().engine(&native());
        let weights = Rng(31).bf16_weights(200_000);
        let mut tuned = weights.clone();
        tuned.iter_mut().step_by(97).for_each(|byte| *byte ^= 1);
        let file = |bytes: &[u8]| {
            checkpoint(&[
                ("a", "BF16", &bytes[..300_000]),
                ("b", "U8", &bytes[300_000..]),
            ])
        };
        let at = |name: &str| folder.path().join(name);
        let plain = file(&tuned);
        std::fs::write(at("base.safetensors"), file(&weights)).unwrap();
        std::fs::write(at("m.safetensors"), &plain).unwrap();
        let options = PackOptions::default();
        zstn::pack(&job, at("base.safetensors"), at("base.zstn"), &options).unwrap();
        zstn::pack(&job, at("m.safetensors"), at("m.zstn"), &options).unwrap();
        let options = options.base(at("base.safetensors"));
        zstn::pack(&job, at("m.safetensors"), at("m.z4dm"), &options).unwrap();
        Self { folder, plain }
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.folder.path().join(name)).unwrap()
    }
}

/// Compares all that a reader reads with the plain checkpoint.
async fn check(reader: &AsyncReader, files: &Files) {
    let plain = Reader::open(files.folder.path().join("m.safetensors")).unwrap();
    let names: Vec<_> = reader.names().map(str::to_owned).collect();
    assert_eq!(names, plain.names().collect::<Vec<_>>());
    let tensors: Vec<_> = reader.stream(names).try_collect().await.unwrap();
    for tensor in &tensors {
        assert_eq!(*tensor, plain.read(&tensor.name).unwrap());
        assert_eq!(*tensor, reader.read(&tensor.name).await.unwrap());
    }
    let rows = 70_000..70_003;
    let expected = plain.read_rows("a", rows.clone()).unwrap();
    assert_eq!(reader.read_rows("a", rows).await.unwrap(), expected);
    let missing = reader.read("c").await.unwrap_err();
    assert_eq!(missing.code(), "not_found", "{missing}");
}

#[test]
fn files_on_disk_and_on_servers() {
    let files = Files::new();
    let server = RoundServer::start();
    for name in ["m.safetensors", "m.zstn", "m.z4dm", "base.zstn"] {
        server.add(name, Page::File(files.bytes(name)));
    }
    let path = |name: &str| Input::from(files.folder.path().join(name));
    let url = |name: &str| Input::from(Location::url(format!("{}{name}", server.url)));
    block_on(async {
        for open in [&path as &dyn Fn(&str) -> Input, &url] {
            for name in ["m.safetensors", "m.zstn"] {
                check(&AsyncReader::open(open(name)).await.unwrap(), &files).await;
            }
            let options = Reader::options().base(open("base.zstn"));
            check(&options.open_async(open("m.z4dm")).await.unwrap(), &files).await;
            let alone = AsyncReader::open(open("m.z4dm")).await.unwrap();
            let refused = alone.read("a").await.unwrap_err();
            assert_eq!(refused.code(), "needs_base", "{refused}");
        }
        let missing = AsyncReader::open(url("missing")).await;
        assert_eq!(missing.err().unwrap().code(), "http");
    });
}

/// Opens the model at `url` with both readers, and returns the names of its tensors.
fn names_at(url: &str) -> zstn::Result<Vec<String>> {
    let names: zstn::Result<Vec<String>> = block_on(async {
        let reader = AsyncReader::open(Location::url(url)).await?;
        let names: Vec<String> = reader.names().map(Into::into).collect();
        if let Some(last) = names.last() {
            reader.read(last).await?;
        }
        Ok(names)
    });
    let blocking = Reader::open(Location::url(url));
    let blocking: zstn::Result<Vec<String>> =
        blocking.map(|reader| reader.names().map(Into::into).collect());
    match (names, blocking) {
        (Ok(names), blocking) => {
            assert_eq!(blocking.unwrap(), names);
            Ok(names)
        }
        (Err(error), blocking) => {
            assert_eq!(error.to_string(), blocking.unwrap_err().to_string());
            Err(error)
        }
    }
}

#[test]
fn models_in_several_files_of_other_formats() {
    let server = RoundServer::start();
    let [first, second, third] = three_parts();
    let url = server.add(&first.0, Page::File(first.1));
    server.add(&second.0, Page::File(second.1));
    let error = names_at(&url).unwrap_err();
    assert_eq!(error.code(), "http");
    assert!(error.to_string().contains(&third.0), "{error}");
    server.add(&third.0, Page::File(third.1));
    assert_eq!(names_at(&url).unwrap(), ["a", "b", "c", "d"]);

    // A folder of PyTorch files was packed, and its index was copied.
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        let archive = Archive::default()
            .aligned("m/data.pkl", &state_dict(&[(name.into(), "0".into(), 2)]))
            .aligned("m/data/0", &[0; 8]);
        let at = |ending: &str| folder.path().join(format!("{name}.{ending}"));
        std::fs::write(at("bin"), archive.finish()).unwrap();
        let options = PackOptions::default();
        zstn::pack(&Job::new(), at("bin"), at("bin.zstn"), &options).unwrap();
        let packed = std::fs::read(at("bin.zstn")).unwrap();
        server.add(&format!("{name}.bin.zstn"), Page::File(packed));
    }
    let index = br#"{"weight_map":{"a":"a.bin","b":"b.bin"}}"#;
    let url = server.add("model.bin.index.json", Page::File(index.to_vec()));
    assert_eq!(names_at(&url).unwrap(), ["a", "b"]);
    // A model of ONNX was packed with the file that contains its values.
    let at = [("location", "data/w.bin")];
    let model = protobuf::model(&[], &[protobuf::external("far", 2, &[2, 4], &at)]);
    for (name, bytes) in [("m.onnx", &model[..]), ("w.bin", b"12345678")] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let packed = folder.path().join("packed");
        zstn::pack(&Job::new(), &path, &packed, &PackOptions::default()).unwrap();
        let place = if name == "w.bin" { "data/" } else { "" };
        let packed = std::fs::read(packed).unwrap();
        server.add(&format!("{place}{name}.zstn"), Page::File(packed));
        std::fs::remove_file(folder.path().join("packed")).unwrap();
    }
    server.add("m.onnx", Page::File(model));
    for name in ["m.onnx", "m.onnx.zstn"] {
        let url = format!("{}{name}", server.url);
        assert_eq!(names_at(&url).unwrap(), ["far"]);
        let reader = Reader::open(Location::url(&url)).unwrap();
        assert_eq!(reader.read_rows("far", 1..2).unwrap().bytes, b"5678");
    }
    let index = br#"{"weight_map":{"a":"a.bin","c":"c.bin"}}"#;
    let url = server.add("wrong.bin.index.json", Page::File(index.to_vec()));
    let error = names_at(&url).unwrap_err();
    let said = error.to_string();
    assert!(said.contains("c.bin") && !said.contains("zstn"), "{said}");
}

/// Returns a GGUF file with tensors of a block type and of F32.
fn gguf_file(bytes: &[u8]) -> Vec<u8> {
    const Q8_0: u32 = 8;
    let quantised: Vec<u8> = bytes[..34_000].to_vec();
    gguf::file(
        &[("general.name", gguf::Value::Text("a model"))],
        &[
            ("quantised", Q8_0, &[32, 1000], quantised),
            ("norm", gguf::F32, &[2500, 4], bytes[34_000..].to_vec()),
        ],
    )
}

/// Returns a PyTorch file with a tensor that repeats elements, which a virtual header
/// does not list.
fn pytorch_file(bytes: &[u8]) -> Vec<u8> {
    let tensor = |name, shape, strides| StoredTensor {
        name,
        class: "Float",
        key: "0",
        storage_len: 18_500,
        offset: 0,
        shape,
        strides,
    };
    let pickle = pickle(&[
        tensor("weight", &[185, 100], &[100, 1]),
        tensor("expanded", &[3, 18_500], &[0, 1]),
    ]);
    let archive = Archive::default().aligned("m/data.pkl", &pickle);
    archive.aligned("m/data/0", bytes).finish()
}

/// Compares all tensors and some rows of the two readers.
async fn check_same(reader: &AsyncReader, plain: &Reader) {
    let mut names: Vec<_> = reader.names().collect();
    let mut expected: Vec<_> = plain.names().collect();
    names.sort_unstable();
    expected.sort_unstable();
    assert_eq!(names, expected);
    for name in names {
        assert_eq!(reader.read(name).await.unwrap(), plain.read(name).unwrap());
        let rows = reader.read_rows(name, 1..3).await.unwrap();
        assert_eq!(rows, plain.read_rows(name, 1..3).unwrap());
    }
}

#[test]
fn deltas_and_packed_files_of_other_formats() {
    let bytes = Rng(37).bytes(74_000);
    let mut tuned = bytes.clone();
    tuned.iter_mut().step_by(50).for_each(|byte| *byte ^= 1);
    let server = RoundServer::start();
    for (ending, file) in [
        ("gguf", gguf_file as fn(&[u8]) -> Vec<u8>),
        ("pt", pytorch_file),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let [old, new] = ["old", "new"].map(|name| format!("{name}.{ending}"));
        std::fs::write(at(&old), file(&bytes)).unwrap();
        std::fs::write(at(&new), file(&tuned)).unwrap();
        let job = Job::new().engine(&native());
        let options = PackOptions::default();
        for (name, packed) in [(&old, "old.zstn"), (&new, "new.zstn")] {
            zstn::pack(&job, at(name), at(packed), &options).unwrap();
        }
        zstn::pack(&job, at(&new), at("new.z4dm"), &options.base(at(&old))).unwrap();
        for name in [&old, "old.zstn", "new.zstn", "new.z4dm"] {
            server.add(name, Page::File(std::fs::read(at(name)).unwrap()));
        }
        let plain = Reader::open(at(&new)).unwrap();
        let url = |name: &str| Input::from(Location::url(format!("{}{name}", server.url)));
        let path = |name: &str| Input::from(at(name));
        block_on(async {
            for open in [&path as &dyn Fn(&str) -> Input, &url] {
                let packed = AsyncReader::open(open("new.zstn")).await.unwrap();
                check_same(&packed, &plain).await;
                for base in [&old, "old.zstn"] {
                    let options = Reader::options().base(open(base));
                    let reader = options.open_async(open("new.z4dm")).await.unwrap();
                    check_same(&reader, &plain).await;
                    let alone = AsyncReader::open(open("new.z4dm")).await.unwrap();
                    let stored = Reader::options().view(View::Stored);
                    let base = stored.open_async(open(base)).await.unwrap();
                    check_same(&alone.with_base(base).await.unwrap(), &plain).await;
                }
            }
            let wrong = Reader::options().base(path("new.zstn"));
            let read = match wrong.open_async(path("new.z4dm")).await {
                Ok(reader) => reader.read(reader.names().next().unwrap()).await.map(drop),
                Err(error) => Err(error),
            };
            let error = read.unwrap_err();
            let rule = error.refusal().and_then(zstn_core::Error::rule);
            assert_eq!(rule, Some(Rule::DeltaReference), "{error}");

            // A source of the caller's own is read by blocking another thread.
            let own = Own(std::fs::read(at("new.zstn")).unwrap());
            let stored = Reader::options().open_async_source(own).await.unwrap();
            let original = stored.original().await.unwrap().unwrap();
            check_same(&original, &plain).await;
            assert_eq!(original.metadata(), plain.metadata());
        });
    }
}

/// Bytes in memory, read by a source of the test's own.
struct Own(Vec<u8>);

impl AsyncSource for Own {
    fn name(&self) -> &str {
        "bytes of the test"
    }

    fn len_bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read(&self, range: Range<u64>) -> Reading<'_, Vec<u8>> {
        let [start, end] = [range.start, range.end].map(|at| usize::try_from(at).unwrap());
        Box::pin(async move { Ok(self.0[start..end].to_vec()) })
    }
}

#[test]
fn sources_of_ones_own_and_any_object_store() {
    let files = Files::new();
    block_on(async {
        let own = Own(files.bytes("m.zstn"));
        let reader = Reader::options().open_async_source(own).await.unwrap();
        check(&reader, &files).await;
        let base = files.folder.path().join("base.zstn");
        let options = Reader::options().base(base);
        let delta = options.open_async_source(Own(files.bytes("m.z4dm"))).await;
        check(&delta.unwrap(), &files).await;

        let store = Arc::new(InMemory::new());
        let bytes = files.bytes("m.zstn");
        store.put(&"a/m.zstn".into(), bytes.into()).await.unwrap();
        let open = |path: &str| {
            let store: Arc<dyn ObjectStore> = store.clone();
            let path = path.to_owned();
            async move { ObjectStoreSource::open(store, path.into(), &HttpOptions::default()).await }
        };
        let source = open("a/m.zstn").await.unwrap();
        let reader = Reader::options().open_async_source(source).await.unwrap();
        check(&reader, &files).await;

        // The blocking reader takes it, too.
        let reader = Reader::open(Input::source(open("a/m.zstn").await.unwrap())).unwrap();
        let tensor = reader.read("b").unwrap();
        assert!(files.plain.ends_with(&tensor.bytes));

        let missing = open("a/missing").await.err().unwrap();
        assert!(missing.to_string().contains("a/missing"), "{missing}");

        // A version that is replaced after it was opened is not mixed with the new one.
        let source = open("a/m.zstn").await.unwrap();
        let reader = Reader::options().open_async_source(source).await.unwrap();
        let other = files.bytes("m.safetensors");
        store.put(&"a/m.zstn".into(), other.into()).await.unwrap();
        let changed = reader.read("a").await.unwrap_err();
        assert_eq!(changed.code(), "changed", "{changed}");
    });
}

#[test]
fn dropping_a_future_ends_its_request() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/m.zstn", listener.local_addr().unwrap());
    let (asked, was_asked) = mpsc::channel();
    let (closed, was_closed) = mpsc::channel();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        while reader.read_line(&mut line).unwrap() > 2 {
            line.clear();
        }
        asked.send(()).unwrap();
        // Nothing is answered, so the next event is the end of the connection.
        let _ = reader.read(&mut [0]);
        closed.send(()).unwrap();
    });
    let opening = AsyncReader::open(Location::url(url));
    block_on(async {
        let timer = async move {
            let soon = move || was_asked.recv_timeout(Duration::from_secs(10)).unwrap();
            tokio::task::spawn_blocking(soon).await.unwrap();
        };
        tokio::select! {
            _ = opening => panic!("there was no answer"),
            () = timer => {}
        }
    });
    was_closed.recv_timeout(Duration::from_secs(1)).unwrap();
}

#[test]
fn tensors_in_shards_of_ztensor_are_read() {
    let shard = ztensor2::data_shard(&[b"abcd"]);
    let entry = ztensor2::map(&[
        ("size", ztensor2::number(shard.len())),
        ("digest", ztensor2::text("xxh3:0000000000000000")),
    ]);
    let part = ztensor2::part(0, "u8", 4, &[("shard", ztensor2::text("far"))]);
    let tensor = ztensor2::tensor(&[4], "dense", &[("data", part)]);
    let root = [
        ("objects", ztensor2::map(&[("a", tensor)])),
        ("shards", ztensor2::map(&[("far", entry)])),
    ];
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("m.zt"), ztensor2::file(&root, &[])).unwrap();
    std::fs::write(folder.path().join("m-far.zt"), shard).unwrap();
    let reader = AsyncReader::open(folder.path().join("m.zt"));
    let read = block_on(async { reader.await?.read("a").await });
    assert_eq!(read.unwrap().bytes, b"abcd");
}
