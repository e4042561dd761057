//! Two writers of one object.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use zstn_store::{Error, Upload, read_small};

use crate::answers::s3_error;
use crate::bucket::{Bucket, PART_BYTES};
use zstn_tests::store_proxy::{Action, Proxy};

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

/// The other writer comes when the last question has been answered: only a
/// condition of the completing request can help.
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

/// A server without the condition gets the request without it.
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

/// The request is made again, and refused for the object that it has made.
#[test]
#[ignore = "needs the server that `cargo xtask test` starts"]
fn on_s3_an_answer_that_is_lost_is_no_race() {
    let bucket = Bucket::s3();
    let is_first = AtomicBool::new(true);
    let proxy = Proxy::start(&bucket.server, move |request| {
        match request.completes() && is_first.swap(false, Relaxed) {
            true => Action::Change(|_| Vec::new()),
            // moto answers a repetition as it did at first; the condition
            // permits this as well.
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
