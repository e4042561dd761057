//! Headers with very many dimensions or very many tensors.

use zstn_core::model::ModelBuilder;
use zstn_core::pure::Pure;
use zstn_tests::dimensions::{assert_refused, open, safetensors};
use zstn_tests::memory::{alone, peak_bytes};

#[test]
fn headers_cost_memory_in_proportion() {
    let _alone = alone();
    // Each dimension takes two bytes in the header, but would take eight bytes once
    // parsed.
    let file = safetensors(2_000_000);
    let len = file.len();
    let (result, peak) = peak_bytes(|| open(file));
    assert_refused(&result.expect_err("over the limit"));
    assert!(peak < 3 * len / 2, "{peak} bytes for a header of {len}");

    let entry = |n: usize| format!(r#""{n:07}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}"#);
    let tensors = 50_000;
    let entries: Vec<String> = (0..tensors).map(entry).collect();
    let header = format!("{{{}}}", entries.join(","));
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    drop((header, entries));
    let (model, peak) = peak_bytes(|| {
        let catalog = open(file)?;
        ModelBuilder::new(vec![catalog], None, None)?.finish(&Pure)
    });
    assert_eq!(model.expect("a model").tensors().len(), tensors);
    assert!(peak < 600 * tensors, "{} bytes a tensor", peak / tensors);
}
