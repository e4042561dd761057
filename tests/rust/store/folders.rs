//! Requests for folders of objects, answered as S3 would, and the requests sent to
//! Google Cloud Storage, as far as they can be tested without it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

use zstn_store::{
    Address, Environment, Error, FolderClaim, StoreOptions, Upload, UploadOptions, list_top,
};
use zstn_tests::store_proxy::{Proxy, Request, answer};

use crate::answers::s3_error;
use crate::bucket::{PART_BYTES, proxied};

/// The names of the objects in a bucket.
type Names = Arc<Mutex<BTreeSet<String>>>;

fn folder() -> Address {
    Address::parse("s3://bucket/folder").unwrap()
}

fn take(proxy: &Proxy, state: &Path) -> Result<FolderClaim, Error> {
    FolderClaim::take(&folder(), Some(state), &proxied(proxy))
}

fn is_list(request: &Request) -> bool {
    request.target.contains("list-type=2")
}

/// Serves a bucket that stores names but no contents.
fn serve(request: &Request, names: &Names) -> Vec<u8> {
    let mut names = names.lock().unwrap();
    let name = request.target.trim_start_matches("/bucket/").to_owned();
    match &*request.method {
        "GET" if is_list(request) => {
            let entries = names.iter().map(|name| {
                format!(
                    "<Contents><Key>{name}</Key><Size>1</Size>\
                     <LastModified>2026-11-22T12:00:00.000Z</LastModified></Contents>"
                )
            });
            let entries: String = entries.collect();
            // Two or more names are returned on several pages.
            let is_last = names.len() < 2 || request.target.contains("continuation-token");
            let more = match is_last {
                true => "",
                false => {
                    "<IsTruncated>true</IsTruncated>\
                          <NextContinuationToken>more</NextContinuationToken>"
                }
            };
            let body = format!("<ListBucketResult>{entries}{more}</ListBucketResult>");
            answer("200 OK", &[], body.as_bytes())
        }
        "PUT" if !names.insert(name.clone()) => {
            s3_error("412 Precondition Failed", "PreconditionFailed")
        }
        "PUT" => answer("200 OK", &["ETag: \"e\""], b""),
        "DELETE" if names.remove(&name) => answer("204 No Content", &[], b""),
        _ => answer("404 Not Found", &[], b""),
    }
}

fn names(of: &[&str]) -> Names {
    let of = of.iter().map(|name| (*name).to_owned());
    Arc::new(Mutex::new(of.collect()))
}

fn in_bucket(names: &Names) -> Vec<String> {
    names.lock().unwrap().iter().cloned().collect()
}

fn is_empty(state: &Path) -> bool {
    std::fs::read_dir(state).unwrap().next().is_none()
}

#[test]
fn the_top_of_a_folder_is_all_that_is_asked_for() {
    let proxy = Proxy::answering(|_| {
        let body = "<ListBucketResult><CommonPrefixes><Prefix>folder/deep/</Prefix>\
                    </CommonPrefixes></ListBucketResult>";
        answer("200 OK", &[], body.as_bytes())
    });
    assert_eq!(list_top(&folder(), &proxied(&proxy)).unwrap(), []);
    let requests = proxy.requests();
    assert_eq!(requests.len(), 1);
    let target = &requests[0].target;
    assert!(target.contains("delimiter=%2F"), "{target}");
    assert!(target.contains("prefix=folder%2F"), "{target}");
}

#[test]
fn one_page_of_a_full_folder_is_enough() {
    let state = tempfile::tempdir().unwrap();
    let there = names(&["folder/a", "folder/b"]);
    let served = Arc::clone(&there);
    let proxy = Proxy::answering(move |request| serve(request, &served));
    let error = take(&proxy, state.path()).unwrap_err();
    assert!(matches!(error, Error::NotEmpty { .. }), "{error}");
    assert_eq!(proxy.count(is_list), 1);
    assert_eq!(proxy.count(|request| request.method == "PUT"), 0);
}

/// Another attempt completes the empty folder before the marker is created.
#[test]
fn a_folder_that_another_attempt_completes_meanwhile_is_refused() {
    let state = tempfile::tempdir().unwrap();
    let there = names(&[]);
    let served = Arc::clone(&there);
    let proxy = Proxy::answering(move |request| {
        if request.method == "PUT" {
            served.lock().unwrap().insert("folder/index".into());
        }
        serve(request, &served)
    });
    let error = take(&proxy, state.path()).unwrap_err();
    assert!(
        matches!(&error, Error::NotEmpty { found, .. } if found == "index"),
        "{error}"
    );
    assert_eq!(in_bucket(&there), ["folder/index"]);
    assert!(is_empty(state.path()));
}

