//! Tensors with more dimensions than any library supports, and headers with very many
//! tensors: readers refuse the tensor by name, and packing accepts them like any
//! others.

use zstn_core::container::foreign::ztensor::{self, SourceTensor};
use zstn_core::container::model_delta::{self, Base, ModelDelta};
use zstn_core::container::zstn::{pack, unpack};
use zstn_core::dtype::Dtype;
use zstn_core::frame::select::Effort;
use zstn_core::limits::DIMENSIONS;
use zstn_core::pure::Pure;
use zstn_tests::dimensions::{assert_refused, open, safetensors};

/// Returns the file in every format that can contain it.
fn formats(dimensions: usize) -> Vec<Vec<u8>> {
    let file = safetensors(dimensions);
    let packed = pack(&Pure, &file, Effort::Fast).expect("packs");
    let mut target = file.clone();
    *target.last_mut().expect("a byte") ^= 1;
    let base = Base::parse(&file).expect("a base");
    let delta = model_delta::pack(&Pure, &target, &base, Effort::Fast).expect("a delta");
    let shape: Vec<u64> = [3].into_iter().chain([1; 1024]).take(dimensions).collect();
    let entry = SourceTensor::dense("deep", Dtype::U8, &shape);
    let ztensor = ztensor::write(&Pure, &[(entry, b"345")]).expect("a zTensor file");
    vec![file, packed, delta, ztensor]
}

#[test]
fn as_many_dimensions_as_any_library_has_are_read() {
    for file in formats(DIMENSIONS) {
        let catalog = open(file).expect("at the limit");
        let number = catalog.find("deep").expect("listed");
        assert_eq!(catalog.tensors()[number].shape.len(), DIMENSIONS);
    }
}

#[test]
fn more_are_refused_with_the_name_of_the_tensor() {
    for file in formats(DIMENSIONS + 1) {
        assert_refused(&open(file).expect_err("over the limit"));
    }
}

#[test]
fn they_are_packed_tensor_by_tensor_all_the_same() {
    for dimensions in [DIMENSIONS + 1, 3000] {
        let file = safetensors(dimensions);
        let packed = pack(&Pure, &file, Effort::Balanced).expect("packs");
        assert_ne!(packed[5], 0, "not in a single frame");
        assert!(unpack(&Pure, &packed).expect("unpacks") == file);

        let base = Base::parse(&file).expect("a base");
        let delta = model_delta::pack(&Pure, &file, &base, Effort::Fast).expect("a delta");
        let delta = ModelDelta::parse(&delta).expect("a delta");
        assert!(delta.unpack(&Pure, &base).expect("unpacks") == file);
    }
}
