//! Unusable journals, and uploads without a journal.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use zstn_store::{
    Address, Environment, Error, FolderClaim, StoreOptions, Upload, UploadOptions, UploadReport,
};
use zstn_tests::store_proxy::{Proxy, Request, answer};

use crate::answers::s3_error;
use crate::bucket::{PART_BYTES, s3_environment};

/// Starts a server that accepts every part except those in `refused`, numbered in order
/// of arrival.
fn server(refused: std::ops::Range<usize>) -> Proxy {
    let parts = AtomicUsize::new(0);
    Proxy::answering(move |request| {
        if request.method == "HEAD" || request.method == "GET" {
            return answer("404 Not Found", &[], b"");
        }
        let is_refused = || refused.contains(&parts.fetch_add(1, Relaxed));
        if request.sends_part() && is_refused() {
            return s3_error("403 Forbidden", "AccessDenied");
        }
        let body = match (request.target.contains("?uploads"), request.completes()) {
            (true, _) => {
                "<InitiateMultipartUploadResult><UploadId>u</UploadId>\
                 </InitiateMultipartUploadResult>"
            }
            (_, true) if request.method == "POST" => {
                "<CompleteMultipartUploadResult><ETag>\"e\"</ETag>\
                 </CompleteMultipartUploadResult>"
            }
            _ => "",
        };
        answer("200 OK", &["ETag: \"e\""], body.as_bytes())
    })
}

fn store_options(proxy: &Proxy) -> StoreOptions {
    let environment = Environment::from_pairs(s3_environment(&proxy.address()));
    StoreOptions::with_environment(environment)
}

fn options(proxy: &Proxy, folder: &Path) -> UploadOptions {
    let mut options = UploadOptions::default();
    options.store = store_options(proxy);
    options.part_bytes = PART_BYTES as u64;
    options.parts_at_once = 1;
    options.journal_folder = Some(folder.into());
    options
}

fn address() -> Address {
    Address::parse("s3://bucket/object").unwrap()
}

fn upload(options: &UploadOptions) -> Result<UploadReport, Error> {
    let mut upload = Upload::begin(&address(), options)?;
    upload.write(&vec![1; 3 * PART_BYTES])?;
    upload.finish()
}

/// With the part length of the existing parts, an object of the announced length would
/// need too many parts.
#[test]
fn parts_that_an_announced_length_makes_too_short_are_discarded() {
    let folder = tempfile::tempdir().unwrap();
    let proxy = server(1..2);
    let options = options(&proxy, folder.path());
    upload(&options).unwrap_err();

    let mut upload = Upload::begin(&address(), &options).unwrap();
    assert_eq!(upload.unfinished_parts(), 1);
    // Up to 9,000 parts of 5 MiB are planned.
    upload.expect(9_000 * PART_BYTES as u64);
    assert_eq!(upload.unfinished_parts(), 1);
    upload.expect(9_001 * PART_BYTES as u64);
    assert_eq!(upload.unfinished_parts(), 0);
    assert_eq!(proxy.count(|request| request.method == "DELETE"), 1);
    upload.write(&vec![1; 3 * PART_BYTES]).unwrap();
    let report = upload.finish().unwrap();
    assert_eq!((report.parts, report.parts_reused), (3, 0));
    let requests = proxy.requests();
    let parts = requests.iter().filter(|request| request.sends_part());
    let lens: Vec<_> = parts.map(|part| part.body_len).skip(2).collect();
    assert_eq!(lens, [6 << 20, 6 << 20, 3 << 20]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// Returns paths of folders that no user can create, not even the superuser.
fn unusable_folders(file: &Path) -> Vec<std::path::PathBuf> {
    fs::write(file, b"no folder").unwrap();
    let mut folders = vec![file.join("uploads")];
    if cfg!(target_os = "linux") {
        folders.push("/sys/uploads".into());
    }
    folders
}

#[test]
fn a_journal_that_cannot_be_kept_is_an_error_unless_it_is_optional() {
    let temporary = tempfile::tempdir().unwrap();
    for folder in unusable_folders(&temporary.path().join("file")) {
        let proxy = server(0..0);
        let mut options = options(&proxy, &folder);
        let error = upload(&options).unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error}");
        assert_eq!(proxy.count(Request::sends_part), 0);

        options.journal_is_optional = true;
        let report = upload(&options).unwrap();
        assert!(report.is_without_journal);
        assert_eq!(report.parts, 3);
        let mut short = Upload::begin(&address(), &options).unwrap();
        short.write(b"short").unwrap();
        assert!(short.finish().unwrap().is_without_journal);
    }
    let proxy = server(0..0);
    let mut options = options(&proxy, temporary.path());
    options.journal_is_optional = true;
    assert!(!upload(&options).unwrap().is_without_journal);
    options.journal_folder = None;
    assert!(!upload(&options).unwrap().is_without_journal);
}

/// The upload could not be continued, so the parts already sent are discarded.
#[test]
fn an_upload_whose_journal_cannot_be_kept_leaves_nothing() {
    let temporary = tempfile::tempdir().unwrap();
    for folder in unusable_folders(&temporary.path().join("file")) {
        let proxy = server(1..2);
        let mut options = options(&proxy, &folder);
        options.journal_is_optional = true;
        upload(&options).unwrap_err();
        assert_eq!(proxy.count(|request| request.method == "DELETE"), 1);
    }
}

/// The marker excludes other attempts even without a local file.
#[test]
fn a_claim_without_a_local_file_cannot_be_continued() {
    let temporary = tempfile::tempdir().unwrap();
    let usable = temporary.path().join("claims");
    let unusable = unusable_folders(&temporary.path().join("file"));
    for (folder, is_continuable) in unusable
        .iter()
        .map(|folder| (Some(&**folder), false))
        .chain([(None, false), (Some(&*usable), true)])
    {
        let proxy = Proxy::answering(|request| match &*request.method {
            "GET" if request.target.contains("list-type=2") => {
                let body = "<ListBucketResult></ListBucketResult>";
                answer("200 OK", &[], body.as_bytes())
            }
            "GET" | "HEAD" => answer("404 Not Found", &[], b""),
            _ => answer("200 OK", &["ETag: \"e\""], b""),
        });
        let address = Address::parse("s3://bucket/folder").unwrap();
        let claim = FolderClaim::take(&address, folder, &store_options(&proxy)).unwrap();
        assert_eq!(claim.is_continuable(), is_continuable, "{folder:?}");
        let is_marker = |request: &Request| request.method == "PUT";
        assert_eq!(proxy.count(is_marker), 1);
    }
}