/// Another attempt creates its marker between the last check and the request.
#[test]
fn the_second_of_two_markers_is_refused() {
    let state = tempfile::tempdir().unwrap();
    let there = names(&[]);
    let served = Arc::clone(&there);
    let marker = format!("folder/{}", FolderClaim::MARKER);
    let other = marker.clone();
    let proxy = Proxy::answering(move |request| {
        if request.method == "PUT" {
            assert_eq!(request.header("if-none-match"), Some("*"));
            served.lock().unwrap().insert(other.clone());
        }
        serve(request, &served)
    });
    let error = take(&proxy, state.path()).unwrap_err();
    assert!(matches!(error, Error::Claimed { .. }), "{error}");
    assert_eq!(in_bucket(&there), [marker]);
    assert!(is_empty(state.path()));
}

/// If an object cannot be deleted, the marker stays, so the folder counts as
/// incomplete.
#[test]
fn discarding_ends_at_the_first_failure() {
    let state = tempfile::tempdir().unwrap();
    let there = names(&[]);
    let served = Arc::clone(&there);
    let proxy = Proxy::answering(move |request| {
        match request.method == "DELETE" && request.target.ends_with("/b") {
            true => s3_error("403 Forbidden", "AccessDenied"),
            false => serve(request, &served),
        }
    });
    let claim = take(&proxy, state.path()).unwrap();
    let written = ["a", "b", "c"].map(|name| folder().join(name).unwrap());
    let objects = ["a", "b", "c"].map(|name| format!("folder/{name}"));
    there.lock().unwrap().extend(objects);
    let error = claim.discard(&written).unwrap_err();
    assert!(matches!(error, Error::Denied { .. }), "{error}");
    let marker = format!("folder/{}", FolderClaim::MARKER);
    assert_eq!(in_bucket(&there), [&*marker, "folder/a", "folder/b"]);
    assert!(!is_empty(state.path()));
}

#[test]
fn a_marker_that_cannot_be_deleted_keeps_the_claim() {
    let state = tempfile::tempdir().unwrap();
    let served = names(&[]);
    let proxy = Proxy::answering(move |request| match &*request.method {
        "DELETE" => s3_error("403 Forbidden", "AccessDenied"),
        _ => serve(request, &served),
    });
    let claim = take(&proxy, state.path()).unwrap();
    let error = claim.release().unwrap_err();
    assert!(matches!(error, Error::Denied { .. }), "{error}");
    assert!(!is_empty(state.path()));
}

const GENERATION: &str = "x-goog-generation: 1";

fn google_options(proxy: &Proxy) -> UploadOptions {
    let environment = Environment::from_pairs([
        ("GOOGLE_BASE_URL", format!("http://{}", proxy.address())),
        ("GOOGLE_ALLOW_HTTP", "true".into()),
        // Without a token, the library would request one from the machine's metadata
        // service.
        ("GOOGLE_BEARER_TOKEN", "token".into()),
    ]);
    let mut options = UploadOptions::default();
    options.store = StoreOptions::with_environment(environment);
    options.part_bytes = PART_BYTES as u64;
    options
}

fn address() -> Address {
    Address::parse("gs://bucket/folder/object").unwrap()
}

fn accept(request: &Request) -> Vec<u8> {
    let body = match (request.target.contains("?uploads"), request.completes()) {
        _ if request.method == "HEAD" => return answer("404 Not Found", &[], b""),
        (true, _) => {
            "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"
        }
        (_, true) => {
            "<CompleteMultipartUploadResult><ETag>\"e\"</ETag></CompleteMultipartUploadResult>"
        }
        _ => "",
    };
    answer("200 OK", &["ETag: \"e\"", GENERATION], body.as_bytes())
}

#[test]
fn long_objects_are_sent_in_parts() {
    let proxy = Proxy::answering(accept);
    let mut upload = Upload::begin(&address(), &google_options(&proxy)).unwrap();
    upload.write(&vec![1; 2 * PART_BYTES + 1]).unwrap();
    assert_eq!(upload.finish().unwrap().parts, 3);
    let mut parts: Vec<_> = proxy
        .requests()
        .into_iter()
        .filter(Request::sends_part)
        .collect();
    parts.sort_by(|a, b| a.target.cmp(&b.target));
    for (number, (part, len)) in parts.iter().zip([PART_BYTES, PART_BYTES, 1]).enumerate() {
        let query = format!("?partNumber={}&uploadId=u", number + 1);
        assert!(part.target.ends_with(&query), "{}", part.target);
        assert_eq!(part.body_len, len);
    }
    assert_eq!(parts.len(), 3);
    assert_eq!(proxy.count(Request::completes), 1);
}

#[test]
fn short_objects_are_created_on_condition() {
    let proxy = Proxy::answering(|request| match request.method == "PUT" {
        true => s3_error("412 Precondition Failed", "PreconditionFailed"),
        false => accept(request),
    });
    let mut upload = Upload::begin(&address(), &google_options(&proxy)).unwrap();
    upload.write(b"bytes").unwrap();
    let error = upload.finish().unwrap_err();
    assert!(
        matches!(
            error,
            Error::Exists {
                lost_race: true,
                ..
            }
        ),
        "{error}"
    );
    let requests = proxy.requests();
    let put = requests
        .iter()
        .find(|request| request.method == "PUT")
        .unwrap();
    assert_eq!(put.header("x-goog-if-generation-match"), Some("0"));
    assert_eq!(put.body_len, 5);
}
