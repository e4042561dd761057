//! Several writers: claims, which give the exclusive right to write a folder, and races
//! for one object.

use std::fs;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use tempfile::TempDir;
use zstn_store::{Address, Error, FolderClaim, Upload, UploadOptions, delete, list, read_small};
use zstn_tests::store_proxy::{Action, Proxy, answer};

use crate::answers::{MODIFIED, s3_error};
use crate::bucket::{Bucket, Kind, PART_BYTES, proxied};

fn take(bucket: &Bucket, state: &TempDir) -> Result<FolderClaim, Error> {
    FolderClaim::take(
        &bucket.address("folder"),
        Some(state.path()),
        &bucket.options(),
    )
}

fn names(bucket: &Bucket) -> Vec<String> {
    let listed = list(&bucket.address("folder"), &bucket.options()).unwrap();
    listed.into_iter().map(|object| object.path).collect()
}

fn files(state: &TempDir) -> usize {
    fs::read_dir(state.path()).unwrap().count()
}

pub fn a_claim_is_continued_until_it_is_released(bucket: &Bucket) {
    let state = tempfile::tempdir().unwrap();
    // This object shares the folder's prefix, but is not in the folder.
    bucket.put("folder-2/object", b"other");
    let claim = take(bucket, &state).unwrap();
    assert!(!claim.is_continued());
    assert_eq!(names(bucket), [FolderClaim::MARKER]);
    let error = take(bucket, &state).unwrap_err();
    assert!(matches!(error, Error::Busy { .. }), "{error}");
    bucket.put("folder/a", b"first");
    drop(claim);
    for _ in 0..2 {
        let claim = take(bucket, &state).unwrap();
        assert!(claim.is_continued());
        assert_eq!(names(bucket), [FolderClaim::MARKER, "a"]);
    }
    take(bucket, &state).unwrap().release().unwrap();
    assert_eq!(names(bucket), ["a"]);
    assert_eq!(files(&state), 0);
    let error = take(bucket, &state).unwrap_err();
    assert!(
        matches!(&error, Error::NotEmpty { found, .. } if found == "a"),
        "{error}"
    );
    assert_eq!(names(bucket), ["a"]);
    assert_eq!(files(&state), 0);
}

pub fn a_folder_with_objects_is_refused(bucket: &Bucket) {
    let state = tempfile::tempdir().unwrap();
    bucket.put("folder/deep/in/it", b"content");
    let error = take(bucket, &state).unwrap_err();
    assert!(
        matches!(&error, Error::NotEmpty { found, .. } if found == "deep/in/it"),
        "{error}"
    );
    assert_eq!(names(bucket), ["deep/in/it"]);
    assert_eq!(files(&state), 0);
}

pub fn the_marker_of_another_attempt_is_respected(bucket: &Bucket) {
    let state = tempfile::tempdir().unwrap();
    let marker = format!("folder/{}", FolderClaim::MARKER);
    for content in [&b"{\"id\":\"another\"}"[..], b"{}", b"", b"\xff"] {
        bucket.put(&marker, content);
        let error = take(bucket, &state).unwrap_err();
        assert!(matches!(error, Error::Claimed { .. }), "{error}");
        let read = read_small(&bucket.address(&marker), 100, &bucket.options());
        assert_eq!(read.unwrap().unwrap(), content);
    }
    delete(&bucket.address(&marker), &bucket.options()).unwrap();
    // A claim is lost if its marker is replaced.
    drop(take(bucket, &state).unwrap());
    bucket.put(&marker, b"{\"id\":\"another\"}");
    let error = take(bucket, &state).unwrap_err();
    assert!(matches!(error, Error::Claimed { .. }), "{error}");
    // A claim is also lost if its marker is removed.
    delete(&bucket.address(&marker), &bucket.options()).unwrap();
    assert!(!take(bucket, &state).unwrap().is_continued());
}

pub fn a_claim_is_discarded_with_its_objects(bucket: &Bucket) {
    let state = tempfile::tempdir().unwrap();
    let claim = take(bucket, &state).unwrap();
    let written: Vec<Address> = ["a", "b", "never written"]
        .map(|name| bucket.address(&format!("folder/{name}")))
        .into();
    bucket.put("folder/a", b"1");
    bucket.put("folder/b", b"2");
    claim.discard(&written).unwrap();
    assert_eq!(names(bucket), Vec::<String>::new());
    assert_eq!(files(&state), 0);
    assert!(!take(bucket, &state).unwrap().is_continued());
}

