//! The peak memory of an upload is a few parts, however long the object is.

use zstn_store::{Address, Environment, StoreOptions, Upload, UploadOptions};
use zstn_tests::allocator::{Counting, peak_bytes};
use zstn_tests::store_proxy::{Proxy, Request, answer};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const PART_BYTES: usize = 5 << 20;

/// Accepts every request.
fn accept(request: &Request) -> Vec<u8> {
    if request.method == "HEAD" {
        return answer("404 Not Found", &[], b"");
    }
    let body = match (request.target.contains("?uploads"), request.completes()) {
        (true, _) => {
            "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"
        }
        (_, true) => {
            "<CompleteMultipartUploadResult><ETag>\"e\"</ETag></CompleteMultipartUploadResult>"
        }
        _ => "",
    };
    answer("200 OK", &["ETag: \"e\""], body.as_bytes())
}

/// Returns the peak memory in bytes of an upload of `parts` parts.
fn peak(parts: usize) -> usize {
    let proxy = Proxy::answering(accept);
    let mut options = UploadOptions::default();
    options.store = StoreOptions::with_environment(Environment::from_pairs([
        ("AWS_ACCESS_KEY_ID", "id"),
        ("AWS_SECRET_ACCESS_KEY", "key"),
        ("AWS_ENDPOINT_URL", &format!("http://{}", proxy.address())),
        ("AWS_ALLOW_HTTP", "true"),
    ]));
    options.part_bytes = PART_BYTES as u64;
    options.parts_at_once = 2;
    let address = Address::parse("s3://bucket/object").unwrap();
    let chunk = vec![1; 1 << 20];
    let (report, peak) = peak_bytes(|| {
        let mut upload = Upload::begin(&address, &options)?;
        for _ in 0..parts * PART_BYTES / chunk.len() {
            upload.write(&chunk)?;
        }
        upload.finish()
    });
    assert_eq!(report.unwrap().parts, parts as u64);
    assert_eq!(proxy.count(Request::sends_part), parts);
    peak
}

#[test]
fn an_upload_holds_a_few_parts() {
    // The client holds two parts in flight and one being filled. The server runs in
    // this process and holds the same two parts, plus one that it has answered but not
    // freed. The client's other buffers are small.
    let limit = (3 + 3) * PART_BYTES + (4 << 20);
    for parts in [4, 40] {
        let peak = peak(parts);
        assert!(peak < limit, "{parts} parts: {peak} bytes of {limit}");
    }
}
