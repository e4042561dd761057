//! Compiles the Rust lines of the tour exactly as they are written there.

use zstn_tests::repository;

#[rustfmt::skip]
fn lines() -> zstn::Result<()> {
// The block begins.
use zstn::{Job, Location, PackOptions, Reader};

let job = Job::new().memory_bytes(512 << 20); // a thread per core
let options = PackOptions::default();
let report = zstn::pack(&job, "model.safetensors", "model.zstn", &options)?;
println!("{} → {} bytes", report.original_bytes(), report.packed_bytes());

let reader = Reader::open(Location::url("https://example.org/model.zstn"))?;
let tensor = reader.read("wte.weight")?;
println!("{} {:?}", tensor.dtype, tensor.shape);
let rows = reader.read_rows("wte.weight", 1000..1010)?; // fetches the blocks that hold them
println!("{:?}", &rows.as_slice::<half::bf16>()?[..8]);
// The block ends.
Ok(())
}

#[test]
fn the_block_is_that_of_this_file() {
    let compiled = include_str!("readme.rs");
    let compiled = compiled.split("// The block begins.\n").nth(1);
    let compiled = compiled.and_then(|rest| rest.split("// The block ends.\n").next());
    let tour = std::fs::read_to_string(repository().join("docs/tour.md")).expect("a tour");
    let shown = tour.split("```rust\n").nth(1);
    let shown = shown.and_then(|rest| rest.split("```\n").next());
    assert!(shown.is_some() && shown == compiled, "{shown:?}");
    // The input file does not exist, so the lines run only until the first error.
    assert!(lines().is_err());
}