/// Two machines keep their local files in different folders.
pub fn only_one_machine_has_the_claim(bucket: &Bucket) {
    let states = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let claim = take(bucket, &states[0]).unwrap();
    let error = take(bucket, &states[1]).unwrap_err();
    let is_expected = match bucket.kind {
        // Other machines do not see objects in memory.
        Kind::Memory => matches!(error, Error::Busy { .. }),
        _ => matches!(error, Error::Claimed { .. }),
    };
    assert!(is_expected, "{error}");
    claim.release().unwrap();
    take(bucket, &states[1]).unwrap().release().unwrap();
    assert_eq!(files(&states[1]), 0);
}

pub fn the_second_of_two_small_writers_loses(bucket: &Bucket) {
    second_loses(bucket, 10);
}

pub fn the_second_of_two_long_writers_loses(bucket: &Bucket) {
    second_loses(bucket, PART_BYTES + 10);
}

fn second_loses(bucket: &Bucket, len: usize) {
    let address = bucket.address("object");
    let begin = || Upload::begin(&address, &bucket.upload_options()).unwrap();
    let (mut first, mut second) = (begin(), begin());
    first.write(&vec![1; len]).unwrap();
    second.write(&vec![2; len]).unwrap();
    first.finish().unwrap();
    lost(second.finish().unwrap_err());
    let read = read_small(&address, 1 << 30, &bucket.options()).unwrap();
    assert!(read.unwrap() == vec![1; len]);
    assert_eq!(bucket.unfinished_uploads(), 0);
}

fn lost(error: Error) {
    let sentence = error.to_string();
    assert!(
        matches!(
            error,
            Error::Exists {
                lost_race: true,
                ..
            }
        ),
        "{sentence}"
    );
    assert!(sentence.contains("another writer"), "{sentence}");
}

/// The other writer creates the object after the last check, so only a condition on the
/// completing request can prevent its loss.
#[test]
#[ignore = "needs the server that `cargo xtask test` starts"]
fn on_s3_completing_has_a_condition() {
    let bucket = Bucket::s3();
    let address = bucket.address("object");
    let direct = bucket.with_name(&bucket.name);
    let proxy = Proxy::start(&bucket.server, move |request| {
        if request.completes() {
            direct.put("object", b"first");
        }
        Action::Forward
    });
    let through = bucket.through(&proxy);
    let mut upload = Upload::begin(&address, &through.upload_options()).unwrap();
    upload.write(&vec![2; PART_BYTES + 1]).unwrap();
    lost(upload.finish().unwrap_err());
    assert_eq!(proxy.count(|request| request.completes()), 1);
    let read = read_small(&address, 1 << 30, &bucket.options()).unwrap();
    assert_eq!(read.unwrap(), b"first");
    assert_eq!(bucket.unfinished_uploads(), 0);
}

/// If the server does not support the condition, the request is repeated without it.
#[test]
#[ignore = "needs the server that `cargo xtask test` starts"]
fn on_s3_without_conditions_completing_has_none() {
    let bucket = Bucket::s3();
    let proxy = Proxy::start(&bucket.server, |request| {
        match request.completes() && request.header("if-none-match").is_some() {
            true => Action::Answer(s3_error("501 Not Implemented", "NotImplemented")),
            false => Action::Forward,
        }
    });
    let through = bucket.through(&proxy);
    let address = bucket.address("object");
    let mut upload = Upload::begin(&address, &through.upload_options()).unwrap();
    upload.write(&vec![2; PART_BYTES + 1]).unwrap();
    upload.finish().unwrap();
    let read = read_small(&address, 1 << 30, &bucket.options()).unwrap();
    assert!(read.unwrap() == vec![2; PART_BYTES + 1]);
}

/// The request is repeated, and refused because of the object that it created itself.
#[test]
#[ignore = "needs the server that `cargo xtask test` starts"]
fn on_s3_an_answer_that_is_lost_is_no_race() {
    let bucket = Bucket::s3();
    let is_first = AtomicBool::new(true);
    let proxy = Proxy::start(&bucket.server, move |request| {
        match request.completes() && is_first.swap(false, Relaxed) {
            true => Action::Change(|_| Vec::new()),
            // moto would repeat its first answer; the condition also permits this
            // refusal.
            false if request.completes() => {
                let refused = s3_error("412 Precondition Failed", "PreconditionFailed");
                Action::Answer(refused)
            }
            false => Action::Forward,
        }
    });
    let through = bucket.through(&proxy);
    let address = bucket.address("object");
    let mut upload = Upload::begin(&address, &through.upload_options()).unwrap();
    upload.write(&vec![2; PART_BYTES + 1]).unwrap();
    upload.finish().unwrap();
    assert!(proxy.count(|request| request.completes()) >= 2);
    let read = read_small(&address, 1 << 30, &bucket.options()).unwrap();
    assert!(read.unwrap() == vec![2; PART_BYTES + 1]);
}

/// Starts a server with the object `there`, which loses its answer to the request that
/// creates the object: `first` returns an error or closes the connection instead.
fn loses_the_answer(there: &'static [u8], first: fn() -> Action) -> Proxy {
    let is_made = AtomicBool::new(false);
    Proxy::start("", move |request| {
        if request.method == "PUT" {
            return match is_made.swap(true, Relaxed) {
                false => first(),
                true => Action::Answer(s3_error("412 Precondition Failed", "PreconditionFailed")),
            };
        }
        let range = format!("Content-Range: bytes 0-{}/{}", there.len() - 1, there.len());
        let headers = ["ETag: \"a\"", MODIFIED, &range];
        Action::Answer(match (is_made.load(Relaxed), &*request.method) {
            (false, _) => answer("404 Not Found", &[], b""),
            (true, "HEAD") => answer("200 OK", &headers[..2], there),
            (true, _) => answer("206 Partial Content", &headers, there),
        })
    })
}

fn s3_options(proxy: &Proxy) -> UploadOptions {
    let mut options = UploadOptions::default();
    options.store = proxied(proxy);
    options.part_bytes = PART_BYTES as u64;
    options
}

#[test]
fn a_small_object_whose_answer_is_lost_is_no_race() {
    let losses: [fn() -> Action; 2] = [
        || Action::Answer(s3_error("504 Gateway Timeout", "Timeout")),
        || Action::Cut,
    ];
    let address = Address::parse("s3://bucket/object").unwrap();
    for loss in losses {
        let put = |there| {
            let proxy = loses_the_answer(there, loss);
            let mut upload = Upload::begin(&address, &s3_options(&proxy)).unwrap();
            upload.write(b"content").unwrap();
            upload.finish()
        };
        assert_eq!(put(b"content").unwrap().len_bytes, 7);
        for other in [&b"contend"[..], b"content and more", b"c"] {
            put(other).unwrap_err();
        }
    }
    let refused = || Action::Answer(s3_error("412 Precondition Failed", "PreconditionFailed"));
    let proxy = loses_the_answer(b"contend", refused);
    let mut upload = Upload::begin(&address, &s3_options(&proxy)).unwrap();
    upload.write(b"content").unwrap();
    lost(upload.finish().unwrap_err());
}

/// Leases, retention policies and other conflicts are not reported as other writers.
#[test]
fn refusals_to_replace_keep_their_code() {
    let cases = [
        ("409 Conflict", "BlobImmutableDueToPolicy"),
        ("412 Precondition Failed", "LeaseIdMissing"),
    ];
    for (status, code) in cases {
        let proxy = Proxy::answering(move |request| {
            let is_whole = request.method == "PUT" && !request.sends_part();
            if is_whole || (request.method == "POST" && request.completes()) {
                return s3_error(status, code);
            }
            if request.target.contains("?uploads") {
                let body = "<InitiateMultipartUploadResult><UploadId>u</UploadId>\
                            </InitiateMultipartUploadResult>";
                return answer("200 OK", &[], body.as_bytes());
            }
            answer("200 OK", &["ETag: \"a\"", MODIFIED], b"")
        });
        let address = Address::parse("s3://bucket/object").unwrap();
        let mut options = s3_options(&proxy);
        options.replace = true;
        for len in [7, PART_BYTES + 7] {
            let mut upload = Upload::begin(&address, &options).unwrap();
            upload.write(&vec![1; len]).unwrap();
            let error = upload.finish().unwrap_err();
            assert!(matches!(error, Error::Server { .. }), "{error}");
            assert!(error.to_string().contains(code), "{error}");
        }
    }
}
